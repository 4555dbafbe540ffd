// What gs_config.problem points to: the C++ side of <gradstream/device.h>.
//
//   struct RobustDirection { ... };                                  // a ProblemType of runtime/problem/problem.h
//   constexpr ProblemOps kRobustOps = make_problem_ops<RobustDirection>();
//   const gs_linked_problem linked = {{&kRobustOps, &robust}};
//   config.problem = &linked;
#ifndef GRADSTREAM_INCLUDE_GRADSTREAM_PROBLEM_H_
#define GRADSTREAM_INCLUDE_GRADSTREAM_PROBLEM_H_

#if __cplusplus < 202002L
#error "<gradstream/problem.h> needs C++20: compile this file with -std=c++20, or write the loss in C (gs_own_problem)"
#endif

#include <cstddef>
#include <span>

#include "include/gradstream/device.h"
#include "runtime/problem/measurement.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/score.h"

struct gs_linked_problem {
  // A null context stands for the SampleSource of gs_config's samples.
  gradstream::Problem problem;
  // network_digest() of the network that the problem is made of; 0: of none.
  uint64_t network_digest = 0;
  // Of a problem in C++: what gs_score() and gs_predict() call. Null: as <gradstream/device.h> says.
  const gradstream::ScoreOps* scores = nullptr;
#if !defined(GS_BARE_METAL)
  // Further problems that the same samples fit, kMoreProblemsMax at most; they live as long as the client.
  std::span<const gradstream::Problem> more = {};
#endif
};

namespace gradstream {

// Problems beside the first one of a client. Reason: a Hello names four (proto/gradstream.options).
inline constexpr size_t kMoreProblemsMax = 3;

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

#endif  // GRADSTREAM_INCLUDE_GRADSTREAM_PROBLEM_H_
