// What gs_config.problem points to: the C++ side of gradstream_device.h.
//
//   struct RobustDirection { ... };                                  // a ProblemType of runtime/problem/problem.h
//   constexpr ProblemOps kRobustOps = make_problem_ops<RobustDirection>();
//   const gs_linked_problem linked = {{&kRobustOps, &robust}};
//   config.problem = &linked;
#ifndef GRADSTREAM_FIRMWARE_LINKED_PROBLEM_H_
#define GRADSTREAM_FIRMWARE_LINKED_PROBLEM_H_

#include "firmware/gradstream_device.h"
#include "runtime/problem/measurement.h"
#include "runtime/problem/problem.h"

struct gs_linked_problem {
  // A null context stands for the SampleSource of gs_config's samples.
  gradstream::Problem problem;
  // network_digest() of the network that the problem is made of; 0: of none.
  uint64_t network_digest = 0;
};

namespace gradstream {

// For MeasurementOptions::report: a line event=measurement_lost with the question, its wait, the limit and the remedy.
void log_lost_measurement(const Measurement& measurement);

// Of the number that an application's callback returns. Only a loss and its gradient can wait: GS_MEASURING of another
// callback is GS_UNFINISHED.
inline Status status_of_callback(int code) {
  if (code == GS_UNFINISHED || code == GS_MEASURING) {
    return Status::kUnfinished;
  }
  return code == 0 ? Status::kOk : Status::kNotFinite;
}

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_LINKED_PROBLEM_H_
