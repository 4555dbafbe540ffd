#include "runtime/base/no_contraction.h"

#include "server/rules/delay_correction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/base/products.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr Real kMomentDecay = static_cast<Real>(0.95);
constexpr Real kMomentFloor = static_cast<Real>(1e-7);
// A drift below this share of the model's own size is rounding, and its direction means nothing.
constexpr Real kDriftLeast = 8 * std::numeric_limits<Real>::epsilon();

bool has_geodesics(ManifoldId id) {
  return id == ManifoldId::kSphere || id == ManifoldId::kSpd || id == ManifoldId::kHyperbolic;
}

const ManifoldOps* server_table(const ManifoldOps& table) {
  if (!has_geodesics(table.id)) {
    return &table;
  }
  const ManifoldOps* exact =
      find_manifold(all_manifolds(), table.id, RetractionKind::kExponential, TransportKind::kParallel);
  GS_ASSERT(exact != nullptr);
  return exact;
}

// Length of a step at which the retraction stops to be one-to-one. At fixed rank it is the point's own, its smallest
// singular value: no constant, and a step that loses the rank is refused as singular by the retraction.
Real step_length_max(ManifoldId id) {
  switch (id) {
    case ManifoldId::kSphere:
    case ManifoldId::kOblique:
      return std::numbers::pi_v<Real>;
    case ManifoldId::kGrassmann:
      return std::numbers::pi_v<Real> / 2;
    case ManifoldId::kStiefel:
      return static_cast<Real>(0.5);  // its radius of proximal smoothness is 1 (003)
    default:
      return std::numeric_limits<Real>::infinity();
  }
}

// v <- v shortened to that length, on a product part by part, since each has its own; *is_clamped where it was.
Status shorten(const ManifoldOps& table, Shape shape, const Real* x, Real* v, bool* is_clamped, Arena& arena) {
  if (table.id == ManifoldId::kProduct) {
    size_t at = 0;
    for (const Part& part : shape.parts->list()) {
      GS_TRY(shorten(*part.ops, part.shape, x + at, v + at, is_clamped, arena));
      at += part.shape.size();
    }
    return Status::kOk;
  }
  const Real length_max = step_length_max(table.id);
  if (!std::isfinite(length_max)) {
    return Status::kOk;
  }
  const Result<Real> square = table.inner(shape, x, v, v, arena);
  GS_TRY(square.status());
  const Real length = std::sqrt(square.value());
  if (length > length_max) {
    *is_clamped = true;
    scale(shape.size(), length_max / length, v);
  }
  return Status::kOk;
}

std::vector<Real> negated(std::vector<Real> v) {
  scale(v.size(), -1, v.data());
  return v;
}

bool is_zero(const std::vector<Real>& v) {
  return std::all_of(v.begin(), v.end(), [](Real x) { return x == 0; });
}

}  // namespace

DelayCorrection::DelayCorrection(DelayRule rule, Real lambda, const ManifoldOps& table, Shape shape,
                                 DelaySwitchBy statistic, OrthoCorrect ortho)
    : rule_(rule),
      lambda_(lambda),
      statistic_(statistic),
      ortho_(rule == DelayRule::kOrthoPos      ? OrthoCorrect{1, 0}
             : rule == DelayRule::kOrthoStrict ? OrthoCorrect{0, 1}
                                               : ortho),
      run_table_(&table),
      table_(server_table(table)),
      shape_(shape),
      size_(shape.size()) {}

size_t DelayCorrection::scratch_size(const ManifoldOps& table, Shape shape) {
  return std::max(table.scratch_size(shape), server_table(table)->scratch_size(shape));
}

Status DelayCorrection::lift(const Real* current, const Real* z, Real* out, Arena& arena) const {
  const ManifoldId id = table_->id;
  if (id != ManifoldId::kStiefel && id != ManifoldId::kOblique) {
    return table_->inverse_retract(shape_, current, z, out, arena);
  }
  for (size_t e = 0; e < size_; ++e) {
    out[e] = z[e] - current[e];
  }
  return table_->project_tangent(shape_, current, out, out, arena);
}

Status DelayCorrection::carry(const Real* from, const Real* to, Real* v, Arena& arena) const {
  GS_TRY(table_->transport(shape_, from, to, v, v, arena));
  return table_->project_tangent(shape_, to, v, v, arena);
}

Status DelayCorrection::displacement(const Real* base, const Real* current, const Real* zeta, Real* out,
                                     Arena& arena) const {
  for (size_t e = 0; e < size_; ++e) {
    out[e] = -zeta[e];
  }
  return std::equal(base, base + size_, current) ? Status::kOk : carry(base, current, out, arena);
}

