// The step of a run without rounds again (rule asgd), from the journal's updates.
#include <cmath>
#include <numbers>

#include "runtime/base/products.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"
#include "sim/oracle.h"

namespace gradstream {
namespace {

// Of a model, in the Frobenius norm. Reason: a few roundings of entries below 1.
constexpr Real kDelayedTolerance = static_cast<Real>(1e-5);

// The radius in which a retraction is one-to-one; 0: of no length that is known beforehand.
Real one_to_one_radius(ManifoldId id) {
  return id == ManifoldId::kStiefel                                ? Real{1} / 2
         : id == ManifoldId::kGrassmann                            ? std::numbers::pi_v<Real> / 2
         : id == ManifoldId::kSphere || id == ManifoldId::kOblique ? std::numbers::pi_v<Real>
                                                                   : 0;
}

}  // namespace

// A step beyond that radius is shortened to it, part by part of a product: a liar's goes beyond.
Status Oracle::shorten(const ManifoldOps& manifold, Shape shape, const Real* x, Real* v) {
  if (manifold.id == ManifoldId::kProduct) {
    size_t at = 0;
    for (const Part& part : shape.parts->list()) {
      GS_TRY(shorten(*part.ops, part.shape, x + at, v + at));
      at += part.shape.size();
    }
    return Status::kOk;
  }
  const Result<Real> square = manifold.inner(shape, x, v, v, arena_);
  GS_TRY(square.status());
  const Real radius = one_to_one_radius(manifold.id);
  if (radius > 0 && square.value() > radius * radius) {
    scale(shape.size(), radius / std::sqrt(square.value()), v);
  }
  return Status::kOk;
}

// Rule asgd again, to the rounding of another order of operations: X <- R_X(eta_g / B sum s_i K_eff / k_i zeta_i).
std::string Oracle::check_delayed(const VersionRecord& record) {
  const size_t size = parameters_.model->shape.size();
  std::vector<Real> v(size);
  Real effective_steps = 0;
  for (const Share& share : shares_) {
    effective_steps += static_cast<Real>(share.steps_done) / static_cast<Real>(shares_.size());
    const Real weight = static_cast<Real>(share.weight) / static_cast<Real>(kStalenessOne) * share.sample_share;
    add_scaled(size, weight / static_cast<Real>(share.steps_done), share.values.data(), v.data());
  }
  scale(size, parameters_.steps->server_step * effective_steps / static_cast<Real>(shares_.size()), v.data());
  const ManifoldOps& manifold = replica_.manifold();
  Status status = manifold.project_tangent(parameters_.model->shape, replica_.model(), v.data(), v.data(), arena_);
  if (status == Status::kOk) {
    status = shorten(manifold, parameters_.model->shape, replica_.model(), v.data());
  }
  if (status == Status::kOk) {
    status = manifold.retract(parameters_.model->shape, replica_.model(), v.data(), v.data(), arena_);
  }
  std::vector<Real> model(size);
  if (status != Status::kOk || read_model(parameters_.model->shape, record.model, model.data()) != Status::kOk ||
      !(distance2(size, model.data(), v.data()) < kDelayedTolerance)) {
    return "a version is not the step of the journal's updates";
  }
  return "";
}

}  // namespace gradstream
