// Lists of fields: what is stored comes back, and every field of a list counts.
#include "runtime/link/client_fields.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <type_traits>

#include <gtest/gtest.h>

#include "runtime/wire/run_fields.h"

namespace gradstream {
namespace {

constexpr size_t kWordCount = 39;

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
  store_run(welcome, words);
  EXPECT_EQ(words[0], 0xa5a5a5a5U) << "a word of no field";
  EXPECT_EQ(words[4], 3U);
  EXPECT_EQ(words[5], 0x55667788U);
  EXPECT_EQ(words[6], 0x11223344U);
  EXPECT_EQ(words[7], static_cast<uint32_t>(gs_MANIFOLD_PRODUCT)) << "a smaller field fills its whole word";
  EXPECT_EQ(words[14], 1U);
  gs_Welcome back = {};
  load_run(words, &back);
  EXPECT_FALSE(is_same_run(welcome, back)) << "the parts are no words";
  back.manifold_parts_count = welcome.manifold_parts_count;
  std::copy(std::begin(welcome.manifold_parts), std::end(welcome.manifold_parts), std::begin(back.manifold_parts));
  EXPECT_TRUE(is_same_run(welcome, back));
  EXPECT_EQ(back.parameters_digest, welcome.parameters_digest);
  EXPECT_EQ(back.rows, welcome.rows);
  EXPECT_EQ(back.correction, welcome.correction);
  EXPECT_EQ(back.version, 0U) << "a field of no list";
}

TEST(ClientFields, AFlagIsTrueForAnyWordButZero) {
  uint32_t words[kWordCount] = {};
  words[14] = 0x200;
  gs_Welcome welcome = {};
  load_run(words, &welcome);
  EXPECT_TRUE(welcome.shared_directions);
  EXPECT_FALSE(welcome.error_feedback);
}

TEST(ClientFields, EveryFieldOfARunCounts) {
  const gs_Welcome welcome = some_welcome();
  EXPECT_TRUE(is_same_run(welcome, some_welcome()));
  size_t count = 0;
  visit_run_fields(welcome, welcome, [&](const auto&, const auto&) { ++count; });
  for (size_t i = 0; i < count; ++i) {
    gs_Welcome other = welcome;
    size_t at = 0;
    visit_run_fields(other, other, [&](auto& field, const auto&) {
      const uint32_t turned = static_cast<uint32_t>(field) ^ 1;
      field = at++ == i ? static_cast<std::remove_reference_t<decltype(field)>>(turned) : field;
    });
    EXPECT_FALSE(is_same_run(welcome, other)) << "field " << i;
  }
  gs_Welcome other_digest = welcome;
  other_digest.parameters_digest ^= uint64_t{1} << 40;
  EXPECT_FALSE(is_same_run(welcome, other_digest));
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
  other.journal_sequence = 12;
  other.journal_chain = 13;
  EXPECT_TRUE(is_same_run(welcome, other));
}

// A field that comes to a part does not compile here: it belongs into kPartFields.
TEST(ClientFields, EveryFieldOfAPartIsNamed) {
  gs_ManifoldPart part = {};
  auto& [manifold, rows, cols, retraction, transport, rank] = part;
  const std::set<const void*> fields{&manifold, &rows, &cols, &retraction, &transport, &rank};
  EXPECT_EQ(std::size(kPartFields), fields.size());
}

TEST(ClientFields, NoTwoFieldsOfARunShareAWord) {
  // Each word is written by one field alone: with one number set, no other word is set.
  const gs_Welcome none = {};
  size_t count = 0;
  visit_run_fields(none, none, [&](const auto&, const auto&) { ++count; });
  std::set<size_t> taken;
  for (size_t i = 0; i < count; ++i) {
    gs_Welcome welcome = {};
    size_t at = 0;
    visit_run_fields(welcome, welcome, [&](auto& field, const auto&) {
      field = static_cast<std::remove_reference_t<decltype(field)>>(at++ == i ? 1 : 0);
    });
    uint32_t words[kWordCount] = {};
    store_run(welcome, words);
    EXPECT_EQ(std::count(std::begin(words), std::end(words), 1U), 1) << "field " << i;
    taken.insert(static_cast<size_t>(std::find(std::begin(words), std::end(words), 1U) - std::begin(words)));
  }
  EXPECT_EQ(taken.size(), count);
  EXPECT_EQ(taken.count(5) + taken.count(6), 0U) << "the digest's";
}

}  // namespace
}  // namespace gradstream
