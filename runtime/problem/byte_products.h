// Products of a point with samples that are bytes, in whole numbers: what a loss over a shard of bytes is made of.
//
// Such a sample is z_r = scale (b_r - q_r) with a byte b_r and q_r = mean_r / scale. Each evaluation rounds its point
// once to whole numbers, x_rc = y_rc 2^e with one exponent e for all values (block floating point). Then
//
//   (z'x)_c = scale 2^e (P_c - Q_c),   P_c = sum_r b_r y_rc,   Q_c = sum_r q_r y_rc
//
// P is exact, and is read from the bytes where they lie. Q belongs to the point alone, and is rounded to a whole
// number. So a sample costs one multiplication of whole numbers a value and column, and no value becomes a float.
//
// Where a run takes units out, (z_r - unit_r) factor_r stands for z_r. The factor goes into row r of the point before
// it is rounded, and unit_r into mean_r. Factors may differ by a lot, so that y then has two words: 2^15 high + low.
//
// All of it has the same bits on every processor: only shifts, sums and products of whole numbers, and of floats one
// quotient, sums and products, each rounded once.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_BYTE_PRODUCTS_H_
#define GRADSTREAM_RUNTIME_PROBLEM_BYTE_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/base/units.h"
#include "runtime/problem/problem.h"

namespace gradstream {

// Whether losses over bytes are computed so. Reason: they take 2.6 KB of flash, which an image may leave out
// (runtime/base/features.h). Its losses are those of floats.
#if defined(GS_WITHOUT_BYTES)
inline constexpr bool kTakesBytes = false;
#else
inline constexpr bool kTakesBytes = true;
#endif

// Bits of a word without the sign, and how many more y has where rows have exponents of their own. Reason: a row whose
// factor is up to 2^14 below the largest keeps all bits of its words, and sums of 32,768 rows keep within 64 bits.
inline constexpr int32_t kWordBits = 15;
inline constexpr int32_t kRowShiftMax = 14;

// Where the samples of a source stand to their mean.
struct ByteFrame {
  SampleBytes bytes;
  uint32_t dimension = 0;
  const Units* units = nullptr;  // null: samples stay as they are
  int32_t mean_field = 0;        // abs(mean_r + unit_r) < 2^(mean_field - 126): a float's field of the exponent
  int32_t ratio_field = 0;       // 1 / scale = +-ratio 2^(ratio_field - 150), ratio < 2^24
  uint32_t ratio = 0;
  bool is_negative = false;  // the scale, and with it each q
  int32_t range_bits = 0;    // abs(b - q_r) < 2^range_bits

  const uint8_t* sample(uint32_t index) const { return bytes.values + size_t{index} * dimension; }
};

// Bits of abs(q) beyond which losses are computed in floats. Reason: the sums of Q keep within 64 bits, and a mean so
// far from all samples leaves few bits of them in a float either.
inline constexpr int32_t kMeanBitsMax = 16;

// The frame of source.bytes, which is not null. False: losses over these samples are computed in floats. Either
// abs(q_r) may be 2^kMeanBitsMax or more (it is 2^15 at least then), or 1 / scale or a mean is no normal number.
bool find_byte_frame(const SampleSource& source, const Units* units, ByteFrame* out);

// A point, or another tensor of its shape, in whole numbers. Value (r, c) is y 2^exponent, y = word 2^shifts[r]. The
// words are the caller's, whole_count() of them on a boundary of 8 bytes, and stand as whole_place() says. Words in no
// place are never used.
struct WholePoint {
  Shape shape;
  int16_t* words = nullptr;
  uint8_t* shifts = nullptr;  // shape.rows of them, also the caller's; null: all rows have one exponent
  int32_t exponent = 0;
  int32_t bits() const { return shifts == nullptr ? kWordBits : kWordBits + kRowShiftMax; }  // abs(y) <= 2^bits
};

// Words of a tensor, and where that of row r and column c stands.
size_t whole_count(Shape shape);
size_t whole_place(Shape shape, uint32_t row, uint32_t col);

// Rounds x (point.shape.size() values), with row r times the factor of column r where units is not null, to the words
// of *point, and sets its exponent, and its shifts where it has some. Halves are rounded to even. False: x is
// computed with in floats, because no value is 2^-94 or more, or one is 2^127 or more, or no number.
bool round_point(const Real* x, const Units* units, WholePoint* point);

// products (shape.cols values) <- P of one sample, shape.rows bytes. In units of 2^exponent, exact.
void multiply_bytes(const WholePoint& point, const uint8_t* sample, int64_t* products);

// offsets (shape.cols values) <- Q of the point, rounded. Before that its error is some 2^-24 of sum_r abs(q_r y_rc).
void multiply_mean(const ByteFrame& frame, const WholePoint& point, int64_t* offsets);

// Bits that P - Q loses in sum_of_squares(), so that 2^30 bounds it.
int32_t square_shift(const ByteFrame& frame, const WholePoint& point);
// sum_c ((P_c - Q_c) 2^-shift)^2. Eight columns at a time are summed exactly, and cut to 32 bits.
Real sum_of_squares(uint32_t cols, const int64_t* products, const int64_t* offsets, int32_t shift);
// The root of what a unit of sum_of_squares() stands for: scale 2^(exponent + shift). It may overflow or underflow.
Real square_unit(const ByteFrame& frame, const WholePoint& point, int32_t shift);

// |z|^2 of a sample, shape.rows bytes, in the units of the frame: the bits of dot() over what read_sample() gives.
Real squared_norm(const ByteFrame& frame, const uint8_t* sample);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_BYTE_PRODUCTS_H_
