#include "runtime/base/no_contraction.h"

#include "runtime/training/solver_path.h"

#include "runtime/base/products.h"
#include "runtime/training/proximal.h"

namespace gradstream {

void count_step(SolverRun& run, Real loss, StepLosses& losses) {
  losses.after = loss;
  losses.before = run.steps_done == 0 ? loss : losses.before;
  ++run.steps_done;
}

Status check_replay(const SolverRun& run, const Real* scalars) {
  if (run.steps_done >= run.task.local_step_count) {
    return Status::kProtocolError;
  }
  return all_finite(run.task.estimator.directions.direction_count, scalars) ? Status::kOk : Status::kNotFinite;
}

void fill_stream(const SolverRun& run, StreamKind kind, const Real* values, size_t value_count,
                 const StepLosses& losses, GradientStream* out) {
  *out = {kind, run.steps_done, values, static_cast<uint32_t>(value_count), losses.before, losses.after};
}

StreamKind tangent_stream(const EstimatorOps&) { return StreamKind::kTangentBlock; }

size_t estimate_scalar_count(const SolverRun& run) {
  return run.estimator->uses_scalars ? run.task.estimator.directions.direction_count : 0;
}

size_t path_scratch_size(const SolverRun& run, size_t tensor_count, size_t other_size) {
  const size_t estimate_size = run.estimator->scratch_size(estimate_input(run, run.model));
  return tensor_count * Arena::taken_size<Real>(run.task.shape.size()) +
         Arena::taken_size<Real>(estimate_scalar_count(run)) +
         max_size(estimate_size, max_size(manifold_scratch_size(run), other_size));
}

Status begin_path(const SolverRun& run, PathState* state, Arena& arena) {
  const size_t size = run.task.shape.size();
  for (Real** const tensor : {&state->x, &state->zeta}) {
    const Result<Real*> memory = arena.persistent<Real>(size);
    GS_TRY(memory.status());
    *tensor = memory.value();
  }
  copy(size, run.model, state->x);
  return Status::kOk;
}

Status path_gradient(SolverRun& run, const Real* x, Real* scalars, Real* g, Real* loss, Arena& arena) {
  const Shape shape = run.task.shape;
  GS_TRY(run.estimator->estimate(estimate_input(run, x, &run.estimate), scalars, g, loss, arena));
  if (run.estimator->uses_scalars) {
    GS_TRY(run.manifold->project_tangent(shape, x, g, g, arena));
  }
  const Real mu = run.steps_done == 0 ? 0 : run.task.proximal;  // at X itself the term is flat
  return add_proximal(*run.manifold, shape, mu, x, run.model, g, arena);
}

}  // namespace gradstream
