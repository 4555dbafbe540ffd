#include "server/program/device_psk.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr uint64_t kWindowEndMs = 5'000;

EnrolledDevice rotated() {
  EnrolledDevice device;
  device.index = 7;
  device.name = "kitchen";
  device.generation = 2;
  device.key.fill(2);
  device.previous_key.fill(1);
  device.previous_until_ms = kWindowEndMs;
  return device;
}

TEST(DevicePsk, TheKeyOfNowCounts) {
  PskEntry entry;
  ASSERT_TRUE(find_key(rotated(), 2, kWindowEndMs, &entry));
  EXPECT_EQ(entry.refusal, PskRefusal::kNone);
  EXPECT_EQ(entry.device, 7U);
  EXPECT_EQ(entry.key, rotated().key);
}

TEST(DevicePsk, TheKeyBeforeCountsForItsWindow) {
  PskEntry entry;
  ASSERT_TRUE(find_key(rotated(), 1, kWindowEndMs - 1, &entry));
  EXPECT_EQ(entry.refusal, PskRefusal::kNone);
  EXPECT_EQ(entry.key, rotated().previous_key);
  ASSERT_TRUE(find_key(rotated(), 1, kWindowEndMs, &entry));
  EXPECT_EQ(entry.refusal, PskRefusal::kExpired);
  EXPECT_EQ(entry.key, rotated().key);
  ASSERT_TRUE(find_key(rotated(), 0, 0, &entry));
  EXPECT_EQ(entry.refusal, PskRefusal::kExpired);
}

TEST(DevicePsk, AKeyThatIsYetToComeIsUnknown) {
  PskEntry entry;
  EXPECT_FALSE(find_key(rotated(), 3, 0, &entry));
}

TEST(DevicePsk, TheStateComesBeforeTheKey) {
  EnrolledDevice device = rotated();
  PskEntry entry;
  device.state = DeviceState::kRevoked;
  ASSERT_TRUE(find_key(device, 0, 0, &entry));
  EXPECT_EQ(entry.refusal, PskRefusal::kRevoked);
  for (const DeviceState state : {DeviceState::kPending, DeviceState::kDisabled}) {
    device.state = state;
    ASSERT_TRUE(find_key(device, 2, 0, &entry));
    EXPECT_EQ(entry.refusal, PskRefusal::kInactive);
  }
}

}  // namespace
}  // namespace gradstream
