// What the messages to a device say of its run: the run's keys, in the words of the wire. A key that devices see goes
// into one of these functions and into the list of fields that its message has.
#ifndef GRADSTREAM_SERVER_COORDINATOR_RUN_MESSAGES_H_
#define GRADSTREAM_SERVER_COORDINATOR_RUN_MESSAGES_H_

#include <cstdint>

#include "runtime/training/task.h"
#include "runtime/wire/codec.h"

namespace gradstream {

struct RunParameters;
struct TaskTerms;

// welcome <- what it tells the device of this enrolment index of the run's keys. Other fields stay as they are.
void describe_run(const RunParameters& parameters, uint32_t client_index, gs_Welcome* welcome);

// What a task of the run asks of any device: the keys, and what the open version asks for. Left out are the fields that
// a device has its own value of: sequence, version, local_step_count, memory_stamp and client_index.
Task make_task(const RunParameters& parameters, const TaskTerms& terms);

// out <- the task in the words of the wire, all but the digest of its model.
void write_task(const Task& task, gs_Task* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_RUN_MESSAGES_H_
