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

// What the evaluations of one estimate share.
struct Evaluation {
  const EstimateInput& input;
  bool two_sided;
  bool wants_loss;
  Real* y;     // one tensor
  Real* kept;  // the direction, null where it is drawn again
  Real* g;     // sum of scalars[j] u_j over the directions kept
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

// Loss at P_M(z + distance u_j).
Result<Real> displaced_loss(const Evaluation& evaluation, uint32_t j, Real distance, Batch batch) {
  GS_TRY(displace(evaluation, j, distance));
  return finite_loss(evaluation.input, evaluation.y, batch, evaluation.arena);
}

// scalars[j] over the batch. at_z is the loss at z over it, used when one-sided.
Status fill_scalar(const Evaluation& evaluation, uint32_t j, Batch batch, Real at_z, Real* scalar) {
  const EstimateInput& input = evaluation.input;
  const Real smoothing = input.parameters->smoothing;
  if (evaluation.keeps()) {
    fill_direction(input.parameters->directions, input.shape, input.step, j, evaluation.kept);
  }
  const Result<Real> plus = displaced_loss(evaluation, j, smoothing, batch);
  GS_TRY(plus.status());
  if (evaluation.two_sided) {
    const Result<Real> minus = displaced_loss(evaluation, j, -smoothing, batch);
    GS_TRY(minus.status());
    *scalar = (plus.value() - minus.value()) / (static_cast<Real>(2) * smoothing);
  } else {
    *scalar = (plus.value() - at_z) / smoothing;
  }
  if (evaluation.keeps()) {
    add_scaled(input.shape.size(), *scalar, evaluation.kept, evaluation.g);
  }
  return std::isfinite(*scalar) ? Status::kOk : Status::kNotFinite;
}

Status loss_at_z(const Evaluation& evaluation, Batch batch, Real* loss) {
  if (evaluation.two_sided && !evaluation.wants_loss) {
    return Status::kOk;
  }
  const Result<Real> value = finite_loss(evaluation.input, evaluation.input.z, batch, evaluation.arena);
  GS_TRY(value.status());
  *loss = value.value();
  return Status::kOk;
}

// One batch for all directions.
Status fill_scalars_common(const Evaluation& evaluation, Real* scalars, Real* loss) {
  const Result<Batch> batch = draw_batch(evaluation.input, evaluation.arena);
  GS_TRY(batch.status());
  GS_TRY(loss_at_z(evaluation, batch.value(), loss));
  for (uint32_t j = 0; j < evaluation.input.parameters->directions.direction_count; ++j) {
    GS_TRY(fill_scalar(evaluation, j, batch.value(), *loss, &scalars[j]));
  }
  return Status::kOk;
}

// One sample for each direction, (word_j * n) >> 32 (003 as printed).
Status fill_scalars_per_direction(const Evaluation& evaluation, Real* scalars, Real* loss) {
  const EstimateInput& input = evaluation.input;
  const uint32_t m = input.parameters->directions.direction_count;
  const uint32_t held = input.problem.ops->sample_count(input.problem.context);
  RandomStream stream(minibatch_key(input));
  Real sum = 0;
  for (uint32_t j = 0; j < m; ++j) {
    const uint16_t index = static_cast<uint16_t>((static_cast<uint64_t>(stream.next()) * held) >> 32);
    const Batch batch{&index, 1};
    Real at_z = 0;
    GS_TRY(loss_at_z(evaluation, batch, &at_z));
    GS_TRY(fill_scalar(evaluation, j, batch, at_z, &scalars[j]));
    sum += at_z;
  }
  *loss = sum / static_cast<Real>(m);
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
  const Evaluation evaluation{input, two_sided, loss != nullptr, y.value(), kept, g, arena};
  fill_zero(input.shape.size(), g);
  Real at_z = 0;
  if (input.parameters->batch_mode == BatchMode::kPerDirection) {
    GS_TRY(fill_scalars_per_direction(evaluation, scalars, &at_z));
  } else {
    GS_TRY(fill_scalars_common(evaluation, scalars, &at_z));
  }
  if (loss != nullptr) {
    *loss = at_z;
  }
  if (!keeps) {
    GS_TRY(accumulate_directions(directions, input.shape, input.step * m, m, scalars, g, arena));
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
