// The oblique manifold: rows x cols matrices whose columns have norm 1, a product of cols spheres; metric tr(V'W).
// Every formula is the sphere's (sphere.cc), column by column.
//
// project_point    each column by its norm; kSingular where one is zero
// retract          projection, the default: the columns of X + V by their norms; or exponential, not reproducible, by
//                  columns: (cos|v| x + sin|v| / |v| v) / length, the length 1 but for rounding
// inverse_retract  of the projection y / (x'y) - x, where x'y > 0 in every column; of the exponential log_map
// transport        parallel, the default: along the minimal geodesic of each column, isometric; or projection to T_Y
// distance         geodesic: the norm of the columns' angles
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <limits>

#include "runtime/base/decompositions.h"
#include "runtime/base/products.h"
#include "runtime/base/wide.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

// Least square of a length. Reason: below it the squares have lost digits to underflow; zero is among them.
constexpr Real kLeastSquare = std::numeric_limits<Real>::min() / kEpsilon;

// lengths <- 1 / sqrt(lengths), squares of the lengths of columns.
Status invert_lengths(size_t cols, Real* lengths) {
  bool is_finite = true, is_regular = true;
  for (size_t c = 0; c < cols; ++c) {
    const Real square = lengths[c];
    is_finite = is_finite && square <= std::numeric_limits<Real>::max();
    is_regular = is_regular && square >= kLeastSquare;
    lengths[c] = 1 / std::sqrt(square);
  }
  return is_finite && is_regular ? Status::kOk : (is_finite ? Status::kSingular : Status::kNotFinite);
}

// out <- the columns of z by their lengths, whose squares `lengths` holds and which are spoilt. out may be z.
Status divide_by_lengths(Shape shape, const Real* z, Real* lengths, Real* out) {
  GS_TRY(invert_lengths(shape.cols, lengths));
  scale_columns(shape, lengths, z, out);
  return Status::kOk;
}

// out <- the columns of z by their lengths; out may be z. Not inlined where a wide kernel stands before it, whose call
// is then a jump.
[[gnu::noinline]] Status normalize_columns(Shape shape, const Real* z, Real* out, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> lengths = arena.scratch<Real>(shape.cols);
  GS_TRY(lengths.status());
  column_dots(shape, z, z, lengths.value());
  return divide_by_lengths(shape, z, lengths.value(), out);
}

// out <- X diag(a) + V diag(b); out may be x or v. b, or where out is v a, is spoilt.
void combine_columns(Shape shape, const Real* x, Real* a, const Real* v, Real* b, Real* out) {
  const bool is_first_v = out == v;
  scale_columns(shape, is_first_v ? b : a, is_first_v ? v : x, out);
  Real* const factors = is_first_v ? a : b;
  scale(shape.cols, -1, factors);
  subtract_columns(shape, factors, is_first_v ? x : v, out, out);
}

// The factors of x and v for columns that move by less than a right angle, and the square of the length that they give.
// They are made of the sums x'x, x'v and v'v of a column.
struct ShortStep {
  Real of_x, of_v, square;
};
Real angle_series(const Real (&coefficients)[kAngleTermCount], Real q) {
  const Real squared = q * q;
  Real even = coefficients[kAngleTermCount - 1], odd = coefficients[kAngleTermCount - 2];
  for (int k = kAngleTermCount - 3; k >= 0; k -= 2) {
    even = coefficients[k] + squared * even;
  }
  for (int k = kAngleTermCount - 4; k >= 0; k -= 2) {
    odd = coefficients[k] + squared * odd;
  }
  return even + q * odd;
}
ShortStep short_step(Real xx, Real xv, Real vv) {
  const Real cosine = angle_series(kAngleSeries.cosine, vv), ratio = angle_series(kAngleSeries.sine, vv);
  const Real square = (cosine * (cosine * xx) + (cosine * ratio) * (xv + xv)) + ratio * (ratio * vv);
  return {cosine, ratio, square};
}

// What wide::exponential_columns does. sums: 3 cols Reals.
Status short_exponential(Shape shape, const Real* x, const Real* v, Real* out, Real* sums, bool* is_short) {
  Real* const xx = sums;
  Real* const xv = xx + shape.cols;
  Real* const vv = xv + shape.cols;
  column_dots(shape, v, v, vv);
  *is_short = true;
  for (size_t c = 0; c < shape.cols; ++c) {
    *is_short = *is_short && vv[c] <= kAngleSquaredMax;
  }
  if (!*is_short) {
    return Status::kOk;
  }
  column_dots(shape, x, x, xx);
  column_dots(shape, x, v, xv);
  for (size_t c = 0; c < shape.cols; ++c) {
    const ShortStep step = short_step(xx[c], xv[c], vv[c]);
    xx[c] = step.of_x;
    xv[c] = step.of_v;
    vv[c] = step.square;
  }
  bool is_near_one = true;
  for (size_t c = 0; c < shape.cols; ++c) {
    is_near_one = is_near_one && vv[c] >= 1 - kNearOne && vv[c] <= 1 + kNearOne;
  }
  for (size_t c = 0; is_near_one && c < shape.cols; ++c) {
    vv[c] = static_cast<Real>(1.5) - static_cast<Real>(0.5) * vv[c];
  }
  if (!is_near_one) {
    GS_TRY(invert_lengths(shape.cols, vv));
  }
  for (size_t c = 0; c < shape.cols; ++c) {
    xx[c] *= vv[c];
    xv[c] *= vv[c];
  }
  combine_columns(shape, x, xx, v, xv, out);
  return Status::kOk;
}

