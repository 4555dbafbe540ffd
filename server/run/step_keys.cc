#include "server/run/step_keys.h"

#include <cmath>

#include "server/run/run_parameters.h"

namespace gradstream {

Objection check_steps(const RunParameters& p) {
  if (!(p.steps->step_size > 0) || !std::isfinite(p.steps->step_size) || !(p.steps->step_decay >= 0) ||
      !std::isfinite(p.steps->step_decay) || !(p.steps->server_step > 0) || !std::isfinite(p.steps->server_step)) {
    return "step_size, step_decay, server_step: step sizes must be above 0 and step_decay not below 0";
  }
  if (p.steps->step_decay > 0 && p.steps->step_rule != StepRule::kInverse) {
    return "step_decay, step_rule: only rule inverse reads step_decay; set it to 0";
  }
  if (!(p.steps->step_offset >= 0) || !std::isfinite(p.steps->step_offset) || p.steps->step_period == 0) {
    return "step_offset, step_period: step_offset (beta or gamma) not below 0, step_period at least 1";
  }
  const bool divides_by_offset = p.steps->step_rule == StepRule::kHarmonic || p.steps->step_rule == StepRule::kPrinted;
  if (divides_by_offset && !(p.steps->step_offset > 0)) {
    return "step_offset, step_rule: this rule divides by step_offset; it must be above 0";
  }
  return {};
}

}  // namespace gradstream
