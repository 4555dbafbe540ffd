// Rounds and late answers: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/trigger_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(TriggerKeys, EveryBadRoundIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"round_count:", [](RunParameters* p) { p->trigger->round_count = 0; }},
      {"device_count:", [](RunParameters* p) { p->trigger->device_count = 0; }},
      {"update_goal, device_count:", [](RunParameters* p) { p->trigger->update_goal = 5; }},
      {"update_min, update_goal:",
       [](RunParameters* p) {
         p->trigger->update_goal = 2;
         p->trigger->update_min = 3;
       }},
      {"report_deadline_ms:", [](RunParameters* p) { p->trigger->report_deadline_ms = 0; }},
      {"steps_min, local_step_count:", [](RunParameters* p) { p->trigger->steps_min = 4; }},
      {"task_deadline_ms, steps_min:", [](RunParameters* p) { p->trigger->task_deadline_ms = 10; }},
      {"task_deadline_ms, report_deadline_ms:",
       [](RunParameters* p) {
         p->trigger->steps_min = 1;
         p->trigger->task_deadline_ms = 5000;
       }},
      {"late, update_goal", [](RunParameters* p) { p->trigger->late = LatePolicy::kWeight; }},
      {"staleness_max:",
       [](RunParameters* p) {
         p->trigger->late = LatePolicy::kWeight;
         p->trigger->update_goal = 2;
         p->trigger->staleness_max = 1025;
       }},
      {"staleness_exponent:",
       [](RunParameters* p) {
         p->trigger->late = LatePolicy::kWeight;
         p->trigger->update_goal = 2;
         p->trigger->staleness_exponent = 0;
       }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(TriggerKeys, EveryBadShareOfTheWorkIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"work, steps_min, local_step_count: timed work", [](RunParameters* p) { p->trigger->work = Work::kTimed; }},
      {"step_time_min_us, step_time_max_us:",
       [](RunParameters* p) {
         p->trigger->step_time_min_us = 2000;
         p->trigger->step_time_max_us = 1000;
       }},
      {"task_deadline_ms, steps_min, step_time_max_us: the slowest device (step_time_max_us) takes 401 ms for 2 steps",
       [](RunParameters* p) {
         p->trigger->steps_min = 2;
         p->trigger->task_deadline_ms = 400;
         p->trigger->step_time_max_us = 200'001;
       }},
      {"report_deadline_ms, steps_min, step_time_max_us: the slowest device (step_time_max_us) takes 1200 ms for 3",
       [](RunParameters* p) {
         p->trigger->update_goal = 3;
         p->trigger->step_time_max_us = 400'000;
       }},
  };
  expect_refused(tangent_parameters(), cases);
}

TEST(TriggerKeys, EveryBadBufferIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"buffer_size, device_count:", [](RunParameters* p) { p->trigger->buffer_size = 5; }},
      {"buffer_size, update_goal, update_min:", [](RunParameters* p) { p->trigger->update_min = 1; }},
      {"buffer_size, participation, solver:",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeOne;
         p->cohort->cohort_size = 2;
       }},
      {"buffer_size, late:", [](RunParameters* p) { p->trigger->late = LatePolicy::kDrop; }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

// The same slow device is no reason to refuse where it is waited for, or where its late updates count.
TEST(TriggerKeys, ADeadlineMayBeShortWhereNobodyIsDropped) {
  RunParameters p = scalar_parameters();
  p.trigger->step_time_max_us = 400'000;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.trigger->update_goal = 4;  // of four
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.trigger->update_min = 2;
  EXPECT_NE(check_parameters(p).sentence, "");
  p.trigger->late = LatePolicy::kWeight;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.trigger->late = LatePolicy::kDrop;
  p.trigger->steps_min = 2;
  p.trigger->work = Work::kTimed;
  EXPECT_EQ(check_parameters(p).sentence, "");
}

TEST(TriggerKeys, ThoseSeenAreWaitedForWhereAllAre) {
  RunParameters p = scalar_parameters();
  p.trigger.keys().seen_versions = 2;
  EXPECT_EQ(check_parameters(p).sentence, "");
  const RefusedCase cases[] = {
      {"seen_versions, update_goal", [](RunParameters* run) { run->trigger->update_goal = 2; }},
      {"seen_versions, update_goal", [](RunParameters* run) { run->trigger->update_min = 2; }},
      {"seen_versions, update_goal",
       [](RunParameters* run) {
         run->cohort->participation = Participation::kSchemeOne;
         run->cohort->cohort_size = 2;
         run->local->correction_form = CorrectionForm::kNone;
       }},
      {"seen_versions:", [](RunParameters* run) { run->trigger.keys().seen_versions = 1025; }},
  };
  expect_refused(p, cases);
}

TEST(TriggerKeys, ASharesKeysAreOfRunsWithoutRounds) {
  RunParameters p = asynchronous_parameters();
  EXPECT_EQ(share_versions(p), 0U);
  p.trigger.keys().device_share_max = 0.5F;
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_EQ(share_versions(p), 32U);
  EXPECT_EQ(share_limit(p), 16U);
  EXPECT_FALSE(limits_shares(p, 2));
  EXPECT_TRUE(limits_shares(p, 3));
  p.trigger.keys().device_share_window = 1;
  EXPECT_EQ(share_limit(p), 1U) << "of one update nobody gives a half";
  const RefusedCase cases[] = {
      {"device_share_max:", [](RunParameters* run) { run->trigger.keys().device_share_max = 0; }},
      {"device_share_window:", [](RunParameters* run) { run->trigger.keys().device_share_window = 0; }},
      {"device_share_window:", [](RunParameters* run) { run->trigger.keys().device_share_window = 1025; }},
  };
  expect_refused(p, cases);
  RunParameters rounds = scalar_parameters();
  rounds.trigger.keys().device_share_max = 0.5F;
  EXPECT_TRUE(check_parameters(rounds).sentence.starts_with("device_share_max, buffer_size:"));
  RunParameters large = p;
  large.delay->delay_rule = DelayRule::kNone;
  large.trigger->device_count = large.trigger->buffer_size = 32768;
  large.trigger.keys().device_share_window = 33;
  EXPECT_TRUE(check_device_share(large).sentence.starts_with("device_share_window, buffer_size:"));
  large.trigger.keys().device_share_window = 32;
  EXPECT_EQ(check_device_share(large).sentence, "");
}

TEST(TriggerKeys, OnlyTheServerThatHasTheGradientStopsByIt) {
  const RefusedCase cases[] = {
      {"stop_gradient_norm, solver:", [](RunParameters* p) { p->trigger.keys().stop_gradient_norm = 1e-3F; }},
  };
  expect_refused(tangent_parameters(), cases);
  RunParameters p = tangent_parameters();
  p.local->solver = SolverId::kSvrg;
  p.local->batch_mode = BatchMode::kAll;
  p.trigger.keys().stop_gradient_norm = 1e-3F;
  EXPECT_EQ(check_parameters(p).sentence, "");
}

}  // namespace
}  // namespace gradstream
