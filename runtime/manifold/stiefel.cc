// The Stiefel manifold St(p, n) = {X: n x p, X'X = I} with the metric of the embedding, tr(V'W).
//
// project_point    polar factor A (A'A)^(-1/2)
// retract          polar, the default: (X + V)(I + V'V)^(-1/2) for tangent V; second order.
//                  qr: Q of X + V = QR with a positive diagonal of R; first order.
//                  exponential: the geodesic of this metric (Edelman, Arias, Smith, "The geometry of algorithms with
//                  orthogonality constraints", 1998, 2.2.2); not reproducible
// inverse_retract  of polar: V = Y S - X, S symmetric with X'Y S + S Y'X = 2 I. Exists where every eigenvalue of X'Y
//                  has a positive real part, and is unique there.
//                  of qr: V = Y R - X, R upper triangular with X'Y R + R'Y'X = 2 I. Exists for a positive diagonal of
//                  R. of exponential: there is no closed form. It is found by shooting, V += proj_X(Y - Exp_X(V)),
//                  which converges for near points. kSingular otherwise
// transport        projection to T_Y, the default: V - Y sym(Y'V); not isometric.
//                  smooth: with Om = skew(X'V) and orthonormal complements Xp, Yp = polar((I - YY') Xp) it is
//                  X Om + Xp K -> Y Om + Yp K. Isometric (smooth_transport.h).
//                  householder: the same with the complements of a Householder QR of X and of Y. Isometric, but it
//                  jumps where a sign of a QR changes, and trained worse (docs/algorithms.md): for comparison only
// distance         norm of the inverse retraction, for polar and qr that of polar: d (1 + O(d^2)) for the geodesic
//                  distance d
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <limits>

#include "runtime/base/decompositions.h"
#include "runtime/base/equations.h"
#include "runtime/base/factors.h"
#include "runtime/base/features.h"
#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"
#include "runtime/manifold/smooth_transport.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

// Columns of the formal inverse. Reason: it eliminates a system of the fourth power of them.
constexpr uint32_t kFormalColsMax = 8;

constexpr size_t square_size(Shape shape) { return static_cast<size_t>(shape.cols) * shape.cols; }

Status project_to_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> normal = arena.scratch<Real>(square_size(shape));
  GS_TRY(normal.status());
  multiply_transposed(shape, x, g, normal.value());
  symmetrize(shape.cols, normal.value());
  subtract_multiply_right(shape, x, normal.value(), g, out);
  return Status::kOk;
}

// ---- Inverse retractions: V = D + Y E, D = Y - X ----
// X'Y E + E'Y'X = D'D, since 2 I - X'Y - Y'X = D'D. These forms of the inverses do not cancel for near points.

// D'D.
void chord_gram(Shape shape, const Real* x, const Real* y, Real* out) {
  const size_t cols = shape.cols;
  fill_zero(square_size(shape), out);
  for (size_t at = 0; at < shape.size(); at += cols) {
    for (size_t i = 0; i < cols; ++i) {
      for (size_t j = 0; j < cols; ++j) {
        out[i * cols + j] += (y[at + i] - x[at + i]) * (y[at + j] - x[at + j]);
      }
    }
  }
}

// One row of V from one row of X and Y.
void inverse_row(uint32_t cols, const Real* x, const Real* y, const Real* correction, Real* out) {
  multiply_right({1, cols}, y, correction, out);
  for (size_t c = 0; c < cols; ++c) {
    out[c] += y[c] - x[c];
  }
}

// E of the polar retraction, symmetric. mixed: cols^2 Reals.
Status polar_correction(Shape shape, const Real* x, const Real* y, Real* mixed, Real* out, Arena& arena) {
  multiply_transposed(shape, x, y, mixed);
  chord_gram(shape, x, y, out);
  return solve_lyapunov(shape.cols, mixed, out, out, arena);
}

