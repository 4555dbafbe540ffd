// Local work of AsyncCurve (A13; 004 Alg. 2 as docs/algorithms.md corrects it), X the model, in Euclidean space:
//   K times  one epoch of Adam on f(th) + mu/2 |th - X|^2
//            M = (X + th) / 2, D = X - th; one epoch of Adam (begun anew) on d:
//            l ~ U[0, 1], phi = M + (1 - gamma P_D) d, gradient 2 l (1 - l) (1 - gamma P_D) grad f(curve(l))
//   uploads (th - X, phi - X), phi with the last M.
// A step is both epochs, so that a part of the steps is complete. gamma is task.curvature. The end point's Adam goes on
// from epoch to epoch; d does too, its moments do not.
#include "runtime/base/no_contraction.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/training/curve.h"
#include "runtime/training/solver.h"

namespace gradstream {
namespace {

// Rate of the control point by that of the end point. Reason: the report's, 1e-4 and 1e-3.
constexpr Real kControlShare = static_cast<Real>(0.1);

struct State {
  Real* end = nullptr;     // th
  Real* offset = nullptr;  // d
  Real* upload = nullptr;  // two tensors
  Adam end_adam;
  Adam offset_adam;
  Real loss_before = 0;
  Real loss_after = 0;
  bool is_spoilt = false;  // by a step that failed: no other follows, and the upload is that of the steps before
};

State& state_of(const SolverRun& run) { return *static_cast<State*>(run.state); }

StreamKind stream(const EstimatorOps&) { return StreamKind::kTangentBlock; }

uint32_t held_count(const SolverRun& run) { return run.problem.ops->sample_count(run.problem.context); }

size_t persistent_size(const SolverRun& run) {
  const size_t size = run.task.shape.size();
  return Arena::taken_size<State>(1) + 6 * Arena::taken_size<Real>(size) + Arena::taken_size<Real>(2 * size);
}

size_t scratch_size(const SolverRun& run) {
  return 3 * Arena::taken_size<Real>(run.task.shape.size()) + Arena::taken_size<uint16_t>(held_count(run)) +
         run.problem.ops->scratch_size(run.problem.context, run.task.shape);
}

Status prepare(SolverRun& run, Arena& arena) {
  const Task& task = run.task;
  const bool is_good = !task.use_correction && task.manifold == ManifoldId::kEuclidean && task.curvature <= 1 &&
                       task.estimator.id == EstimatorId::kAnalyticGradient &&
                       task.estimator.batch_mode == BatchMode::kCommon && task.estimator.batch_schedule_count == 0;
  if (!is_good) {
    return Status::kInvalidArgument;
  }
  const size_t size = task.shape.size();
  const Result<State*> state = arena.persistent<State>(1);
  GS_TRY(state.status());
  *state.value() = State{};
  State& s = *state.value();
  for (Real** tensor :
       {&s.end, &s.offset, &s.end_adam.first, &s.end_adam.second, &s.offset_adam.first, &s.offset_adam.second}) {
    const Result<Real*> memory = arena.persistent<Real>(size);
    GS_TRY(memory.status());
    *tensor = memory.value();
  }
  const Result<Real*> upload = arena.persistent<Real>(2 * size);
  GS_TRY(upload.status());
  s.upload = upload.value();
  copy(size, run.model, s.end);
  fill_zero(size, s.offset);
  s.end_adam.restart(size);
  s.offset_adam.restart(size);
  run.state = state.value();
  return Status::kOk;
}

struct Work {
  Real* gradient = nullptr;
  Real* along = nullptr;  // X - th
  Real* point = nullptr;
  uint16_t* order = nullptr;
};

// A permutation of the samples. epoch: 2 for each step, the control point's after the end point's.
RandomKey epoch_key(const SolverRun& run, uint32_t epoch) {
  RandomKey key = minibatch_key(estimate_input(run, run.model));
  key.step = 2 * run.steps_done + epoch;
  return key;
}

// Calls visit(batch) for each minibatch of an epoch; the last one is what is left.
template <typename Visit>
Status for_each_batch(const SolverRun& run, uint32_t epoch, const Work& work, Visit visit) {
  const uint32_t held = held_count(run);
  choose(epoch_key(run, epoch), held, held, work.order);
  for (uint32_t first = 0; first < held; first += run.task.estimator.batch_size) {
    const uint32_t rest = held - first;
    const uint32_t size = run.task.estimator.batch_size;
    GS_TRY(visit(Batch{work.order + first, size < rest ? size : rest}));
  }
  return Status::kOk;
}

Status train_end(const SolverRun& run, State& state, const Work& work, Real* loss_sum, uint32_t* batch_count,
                 Arena& arena) {
  const Shape shape = run.task.shape;
  const EstimateInput input = estimate_input(run, state.end);
  return for_each_batch(run, 0, work, [&](Batch batch) {
    const Result<Real> loss = finite_loss(input, state.end, batch, arena);
    GS_TRY(loss.status());
    *loss_sum += loss.value();
    ++*batch_count;
    GS_TRY(run.problem.ops->gradient(run.problem.context, shape, state.end, batch, work.gradient, arena));
    add_scaled(shape.size(), run.task.proximal, state.end, work.gradient);
    add_scaled(shape.size(), -run.task.proximal, run.model, work.gradient);
    state.end_adam.step(shape.size(), run.task.step_size, work.gradient, state.end);
    return all_finite(shape.size(), state.end) ? Status::kOk : Status::kNotFinite;
  });
}

// point <- phi.
void place_control(const SolverRun& run, const State& state, const Work& work, Real* point) {
  const size_t size = run.task.shape.size();
  copy(size, state.offset, point);
  take_out(size, run.task.curvature, work.along, point);
  add_scaled(size, static_cast<Real>(0.5), run.model, point);
  add_scaled(size, static_cast<Real>(0.5), state.end, point);
}

Status train_control(const SolverRun& run, State& state, const Work& work, Arena& arena) {
  const Shape shape = run.task.shape;
  RandomKey key = epoch_key(run, 1);
  key.domain = RandomDomain::kIterate;  // apart from the epoch's order
  RandomStream chance(key);
  state.offset_adam.restart(shape.size());
  return for_each_batch(run, 1, work, [&](Batch batch) {
    const auto l = static_cast<Real>(chance.next_uniform());
    place_control(run, state, work, work.point);
    curve_point(shape.size(), l, run.model, work.point, state.end, work.point);
    GS_TRY(run.problem.ops->gradient(run.problem.context, shape, work.point, batch, work.gradient, arena));
    take_out(shape.size(), run.task.curvature, work.along, work.gradient);
    scale(shape.size(), 2 * l * (1 - l), work.gradient);
    state.offset_adam.step(shape.size(), kControlShare * run.task.step_size, work.gradient, state.offset);
    return all_finite(shape.size(), state.offset) ? Status::kOk : Status::kNotFinite;
  });
}

Status step(SolverRun& run, Arena& arena) {
  State& state = state_of(run);
  if (run.steps_done >= run.task.local_step_count || state.is_spoilt) {
    return Status::kProtocolError;
  }
  state.is_spoilt = true;
  const size_t size = run.task.shape.size();
  ScratchScope scope(arena);
  const Result<Real*> gradient = arena.scratch<Real>(size);
  GS_TRY(gradient.status());
  const Result<Real*> along = arena.scratch<Real>(size);
  GS_TRY(along.status());
  const Result<Real*> point = arena.scratch<Real>(size);
  GS_TRY(point.status());
  const Result<uint16_t*> order = arena.scratch<uint16_t>(held_count(run));
  GS_TRY(order.status());
  const Work work = {gradient.value(), along.value(), point.value(), order.value()};
  Real loss_sum = 0;
  uint32_t batch_count = 0;
  GS_TRY(train_end(run, state, work, &loss_sum, &batch_count, arena));
  for (size_t e = 0; e < size; ++e) {
    work.along[e] = run.model[e] - state.end[e];
  }
  GS_TRY(train_control(run, state, work, arena));
  place_control(run, state, work, work.point);
  for (size_t e = 0; e < size; ++e) {
    state.upload[e] = -work.along[e];
    state.upload[size + e] = work.point[e] - run.model[e];
  }
  state.loss_after = loss_sum / static_cast<Real>(batch_count);
  state.loss_before = run.steps_done == 0 ? state.loss_after : state.loss_before;
  state.is_spoilt = false;
  ++run.steps_done;
  return Status::kOk;
}

Status finish(SolverRun& run, GradientStream* out) {
  const State& state = state_of(run);
  if (run.steps_done == 0 || run.steps_done < run.task.steps_min) {
    return Status::kProtocolError;
  }
  out->kind = StreamKind::kTangentBlock;
  out->steps_done = run.steps_done;
  out->values = state.upload;
  out->value_count = static_cast<uint32_t>(2 * run.task.shape.size());
  out->loss_before = state.loss_before;
  out->loss_after = state.loss_after;
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverCurveOps = {SolverId::kCurve, "curve", stream, persistent_size, scratch_size,
                                   prepare,          step,    finish, nullptr};

}  // namespace gradstream
