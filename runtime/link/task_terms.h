// A Task and a Welcome of the wire, joined into what a solver begins with.
#ifndef GRADSTREAM_RUNTIME_LINK_TASK_TERMS_H_
#define GRADSTREAM_RUNTIME_LINK_TASK_TERMS_H_

#include <cstdint>

#include "runtime/training/task.h"
#include "runtime/wire/codec.h"

namespace gradstream {

// The directions of the run that the Welcome names, as this device or group drew them at base_version.
DirectionSpec to_directions(const gs_Welcome& welcome, uint32_t base_version);

// A Task from the wire, joined with what the Welcome said of the run. Bounds are checked by begin_solver.
Task to_task(const gs_Task& task, const gs_Welcome& welcome);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_TASK_TERMS_H_
