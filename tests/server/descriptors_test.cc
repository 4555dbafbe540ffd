// What the limit of open files leaves for devices.
#include "server/base/descriptors.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gradstream {
namespace {

TEST(Descriptors, WhatIsNoDevicesIsKept) {
  EXPECT_EQ(device_descriptors(1000, 20, {}), 1000 - 20 - kDescriptorReserve);
  EXPECT_EQ(device_descriptors(1000, 20, {1, 32}), 1000 - 20 - kDescriptorReserve - 32);
  EXPECT_EQ(device_descriptors(1000, 20, {4, 32}), 1000 - 20 - kDescriptorReserve - 32 - 4 * kThreadDescriptors);
  EXPECT_EQ(device_descriptors(20 + kDescriptorReserve + 8, 20, {1, 32}), 6U) << "a quarter for HTTP";
  EXPECT_EQ(device_descriptors(20 + kDescriptorReserve + 3, 20, {1, 32}), 2U) << "one for HTTP";
  EXPECT_EQ(device_descriptors(3, 20, {1, 32}), 2U) << "never none";
  EXPECT_EQ(device_descriptors(UINT64_MAX, 20, {}), UINT32_MAX) << "no limit";
}

TEST(Descriptors, TheOpenOnesAreCounted) {
  const uint64_t before = open_descriptors();
  const int copy = dup(2);
  ASSERT_GE(copy, 0);
  EXPECT_EQ(open_descriptors(), before + 1);
  close(copy);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Descriptors, TheLimitIsRaisedWhereThatHelps) {
  const uint64_t limit = descriptor_limit();
  EXPECT_EQ(raise_descriptor_limit(1), limit);
  EXPECT_GE(raise_descriptor_limit(UINT64_MAX), limit);
}

}  // namespace
}  // namespace gradstream
