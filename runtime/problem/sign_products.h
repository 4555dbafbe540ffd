// Products of bytes with the signs of a direction: sums over rows of x_r s_rc, s_rc = +-1. Whole numbers, exact.
//
// The signs of a direction are packed once, as the processor multiplies them quickest. Where it sums the differences of
// four bytes in one instruction (USADA8: Cortex-M4, M7, M33, M55), a sign is a byte m, 0 for + and 255 for -:
//
//   sum |x_r - m_r| = sum x_r s_r + 255 n,   n = minus signs of the column
//
// so that an instruction makes four products without a multiplication. Elsewhere two columns of signs stand in the
// halves of one word, and one multiplication makes two products.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_SIGN_PRODUCTS_H_
#define GRADSTREAM_RUNTIME_PROBLEM_SIGN_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/shape.h"

namespace gradstream {

// Columns of signs, at most. Reason: what belongs to pairs of them stands on the stack, 36 numbers each.
inline constexpr uint32_t kSignColsMax = 8;
// Samples that multiply_signs() takes at a time.
inline constexpr uint32_t kSamplesOfPass = 2;

// The signs of one direction. Products are below 2^31: rows < 2^23.
struct SignColumns {
  Shape shape;
  uint32_t* words = nullptr;     // the caller's, sign_column_words() of them
  int32_t starts[kSignColsMax];  // what the products of a column begin with; the caller may add to it
  int32_t sums[kSignColsMax];    // of the signs of a column
};

// Words that the signs of a direction take, packed.
size_t sign_column_words(Shape shape);

// Packs the signs, in bits: entry e = r cols + c has bit e % 32 of word e / 32, 1 for +1. Fills all but shape and words
// of *columns. agreement: cols (cols + 1) / 2 values, the upper half of s's, row by row; it aliases nothing.
void pack_signs(const uint32_t* signs, SignColumns* columns, int32_t* agreement);

// first[c] and second[c] <- the products of x and y (shape.rows bytes each) with column c, over what starts[c] is more
// than pack_signs() left there. kSignColsMax values each; those without a column are anything.
void multiply_signs(const SignColumns& columns, const uint8_t* x, const uint8_t* y, int32_t* first, int32_t* second);

// ---- Numbers as bytes ----
//
// A number of `count` bytes, -2^(8 count - 1) <= v < 2^(8 count - 1), is v + 2^(8 count - 1) = sum_k byte_k 256^k. Byte
// k of all rows stands together, at planes + k rows: a plane has the form of a sample.

// Puts the number of a row into its planes. count <= 4.
void store_planes(int32_t value, uint32_t count, uint32_t rows, uint8_t* plane_row);
// out[c] <- the products of the numbers with column c, modulo 2^32. count is even. starts[c] must be as pack_signs()
// left it. kSignColsMax values.
void multiply_planes(const SignColumns& columns, const uint8_t* planes, uint32_t count, int32_t* out);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_SIGN_PRODUCTS_H_
