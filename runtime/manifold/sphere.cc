// The unit sphere of rows x cols matrices: Frobenius norm 1, metric tr(V'W).
//
// retract          projection, the default: (x + v) / |x + v|, second order; or exponential, not reproducible (libm)
// inverse_retract  of the projection y / (x'y) - x, where x'y > 0; of the exponential log_map
// exp_map, log_map cos|v| x + sin|v| / |v| v and d p / |p|, p = proj_x(y - x); libm
// transport        parallel along the minimal geodesic, u - (y'u) / (1 + x'y) (x + y); isometric, no trigonometry
// distance         geodesic, 2 asin(|y - x| / 2): accurate for near points, where acos(x'y) is not
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <limits>

#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

// x <- x / |x|.
Status normalize(size_t size, Real* x) {
  const Real squared = dot(size, x, x);
  if (!all_finite(1, &squared)) {
    return Status::kNotFinite;
  }
  // Below this the squares have lost digits to underflow; zero is among them.
  if (squared < std::numeric_limits<Real>::min() / kEpsilon) {
    return Status::kSingular;
  }
  scale(size, 1 / std::sqrt(squared), x);
  return Status::kOk;
}

template <RetractionKind kKind>
struct Sphere {
  static constexpr ManifoldId kId = ManifoldId::kSphere;
  static constexpr const char* kName = "sphere";
  static constexpr RetractionKind kRetraction = kKind;
  static constexpr TransportKind kTransport = TransportKind::kParallel;
  static constexpr RetractionKind kDefaultRetraction = RetractionKind::kProjection;
  static constexpr TransportKind kDefaultTransport = TransportKind::kParallel;
  static constexpr bool kReproducible = kKind == RetractionKind::kProjection;
  static constexpr bool kIsometricTransport = true;

  static Status check_shape(Shape shape) {
    const bool fits = shape.rows <= kDimensionMax && shape.cols <= kDimensionMax && shape.size() >= 2;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return shape.size() - 1; }
  static size_t scratch_size(Shape) { return 0; }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena&) {
    copy(shape.size(), z, out);
    return normalize(shape.size(), out);
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena&) {
    const Real normal = dot(shape.size(), x, g);
    subtract_scaled(shape.size(), normal, x, g, out);
    return Status::kOk;
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return project_tangent(shape, x, g, out, arena);
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    if constexpr (kKind == RetractionKind::kExponential) {
      return exp_map(shape, x, v, out, arena);
    }
    add(shape.size(), x, v, out);
    return normalize(shape.size(), out);
  }
  // With d = y - x and h = |d|^2 / 2 it is (d + h x) / (1 - h), which does not cancel for near points.
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    if constexpr (kKind == RetractionKind::kExponential) {
      return log_map(shape, x, y, out, arena);
    }
    const size_t size = shape.size();
    const Real half = chord(size, x, y, out);
    const Real cosine = 1 - half;
    if (!(cosine > kEpsilon)) {
      return Status::kSingular;
    }
    add_scaled(size, half, x, out);
    scale(size, 1 / cosine, out);
    return Status::kOk;
  }
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out, Arena&) {
    const Real length = norm2(shape.size(), v);
    const Real along = length > 0 ? std::sin(length) / length : 1;
    const Real cosine = std::cos(length);
    combine(shape.size(), cosine, x, along, v, out);
    return normalize(shape.size(), out);  // a no-op but for rounding, which would add up over many steps
  }
  static Status log_map(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    const size_t size = shape.size();
    const Real half = chord(size, x, y, out);
    if (!(2 - half > 4 * kEpsilon)) {
      return Status::kSingular;
    }
    add_scaled(size, half, x, out);  // proj_x(y - x)
    const Real length = norm2(size, out);
    const Result<Real> angle = distance(shape, x, y, arena);
    GS_TRY(angle.status());
    scale(size, length > 0 ? angle.value() / length : 0, out);
    return Status::kOk;
  }
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena&) {
    const size_t size = shape.size();
    const Real sum = 1 + dot(size, x, y);
    if (!(sum > 4 * kEpsilon)) {
      return Status::kSingular;
    }
    const Real factor = dot(size, y, v) / sum;
    add_scaled_sum(size, -factor, x, y, v, out);
    return Status::kOk;
  }
  static Result<Real> inner(Shape shape, const Real*, const Real* v, const Real* w, Arena&) {
    return dot(shape.size(), v, w);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena&) {
    const Real half_chord = distance2(shape.size(), x, y) / 2;
    return 2 * std::asin(half_chord < 1 ? half_chord : Real{1});
  }
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    GS_TRY(log_map(shape, x, y, out, arena));
    scale(shape.size(), -1, out);
    return Status::kOk;
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return project_point(shape, out, out, arena);
  }

 private:
  // d <- y - x; |d|^2 / 2 = 1 - x'y.
  static Real chord(size_t size, const Real* x, const Real* y, Real* d) {
    for (size_t i = 0; i < size; ++i) {
      d[i] = y[i] - x[i];
    }
    return dot(size, d, d) / 2;
  }
};

}  // namespace

constexpr ManifoldOps kSphereOps = make_manifold_ops<Sphere<RetractionKind::kProjection>>();
constexpr ManifoldOps kSphereExponentialOps = make_manifold_ops<Sphere<RetractionKind::kExponential>>();

}  // namespace gradstream