// The same by elimination in the n^2 entries of E. A solution exists wherever no two eigenvalues of X'Y add up to 0. It
// exists there even if Y is no retraction of a tangent vector at X; the works lift such points all the same.
Status formal_correction(Shape shape, const Real* x, const Real* y, Real* mixed, Real* out, Arena& arena) {
  const size_t n = shape.cols;
  const size_t size = square_size(shape);
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(size * size + size);
  GS_TRY(scratch.status());
  const Result<uint32_t*> pivots = arena.scratch<uint32_t>(size);
  GS_TRY(pivots.status());
  Real* const system = scratch.value();
  Real* const right = system + size * size;
  multiply_transposed(shape, x, y, mixed);
  chord_gram(shape, x, y, right);
  fill_zero(size * size, system);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      Real* const equation = system + (i * n + j) * size;
      for (size_t k = 0; k < n; ++k) {
        equation[k * n + j] += mixed[i * n + k];
        equation[i * n + k] += mixed[j * n + k];
      }
    }
  }
  GS_TRY(invert_in_place(static_cast<uint32_t>(size), system, pivots.value()));
  for (size_t row = 0; row < size; ++row) {
    out[row] = dot(size, system + row * size, right);
  }
  return Status::kOk;
}

// mixed <- LU of itself, no pivots, the unit diagonal of L left out. kSingular at a pivot that is not positive.
Status eliminate(uint32_t n, Real* mixed) {
  for (size_t k = 0; k < n; ++k) {
    const Real pivot = mixed[k * n + k];
    if (!(pivot > 16 * kEpsilon)) {
      return Status::kSingular;
    }
    for (size_t i = k + 1; i < n; ++i) {
      const Real factor = mixed[i * n + k] / pivot;
      mixed[i * n + k] = factor;
      for (size_t c = k + 1; c < n; ++c) {
        mixed[i * n + c] -= factor * mixed[k * n + c];
      }
    }
  }
  return Status::kOk;
}

// E of the QR retraction, upper triangular, column by column. (M E)_ij is (D'D)_ij - (M E)_ji above the diagonal and
// (D'D)_jj / 2 on it: a system with the leading block of M = X'Y. These blocks share one elimination. A pivot that is
// not positive means that no R with a positive diagonal exists. mixed: 2 cols^2 Reals.
Status qr_correction(Shape shape, const Real* x, const Real* y, Real* mixed, Real* out) {
  const size_t n = shape.cols;
  Real* const factors = mixed + square_size(shape);
  multiply_transposed(shape, x, y, mixed);
  copy(square_size(shape), mixed, factors);
  GS_TRY(eliminate(shape.cols, factors));
  chord_gram(shape, x, y, out);
  for (size_t j = 0; j < n; ++j) {
    out[j * n + j] /= 2;
    for (size_t i = 0; i <= j; ++i) {
      for (size_t k = 0; i < j && k <= i; ++k) {
        out[i * n + j] -= mixed[j * n + k] * out[k * n + i];
      }
      for (size_t k = 0; k < i; ++k) {
        out[i * n + j] -= factors[i * n + k] * out[k * n + j];
      }
    }
    for (size_t i = j + 1; i-- > 0;) {
      for (size_t k = i + 1; k <= j; ++k) {
        out[i * n + j] -= factors[i * n + k] * out[k * n + j];
      }
      out[i * n + j] /= factors[i * n + i];
    }
    if (!(1 + out[j * n + j] > 0)) {
      return Status::kSingular;
    }
    for (size_t i = j + 1; i < n; ++i) {
      out[i * n + j] = 0;
    }
  }
  return Status::kOk;
}

// ---- Exponential ----

size_t exp_scratch_size(Shape shape) {
  const uint32_t twice = 2 * shape.cols;
  const size_t inner = max_size(matrix_exponential_scratch_size(twice), polar_scratch_size(shape));
  return Arena::taken_size<Real>(12 * square_size(shape) + shape.cols) + inner;
}

