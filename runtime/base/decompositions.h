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
