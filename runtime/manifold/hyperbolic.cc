// Hyperbolic space in the Lorentz model: x = (x0, xs), n x 1, with <x, x>_L = -1 and x0 > 0. <x, y>_L is
// -x0 y0 + xs'ys, and the time coordinate x0 comes first. Curvature -1; another one is a scaling of the caller.
//
// project_point    the lift of the space part, (sqrt(1 + |zs|^2), zs)
// project_tangent  a + <x, a>_L x; riemannian_gradient projects (-g0, gs)
// retract          exponential, the default: cosh(n) x + sinh(n) / n v, n = |v|_L; then x0 again from the space part.
//                  Not reproducible. Or projection: the lift of xs + vs, of first order and without libm
// inverse_retract  of the exponential log_map; of the projection vs = ys - xs
// exp_map, log_map in the exponential variant
// transport        parallel: v + <y, v>_L / (1 - <x, y>_L) (x + y); isometric
// distance         2 asinh(|x - y|_L / 2)
// inner            <v, w>_L by its parts across and along xs, see tangent_product()
//
// Differences of time coordinates are taken from the space parts, x0 - y0 = (xs - ys)'(xs + ys) / (x0 + y0). Reason:
// the naive form loses all digits of near points far from the origin in float.
#include "runtime/base/no_contraction.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

Real lorentz(size_t size, const Real* v, const Real* w) { return dot(size - 1, v + 1, w + 1) - v[0] * w[0]; }

// Sets x0.
Status lift(size_t size, Real* x) {
  x[0] = std::sqrt(1 + dot(size - 1, x + 1, x + 1));
  return all_finite(1, x) ? Status::kOk : Status::kNotFinite;
}

// The time coordinate that makes v tangent at x, given its space part.
Real tangent_time(size_t size, const Real* x, const Real* v) { return dot(size - 1, x + 1, v + 1) / x[0]; }

// <v, w>_L of tangent v, w at x. Far from the origin the two terms of lorentz() are x0^2 times their difference. The
// part of vs along xs is v0 x0 / |xs|^2 xs, since v is tangent, and counts v0 w0 / |xs|^2; the rest of vs has no time.
Real tangent_product(size_t size, const Real* x, const Real* v, const Real* w) {
  const Real squared = dot(size - 1, x + 1, x + 1);
  if (!(squared > 1)) {
    return lorentz(size, v, w);  // loses a bit at most, and |xs| may be 0
  }
  const Real v_along = v[0] * x[0] / squared;
  const Real w_along = w[0] * x[0] / squared;
  Real across = 0;
  for (size_t i = 1; i < size; ++i) {
    across += (v[i] - v_along * x[i]) * (w[i] - w_along * x[i]);
  }
  return across + v[0] * w[0] / squared;
}

// y0 - x0.
Real time_difference(size_t size, const Real* x, const Real* y) {
  Real sum = 0;
  for (size_t i = 1; i < size; ++i) {
    sum += (y[i] - x[i]) * (y[i] + x[i]);
  }
  return sum / (x[0] + y[0]);
}

// |x - y|_L^2, at least 0; time: y0 - x0. It keeps its digits for near points. For points far from the origin and far
// apart along one ray it is a difference of large numbers: in float, 1,000 and 1,500 out, it is 12 % off.
Real chord_squared(size_t size, const Real* x, const Real* y, Real time) {
  const Real space = distance2(size - 1, x + 1, y + 1);
  const Real squared = space * space - time * time;
  return squared > 0 ? squared : 0;
}
Real chord_squared(size_t size, const Real* x, const Real* y) {
  return chord_squared(size, x, y, time_difference(size, x, y));
}

template <RetractionKind kR>
struct Hyperbolic {
  static constexpr ManifoldId kId = ManifoldId::kHyperbolic;
  static constexpr const char* kName = "hyperbolic";
  static constexpr RetractionKind kRetraction = kR;
  static constexpr TransportKind kTransport = TransportKind::kParallel;
  static constexpr RetractionKind kDefaultRetraction = RetractionKind::kExponential;
  static constexpr TransportKind kDefaultTransport = TransportKind::kParallel;
  static constexpr bool kReproducible = kR == RetractionKind::kProjection;
  static constexpr bool kIsometricTransport = true;

