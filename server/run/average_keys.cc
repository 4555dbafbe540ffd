#include "server/run/average_keys.h"

#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {

Objection check_average(const RunParameters& p) {
  if (p.average->average_period == 0) {
    return p.average->average_from == 0 && p.average->average_restart == 0
               ? ""
               : "average_period: average_from and average_restart belong to an average; set average_period";
  }
  if (p.average->average_from > p.version_count() || p.average->average_period > p.version_count()) {
    return "average_from, average_period: the run ends at version " + std::to_string(p.version_count()) +
           "; no version would be taken";
  }
  if (p.average->average_restart != 0 && (p.stream() != StreamKind::kTangentBlock || p.has_mean() ||
                                          p.phase_count() > 1 || p.local->solver == SolverId::kProjection)) {
    return "average_restart, solver, correction_form: a version can be set to the average where its record is the "
           "model; use solver gradient_stream or tangent_mean, or leave it 0";
  }
  return {};
}

}  // namespace gradstream