// [X V] exp([[A, -S], [I, A]]) [I; 0] exp(-A), A = X'V, S = V'V. out may be x or v.
Status exponential(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
  const uint32_t n = shape.cols;
  const uint32_t twice = 2 * n;
  const size_t size = square_size(shape);
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(12 * size + n);
  GS_TRY(scratch.status());
  Real* const skew = scratch.value();
  Real* const speed = skew + size;  // later exp(-A)
  Real* const block = speed + size;
  Real* const power = block + 4 * size;
  Real* const from_x = power + 4 * size;
  Real* const from_v = from_x + size;
  Real* const row = from_v + size;
  multiply_transposed(shape, x, v, skew);
  gram(shape, v, speed);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      block[i * twice + j] = skew[i * n + j];
      block[i * twice + n + j] = -speed[i * n + j];
      block[(n + i) * twice + j] = i == j ? 1 : 0;
      block[(n + i) * twice + n + j] = skew[i * n + j];
    }
  }
  GS_TRY(matrix_exponential(twice, block, power, arena));
  scale(size, -1, skew);
  GS_TRY(matrix_exponential(n, skew, speed, arena));
  for (size_t i = 0; i < twice; ++i) {
    multiply_right({1, n}, power + i * twice, speed, i < n ? from_x + i * n : from_v + (i - n) * n);
  }
  combine_right(shape, x, from_x, v, from_v, row, out);
  return polar_factor(shape, out, out, arena);  // a no-op but for rounding, which would add up over many steps
}

size_t shooting_scratch_size(Shape shape) {
  return Arena::taken_size<Real>(shape.size()) +
         max_size(exp_scratch_size(shape), Arena::taken_size<Real>(square_size(shape)));
}

// V += proj_X(Y - Exp_X(V)) until it stands still.
Status shoot(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
  constexpr int kStepsMax = 100;
  const size_t size = shape.size();
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(size);
  GS_TRY(scratch.status());
  Real* const gap = scratch.value();
  const Real floor = 4 * kEpsilon * std::sqrt(static_cast<Real>(size));
  Real last = std::numeric_limits<Real>::max();
  fill_zero(size, out);
  for (int step = 0; step < kStepsMax; ++step) {
    GS_TRY(exponential(shape, x, out, gap, arena));
    for (size_t i = 0; i < size; ++i) {
      gap[i] = y[i] - gap[i];
    }
    const Real whole = norm2(size, gap);
    GS_TRY(project_to_tangent(shape, x, gap, gap, arena));
    const Real length = norm2(size, gap);
    add_scaled(size, 1, gap, out);
    // Rounding keeps the gap above zero: it has stood still once it no longer shrinks.
    if (length <= floor || (length >= last && length <= 64 * floor)) {
      return whole <= 128 * floor ? Status::kOk : Status::kSingular;
    }
    last = length;
  }
  return Status::kSingular;
}

// ---- Transports ----

// Householder vectors of the QR of x, column by column, and their factors tau; LAPACK's signs.
void reflectors(Shape shape, const Real* x, Real* out, Real* tau) {
  const size_t rows = shape.rows;
  const size_t cols = shape.cols;
  copy(shape.size(), x, out);
  for (size_t j = 0; j < cols; ++j) {
    Real below = 0;
    for (size_t i = j + 1; i < rows; ++i) {
      below += out[i * cols + j] * out[i * cols + j];
    }
    const Real head = out[j * cols + j];
    tau[j] = 0;
    if (!(below > 0)) {
      continue;
    }
    const Real norm = std::sqrt(head * head + below);
    const Real beta = head < 0 ? norm : -norm;
    tau[j] = (beta - head) / beta;
    for (size_t i = j + 1; i < rows; ++i) {
      out[i * cols + j] /= head - beta;
    }
    for (size_t c = j + 1; c < cols; ++c) {
      Real sum = out[j * cols + c];
      for (size_t i = j + 1; i < rows; ++i) {
        sum += out[i * cols + j] * out[i * cols + c];
      }
      out[j * cols + c] -= tau[j] * sum;
      for (size_t i = j + 1; i < rows; ++i) {
        out[i * cols + c] -= tau[j] * sum * out[i * cols + j];
      }
    }
  }
}

// w <- (I - tau h h') w for reflector j, column by column.
void reflect(Shape shape, size_t j, const Real* h, Real tau, Real* w) {
  const size_t cols = shape.cols;
  for (size_t c = 0; c < cols; ++c) {
    Real sum = w[j * cols + c];
    for (size_t i = j + 1; i < shape.rows; ++i) {
      sum += h[i * cols + j] * w[i * cols + c];
    }
    w[j * cols + c] -= tau * sum;
    for (size_t i = j + 1; i < shape.rows; ++i) {
      w[i * cols + c] -= tau * sum * h[i * cols + j];
    }
  }
}

