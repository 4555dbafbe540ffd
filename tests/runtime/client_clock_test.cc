// The clock of a client's sessions: which windows a wait is drawn from, and what no wait may break.
#include "runtime/link/client_clock.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr uint64_t kNow = 5000;
constexpr uint32_t kLeastMs = 1000;  // after a failure

TEST(ClientClock, AWaitIsWithinItsWindow) {
  SessionClock clock(17);
  std::set<uint32_t> waits;
  for (uint32_t i = 0; i < 300; ++i) {
    const uint32_t wait = clock.end_exchange({10, 13}, kNow);
    EXPECT_EQ(clock.wake_ms(), kNow + wait);
    waits.insert(wait);
  }
  EXPECT_EQ(waits, (std::set<uint32_t>{10, 11, 12, 13}));
  EXPECT_EQ(clock.end_exchange({0, 0}, kNow), 0U);
  EXPECT_EQ(clock.end_exchange({9, 3}, kNow), 3U) << "the most of a window wins";
  EXPECT_EQ(clock.end_exchange({UINT32_MAX, UINT32_MAX}, kNow), kRetryWindowMaxMs);
}

TEST(ClientClock, DrawsDependOnSeedAndNumber) {
  SessionClock a(1);
  SessionClock b(1);
  SessionClock c(2);
  uint32_t different = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    const uint32_t wait = a.end_exchange({0, 1000000}, kNow);
    EXPECT_EQ(b.end_exchange({0, 1000000}, kNow), wait);
    different += c.end_exchange({0, 1000000}, kNow) != wait ? 1U : 0U;
  }
  EXPECT_EQ(different, 20U);
}

// The longest of many waits after so many failures in a row, one each failing_ms.
uint64_t longest_wait(uint32_t failures, bool was_reached, uint32_t window_max_ms, uint64_t failing_ms = 60000) {
  uint64_t longest = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SessionClock clock(seed);
    clock.end_exchange({0, window_max_ms}, kNow);
    uint64_t now_ms = kNow;
    for (uint32_t i = 0; i < failures; ++i) {
      now_ms += failing_ms;
      clock.back_off(was_reached, kLeastMs, now_ms);
    }
    EXPECT_GE(clock.wake_ms(), now_ms + 1000);
    longest = std::max(longest, clock.wake_ms() - now_ms);
  }
  return longest;
}

TEST(ClientClock, FailuresDoubleTheWindowThreeTimes) {
  for (uint32_t failures = 1; failures <= 5; ++failures) {
    SCOPED_TRACE(failures);
    const uint64_t most = 1000U << std::min(failures, 3U);
    const uint64_t longest = longest_wait(failures, true, 60000);
    EXPECT_LE(longest, most);
    EXPECT_GT(longest, most * 9 / 10);
  }
}

// Three failures within three seconds are no reason for a wait of eight.
TEST(ClientClock, AWaitIsNoLongerThanTheFailuresHaveLasted) {
  EXPECT_LE(longest_wait(3, true, 500, 0), 2000U);
  EXPECT_LE(longest_wait(3, true, 500, 1500), 3000U);
  EXPECT_GT(longest_wait(3, true, 500, 1500), 2900U);
  EXPECT_LE(longest_wait(9, true, 500, 700), 5600U);
  EXPECT_GT(longest_wait(9, true, 500, 1500), 7600U) << "the longest";
}

TEST(ClientClock, AServerThatIsAwayIsMetAsItSpreadItsDevicesLast) {
  EXPECT_GT(longest_wait(1, false, 60000), 50000U);
  EXPECT_LE(longest_wait(1, false, 500), 2000U) << "never less than after any failure";
}

TEST(ClientClock, SuccessMakesTheNextFailureTheFirst) {
  SessionClock clock(3);
  for (uint32_t i = 0; i < 4; ++i) {
    clock.back_off(true, kLeastMs, kNow);
  }
  clock.note_success();
  clock.back_off(true, kLeastMs, kNow);
  EXPECT_LE(clock.wake_ms(), kNow + 2000);
}

TEST(ClientClock, NothingConnectsBeforeTheServersTime) {
  SessionClock clock(3);
  clock.keep_away({90000, 90000}, kNow);
  EXPECT_EQ(clock.wake_ms(), 0U) << "the sleep stays as it is";
  clock.wake_soon(kNow + 1);
  EXPECT_EQ(clock.wake_ms(), kNow + 90000);
  clock.back_off(true, kLeastMs, kNow);
  EXPECT_EQ(clock.wake_ms(), kNow + 90000);
  clock.end_exchange({5, 5}, kNow);
  EXPECT_EQ(clock.wake_ms(), kNow + 5) << "in the same session";
  clock.stay_away();
  EXPECT_EQ(clock.wake_ms(), kNow + 90000);
  clock.wake_soon(kNow + 100000);
  EXPECT_EQ(clock.wake_ms(), kNow + 100000);
  clock.wake_never();
  EXPECT_EQ(clock.wake_ms(), UINT64_MAX);
}

TEST(ClientClock, ADeadlineIsFromNow) {
  SessionClock clock(3);
  clock.expect(kNow, 300);
  EXPECT_EQ(clock.deadline_ms(), kNow + 300);
  clock.expect(kNow + 200, 300);
  EXPECT_EQ(clock.deadline_ms(), kNow + 500);
}

}  // namespace
}  // namespace gradstream
