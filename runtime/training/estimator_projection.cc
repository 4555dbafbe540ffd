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

// The evaluation of direction j that comes next. A displaced point stands until its loss is known.
Status next_loss(const Evaluation& evaluation, uint32_t j, Batch batch, Real* loss) {
  const EstimateInput& input = evaluation.input;
  EstimateProgress& progress = evaluation.progress;
  const Real smoothing = input.parameters->smoothing;
  if (progress.stage != kAtZ && !progress.is_placed) {
    if (evaluation.keeps() && progress.stage == kPlus) {
      fill_direction(input.parameters->directions, input.shape, input.step, j, evaluation.kept);
    }
    GS_TRY(displace(evaluation, j, progress.stage == kPlus ? smoothing : -smoothing));
  }
  const Real* const x = progress.stage == kAtZ ? input.z : evaluation.y;
  const Status status = evaluate(input, x, batch, nullptr, loss, evaluation.arena);
  progress.is_placed = status == Status::kUnfinished;
  return status;
}

// scalars[j] over the batch, and in progress.loss the loss at z, or the sum of those of the directions so far.
Status fill_scalar(const Evaluation& evaluation, uint32_t j, Batch batch, bool is_sum, Real* scalar) {
  const EstimateInput& input = evaluation.input;
  EstimateProgress& progress = evaluation.progress;
  const Real smoothing = input.parameters->smoothing;
  for (const uint8_t last = evaluation.two_sided ? kMinus : kPlus;; ++progress.stage) {
    if (progress.stage == kAtZ && evaluation.two_sided && !evaluation.wants_loss) {
      continue;
    }
    Real loss = 0;
    GS_TRY(next_loss(evaluation, j, batch, &loss));
    if (progress.stage == last) {
      *scalar = evaluation.two_sided ? (progress.compared - loss) / (static_cast<Real>(2) * smoothing)
                                     : (loss - progress.compared) / smoothing;
      break;
    }
    progress.compared = loss;
    if (progress.stage == kAtZ) {
      progress.loss = is_sum ? progress.loss + loss : loss;
    }
  }
  progress.stage = is_sum ? kAtZ : kPlus;
  if (evaluation.keeps()) {
    add_scaled(input.shape.size(), *scalar, evaluation.kept, evaluation.g);
  }
  return std::isfinite(*scalar) ? Status::kOk : Status::kNotFinite;
}

// One batch for all directions, or one sample for each, (word_j * n) >> 32 (003 as printed).
Status fill_scalars(const Evaluation& evaluation, bool is_per_direction, Real* scalars) {
  const EstimateInput& input = evaluation.input;
  Batch batch;
  if (!is_per_direction) {
    const Result<Batch> common = draw_batch(input, evaluation.arena);
    GS_TRY(common.status());
    batch = common.value();
  }
  for (uint16_t& j = evaluation.progress.direction; j < input.parameters->directions.direction_count; ++j) {
    uint16_t index = 0;
    if (is_per_direction) {
      index = sample_of_direction(input, j);
      batch = {&index, 1};
    }
    GS_TRY(fill_scalar(evaluation, j, batch, is_per_direction, &scalars[j]));
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
  const Evaluation evaluation{input, two_sided, loss != nullptr, y.value(), kept, g, *input.progress, arena};
  if (evaluation.progress.direction == 0) {
    fill_zero(input.shape.size(), g);  // nothing was added yet
  }
  const bool is_per_direction = input.parameters->batch_mode == BatchMode::kPerDirection;
  GS_TRY(fill_scalars(evaluation, is_per_direction, scalars));
  if (!keeps) {
    GS_TRY(sum_directions(evaluation, scalars));
  }
  if (loss != nullptr) {
    *loss = is_per_direction ? evaluation.progress.loss / static_cast<Real>(m) : evaluation.progress.loss;
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