size_t householder_scratch_size(Shape shape) {
  return Arena::taken_size<Real>(shape.size() + square_size(shape) + shape.cols);
}

// Q_Y [skew(X'V) in the first rows; the rest of Q_X'V], in the bases that the two factorizations complete.
Status transport_householder(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
  const size_t n = shape.cols;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(shape.size() + square_size(shape) + n);
  GS_TRY(scratch.status());
  Real* const h = scratch.value();
  Real* const along = h + shape.size();
  Real* const tau = along + square_size(shape);
  multiply_transposed(shape, x, v, along);
  reflectors(shape, x, h, tau);
  if (out != v) {
    copy(shape.size(), v, out);
  }
  for (size_t j = 0; j < n; ++j) {
    reflect(shape, j, h, tau[j], out);
  }
  fill_zero(n * n, out);
  reflectors(shape, y, h, tau);
  for (size_t j = n; j-- > 0;) {
    reflect(shape, j, h, tau[j], out);
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j < n; ++j) {
      const Real half = (along[j * n + i] - along[i * n + j]) / 2;
      along[i * n + j] = half;
      along[j * n + i] = -half;
    }
  }
  subtract_multiply_right(shape, y, along, out, out);
  return Status::kOk;
}

template <RetractionKind kR, TransportKind kT>
struct Stiefel {
  static constexpr ManifoldId kId = ManifoldId::kStiefel;
  static constexpr const char* kName = "stiefel";
  static constexpr RetractionKind kRetraction = kR;
  static constexpr TransportKind kTransport = kT;
  static constexpr RetractionKind kDefaultRetraction = RetractionKind::kPolar;
  static constexpr TransportKind kDefaultTransport = TransportKind::kProjection;
  static constexpr bool kReproducible = kR != RetractionKind::kExponential;
  static constexpr bool kIsometricTransport = kT != TransportKind::kProjection;

  static Status check_shape(Shape shape) {
    constexpr uint32_t kColsMax = kR == RetractionKind::kPolarFormal ? kFormalColsMax : kStiefelColsMax;
    const bool fits =
        shape.cols >= 1 && shape.cols <= shape.rows && shape.cols <= kColsMax && shape.rows <= kDimensionMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) {
    return shape.size() - static_cast<size_t>(shape.cols) * (shape.cols + size_t{1}) / 2;
  }
  static size_t scratch_size(Shape shape) {
    const size_t inverse = Arena::taken_size<Real>(2 * square_size(shape)) + lyapunov_scratch_size(shape.cols);
    size_t most = max_size(inverse, polar_scratch_size(shape));
    if constexpr (kR == RetractionKind::kQr) {
      most = max_size(most, Arena::taken_size<Real>(4 * square_size(shape)));
    }
    if constexpr (kR == RetractionKind::kPolarFormal) {
      const size_t size = square_size(shape);
      most = max_size(most, Arena::taken_size<Real>(2 * size) + Arena::taken_size<Real>(size * size + size) +
                                Arena::taken_size<uint32_t>(size));
    }
    if constexpr (kR == RetractionKind::kExponential) {
      most = max_size(most, Arena::taken_size<Real>(shape.size()) + shooting_scratch_size(shape));
    }
    if constexpr (kT == TransportKind::kSmooth) {
      most = max_size(most, Arena::taken_size<Real>(square_size(shape)) + smooth_transport_scratch_size(shape));
    }
    if constexpr (kT == TransportKind::kHouseholder) {
      most = max_size(most, householder_scratch_size(shape));
    }
    return most;
  }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
    return polar_factor(shape, z, out, arena);
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return project_to_tangent(shape, x, g, out, arena);
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return project_to_tangent(shape, x, g, out, arena);
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
      return shoot(shape, x, y, out, arena);
    }
    constexpr bool kIsQr = kR == RetractionKind::kQr;
    const size_t size = square_size(shape);
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>((kIsQr ? 3 : 2) * size);
    GS_TRY(scratch.status());
    Real* const row = scratch.value();
    Real* const correction = row + (kIsQr ? 2 : 1) * size;
    if constexpr (kIsQr) {
      GS_TRY(qr_correction(shape, x, y, row, correction));
    } else if constexpr (kR == RetractionKind::kPolarFormal) {
      GS_TRY(formal_correction(shape, x, y, row, correction, arena));
    } else {
      GS_TRY(polar_correction(shape, x, y, row, correction, arena));
    }
    for (size_t at = 0; at < shape.size(); at += shape.cols) {
      inverse_row(shape.cols, x + at, y + at, correction, row);
      copy(shape.cols, row, out + at);
    }
    return Status::kOk;
  }
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out,
                        Arena& arena) requires(kR == RetractionKind::kExponential) {
    return exponential(shape, x, v, out, arena);
  }
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
    if constexpr (kT == TransportKind::kSmooth) {
      ScratchScope scope(arena);
      const Result<Real*> unitary = arena.scratch<Real>(square_size(shape));
      GS_TRY(unitary.status());
      return smooth_transport(shape, x, y, v, out, unitary.value(), arena);
    }
    if constexpr (kT == TransportKind::kHouseholder) {
      return transport_householder(shape, x, y, v, out, arena);
    }
    return project_to_tangent(shape, y, v, out, arena);
  }
  static Result<Real> inner(Shape shape, const Real*, const Real* v, const Real* w, Arena&) {
    return dot(shape.size(), v, w);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena& arena) {
    const bool is_shot = kR == RetractionKind::kExponential;
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(is_shot ? shape.size() : 2 * square_size(shape));
    if (!scratch.ok()) {
      return scratch.status();
    }
    Real* const row = scratch.value();
    if constexpr (is_shot) {
      const Status status = shoot(shape, x, y, row, arena);
      return status == Status::kOk ? Result<Real>(norm2(shape.size(), row)) : Result<Real>(status);
    }
    Real* const correction = row + square_size(shape);
    const Status status = polar_correction(shape, x, y, row, correction, arena);
    if (status != Status::kOk) {
      return status;
    }
    Real squared = 0;
    for (size_t at = 0; at < shape.size(); at += shape.cols) {
      inverse_row(shape.cols, x + at, y + at, correction, row);
      squared += dot(shape.cols, row, row);
    }
    return std::sqrt(squared);
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return polar_factor(shape, out, out, arena);
  }
};

