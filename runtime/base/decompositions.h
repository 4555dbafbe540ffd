// Matrix functions and decompositions that only some manifolds need, in the fixed order of operations of linalg.h: an
// image that registers none of them links none of these. Matrices are row-major, without padding.
#ifndef GRADSTREAM_RUNTIME_BASE_DECOMPOSITIONS_H_
#define GRADSTREAM_RUNTIME_BASE_DECOMPOSITIONS_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/linalg.h"
#include "runtime/base/status.h"

namespace gradstream {

// out <- exp(A), n x n, by scaling and squaring of the Taylor series; only + - * /. out does not alias a. kNotFinite
// when A is not finite or the scaling would take more than 2^40.
Status matrix_exponential(uint32_t n, const Real* a, Real* out, Arena& arena);
size_t matrix_exponential_scratch_size(uint32_t n);  // bytes of arena scratch

// cos(a) and sin(a) / a as power series of q = a^2, for q up to kAngleSquaredMax, that is for angles up to pi / 2. The
// first term left out is below rounding there. Only + and * are used, because the functions of one libm differ from
// those of another.
// Evaluated as even(q^2) + q odd(q^2), each by Horner's rule: half the chain of dependent operations.
inline constexpr Real kAngleSquaredMax = static_cast<Real>(2.4674);
inline constexpr int kAngleTermCount = std::numeric_limits<Real>::digits > 24 ? 13 : 7;  // odd
struct AngleSeries {
  Real cosine[kAngleTermCount];  // (-1)^k / (2k)!
  Real sine[kAngleTermCount];    // (-1)^k / (2k + 1)!
};
inline constexpr AngleSeries kAngleSeries = [] {
  AngleSeries series = {};
  double term = 1;
  for (int k = 0; k < kAngleTermCount; ++k) {
    series.cosine[k] = static_cast<Real>(term);
    series.sine[k] = static_cast<Real>(term / (2 * k + 1));
    term /= -(2.0 * k + 1) * (2.0 * k + 2);
  }
  return series;
}();

// Up to here from 1 the inverse of a square's root is (3 - square) / 2 to rounding, the first step of Newton's
// iteration.
inline constexpr Real kNearOne = std::numeric_limits<Real>::digits > 24 ? static_cast<Real>(0x1p-27)
                                                                        : static_cast<Real>(0x1p-13);

// cosine <- cos(S), ratio <- sin(S) S^(-1), S^2 = G, n x n, symmetric and positive semidefinite, by the same series of
// matrices: as many terms as G needs. false, and both spoilt, when |G| is above kAngleSquaredMax or is not a number.
// term: n^2 Reals, row: n. No two alias.
bool angle_series(uint32_t n, const Real* g, Real* cosine, Real* ratio, Real* term, Real* row);

// L, lower triangular with a positive diagonal, of S = L L', n x n, symmetric; only the lower half of s is read. out
// may be s; its upper half is set to zero. kSingular when S is not positive definite to rounding (a pivot that is not
// above kDefiniteTolerance times the diagonal entry it comes from), kNotFinite.
Status cholesky(uint32_t n, const Real* s, Real* out);
inline constexpr Real kDefiniteTolerance = 2 * std::numeric_limits<Real>::epsilon();

// out <- L^(-1) S L'^(-1), symmetric, for symmetric S, n x n. out may be s.
void congruence_inverse(uint32_t n, const Real* l, const Real* s, Real* out);

// One-sided Jacobi: A = U diag(w) V'. a, rows x cols with rows >= cols, is overwritten by U, w (cols) is descending, v
// (cols x cols) becomes V, or is null for none. Columns of U whose singular value is zero to rounding are zero. Small
// singular values keep their digits. kNotFinite; kSingular when the sweeps do not converge (not seen for finite input).
Status singular_values(Shape shape, Real* a, Real* w, Real* v);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_DECOMPOSITIONS_H_