Status DelayCorrection::direct(const Real* base, const Real* current, const Real* zeta, const DelayMoments& moments,
                               DelayDirection* out, Arena& arena) const {
  *out = DelayDirection();
  out->moments = moments;
  out->direction.resize(size_);
  GS_TRY(displacement(base, current, zeta, out->direction.data(), arena));
  out->is_still = is_zero(out->direction);
  std::vector<Real> drift(size_);
  GS_TRY(lift(current, base, drift.data(), arena));
  const bool has_drift = norm2(size_, drift.data()) > kDriftLeast * std::max(Real{1}, norm2(size_, current));
  if (has_drift && !out->is_still) {
    GS_TRY(measure(current, drift.data(), out, arena));
  }
  switch (rule_) {
    case DelayRule::kNone:
    case DelayRule::kAsgd:
      break;
    case DelayRule::kFedAsync:
      GS_TRY(take_position(base, current, zeta, out, arena));
      break;
    case DelayRule::kDcAsgd:
    case DelayRule::kDcAdaptive:
      GS_TRY(correct_entries(current, drift.data(), moments, out, arena));
      break;
    case DelayRule::kDcRank1:
      GS_TRY(correct_rank1(current, drift.data(), moments, out, arena));
      break;
    case DelayRule::kOrthoGrad:
    case DelayRule::kOrthoPos:
    case DelayRule::kOrthoStrict:
      if (has_drift && !out->is_still) {
        GS_TRY(correct_ortho(base, current, zeta, drift.data(), out, arena));
      }
      break;
  }
  GS_TRY(table_->project_tangent(shape_, current, out->direction.data(), out->direction.data(), arena));
  return all_finite(size_, out->direction.data()) ? Status::kOk : Status::kNotFinite;
}

Status DelayCorrection::measure(const Real* current, const Real* drift, DelayDirection* out, Arena& arena) const {
  if (statistic_ == DelaySwitchBy::kVersion) {
    return Status::kOk;
  }
  const Real* const delta = out->direction.data();
  const Result<Real> delta_square = table_->inner(shape_, current, delta, delta, arena);
  GS_TRY(delta_square.status());
  const Result<Real> drift_square = table_->inner(shape_, current, drift, drift, arena);
  GS_TRY(drift_square.status());
  const Real delta_length = std::sqrt(delta_square.value());
  const Real drift_length = std::sqrt(drift_square.value());
  Real statistic = drift_length / delta_length;
  if (statistic_ == DelaySwitchBy::kCosine) {
    const Result<Real> along = table_->inner(shape_, current, delta, drift, arena);
    GS_TRY(along.status());
    statistic = std::clamp(along.value() / delta_length / drift_length, Real{-1}, Real{1});
  }
  if (std::isfinite(statistic)) {  // squares of tiny lengths may be 0
    out->statistic = statistic;
  }
  return Status::kOk;
}

Status DelayCorrection::correct_entries(const Real* current, const Real* drift, const DelayMoments& moments,
                                        DelayDirection* out, Arena& arena) const {
  const bool is_adaptive = rule_ == DelayRule::kDcAdaptive;
  out->moments.resize(is_adaptive ? size_ : 0);
  std::vector<Real> correction(size_);
  for (size_t e = 0; e < size_; ++e) {
    const Real square = out->direction[e] * out->direction[e];
    Real lambda = lambda_;
    if (is_adaptive) {
      out->moments[e] = kMomentDecay * (moments.empty() ? 0 : moments[e]) + (1 - kMomentDecay) * square;
      lambda /= std::sqrt(out->moments[e] + kMomentFloor);
    }
    // Beyond 1, that is beyond FedAsync in this entry, the correction would overshoot.
    correction[e] = std::min(lambda * square, Real{1}) * drift[e];
  }
  GS_TRY(table_->project_tangent(shape_, current, correction.data(), correction.data(), arena));
  add_scaled(size_, -1, correction.data(), out->direction.data());
  return Status::kOk;
}

Status DelayCorrection::correct_rank1(const Real* current, const Real* drift, const DelayMoments& moments,
                                      DelayDirection* out, Arena& arena) const {
  const Real* const delta = out->direction.data();
  const Result<Real> square = table_->inner(shape_, current, delta, delta, arena);
  GS_TRY(square.status());
  const Result<Real> along = table_->inner(shape_, current, delta, drift, arena);
  GS_TRY(along.status());
  out->moments = {kMomentDecay * (moments.empty() ? 0 : moments[0]) + (1 - kMomentDecay) * square.value()};
  const Real lambda = lambda_ / std::sqrt(out->moments[0] + kMomentFloor);
  const Real share = square.value() > 0 ? std::min(lambda * square.value(), Real{1}) / square.value() : 0;
  scale(size_, 1 - share * along.value(), out->direction.data());
  return Status::kOk;
}

