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

// Of EstimateProgress: the evaluation that comes next.
enum Stage : uint8_t { kAtZ, kPlus, kMinus };

bool is_per_direction(const EstimateInput& input) { return input.parameters->batch_mode == BatchMode::kPerDirection; }

// What the evaluations of one estimate share.
struct Evaluation {
  const EstimateInput& input;
  bool two_sided;
  bool wants_loss;
  Real* y;     // one tensor
  Real* kept;  // the direction, null where it is drawn again
  Real* g;     // sum of scalars[j] u_j over the directions kept
  EstimateProgress& progress;
  Arena& arena;
  bool keeps() const { return kHasHostMembers && kept != nullptr; }
};

// y <- P_M(z + distance u_j).
Status displace(const Evaluation& evaluation, uint32_t j, Real distance) {
  const EstimateInput& input = evaluation.input;
  Real* const y = evaluation.y;
  const Real* u = y;
  if (evaluation.keeps()) {
    u = evaluation.kept;
  } else {
    fill_direction(input.parameters->directions, input.shape, input.step, j, y);
  }
  for (size_t e = 0; e < input.shape.size(); ++e) {
    y[e] = input.z[e] + distance * u[e];
  }
  return input.manifold->project_point(input.shape, y, y, evaluation.arena);
}

// Loss at P_M(z + distance u_j). The point stands until the loss is known.
Result<Real> displaced_loss(const Evaluation& evaluation, uint32_t j, Real distance, Batch batch) {
  EstimateProgress& progress = evaluation.progress;
  if (!progress.is_placed) {
    GS_TRY(take_unit(progress, evaluation.arena));
    GS_TRY(displace(evaluation, j, distance));
    progress.is_placed = true;
  }
  const Result<Real> loss = finite_loss(evaluation.input, evaluation.y, batch, evaluation.arena);
  progress.is_placed = loss.status() == Status::kUnfinished;
  return loss;
}

// scalars[j] over the batch. When one-sided, progress.compared is the loss at z over it.
Status fill_scalar(const Evaluation& evaluation, uint32_t j, Batch batch, Real* scalar) {
  const EstimateInput& input = evaluation.input;
  EstimateProgress& progress = evaluation.progress;
  const Real smoothing = input.parameters->smoothing;
  if (progress.stage == kPlus) {
    if (evaluation.keeps() && !progress.is_placed) {
      fill_direction(input.parameters->directions, input.shape, input.step, j, evaluation.kept);
    }
    const Result<Real> plus = displaced_loss(evaluation, j, smoothing, batch);
    GS_TRY(plus.status());
    if (!evaluation.two_sided) {
      *scalar = (plus.value() - progress.compared) / smoothing;
    } else {
      progress.compared = plus.value();
      progress.stage = kMinus;
    }
  }
  if (evaluation.two_sided) {
    const Result<Real> minus = displaced_loss(evaluation, j, -smoothing, batch);
    GS_TRY(minus.status());
    progress.stage = kPlus;
    *scalar = (progress.compared - minus.value()) / (static_cast<Real>(2) * smoothing);
  }
  if (evaluation.keeps()) {
    add_scaled(input.shape.size(), *scalar, evaluation.kept, evaluation.g);
  }
  return std::isfinite(*scalar) ? Status::kOk : Status::kNotFinite;
}

// progress.loss <- the loss at z, or its sum over the directions so far, where it is not there yet and somebody wants
// it.
Status add_at_z(const Evaluation& evaluation, Batch batch) {
  EstimateProgress& progress = evaluation.progress;
  if (progress.stage != kAtZ) {
    return Status::kOk;
  }
  if (!evaluation.two_sided || evaluation.wants_loss) {
    const Result<Real> value = finite_loss(evaluation.input, evaluation.input.z, batch, evaluation.arena);
    GS_TRY(value.status());
    progress.compared = value.value();
    progress.loss = is_per_direction(evaluation.input) ? progress.loss + value.value() : value.value();
  }
  progress.stage = kPlus;
  return Status::kOk;
}

// One batch for all directions.
Status fill_scalars_common(const Evaluation& evaluation, Real* scalars) {
  EstimateProgress& progress = evaluation.progress;
  const Result<Batch> batch = draw_batch(evaluation.input, evaluation.arena);
  GS_TRY(batch.status());
  GS_TRY(add_at_z(evaluation, batch.value()));
  for (; progress.direction < evaluation.input.parameters->directions.direction_count; ++progress.direction) {
    GS_TRY(fill_scalar(evaluation, progress.direction, batch.value(), &scalars[progress.direction]));
  }
  return Status::kOk;
}

// One sample for each direction, (word_j * n) >> 32 (003 as printed).
Status fill_scalars_per_direction(const Evaluation& evaluation, Real* scalars) {
  EstimateProgress& progress = evaluation.progress;
  const uint32_t m = evaluation.input.parameters->directions.direction_count;
  for (; progress.direction < m; ++progress.direction) {
    const uint16_t index = sample_of_direction(evaluation.input, progress.direction);
    const Batch batch{&index, 1};
    GS_TRY(add_at_z(evaluation, batch));
    GS_TRY(fill_scalar(evaluation, progress.direction, batch, &scalars[progress.direction]));
    progress.stage = kAtZ;
  }
  return Status::kOk;
}

// g <- g + sum_j scalars[j] u_j, in the order of j.
Status sum_directions(const Evaluation& evaluation, const Real* scalars) {
  const EstimateInput& input = evaluation.input;
  EstimateProgress& progress = evaluation.progress;
  const DirectionSpec& directions = input.parameters->directions;
  const uint32_t m = directions.direction_count;
  while (progress.direction < 2 * m) {
    const uint32_t first = progress.direction - m;
    const uint32_t count = progress.evaluation.take_units(m - first);
    if (count == 0) {
      evaluation.arena.hold_scratch();
      return Status::kUnfinished;
    }
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

Status estimate(const EstimateInput& input, bool two_sided, Real* scalars, Real* g, Real* loss, Arena& arena) {
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
  EstimateProgress whole;
  const Evaluation evaluation{input, two_sided, loss != nullptr, y.value(), kept, g, progress_of(input, &whole), arena};
  begin_sum(input.shape.size(), evaluation.progress, g);
  if (is_per_direction(input)) {
    GS_TRY(fill_scalars_per_direction(evaluation, scalars));
  } else {
    GS_TRY(fill_scalars_common(evaluation, scalars));
  }
  if (!keeps) {
    GS_TRY(sum_directions(evaluation, scalars));
  }
  if (loss != nullptr) {
    *loss = is_per_direction(input) ? evaluation.progress.loss / static_cast<Real>(m) : evaluation.progress.loss;
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
