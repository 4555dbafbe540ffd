#include "runtime/base/no_contraction.h"

#include "runtime/base/factors.h"

#include <cmath>
#include <limits>

#include "runtime/base/equations.h"
#include "runtime/base/lanes.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

// Scratch of polar_factor, from the arena. All n x n but row (n).
struct PolarScratch {
  Real* gram;
  Real* power;  // becomes G^(-1/2)
  Real* work0;
  Real* work1;
  Real* row;
};

// |G - I| (Frobenius) up to here takes the Newton path, without an eigen-decomposition. Reason: G stays well
// conditioned, so that the uncoupled iteration is stable (Higham, Functions of Matrices, 6.4).
constexpr Real kNearIdentity = static_cast<Real>(0.25);
constexpr int kNewtonStepsMax = 8;

// P = G^(-1/2) for G near I. Start: I - E/2 + 3/8 E^2, E = G - I, with error O(|E|^3); then P <- P (3 I - G P^2) / 2,
// which squares the error. work0 holds E. On return s.power is P.
void inverse_root_near_identity(uint32_t n, const PolarScratch& s) {
  const size_t size = static_cast<size_t>(n) * n;
  const Shape square{n, n};
  multiply_right(square, s.work0, s.work0, s.power);
  for (size_t i = 0; i < size; ++i) {
    s.power[i] = static_cast<Real>(0.375) * s.power[i] - static_cast<Real>(0.5) * s.work0[i];
  }
  add_to_diagonal(n, 1, s.power);
  for (int step = 0; step < kNewtonStepsMax; ++step) {
    multiply_right(square, s.power, s.power, s.work0);
    multiply_right(square, s.gram, s.work0, s.work1);
    // work1 <- half the residual I - G P^2, then P <- P + P work1.
    scale(size, static_cast<Real>(-0.5), s.work1);
    add_to_diagonal(n, static_cast<Real>(0.5), s.work1);
    multiply_right(square, s.power, s.work1, s.work0);
    add_scaled(size, 1, s.work0, s.power);
    if (frobenius_squared(n, s.work1) <= kEpsilon / 4) {
      return;
    }
  }
}

// P = G^(-1/2) by eigen-decomposition of G, which is overwritten, with eigenvalues below kPolarRankTolerance times the
// largest raised to it. *full_rank says that none was.
Status inverse_root_by_eigen(uint32_t n, const PolarScratch& s, bool* full_rank) {
  GS_TRY(symmetric_eigen(n, s.gram, s.row, s.work0));
  const Real largest = s.row[n - 1];
  if (!(largest > std::numeric_limits<Real>::min() / kEpsilon)) {
    return Status::kSingular;
  }
  const Real floor = kPolarRankTolerance * largest;
  *full_rank = s.row[0] > floor;
  for (size_t c = 0; c < n; ++c) {
    const Real root = std::sqrt(s.row[c] > floor ? s.row[c] : floor);
    for (size_t r = 0; r < n; ++r) {
      s.work1[c * n + r] = s.work0[r * n + c] / root;
    }
  }
  multiply_right({n, n}, s.work0, s.work1, s.power);
  return Status::kOk;
}

// a <- A (A'A)^(-1/2). A far from orthonormal is multiplied by the eigen route's factor, once or twice, until Newton's
// path takes it: the result is orthonormal to rounding whatever the errors of the eigenvalues were.
Status polar_in_place(Shape shape, Real* a, const PolarScratch& s) {
  constexpr int kEigenPassesMax = 2;
  const uint32_t n = shape.cols;
  const size_t size = static_cast<size_t>(n) * n;
  for (int pass = 0;; ++pass) {
    gram(shape, a, s.gram);
    if (!all_finite(size, s.gram)) {
      return Status::kNotFinite;
    }
    copy(size, s.gram, s.work0);
    add_to_diagonal(n, -1, s.work0);
    if (frobenius_squared(n, s.work0) <= kNearIdentity * kNearIdentity) {
      inverse_root_near_identity(n, s);
      multiply_right_in_place(shape, a, s.power, s.row);
      return Status::kOk;
    }
    if (pass == kEigenPassesMax) {
      return Status::kSingular;
    }
    bool full_rank = true;
    GS_TRY(inverse_root_by_eigen(n, s, &full_rank));
    if (!full_rank && pass > 0) {
      return Status::kSingular;
    }
    multiply_right_in_place(shape, a, s.power, s.row);
  }
}

