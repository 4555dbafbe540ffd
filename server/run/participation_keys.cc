#include "server/run/participation_keys.h"

#include <algorithm>
#include <vector>

#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {

Objection check_participation(const RunParameters& p) {
  if (p.cohort->participation == Participation::kSchemeOne) {
    return p.cohort->cohort_size >= 1 && p.cohort->cohort_size <= p.trigger->device_count
               ? ""
               : "cohort_size, device_count: scheme_1 asks from 1 to device_count devices a round";
  }
  if (p.cohort->cohort_size != 0) {
    return "cohort_size, participation: only scheme_1 has a cohort size; set it to 0";
  }
  if (p.cohort->participation == Participation::kAll) {
    return p.cohort->participation_probability.empty()
               ? ""
               : "participation_probability, participation: only scheme_2 draws with probabilities; leave it empty";
  }
  const std::vector<Real> probabilities = parse_numbers(p.cohort->participation_probability);
  if (probabilities.empty() ||
      !std::all_of(probabilities.begin(), probabilities.end(), [](Real q) { return q > 0 && q <= 1; })) {
    return "participation_probability: scheme_2 needs numbers above 0 and at most 1 with spaces between them, by "
           "enrolment index; the last one holds for all devices after it";
  }
  if (p.cohort->participation_weights != ParticipationWeights::kBiased) {
    const bool divides = p.local->correction_form == CorrectionForm::kUnbiased;
    if (p.local->solver == SolverId::kProjection && !divides) {
      return "participation_weights, solver, correction_form: solver projection folds by the sum of the weights; use "
             "biased, or correction_form unbiased, or solver gradient_stream";
    }
    const bool leaves_some_out =
        (p.trigger->update_goal != 0 && p.trigger->update_goal < p.trigger->device_count) || p.trigger->update_min != 0;
    if (p.cohort->participation_weights == ParticipationWeights::kTrue && leaves_some_out) {
      return "participation_weights, update_goal, update_min: 1/p_j counts on every drawn device's answer; wait for "
             "all of them (update_goal = all, update_min = 0), or use counted, which sees who is left out";
    }
    if (p.fold->fold_weight != FoldWeight::kUniform && !divides) {
      return "participation_weights, fold_weight: weights 1/(S q_j) are of devices that count the same; use "
             "fold_weight uniform, or participation_weights biased";
    }
  }
  return {};
}

Objection check_over_selection(const RunParameters& p) {
  if (p.cohort->over_selection == 1) {
    return {};
  }
  if (p.cohort->participation != Participation::kSchemeOne) {
    return "over_selection, participation: only scheme_1 draws a number of devices that can be exceeded; set it to 1 "
           "(scheme_2: raise participation_probability and set update_goal)";
  }
  return p.drawn_count() <= p.trigger->device_count
             ? ""
             : "over_selection, cohort_size, device_count: " + std::to_string(p.drawn_count()) +
                   " devices would be drawn, more than there are; lower over_selection or cohort_size";
}

}  // namespace gradstream
