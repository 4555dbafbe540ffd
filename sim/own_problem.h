// What the caller of a simulation brings: samples and a loss of its own, keys of the run, an aggregation. Each may be
// left out.
#ifndef GRADSTREAM_SIM_OWN_PROBLEM_H_
#define GRADSTREAM_SIM_OWN_PROBLEM_H_

#include <functional>
#include <vector>

#include "runtime/problem/problem.h"
#include "server/run/run_parameters.h"

namespace gradstream {

struct OwnRule;  // server/rules/aggregator_own.h

struct OwnProblem {
  const ProblemOps* ops = nullptr;    // null: the simulator's own problem, over samples that it draws
  std::vector<const void*> contexts;  // of ops, by device
  // Sets keys of the run, over those that the options have set.
  std::function<void(RunParameters* parameters)> adjust = [](RunParameters*) {};
  const OwnRule* rule = nullptr;  // null: the run's
  // Asked between two events: true ends the simulation, as broken.
  std::function<bool()> is_ended = [] { return false; };
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_OWN_PROBLEM_H_
