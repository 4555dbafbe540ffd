// The oblique manifold: rows x cols matrices whose columns have norm 1, a product of cols spheres; metric tr(V'W).
// Every formula is the sphere's (sphere.cc), column by column.
//
// project_point    each column by its norm; kSingular where one is zero
// retract          projection, the default: the columns of X + V by their norms; or exponential, not reproducible
// inverse_retract  of the projection y / (x'y) - x, where x'y > 0 in every column; of the exponential log_map
// transport        parallel, the default: along the minimal geodesic of each column, isometric; or projection to T_Y
// distance         geodesic: the norm of the columns' angles
#include <cmath>
#include <limits>

#include "runtime/base/wide.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

// Least square of a length. Reason: below it the squares have lost digits to underflow; zero is among them.
constexpr Real kLeastSquare = std::numeric_limits<Real>::min() / kEpsilon;

// out <- the columns of z by their lengths, whose squares `lengths` holds and which are spoilt. out may be z.
Status divide_by_lengths(Shape shape, const Real* z, Real* lengths, Real* out) {
  bool is_finite = true, is_regular = true;
  for (size_t c = 0; c < shape.cols; ++c) {
    const Real square = lengths[c];
    is_finite = is_finite && square <= std::numeric_limits<Real>::max();
    is_regular = is_regular && square >= kLeastSquare;
    lengths[c] = 1 / std::sqrt(square);
  }
  if (!is_finite || !is_regular) {
    return is_finite ? Status::kSingular : Status::kNotFinite;
  }
  scale_columns(shape, lengths, z, out);
  return Status::kOk;
}

// out <- the columns of z by their lengths; out may be z. lengths: cols Reals.
Status normalize_columns(Shape shape, const Real* z, Real* out, Real* lengths) {
#if GS_HAS_WIDE
  if (wide::takes(shape.rows, shape.cols)) {
    return wide::normalize_columns(shape.rows, shape.cols, z, nullptr, kLeastSquare, out);
  }
#endif
  column_dots(shape, z, z, lengths);
  return divide_by_lengths(shape, z, lengths, out);
}

// out <- the columns of X + V by their lengths.
Status normalize_sum(Shape shape, const Real* x, const Real* v, Real* out, Real* lengths) {
#if GS_HAS_WIDE
  if (wide::takes(shape.rows, shape.cols)) {
    return wide::normalize_columns(shape.rows, shape.cols, x, v, kLeastSquare, out);
  }
#endif
  add(shape.size(), x, v, out);
  column_dots(shape, out, out, lengths);
  return divide_by_lengths(shape, out, lengths, out);
}

// out <- X diag(a) + V diag(b); out may be x or v. b, or where out is v a, is spoilt.
void combine_columns(Shape shape, const Real* x, Real* a, const Real* v, Real* b, Real* out) {
  const bool is_first_v = out == v;
  scale_columns(shape, is_first_v ? b : a, is_first_v ? v : x, out);
  Real* const factors = is_first_v ? a : b;
  scale(shape.cols, -1, factors);
  subtract_columns(shape, factors, is_first_v ? x : v, out, out);
}

// sums[c] <- x_c'y_c, along[c] <- y_c'v_c.
void transport_dots(Shape shape, const Real* x, const Real* y, const Real* v, Real* sums, Real* along) {
#if GS_HAS_WIDE
  if (wide::takes(shape.rows, shape.cols)) {
    wide::dots_with_both(shape.rows, shape.cols, x, y, v, sums, along);
    return;
  }
#endif
  column_dots(shape, x, y, sums);
  column_dots(shape, y, v, along);
}

// out <- (V - X diag(factors)) - Y diag(factors).
void subtract_both(Shape shape, const Real* factors, const Real* x, const Real* y, const Real* v, Real* out) {
#if GS_HAS_WIDE
  if (wide::takes(shape.rows, shape.cols)) {
    wide::subtract_both(shape.rows, shape.cols, factors, x, y, v, out);
    return;
  }
#endif
  subtract_columns(shape, factors, x, v, out);
  subtract_columns(shape, factors, y, out, out);
}

// d <- Y - X; halves[c] <- |d_c|^2 / 2 = 1 - x_c'y_c.
void chords(Shape shape, const Real* x, const Real* y, Real* d, Real* halves) {
  for (size_t i = 0; i < shape.size(); ++i) {
    d[i] = y[i] - x[i];
  }
  column_dots(shape, d, d, halves);
  scale(shape.cols, static_cast<Real>(0.5), halves);
}

// The angle of two unit vectors from half the square of their chord.
Real angle_of(Real half) {
  const Real sine = std::sqrt(half / 2);
  return 2 * std::asin(sine < 1 ? sine : Real{1});
}

template <RetractionKind kR, TransportKind kT>
struct Oblique {
  static constexpr ManifoldId kId = ManifoldId::kOblique;
  static constexpr const char* kName = "oblique";
  static constexpr RetractionKind kRetraction = kR;
  static constexpr TransportKind kTransport = kT;
  static constexpr RetractionKind kDefaultRetraction = RetractionKind::kProjection;
  static constexpr TransportKind kDefaultTransport = TransportKind::kParallel;
  static constexpr bool kReproducible = kR == RetractionKind::kProjection;
  static constexpr bool kIsometricTransport = kT == TransportKind::kParallel;

