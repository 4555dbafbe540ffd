// What the server does with answers: every bad choice is refused with a sentence that begins with its keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(CheckPolicy, EveryBadFoldAndPolicyIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"fold_scale_log2:", [](RunParameters* p) { p->fold_scale_log2 = 49; }},
      {"fold_weight_max:", [](RunParameters* p) { p->fold_weight_max = 0; }},
      {"round_count:", [](RunParameters* p) { p->round_count = 0; }},
      {"device_count:", [](RunParameters* p) { p->device_count = 0; }},
      {"update_goal, device_count:", [](RunParameters* p) { p->update_goal = 5; }},
      {"update_min, update_goal:",
       [](RunParameters* p) {
         p->update_goal = 2;
         p->update_min = 3;
       }},
      {"report_deadline_ms:", [](RunParameters* p) { p->report_deadline_ms = 0; }},
      {"steps_min, local_step_count:", [](RunParameters* p) { p->steps_min = 4; }},
      {"task_deadline_ms, steps_min:", [](RunParameters* p) { p->task_deadline_ms = 10; }},
      {"task_deadline_ms, report_deadline_ms:",
       [](RunParameters* p) {
         p->steps_min = 1;
         p->task_deadline_ms = 5000;
       }},
      {"late, update_goal", [](RunParameters* p) { p->late = LatePolicy::kWeight; }},
      {"staleness_max:",
       [](RunParameters* p) {
         p->late = LatePolicy::kWeight;
         p->update_goal = 2;
         p->staleness_max = 1025;
       }},
      {"staleness_exponent:",
       [](RunParameters* p) {
         p->late = LatePolicy::kWeight;
         p->update_goal = 2;
         p->staleness_exponent = 0;
       }},
      {"retry_min_ms", [](RunParameters* p) { p->retry_min_ms = p->retry_max_ms + 1; }},
      {"retry_max_ms:", [](RunParameters* p) { p->retry_max_ms = 21600001; }},
      {"log_size_max:", [](RunParameters* p) { p->log_size_max = (1U << 28) + 1; }},
      {"group_count, device_count:", [](RunParameters* p) { p->group_count = p->device_count + 1; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(CheckPolicy, EveryBadShareOfTheWorkIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"work, steps_min, local_step_count: timed work", [](RunParameters* p) { p->work = Work::kTimed; }},
      {"step_time_min_us, step_time_max_us:",
       [](RunParameters* p) {
         p->step_time_min_us = 2000;
         p->step_time_max_us = 1000;
       }},
      {"task_deadline_ms, steps_min, step_time_max_us: the slowest device (step_time_max_us) takes 401 ms for 2 steps",
       [](RunParameters* p) {
         p->steps_min = 2;
         p->task_deadline_ms = 400;
         p->step_time_max_us = 200'001;
       }},
      {"report_deadline_ms, steps_min, step_time_max_us: the slowest device (step_time_max_us) takes 1200 ms for 3",
       [](RunParameters* p) {
         p->update_goal = 3;
         p->step_time_max_us = 400'000;
       }},
      {"arrival_rate, device_count: so few arrivals a second make devices wait above 6 h; use at least 5",
       [](RunParameters* p) {
         p->device_count = 30'000;
         p->arrival_rate = 4;
       }},
      {"weight_share_max: above 0", [](RunParameters* p) { p->weight_share_max = 0; }},
      {"weight_share_max, update_goal, buffer_size: 4 updates", [](RunParameters* p) { p->weight_share_max = 0.2F; }},
      {"weight_share_max, fold_weight, solver",
       [](RunParameters* p) {
         p->weight_share_max = 0.5F;
         p->fold_weight = FoldWeight::kUniform;
       }},
      {"over_selection: from 1", [](RunParameters* p) { p->over_selection = 0; }},
      {"over_selection, participation:", [](RunParameters* p) { p->over_selection = 2; }},
      {"over_selection, cohort_size, device_count: 6 devices would be drawn",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 3;
         p->over_selection = 2;
       }},
  };
  expect_refused(tangent_parameters(), cases);
}

TEST(CheckPolicy, EveryBadParticipationIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"cohort_size, participation:", [](RunParameters* p) { p->cohort_size = 2; }},
      {"cohort_size, device_count:", [](RunParameters* p) { p->participation = Participation::kSchemeOne; }},
      {"cohort_size, device_count:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 5;
       }},
      {"update_goal, device_count:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 2;
         p->update_goal = 3;
       }},
      {"participation_probability, participation:", [](RunParameters* p) { p->participation_probability = "0.5"; }},
      {"participation_probability:", [](RunParameters* p) { p->participation = Participation::kSchemeTwo; }},
      {"participation_probability:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeTwo;
         p->participation_probability = "0.5 1.5";
       }},
      {"participation_weights, update_goal, update_min:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeTwo;
         p->participation_probability = "0.5";
         p->participation_weights = ParticipationWeights::kTrue;
         p->update_goal = 2;
       }},
      {"participation_weights, fold_weight:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeTwo;
         p->participation_probability = "0.5";
       }},
  };
  expect_refused(tangent_parameters(), cases);
  RunParameters scalar = scalar_parameters();
  scalar.participation = Participation::kSchemeTwo;
  scalar.participation_probability = "0.5";
  EXPECT_THAT(check_parameters(scalar), testing::StartsWith("participation_weights, solver, correction_form:"));
  RunParameters unbiased = scalar;
  unbiased.correction_form = CorrectionForm::kMemory;
  EXPECT_THAT(check_parameters(unbiased), testing::StartsWith("participation_weights, solver, correction_form:"));
  unbiased.correction_form = CorrectionForm::kUnbiased;
  EXPECT_EQ(check_parameters(unbiased), "");
  scalar.participation_weights = ParticipationWeights::kBiased;
  EXPECT_EQ(check_parameters(scalar), "");
}

