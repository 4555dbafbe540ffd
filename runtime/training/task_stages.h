// What the stages before training ask of a device (docs/wire.md): sums over the columns of its data, and losses along a
// direction. A stage is a task of one local step whose answer is no estimate. So its work is cut into slices, refused,
// saved and sent as that of any task.
//
//   EXPONENTS  e of each column: the least whole number with abs(x) < 2^e for all samples
//   SUMS       sums of q = x 2^(30 - e), rounded; where the run scales by ranges also the least and the greatest q
//   SQUARES    sums of r^2, r = (x - mean) 2^(22 - e), rounded; x - mean in float
//   TRIALS     f(P(X - a 2^-q d)) - f(X), q = 0 .. 31, on the evaluation samples
//
// The first three are whole numbers, behind the number of samples: no order of samples changes a bit. The stage START
// is a task of the run's own solver with a step size of 0, and not made here.
#ifndef GRADSTREAM_RUNTIME_TRAINING_TASK_STAGES_H_
#define GRADSTREAM_RUNTIME_TRAINING_TASK_STAGES_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/units.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"

namespace gradstream {

// Losses along a direction. Reason: from a movement across the whole manifold down to 2^-31 of it, below which a float
// does not move.
inline constexpr uint32_t kRungCount = 32;
// What is sent for a loss that is greater, or no number. Reason: sums of it stay finite in float.
inline constexpr float kRungMax = 1e30F;

// Whether the stage asks for sums over columns.
constexpr bool is_units_stage(TaskStage stage) {
  return stage == TaskStage::kExponents || stage == TaskStage::kSums || stage == TaskStage::kSquares;
}
// Whether another table than the solver's does the stage.
constexpr bool is_own_stage(TaskStage stage) { return is_units_stage(stage) || stage == TaskStage::kTrials; }

// What a stage needs beside its task; the caller's, unchanged during the task.
struct StageInput {
  const Replica* replica = nullptr;  // X, and in TRIALS d as its part kDirection
  Units units;                       // the run's table; no columns: there is none yet
  uint32_t holdout = 0;              // as is_held_out()
  bool wants_range = false;          // SUMS: the least and the greatest q too
};

struct StageForm {
  // Number of values of the answer, and in task what a task of one step needs besides: steps and encoding. 0: the
  // problem has no columns that units can be taken out of.
  uint32_t (*plan)(const Problem& problem, const StageInput& input, Task* task);
  // As begin_solver(), for a task that plan() has seen; run->task is the task. In this order:
  // - kInvalidArgument: the data have another shape than the run; the table has other columns than the data, or none
  //   where the stage needs it; no sample is left to answer with; TRIALS without a direction, or with a length that is
  //   no number above 0;
  // - kOutOfMemory.
  // The run's step() then gives kOutOfRange for a value beyond the table's exponent, kNotFinite for one that is no
  // number, and the codes of the sample source and of the problem.
  Status (*begin)(const Problem& problem, const StageInput& input, SolverRun* run, Arena& arena);
  // After a step of a units stage that failed for a sample: which one. what == nullptr: none.
  SampleFault (*sample_fault)(const SolverRun& run);
};

extern const StageForm kStageForm;

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_TASK_STAGES_H_
