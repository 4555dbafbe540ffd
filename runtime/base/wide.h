// Kernels of linalg.h for x86-64 processors with AVX, asked at run time: eight floats an instruction. Their
// loops are others, but do the same IEEE operations in the same order as linalg.h states them, and so give the same
// bits. If a kernel is not here, or not available, linalg.cc does the work by its own loops. A build for other
// processors, and one in double, has none of this.
#ifndef GRADSTREAM_RUNTIME_BASE_WIDE_H_
#define GRADSTREAM_RUNTIME_BASE_WIDE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"
#include "runtime/base/status.h"

#if defined(__x86_64__) && !defined(GS_REAL_DOUBLE) && !defined(GS_NO_WIDE)
#define GS_HAS_WIDE 1
#else
#define GS_HAS_WIDE 0
#endif

namespace gradstream::wide {

#if GS_HAS_WIDE
// Whether this processor has the instructions.
inline bool is_available() { return __builtin_cpu_supports("avx"); }
// Whether it has, and rows x cols is a shape that the kernels below take.
inline bool takes(size_t rows, uint32_t cols) { return rows >= 5 && cols >= 2 && cols <= 8 && is_available(); }

// As the functions of linalg.h with these names.
void add(size_t count, const Real* x, const Real* y, Real* out);
// The matrices' shape must be taken.
void column_dots(size_t rows, uint32_t cols, const Real* a, const Real* b, Real* out);
void scale_columns(size_t rows, uint32_t cols, const Real* factors, const Real* x, Real* out);
void subtract_columns(size_t rows, uint32_t cols, const Real* factors, const Real* x, const Real* y, Real* out);
// Two of them in one sweep, for the oblique manifold. out may be any of the matrices.
// out <- G - X diag(x_c'g_c).
void remove_along_columns(size_t rows, uint32_t cols, const Real* x, const Real* g, Real* out);
// out <- the columns of X + V, or of X where v is null, by their lengths. kNotFinite: the square of a length is not;
// kSingular: it is below `least`. out is then unspecified.
Status normalize_columns(size_t rows, uint32_t cols, const Real* x, const Real* v, Real least, Real* out);
// out <- the columns of X moved by those of V along the geodesics of their spheres, by the series of decompositions.h.
// Each is then divided by its length, which is 1 but for rounding. *is_short: no column of V is too long for the
// series; otherwise out is untouched. Statuses as of normalize_columns.
Status exponential_columns(size_t rows, uint32_t cols, const Real* x, const Real* v, Real least, Real* out,
                           bool* is_short);
// out <- (V - X diag(f)) - Y diag(f), f_c = y_c'v_c / (1 + x_c'y_c). kSingular, and out is untouched, where a divisor
// is not above `least`.
Status transport_columns(size_t rows, uint32_t cols, const Real* x, const Real* y, const Real* v, Real least,
                         Real* out);

// As the functions of linalg.h again, for 4 <= cols.
void multiply_transposed(size_t rows, uint32_t cols, const Real* a, const Real* b, Real* out);
// out <- A S, or G - A S where g is not null. out may be a or g.
void multiply_right(size_t rows, uint32_t cols, const Real* a, const Real* s, const Real* g, Real* out);
#endif

}  // namespace gradstream::wide

#endif  // GRADSTREAM_RUNTIME_BASE_WIDE_H_
