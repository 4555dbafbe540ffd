#include "server/run/step_keys.h"

#include <algorithm>
#include <string>

#include "server/run/check_range.h"
#include "server/run/field_text.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/run/run_stages.h"
#include "server/run/trigger.h"

namespace gradstream {

namespace {

// Reason: a cycle has a first and a last step.
constexpr uint32_t kCycleRoundsMin = 2;

// Of a run whose step follows from what devices report along its records.
Objection check_auto_step(const RunParameters& p) {
  if (p.steps->step_decay > 0) {
    return "step_size, step_decay: auto finds the decay too; set step_decay to 0, or step_size to a number";
  }
  if (p.local->barzilai_borwein != BarzilaiBorwein::kNone) {
    return "step_size, barzilai_borwein: two rules would make the step; set barzilai_borwein to none, or step_size to "
           "a number";
  }
  if (p.steps->step_rule != StepRule::kInverse) {
    return "step_size, step_rule: auto is a rule of its own; leave step_rule out, or set step_size to a number";
  }
  if (p.has_memory()) {
    return "step_size, correction_form: a step along a memory of older updates is not what auto measures; set "
           "correction_form to local or none, or step_size to a number";
  }
  if (p.delay->delay_rule != DelayRule::kNone) {
    return "step_size, delay_rule: a delay rule makes another step for every update, and auto needs the lines of many "
           "devices along one; set step_size to a number";
  }
  if (p.trigger->buffer_size > 0 && p.trigger->buffer_size < kLineCountMin) {
    return "step_size, buffer_size: auto needs the lines of " + std::to_string(kLineCountMin) +
           " updates in a version; raise buffer_size to that, or set step_size to a number";
  }
  const bool is_drawn = p.cohort->participation == Participation::kSchemeOne;
  const uint32_t asked = is_drawn ? p.drawn_count() : p.trigger->device_count;
  const uint32_t least = std::min(kLineCountMin, asked);  // of fewer who are asked all are enough
  if (p.trigger->buffer_size == 0 && update_goal(p, asked) < least) {
    return "step_size, update_goal, cohort_size: auto needs the lines of " + std::to_string(least) +
           " updates in a version, and a round closes with fewer; let it close with that many, or set step_size to a "
           "number";
  }
  return {};
}

}  // namespace

Real server_step_at(const RunParameters& p, uint32_t round) {
  const StepKeys& keys = p.steps.keys();
  if (keys.server_step_cycle < kCycleRoundsMin) {
    return keys.server_step;
  }
  const auto done = static_cast<Real>(round % keys.server_step_cycle);
  const Real share = done / static_cast<Real>(keys.server_step_cycle - 1);
  return keys.server_step - (keys.server_step - keys.server_step_low) * share;
}

Objection check_steps(const RunParameters& p) {
  for (const char* const key : {"step_size", "step_decay", "server_step", "step_offset", "step_period"}) {
    if (Objection objection = check_range(p, key)) {
      return objection;
    }
  }
  if (chooses_step(p)) {
    return check_auto_step(p);
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

Objection check_cycle(const RunParameters& p) {
  const StepKeys& keys = p.steps.keys();
  if (keys.server_step_cycle == 0) {
    return keys.server_step_low == 0
               ? ""
               : "server_step_low, server_step_cycle: without cycles the server's step has no other end; set "
                 "server_step_cycle to the rounds of one, or server_step_low to 0";
  }
  if (keys.server_step_cycle < kCycleRoundsMin || keys.server_step_cycle > p.trigger->round_count) {
    return "server_step_cycle, round_count: a cycle has 2 rounds at least and no more than the run; set it to a number "
           "from 2 to " +
           std::to_string(p.trigger->round_count) + ", or to 0";
  }
  if (keys.server_step_low > keys.server_step) {
    return "server_step_low, server_step: a cycle falls from server_step to server_step_low; set server_step_low to at "
           "most " +
           field_text(keys.server_step);
  }
  if (chooses_step(p)) {
    return "server_step_cycle, step_size: auto divides by one server_step; set server_step_cycle to 0, or step_size to "
           "a number";
  }
  return check_range(p, "server_step_low");
}

}  // namespace gradstream
