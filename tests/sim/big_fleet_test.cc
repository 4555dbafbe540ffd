#include "sim/big_fleet.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

BigFleetOptions small() {
  BigFleetOptions options;
  options.device_count = 300;
  options.buffer_size = 30;
  options.days = 0.1;
  return options;
}

TEST(BigFleet, TrainsUnderTheOracleAndIsAFunctionOfItsSeed) {
  BigFleetOptions options = small();
  const BigFleetResult once = run_big_fleet(options, nullptr);
  const BigFleetResult again = run_big_fleet(options, nullptr);
  options.seed = 2;
  const BigFleetResult other = run_big_fleet(options, nullptr);
  EXPECT_EQ(once.fault, "");
  EXPECT_EQ(other.fault, "");
  EXPECT_EQ(once.digest, again.digest);
  EXPECT_NE(once.digest, other.digest);
  EXPECT_LT(once.gap_last, once.gap_first / 10);
  EXPECT_LT(other.gap_last, other.gap_first / 10);
  EXPECT_EQ(once.virtual_ms, 8'640'000U);
  EXPECT_GT(once.updates_late, 0U);
}

TEST(BigFleet, EverySpeedAndHabitKeepsTheInvariants) {
  for (const SpeedMix speeds : {SpeedMix::kConstant, SpeedMix::kLognormal, SpeedMix::kMix}) {
    for (const uint32_t buffer_size : {0U, 30U}) {
      BigFleetOptions options = small();
      options.speeds = speeds;
      options.buffer_size = buffer_size;
      options.silent_count = 3;
      options.awake_minutes = 90;
      options.cycle_minutes = 120;
      options.round_minutes = 30;
      options.life_hours = 2;
      options.loss_odds = 50;
      const BigFleetResult result = run_big_fleet(options, nullptr);
      EXPECT_EQ(result.fault, "");
      EXPECT_GT(result.version, 2U);
      EXPECT_GT(result.counts.losses, 0U);
      EXPECT_GT(result.counts.resets, 0U);
    }
  }
}

// The queue of what is to come does not grow with the time that a fleet has run.
TEST(BigFleet, NothingGrowsWithTheLengthOfTheRun) {
  BigFleetOptions options = small();
  const BigFleetResult brief = run_big_fleet(options, nullptr);
  options.days = 0.4;
  const BigFleetResult longer = run_big_fleet(options, nullptr);
  EXPECT_EQ(longer.fault, "");
  EXPECT_GT(longer.counts.records, 3 * brief.counts.records);
  EXPECT_LE(longer.counts.queue_max, brief.counts.queue_max + options.device_count);
}

TEST(BigFleet, TheCsvHasALineForAMinuteAtMost) {
  std::FILE* const csv = std::tmpfile();
  ASSERT_NE(csv, nullptr);
  EXPECT_EQ(run_big_fleet(small(), csv).fault, "");
  std::rewind(csv);
  char line[200];
  ASSERT_NE(std::fgets(line, sizeof(line), csv), nullptr);
  EXPECT_STREQ(line, "virtual_s,version,gap,bytes_up,bytes_down\n");
  uint32_t lines = 0;
  while (std::fgets(line, sizeof(line), csv) != nullptr) {
    ++lines;
  }
  std::fclose(csv);
  EXPECT_GT(lines, 10U);
  EXPECT_LE(lines, 145U);
}

}  // namespace
}  // namespace gradstream
