// Local work of zeroth-order federated learning by projection and of its first-order counterpart:
//   zhat = z = X;  each step: G = estimate at z;  zhat <- zhat - eta (G + c);  z <- P_M(zhat)     (A9, A10; 003 Alg. 1)
// What leaves the device does not contain zhat: the scalars G is made of, or the mean of the G.
#include "runtime/base/no_contraction.h"

#include "runtime/base/features.h"
#include "runtime/base/products.h"
#include "runtime/training/solver_path.h"

namespace gradstream {
namespace {

struct State {
  Real* zhat = nullptr;
  Real* z = nullptr;
  Real* scalars = nullptr;  // local_step_count * m; null without scalars
  Real* mean = nullptr;     // running mean of G; null with scalars
  StepLosses losses;
};

size_t scalar_count(const SolverRun& run) {
  return static_cast<size_t>(run.task.local_step_count) * run.task.estimator.directions.direction_count;
}

StreamKind stream(const EstimatorOps& estimator) {
  return estimator.uses_scalars ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
}

// Whether the scalars themselves are uploaded.
bool keeps_scalars(const SolverRun& run) {
  return !kSendsTensors || (run.estimator->uses_scalars && run.task.stream != StreamKind::kTangentBlock);
}

// Scalars of one step that are made and not kept.
size_t passing_scalar_count(const SolverRun& run) {
  return run.estimator->uses_scalars && !keeps_scalars(run) ? run.task.estimator.directions.direction_count : 0;
}

size_t persistent_size(const SolverRun& run) {
  const size_t tensor_size = Arena::taken_size<Real>(run.task.shape.size());
  const size_t stream_size = keeps_scalars(run) ? Arena::taken_size<Real>(scalar_count(run)) : tensor_size;
  return Arena::taken_size<State>(1) + 2 * tensor_size + stream_size;
}

// G and passing scalars; above them first what the estimator takes, then the next zhat and what P_M takes.
size_t scratch_size(const SolverRun& run) {
  const size_t tensor_size = Arena::taken_size<Real>(run.task.shape.size());
  const size_t estimate_size = run.estimator->scratch_size(estimate_input(run, run.model));
  const size_t project_size = tensor_size + run.manifold->scratch_size(run.task.shape);
  return tensor_size + Arena::taken_size<Real>(passing_scalar_count(run)) +
         (estimate_size > project_size ? estimate_size : project_size);
}

Status prepare(SolverRun& run, Arena& arena) {
  if (run.task.proximal != 0) {
    return Status::kInvalidArgument;  // the correction is what holds this path
  }
  const size_t size = run.task.shape.size();
  const bool uses_scalars = keeps_scalars(run);
  if (uses_scalars && scalar_count(run) > kScalarCountMax) {
    return Status::kInvalidArgument;
  }
  const Result<State*> state = arena.persistent<State>(1);
  GS_TRY(state.status());
  const Result<Real*> zhat = arena.persistent<Real>(size);
  GS_TRY(zhat.status());
  const Result<Real*> z = arena.persistent<Real>(size);
  GS_TRY(z.status());
  const Result<Real*> kept = arena.persistent<Real>(uses_scalars ? scalar_count(run) : size);
  GS_TRY(kept.status());
  *state.value() = State{zhat.value(), z.value(), nullptr, nullptr, {}};
  (uses_scalars ? state.value()->scalars : state.value()->mean) = kept.value();
  copy(size, run.model, zhat.value());
  copy(size, run.model, z.value());
  run.state = state.value();
  return Status::kOk;
}

// out <- zhat - eta (G + c); out may be zhat.
void descend(const SolverRun& run, const Real* zhat, const Real* g, Real* out) {
  const Real eta = run.task.step_size;
  for (size_t e = 0; e < run.task.shape.size(); ++e) {
    out[e] = zhat[e] - eta * (run.correction == nullptr ? g[e] : g[e] + run.correction[e]);
  }
}

// mean <- mean + (G - mean) / (steps_done + 1): the mean of the steps so far is ready whenever the work is cut short.
void add_to_mean(const SolverRun& run, const Real* g, Real* mean) {
  const Real count = static_cast<Real>(run.steps_done + 1);
  for (size_t e = 0; e < run.task.shape.size(); ++e) {
    mean[e] += (g[e] - mean[e]) / count;
  }
}

// The scalars of the step to come, where they are kept.
Real* next_scalars(const SolverRun& run, const State& state) {
  return state.scalars + static_cast<size_t>(run.steps_done) * run.task.estimator.directions.direction_count;
}

// The state after a step with estimate g and that loss.
Status advance(SolverRun& run, State& state, const Real* g, Real loss, Arena& arena) {
  const Shape shape = run.task.shape;
  const Result<Real*> next = arena.scratch<Real>(shape.size());
  GS_TRY(next.status());
  descend(run, state.zhat, g, next.value());
  GS_TRY(run.manifold->project_point(shape, next.value(), next.value(), arena));
  // Nothing fails from here on: the state moves as a whole.
  copy(shape.size(), next.value(), state.z);
  descend(run, state.zhat, g, state.zhat);
  if (kSendsTensors && state.mean != nullptr) {
    add_to_mean(run, g, state.mean);
  }
  count_step(run, loss, state.losses);
  return Status::kOk;
}

Status take_slice(SolverRun& run, Arena& arena) {
  State& state = solver_state<State>(run);
  ScratchScope scope(arena);
  const Result<Real*> g = arena.scratch<Real>(run.task.shape.size());
  GS_TRY(g.status());
  const Result<Real*> passing = arena.scratch<Real>(passing_scalar_count(run));
  GS_TRY(passing.status());
  Real* scalars = state.scalars == nullptr ? passing.value() : next_scalars(run, state);
  Real loss = 0;
  GS_TRY(run.estimator->estimate(estimate_input(run, state.z, &run.estimate), scalars, g.value(), &loss, arena));
  return advance(run, state, g.value(), loss, arena);
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

// The estimate is (pr/m) sum_j scalars[j] u_j, with the estimator's own arithmetic.
Status replay(SolverRun& run, const Real* scalars, Real loss, Arena& arena) {
  State& state = solver_state<State>(run);
  if (state.scalars == nullptr) {
    return Status::kUnimplemented;
  }
  GS_TRY(check_replay(run, scalars));
  const DirectionSpec& directions = run.task.estimator.directions;
  const uint32_t m = directions.direction_count;
  const Shape shape = run.task.shape;
  ScratchScope scope(arena);
  const Result<Real*> g = arena.scratch<Real>(shape.size());
  GS_TRY(g.status());
  fill_zero(shape.size(), g.value());
  GS_TRY(accumulate_directions(directions, shape, run.steps_done * m, m, scalars, g.value(), arena));
  scale(shape.size(), estimate_factor(shape, m), g.value());
  copy(m, scalars, next_scalars(run, state));
  return advance(run, state, g.value(), loss, arena);
}

Status finish(SolverRun& run, GradientStream* out) {
  if (run.steps_done == 0) {
    return Status::kProtocolError;
  }
  const State& state = solver_state<State>(run);
  if (state.scalars != nullptr) {
    const size_t count = size_t{run.steps_done} * run.task.estimator.directions.direction_count;
    fill_stream(run, StreamKind::kScalarStream, state.scalars, count, state.losses, out);
  } else {
    fill_stream(run, StreamKind::kTangentBlock, state.mean, run.task.shape.size(), state.losses, out);
  }
  return Status::kOk;
}

}  // namespace

const SolverOps kSolverProjectionOps = {
    SolverId::kProjection, "projection", stream, persistent_size, scratch_size, prepare, step, finish, replay};

}  // namespace gradstream
