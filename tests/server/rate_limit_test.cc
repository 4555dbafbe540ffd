#include "server/base/rate_limit.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// 1.7e12 ms: a date of today, as the coordinator counts.
constexpr uint64_t kNowMs = 1'700'000'000'000;

uint32_t admitted(RateMeter& meter, const RateLimit& limit, uint64_t now_ms, uint32_t events) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < events; ++i) {
    count += meter.admit(limit, now_ms) ? 1 : 0;
  }
  return count;
}

TEST(RateLimit, TakesABurstAndThenItsRate) {
  const RateLimit limit = {10, 5};
  RateMeter meter;
  EXPECT_EQ(admitted(meter, limit, kNowMs, 100), 5U);
  EXPECT_EQ(admitted(meter, limit, kNowMs + 99, 100), 0U);
  EXPECT_EQ(admitted(meter, limit, kNowMs + 100, 100), 1U);
  EXPECT_EQ(admitted(meter, limit, kNowMs + 400, 100), 3U);
  EXPECT_EQ(admitted(meter, limit, kNowMs + 3'600'000, 100), 5U) << "an hour of rest saves no more than a burst";
}

TEST(RateLimit, AFloodForAMinuteGetsItsRate) {
  const RateLimit limit = {500, 1000};
  RateMeter meter;
  uint32_t count = 0;
  for (uint32_t ms = 0; ms < 60'000; ++ms) {
    count += admitted(meter, limit, kNowMs + ms, 20);
  }
  EXPECT_NEAR(count, 1000 + 60 * 500, 1);
}

TEST(RateLimit, WithoutALimitEverythingMay) {
  RateMeter meter;
  EXPECT_EQ(admitted(meter, {}, kNowMs, 1000), 1000U);
  EXPECT_EQ(admitted(meter, {1, 1}, kNowMs, 1000), 1U) << "and nothing of it was counted";
}

}  // namespace
}  // namespace gradstream