TEST(CheckPolicy, EveryBadAsynchronousRunIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"delay_rule, buffer_size, solver:",
       [](RunParameters* p) {
         p->buffer_size = 0;
         p->late = LatePolicy::kDrop;
       }},
      {"delay_rule, dominance_penalty, buffer_size:", [](RunParameters* p) { p->buffer_size = 2; }},
      {"delay_rule, fold_weight:", [](RunParameters* p) { p->fold_weight = FoldWeight::kSampleCount; }},
      {"delay_rule, manifold:",
       [](RunParameters* p) {
         p->manifold = ManifoldId::kSpd;
         p->shape = {4, 4};
         p->delay_rule = DelayRule::kDcAsgd;
       }},
      {"server_step, delay_rule:", [](RunParameters* p) { p->server_step = 2; }},
      {"delay_lambda, server_momentum:", [](RunParameters* p) { p->server_momentum = 1; }},
      {"delay_lambda, server_momentum:", [](RunParameters* p) { p->delay_lambda = 0; }},
      {"average_period:", [](RunParameters* p) { p->average_restart = 2; }},
      {"curve_orthogonality:", [](RunParameters* p) { p->curve_orthogonality = 0; }},
      {"solver, manifold, estimator, batch_mode:",
       [](RunParameters* p) {
         p->solver = SolverId::kCurve;
         p->manifold = ManifoldId::kSphere;
       }},
      {"solver, delay_rule, buffer_size, server_momentum, server_step:",
       [](RunParameters* p) {
         p->solver = SolverId::kCurve;
         p->manifold = ManifoldId::kEuclidean;
         p->batch_mode = BatchMode::kCommon;
         p->server_momentum = 0.5F;
       }},
      {"average_from, average_period:", [](RunParameters* p) { p->average_period = 2000; }},
      {"average_from, average_period:",
       [](RunParameters* p) {
         p->average_period = 2;
         p->average_from = 2000;
       }},
      {"average_restart, solver, correction_form:",
       [](RunParameters* p) {
         *p = scalar_parameters();
         p->average_period = p->average_restart = 2;
       }},
      {"delay_rule:",
       [](RunParameters* p) {
         p->delay_rule = DelayRule::kNone;
         p->dominance_penalty = true;
       }},
      {"buffer_size, device_count:", [](RunParameters* p) { p->buffer_size = 5; }},
      {"buffer_size, update_goal, update_min:", [](RunParameters* p) { p->update_min = 1; }},
      {"buffer_size, participation, solver:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 2;
       }},
      {"buffer_size, late:", [](RunParameters* p) { p->late = LatePolicy::kDrop; }},
      {"staleness_max, shape:",
       [](RunParameters* p) {
         p->shape = {4000, 6};
         p->staleness_max = 1024;
       }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

TEST(CheckPolicy, EveryBadSwitchOfTheDelayRuleIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"delay_switch_at, delay_switch_by: a version", [](RunParameters* p) { p->delay_switch_at = 0.5F; }},
      {"delay_switch_by, late_delay_rule:", [](RunParameters* p) { p->delay_switch_by = DelaySwitchBy::kCosine; }},
      {"delay_switch_at, delay_switch_by: a cosine",
       [](RunParameters* p) {
         p->late_delay_rule = DelayRule::kOrthoPos;
         p->delay_switch_by = DelaySwitchBy::kCosine;
         p->delay_switch_at = 1;
       }},
      {"delay_switch_at, delay_switch_by: a cosine",
       [](RunParameters* p) {
         p->late_delay_rule = DelayRule::kOrthoPos;
         p->delay_switch_by = DelaySwitchBy::kDriftRatio;
       }},
      {"delay_switch, round_count:",
       [](RunParameters* p) {
         p->late_delay_rule = DelayRule::kOrthoPos;
         p->delay_switch_by = DelaySwitchBy::kCosine;
         p->delay_switch = p->round_count;
       }},
      {"delay_rule:",
       [](RunParameters* p) {
         p->delay_rule = DelayRule::kNone;
         p->delay_switch_by = DelaySwitchBy::kCosine;
       }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

// The same slow device is no reason to refuse where it is waited for, or where its late updates count.
TEST(CheckPolicy, ADeadlineMayBeShortWhereNobodyIsDropped) {
  RunParameters p = scalar_parameters();
  p.step_time_max_us = 400'000;
  EXPECT_EQ(check_parameters(p), "");
  p.update_goal = 4;  // of four
  EXPECT_EQ(check_parameters(p), "");
  p.update_min = 2;
  EXPECT_NE(check_parameters(p), "");
  p.late = LatePolicy::kWeight;
  EXPECT_EQ(check_parameters(p), "");
  p.late = LatePolicy::kDrop;
  p.steps_min = 2;
  p.work = Work::kTimed;
  EXPECT_EQ(check_parameters(p), "");
}

}  // namespace
}  // namespace gradstream