// The normal share of a column of A = QR is the square of its part normal to the columns before it, divided by its own
// square. Below kNormalShareMin the Gram matrix has lost too many digits, and Gram-Schmidt takes over.
// If the other shares add up to kNearOrthogonal at most, the condition of A with columns of one length is below 1.7.
// One pass is then orthonormal to rounding.
constexpr Real kNormalShareMin = static_cast<Real>(1.0 / 64);
constexpr Real kNearOrthogonal = static_cast<Real>(1.0 / 16);
// Reason: the first pass leaves a near-orthonormal matrix, whatever the condition was.
constexpr int kCholeskyPassesMax = 2;

// s <- R^(-1), s = R'R, n x n, R upper triangular with a positive diagonal, zeros below. *dependence: the sum of the
// shares of the columns' squares that lie along the columns before. false: a share is too large for this, or s is not
// finite or not positive definite; s is then spoilt.
bool invert_cholesky(uint32_t n, Real* s, Real* dependence) {
  for (size_t j = 0; j < n; ++j) {
    const Real square = s[j * n + j];
    Real normal = square;
    for (size_t i = 0; i < j; ++i) {
      Real value = s[i * n + j];
      for (size_t k = 0; k < i; ++k) {
        value -= s[k * n + i] * s[k * n + j];
      }
      value /= s[i * n + i];
      s[i * n + j] = value;
      normal -= value * value;
    }
    const Real share = normal / square;
    if (!(share >= kNormalShareMin) || !is_finite(normal)) {
      return false;
    }
    *dependence += 1 - share;
    s[j * n + j] = std::sqrt(normal);
  }
  for (size_t j = 0; j < n; ++j) {
    const Real inverse = 1 / s[j * n + j];
    for (size_t i = 0; i < j; ++i) {
      Real sum = 0;
      for (size_t k = i; k < j; ++k) {
        sum += s[i * n + k] * s[k * n + j];
      }
      s[i * n + j] = -(sum * inverse);
      s[j * n + i] = 0;
    }
    s[j * n + j] = inverse;
  }
  return true;
}

// out <- Q of out = QR by modified Gram-Schmidt, every column twice.
Status gram_schmidt(Shape shape, Real* out) {
  const uint32_t rows = shape.rows;
  const uint32_t cols = shape.cols;
  for (uint32_t j = 0; j < cols; ++j) {
    Real* column = out + j;
    const Real before = strided_dot(rows, cols, column, cols, column);
    for (uint32_t i = 0; i < 2 * j; ++i) {
      const Real* done = out + (i < j ? i : i - j);
      const Real r = strided_dot(rows, cols, done, cols, column);
      for (size_t k = 0; k < shape.size(); k += cols) {
        column[k] -= r * done[k];
      }
    }
    const Real after = strided_dot(rows, cols, column, cols, column);
    if (!(after > kPolarRankTolerance * kPolarRankTolerance * before)) {
      return Status::kSingular;
    }
    const Real length = std::sqrt(after);
    for (size_t k = 0; k < shape.size(); k += cols) {
      column[k] /= length;
    }
  }
  return Status::kOk;
}

}  // namespace

size_t polar_scratch_size(Shape shape) {
  return Arena::taken_size<Real>((4 * static_cast<size_t>(shape.cols) + 1) * shape.cols);
}

Status polar_factor(Shape shape, const Real* a, Real* out, Arena& arena) {
  const size_t size = static_cast<size_t>(shape.cols) * shape.cols;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(4 * size + shape.cols);
  GS_TRY(scratch.status());
  Real* const begin = scratch.value();
  if (out != a) {
    copy(shape.size(), a, out);
  }
  return polar_in_place(shape, out, {begin, begin + size, begin + 2 * size, begin + 3 * size, begin + 4 * size});
}

size_t qr_scratch_size(Shape shape) {
  return Arena::taken_size<Real>((static_cast<size_t>(shape.cols) + 1) * shape.cols);
}

Status qr_factor(Shape shape, const Real* a, Real* out, Arena& arena) {
  const uint32_t n = shape.cols;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>((static_cast<size_t>(n) + 1) * n);
  GS_TRY(scratch.status());
  Real* const square = scratch.value();
  Real* const row = square + static_cast<size_t>(n) * n;
  if (out != a) {
    copy(shape.size(), a, out);
  }
  for (int pass = 0; pass < kCholeskyPassesMax; ++pass) {
    gram(shape, out, square);
    Real dependence = 0;
    if (!invert_cholesky(n, square, &dependence)) {
      break;
    }
    multiply_right_in_place(shape, out, square, row);
    if (dependence <= kNearOrthogonal) {
      return Status::kOk;
    }
  }
  return gram_schmidt(shape, out);
}

}  // namespace gradstream
