// Euclidean space, rows x cols matrices. Retraction x + v (its exponential), transport the identity (parallel),
// distance |y - x|.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

struct Euclidean {
  static constexpr ManifoldId kId = ManifoldId::kEuclidean;
  static constexpr const char* kName = "euclidean";
  static constexpr RetractionKind kRetraction = RetractionKind::kExponential;
  static constexpr TransportKind kTransport = TransportKind::kParallel;
  static constexpr RetractionKind kDefaultRetraction = kRetraction;
  static constexpr TransportKind kDefaultTransport = kTransport;
  static constexpr bool kReproducible = true;
  static constexpr bool kIsometricTransport = true;

  static Status check_shape(Shape shape) {
    const bool fits = shape.rows >= 1 && shape.cols >= 1 && shape.rows <= kDimensionMax && shape.cols <= kDimensionMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return shape.size(); }
  static size_t scratch_size(Shape) { return 0; }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena&) {
    if (!all_finite(shape.size(), z)) {
      return Status::kNotFinite;
    }
    copy(shape.size(), z, out);
    return Status::kOk;
  }
  static Status project_tangent(Shape shape, const Real*, const Real* g, Real* out, Arena&) {
    copy(shape.size(), g, out);
    return Status::kOk;
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return project_tangent(shape, x, g, out, arena);
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena&) {
    for (size_t i = 0; i < shape.size(); ++i) {
      out[i] = x[i] + v[i];
    }
    return Status::kOk;
  }
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena&) {
    for (size_t i = 0; i < shape.size(); ++i) {
      out[i] = y[i] - x[i];
    }
    return Status::kOk;
  }
  static Status transport(Shape shape, const Real*, const Real*, const Real* v, Real* out, Arena&) {
    copy(shape.size(), v, out);
    return Status::kOk;
  }
  static Result<Real> inner(Shape shape, const Real*, const Real* v, const Real* w, Arena&) {
    return dot(shape.size(), v, w);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena&) {
    return distance2(shape.size(), x, y);
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena&) {
    fill_normal(key, 0, shape.size(), out);
    return Status::kOk;
  }
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    return retract(shape, x, v, out, arena);
  }
  static Status log_map(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    return inverse_retract(shape, x, y, out, arena);
  }
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    return inverse_retract(shape, y, x, out, arena);
  }
};

}  // namespace

constexpr ManifoldOps kEuclideanOps = make_manifold_ops<Euclidean>();

}  // namespace gradstream
