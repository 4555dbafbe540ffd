// The health tests of a raw entropy source: what they must catch, at which bit, and that a good source passes.
#include "boards/entropy_health.h"

#include <gtest/gtest.h>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

TEST(EntropyHealth, AStuckSourceFailsAtTheCutOff) {
  EntropyHealth health;
  for (uint32_t i = 1; i < EntropyHealth::kRepetitionCountMax; ++i) {
    ASSERT_TRUE(health.add(true)) << i;
  }
  EXPECT_FALSE(health.add(true));
  EXPECT_FALSE(health.add(false)) << "a failure stays";
  EXPECT_TRUE(health.has_failed());
}

// A one in every 160 bits never repeats long enough; in 1,024 bits there are far too few of them.
TEST(EntropyHealth, ABiasedSourceFailsByItsProportion) {
  EntropyHealth health;
  uint32_t count = 0;
  while (health.add(count % 160 == 159) && count < EntropyHealth::kWindowSize) {
    ++count;
  }
  EXPECT_TRUE(health.has_failed());
  EXPECT_GE(count, EntropyHealth::kProportionMax - 1);
}

TEST(EntropyHealth, AGoodSourcePassesAndStartsAfterItsFirstBits) {
  EntropyHealth health;
  RandomStream stream({.seed = 7});
  uint32_t started_at = 0;
  for (uint32_t i = 0; i < 200000; ++i) {
    ASSERT_TRUE(health.add((stream.next() & 1) != 0)) << i;
    started_at += health.is_started() ? 0 : 1;
  }
  EXPECT_EQ(started_at, EntropyHealth::kStartUpCount - 1);
}

}  // namespace
}  // namespace gradstream
