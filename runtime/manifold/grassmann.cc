// The Grassmann manifold Gr(r, m) of r-dimensional subspaces of R^m, each represented by U, m x r, U'U = I. A tangent
// vector at U is its horizontal lift H, U'H = 0; metric tr(G'H). Vectors that are added must be lifts at one and the
// same representative.
//
// project_point    polar factor
// project_tangent  A - U U'A
// retract          polar, the default: (U + H)(I + H'H)^(-1/2), second order.
//                  qr: Q of U + H with positive diagonal R, the same subspace by another representative.
//                  exponential: Q cos S Q' from U, Q sin S / S Q' from H, H'H = Q S^2 Q'; not reproducible.
//                  None changes the representative more than it must
// inverse_retract  of polar and qr Y (U'Y)^(-1) - U: the lift at U of the subspace of Y, whatever Y represents it;
//                  of the exponential log_map. kSingular where an angle between the subspaces is pi/2
// exp_map, log_map D = Y (U'Y)^(-1) - U = P S Q', log = P atan(S) Q' (the factor Q' is missing in the work's print)
// transport        with O = polar(X'Y), which takes lifts at the representative aligned with X to lifts at Y.
//                  projection, the default: proj_Y(V O).
//                  parallel, along minimal geodesics: smooth_transport(V) O; isometric, reproducible with polar or qr.
//                  unaligned: proj_Y(V), and smooth: smooth_transport(V). Both take X and Y as aligned, which they are
//                  to second order along a chain of polar retractions. Both are there for comparison, because they
//                  depend on the representative
// distance         the norm of the principal angles, atan2(sine, cosine): accurate for small and for large ones
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <limits>

#include "runtime/base/decompositions.h"
#include "runtime/base/equations.h"
#include "runtime/base/factors.h"
#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"
#include "runtime/manifold/smooth_transport.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();
// Largest square of a tangent of an angle between two subspaces. Reason: beyond it the angle is pi/2 to rounding.
constexpr Real kTangentSquaredMax = 1 / (256 * kEpsilon * kEpsilon);

constexpr size_t square_size(Shape shape) { return static_cast<size_t>(shape.cols) * shape.cols; }

// out <- Q diag(f) Q'; work: n^2 Reals, not out.
void assemble(uint32_t n, const Real* q, const Real* f, Real* work, Real* out) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      work[j * n + i] = q[i * n + j] * f[j];
    }
  }
  multiply_right({n, n}, q, work, out);
  symmetrize(n, out);
}

// out <- D = Y (X'Y)^(-1) - X, as (Y - X - X X'(Y - X)) (X'Y)^(-1), which does not cancel for near, aligned points.
Status lift_difference(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(square_size(shape) + shape.cols);
  GS_TRY(scratch.status());
  const Result<uint32_t*> pivots = arena.scratch<uint32_t>(shape.cols);
  GS_TRY(pivots.status());
  Real* const mixed = scratch.value();
  for (size_t i = 0; i < shape.size(); ++i) {
    out[i] = y[i] - x[i];
  }
  multiply_transposed(shape, x, out, mixed);
  subtract_multiply_right(shape, x, mixed, out, out);
  multiply_transposed(shape, x, y, mixed);
  GS_TRY(invert_in_place(shape.cols, mixed, pivots.value()));
  multiply_right_in_place(shape, out, mixed, mixed + square_size(shape));
  return dot(shape.size(), out, out) <= kTangentSquaredMax ? Status::kOk : Status::kSingular;
}

size_t lift_difference_scratch_size(Shape shape) {
  return Arena::taken_size<Real>(square_size(shape) + shape.cols) + Arena::taken_size<uint32_t>(shape.cols);
}

// out may be x or v.
Status exponential(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
  const uint32_t n = shape.cols;
  const size_t size = square_size(shape);
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(4 * size + 3 * n);
  GS_TRY(scratch.status());
  Real* const q = scratch.value();
  Real* const from_x = q + size;
  Real* const from_v = from_x + size;
  Real* const work = from_v + size;
  Real* const cosines = work + size;
  Real* const sines = cosines + n;
  Real* const row = sines + n;
  gram(shape, v, work);
  if (!all_finite(size, work)) {
    return Status::kNotFinite;
  }
  // The series takes a few products; the eigen-decomposition is for steps that turn by more than a right angle.
  if (!angle_series(n, work, from_x, from_v, q, row)) {
    GS_TRY(symmetric_eigen(n, work, cosines, q));
    for (size_t i = 0; i < n; ++i) {
      const Real angle = cosines[i] > 0 ? std::sqrt(cosines[i]) : 0;
      cosines[i] = std::cos(angle);
      sines[i] = angle > 0 ? std::sin(angle) / angle : 1;
    }
    assemble(n, q, cosines, work, from_x);
    assemble(n, q, sines, work, from_v);
  }
  combine_right(shape, x, from_x, v, from_v, row, out);
  return polar_factor(shape, out, out, arena);  // a no-op but for rounding, which would add up over many steps
}

