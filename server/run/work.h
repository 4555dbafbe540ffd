// How many local steps a device is asked for, and whether it can have done those that it reports. Pure functions of the
// run's parameters and of the step times that devices report. The straggler policy's choice of partial work
// (docs/wire.md).
#ifndef GRADSTREAM_SERVER_RUN_WORK_H_
#define GRADSTREAM_SERVER_RUN_WORK_H_

#include <cstdint>

#include "server/run/run_parameters.h"

namespace gradstream {

// K_i of a device whose local step takes step_time_us (0: not known) and that has budget_ms for all: as many steps as
// seven eighths of the budget hold, the last eighth being the way back, from least_steps() to K. A device that nobody
// has measured begins with least_steps().
uint32_t timed_step_count(const RunParameters& parameters, uint32_t step_time_us, uint64_t budget_ms);

// The running estimate of a step time after one more measurement: three quarters of the old one, a quarter of the new.
uint32_t next_step_time_us(uint32_t estimate_us, uint32_t measured_us);

// Whether a device can have done so many steps in elapsed_ms, which began before it had the task. step_time_us: what it
// says one took; its clock may run twice as fast as ours. 0: it does not say.
bool had_time_for(const TriggerCore& keys, uint32_t steps_done, uint32_t step_time_us, uint64_t elapsed_ms);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_WORK_H_
