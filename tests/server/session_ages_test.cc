// When sessions are asked to begin anew, in virtual time.
#include "server/link/session_ages.h"

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr uint64_t kHourMs = 3600000;

TEST(SessionAges, EachSessionIsDueInTheLastQuarterOfItsTime) {
  SessionAges ages(kSessionAgeMaxMs);
  EXPECT_EQ(ages.next_due_ms(), UINT64_MAX);
  EXPECT_EQ(ages.take_due(UINT64_MAX), 0U);
  for (SessionId session = 1; session <= 10000; ++session) {
    const uint64_t due_ms = ages.add(session, session);
    EXPECT_GT(due_ms, session + 18 * kHourMs);
    EXPECT_LE(due_ms, session + 24 * kHourMs);
  }
  EXPECT_EQ(ages.take_due(18 * kHourMs), 0U);
  size_t count = 0;
  while (ages.take_due(24 * kHourMs + 10000) != 0) {
    ++count;
  }
  EXPECT_EQ(count, 10000U);
  EXPECT_EQ(ages.count(), 0U);
}

// 10,000 boards that dialled within a second: 28 come in a minute if they spread evenly over six hours.
TEST(SessionAges, AFleetThatDialledAtOnceDoesNotDialAtOnceAgain) {
  SessionAges ages(kSessionAgeMaxMs);
  for (SessionId session = 70001; session <= 80000; ++session) {
    ages.add(session, (session - 70001) / 10);
  }
  size_t most = 0;
  size_t least = SIZE_MAX;
  for (uint64_t minute = 18 * 60 + 1; minute < 24 * 60; ++minute) {
    size_t count = 0;
    while (ages.take_due(minute * 60000) != 0) {
      ++count;
    }
    most = std::max(most, count);
    least = minute > 18 * 60 + 1 ? std::min(least, count) : least;
  }
  EXPECT_LE(most, 31U);
  EXPECT_GE(least, 24U);
}

TEST(SessionAges, ASessionThatHasEndedIsNotDue) {
  SessionAges ages(1000);
  const uint64_t first_ms = ages.add(1, 0);
  const uint64_t second_ms = ages.add(2, 0);
  ages.remove(1, first_ms);
  EXPECT_EQ(ages.next_due_ms(), second_ms);
  EXPECT_EQ(ages.take_due(second_ms - 1), 0U);
  EXPECT_EQ(ages.take_due(second_ms), 2U);
  ages.remove(2, second_ms);
  EXPECT_EQ(ages.count(), 0U);
}

}  // namespace
}  // namespace gradstream