Status DelayCorrection::correct_ortho(const Real* base, const Real* current, const Real* zeta, const Real* drift,
                                      DelayDirection* out, Arena& arena) const {
  const Real* const delta = out->direction.data();
  const Result<Real> along = table_->inner(shape_, current, delta, drift, arena);
  GS_TRY(along.status());
  // The sign of <delta, b> is that of the cosine, which rounding may take beyond 1: at 0 and 1 no length is asked.
  bool is_conflict = along.value() <= 0 || ortho_.theta >= 1;
  if (ortho_.theta != 0 && ortho_.theta < 1) {
    const Result<Real> delta_square = table_->inner(shape_, current, delta, delta, arena);
    GS_TRY(delta_square.status());
    const Result<Real> drift_square = table_->inner(shape_, current, drift, drift, arena);
    GS_TRY(drift_square.status());
    is_conflict = along.value() <= ortho_.theta * std::sqrt(delta_square.value()) * std::sqrt(drift_square.value());
  }
  if (is_conflict) {
    return remove_along(current, drift, along.value(), out, arena);
  }
  if (ortho_.alpha == 0) {
    return Status::kOk;
  }
  const std::vector<Real> gradient = out->direction;
  GS_TRY(take_position(base, current, zeta, out, arena));
  if (ortho_.alpha != 1) {
    out->target.clear();  // the step no longer ends at Y
    scale(size_, ortho_.alpha, out->direction.data());
    add_scaled(size_, 1 - ortho_.alpha, gradient.data(), out->direction.data());
  }
  return Status::kOk;
}

Status DelayCorrection::remove_along(const Real* current, const Real* drift, Real along, DelayDirection* out,
                                     Arena& arena) const {
  const Result<Real> square = table_->inner(shape_, current, drift, drift, arena);
  GS_TRY(square.status());
  add_scaled(size_, -along / square.value(), drift, out->direction.data());
  return Status::kOk;
}

Status DelayCorrection::take_position(const Real* base, const Real* current, const Real* zeta, DelayDirection* out,
                                      Arena& arena) const {
  out->target.resize(size_);
  GS_TRY(run_table_->retract(shape_, base, zeta, out->target.data(), arena));
  GS_TRY(lift(current, out->target.data(), out->direction.data(), arena));
  scale(size_, -1, out->direction.data());
  return Status::kOk;
}

Status DelayCorrection::take_chord(const Real* current, Real alpha, const Real* target, Real* next,
                                   Arena& arena) const {
  std::vector<Real> chord(size_);
  for (size_t e = 0; e < size_; ++e) {
    chord[e] = (1 - alpha) * current[e] + alpha * target[e];
  }
  return table_->project_point(shape_, chord.data(), next, arena);
}

Status DelayCorrection::approach(const Real* current, Real alpha, const Real* target, Real* next, Arena& arena) const {
  if (is_embedded(table_->id)) {
    return take_chord(current, alpha, target, next, arena);
  }
  std::vector<Real> v(size_);
  GS_TRY(lift(current, target, v.data(), arena));
  scale(size_, alpha, v.data());
  return table_->retract(shape_, current, v.data(), next, arena);
}

Status DelayCorrection::step(const Real* current, Real alpha, DelayDirection* direction, Real* next,
                             Arena& arena) const {
  if (!direction->target.empty() && is_embedded(table_->id)) {
    return take_chord(current, alpha, direction->target.data(), next, arena);
  }
  std::vector<Real> v = negated(direction->direction);
  scale(size_, alpha, v.data());
  GS_TRY(shorten(*table_, shape_, current, v.data(), &direction->is_clamped, arena));
  return table_->retract(shape_, current, v.data(), next, arena);
}

DelaySwitch DelaySwitch::after(const DelayCore& keys, uint32_t version, std::optional<Real> statistic) const {
  DelaySwitch next = *this;
  if (statistic) {
    next.sample_count = std::min(sample_count, UINT32_MAX - 1) + 1;
    next.mean += (*statistic - mean) / static_cast<Real>(std::min(next.sample_count, kDelayWindow));
  }
  next.is_switched = is_switched || (version >= keys.delay_switch && next.sample_count >= kDelayWindow &&
                                     next.mean <= keys.delay_switch_at);
  return next;
}

}  // namespace gradstream
