#include "server/rules/weight_sum.h"

#include <gtest/gtest.h>

#include "server/run/limits.h"

namespace gradstream {
namespace {

TEST(WeightSum, EffectiveStepsDoNotDependOnOrder) {
  WeightSum forward;
  WeightSum backward;
  for (uint32_t i = 0; i < 100; ++i) {
    forward.add(static_cast<uint16_t>(1 + i * 131), 1 + i % 7);
    backward.add(static_cast<uint16_t>(1 + (99 - i) * 131), 1 + (99 - i) % 7);
  }
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(forward.effective_steps(), backward.effective_steps());
  EXPECT_EQ(forward.update_count(), 100U);
  WeightSum simple;
  simple.add(1, 2);
  simple.add(3, 4);
  EXPECT_EQ(simple.total(), 4U);
  EXPECT_EQ(simple.effective_steps(), 3.5F);
}

// 2^31 updates, doubled from one: no number of theirs overflows, and one more is refused.
TEST(WeightSum, IsFullAtTheFoldsLimit) {
  for (const uint32_t steps : {256U, UINT32_MAX}) {
    WeightSum one;
    one.add(65535, steps);
    WeightSum sum = one;
    while (sum.update_count() < kFoldUpdateCountMax) {
      EXPECT_FALSE(sum.is_full());
      const WeightSum half = sum;
      ASSERT_EQ(sum.check(half), Status::kOk);
      sum.add(half);
    }
    EXPECT_TRUE(sum.is_full());
    EXPECT_EQ(sum.total(), 65535ULL << 31);
    EXPECT_EQ(sum.effective_steps(), static_cast<Real>(steps));
    EXPECT_EQ(sum.check(one), Status::kOutOfRange);
    EXPECT_EQ(sum.check(sum), Status::kOutOfRange);
    EXPECT_EQ(sum.check(WeightSum()), Status::kOk);
  }
}

bool reads(uint64_t total, uint32_t count, uint64_t steps_low, int64_t steps_high) {
  StateArchive out;
  out.values(total, count, steps_low, steps_high);
  const std::vector<uint8_t> bytes = out.take_bytes();
  StateArchive in(bytes);
  WeightSum sum;
  sum.exchange(in);
  return in.is_sound() && in.is_at_end();
}

TEST(WeightSum, ReadsWhatUpdatesMakeAndNothingElse) {
  EXPECT_TRUE(reads(0, 0, 0, 0));
  EXPECT_TRUE(reads(2, 2, 2, 0));
  EXPECT_TRUE(reads(2 * 65535, 2, 2 * 65535 * uint64_t{UINT32_MAX}, 0));
  EXPECT_TRUE(reads(65535ULL << 31, kFoldUpdateCountMax, 0, 16));
  EXPECT_FALSE(reads(1, 0, 1, 0));                                          // a weight of nobody
  EXPECT_FALSE(reads(0, 0, 1, 0));                                          // steps of nobody
  EXPECT_FALSE(reads(1, 2, 2, 0));                                          // a weight of 0
  EXPECT_FALSE(reads(2 * 65535 + 1, 2, 1 << 20, 0));                        // a weight of 17 bits
  EXPECT_FALSE(reads(2, 2, 1, 0));                                          // an update without a step
  EXPECT_FALSE(reads(2, 2, 2ULL << 32, 0));                                 // more steps than 32 bits count
  EXPECT_FALSE(reads(2, 2, 2, 1));                                          // far more
  EXPECT_FALSE(reads(2, 2, 2, -1));                                         // less than none
  EXPECT_FALSE(reads(1ULL << 32, kFoldUpdateCountMax + 1, 1ULL << 32, 0));  // too many updates
}

}  // namespace
}  // namespace gradstream
