// Equations with a small square matrix: eigenvalues, the inverse, Lyapunov's; in the fixed order of operations of
// products.h. Matrices are row-major, without padding.
#ifndef GRADSTREAM_RUNTIME_BASE_EQUATIONS_H_
#define GRADSTREAM_RUNTIME_BASE_EQUATIONS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace gradstream {

// Symmetric eigen-decomposition by cyclic Jacobi with a fixed order: S = Q diag(w) Q', n x n, entries finite. s is
// overwritten. w is ascending, Q's columns in the same order. kSingular when the sweeps do not converge (not seen for
// finite input).
Status symmetric_eigen(uint32_t n, Real* s, Real* w, Real* q);

// A <- A^(-1), n x n, by Gauss-Jordan with partial pivoting. pivots: n entries of scratch. kSingular on a zero or
// non-finite pivot; a is then spoilt.
Status invert_in_place(uint32_t n, Real* a, uint32_t* pivots);

// Symmetric X of M X + X M' = C, C symmetric; n x n; out may be c. M need not be symmetric. Solved by the doubling form
// of Smith's iteration (R. A. Smith, "Matrix equation XA + BX = C", 1968): quadratic, fastest for M near I, convergent
// exactly when every eigenvalue of M has a positive real part. kSingular when it does not converge.
Status solve_lyapunov(uint32_t n, const Real* m, const Real* c, Real* out, Arena& arena);
size_t lyapunov_scratch_size(uint32_t n);  // bytes of arena scratch

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_EQUATIONS_H_
