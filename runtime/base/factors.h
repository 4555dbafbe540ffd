// The orthonormal factors that retractions take of a matrix, in the fixed order of operations of products.h. What only
// some manifolds need stands in decompositions.h.
#ifndef GRADSTREAM_RUNTIME_BASE_FACTORS_H_
#define GRADSTREAM_RUNTIME_BASE_FACTORS_H_

#include <cstddef>
#include <limits>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"

namespace gradstream {

// The polar factor A (A'A)^(-1/2) of A (rows x cols, rows >= cols) into out; out may be a.
// The result is orthonormal to rounding (|Q'Q - I| < 2e-6 at 64 x 4 in float) for every A that is accepted. Its
// distance from the exact factor grows as rounding times the condition of A, because the Gram matrix is what is
// factored. A near-orthonormal A, as retractions meet it, takes a few cols^3 steps of Newton's iteration and no
// eigen-decomposition.
// kNotFinite when A, or the squared norm of a column, is not finite. kSingular when A has no full rank.
// Singular values down to about kPolarRankTolerance times the largest are told from zero (float 1.9e-6, double
// 3.6e-15), if the squared norm of A is at least 1e-30 in float.
Status polar_factor(Shape shape, const Real* a, Real* out, Arena& arena);
size_t polar_scratch_size(Shape shape);  // bytes of arena scratch
inline constexpr Real kPolarRankTolerance = 16 * std::numeric_limits<Real>::epsilon();

// Q of the thin QR with positive diagonal R, into out; out may be a.
// The Gram matrix' Cholesky factor gives Q: once for a near-orthogonal A, as retractions meet it, twice otherwise
// (Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, "Roundoff error analysis of the CholeskyQR2 algorithm", 2015).
// Where a column nearly depends on the columns before it, modified Gram-Schmidt gives Q, in two passes.
// kSingular when a column depends on the columns before it.
Status qr_factor(Shape shape, const Real* a, Real* out, Arena& arena);
size_t qr_scratch_size(Shape shape);  // bytes of arena scratch

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_FACTORS_H_
