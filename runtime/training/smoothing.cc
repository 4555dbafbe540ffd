#include "runtime/base/no_contraction.h"

#include "runtime/training/smoothing.h"

#include "runtime/base/products.h"
#include "runtime/problem/measurement.h"

namespace gradstream {
namespace {

// Of the run's smoothing.
constexpr Real kFactors[] = {1, static_cast<Real>(0.25), 4};

// |a - b| / max(|a|, |b|); difference: as many values, overwritten.
float distance_of(size_t count, const Real* a, const Real* b, Real* difference) {
  copy(count, a, difference);
  add_scaled(count, -1, b, difference);
  const Real norm_a = norm2(count, a);
  const Real norm_b = norm2(count, b);
  const Real longer = norm_a > norm_b ? norm_a : norm_b;
  return longer > 0 ? static_cast<float>(norm2(count, difference) / longer) : 0;
}

}  // namespace

Status SmoothingCheck::make_estimates(const SolverRun& run, Arena& arena) {
  ScratchScope scope(arena);
  const size_t m = run.task.estimator.directions.direction_count;
  const Result<Real*> scalars = arena.scratch<Real>((kEstimateCount + 1) * m);
  GS_TRY(scalars.status());
  const Result<Real*> g = arena.scratch<Real>(run.task.shape.size());
  GS_TRY(g.status());
  for (; next_ < kEstimateCount; ++next_) {
    EstimatorParameters parameters = run.task.estimator;
    parameters.smoothing *= kFactors[next_];
    EstimateInput input = estimate_input(run, run.model, &progress_);
    input.parameters = &parameters;
    input.step = 0;
    GS_TRY(run.estimator->estimate(input, scalars.value() + next_ * m, g.value(), nullptr, arena));
    progress_.restart();
  }
  Real* const rest = scalars.value() + kEstimateCount * m;
  for (size_t i = 1; i < kEstimateCount; ++i) {
    distances_[i - 1] = distance_of(m, scalars.value(), scalars.value() + i * m, rest);
  }
  return Status::kOk;
}

Status SmoothingCheck::step(const SolverRun& run, uint16_t units, Arena& arena) {
  if (is_step_open_) {
    arena.resume_scratch();
  }
  progress_.evaluation.units_left = units == 0 ? EvaluationProgress::kNoLimit : units;
  const Status status = make_estimates(run, arena);
  is_step_open_ = status == Status::kUnfinished;
  if (is_step_open_) {
    arena.suspend_scratch();
  }
  return status;
}

void SmoothingCheck::drop(Arena& arena) {
  if (is_step_open_) {
    if (kAwaitsMeasurements && measurement() != nullptr) {
      measurement()->drop();
    }
    arena.drop_scratch();
    is_step_open_ = false;
  }
}

}  // namespace gradstream
