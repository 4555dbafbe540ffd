// Local work of the variance-reduced algorithms (002): RFedSVRG (A4), and with a curvature of the task RFedSVRG-2BB and
// -2BBS (A5, A6). With the mean gradient g of all devices at X, and x_{t-1} the model of the round before:
//   K times  v = grad f(x) + T_{X -> x}(g - grad f(X) + (b - b_i) L_X(x));   x <- R_x(-eta v)
//   zeta = L_X(x), of the last x, or of x_l with l drawn from 0 .. K - 1 (task.draws_iterate)
// b comes with the task. b_i is this device's own, from its gradients at x_{t-1} and X. Both gradients are computed
// here from the models that the server sends, so that a device keeps nothing from round to round and a reset changes no
// bit. If b_i means nothing (training/secant.h), or there is no b, b = b_i = 0.
//
// The first step needs no gradient of its own, because v = g at x = X. So K steps cost K gradients over all samples,
// and one more with a curvature. Steps after x_l are counted and not done.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/training/secant.h"
#include "runtime/training/solver_path.h"

namespace gradstream {
namespace {

// Of SolverRun in the first step: the gradient that comes next.
enum Stage : uint8_t { kAtModel, kAtPrevious };

struct State : PathState {
  Real* shift = nullptr;  // g - grad f(X)
  uint32_t last = 0;      // steps after which x is the iterate that is sent
  Real coefficient = 0;   // b - b_i
  bool has_zeta = false;
};

size_t persistent_size(const SolverRun& run) { return path_persistent_size<State>(run, 3); }

size_t scratch_size(const SolverRun& run) {
  return path_scratch_size(run, 2, secant_scratch_size(*run.manifold, run.task.shape));
}

// l of option 2: uniform in 0 .. K - 1.
uint32_t draw_iterate(const Task& task) {
  RandomKey key;
  key.seed = task.seed;
  key.domain = RandomDomain::kIterate;
  key.version = task.version;
  key.owner = task.client_index;
  const uint64_t word = RandomStream(key).next();
  return static_cast<uint32_t>(word * task.local_step_count >> 32);
}

Status prepare(SolverRun& run, Arena& arena) {
  const Task& task = run.task;
  const bool has_all = run.mean_gradient != nullptr && (task.curvature == 0 || run.previous_model != nullptr);
  // A part of the samples, or of the steps where an iterate is drawn from all, would not be the published work.
  const bool is_whole =
      task.estimator.batch_mode == BatchMode::kAll && (!task.draws_iterate || task.steps_min == task.local_step_count);
  if (!has_all || !is_whole || task.use_correction || task.proximal != 0 || run.estimator->uses_scalars) {
    return Status::kInvalidArgument;
  }
  GS_TRY(prepare_path(run, arena, &State::shift));
  solver_state<State>(run).last = task.draws_iterate ? draw_iterate(task) : task.local_step_count;
  return Status::kOk;
}

// b - b_i; gradient is that at X. scratch: one tensor.
Status find_coefficient(SolverRun& run, const Real* gradient, Real* scratch, Real* coefficient, Arena& arena) {
  *coefficient = 0;
  if (run.task.curvature == 0) {
    return Status::kOk;
  }
  GS_TRY(run.estimator->estimate(estimate_input(run, run.previous_model, &run.estimate), nullptr, scratch, nullptr,
                                 arena));
  Secant secant;
  GS_TRY(find_secant(*run.manifold, run.task.shape, run.previous_model, run.model, scratch, gradient, &secant, arena));
  const Real own = curvature_of(run.task.curvature_form, secant);
  *coefficient = own == 0 ? 0 : run.task.curvature - own;
  return Status::kOk;
}

// v at the first point: g itself. Fills shift and coefficient.
Status first_direction(SolverRun& run, State& state, Real* v, Real* other, Real* loss, Arena& arena) {
  const size_t size = run.task.shape.size();
  if (run.stage == kAtModel) {
    GS_TRY(run.estimator->estimate(estimate_input(run, run.model, &run.estimate), nullptr, v, &state.losses.before,
                                   arena));
    run.stage = kAtPrevious;
    run.estimate.restart();
  }
  GS_TRY(find_coefficient(run, v, other, &state.coefficient, arena));
  *loss = state.losses.before;
  copy(size, run.mean_gradient, state.shift);
  add_scaled(size, -1, v, state.shift);
  copy(size, run.mean_gradient, v);
  return Status::kOk;
}

// v at a later point.
Status direction(SolverRun& run, const State& state, Real* v, Real* other, Real* loss, Arena& arena) {
  const Shape shape = run.task.shape;
  GS_TRY(run.estimator->estimate(estimate_input(run, state.x, &run.estimate), nullptr, v, loss, arena));
  if (state.coefficient != 0) {
    GS_TRY(run.manifold->inverse_retract(shape, run.model, state.x, other, arena));
    scale(shape.size(), state.coefficient, other);
    add_scaled(shape.size(), 1, state.shift, other);
  } else {
    copy(shape.size(), state.shift, other);
  }
  GS_TRY(run.manifold->transport(shape, run.model, state.x, other, other, arena));
  add_scaled(shape.size(), 1, other, v);
  return Status::kOk;
}

// x <- R_x(-eta v), and zeta where this may be the iterate that is sent. other: scratch.
Status move(const SolverRun& run, State& state, Real* v, Real* other, Arena& arena) {
  const Shape shape = run.task.shape;
  scale(shape.size(), -run.task.step_size, v);
  GS_TRY(run.local_manifold->retract(shape, state.x, v, v, arena));
  const uint32_t done = run.steps_done + 1;
  const bool has_zeta = done == state.last || (!run.task.draws_iterate && done >= run.task.steps_min);
  if (has_zeta) {
    GS_TRY(run.manifold->inverse_retract(shape, run.model, v, other, arena));
  }
  if (!all_finite(shape.size(), v) || (has_zeta && !all_finite(shape.size(), other))) {
    return Status::kNotFinite;
  }
  copy(shape.size(), v, state.x);
  if (has_zeta) {
    copy(shape.size(), other, state.zeta);
    state.has_zeta = true;
  }
  return Status::kOk;
}

Status take_slice(SolverRun& run, Arena& arena) {
  State& state = solver_state<State>(run);
  const size_t size = run.task.shape.size();
  ScratchScope scope(arena);
  const Result<Real*> v = arena.scratch<Real>(size);
  GS_TRY(v.status());
  const Result<Real*> other = arena.scratch<Real>(size);
  GS_TRY(other.status());
  Real loss = state.losses.after;
  if (run.steps_done == 0) {
    GS_TRY(first_direction(run, state, v.value(), other.value(), &loss, arena));
  } else if (run.steps_done < state.last) {
    GS_TRY(direction(run, state, v.value(), other.value(), &loss, arena));
  }
  if (run.steps_done < state.last) {
    GS_TRY(move(run, state, v.value(), other.value(), arena));
  }
  count_step(run, loss, state.losses);
  return Status::kOk;
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

Status finish(SolverRun& run, GradientStream* out) {
  const State& state = solver_state<State>(run);
  if (run.steps_done == 0 || run.steps_done < run.task.steps_min || (!state.has_zeta && state.last > 0)) {
    return Status::kProtocolError;
  }
  fill_stream(run, StreamKind::kTangentBlock, state.zeta, run.task.shape.size(), state.losses, out);
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverSvrgOps = {SolverId::kSvrg, "svrg", tangent_stream, persistent_size, scratch_size,
                                  prepare,         step,   finish,         nullptr};

}  // namespace gradstream
