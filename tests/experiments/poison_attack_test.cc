// Attackers say what their attack is, from the honest uploads of the same version; honest devices are left alone.
#include "experiments/papers/poison_attack.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"
#include "runtime/training/encoding.h"
#include "sim/lies.h"

namespace gradstream {
namespace {

constexpr uint32_t kDevices = 4;  // the last one attacks
constexpr uint32_t kSeed = 1;

DeviceMessage upload(uint32_t version, const std::vector<Real>& values) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_update_scalars_tag;
  gs_UpdateScalars& update = message.body.update_scalars;
  update.base_version = version;
  update.value_count = static_cast<uint32_t>(values.size());
  update.encoding = static_cast<gs_Encoding>(kRealEncoding);
  update.values.size = static_cast<pb_size_t>(encoded_size(kRealEncoding, values.size()));
  set_upload_values(values, &message);
  return message;
}

// What the attacker says of `own` after three honest devices have said (1, 0), (2, 0) and (3, 0).
std::vector<Real> said(Attack attack, const std::vector<Real>& own, uint32_t seed = kSeed) {
  Attackers attackers(attack, 1, kDevices, seed);
  for (uint32_t device = 0; device + 1 < kDevices; ++device) {
    const std::vector<Real> honest = {static_cast<Real>(device + 1), 0};
    DeviceMessage message = upload(5, honest);
    attackers.hear(device, &message);
    EXPECT_EQ(upload_values(message), honest);
  }
  DeviceMessage message = upload(5, own);
  attackers.hear(kDevices - 1, &message);
  EXPECT_EQ(message.body.update_scalars.crc32c,
            crc32c(0, message.body.update_scalars.values.bytes, message.body.update_scalars.values.size));
  return upload_values(message);
}

TEST(PoisonAttack, EachIsWhatItsNameSays) {
  const std::vector<Real> own = {4, -8};
  EXPECT_EQ(said(Attack::kNone, own), own);
  EXPECT_EQ(said(Attack::kZeros, own), (std::vector<Real>{0, 0}));
  EXPECT_EQ(said(Attack::kFlip, own), (std::vector<Real>{-4, 8}));
  EXPECT_EQ(said(Attack::kMimic, own), (std::vector<Real>{1, 0}));
  EXPECT_EQ(said(Attack::kIpm, own), (std::vector<Real>{-20, 0}));
  EXPECT_NEAR(said(Attack::kAlie, own)[0], 2 - 1.5 * std::sqrt(2.0 / 3), 1e-6);
  EXPECT_EQ(said(Attack::kStages, own), own) << "no stage";
}

TEST(PoisonAttack, NoiseIsOfTheSeed) {
  const std::vector<Real> own(100);
  const std::vector<Real> noise = said(Attack::kNoise, own);
  double square = 0;
  for (const Real value : noise) {
    square += static_cast<double>(value) * static_cast<double>(value) / 100;
  }
  EXPECT_NEAR(std::sqrt(square), 100, 30);
  EXPECT_EQ(said(Attack::kNoise, own), noise);
  EXPECT_NE(said(Attack::kNoise, own, 2), noise);
}

TEST(PoisonAttack, ZerosClaimTheMostSamplesAndHonestDevicesTheirOwn) {
  Attackers attackers(Attack::kZeros, 1, kDevices, kSeed);
  for (uint32_t device = 0; device < kDevices; ++device) {
    DeviceMessage hello = {};
    hello.which_body = gs_DeviceMessage_hello_tag;
    hello.body.hello.sample_count = 7;
    attackers.hear(device, &hello);
    EXPECT_EQ(hello.body.hello.sample_count, device + 1 == kDevices ? 65535U : 7U);
  }
}

}  // namespace
}  // namespace gradstream
