#include "runtime/base/no_contraction.h"

#include "runtime/base/decompositions.h"

#include <cmath>
#include <limits>
#include <utility>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

void add_identity(uint32_t n, Real* a) {
  for (size_t i = 0; i < n; ++i) {
    a[i * n + i] += 1;
  }
}

// Largest sum of magnitudes of a row.
Real row_sum_norm(uint32_t n, const Real* a) {
  Real most = 0;
  for (size_t i = 0; i < n; ++i) {
    Real sum = 0;
    for (size_t j = 0; j < n; ++j) {
      sum += std::fabs(a[i * n + j]);
    }
    most = sum <= most ? most : sum;
  }
  return most;
}

// out <- L^(-1) A, row by row, in place.
void solve_lower(uint32_t n, const Real* l, Real* a) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) {
      add_scaled(n, -l[i * n + k], a + k * n, a + i * n);
    }
    scale(n, 1 / l[i * n + i], a + i * n);
  }
}

// <column p, column q>, in plain order.
Real column_product(Shape shape, const Real* a, size_t p, size_t q) {
  Real sum = 0;
  for (size_t at = 0; at < shape.size(); at += shape.cols) {
    sum += a[at + p] * a[at + q];
  }
  return sum;
}

void rotate_columns(Shape shape, size_t p, size_t q, Real c, Real s, Real* a) {
  for (size_t at = 0; at < shape.size(); at += shape.cols) {
    const Real first = a[at + p];
    const Real second = a[at + q];
    a[at + p] = c * first - s * second;
    a[at + q] = s * first + c * second;
  }
}

// Makes columns p and q of A orthogonal; V turns along. False when they were, to rounding, or when one of them is no
// longer than negligible (squared): such a column is rounding, and would turn for ever.
bool orthogonalize(Shape shape, size_t p, size_t q, Real negligible, Real* a, Real* v) {
  // The sums of column_product, side by side: each is one chain of sums, three of them take no longer than one.
  Real alpha = 0, beta = 0, gamma = 0;
  for (size_t at = 0; at < shape.size(); at += shape.cols) {
    const Real first = a[at + p];
    const Real second = a[at + q];
    alpha += first * first;
    beta += second * second;
    gamma += first * second;
  }
  const Real tolerance = 4 * kEpsilon * std::sqrt(alpha) * std::sqrt(beta);
  if (std::fabs(gamma) <= tolerance || alpha <= negligible || beta <= negligible) {
    return false;
  }
  const Real zeta = (beta - alpha) / (2 * gamma);
  const Real magnitude = 1 / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
  const Real t = zeta < 0 ? -magnitude : magnitude;
  const Real c = 1 / std::sqrt(1 + t * t);
  rotate_columns(shape, p, q, c, c * t, a);
  if (v != nullptr) {
    rotate_columns({shape.cols, shape.cols}, p, q, c, c * t, v);
  }
  return true;
}

void swap_columns(Shape shape, size_t p, size_t q, Real* a) {
  for (size_t at = 0; at < shape.size(); at += shape.cols) {
    std::swap(a[at + p], a[at + q]);
  }
}

}  // namespace

size_t matrix_exponential_scratch_size(uint32_t n) { return 3 * Arena::taken_size<Real>(static_cast<size_t>(n) * n); }

Status matrix_exponential(uint32_t n, const Real* a, Real* out, Arena& arena) {
  constexpr int kSquaringsMax = 40;
  constexpr int kTermsMax = 32;
  const size_t size = static_cast<size_t>(n) * n;
  const Shape square{n, n};
  ScratchScope scope(arena);
  const Result<Real*> scaled = arena.scratch<Real>(size);
  GS_TRY(scaled.status());
  const Result<Real*> term = arena.scratch<Real>(size);
  GS_TRY(term.status());
  const Result<Real*> work = arena.scratch<Real>(size);
  GS_TRY(work.status());
  if (!all_finite(size, a)) {
    return Status::kNotFinite;
  }
  Real factor = 1;
  int squarings = 0;
  for (Real norm = row_sum_norm(n, a); !(norm <= static_cast<Real>(0.5)); norm /= 2) {
    if (++squarings > kSquaringsMax) {
      return Status::kNotFinite;
    }
    factor /= 2;
  }
  Real* power = term.value();
  Real* next = work.value();
  copy(size, a, scaled.value());
  scale(size, factor, scaled.value());
  copy(size, scaled.value(), power);
  copy(size, scaled.value(), out);
  add_identity(n, out);
  for (int k = 2; k < kTermsMax && row_sum_norm(n, power) > kEpsilon / 4; ++k) {
    multiply_right(square, power, scaled.value(), next);
    scale(size, Real{1} / static_cast<Real>(k), next);
    std::swap(power, next);
    add_scaled(size, 1, power, out);
  }
  for (; squarings > 0; --squarings) {
    multiply_right(square, out, out, next);
    copy(size, next, out);
  }
  return Status::kOk;
}

