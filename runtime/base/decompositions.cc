#include "runtime/base/decompositions.h"

#include <cmath>
#include <limits>
#include <utility>

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

}  // namespace

size_t matrix_exponential_scratch_size(uint32_t n) {
  return 3 * Arena::taken_size<Real>(static_cast<size_t>(n) * n);
}

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
  copy(size, a, scaled.value());
  scale(size, factor, scaled.value());
  copy(size, scaled.value(), term.value());
  copy(size, scaled.value(), out);
  add_identity(n, out);
  for (int k = 2; k < kTermsMax && row_sum_norm(n, term.value()) > kEpsilon / 4; ++k) {
    multiply_right(square, term.value(), scaled.value(), work.value());
    scale(size, Real{1} / static_cast<Real>(k), work.value());
    copy(size, work.value(), term.value());
    add_scaled(size, 1, term.value(), out);
  }
  for (; squarings > 0; --squarings) {
    multiply_right(square, out, out, work.value());
    copy(size, work.value(), out);
  }
  return Status::kOk;
}

}  // namespace gradstream
