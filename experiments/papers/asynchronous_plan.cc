#include "experiments/papers/asynchronous_plan.h"

#include <algorithm>
#include <iterator>

#include "server/run/average_keys.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr double kDcLambda = 2.5;  // the report's

}  // namespace

const AsyncRule& async_rule(const std::string& name) {
  return *std::find_if(std::begin(kAsyncRules), std::end(kAsyncRules),
                       [&](const AsyncRule& rule) { return rule.name == name; });
}

RunParameters async_parameters(uint32_t step_count) {
  RunParameters p = gradient_stream_parameters(1, kAsyncLocalStep, step_count);
  p.steps->server_step = static_cast<Real>(kAsyncServerStep);
  p.trigger->buffer_size = 1;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_table = StalenessTable::kConstant;
  p.trigger->staleness_max = kAsyncStalenessMax;
  p.delay->delay_rule = DelayRule::kAsgd;
  p.delay->delay_lambda = static_cast<Real>(kDcLambda);
  return p;
}

RunParameters under_rule(RunParameters parameters, const AsyncRule& rule) {
  parameters.delay->delay_rule = rule.early;
  parameters.delay->late_delay_rule = rule.late == rule.early ? DelayRule::kNone : rule.late;
  parameters.delay->delay_switch = rule.late == rule.early ? 0 : parameters.trigger->round_count / 2;
  return parameters;
}

RunParameters under_switch(RunParameters parameters, const AsyncSwitch& rule) {
  parameters.delay->delay_rule = DelayRule::kOrthoGrad;
  parameters.delay->late_delay_rule = DelayRule::kOrthoPos;
  parameters.delay->delay_switch_by = rule.by;
  parameters.delay->delay_switch_at = static_cast<Real>(rule.at);
  return parameters;
}

RunParameters along_curve(RunParameters parameters, uint32_t epoch_count) {
  parameters.local->solver = SolverId::kCurve;
  parameters.local->batch_mode = BatchMode::kCommon;
  parameters.local->local_step_count = epoch_count;
  return parameters;
}

RunParameters with_all_terms(RunParameters parameters) {
  parameters.local->proximal = static_cast<Real>(kAsyncProximal);
  parameters.local->proximal_form = ProximalForm::kLorentz;
  parameters.local->proximal_sigma = static_cast<Real>(kAsyncSigma);
  parameters.delay->dominance_penalty = true;
  parameters.average.keys().average_period = kAsyncStride;
  parameters.average.keys().average_from = parameters.trigger->round_count / 2;
  return parameters;
}

RunParameters in_rounds(RunParameters parameters) {
  parameters.steps->server_step = 1;
  parameters.trigger->buffer_size = 0;
  parameters.trigger->late = LatePolicy::kDrop;
  parameters.delay->delay_rule = DelayRule::kNone;
  parameters.fold->fold_weight = FoldWeight::kSampleCount;
  return parameters;
}

uint32_t first_async_seed(const Request& request) { return (request.seed - 1) * kAsyncSeedCount + 1; }

std::string async_rule_key(const AsyncSpeeds& speeds, const std::string& rule, uint32_t seed) {
  return std::string("rules/") + speeds.name + "/" + rule + "/s" + std::to_string(seed);
}

std::string async_stepwise_key(const AsyncPlan& plan, const AsyncSpeeds& speeds, const std::string& base,
                               const std::string& rule, uint32_t seed) {
  return std::string(plan.prefix) + "stepwise/" + speeds.name + "/from-" + base + "/" + rule + "/s" +
         std::to_string(seed);
}

std::string async_method_key(const AsyncPlan& plan, const AsyncSpeeds& speeds, const std::string& method) {
  return std::string(plan.prefix) + "curve/" + speeds.name + "/" + method;
}

std::string async_connection_key(const AsyncPlan& plan, bool by_curve) {
  return std::string(plan.prefix) + "connection/" + (by_curve ? "curve" : "line");
}

}  // namespace gradstream