bool angle_series(uint32_t n, const Real* g, Real* cosine, Real* ratio, Real* term, Real* row) {
  const size_t size = static_cast<size_t>(n) * n;
  const Real g_squared = dot(size, g, g);
  if (!(g_squared <= kAngleSquaredMax * kAngleSquaredMax)) {
    return false;
  }
  copy(size, g, term);
  scale(size, static_cast<Real>(-0.5), term);
  copy(size, term, cosine);
  copy(size, term, ratio);
  scale(size, Real{1} / 3, ratio);
  add_identity(n, cosine);
  add_identity(n, ratio);
  for (int k = 2; k < kAngleTermCount; ++k) {
    // The term that comes next is at most |term| |G| / divisor.
    const Real divisor = static_cast<Real>((2 * k - 1) * (2 * k));
    const Real negligible = divisor * kEpsilon / 4;
    if (dot(size, term, term) * g_squared <= negligible * negligible) {
      break;
    }
    multiply_right_in_place({n, n}, term, g, row);
    scale(size, -1 / divisor, term);
    add_scaled(size, 1, term, cosine);
    add_scaled(size, 1 / static_cast<Real>(2 * k + 1), term, ratio);
  }
  return true;
}

Status cholesky(uint32_t n, const Real* s, Real* out) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const Real entry = s[i * n + j];
      if (!all_finite(1, &entry)) {
        return Status::kNotFinite;
      }
      const Real rest = entry - dot(j, out + i * n, out + j * n);
      if (j < i) {
        out[i * n + j] = rest / out[j * n + j];
      } else if (rest > kDefiniteTolerance * entry) {
        out[i * n + i] = std::sqrt(rest);
      } else {
        return Status::kSingular;
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    fill_zero(n - i - 1, out + i * n + i + 1);
  }
  return Status::kOk;
}

void congruence_inverse(uint32_t n, const Real* l, const Real* s, Real* out) {
  if (out != s) {
    copy(static_cast<size_t>(n) * n, s, out);
  }
  solve_lower(n, l, out);
  transpose_square(n, out);
  solve_lower(n, l, out);
  symmetrize(n, out);
}

Status singular_values(Shape shape, Real* a, Real* w, Real* v) {
  constexpr int kSweepsMax = 32;
  const size_t n = shape.cols;
  if (!all_finite(shape.size(), a)) {
    return Status::kNotFinite;
  }
  if (v != nullptr) {
    fill_zero(n * n, v);
    add_identity(shape.cols, v);
  }
  const Real largest = dot(shape.size(), a, a);
  const Real negligible = 4 * kEpsilon * kEpsilon * largest + std::numeric_limits<Real>::min() / kEpsilon;
  bool rotated = true;
  for (int sweep = 0; sweep < kSweepsMax && rotated; ++sweep) {
    rotated = false;
    for (size_t p = 0; p + 1 < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        rotated = orthogonalize(shape, p, q, negligible, a, v) || rotated;
      }
    }
  }
  if (rotated) {
    return Status::kSingular;
  }
  for (size_t c = 0; c < n; ++c) {
    const Real squared = column_product(shape, a, c, c);
    w[c] = squared > negligible ? std::sqrt(squared) : 0;
    for (size_t at = 0; at < shape.size(); at += n) {
      a[at + c] = w[c] > 0 ? a[at + c] / w[c] : 0;
    }
  }
  for (size_t i = 1; i < n; ++i) {
    for (size_t j = i; j > 0 && w[j] > w[j - 1]; --j) {
      std::swap(w[j], w[j - 1]);
      swap_columns(shape, j, j - 1, a);
      if (v != nullptr) {
        swap_columns({shape.cols, shape.cols}, j, j - 1, v);
      }
    }
  }
  return Status::kOk;
}

}  // namespace gradstream