Status logarithm(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
  const uint32_t n = shape.cols;
  const size_t size = square_size(shape);
  GS_TRY(lift_difference(shape, x, y, out, arena));
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(3 * size + n);
  GS_TRY(scratch.status());
  Real* const q = scratch.value();
  Real* const factor = q + size;
  Real* const work = factor + size;
  Real* const angles = work + size;
  gram(shape, out, work);
  GS_TRY(symmetric_eigen(n, work, angles, q));
  for (size_t i = 0; i < n; ++i) {
    const Real tangent = angles[i] > 0 ? std::sqrt(angles[i]) : 0;
    angles[i] = tangent > 0 ? std::atan(tangent) / tangent : 1;
  }
  assemble(n, q, angles, work, factor);
  multiply_right_in_place(shape, out, factor, angles);
  return Status::kOk;
}

// sines <- N'N with N = Y - X - X X'(Y - X), row by row; mixed <- X'(Y - X). row: cols Reals.
[[maybe_unused]] void sine_gram(Shape shape, const Real* x, const Real* y, Real* mixed, Real* sines, Real* row) {
  const size_t n = shape.cols;
  fill_zero(n * n, mixed);
  fill_zero(n * n, sines);
  for (size_t at = 0; at < shape.size(); at += n) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        mixed[i * n + j] += x[at + i] * (y[at + j] - x[at + j]);
      }
    }
  }
  for (size_t at = 0; at < shape.size(); at += n) {
    multiply_right({1, shape.cols}, x + at, mixed, row);
    for (size_t c = 0; c < n; ++c) {
      row[c] = (y[at + c] - x[at + c]) - row[c];
    }
    for (size_t i = 0; i < n; ++i) {
      add_scaled(n, row[i], row, sines + i * n);
    }
  }
}

template <RetractionKind kR, TransportKind kT>
struct Grassmann {
  static constexpr ManifoldId kId = ManifoldId::kGrassmann;
  static constexpr const char* kName = "grassmann";
  static constexpr RetractionKind kRetraction = kR;
  static constexpr TransportKind kTransport = kT;
  static constexpr RetractionKind kDefaultRetraction = RetractionKind::kPolar;
  static constexpr TransportKind kDefaultTransport = TransportKind::kProjection;
  static constexpr bool kReproducible = kR != RetractionKind::kExponential;
  static constexpr bool kIsometricTransport = kT == TransportKind::kParallel || kT == TransportKind::kSmooth;

