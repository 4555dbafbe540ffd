// Local solvers: prepare / step / finish. prepare checks everything that a server's message can get wrong and takes all
// memory; after it step() can fail only for what the data do (kNotFinite, kSingular).
//
// A local step may take longer than a link, a watchdog or a user waits. So one step() does a slice of it: as much work
// as SolverRun::slice_size says, then kUnfinished. Between two slices a board can answer its link or feed its watchdog.
// The numbers do not depend on the slices. The samples must not change between the slices of one step.
#ifndef GRADSTREAM_RUNTIME_TRAINING_SOLVER_H_
#define GRADSTREAM_RUNTIME_TRAINING_SOLVER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/proximal_loss.h"
#include "runtime/training/estimator.h"
#include "runtime/training/stream.h"
#include "runtime/training/task.h"

namespace gradstream {

// What an image links; tables live in flash.
struct Registry {
  std::span<const ManifoldOps* const> manifolds;
  std::span<const EstimatorOps* const> estimators;
  std::span<const struct SolverOps* const> solvers;
  std::span<const Problem> problems;
  const ProblemOps* proximal_loss = nullptr;  // kProximalLossOps; null: no task with a proximal term in its loss
  const struct LeanForm* lean = nullptr;      // kLeanForm; null: tensors for everything
  const struct StageForm* stages = nullptr;   // kStageForm; null: no stages before training, no units and no lines
};

// Tensors that come with a version beside its model, where the task's solver asks for them; the caller's, unchanged
// during the task. Null: not held.
struct ModelParts {
  const Real* mean_gradient = nullptr;   // kSvrg: g at the model
  const Real* previous_model = nullptr;  // kSvrg with a curvature: the model of the round before
  Units units = {};                      // taken out of the samples once they are decided
};

// Everything a solver needs; filled by begin_solver() and kept by the caller for the length of the task.
struct SolverRun {
  Task task;
  const struct SolverOps* ops = nullptr;
  const ManifoldOps* manifold = nullptr;
  // Makes the path and displaced points: manifold, or its variant with task.local_retraction. The lifts at the model
  // and the transports to it that stand on the wire are manifold's.
  const ManifoldOps* local_manifold = nullptr;
  const EstimatorOps* estimator = nullptr;
  Problem problem;
  const Real* model = nullptr;          // X of task.version; the caller's, unchanged during the task
  const Real* correction = nullptr;     // c_i in gradient units, or null for none; the caller's, unchanged
  const Real* mean_gradient = nullptr;  // as ModelParts
  const Real* previous_model = nullptr;
  Units units;  // taken out of the samples; no columns: none
  uint32_t steps_done = 0;
  // Units of work (EvaluationProgress) that one step() does at most; 0: the whole step. May change at any time, and a
  // new task keeps it.
  uint16_t slice_size = 0;
  bool is_step_open = false;       // the last step() ended with kUnfinished
  uint8_t stage = 0;               // of that step, the solver's own
  void* state = nullptr;           // the solver's own, in the arena
  EstimateProgress estimate = {};  // of that step, the one in progress
};

// Arena scratch that the hungriest operation of either table takes, bytes.
size_t manifold_scratch_size(const SolverRun& run);

// The input of the run's next estimate, at z; points into run. A solver's step gives &run.estimate as the progress, and
// restarts it between two estimates of one step.
EstimateInput estimate_input(const SolverRun& run, const Real* z, EstimateProgress* progress = nullptr);

struct SolverOps {
  SolverId id;
  const char* name;
  // What finish hands over; where that is a ScalarStream, a task may ask for a TangentBlock instead.
  StreamKind (*stream)(const EstimatorOps& estimator);
  // Bytes of persistent and of scratch memory that prepare and step take. A number per (manifold, shape, solver).
  size_t (*persistent_size)(const SolverRun& run);
  size_t (*scratch_size)(const SolverRun& run);
  // Called by begin_solver only. kInvalidArgument for a combination that the solver does not have, kOutOfMemory.
  Status (*prepare)(SolverRun& run, Arena& arena);
  // One local step, or a slice of it; steps_done + 1 when the step is done. kUnfinished: call again, with the same run
  // and arena; the arena holds the step's scratch until the step ends or drop_step(). On error (kNotFinite, kSingular,
  // the problem's own) the state is that before the step, and the stream of the steps before it can still be finished.
  // kProtocolError when local_step_count steps are done. The scratch that scratch_size names must be free.
  Status (*step)(SolverRun& run, Arena& arena);
  // The stream of the steps done so far (at least 1 and task.steps_min; kProtocolError otherwise). Changes nothing:
  // steps may follow.
  Status (*finish)(SolverRun& run, GradientStream* out);
  // Does again a step that was done before a reset, from its direction_count scalars and its loss, without evaluating
  // anything. The run is then bit for bit as after that step(). Codes as step, and kUnimplemented when the run keeps no
  // scalars. null: a solver whose step is more than its scalars.
  Status (*replay)(SolverRun& run, const Real* scalars, Real loss, Arena& arena);
};

extern const SolverOps kSolverProjectionOps;
extern const SolverOps kSolverGradientStreamOps;
extern const SolverOps kSolverTangentMeanOps;
extern const SolverOps kSolverSvrgOps;
extern const SolverOps kSolverCurveOps;  // not built for boards

// Calls step() until the step is done or fails. A problem that answers kUnfinished itself is called again at once.
Status run_step(SolverRun& run, Arena& arena);

// Gives up the step in progress, if there is one, with the scratch that it holds. The steps before it stand: they can
// be finished, and a further step() begins anew. (After a step of kCurve that was dropped no other can follow.)
void drop_step(SolverRun& run, Arena& arena);

// Begins a task. In this order it
// - checks bounds and encoding (kInvalidArgument);
// - looks up everything that the task names (kUnimplemented when the image lacks it);
// - checks shape and data (kInvalidArgument; kUnimplemented for a gradient that the problem lacks);
//   units of other columns than the data's are kInvalidArgument;
// - takes the lean form of the solver where the image links it and it does the task;
// - checks that persistent and scratch memory fit (kOutOfMemory);
// - calls the solver's prepare.
// On error the arena is as before.
// Of task.estimator.directions only kind, shared, direction_count and, when shared, owner (the group) are read: the
// rest is the task's seed, version and client_index. correction is ignored unless task.use_correction; null then means
// that there is none yet.
Status begin_solver(const Registry& registry, const Task& task, const Real* model, const Real* correction,
                    SolverRun* run, Arena& arena, const ModelParts& parts = {});

// kInvalidArgument where units are to be taken out of other columns than the problem's data have.
Status check_units(const Problem& problem, const Units& units);

// ---- For those who write solvers ----------------------------------------------------------------------------------

// What a table's step does: a slice by body(run, arena), whose kUnfinished keeps scratch and progress for the next one.
// In body, run.is_step_open says that a slice came before.
Status do_slice(SolverRun& run, Arena& arena, Status (*body)(SolverRun&, Arena&));

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_SOLVER_H_
