// Which samples are held out, and which ones losses are compared on.
#include "runtime/problem/holdout.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Holdout, IsByTheNumberAlone) {
  for (uint32_t index = 0; index < 65535; ++index) {
    const auto place = static_cast<uint32_t>((uint64_t{index} * 2654435769U & 0xffffffffU) >> 16);
    ASSERT_EQ(is_held_out(index, 6554), place < 6554) << index;
    ASSERT_FALSE(is_held_out(index, 0)) << index;
    ASSERT_TRUE(is_held_out(index, 65536)) << index;
  }
}

TEST(Holdout, TheShareIsKeptInAnyStretch) {
  for (const uint32_t first : {0U, 100U, 30000U}) {
    uint32_t count = 0;
    for (uint32_t index = first; index < first + 200; ++index) {
      count += is_held_out(index, 16384) ? 1 : 0;
    }
    EXPECT_NEAR(count, 50, 3);
  }
}

TEST(Holdout, EvaluationSamplesAreTheFirstOnesLeft) {
  uint16_t indices[kEvaluationSampleMax];
  EXPECT_EQ(fill_evaluation_samples(10, 0, indices), 10U);
  EXPECT_EQ(indices[9], 9U);
  ASSERT_EQ(fill_evaluation_samples(1000, 32768, indices), kEvaluationSampleMax);
  uint32_t next = 0;
  for (const uint16_t index : indices) {
    for (; next < index; ++next) {
      EXPECT_TRUE(is_held_out(next, 32768)) << next;
    }
    EXPECT_FALSE(is_held_out(index, 32768)) << index;
    ++next;
  }
  EXPECT_EQ(fill_evaluation_samples(0, 0, indices), 0U);
  EXPECT_EQ(fill_evaluation_samples(1000, 65536, indices), 0U);
}

}  // namespace
}  // namespace gradstream
