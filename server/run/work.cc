#include "server/run/work.h"

#include <algorithm>

#include "server/run/run_core.h"

namespace gradstream {

uint32_t timed_step_count(const RunParameters& parameters, uint32_t step_time_us, uint64_t budget_ms) {
  const uint32_t least = parameters.least_steps();
  if (step_time_us == 0) {
    return least;
  }
  const uint64_t fits = budget_ms * 875 / step_time_us;
  return static_cast<uint32_t>(std::clamp<uint64_t>(fits, least, parameters.local->local_step_count));
}

uint32_t next_step_time_us(uint32_t estimate_us, uint32_t measured_us) {
  if (estimate_us == 0 || measured_us == 0) {
    return std::max(estimate_us, measured_us);
  }
  return static_cast<uint32_t>((uint64_t{3} * estimate_us + measured_us + 2) / 4);
}

bool had_time_for(const TriggerCore& keys, uint32_t steps_done, uint32_t step_time_us, uint64_t elapsed_ms) {
  const uint64_t most_us = (elapsed_ms + 1) * 1000;  // the shell's clock counts whole milliseconds
  return uint64_t{steps_done} * keys.step_time_min_us <= most_us && uint64_t{steps_done} * step_time_us <= 2 * most_us;
}

}  // namespace gradstream
