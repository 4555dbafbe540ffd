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

struct Work {
  Real* u;
  Real* y;
};

// g <- g + [F(R_z(mu u_j)) - at_z] / (mu m) u_j.
Status add_direction(const EstimateInput& input, uint32_t j, Batch batch, Real at_z, const Work& work, Real* g,
                     Arena& arena) {
  const EstimatorParameters& parameters = *input.parameters;
  const size_t size = input.shape.size();
  fill_normal_direction(parameters.directions, input.shape, input.step, j, work.u);
  GS_TRY(input.manifold->project_tangent(input.shape, input.z, work.u, work.u, arena));
  for (size_t e = 0; e < size; ++e) {
    work.y[e] = parameters.smoothing * work.u[e];
  }
  GS_TRY(input.manifold->retract(input.shape, input.z, work.y, work.y, arena));
  const Result<Real> displaced = finite_loss(input, work.y, batch, arena);
  GS_TRY(displaced.status());
  const Real slope = (displaced.value() - at_z) / parameters.smoothing;
  add_scaled(size, slope / static_cast<Real>(parameters.directions.direction_count), work.u, g);
  return Status::kOk;
}

// One batch for all directions.
Status add_common(const EstimateInput& input, const Work& work, Real* g, Real* loss, Arena& arena) {
  const Result<Batch> batch = draw_batch(input, arena);
  GS_TRY(batch.status());
  const Result<Real> at_z = finite_loss(input, input.z, batch.value(), arena);
  GS_TRY(at_z.status());
  *loss = at_z.value();
  for (uint32_t j = 0; j < input.parameters->directions.direction_count; ++j) {
    GS_TRY(add_direction(input, j, batch.value(), at_z.value(), work, g, arena));
  }
  return Status::kOk;
}

// One sample for each direction, (word_j * n) >> 32.
Status add_per_direction(const EstimateInput& input, const Work& work, Real* g, Real* loss, Arena& arena) {
  const uint32_t m = input.parameters->directions.direction_count;
  const uint32_t held = input.problem.ops->sample_count(input.problem.context);
  RandomStream stream(minibatch_key(input));
  *loss = 0;
  for (uint32_t j = 0; j < m; ++j) {
    const uint16_t index = static_cast<uint16_t>((static_cast<uint64_t>(stream.next()) * held) >> 32);
    const Result<Real> at_z = finite_loss(input, input.z, {&index, 1}, arena);
    GS_TRY(at_z.status());
    GS_TRY(add_direction(input, j, {&index, 1}, at_z.value(), work, g, arena));
    *loss += at_z.value() / static_cast<Real>(m);
  }
  return Status::kOk;
}

Status estimate(const EstimateInput& input, Real*, Real* g, Real* loss, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> u = arena.scratch<Real>(input.shape.size());
  GS_TRY(u.status());
  const Result<Real*> y = arena.scratch<Real>(input.shape.size());
  GS_TRY(y.status());
  const Work work{u.value(), y.value()};
  fill_zero(input.shape.size(), g);
  Real at_z = 0;
  if (input.parameters->batch_mode == BatchMode::kPerDirection) {
    GS_TRY(add_per_direction(input, work, g, &at_z, arena));
  } else {
    GS_TRY(add_common(input, work, g, &at_z, arena));
  }
  if (loss != nullptr) {
    *loss = at_z;
  }
  return all_finite(input.shape.size(), g) ? Status::kOk : Status::kNotFinite;
}

}  // namespace

const EstimatorOps kTangentRetractionOps = {
    EstimatorId::kTangentRetraction, "tangent normals, retraction", false, check, scratch_size, estimate};

}  // namespace gradstream