// Tangents are of no use to an image whose updates are scalars: it projects points, and takes no other step. What a
// table names is linked, called or not.
constexpr ManifoldOps without_tangents(ManifoldOps ops) {
  if constexpr (!kSendsTensors) {
    ops.project_tangent = [](Shape, const Real*, const Real*, Real*, Arena&) { return Status::kUnimplemented; };
    ops.riemannian_gradient = ops.project_tangent;
    ops.retract = ops.project_tangent;
    ops.inverse_retract = ops.project_tangent;
    ops.transport = [](Shape, const Real*, const Real*, const Real*, Real*, Arena&) { return Status::kUnimplemented; };
  }
  return ops;
}

template <RetractionKind kR, TransportKind kT>
constexpr ManifoldOps make_stiefel_ops() {
  return without_tangents(make_manifold_ops<Stiefel<kR, kT>>());
}

}  // namespace

constexpr ManifoldOps kStiefelOps = make_stiefel_ops<RetractionKind::kPolar, TransportKind::kProjection>();
constexpr ManifoldOps kStiefelSmoothOps = make_stiefel_ops<RetractionKind::kPolar, TransportKind::kSmooth>();
constexpr ManifoldOps kStiefelHouseholderOps = make_stiefel_ops<RetractionKind::kPolar, TransportKind::kHouseholder>();
constexpr ManifoldOps kStiefelFormalOps = make_stiefel_ops<RetractionKind::kPolarFormal, TransportKind::kProjection>();
constexpr ManifoldOps kStiefelQrOps = make_stiefel_ops<RetractionKind::kQr, TransportKind::kProjection>();
constexpr ManifoldOps kStiefelQrSmoothOps = make_stiefel_ops<RetractionKind::kQr, TransportKind::kSmooth>();
constexpr ManifoldOps kStiefelExponentialOps =
    make_stiefel_ops<RetractionKind::kExponential, TransportKind::kProjection>();
constexpr ManifoldOps kStiefelExponentialSmoothOps =
    make_stiefel_ops<RetractionKind::kExponential, TransportKind::kSmooth>();

}  // namespace gradstream