// exp_map, of steps of every length unless is_long says that short ones were seen to already.
[[gnu::noinline]] Status exponential(Shape shape, const Real* x, const Real* v, bool is_long, Real* out, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(size_t{3} * shape.cols);
  GS_TRY(scratch.status());
  Real* const cosines = scratch.value();
  Real* const factors = cosines + shape.cols;
  bool is_short = false;
  const Status status = is_long ? Status::kOk : short_exponential(shape, x, v, out, cosines, &is_short);
  if (is_short) {
    return status;
  }
  column_dots(shape, v, v, factors);
  for (size_t c = 0; c < shape.cols; ++c) {
    const Real length = std::sqrt(factors[c]);
    cosines[c] = std::cos(length);
    factors[c] = length > 0 ? std::sin(length) / length : 1;
  }
  combine_columns(shape, x, cosines, v, factors, out);
  column_dots(shape, out, out, cosines);
  return divide_by_lengths(shape, out, cosines, out);
}

#if GS_HAS_WIDE
// For a kernel that keeps in registers what others need scratch for: a status must not depend on the processor.
Status check_room(size_t count, const Arena& arena) {
  return Arena::taken_size<Real>(count) <= arena.free_size() ? Status::kOk : Status::kOutOfMemory;
}
#endif

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
    const bool fits = shape.rows >= 2 && shape.cols >= 1 && shape.rows <= kDimensionMax && shape.cols <= kDimensionMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return shape.size() - shape.cols; }
  static size_t scratch_size(Shape shape) {
    // exp_map's where there is one, else that of transport.
    constexpr bool kHasExponential = kHasHostMembers || kR == RetractionKind::kExponential;
    const size_t two = 2 * Arena::taken_size<Real>(shape.cols);
    const size_t three = Arena::taken_size<Real>(size_t{3} * shape.cols);
    return kHasExponential && three > two ? three : two;
  }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
#if GS_HAS_WIDE
    if (wide::takes(shape.rows, shape.cols)) {
      GS_TRY(check_room(shape.cols, arena));
      return wide::normalize_columns(shape.rows, shape.cols, z, nullptr, kLeastSquare, out);
    }
#endif
    return normalize_columns(shape, z, out, arena);
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
#if GS_HAS_WIDE
    if (wide::takes(shape.rows, shape.cols)) {
      GS_TRY(check_room(shape.cols, arena));
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
#if GS_HAS_WIDE
    if (wide::takes(shape.rows, shape.cols)) {
      GS_TRY(check_room(shape.cols, arena));
      return wide::normalize_columns(shape.rows, shape.cols, x, v, kLeastSquare, out);
    }
#endif
    add(shape.size(), x, v, out);
    return normalize_columns(shape, out, out, arena);
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
    bool is_long = false;
#if GS_HAS_WIDE
    if (wide::takes(shape.rows, shape.cols)) {
      GS_TRY(check_room(size_t{3} * shape.cols, arena));
      bool is_short = false;
      const Status status = wide::exponential_columns(shape.rows, shape.cols, x, v, kLeastSquare, out, &is_short);
      if (is_short) {
        return status;
      }
      is_long = true;
    }
#endif
    return exponential(shape, x, v, is_long, out, arena);
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
    constexpr Real kLeastDivisor = 4 * kEpsilon;  // of 1 + x'y: nearer to antipodes it is rounding
#if GS_HAS_WIDE
    if (wide::takes(shape.rows, shape.cols)) {
      GS_TRY(check_room(size_t{2} * shape.cols, arena));
      return wide::transport_columns(shape.rows, shape.cols, x, y, v, kLeastDivisor, out);
    }
#endif
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(size_t{2} * shape.cols);
    GS_TRY(scratch.status());
    Real* const sums = scratch.value();
    Real* const factors = sums + shape.cols;
    column_dots(shape, x, y, sums);
    column_dots(shape, y, v, factors);
    for (size_t c = 0; c < shape.cols; ++c) {
      const Real sum = 1 + sums[c];
      if (!(sum > kLeastDivisor)) {
        return Status::kSingular;
      }
      factors[c] /= sum;
    }
    subtract_columns(shape, factors, x, v, out);
    subtract_columns(shape, factors, y, out, out);
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
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    GS_TRY(log_map(shape, x, y, out, arena));
    scale(shape.size(), -1, out);
    return Status::kOk;
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return project_point(shape, out, out, arena);
  }
};

}  // namespace

constexpr ManifoldOps kObliqueOps = make_manifold_ops<Oblique<RetractionKind::kProjection, TransportKind::kParallel>>();
constexpr ManifoldOps kObliqueProjectionOps =
    make_manifold_ops<Oblique<RetractionKind::kProjection, TransportKind::kProjection>>();
constexpr ManifoldOps kObliqueExponentialOps =
    make_manifold_ops<Oblique<RetractionKind::kExponential, TransportKind::kParallel>>();

}  // namespace gradstream
