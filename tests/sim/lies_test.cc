// A liar says what its lie is, in the upload's own encoding and with its checksum, and says it again.
#include "sim/lies.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

constexpr uint32_t bit(Lie lie) { return 1U << static_cast<uint32_t>(lie); }
constexpr uint32_t kAll = (1U << kLieCount) - 1;
const std::vector<Real> kTruth = {0.5F, -0.25F, 0.001F, 0};

// An upload of these values, of 2 steps along 2 directions.
DeviceMessage scalars(uint32_t version, Encoding encoding = Encoding::kF32) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_update_scalars_tag;
  gs_UpdateScalars& update = message.body.update_scalars;
  update.base_version = version;
  update.steps_done = update.direction_count = 2;
  update.value_count = 4;
  update.encoding = static_cast<gs_Encoding>(encoding);
  update.values.size = static_cast<pb_size_t>(encoded_size(encoding, kTruth.size()));
  update.loss_before = -0.5F;
  update.loss_after = -0.6F;
  EXPECT_EQ(encode_values(encoding, kTruth.size(), kTruth.data(), update.values.bytes), Status::kOk);
  update.crc32c = crc32c(0, update.values.bytes, update.values.size);
  return message;
}

DeviceMessage tangent(Encoding encoding, const std::vector<uint8_t>& bytes, uint32_t value_count) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_update_tangent_tag;
  gs_UpdateTangent& update = message.body.update_tangent;
  update.encoding = static_cast<gs_Encoding>(encoding);
  update.value_count = value_count;
  update.values.size = static_cast<pb_size_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), update.values.bytes);
  return message;
}

bool has_own_checksum(const gs_UpdateScalars& update) {
  return update.crc32c == crc32c(0, update.values.bytes, update.values.size);
}

TEST(Lies, ValuesAreReadAndWrittenInTheUploadsEncoding) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    DeviceMessage message = scalars(3, encoding);
    EXPECT_NEAR(upload_values(message)[0], 0.5, 0.01);
    set_upload_values(std::vector<Real>{1, 2, 4, -8}, &message);
    EXPECT_NEAR(upload_values(message)[3], -8, 0.1);
    EXPECT_TRUE(has_own_checksum(message.body.update_scalars));
  }
}

TEST(Lies, OtherMessagesHaveNoValues) {
  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  EXPECT_TRUE(upload_values(hello).empty());
  EXPECT_TRUE(upload_values(tangent(Encoding::kWords, std::vector<uint8_t>(16), 2)).empty());
  EXPECT_TRUE(upload_values(tangent(Encoding::kF32, std::vector<uint8_t>(16), 8)).empty()) << "a piece of two";
}

TEST(Lies, EachLieIsWhatItsNameSays) {
  DeviceMessage message = scalars(3);
  Liar(1, bit(Lie::kSize)).tell(&message);
  EXPECT_EQ(upload_values(message), (std::vector<Real>{kLieMax, -kLieMax, 1, 0})) << "no value beyond the bound";
  EXPECT_TRUE(has_own_checksum(message.body.update_scalars));

  message = scalars(3);
  Liar(1, bit(Lie::kSign)).tell(&message);
  EXPECT_EQ(upload_values(message), (std::vector<Real>{-0.5F, 0.25F, -0.001F, 0}));
  EXPECT_EQ(message.body.update_scalars.loss_after, -0.6F) << "it tells no other lie";

  message = scalars(3);
  Liar(1, bit(Lie::kNoise)).tell(&message);
  const std::vector<Real> noise = upload_values(message);
  EXPECT_TRUE(std::all_of(noise.begin(), noise.end(), [](Real v) { return std::fabs(v) <= kLieMax && v != 0; }));

  message = scalars(3);
  Liar(1, bit(Lie::kLoss)).tell(&message);
  EXPECT_EQ(upload_values(message), kTruth);
  EXPECT_EQ(message.body.update_scalars.loss_before, -500);
  EXPECT_LT(message.body.update_scalars.loss_after, 0);

  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  hello.body.hello.sample_count = 7;
  Liar(1, kAll & ~bit(Lie::kSamples)).tell(&hello);
  EXPECT_EQ(hello.body.hello.sample_count, 7U);
  Liar(1, bit(Lie::kSamples)).tell(&hello);
  EXPECT_EQ(hello.body.hello.sample_count, kLieSamples);
}

// Else a repeated upload would be another one, and a run's digest would depend on its schedule.
TEST(Lies, TheSameUploadHasTheSameLieWhateverWasSaidBefore) {
  Liar first(1, kAll), second(1, kAll);
  for (uint32_t version = 0; version < 20; ++version) {
    DeviceMessage ahead = scalars(19 - version);
    second.tell(&ahead);
  }
  for (uint32_t version = 0; version < 20; ++version) {
    DeviceMessage one = scalars(version), other = scalars(version);
    first.tell(&one);
    second.tell(&other);
    EXPECT_EQ(upload_values(one), upload_values(other)) << version;
  }
  const LieCounts& counts = first.counts();
  EXPECT_EQ(counts[static_cast<size_t>(Lie::kSize)] + counts[static_cast<size_t>(Lie::kNoise)] +
                counts[static_cast<size_t>(Lie::kSign)],
            20U);
  for (const Lie lie : {Lie::kSize, Lie::kNoise, Lie::kSign}) {
    EXPECT_GT(counts[static_cast<size_t>(lie)], 0U) << kLieNames[static_cast<size_t>(lie)];
  }
  DeviceMessage one = scalars(0), other = scalars(0);
  Liar(1, bit(Lie::kNoise)).tell(&one);
  Liar(2, bit(Lie::kNoise)).tell(&other);
  EXPECT_NE(upload_values(one), upload_values(other)) << "of another seed";
}

TEST(Lies, StagesGetSlopesTrialsAndExponentsThatNobodyHas) {
  DeviceMessage training = scalars(3);
  training.body.update_scalars.line = {.slope = 2, .curvature = -1};
  tell_stage_lies(&training);
  EXPECT_EQ(training.body.update_scalars.line.slope, -2e6F - 1e3F);
  EXPECT_EQ(upload_values(training), kTruth);

  std::vector<uint8_t> bytes(3 * sizeof(int64_t));
  const int64_t words[] = {1, -3, 4};
  store_long_words(3, words, bytes.data());
  DeviceMessage exponents = tangent(Encoding::kWords, bytes, 3);
  tell_stage_lies(&exponents);
  int64_t told[3];
  load_long_words(3, exponents.body.update_tangent.values.bytes, told);
  EXPECT_EQ(told[0], 1);
  EXPECT_EQ(told[1], 100);
  EXPECT_EQ(told[2], 100);

  const std::vector<Real> changes(32, -0.5F);
  std::vector<uint8_t> trial_bytes(encoded_size(Encoding::kF32, changes.size()));
  ASSERT_EQ(encode_values(Encoding::kF32, changes.size(), changes.data(), trial_bytes.data()), Status::kOk);
  DeviceMessage trials = tangent(Encoding::kF32, trial_bytes, 32);
  tell_stage_lies(&trials);
  EXPECT_EQ(upload_values(trials)[31], 5e5F - 1e3F);
}

}  // namespace
}  // namespace gradstream
