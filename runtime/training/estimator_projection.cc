// The zeroth-order estimator by projection (A8, 003 eq. 7), one-sided and two-sided. G is not tangent, on purpose: its
// normal part is noise that P_M removes from the step, and projecting it would destroy the scalar form (E18).
//
// A direction of signs is drawn for each evaluation and again for the sum, because its bits cost less than the tensor
// that would keep them. A direction of the sphere, which only hosts have, is drawn once and kept.
//
// A problem that knows its losses along directions (ProblemOps::loss_along) forms no displaced point either. It is
// asked where P_M is the polar factor, and where every device that has the same samples and task asks it too.
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <cstring>

#include "runtime/base/products.h"
#include "runtime/problem/along.h"
#include "runtime/training/estimator.h"

namespace gradstream {
namespace {

// Largest smoothing at which losses are computed along directions. Reason: |u| = 1 and z is orthonormal, so that the
// smallest singular value of z + mu u is 1 - mu at least, and A'A loses no more than three bits.
constexpr Real kAlongSmoothingMax = static_cast<Real>(0.5);

// Bytes that ProblemOps::loss_along takes for the batches of the task; 0: the losses are those at displaced points.
size_t along_size(const EstimateInput& input) {
  const ProblemOps& ops = *input.problem.ops;
  const EstimatorParameters& parameters = *input.parameters;
  const ManifoldId manifold = input.manifold->id;
  const bool is_polar = manifold == ManifoldId::kStiefel || manifold == ManifoldId::kGrassmann;
  const bool is_plain = is_polar && parameters.directions.kind == DirectionKind::kSign && input.units == nullptr &&
                        parameters.batch_mode != BatchMode::kPerDirection && parameters.smoothing <= kAlongSmoothingMax;
  return !kKnowsLossesAlong || ops.along_size == nullptr || !is_plain
             ? 0
             : ops.along_size(input.problem.context, input.shape, batch_count_max(input));
}

// What the evaluations of one estimate share; its displaced points stand in a tensor.
struct Evaluation {
  const EstimateInput& input;
  Real* y;     // one tensor; null along directions
  Real* kept;  // the direction, null where it is drawn again
  Real* g;     // sum of scalars[j] u_j over the directions kept
  EstimateProgress& progress;
  Arena& arena;
  void* along;      // memory of ProblemOps::loss_along; null: points are displaced
  uint32_t* signs;  // of the direction, with it

  bool keeps() const { return kHasHostMembers && kept != nullptr; }
  // y <- P_M(z + distance u_j).
  Status displace(uint32_t j, Real distance);
  Status loss_along(ProjectionStage stage, uint32_t j, Batch batch, Real* loss);
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

// The signs of a direction stand until both of its losses are known.
Status Evaluation::loss_along(ProjectionStage stage, uint32_t j, Batch batch, Real* loss) {
  const EstimatorParameters& parameters = *input.parameters;
  if (stage == ProjectionStage::kPlus && !progress.is_placed) {
    fill_sign_words(parameters.directions, input.shape, input.step, j, signs);
  }
  SignDisplacement point = {input.z, stage == ProjectionStage::kAtZ ? nullptr : signs, j,
                            sign_distance(input.shape, parameters.smoothing)};
  if (stage == ProjectionStage::kMinus) {
    point.distance = -point.distance;
  }
  batch.progress = &progress.evaluation;
  const Status status = charge_evaluation(progress.evaluation, arena, [&] {
    const Problem& problem = input.problem;
    const Result<Real> result = problem.ops->loss_along(problem.context, input.shape, point, batch, along, arena);
    GS_TRY(result.status());
    *loss = result.value();
    return std::isfinite(*loss) ? Status::kOk : Status::kNotFinite;
  });
  progress.is_placed = status == Status::kUnfinished;
  return status;
}

Status Evaluation::loss_at(ProjectionStage stage, uint32_t j, Batch batch, Real* loss) {
  if (kKnowsLossesAlong && along != nullptr) {
    return loss_along(stage, j, batch, loss);
  }
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
  const size_t along = along_size(input);
  if (along > 0) {
    return Arena::taken_size<uint8_t>(along) + Arena::taken_size<uint32_t>(sign_word_count(input.shape)) +
           batch_scratch_size(input);
  }
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
  const size_t along = along_size(input);
  const Result<Real*> y = arena.scratch<Real>(along > 0 ? 0 : input.shape.size());
  GS_TRY(y.status());
  const Result<uint8_t*> memory = arena.scratch<uint8_t>(along);
  GS_TRY(memory.status());
  const Result<uint32_t*> signs = arena.scratch<uint32_t>(along > 0 ? sign_word_count(input.shape) : 0);
  GS_TRY(signs.status());
  if (!is_begun(input)) {
    std::memset(memory.value(), 0, along);
  }
  const bool keeps = kHasHostMembers && accumulate_scratch_size(directions, input.shape) > 0;
  Real* kept = nullptr;
  if (keeps) {
    const Result<Real*> direction = arena.scratch<Real>(input.shape.size());
    GS_TRY(direction.status());
    kept = direction.value();
  }
  Evaluation evaluation{input,        y.value(), kept, g, *input.progress, arena, along > 0 ? memory.value() : nullptr,
                        signs.value()};
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
