// Local work of Riemannian FedAvg by the tangent mean (A2), with a proximal term RFedProx (A3; 002 section 5):
//   K times  x <- R_x(-alpha (grad f(x) - mu L_x(X)));   zeta = L_X(x)
// L is the inverse of the server's R. Where the path takes the same R (task.local_retraction), one step gives the very
// zeta of RFedAGS, and the server's step is the same. The lift L_X is made once the steps may be the last ones: after
// every step from steps_min on.
// In the stage START the step size is 0: x stays at X, and zeta is minus the sum of the gradients there.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/training/proximal.h"
#include "runtime/training/solver_path.h"

namespace gradstream {
namespace {

struct State : PathState {
  bool has_zeta = false;  // of x
};

size_t persistent_size(const SolverRun& run) { return path_persistent_size<State>(run, 2); }

size_t scratch_size(const SolverRun& run) {
  return path_scratch_size(run, 2, proximal_scratch_size(*run.manifold, run.task.shape, run.task.proximal));
}

Status prepare(SolverRun& run, Arena& arena) {
  if (run.task.use_correction) {
    return Status::kInvalidArgument;  // no control variate
  }
  return prepare_path<State>(run, arena);
}

Status take_slice(SolverRun& run, Arena& arena) {
  State& state = solver_state<State>(run);
  const Shape shape = run.task.shape;
  ScratchScope scope(arena);
  const Result<Real*> next = arena.scratch<Real>(shape.size());
  GS_TRY(next.status());
  const Result<Real*> lift = arena.scratch<Real>(shape.size());
  GS_TRY(lift.status());
  const Result<Real*> scalars = arena.scratch<Real>(estimate_scalar_count(run));
  GS_TRY(scalars.status());
  Real loss = 0;
  GS_TRY(path_gradient(run, state.x, scalars.value(), next.value(), &loss, arena));
  if (run.task.stage == TaskStage::kStart) {
    add_scaled(shape.size(), -1, next.value(), state.zeta);
    state.has_zeta = true;
    count_step(run, loss, state.losses);
    return all_finite(shape.size(), state.zeta) ? Status::kOk : Status::kNotFinite;
  }
  scale(shape.size(), -run.task.step_size, next.value());
  GS_TRY(run.local_manifold->retract(shape, state.x, next.value(), next.value(), arena));
  const bool has_zeta = run.steps_done + 1 >= run.task.steps_min;
  if (has_zeta) {
    GS_TRY(run.manifold->inverse_retract(shape, run.model, next.value(), lift.value(), arena));
  }
  if (!all_finite(shape.size(), next.value()) || (has_zeta && !all_finite(shape.size(), lift.value()))) {
    return Status::kNotFinite;
  }
  copy(shape.size(), next.value(), state.x);
  if (has_zeta) {
    copy(shape.size(), lift.value(), state.zeta);
  }
  state.has_zeta = has_zeta;
  count_step(run, loss, state.losses);
  return Status::kOk;
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

Status finish(SolverRun& run, GradientStream* out) {
  const State& state = solver_state<State>(run);
  if (!state.has_zeta) {
    return Status::kProtocolError;
  }
  fill_stream(run, StreamKind::kTangentBlock, state.zeta, run.task.shape.size(), state.losses, out);
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverTangentMeanOps = {SolverId::kTangentMean,
                                         "tangent mean",
                                         tangent_stream,
                                         persistent_size,
                                         scratch_size,
                                         prepare,
                                         step,
                                         finish,
                                         nullptr};

}  // namespace gradstream