  static Status check_shape(Shape shape) {
    const bool fits = shape.rows >= 2 && shape.rows <= kDimensionMax && shape.cols == 1;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return shape.size() - 1; }
  static size_t scratch_size(Shape) { return 0; }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena&) {
    if (out != z) {
      copy(shape.size(), z, out);
    }
    return lift(shape.size(), out);
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena&) {
    const Real normal = lorentz(shape.size(), x, g);
    for (size_t i = 1; i < shape.size(); ++i) {
      out[i] = g[i] + normal * x[i];
    }
    out[0] = tangent_time(shape.size(), x, out);
    return Status::kOk;
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    if (out != g) {
      copy(shape.size(), g, out);
    }
    out[0] = -out[0];
    return project_tangent(shape, x, out, out, arena);
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena&) {
    if constexpr (kR == RetractionKind::kExponential) {
      return exponential(shape.size(), x, v, out);
    }
    for (size_t i = 1; i < shape.size(); ++i) {
      out[i] = x[i] + v[i];
    }
    return lift(shape.size(), out);
  }
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena&) {
    if constexpr (kR == RetractionKind::kExponential) {
      return logarithm(shape.size(), x, y, out);
    }
    for (size_t i = 1; i < shape.size(); ++i) {
      out[i] = y[i] - x[i];
    }
    out[0] = tangent_time(shape.size(), x, out);
    return Status::kOk;
  }
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out,
                        Arena&) requires(kR == RetractionKind::kExponential) {
    return exponential(shape.size(), x, v, out);
  }
  static Status log_map(Shape shape, const Real* x, const Real* y, Real* out,
                        Arena&) requires(kR == RetractionKind::kExponential) {
    return logarithm(shape.size(), x, y, out);
  }
  // <y, v>_L = <y - x, v>_L for v tangent at x, and 1 - <x, y>_L = 2 + |x - y|_L^2 / 2: neither cancels.
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena&) {
    const size_t size = shape.size();
    const Real time = time_difference(size, x, y);
    Real along = -time * v[0];
    for (size_t i = 1; i < size; ++i) {
      along += (y[i] - x[i]) * v[i];
    }
    const Real factor = along / (2 + chord_squared(size, x, y, time) / 2);
    add_scaled_sum(size - 1, factor, x + 1, y + 1, v + 1, out + 1);
    out[0] = tangent_time(size, y, out);
    return Status::kOk;
  }
  static Result<Real> inner(Shape shape, const Real* x, const Real* v, const Real* w, Arena&) {
    return tangent_product(shape.size(), x, v, w);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena&) {
    return 2 * std::asinh(std::sqrt(chord_squared(shape.size(), x, y)) / 2);
  }
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena&) {
    GS_TRY(logarithm(shape.size(), x, y, out));
    scale(shape.size() - 1, -1, out + 1);  // J log: the metric's sign of the time coordinate
    return Status::kOk;
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return project_point(shape, out, out, arena);
  }

 private:
  static Status exponential(size_t size, const Real* x, const Real* v, Real* out) {
    const Real squared = tangent_product(size, x, v, v);
    const Real length = squared > 0 ? std::sqrt(squared) : 0;
    const Real cosine = std::cosh(length);
    const Real along = length > 0 ? std::sinh(length) / length : 1;
    combine(size - 1, cosine, x + 1, along, v + 1, out + 1);
    return lift(size, out);
  }
  // d w / |w|_L with w = (y - x) - q / 2 x and |w|_L = sqrt(q (1 + q / 4)), q = |x - y|_L^2.
  static Status logarithm(size_t size, const Real* x, const Real* y, Real* out) {
    const Real squared = chord_squared(size, x, y);
    const Real chord = std::sqrt(squared);
    const Real factor = chord > 0 ? 2 * std::asinh(chord / 2) / (chord * std::sqrt(1 + squared / 4)) : 1;
    for (size_t i = 1; i < size; ++i) {
      out[i] = factor * ((y[i] - x[i]) - squared / 2 * x[i]);
    }
    out[0] = tangent_time(size, x, out);
    return all_finite(size, out) ? Status::kOk : Status::kNotFinite;
  }
};

}  // namespace

constexpr ManifoldOps kHyperbolicOps = make_manifold_ops<Hyperbolic<RetractionKind::kExponential>>();
constexpr ManifoldOps kHyperbolicProjectionOps = make_manifold_ops<Hyperbolic<RetractionKind::kProjection>>();

}  // namespace gradstream
