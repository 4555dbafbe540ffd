// Who is waited for, and whose share is used up, among all faults of the simulator: its oracle knows both rules.
#include <cstdint>

#include <gtest/gtest.h>

#include "sim/simulation.h"
#include "tests/support/campaign.h"

namespace gradstream {
namespace {

constexpr uint32_t kAllFaults = (1U << kFaultCount) - 1;

void expect_sound(SimOptions options) {
  options.fault_bits = kAllFaults;
  for (uint32_t schedule = 0; schedule < campaign_draws(20); ++schedule) {
    ASSERT_EQ(Simulation(options, schedule).run().fault, "") << "schedule " << schedule;
  }
}

TEST(AttendanceSimulation, TheInvariantsHoldWhereThoseSeenAreAwaited) {
  for (const uint32_t versions : {1U, 2U}) {
    SimOptions options;
    options.trust.seen_versions = versions;
    expect_sound(options);
    options.holds_pulls = true;
    expect_sound(options);
    options.centre = Centre::kFederated;
    expect_sound(options);
  }
}

// Without faults each device answers each version, so that the model is that of a run that waits for all.
TEST(AttendanceSimulation, WithoutFaultsTheModelIsThatOfARunThatWaitsForAll) {
  SimOptions options;
  const SimResult all = Simulation(options, 0).run();
  options.trust.seen_versions = 1;
  const SimResult seen = Simulation(options, 0).run();
  EXPECT_EQ(seen.fault, "");
  EXPECT_EQ(seen.digest, all.digest);
}

TEST(AttendanceSimulation, TheInvariantsHoldWithAShare) {
  for (const uint32_t buffer_size : {1U, 3U}) {
    for (const bool holds_pulls : {false, true}) {
      SimOptions options;
      options.stream = StreamKind::kTangentBlock;
      options.round_count = 40;
      options.buffer_size = buffer_size;
      options.holds_pulls = holds_pulls;
      options.trust.device_share_max = 0.3F;
      expect_sound(options);
    }
  }
}

}  // namespace
}  // namespace gradstream
