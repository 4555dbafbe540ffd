// Sums and products of vectors and matrices in one fixed order of operations: only + - * / and sqrt. Every reduction is
// four interleaved partial sums added as ((s0 + s1) + (s2 + s3)). Term i goes to s[i % 4], which starts as its first
// term, or as 0 where it has none. Compiled with -ffp-contract=off they give the same bits on x86-64 (SSE, AVX),
// AArch64, ARMv7 and Cortex-M. Matrices are row-major, rows x cols, without padding.
#ifndef GRADSTREAM_RUNTIME_BASE_PRODUCTS_H_
#define GRADSTREAM_RUNTIME_BASE_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"

namespace gradstream {

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
// S <- S + value I, n x n.
void add_to_diagonal(uint32_t n, Real value, Real* s);
// The sum of the squares of S, n x n, as of one vector.
Real frobenius_squared(uint32_t n, const Real* s);
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

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_PRODUCTS_H_
