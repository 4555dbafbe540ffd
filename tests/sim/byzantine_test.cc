// A fleet whose last device lies in every field, and says again what it said before (sim/byzantine.h), amid all other
// faults: docs/how-to/simulate.md. The oracle makes each version again from the journal, each task has one verdict, and
// every device, the liar too once it is honest, comes to the last model (sim/end_check.h).
#include "sim/byzantine.h"

#include <gtest/gtest.h>

#include "sim/simulation.h"
#include "tests/support/campaign.h"

namespace gradstream {
namespace {

void expect_sound(SimOptions options, uint32_t schedule_count) {
  options.trust.is_byzantine = true;
  options.fault_bits = (1U << kFaultCount) - 1;
  uint64_t field_count = 0, repeat_count = 0;
  const uint32_t played_count = campaign_draws(schedule_count);
  for (uint32_t schedule = 0; schedule < played_count; ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    EXPECT_EQ(result.fault, "") << "schedule " << schedule;
    field_count += result.byzantine_field_count;
    repeat_count += result.byzantine_repeat_count;
  }
  EXPECT_GT(field_count, played_count);
  EXPECT_GT(repeat_count, played_count);
}

TEST(Byzantine, EveryVersionFollowsFromTheJournal) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    expect_sound(options, 40);
  }
}

TEST(Byzantine, AlsoWithAMemoryAClipAndEvaluations) {
  SimOptions options;
  options.correction_form = CorrectionForm::kMemory;
  options.trust.clip_norm = ClipNorm::kTrailing;
  options.holdout_share = static_cast<Real>(0.25);
  expect_sound(options, 20);
}

TEST(Byzantine, AlsoWhereDevicesAreHeldAndVersionsCloseEarly) {
  SimOptions options;
  options.stream = StreamKind::kTangentBlock;
  options.has_stragglers = true;
  options.holds_pulls = true;
  expect_sound(options, 20);
  options = {};
  options.buffer_size = 3;
  expect_sound(options, 20);
}

TEST(Byzantine, EveryFieldOfAMessageIsChangedOnceInAWhile) {
  Dice dice(1, 0);
  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  bool is_version_changed = false, is_run_changed = false, is_nested_changed = false;
  for (int i = 0; i < 200; ++i) {
    DeviceMessage lie = hello;
    EXPECT_GT(change_fields(1, &dice, &lie), 0U);
    is_version_changed = is_version_changed || lie.body.hello.version != 0;
    is_run_changed = is_run_changed || lie.body.hello.run != 0;
    is_nested_changed = is_nested_changed || lie.body.hello.capabilities.solvers != 0;
    EXPECT_EQ(lie.which_body, hello.which_body);
  }
  EXPECT_TRUE(is_version_changed && is_run_changed && is_nested_changed);
}

}  // namespace
}  // namespace gradstream
