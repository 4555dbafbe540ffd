// Local work of RFedAGS (A1, 000 Alg. 1): x = X, zeta = 0; each step: eta = -alpha grad at x,
// zeta <- zeta + T_{x -> X}(eta) (the first eta stands at X already), x <- R_x(eta).
// With a proximal term (task.proximal) grad is that of f + mu/2 d(x, X)^2.
// A retraction is made only when the next step needs it, so that K steps cost K - 1 retractions and K - 1 transports.
// The stream of a part of the steps is complete at any time.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/training/proximal.h"
#include "runtime/training/solver.h"

namespace gradstream {
namespace {

struct State {
  Real* x;
  Real* eta;  // the step from x that is still to be taken, when has_eta
  Real* zeta;
  Real loss_before;
  Real loss_after;
  bool has_eta;
};

State& state_of(const SolverRun& run) { return *static_cast<State*>(run.state); }

size_t scalar_count(const SolverRun& run) {
  return run.estimator->uses_scalars ? run.task.estimator.directions.direction_count : 0;
}

StreamKind stream(const EstimatorOps&) { return StreamKind::kTangentBlock; }

size_t persistent_size(const SolverRun& run) {
  return Arena::taken_size<State>(1) + 3 * Arena::taken_size<Real>(run.task.shape.size());
}

size_t scratch_size(const SolverRun& run) {
  const size_t estimate_size = run.estimator->scratch_size(estimate_input(run, run.model));
  const size_t proximal_size = proximal_scratch_size(*run.manifold, run.task.shape, run.task.proximal);
  const size_t own_size = manifold_scratch_size(run);
  const size_t manifold_size = own_size > proximal_size ? own_size : proximal_size;
  return Arena::taken_size<Real>(run.task.shape.size()) + Arena::taken_size<Real>(scalar_count(run)) +
         (estimate_size > manifold_size ? estimate_size : manifold_size);
}

Status prepare(SolverRun& run, Arena& arena) {
  if (run.task.use_correction) {
    return Status::kInvalidArgument;  // RFedAGS has no control variate
  }
  const size_t size = run.task.shape.size();
  const Result<State*> state = arena.persistent<State>(1);
  GS_TRY(state.status());
  const Result<Real*> x = arena.persistent<Real>(size);
  GS_TRY(x.status());
  const Result<Real*> eta = arena.persistent<Real>(size);
  GS_TRY(eta.status());
  const Result<Real*> zeta = arena.persistent<Real>(size);
  GS_TRY(zeta.status());
  *state.value() = State{x.value(), eta.value(), zeta.value(), 0, 0, false};
  copy(size, run.model, x.value());
  run.state = state.value();
  return Status::kOk;
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
  if (run.steps_done >= run.task.local_step_count) {
    return Status::kProtocolError;
  }
  State& state = state_of(run);
  const Shape shape = run.task.shape;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(shape.size());
  GS_TRY(scratch.status());
  const Result<Real*> scalars = arena.scratch<Real>(scalar_count(run));
  GS_TRY(scalars.status());
  Real* g = scratch.value();
  GS_TRY(move_to_next_point(run, state, g, arena));
  Real loss = 0;
  GS_TRY(run.estimator->estimate(estimate_input(run, state.x, &run.estimate), scalars.value(), g, &loss, arena));
  if (run.estimator->uses_scalars) {
    GS_TRY(run.manifold->project_tangent(shape, state.x, g, g, arena));
  }
  const Real mu = run.steps_done == 0 ? 0 : run.task.proximal;  // at X itself the term is flat
  GS_TRY(add_proximal(*run.manifold, shape, mu, state.x, run.model, g, arena));
  scale(shape.size(), -run.task.step_size, g);
  copy(shape.size(), g, state.eta);
  if (run.steps_done > 0) {
    GS_TRY(run.manifold->transport(shape, state.x, run.model, g, g, arena));
  }
  if (!all_finite(shape.size(), g)) {
    return Status::kNotFinite;
  }
  add_scaled(shape.size(), 1, g, state.zeta);
  state.has_eta = true;
  state.loss_after = loss;
  state.loss_before = run.steps_done == 0 ? loss : state.loss_before;
  ++run.steps_done;
  return Status::kOk;
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

Status finish(SolverRun& run, GradientStream* out) {
  if (run.steps_done == 0) {
    return Status::kProtocolError;
  }
  const State& state = state_of(run);
  out->kind = StreamKind::kTangentBlock;
  out->steps_done = run.steps_done;
  out->values = state.zeta;
  out->value_count = static_cast<uint32_t>(run.task.shape.size());
  out->loss_before = state.loss_before;
  out->loss_after = state.loss_after;
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverGradientStreamOps = {SolverId::kGradientStream,
                                            "gradient stream",
                                            stream,
                                            persistent_size,
                                            scratch_size,
                                            prepare,
                                            step,
                                            finish,
                                            nullptr};

}  // namespace gradstream
