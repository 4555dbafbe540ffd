#include "runtime/base/no_contraction.h"

#include "runtime/base/equations.h"

#include <cmath>
#include <limits>
#include <utility>

#include "runtime/base/lanes.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

// Jacobi rotates rows p and q of x by (c, s) in the form that does not cancel: tau = s / (1 + c).
void rotate_rows(uint32_t n, Real s, Real tau, Real* x_p, Real* x_q) {
  for_fours(
      n,
      [=](size_t k) __attribute__((always_inline)) {
        const auto g = load(x_p + k), h = load(x_q + k);
        store(g - splat(s) * (h + splat(tau) * g), x_p + k);
        store(h + splat(s) * (g - splat(tau) * h), x_q + k);
      },
      [=](size_t k) __attribute__((always_inline)) {
        const Real g = x_p[k], h = x_q[k];
        x_p[k] = g - s * (h + tau * g);
        x_q[k] = h + s * (g - tau * h);
      });
}

// Makes S[p][q] zero (Golub and Van Loan, Matrix Computations, 8.5). q_rows: eigenvectors as rows.
void jacobi_rotate(uint32_t n, uint32_t p, uint32_t q, Real* s, Real* q_rows) {
  Real* s_p = s + static_cast<size_t>(p) * n;
  Real* s_q = s + static_cast<size_t>(q) * n;
  const Real off = s_p[q];
  const Real theta = (s_q[q] - s_p[p]) / (2 * off);
  const Real magnitude = 1 / (std::fabs(theta) + std::sqrt(theta * theta + 1));
  const Real t = theta < 0 ? -magnitude : magnitude;
  const Real c = 1 / std::sqrt(t * t + 1);
  const Real sine = t * c;
  const Real tau = sine / (1 + c);
  const Real diagonal_p = s_p[p] - t * off;
  const Real diagonal_q = s_q[q] + t * off;
  rotate_rows(n, sine, tau, s_p, s_q);
  for (size_t k = 0; k < n; ++k) {
    s[k * n + p] = s_p[k];
    s[k * n + q] = s_q[k];
  }
  s_p[p] = diagonal_p;
  s_q[q] = diagonal_q;
  s_p[q] = 0;
  s_q[p] = 0;
  rotate_rows(n, sine, tau, q_rows + static_cast<size_t>(p) * n, q_rows + static_cast<size_t>(q) * n);
}

// Sorts w ascending, rows of q along with it; equal values keep their order.
void sort_eigenpairs(uint32_t n, Real* w, Real* q_rows) {
  for (size_t i = 1; i < n; ++i) {
    for (size_t j = i; j > 0 && w[j] < w[j - 1]; --j) {
      std::swap(w[j], w[j - 1]);
      for (size_t k = 0; k < n; ++k) {
        std::swap(q_rows[j * n + k], q_rows[(j - 1) * n + k]);
      }
    }
  }
}

// out <- out + factor A B', all n x n. out aliases neither.
void add_product_transposed(uint32_t n, Real factor, const Real* a, const Real* b, Real* out) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      out[i * n + j] += factor * dot(n, a + i * n, b + j * n);
    }
  }
}

}  // namespace

Status symmetric_eigen(uint32_t n, Real* s, Real* w, Real* q) {
  constexpr int kSweepsMax = 32;
  // Below this an entry is zero whatever stands on the diagonal.
  const Real negligible = kEpsilon * kEpsilon * std::sqrt(frobenius_squared(n, s));
  fill_zero(static_cast<size_t>(n) * n, q);
  add_to_diagonal(n, 1, q);
  const auto root_of_diagonal = [=](size_t i) { return std::sqrt(std::fabs(s[i * n + i])); };
  for (size_t i = 0; i < n; ++i) {
    w[i] = root_of_diagonal(i);
  }
  bool rotated = true;
  for (int sweep = 0; sweep < kSweepsMax && rotated; ++sweep) {
    rotated = false;
    for (uint32_t i = 0; i + 1 < n; ++i) {
      for (uint32_t j = i + 1; j < n; ++j) {
        // Relative to the two diagonal entries, so that small eigenvalues of a positive definite matrix are accurate
        // too (Demmel and Veselic, "Jacobi's method is more accurate than QR", 1992).
        const Real off = std::fabs(s[static_cast<size_t>(i) * n + j]);
        if (!(off <= negligible || off <= kEpsilon * w[i] * w[j])) {
          jacobi_rotate(n, i, j, s, q);
          w[i] = root_of_diagonal(i);
          w[j] = root_of_diagonal(j);
          rotated = true;
        }
      }
    }
  }
  if (rotated) {
    return Status::kSingular;
  }
  for (size_t i = 0; i < n; ++i) {
    w[i] = s[i * n + i];
  }
  sort_eigenpairs(n, w, q);
  transpose_square(n, q);
  return Status::kOk;
}

Status invert_in_place(uint32_t n, Real* a, uint32_t* pivots) {
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) {
        pivot = i;
      }
    }
    pivots[k] = static_cast<uint32_t>(pivot);
    for (size_t j = 0; j < n && pivot != k; ++j) {
      std::swap(a[k * n + j], a[pivot * n + j]);
    }
    const Real inverse = 1 / a[k * n + k];
    if (!is_finite(inverse)) {
      return Status::kSingular;
    }
    a[k * n + k] = 1;
    scale(n, inverse, a + k * n);
    for (size_t i = 0; i < n; ++i) {
      if (i != k) {
        const Real factor = a[i * n + k];
        a[i * n + k] = 0;
        add_scaled(n, -factor, a + k * n, a + i * n);
      }
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t i = 0; i < n && pivots[k] != k; ++i) {
      std::swap(a[i * n + k], a[i * n + pivots[k]]);
    }
  }
  return Status::kOk;
}

size_t lyapunov_scratch_size(uint32_t n) {
  return Arena::taken_size<Real>(2 * static_cast<size_t>(n) * n) + Arena::taken_size<uint32_t>(n);
}

Status solve_lyapunov(uint32_t n, const Real* m, const Real* c, Real* out, Arena& arena) {
  constexpr int kDoublingsMax = 24;
  const size_t size = static_cast<size_t>(n) * n;
  const Shape square{n, n};
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(2 * size);
  GS_TRY(scratch.status());
  const Result<uint32_t*> pivots = arena.scratch<uint32_t>(n);
  GS_TRY(pivots.status());
  Real* power = scratch.value();
  Real* work = power + size;

  // With B = (M + I)^(-1) and A = I - 2 B the equation reads X - A X A' = 2 B C B'.
  copy(size, m, work);
  add_to_diagonal(n, 1, work);
  GS_TRY(invert_in_place(n, work, pivots.value()));
  multiply_right(square, work, c, power);
  fill_zero(size, out);
  add_product_transposed(n, 2, power, work, out);
  copy(size, work, power);
  scale(size, -2, power);
  add_to_diagonal(n, 1, power);
  for (int doubling = 0; doubling < kDoublingsMax; ++doubling) {
    if (frobenius_squared(n, power) <= kEpsilon / 4) {
      return Status::kOk;
    }
    multiply_right(square, power, out, work);
    add_product_transposed(n, 1, work, power, out);
    multiply_right(square, power, power, work);
    std::swap(power, work);
  }
  return Status::kSingular;
}

}  // namespace gradstream
