// Lists of fields: what is stored comes back, every field of a list counts, and no field of a Welcome is in no list.
#include "runtime/link/client_fields.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr size_t kWordCount = 36;

gs_Welcome some_welcome() {
  gs_Welcome welcome = {};
  welcome.run = 3;
  welcome.parameters_digest = 0x1122334455667788ULL;
  welcome.manifold = gs_MANIFOLD_PRODUCT;
  welcome.retraction = gs_Retraction_RETRACTION_EXPONENTIAL;
  welcome.rows = 70000;
  welcome.cols = 1;
  welcome.stream = gs_STREAM_KIND_SCALAR;
  welcome.directions = gs_Directions_DIRECTIONS_SIGN;
  welcome.shared_directions = true;
  welcome.seed = 0x80000001;
  welcome.direction_count = 16;
  welcome.model_parts = 24;
  welcome.correction = gs_Correction_CORRECTION_MEMORY;
  welcome.fold_scale_log2 = 20;
  welcome.error_feedback = true;
  welcome.manifold_parts_count = 2;
  welcome.manifold_parts[1] = {gs_MANIFOLD_FIXED_RANK,         64, 16, gs_Retraction_RETRACTION_DEFAULT,
                               gs_Transport_TRANSPORT_DEFAULT, 4};
  return welcome;
}

// Changes the first byte of the field; a flag is turned.
template <typename Object>
Object with_other(const WordField& field, Object object) {
  auto* const bytes = reinterpret_cast<uint8_t*>(&object) + field.offset;
  *bytes ^= 1;
  return object;
}

TEST(ClientFields, WhatIsStoredComesBack) {
  const gs_Welcome welcome = some_welcome();
  uint32_t words[kWordCount];
  std::fill_n(words, kWordCount, 0xa5a5a5a5U);
  store_fields(kRunFields, &welcome, words);
  EXPECT_EQ(words[0], 0xa5a5a5a5U) << "a word of no field";
  EXPECT_EQ(words[4], 3U);
  EXPECT_EQ(words[5], 0x55667788U);
  EXPECT_EQ(words[6], 0x11223344U);
  EXPECT_EQ(words[7], static_cast<uint32_t>(gs_MANIFOLD_PRODUCT)) << "a smaller field fills its whole word";
  EXPECT_EQ(words[14], 1U);
  gs_Welcome back = {};
  load_fields(kRunFields, words, &back);
  EXPECT_TRUE(are_fields_equal(kRunFields, &welcome, &back));
  EXPECT_EQ(back.parameters_digest, welcome.parameters_digest);
  EXPECT_EQ(back.rows, welcome.rows);
  EXPECT_EQ(back.correction, welcome.correction);
  EXPECT_EQ(back.manifold_parts_count, 0U) << "a field of no list";
}

TEST(ClientFields, AFlagIsTrueForAnyWordButZero) {
  uint32_t words[kWordCount] = {};
  words[14] = 0x200;
  gs_Welcome welcome = {};
  load_fields(kRunFields, words, &welcome);
  EXPECT_TRUE(welcome.shared_directions);
  EXPECT_FALSE(welcome.error_feedback);
}

TEST(ClientFields, EveryFieldOfARunCounts) {
  const gs_Welcome welcome = some_welcome();
  EXPECT_TRUE(is_same_run(welcome, some_welcome()));
  for (const WordField& field : kRunFields) {
    EXPECT_FALSE(is_same_run(welcome, with_other(field, welcome))) << "word " << int{field.word};
  }
  for (const WordField& field : kPartFields) {
    gs_Welcome other = welcome;
    other.manifold_parts[1] = with_other(field, welcome.manifold_parts[1]);
    EXPECT_FALSE(is_same_run(welcome, other)) << "field " << int{field.word} << " of a part";
  }
  gs_Welcome fewer = welcome;
  fewer.manifold_parts_count = 1;
  EXPECT_FALSE(is_same_run(welcome, fewer));
  fewer.manifold_parts[1].rows = 1;
  gs_Welcome other = fewer;
  other.manifold_parts[1].rows = 2;
  EXPECT_TRUE(is_same_run(fewer, other)) << "parts beyond their number do not count";
}

TEST(ClientFields, WhatMayChangeWithinARunDoesNotCount) {
  const gs_Welcome welcome = some_welcome();
  gs_Welcome other = welcome;
  other.server_time_ms = 1;
  other.run_state = gs_RunState_RUN_STATE_PAUSED;
  other.version = 9;
  other.client_index = 5;
  other.group = 2;
  other.abandoned = true;
  other.network_digest = 77;
  EXPECT_TRUE(is_same_run(welcome, other));
}

// A field that comes to the message does not compile here: say in kRunFields, or in the test above, what it is.
TEST(ClientFields, EveryFieldOfTheMessagesIsNamed) {
  gs_Welcome welcome = {};
  auto& [server_time, run, run_state, digest, version, manifold, rows, cols, stream, directions, shared, seed, count,
         client_index, group, abandoned, retraction, transport, correction, scale, model_parts, feedback, part_count,
         parts, network] = welcome;
  const size_t changing =
      std::set<const void*>{&server_time, &run_state, &version, &client_index, &group, &abandoned, &network}.size();
  const size_t of_parts = std::set<const void*>{&part_count, &parts}.size();
  const size_t of_run =
      std::set<const void*>{&run,  &digest, &manifold,   &rows,      &cols,       &stream, &directions,  &shared,
                            &seed, &count,  &retraction, &transport, &correction, &scale,  &model_parts, &feedback}
          .size();
  EXPECT_EQ(changing + of_parts + of_run, 25U);
  EXPECT_EQ(std::size(kRunFields), of_run);
  gs_ManifoldPart part = {};
  auto& [part_manifold, part_rows, part_cols, part_retraction, part_transport, rank] = part;
  const std::set<const void*> of_part{&part_manifold, &part_rows, &part_cols, &part_retraction, &part_transport, &rank};
  EXPECT_EQ(std::size(kPartFields), of_part.size());
}

TEST(ClientFields, NoTwoFieldsOfAListShareAWord) {
  std::set<uint32_t> words;
  size_t wanted = 0;
  for (const WordField& field : kRunFields) {
    for (uint32_t i = 0; i < (field.size > 4 ? 2U : 1U); ++i, ++wanted) {
      words.insert(field.word + i);
    }
  }
  EXPECT_EQ(words.size(), wanted);
  EXPECT_LT(*words.rbegin(), kWordCount);
}

}  // namespace
}  // namespace gradstream
