// Local work of RFedAGS (A1, 000 Alg. 1): x = X, zeta = 0; each step: eta = -alpha grad at x,
// zeta <- zeta + T_{x -> X}(eta) (the first eta stands at X already), x <- R_x(eta).
// With a proximal term (task.proximal) grad is that of f + mu/2 d(x, X)^2.
// A retraction is made only when the next step needs it, so that K steps cost K - 1 retractions and K - 1 transports.
// The stream of a part of the steps is complete at any time.
// In the stage START the step size is 0: x stays at X, and zeta is made as with alpha = 1.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/training/proximal.h"
#include "runtime/training/solver_path.h"

namespace gradstream {
namespace {

struct State : PathState {
  Real* eta = nullptr;  // the step from x that is still to be taken, when has_eta
  bool has_eta = false;
};

size_t persistent_size(const SolverRun& run) { return path_persistent_size<State>(run, 3); }

size_t scratch_size(const SolverRun& run) {
  return path_scratch_size(run, 1, proximal_scratch_size(*run.manifold, run.task.shape, run.task.proximal));
}

Status prepare(SolverRun& run, Arena& arena) {
  if (run.task.use_correction) {
    return Status::kInvalidArgument;  // RFedAGS has no control variate
  }
  return prepare_path(run, arena, &State::eta);
}

// x <- R_x(eta) where it is still to be done; scratch: one tensor. The same point whether or not a later part of the
// step fails.
Status move_to_next_point(const SolverRun& run, State& state, Real* scratch, Arena& arena) {
  if (!state.has_eta) {
    return Status::kOk;
  }
  const Shape shape = run.task.shape;
  GS_TRY(run.local_manifold->retract(shape, state.x, state.eta, scratch, arena));
  if (!all_finite(shape.size(), scratch)) {
    return Status::kNotFinite;
  }
  copy(shape.size(), scratch, state.x);
  state.has_eta = false;
  return Status::kOk;
}

Status take_slice(SolverRun& run, Arena& arena) {
  State& state = solver_state<State>(run);
  const Shape shape = run.task.shape;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(shape.size());
  GS_TRY(scratch.status());
  const Result<Real*> scalars = arena.scratch<Real>(estimate_scalar_count(run));
  GS_TRY(scalars.status());
  Real* g = scratch.value();
  GS_TRY(move_to_next_point(run, state, g, arena));
  Real loss = 0;
  GS_TRY(path_gradient(run, state.x, scalars.value(), g, &loss, arena));
  const bool stays = run.task.stage == TaskStage::kStart;
  scale(shape.size(), stays ? -1 : -run.task.step_size, g);
  copy(shape.size(), g, state.eta);
  if (run.steps_done > 0 && !stays) {
    GS_TRY(run.manifold->transport(shape, state.x, run.model, g, g, arena));
  }
  if (!all_finite(shape.size(), g)) {
    return Status::kNotFinite;
  }
  add_scaled(shape.size(), 1, g, state.zeta);
  state.has_eta = !stays;
  count_step(run, loss, state.losses);
  return Status::kOk;
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

Status finish(SolverRun& run, GradientStream* out) {
  if (run.steps_done == 0) {
    return Status::kProtocolError;
  }
  const State& state = solver_state<State>(run);
  fill_stream(run, StreamKind::kTangentBlock, state.zeta, run.task.shape.size(), state.losses, out);
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverGradientStreamOps = {SolverId::kGradientStream,
                                            "gradient stream",
                                            tangent_stream,
                                            persistent_size,
                                            scratch_size,
                                            prepare,
                                            step,
                                            finish,
                                            nullptr};

}  // namespace gradstream
