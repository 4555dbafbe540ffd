// What an application says in C of its floors, as the client takes it.
#ifndef GRADSTREAM_FIRMWARE_FLOORS_H_
#define GRADSTREAM_FIRMWARE_FLOORS_H_

#include "include/gradstream/device.h"
#include "runtime/link/privacy.h"

namespace gradstream {

// refuses_sums: gs_config has it beside its gs_privacy.
constexpr PrivacyFloors floors_of(const gs_privacy& privacy, bool refuses_sums) {
  PrivacyFloors floors;
  floors.batch_size_min = privacy.batch_size_min;
  floors.local_step_count_min = privacy.local_step_count_min;
  floors.scalars_per_sample_max = privacy.scalars_per_sample_max;
  floors.sums_samples_min = privacy.sums_samples_min;
  floors.trials_samples_min = privacy.trials_samples_min;
  floors.refuses_tangents = privacy.refuses_tangents;
  floors.sends_losses = privacy.sends_losses;
  floors.skips_evaluation = privacy.skips_evaluation;
  floors.sample_count = static_cast<SampleCountForm>(privacy.sample_count);
  floors.refuses_sums = refuses_sums;
  return floors;
}

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_FLOORS_H_
