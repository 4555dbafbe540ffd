// Local work of AsyncCurve (A13; 004 Alg. 2 as docs/algorithms.md corrects it), X the model, in Euclidean space:
//   K times  one epoch of Adam on f(th) + mu/2 |th - X|^2, or on f(th) with the task's proximal form, as (24) of 004
//            M = (X + th) / 2, D = X - th; one epoch of Adam (begun anew) on d:
//            l ~ U[0, 1], phi = M + (1 - gamma P_D) d, gradient 2 l (1 - l) (1 - gamma P_D) grad f(curve(l))
//   uploads (th - X, phi - X), phi with the last M.
// A step is both epochs, so that a part of the steps is complete. gamma is task.curvature. The end point's Adam goes on
// from epoch to epoch; d does too, its moments do not.
#include "runtime/base/no_contraction.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/problem/proximal_loss.h"
#include "runtime/training/curve.h"
#include "runtime/training/solver_path.h"

namespace gradstream {
namespace {

// Rate of the control point by that of the end point. Reason: the report's, 1e-4 and 1e-3.
constexpr Real kControlShare = static_cast<Real>(0.1);

// Of SolverRun: the epoch in progress.
enum Stage : uint8_t { kEnd, kControl };

// How far an epoch has come.
struct Epoch {
  bool has_order = false;
  uint32_t first = 0;  // sample of the order with which the next minibatch begins
  uint32_t batch_count = 0;
  bool has_loss = false;  // of the next minibatch
  Real loss_sum = 0;
};

struct State {
  Real* end = nullptr;     // th
  Real* offset = nullptr;  // d
  Real* upload = nullptr;  // two tensors
  Epoch epoch;
  Adam end_adam;
  Adam offset_adam;
  Real loss_step = 0;  // of the step in progress
  StepLosses losses;
  bool is_spoilt = false;  // by a step that failed: no other follows, and the upload is that of the steps before
};

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

// A permutation of all samples that are trained on.
void choose_epoch(const EstimateInput& input, const RandomKey& key, uint32_t count, uint16_t* order) {
  choose_trained(input, key, count, order);
  if (input.holdout != 0) {
    choose_of(key, count, count, order);  // they stood in order
  }
}

// Calls visit(batch) for each minibatch of an epoch that is not done yet; the last one is what is left.
template <typename Visit>
Status for_each_batch(const SolverRun& run, uint32_t number, const Work& work, Epoch& epoch, Visit visit) {
  const EstimateInput all = estimate_input(run, run.model);
  const uint32_t held = trained_count(all);
  if (!epoch.has_order) {
    choose_epoch(all, epoch_key(run, number), held, work.order);
    epoch.has_order = true;
  }
  while (epoch.first < held) {
    const uint32_t rest = held - epoch.first;
    const uint32_t size = run.task.estimator.batch_size;
    GS_TRY(visit(Batch{work.order + epoch.first, size < rest ? size : rest}));
    epoch.first += size < rest ? size : rest;
    ++epoch.batch_count;
  }
  return Status::kOk;
}

Status train_end(SolverRun& run, State& state, const Work& work, Arena& arena) {
  const Shape shape = run.task.shape;
  const EstimateInput input = estimate_input(run, state.end, &run.estimate);
  Epoch& epoch = state.epoch;
  return for_each_batch(run, 0, work, epoch, [&](Batch batch) {
    if (!epoch.has_loss) {
      Real loss = 0;
      GS_TRY(evaluate(input, state.end, batch, nullptr, &loss, arena));
      epoch.loss_sum += loss;
      epoch.has_loss = true;
    }
    GS_TRY(evaluate(input, state.end, batch, work.gradient, nullptr, arena));
    epoch.has_loss = false;
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

// The bare losses: a proximal term in the loss pulls at the end point alone, as the term of this solver's own does.
Problem bare_problem(const SolverRun& run) {
  return run.task.proximal_form == ProximalForm::kGeodesic
             ? run.problem
             : static_cast<const ProximalLoss*>(run.problem.context)->inner;
}

Status train_control(SolverRun& run, State& state, const Work& work, Arena& arena) {
  const Shape shape = run.task.shape;
  EstimateInput input = estimate_input(run, work.point, &run.estimate);
  input.problem = bare_problem(run);
  RandomKey key = epoch_key(run, 1);
  key.domain = RandomDomain::kIterate;  // apart from the epoch's order
  return for_each_batch(run, 1, work, state.epoch, [&](Batch batch) {
    const auto l = static_cast<Real>(RandomStream(key, state.epoch.batch_count).next_uniform());
    place_control(run, state, work, work.point);
    curve_point(shape.size(), l, run.model, work.point, state.end, work.point);
    GS_TRY(evaluate(input, work.point, batch, work.gradient, nullptr, arena));
    take_out(shape.size(), run.task.curvature, work.along, work.gradient);
    scale(shape.size(), 2 * l * (1 - l), work.gradient);
    state.offset_adam.step(shape.size(), kControlShare * run.task.step_size, work.gradient, state.offset);
    return all_finite(shape.size(), state.offset) ? Status::kOk : Status::kNotFinite;
  });
}

Status take_work(const SolverRun& run, Arena& arena, Work* out) {
  const size_t size = run.task.shape.size();
  const Result<Real*> gradient = arena.scratch<Real>(size);
  GS_TRY(gradient.status());
  const Result<Real*> along = arena.scratch<Real>(size);
  GS_TRY(along.status());
  const Result<Real*> point = arena.scratch<Real>(size);
  GS_TRY(point.status());
  const Result<uint16_t*> order = arena.scratch<uint16_t>(held_count(run));
  GS_TRY(order.status());
  *out = {gradient.value(), along.value(), point.value(), order.value()};
  return Status::kOk;
}

Status take_slice(SolverRun& run, Arena& arena) {
  State& state = solver_state<State>(run);
  if (state.is_spoilt && !run.is_step_open) {
    return Status::kProtocolError;
  }
  state.is_spoilt = true;
  state.epoch = run.is_step_open ? state.epoch : Epoch();
  const size_t size = run.task.shape.size();
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(run, arena, &work));
  if (run.stage == kEnd) {
    GS_TRY(train_end(run, state, work, arena));
    for (size_t e = 0; e < size; ++e) {
      work.along[e] = run.model[e] - state.end[e];
    }
    state.loss_step = state.epoch.loss_sum / static_cast<Real>(state.epoch.batch_count);
    state.offset_adam.restart(size);
    state.epoch = Epoch();
    run.stage = kControl;
  }
  GS_TRY(train_control(run, state, work, arena));
  place_control(run, state, work, work.point);
  for (size_t e = 0; e < size; ++e) {
    state.upload[e] = -work.along[e];
    state.upload[size + e] = work.point[e] - run.model[e];
  }
  state.is_spoilt = false;
  count_step(run, state.loss_step, state.losses);
  return Status::kOk;
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

Status finish(SolverRun& run, GradientStream* out) {
  const State& state = solver_state<State>(run);
  if (run.steps_done == 0 || run.steps_done < run.task.steps_min) {
    return Status::kProtocolError;
  }
  fill_stream(run, StreamKind::kTangentBlock, state.upload, 2 * run.task.shape.size(), state.losses, out);
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverCurveOps = {SolverId::kCurve, "curve", tangent_stream, persistent_size, scratch_size,
                                   prepare,          step,    finish,         nullptr};

}  // namespace gradstream