  static Status check_shape(Shape shape) {
    const bool fits =
        shape.rows >= 2 && shape.cols >= 1 && shape.rows <= kDimensionMax && shape.cols <= kDimensionMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return shape.size() - shape.cols; }
  static size_t scratch_size(Shape shape) { return 2 * Arena::taken_size<Real>(shape.cols); }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> lengths = arena.scratch<Real>(shape.cols);
    GS_TRY(lengths.status());
    return normalize_columns(shape, z, out, lengths.value());
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
#if GS_HAS_WIDE
    if (wide::takes(shape.rows, shape.cols)) {
      wide::remove_along_columns(shape.rows, shape.cols, x, g, out);
      return Status::kOk;
    }
#endif
    ScratchScope scope(arena);
    const Result<Real*> normal = arena.scratch<Real>(shape.cols);
    GS_TRY(normal.status());
    column_dots(shape, x, g, normal.value());
    subtract_columns(shape, normal.value(), x, g, out);
    return Status::kOk;
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return project_tangent(shape, x, g, out, arena);
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    if constexpr (kR == RetractionKind::kExponential) {
      return exp_map(shape, x, v, out, arena);
    }
    ScratchScope scope(arena);
    const Result<Real*> lengths = arena.scratch<Real>(shape.cols);
    GS_TRY(lengths.status());
    return normalize_sum(shape, x, v, out, lengths.value());
  }
  // As the sphere's: (d + h x) / (1 - h), which does not cancel for near points.
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    if constexpr (kR == RetractionKind::kExponential) {
      return log_map(shape, x, y, out, arena);
    }
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(shape.cols);
    GS_TRY(scratch.status());
    Real* const factors = scratch.value();
    chords(shape, x, y, out, factors);
    for (size_t c = 0; c < shape.cols; ++c) {
      if (!(1 - factors[c] > kEpsilon)) {
        return Status::kSingular;
      }
      factors[c] = -factors[c];
    }
    subtract_columns(shape, factors, x, out, out);
    for (size_t c = 0; c < shape.cols; ++c) {
      factors[c] = 1 / (1 + factors[c]);
    }
    scale_columns(shape, factors, out, out);
    return Status::kOk;
  }
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> cosines = arena.scratch<Real>(shape.cols);
    GS_TRY(cosines.status());
    const Result<Real*> factors = arena.scratch<Real>(shape.cols);
    GS_TRY(factors.status());
    column_dots(shape, v, v, factors.value());
    for (size_t c = 0; c < shape.cols; ++c) {
      const Real length = std::sqrt(factors.value()[c]);
      cosines.value()[c] = std::cos(length);
      factors.value()[c] = length > 0 ? std::sin(length) / length : 1;
    }
    combine_columns(shape, x, cosines.value(), v, factors.value(), out);
    return normalize_columns(shape, out, out, cosines.value());
  }
  static Status log_map(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> angles = arena.scratch<Real>(shape.cols);
    GS_TRY(angles.status());
    const Result<Real*> factors = arena.scratch<Real>(shape.cols);
    GS_TRY(factors.status());
    chords(shape, x, y, out, factors.value());
    for (size_t c = 0; c < shape.cols; ++c) {
      const Real half = factors.value()[c];
      if (!(2 - half > 4 * kEpsilon)) {
        return Status::kSingular;
      }
      angles.value()[c] = angle_of(half);
      factors.value()[c] = -half;
    }
    subtract_columns(shape, factors.value(), x, out, out);  // proj_X(Y - X)
    column_dots(shape, out, out, factors.value());
    for (size_t c = 0; c < shape.cols; ++c) {
      const Real length = std::sqrt(factors.value()[c]);
      factors.value()[c] = length > 0 ? angles.value()[c] / length : 0;
    }
    scale_columns(shape, factors.value(), out, out);
    return Status::kOk;
  }
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
    if constexpr (kT == TransportKind::kProjection) {
      return project_tangent(shape, y, v, out, arena);
    }
    ScratchScope scope(arena);
    const Result<Real*> sums = arena.scratch<Real>(shape.cols);
    GS_TRY(sums.status());
    const Result<Real*> factors = arena.scratch<Real>(shape.cols);
    GS_TRY(factors.status());
    transport_dots(shape, x, y, v, sums.value(), factors.value());
    for (size_t c = 0; c < shape.cols; ++c) {
      const Real sum = 1 + sums.value()[c];
      if (!(sum > 4 * kEpsilon)) {
        return Status::kSingular;
      }
      factors.value()[c] /= sum;
    }
    subtract_both(shape, factors.value(), x, y, v, out);
    return Status::kOk;
  }
  static Result<Real> inner(Shape shape, const Real*, const Real* v, const Real* w, Arena&) {
    return dot(shape.size(), v, w);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena&) {
    Real squared = 0;
    for (size_t c = 0; c < shape.cols; ++c) {
      Real half = 0;
      for (size_t i = c; i < shape.size(); i += shape.cols) {
        half += (y[i] - x[i]) * (y[i] - x[i]);
      }
      const Real angle = angle_of(half / 2);
      squared += angle * angle;
    }
    return std::sqrt(squared);
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return project_point(shape, out, out, arena);
  }
};

}  // namespace

constexpr ManifoldOps kObliqueOps =
    make_manifold_ops<Oblique<RetractionKind::kProjection, TransportKind::kParallel>>();
constexpr ManifoldOps kObliqueProjectionOps =
    make_manifold_ops<Oblique<RetractionKind::kProjection, TransportKind::kProjection>>();
constexpr ManifoldOps kObliqueExponentialOps =
    make_manifold_ops<Oblique<RetractionKind::kExponential, TransportKind::kParallel>>();

}  // namespace gradstream
