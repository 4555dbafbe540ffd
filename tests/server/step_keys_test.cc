// Step sizes: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/step_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(StepKeys, EveryBadStepIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"step_size", [](RunParameters* p) { p->steps->step_size = -1; }},
      {"step_decay, step_rule:", [](RunParameters* p) { p->steps->step_rule = StepRule::kFixed; }},
      {"step_offset:", [](RunParameters* p) { p->steps->step_offset = -1; }},
      {"step_period: needs at least 1 rounds; it is 0", [](RunParameters* p) { p->steps->step_period = 0; }},
      {"step_offset, step_rule:",
       [](RunParameters* p) {
         p->steps->step_rule = StepRule::kPrinted;
         p->steps->step_decay = 0;
       }},
  };
  expect_refused(scalar_parameters(), cases);
}

RunParameters automatic(RunParameters p) {
  p.steps->step_size = 0;
  p.steps->step_decay = 0;
  return p;
}

TEST(StepKeys, WithAutoAStepOfItsOwnIsRefusedByItsKey) {
  EXPECT_EQ(check_parameters(automatic(scalar_parameters())).sentence, "");
  EXPECT_EQ(check_parameters(automatic(tangent_parameters())).sentence, "");
  const RefusedCase cases[] = {
      {"step_size, step_decay:", [](RunParameters* p) { p->steps->step_decay = 0.1F; }},
      {"step_size, step_rule:", [](RunParameters* p) { p->steps->step_rule = StepRule::kFixed; }},
      {"step_size, step_rule:",
       [](RunParameters* p) {
         p->steps->step_rule = StepRule::kHarmonic;
         p->steps->step_offset = 1;
       }},
      {"step_size, correction_form:", [](RunParameters* p) { p->local->correction_form = CorrectionForm::kMemory; }},
      {"step_size, buffer_size: auto needs the lines of 3 updates",
       [](RunParameters* p) {
         p->trigger->buffer_size = 2;
         p->trigger->late = LatePolicy::kWeight;
       }},
  };
  expect_refused(automatic(scalar_parameters()), cases);
  RunParameters few = automatic(scalar_parameters());
  few.trigger->device_count = 9;
  few.trigger->update_goal = 2;
  EXPECT_THAT(check_parameters(few).sentence, testing::StartsWith("step_size, update_goal, cohort_size: auto needs"));
  few.trigger->device_count = 2;
  EXPECT_EQ(check_parameters(few).sentence, "") << "all who are asked";
  RunParameters svrg = automatic(tangent_parameters());
  svrg.local->solver = SolverId::kSvrg;
  svrg.local->batch_mode = BatchMode::kAll;
  EXPECT_EQ(check_parameters(svrg).sentence, "");
  svrg.local->barzilai_borwein = BarzilaiBorwein::kFirst;
  EXPECT_THAT(check_parameters(svrg).sentence, testing::StartsWith("step_size, barzilai_borwein:"));
  RunParameters delayed = automatic(tangent_parameters());
  delayed.delay->delay_rule = DelayRule::kAsgd;
  delayed.trigger->buffer_size = 4;
  EXPECT_THAT(check_parameters(delayed).sentence, testing::StartsWith("step_size, delay_rule:"));
}

// 0.8 to 0.2 in four rounds, and again.
TEST(StepKeys, ACycleFallsFromItsFirstStepToItsLast) {
  RunParameters p = scalar_parameters();
  p.steps->server_step = 0.8F;
  EXPECT_EQ(server_step_at(p, 7), 0.8F) << "no cycle";
  p.steps.keys().server_step_cycle = 4;
  p.steps.keys().server_step_low = 0.2F;
  EXPECT_EQ(check_parameters(p).sentence, "");
  const double expected[] = {0.8, 0.6, 0.4, 0.2, 0.8, 0.6};
  for (uint32_t round = 0; round < std::size(expected); ++round) {
    EXPECT_NEAR(server_step_at(p, round), expected[round], 1e-6) << round;
  }
}

TEST(StepKeys, EveryBadCycleIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"server_step_low, server_step_cycle:", [](RunParameters* p) { p->steps.keys().server_step_cycle = 0; }},
      {"server_step_cycle, round_count:", [](RunParameters* p) { p->steps.keys().server_step_cycle = 1; }},
      {"server_step_cycle, round_count:",
       [](RunParameters* p) { p->steps.keys().server_step_cycle = p->trigger->round_count + 1; }},
      {"server_step_low, server_step:", [](RunParameters* p) { p->steps.keys().server_step_low = 1.5F; }},
      {"server_step_low: needs a number above 0 (a server_step_cycle); it is 0",
       [](RunParameters* p) { p->steps.keys().server_step_low = 0; }},
      {"server_step_cycle, step_size:",
       [](RunParameters* p) {
         p->steps->step_size = 0;
         p->steps->step_decay = 0;
       }},
  };
  RunParameters p = scalar_parameters();
  p.steps.keys().server_step_cycle = 2;
  p.steps.keys().server_step_low = 0.5F;
  expect_refused(p, cases);
}

}  // namespace
}  // namespace gradstream
