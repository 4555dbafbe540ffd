// The zeroth-order estimator by projection (A8, 003 eq. 7), one-sided and two-sided. G is not tangent, on purpose: its
// normal part is noise that P_M removes from the step, and projecting it would destroy the scalar form (E18).
//
// A direction of signs is drawn for each evaluation and again for the sum, because its bits cost less than the tensor
// that would keep them. A direction of the sphere, which only hosts have, is drawn once and kept.
#include "runtime/base/no_contraction.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/training/estimator.h"

namespace gradstream {
namespace {

// What the evaluations of one estimate share; its displaced points stand in a tensor.
struct Evaluation {
  const EstimateInput& input;
  Real* y;     // one tensor
  Real* kept;  // the direction, null where it is drawn again
  Real* g;     // sum of scalars[j] u_j over the directions kept
  EstimateProgress& progress;
  Arena& arena;

  bool keeps() const { return kHasHostMembers && kept != nullptr; }
  // y <- P_M(z + distance u_j).
  Status displace(uint32_t j, Real distance);
  // A displaced point stands until its loss is known.
  Status loss_at(ProjectionStage stage, uint32_t j, Batch batch, Real* loss);
  void take(Real scalar) {
    if (keeps()) {
      add_scaled(input.shape.size(), scalar, kept, g);
    }
  }
};

Status Evaluation::displace(uint32_t j, Real distance) {
  const Real* u = y;
  if (keeps()) {
    u = kept;
  } else {
    fill_direction(input.parameters->directions, input.shape, input.step, j, y);
  }
  for (size_t e = 0; e < input.shape.size(); ++e) {
    y[e] = input.z[e] + distance * u[e];
  }
  return input.manifold->project_point(input.shape, y, y, arena);
}

Status Evaluation::loss_at(ProjectionStage stage, uint32_t j, Batch batch, Real* loss) {
  const Real smoothing = input.parameters->smoothing;
  if (stage != ProjectionStage::kAtZ && !progress.is_placed) {
    if (keeps() && stage == ProjectionStage::kPlus) {
      fill_direction(input.parameters->directions, input.shape, input.step, j, kept);
    }
    GS_TRY(displace(j, stage == ProjectionStage::kPlus ? smoothing : -smoothing));
  }
  const Real* const x = stage == ProjectionStage::kAtZ ? input.z : y;
  const Status status = evaluate(input, x, batch, nullptr, loss, arena);
  progress.is_placed = status == Status::kUnfinished;
  return status;
}

// g <- g + sum_j scalars[j] u_j, in the order of j.
Status sum_directions(const Evaluation& evaluation, const Real* scalars) {
  const EstimateInput& input = evaluation.input;
  EstimateProgress& progress = evaluation.progress;
  const DirectionSpec& directions = input.parameters->directions;
  const uint32_t m = directions.direction_count;
  while (progress.direction < 2 * m) {
    const uint32_t first = progress.direction - m;
    const uint32_t units = progress.evaluation.units_left;
    const uint32_t count = units < m - first ? units : m - first;
    if (count == 0) {
      evaluation.arena.hold_scratch();
      return Status::kUnfinished;
    }
    progress.evaluation.units_left -= count;
    GS_TRY(accumulate_directions(directions, input.shape, input.step * m + first, count, scalars + first, evaluation.g,
                                 evaluation.arena));
    progress.direction = static_cast<uint16_t>(progress.direction + count);
  }
  return Status::kOk;
}

Status check(const EstimateInput& input) {
  const EstimatorParameters& parameters = *input.parameters;
  const DirectionSpec& directions = parameters.directions;
  GS_TRY(check_directions(directions));
  const bool good = std::isfinite(parameters.smoothing) && parameters.smoothing > 0 &&
                    directions.direction_count <= kDirectionCountMax;
  return good ? check_batch(input) : Status::kInvalidArgument;
}

size_t scratch_size(const EstimateInput& input) {
  size_t inner = input.manifold->scratch_size(input.shape);
  const size_t problem_size = input.problem.ops->scratch_size(input.problem.context, input.shape);
  inner = problem_size > inner ? problem_size : inner;
  const size_t kept_size = accumulate_scratch_size(input.parameters->directions, input.shape);
  return Arena::taken_size<Real>(input.shape.size()) + kept_size + batch_scratch_size(input) + inner;
}

Status estimate(const EstimateInput& given, bool two_sided, Real* scalars, Real* g, Real* loss, Arena& arena) {
  EstimateProgress whole = kWholeEstimate;
  const EstimateInput input = with_progress(given, &whole);
  const DirectionSpec& directions = input.parameters->directions;
  const uint32_t m = directions.direction_count;
  ScratchScope scope(arena);
  const Result<Real*> y = arena.scratch<Real>(input.shape.size());
  GS_TRY(y.status());
  const bool keeps = kHasHostMembers && accumulate_scratch_size(directions, input.shape) > 0;
  Real* kept = nullptr;
  if (keeps) {
    const Result<Real*> direction = arena.scratch<Real>(input.shape.size());
    GS_TRY(direction.status());
    kept = direction.value();
  }
  Evaluation evaluation{input, y.value(), kept, g, *input.progress, arena};
  if (evaluation.progress.direction == 0) {
    fill_zero(input.shape.size(), g);  // nothing was added yet
  }
  GS_TRY(fill_projection_scalars(input, two_sided, loss != nullptr, evaluation, scalars, arena));
  if (!keeps) {
    GS_TRY(sum_directions(evaluation, scalars));
  }
  if (loss != nullptr) {
    *loss = projection_loss(input);
  }
  scale(input.shape.size(), estimate_factor(input.shape, m), g);
  return all_finite(input.shape.size(), g) ? Status::kOk : Status::kNotFinite;
}

Status estimate_one_sided(const EstimateInput& input, Real* scalars, Real* g, Real* loss, Arena& arena) {
  return estimate(input, false, scalars, g, loss, arena);
}

Status estimate_two_sided(const EstimateInput& input, Real* scalars, Real* g, Real* loss, Arena& arena) {
  return estimate(input, true, scalars, g, loss, arena);
}

}  // namespace

const EstimatorOps kProjectionOneSidedOps = {
    EstimatorId::kProjectionOneSided, "projection, one-sided", true, check, scratch_size, estimate_one_sided};
const EstimatorOps kProjectionTwoSidedOps = {
    EstimatorId::kProjectionTwoSided, "projection, two-sided", true, check, scratch_size, estimate_two_sided};

}  // namespace gradstream
