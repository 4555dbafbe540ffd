#include "runtime/base/no_contraction.h"

#include "runtime/problem/proximal_loss.h"

#include <algorithm>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

const ProximalLoss& term_of(const void* context) { return *static_cast<const ProximalLoss*>(context); }

// Of two points as entries of one vector.
struct LorentzDistance {
  Real x0 = 0;      // of the lift of x
  Real delta0 = 0;  // x0 - c0
  Real square = 0;  // d2, not below 0
};

LorentzDistance lorentz_distance(size_t size, const Real* x, const Real* c) {
  Real x_square = 0;
  Real c_square = 0;
  Real difference_square = 0;
  Real along = 0;  // <x - c, x + c>
  for (size_t e = 0; e < size; ++e) {
    const Real difference = x[e] - c[e];
    x_square += x[e] * x[e];
    c_square += c[e] * c[e];
    difference_square += difference * difference;
    along += difference * (x[e] + c[e]);
  }
  LorentzDistance out;
  out.x0 = std::sqrt(1 + x_square);
  out.delta0 = along / (out.x0 + std::sqrt(1 + c_square));
  out.square = std::max(difference_square - out.delta0 * out.delta0, Real{0});
  return out;
}

Real exponential(const ProximalLoss& term, const LorentzDistance& distance) {
  return std::exp(std::min(distance.square / term.sigma, kProximalExponentMax));
}

uint32_t sample_count(const void* context) {
  const Problem& inner = term_of(context).inner;
  return inner.ops->sample_count(inner.context);
}

Status check_shape(const void* context, Shape shape) {
  const ProximalLoss& term = term_of(context);
  const bool is_sound = term.mu >= 0 && std::isfinite(term.mu) && term.sigma > 0 && std::isfinite(term.sigma);
  if (!is_sound) {
    return Status::kInvalidArgument;
  }
  if (term.form == ProximalForm::kDistance) {
    const ManifoldOps* const manifold = term.manifold;
    const bool has_distance = kHasHostMembers && manifold != nullptr && manifold->distance != nullptr;
    if (!has_distance || (term.needs_gradient && !has_distance_gradient(*manifold, shape))) {
      return Status::kUnimplemented;
    }
  }
  return term.inner.ops->check_shape(term.inner.context, shape);
}

size_t scratch_size(const void* context, Shape shape) {
  const ProximalLoss& term = term_of(context);
  const size_t inner_size = term.inner.ops->scratch_size(term.inner.context, shape);
  if (!kHasHostMembers || term.form != ProximalForm::kDistance) {
    return inner_size;
  }
  const size_t own_size = Arena::taken_size<Real>(shape.size()) + term.manifold->scratch_size(shape);
  return inner_size > own_size ? inner_size : own_size;
}

size_t kept_size(const void* context, Shape shape, uint32_t batch_size) {
  const Problem& inner = term_of(context).inner;
  return inner.ops->kept_size == nullptr ? 0 : inner.ops->kept_size(inner.context, shape, batch_size);
}

bool lacks_gradient(const void* context) { return !has_gradient(term_of(context).inner); }

// out <- out + mu times the gradient of d^2 / 2.
Status add_distance_gradient(const ProximalLoss& term, Shape shape, const Real* x, Real* out, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> pull = arena.scratch<Real>(shape.size());
  GS_TRY(pull.status());
  GS_TRY(term.manifold->distance_gradient(shape, x, term.centre, pull.value(), arena));
  add_scaled(shape.size(), term.mu, pull.value(), out);
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const ProximalLoss& term = term_of(context);
  const Result<Real> inner = term.inner.ops->loss(term.inner.context, shape, x, batch, arena);
  GS_TRY(inner.status());
  Real value = 0;
  if (kHasHostMembers && term.form == ProximalForm::kDistance) {
    const Result<Real> distance = term.manifold->distance(shape, x, term.centre, arena);
    GS_TRY(distance.status());
    value = distance.value() * distance.value();
  } else if (term.form == ProximalForm::kLorentz) {
    value = exponential(term, lorentz_distance(shape.size(), x, term.centre));
  } else {
    for (size_t e = 0; e < shape.size(); ++e) {
      value += (x[e] - term.centre[e]) * (x[e] - term.centre[e]);
    }
  }
  const Real sum = inner.value() + term.mu / 2 * value;
  return std::isfinite(sum) ? Result<Real>(sum) : Result<Real>(Status::kNotFinite);
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const ProximalLoss& term = term_of(context);
  if (!has_gradient(term.inner)) {
    return Status::kUnimplemented;
  }
  GS_TRY(term.inner.ops->gradient(term.inner.context, shape, x, batch, out, arena));
  if (kHasHostMembers && term.form == ProximalForm::kDistance) {
    const bool has_gradient = has_distance_gradient(*term.manifold, shape);
    return has_gradient ? add_distance_gradient(term, shape, x, out, arena) : Status::kUnimplemented;
  }
  LorentzDistance distance;
  Real slope = term.mu;
  if (term.form == ProximalForm::kLorentz) {
    distance = lorentz_distance(shape.size(), x, term.centre);
    slope = term.mu / term.sigma * exponential(term, distance);
  }
  const Real curve = distance.x0 > 0 ? distance.delta0 / distance.x0 : 0;
  for (size_t e = 0; e < shape.size(); ++e) {
    out[e] += slope * (x[e] - term.centre[e] - curve * x[e]);
  }
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

}  // namespace

const ProblemOps kProximalLossOps = {.name = "proximal",
                                     .sample_count = sample_count,
                                     .check_shape = check_shape,
                                     .scratch_size = scratch_size,
                                     .loss = loss,
                                     .gradient = gradient,
                                     .kept_size = kept_size,
                                     .lacks_gradient = lacks_gradient};

}  // namespace gradstream
