// What solvers share, for those who write one: the state of a run, how a step ends and what is handed over. And the
// frame of the solvers that go along a path x from the model X and upload a tangent zeta at X. The state of such a
// solver derives from PathState. It stands in the arena, which zeroes it.
#ifndef GRADSTREAM_RUNTIME_TRAINING_SOLVER_PATH_H_
#define GRADSTREAM_RUNTIME_TRAINING_SOLVER_PATH_H_

#include <cstddef>

#include "runtime/base/arena.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"

namespace gradstream {

// ---- Every solver ----

// The state that the solver's prepare took.
template <typename State>
State& solver_state(const SolverRun& run) {
  return *static_cast<State*>(run.state);
}

// Losses of the steps done: at the point where the first and the last one began.
struct StepLosses {
  Real before = 0;
  Real after = 0;
};

// Ends a step whose estimate had this loss. Nothing of the step may fail after it.
void count_step(SolverRun& run, Real loss, StepLosses& losses);

// Whether the scalars of a step can be taken for one that is to be done: kProtocolError where all steps are done,
// kNotFinite. scalars: direction_count of them.
Status check_replay(const SolverRun& run, const Real* scalars);

// out <- what finish hands over of the steps done.
void fill_stream(const SolverRun& run, StreamKind kind, const Real* values, size_t value_count,
                 const StepLosses& losses, GradientStream* out);

// ---- A path from X, and a tangent at X ----

struct PathState {
  Real* x = nullptr;     // the point that the path has come to; X at first
  Real* zeta = nullptr;  // the upload; 0 at first
  StepLosses losses;
};

// SolverOps::stream of these solvers.
StreamKind tangent_stream(const EstimatorOps& estimator);

// Scalars of one estimate, which such a solver does not keep.
size_t estimate_scalar_count(const SolverRun& run);

// SolverOps::persistent_size of a state with so many tensors, x and zeta among them.
template <typename State>
size_t path_persistent_size(const SolverRun& run, size_t tensor_count) {
  return Arena::taken_size<State>(1) + tensor_count * Arena::taken_size<Real>(run.task.shape.size());
}

// SolverOps::scratch_size of a step that holds so many tensors and its passing scalars, and above them takes what an
// estimate, an operation of the manifold, or other_size bytes take.
size_t path_scratch_size(const SolverRun& run, size_t tensor_count, size_t other_size);

// Takes x and zeta, and begins at the model. kOutOfMemory.
Status begin_path(const SolverRun& run, PathState* state, Arena& arena);

// Takes the state of the run, x and zeta, and another tensor of the state where it is named. kOutOfMemory.
template <typename State>
Status prepare_path(SolverRun& run, Arena& arena, Real* State::*other = nullptr) {
  const Result<State*> state = arena.persistent<State>(1);
  GS_TRY(state.status());
  if (other != nullptr) {
    const Result<Real*> tensor = arena.persistent<Real>(run.task.shape.size());
    GS_TRY(tensor.status());
    state.value()->*other = tensor.value();
  }
  run.state = state.value();
  return begin_path(run, state.value(), arena);
}

// g <- the Riemannian gradient at x of the device's objective, with the task's proximal term. scalars:
// estimate_scalar_count() of them. Codes of EstimatorOps::estimate, kUnfinished among them, and of add_proximal.
Status path_gradient(SolverRun& run, const Real* x, Real* scalars, Real* g, Real* loss, Arena& arena);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_SOLVER_PATH_H_