  static Status check_shape(Shape shape) {
    const bool fits =
        shape.cols >= 1 && shape.cols < shape.rows && shape.cols <= kStiefelColsMax && shape.rows <= kDimensionMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return static_cast<size_t>(shape.rows - shape.cols) * shape.cols; }
  static size_t scratch_size(Shape shape) {
    const size_t size = square_size(shape);
    size_t most = max_size(polar_scratch_size(shape), lift_difference_scratch_size(shape));
    most = max_size(most, Arena::taken_size<Real>(4 * size + 2 * shape.cols));  // distance
    if constexpr (kR == RetractionKind::kExponential) {
      most = max_size(most, Arena::taken_size<Real>(4 * size + 3 * shape.cols) + polar_scratch_size(shape));
    }
    const size_t transport_size = kT == TransportKind::kParallel || kT == TransportKind::kSmooth
                                      ? smooth_transport_scratch_size(shape)
                                      : Arena::taken_size<Real>(size) + polar_scratch_size({shape.cols, shape.cols});
    return max_size(most, Arena::taken_size<Real>(size + shape.cols) + transport_size);
  }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
    return polar_factor(shape, z, out, arena);
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> along = arena.scratch<Real>(square_size(shape));
    GS_TRY(along.status());
    multiply_transposed(shape, x, g, along.value());
    subtract_multiply_right(shape, x, along.value(), g, out);
    return Status::kOk;
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return project_tangent(shape, x, g, out, arena);
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    if constexpr (kR == RetractionKind::kExponential) {
      return exponential(shape, x, v, out, arena);
    }
    add(shape.size(), x, v, out);
    if constexpr (kR == RetractionKind::kQr) {
      return all_finite(shape.size(), out) ? qr_factor(shape, out, out, arena) : Status::kNotFinite;
    }
    return polar_factor(shape, out, out, arena);
  }
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    if constexpr (kR == RetractionKind::kExponential) {
      return logarithm(shape, x, y, out, arena);
    }
    return lift_difference(shape, x, y, out, arena);
  }
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out,
                        Arena& arena) requires(kR == RetractionKind::kExponential) {
    return exponential(shape, x, v, out, arena);
  }
  static Status log_map(Shape shape, const Real* x, const Real* y, Real* out,
                        Arena& arena) requires(kR == RetractionKind::kExponential) {
    return logarithm(shape, x, y, out, arena);
  }
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
    if constexpr (kT == TransportKind::kUnaligned) {
      return project_tangent(shape, y, v, out, arena);
    }
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(square_size(shape) + shape.cols);
    GS_TRY(scratch.status());
    Real* const unitary = scratch.value();
    Real* const row = unitary + square_size(shape);
    if constexpr (kT == TransportKind::kParallel) {
      GS_TRY(smooth_transport(shape, x, y, v, out, unitary, arena));
      multiply_right_in_place(shape, out, unitary, row);
      return Status::kOk;
    }
    if constexpr (kT == TransportKind::kSmooth) {
      return smooth_transport(shape, x, y, v, out, unitary, arena);
    }
    multiply_transposed(shape, x, y, unitary);
    GS_TRY(polar_factor({shape.cols, shape.cols}, unitary, unitary, arena));
    if (out != v) {
      copy(shape.size(), v, out);
    }
    multiply_right_in_place(shape, out, unitary, row);
    return project_tangent(shape, y, out, out, arena);
  }
  static Result<Real> inner(Shape shape, const Real*, const Real* v, const Real* w, Arena&) {
    return dot(shape.size(), v, w);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena& arena) {
    const uint32_t n = shape.cols;
    const size_t size = square_size(shape);
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(3 * size + 2 * n);
    if (!scratch.ok()) {
      return scratch.status();
    }
    Real* const mixed = scratch.value();
    Real* const gram_of_sines = mixed + size;
    Real* const q = gram_of_sines + size;
    Real* const sines = q + size;     // squared, ascending
    Real* const cosines = sines + n;  // descending
    sine_gram(shape, x, y, mixed, gram_of_sines, cosines);
    multiply_transposed(shape, x, y, mixed);
    Status status = all_finite(size, gram_of_sines) ? symmetric_eigen(n, gram_of_sines, sines, q) : Status::kNotFinite;
    status = status == Status::kOk ? singular_values({n, n}, mixed, cosines, nullptr) : status;
    if (status != Status::kOk) {
      return status;
    }
    Real squared = 0;
    for (size_t i = 0; i < n; ++i) {
      const Real angle = std::atan2(sines[i] > 0 ? std::sqrt(sines[i]) : 0, cosines[i]);
      squared += angle * angle;
    }
    return std::sqrt(squared);
  }
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    GS_TRY(logarithm(shape, x, y, out, arena));
    scale(shape.size(), -1, out);
    return Status::kOk;
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return polar_factor(shape, out, out, arena);
  }
};

template <RetractionKind kR, TransportKind kT>
constexpr ManifoldOps make_grassmann_ops() {
  return make_manifold_ops<Grassmann<kR, kT>>();
}

}  // namespace

constexpr ManifoldOps kGrassmannOps = make_grassmann_ops<RetractionKind::kPolar, TransportKind::kProjection>();
constexpr ManifoldOps kGrassmannParallelOps = make_grassmann_ops<RetractionKind::kPolar, TransportKind::kParallel>();
constexpr ManifoldOps kGrassmannUnalignedOps = make_grassmann_ops<RetractionKind::kPolar, TransportKind::kUnaligned>();
constexpr ManifoldOps kGrassmannSmoothOps = make_grassmann_ops<RetractionKind::kPolar, TransportKind::kSmooth>();
constexpr ManifoldOps kGrassmannQrOps = make_grassmann_ops<RetractionKind::kQr, TransportKind::kProjection>();
constexpr ManifoldOps kGrassmannQrParallelOps = make_grassmann_ops<RetractionKind::kQr, TransportKind::kParallel>();
constexpr ManifoldOps kGrassmannExponentialOps =
    make_grassmann_ops<RetractionKind::kExponential, TransportKind::kParallel>();
constexpr ManifoldOps kGrassmannExponentialProjectionOps =
    make_grassmann_ops<RetractionKind::kExponential, TransportKind::kProjection>();

}  // namespace gradstream
