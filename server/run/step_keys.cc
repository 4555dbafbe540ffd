#include "server/run/step_keys.h"

#include "server/run/check_range.h"
#include "server/run/run_parameters.h"

namespace gradstream {

Objection check_steps(const RunParameters& p) {
  for (const char* const key : {"step_size", "step_decay", "server_step", "step_offset", "step_period"}) {
    if (Objection objection = check_range(p, key)) {
      return objection;
    }
  }
  if (p.steps->step_decay > 0 && p.steps->step_rule != StepRule::kInverse) {
    return "step_decay, step_rule: only rule inverse reads step_decay; set it to 0";
  }
  const bool divides_by_offset = p.steps->step_rule == StepRule::kHarmonic || p.steps->step_rule == StepRule::kPrinted;
  if (divides_by_offset && !(p.steps->step_offset > 0)) {
    return "step_offset, step_rule: this rule divides by step_offset; it must be above 0";
  }
  return {};
}

}  // namespace gradstream
