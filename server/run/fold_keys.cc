#include "server/run/fold_keys.h"

#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/run/trigger.h"

namespace gradstream {
namespace {

// k, or B.
uint32_t updates_wanted(const RunParameters& p) {
  return p.trigger->buffer_size > 0
             ? p.trigger->buffer_size
             : update_goal(p, p.cohort->cohort_size > 0 ? p.drawn_count() : p.trigger->device_count);
}

}  // namespace

Objection check_weight_share(const RunParameters& p) {
  if (p.fold->weight_share_max == 1) {
    return {};
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
