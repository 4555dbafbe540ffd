// Local work of Riemannian FedAvg by the tangent mean (A2), with a proximal term RFedProx (A3; 002 section 5):
//   K times  x <- R_x(-alpha (grad f(x) - mu L_x(X)));   zeta = L_X(x)
// L is the inverse of the server's R. Where the path takes the same R (task.local_retraction), one step gives the very
// zeta of RFedAGS, and the server's step is the same. The lift L_X is made once the steps may be the last ones: after
// every step from steps_min on.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/training/proximal.h"
#include "runtime/training/solver.h"

namespace gradstream {
namespace {

struct State {
  Real* x;
  Real* zeta;
  Real loss_before;
  Real loss_after;
  bool has_zeta;  // of x
};

State& state_of(const SolverRun& run) { return *static_cast<State*>(run.state); }

size_t scalar_count(const SolverRun& run) {
  return run.estimator->uses_scalars ? run.task.estimator.directions.direction_count : 0;
}

StreamKind stream(const EstimatorOps&) { return StreamKind::kTangentBlock; }

size_t persistent_size(const SolverRun& run) {
  return Arena::taken_size<State>(1) + 2 * Arena::taken_size<Real>(run.task.shape.size());
}

size_t scratch_size(const SolverRun& run) {
  const Shape shape = run.task.shape;
  size_t nested = run.estimator->scratch_size(estimate_input(run, run.model));
  const size_t proximal_size = proximal_scratch_size(*run.manifold, shape, run.task.proximal);
  const size_t manifold_size = manifold_scratch_size(run);
  nested = nested > proximal_size ? nested : proximal_size;
  nested = nested > manifold_size ? nested : manifold_size;
  return 2 * Arena::taken_size<Real>(shape.size()) + Arena::taken_size<Real>(scalar_count(run)) + nested;
}

Status prepare(SolverRun& run, Arena& arena) {
  if (run.task.use_correction) {
    return Status::kInvalidArgument;  // no control variate
  }
  const size_t size = run.task.shape.size();
  const Result<State*> state = arena.persistent<State>(1);
  GS_TRY(state.status());
  const Result<Real*> x = arena.persistent<Real>(size);
  GS_TRY(x.status());
  const Result<Real*> zeta = arena.persistent<Real>(size);
  GS_TRY(zeta.status());
  *state.value() = State{x.value(), zeta.value(), 0, 0, false};
  copy(size, run.model, x.value());
  run.state = state.value();
  return Status::kOk;
}

// g <- the Riemannian gradient of the local objective at x.
Status descend_from(SolverRun& run, const Real* x, Real* scalars, Real* g, Real* loss, Arena& arena) {
  GS_TRY(run.estimator->estimate(estimate_input(run, x, &run.estimate), scalars, g, loss, arena));
  if (run.estimator->uses_scalars) {
    GS_TRY(run.manifold->project_tangent(run.task.shape, x, g, g, arena));
  }
  const Real mu = run.steps_done == 0 ? 0 : run.task.proximal;  // at X itself the term is flat
  return add_proximal(*run.manifold, run.task.shape, mu, x, run.model, g, arena);
}

Status take_slice(SolverRun& run, Arena& arena) {
  if (run.steps_done >= run.task.local_step_count) {
    return Status::kProtocolError;
  }
  State& state = state_of(run);
  const Shape shape = run.task.shape;
  ScratchScope scope(arena);
  const Result<Real*> next = arena.scratch<Real>(shape.size());
  GS_TRY(next.status());
  const Result<Real*> lift = arena.scratch<Real>(shape.size());
  GS_TRY(lift.status());
  const Result<Real*> scalars = arena.scratch<Real>(scalar_count(run));
  GS_TRY(scalars.status());
  Real loss = 0;
  GS_TRY(descend_from(run, state.x, scalars.value(), next.value(), &loss, arena));
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
  state.loss_after = loss;
  state.loss_before = run.steps_done == 0 ? loss : state.loss_before;
  ++run.steps_done;
  return Status::kOk;
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

Status finish(SolverRun& run, GradientStream* out) {
  const State& state = state_of(run);
  if (!state.has_zeta) {
    return Status::kProtocolError;
  }
  out->kind = StreamKind::kTangentBlock;
  out->steps_done = run.steps_done;
  out->values = state.zeta;
  out->value_count = static_cast<uint32_t>(run.task.shape.size());
  out->loss_before = state.loss_before;
  out->loss_after = state.loss_after;
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverTangentMeanOps = {
    SolverId::kTangentMean, "tangent mean", stream, persistent_size, scratch_size, prepare, step, finish, nullptr};

}  // namespace gradstream
