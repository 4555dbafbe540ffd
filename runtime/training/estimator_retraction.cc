// The zeroth-order estimator by tangent normals and retraction (A7, 003 eq. 6):
//   u_j = proj_z(g_j), g_j standard normal;  G = 1/m sum_j [F(R_z(mu u_j)) - F(z)] / mu  u_j
// with the run's retraction R. G is tangent. The directions depend on z, so that no one else can rebuild G from its
// scalars: it travels as a TangentBlock. |u_j| is about sqrt(dimension): at equal mu the displacement, and with it the
// floor, is larger than that of the projection estimator, whose directions have norm 1.
#include "runtime/base/no_contraction.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/training/estimator.h"

namespace gradstream {
namespace {

Status check(const EstimateInput& input) {
  const EstimatorParameters& parameters = *input.parameters;
  const bool good = std::isfinite(parameters.smoothing) && parameters.smoothing > 0 &&
                    parameters.directions.direction_count >= 1 &&
                    parameters.directions.direction_count <= kDirectionCountMax;
  return good ? check_batch(input) : Status::kInvalidArgument;
}

// The direction and the displaced point; above them the batch, and what a manifold or the problem takes.
size_t scratch_size(const EstimateInput& input) {
  const size_t manifold_size = input.manifold->scratch_size(input.shape);
  const size_t problem_size = input.problem.ops->scratch_size(input.problem.context, input.shape);
  return 2 * Arena::taken_size<Real>(input.shape.size()) + batch_scratch_size(input) +
         (manifold_size > problem_size ? manifold_size : problem_size);
}

// Of EstimateProgress: the evaluation that comes next.
enum Stage : uint8_t { kAtZ, kDisplaced };

struct Work {
  Real* u;
  Real* y;
  EstimateProgress& progress;
};

// work.u <- u_j;  work.y <- R_z(mu u_j).
Status place(const EstimateInput& input, uint32_t j, const Work& work, Arena& arena) {
  const EstimatorParameters& parameters = *input.parameters;
  fill_normal_direction(parameters.directions, input.shape, input.step, j, work.u);
  GS_TRY(input.manifold->project_tangent(input.shape, input.z, work.u, work.u, arena));
  for (size_t e = 0; e < input.shape.size(); ++e) {
    work.y[e] = parameters.smoothing * work.u[e];
  }
  return input.manifold->retract(input.shape, input.z, work.y, work.y, arena);
}

// g <- g + [F(R_z(mu u_j)) - progress.compared] / (mu m) u_j. The point stands until its loss is known.
Status add_direction(const EstimateInput& input, uint32_t j, Batch batch, const Work& work, Real* g, Arena& arena) {
  const EstimatorParameters& parameters = *input.parameters;
  if (!work.progress.is_placed) {
    GS_TRY(place(input, j, work, arena));
    work.progress.is_placed = true;
  }
  Real displaced = 0;
  GS_TRY(evaluate(input, work.y, batch, nullptr, &displaced, arena));
  work.progress.is_placed = false;
  const Real slope = (displaced - work.progress.compared) / parameters.smoothing;
  add_scaled(input.shape.size(), slope / static_cast<Real>(parameters.directions.direction_count), work.u, g);
  return Status::kOk;
}

// progress.compared <- the loss at z, where that is not there yet.
Status fill_at_z(const EstimateInput& input, Batch batch, const Work& work, Arena& arena) {
  if (work.progress.stage == kAtZ) {
    GS_TRY(evaluate(input, input.z, batch, nullptr, &work.progress.compared, arena));
    work.progress.stage = kDisplaced;
  }
  return Status::kOk;
}

// One batch for all directions.
Status add_common(const EstimateInput& input, const Work& work, Real* g, Arena& arena) {
  const Result<Batch> batch = draw_batch(input, arena);
  GS_TRY(batch.status());
  GS_TRY(fill_at_z(input, batch.value(), work, arena));
  for (uint16_t& j = work.progress.direction; j < input.parameters->directions.direction_count; ++j) {
    GS_TRY(add_direction(input, j, batch.value(), work, g, arena));
  }
  work.progress.loss = work.progress.compared;
  return Status::kOk;
}

// One sample for each direction, (word_j * n) >> 32.
Status add_per_direction(const EstimateInput& input, const Work& work, Real* g, Arena& arena) {
  const uint32_t m = input.parameters->directions.direction_count;
  for (uint16_t& j = work.progress.direction; j < m; ++j) {
    const uint16_t index = sample_of_direction(input, j);
    GS_TRY(fill_at_z(input, {&index, 1}, work, arena));
    GS_TRY(add_direction(input, j, {&index, 1}, work, g, arena));
    work.progress.loss += work.progress.compared / static_cast<Real>(m);
    work.progress.stage = kAtZ;
  }
  return Status::kOk;
}

Status estimate(const EstimateInput& given, Real*, Real* g, Real* loss, Arena& arena) {
  EstimateProgress whole = kWholeEstimate;
  const EstimateInput input = with_progress(given, &whole);
  ScratchScope scope(arena);
  const Result<Real*> u = arena.scratch<Real>(input.shape.size());
  GS_TRY(u.status());
  const Result<Real*> y = arena.scratch<Real>(input.shape.size());
  GS_TRY(y.status());
  const Work work{u.value(), y.value(), *input.progress};
  if (work.progress.direction == 0) {
    fill_zero(input.shape.size(), g);  // nothing was added yet
  }
  if (input.parameters->batch_mode == BatchMode::kPerDirection) {
    GS_TRY(add_per_direction(input, work, g, arena));
  } else {
    GS_TRY(add_common(input, work, g, arena));
  }
  if (loss != nullptr) {
    *loss = work.progress.loss;
  }
  return all_finite(input.shape.size(), g) ? Status::kOk : Status::kNotFinite;
}

}  // namespace

const EstimatorOps kTangentRetractionOps = {
    EstimatorId::kTangentRetraction, "tangent normals, retraction", false, check, scratch_size, estimate};

}  // namespace gradstream
