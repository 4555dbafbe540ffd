// Dense kernels in one fixed order of operations: only + - * / and sqrt, every reduction as four interleaved partial
// sums added as ((s0 + s1) + (s2 + s3)), term i going to s[i % 4], which starts as its first term, or as 0 where it has
// none. Compiled with -ffp-contract=off they give the same
// bits on x86-64 (SSE, AVX), AArch64, ARMv7 and Cortex-M. Matrices are row-major, rows x cols, without padding.
#ifndef GRADSTREAM_RUNTIME_BASE_LINALG_H_
#define GRADSTREAM_RUNTIME_BASE_LINALG_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace gradstream {

struct Parts;  // runtime/manifold/manifold.h

struct Shape {
  uint32_t rows = 0;
  uint32_t cols = 0;
  // What the rows x cols numbers are cut into, for a manifold whose point has several blocks (product, fixed rank);
  // null for all others. The caller's: it must outlive every use of the shape. Two shapes are equal only with the same
  // list.
  const Parts* parts = nullptr;
  constexpr size_t size() const { return static_cast<size_t>(rows) * cols; }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

// sum x[i] y[i]. x and y may alias.
Real dot(size_t count, const Real* x, const Real* y);
// sqrt(dot(x, x)).
Real norm2(size_t count, const Real* x);
// |y - x|, without cancellation for near points.
Real distance2(size_t count, const Real* x, const Real* y);
// out <- x + y. out may be either.
void add(size_t count, const Real* x, const Real* y, Real* out);
// y <- y + a x. x and y may be the same array.
void add_scaled(size_t count, Real a, const Real* x, Real* y);
// out <- y - a x. out may be x or y.
void subtract_scaled(size_t count, Real a, const Real* x, const Real* y, Real* out);
// out <- a x + b y. out may be x or y.
void combine(size_t count, Real a, const Real* x, Real b, const Real* y, Real* out);
// out <- v + a (x + y). out may be any of them.
void add_scaled_sum(size_t count, Real a, const Real* x, const Real* y, const Real* v, Real* out);
// x <- a x.
void scale(size_t count, Real a, Real* x);
void copy(size_t count, const Real* x, Real* y);
void fill_zero(size_t count, Real* x);
bool all_finite(size_t count, const Real* x);

// out[c] <- sum over the rows of a[.][c] b[.][c]. out (cols) aliases neither.
void column_dots(Shape shape, const Real* a, const Real* b, Real* out);
// out[.][c] <- factors[c] x[.][c]. out may be x.
void scale_columns(Shape shape, const Real* factors, const Real* x, Real* out);
// out[.][c] <- y[.][c] - factors[c] x[.][c]. out may be x or y.
void subtract_columns(Shape shape, const Real* factors, const Real* x, const Real* y, Real* out);
// S <- (S + S') / 2, n x n.
void symmetrize(uint32_t n, Real* s);
// S <- S', n x n.
void transpose_square(uint32_t n, Real* s);
// out (cols x cols) <- A' B, both rows x cols. out aliases neither.
void multiply_transposed(Shape shape, const Real* a, const Real* b, Real* out);
// out (cols x cols) <- A' A: the upper half, mirrored. out may not be a.
void gram(Shape shape, const Real* a, Real* out);
// out (p x q) <- A B', A p x n, B q x n. out aliases neither.
void multiply_by_transpose(uint32_t p, uint32_t q, uint32_t n, const Real* a, const Real* b, Real* out);
// out (rows x cols) <- A S, A rows x cols, S cols x cols. out aliases neither.
void multiply_right(Shape shape, const Real* a, const Real* s, Real* out);
// out (rows x cols) <- G - A S. out may be g, aliases neither a nor s.
void subtract_multiply_right(Shape shape, const Real* a, const Real* s, const Real* g, Real* out);

// A <- A S. row: cols Reals.
void multiply_right_in_place(Shape shape, Real* a, const Real* s, Real* row);
// out (rows x cols) <- A S + B T; T becomes -T. out may be a or b, aliases nothing else. row: cols Reals.
void combine_right(Shape shape, const Real* a, const Real* s, const Real* b, Real* t, Real* row, Real* out);

// Symmetric eigen-decomposition by cyclic Jacobi with a fixed order: S = Q diag(w) Q', n x n, entries finite. s is
// overwritten. w is ascending, Q's columns in the same order. kSingular when the sweeps do not converge (not seen for
// finite input).
Status symmetric_eigen(uint32_t n, Real* s, Real* w, Real* q);

// The polar factor A (A'A)^(-1/2) of A (rows x cols, rows >= cols) into out; out may be a. Orthonormal to rounding
// (|Q'Q - I| < 2e-6 at 64 x 4 in float) for every A that it accepts; its distance from the exact factor grows as
// rounding times the condition of A, since it works on the Gram matrix. A near-orthonormal A, as retractions meet it,
// takes a few cols^3 steps of Newton's iteration and no eigen-decomposition.
// kNotFinite when A, or the squared norm of a column, is not finite. kSingular when A has no full rank: singular values
// down to about kPolarRankTolerance times the largest are told from zero (float 1.9e-6, double 3.6e-15), provided that
// the squared norm of A is not below 1e-30 in float.
Status polar_factor(Shape shape, const Real* a, Real* out, Arena& arena);
size_t polar_scratch_size(Shape shape);  // bytes of arena scratch
inline constexpr Real kPolarRankTolerance = 16 * std::numeric_limits<Real>::epsilon();

// Q of the thin QR with positive diagonal R, into out; out may be a. By the Gram matrix' Cholesky factor, once for
// a near-orthogonal A, as retractions meet it, twice otherwise (Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, "Roundoff
// error analysis of the CholeskyQR2 algorithm", 2015); by modified Gram-Schmidt, twice, where a column nearly depends
// on those before it. kSingular when one does.
Status qr_factor(Shape shape, const Real* a, Real* out, Arena& arena);
size_t qr_scratch_size(Shape shape);  // bytes of arena scratch

// A <- A^(-1), n x n, by Gauss-Jordan with partial pivoting. pivots: n entries of scratch. kSingular on a zero or
// non-finite pivot; a is then spoilt.
Status invert_in_place(uint32_t n, Real* a, uint32_t* pivots);

// Symmetric X of M X + X M' = C, C symmetric; n x n; out may be c. M need not be symmetric. Solved by the doubling form
// of Smith's iteration (R. A. Smith, "Matrix equation XA + BX = C", 1968): quadratic, fastest for M near I, convergent
// exactly when every eigenvalue of M has a positive real part. kSingular when it does not converge.
Status solve_lyapunov(uint32_t n, const Real* m, const Real* c, Real* out, Arena& arena);
size_t lyapunov_scratch_size(uint32_t n);  // bytes of arena scratch

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_LINALG_H_
