#include "server/run/fold_keys.h"

#include <string>

#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/run/trigger.h"

namespace gradstream {
namespace {

// k, or B.
uint32_t updates_wanted(const RunParameters& p) {
  return p.trigger->buffer_size > 0
             ? p.trigger->buffer_size
             : wanted_updates(p, p.cohort->cohort_size > 0 ? p.drawn_count() : p.trigger->device_count);
}

}  // namespace

Objection check_kept_updates(const RunParameters& p) {
  const std::string limit = std::to_string(kKeptUpdateCountMax);
  if (p.has_memory()) {
    return p.trigger->device_count <= kKeptUpdateCountMax
               ? ""
               : "device_count, correction_form: a memory holds the last update of each device, of " + limit +
                     " at most, and device_count is " + std::to_string(p.trigger->device_count) +
                     "; lower device_count, or set correction_form to local";
  }
  const uint32_t wanted = updates_wanted(p);
  if (wanted <= update_count_max(p, false)) {
    return {};
  }
  const bool has_delay_rule = p.delay->delay_rule != DelayRule::kNone;
  const std::string goal = p.trigger->buffer_size > 0                                 ? "buffer_size"
                           : p.cohort->cohort_size > 0 && p.trigger->update_goal == 0 ? "cohort_size"
                                                                                      : "update_goal";
  return goal + (has_delay_rule ? ", delay_rule" : ", weight_share_max") +
         ": the server keeps each update of a version, " + limit + " at most, and a version wants " +
         std::to_string(wanted) + "; lower " + goal + (has_delay_rule ? "" : ", or set weight_share_max to 1");
}

Objection check_weight_share(const RunParameters& p) {
  if (p.fold->weight_share_max == 1) {
    return {};
  }
  if (p.delay->delay_rule != DelayRule::kNone) {
    return "weight_share_max, delay_rule: a delay rule divides by no weights, so that no update has a share of them; "
           "set "
           "weight_share_max to 1, or delay_rule to none";
  }
  if (p.fold->fold_weight != FoldWeight::kSampleCount || p.has_memory() || p.local->solver == SolverId::kSvrg) {
    return "weight_share_max, fold_weight, solver, correction_form: a share is capped where devices weigh by their "
           "samples, in one phase and without a memory; set it to 1";
  }
  const uint32_t wanted = updates_wanted(p);
  return p.fold->weight_share_max * static_cast<float>(wanted) >= 1
             ? ""
             : "weight_share_max, update_goal, buffer_size: " + std::to_string(wanted) +
                   " updates cannot each have less than their equal share; use at least 1/" + std::to_string(wanted) +
                   ", or fold_weight uniform";
}

}  // namespace gradstream
