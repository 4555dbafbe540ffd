// Asynchronous steps: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/delay_keys.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(DelayKeys, EveryBadDelayRuleIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"delay_rule, buffer_size, solver:",
       [](RunParameters* p) {
         p->trigger->buffer_size = 0;
         p->trigger->late = LatePolicy::kDrop;
       }},
      {"delay_rule, dominance_penalty, buffer_size:", [](RunParameters* p) { p->trigger->buffer_size = 2; }},
      {"delay_rule, manifold:",
       [](RunParameters* p) {
         p->model->manifold = ManifoldId::kSpd;
         p->model->shape = {4, 4};
         p->delay->delay_rule = DelayRule::kDcAsgd;
       }},
      {"server_step, delay_rule:", [](RunParameters* p) { p->steps->server_step = 2; }},
      {"server_momentum: needs a number from 0 to below 1 (a delay_rule); it is 1",
       [](RunParameters* p) { p->delay->server_momentum = 1; }},
      {"delay_lambda:", [](RunParameters* p) { p->delay->delay_lambda = 0; }},
      {"delay_rule:",
       [](RunParameters* p) {
         p->delay->delay_rule = DelayRule::kNone;
         p->delay->dominance_penalty = true;
       }},
      {"staleness_max, parts: the models",
       [](RunParameters* p) {
         p->model->manifold = ManifoldId::kProduct;
         p->model->parts = "euclidean 4000x6, euclidean 1x1";
         p->model->shape = {};
         set_parts(p);
         p->trigger->staleness_max = 1024;
       }},
      {"staleness_max, rows, cols: the models",
       [](RunParameters* p) {
         p->model->shape = {4000, 6};
         p->trigger->staleness_max = 1024;
       }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

TEST(DelayKeys, AnUpdateMayWeighByItsSamples) {
  RunParameters p = asynchronous_parameters();
  p.fold->fold_weight = FoldWeight::kSampleCount;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.fold->weight_share_max = 0.5F;
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("weight_share_max, delay_rule:"));
}

TEST(DelayKeys, EveryBadPointOfOrthoCorrectIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"ortho_alpha, ortho_theta, delay_rule:", [](RunParameters* p) { p->delay.keys().ortho_alpha = 0.5F; }},
      {"ortho_alpha, ortho_theta, delay_rule:",
       [](RunParameters* p) {
         p->delay->late_delay_rule = DelayRule::kOrthoStrict;
         p->delay.keys().ortho_theta = -0.5F;
       }},
      {"ortho_theta: needs a number from -1 to 1 (rule ortho_grad); it is 1.5",
       [](RunParameters* p) {
         p->delay->late_delay_rule = DelayRule::kOrthoGrad;
         p->delay.keys().ortho_theta = 1.5F;
       }},
      {"ortho_alpha: needs a finite number",
       [](RunParameters* p) {
         p->delay->delay_rule = DelayRule::kOrthoGrad;
         p->delay.keys().ortho_alpha = std::numeric_limits<Real>::quiet_NaN();
       }},
      {"server_step, ortho_alpha:",
       [](RunParameters* p) {
         p->delay->delay_rule = DelayRule::kOrthoGrad;
         p->delay.keys().ortho_alpha = 1;
         p->steps->server_step = 2;
       }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

TEST(DelayKeys, AnyShareIsAPointOfOrthoCorrect) {
  RunParameters p = asynchronous_parameters();
  p.delay->delay_rule = DelayRule::kOrthoGrad;
  for (const float alpha : {-2.0F, 0.5F, 1.0F, 3.0F}) {
    p.delay.keys().ortho_alpha = alpha;
    p.delay.keys().ortho_theta = 0.25F;
    EXPECT_EQ(check_parameters(p).sentence, "") << alpha;
  }
}

TEST(DelayKeys, EveryBadSwitchOfTheDelayRuleIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"delay_switch_at, delay_switch_by: a version", [](RunParameters* p) { p->delay->delay_switch_at = 0.5F; }},
      {"delay_switch_by, late_delay_rule:",
       [](RunParameters* p) { p->delay->delay_switch_by = DelaySwitchBy::kCosine; }},
      {"delay_switch_at, delay_switch_by: a cosine",
       [](RunParameters* p) {
         p->delay->late_delay_rule = DelayRule::kOrthoPos;
         p->delay->delay_switch_by = DelaySwitchBy::kCosine;
         p->delay->delay_switch_at = 1;
       }},
      {"delay_switch_at, delay_switch_by: a cosine",
       [](RunParameters* p) {
         p->delay->late_delay_rule = DelayRule::kOrthoPos;
         p->delay->delay_switch_by = DelaySwitchBy::kDriftRatio;
       }},
      {"delay_switch, round_count:",
       [](RunParameters* p) {
         p->delay->late_delay_rule = DelayRule::kOrthoPos;
         p->delay->delay_switch_by = DelaySwitchBy::kCosine;
         p->delay->delay_switch = p->trigger->round_count;
       }},
      {"delay_rule:",
       [](RunParameters* p) {
         p->delay->delay_rule = DelayRule::kNone;
         p->delay->delay_switch_by = DelaySwitchBy::kCosine;
       }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
