#include "server/run/check_parameters.h"

#include "server/run/average_keys.h"
#include "server/run/check_range.h"
#include "server/run/delay_keys.h"
#include "server/run/fold_keys.h"
#include "server/run/local_keys.h"
#include "server/run/model_keys.h"
#include "server/run/pace_keys.h"
#include "server/run/participation_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/step_keys.h"
#include "server/run/trigger_keys.h"
#include "server/run/units_keys.h"
#include "server/run/wire_keys.h"

namespace gradstream {

Objection check_parameters(const RunParameters& p) {
  // The first that finds something speaks. Their order decides which of several faults a user is told, and later checks
  // compute with what earlier ones have found sound.
  constexpr Objection (*kChecks[])(const RunParameters&) = {
      // What a device does.
      check_local_work, check_uploads, check_batches, check_proximal, check_svrg, check_steps, check_cycle,
      // The point, and what is minimised.
      check_model, check_units,
      // What the server does with answers, once every number is in its range.
      check_ranges, check_groups, check_participation, check_over_selection, check_straggler, check_timed_work,
      check_retry, check_weight_share, check_clip, check_own_rule, check_buffer, check_attendance, check_device_share,
      check_kept_updates, check_delay_rule, check_delay_switch, check_ortho, check_average, check_curve,
      check_kept_models, check_quality, check_stop};
  for (const auto check : kChecks) {
    if (Objection objection = check(p)) {
      return objection;
    }
  }
  return {};
}

Objection check_new_run(const RunParameters& p) {
  if (Objection objection = check_parameters(p)) {
    return objection;
  }
  if (p.model->problem == kNetworkProblemName && p.model->network.empty()) {
    return "network, problem: the problem \"network\" needs the network that is trained; name its file in network, and "
           "`gradstream network show FILE` prints the keys";
  }
  // While one device works each of the others makes a version, even where all are of one speed. With a larger buffer
  // many devices may be away at any time, so that advice() warns instead.
  if (p.trigger->buffer_size == 1 && p.trigger->staleness_max < p.trigger->device_count - 1) {
    return "staleness_max, device_count, buffer_size: with a version for every update each of " +
           std::to_string(p.trigger->device_count) + " devices of one speed is " +
           std::to_string(p.trigger->device_count - 1) +
           " versions behind, and beyond staleness_max = " + std::to_string(p.trigger->staleness_max) +
           " an update is refused; raise staleness_max (at most " + std::to_string(kStalenessMax) + ") or buffer_size";
  }
  return {};
}

}  // namespace gradstream
