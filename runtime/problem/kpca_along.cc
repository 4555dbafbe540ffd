// Whole numbers, in the order of the work: mean and point, once a batch X z, once a direction X s. The products of a
// sample with two columns of signs stand in the halves of one word, so that one multiplication makes both.
#include "runtime/base/no_contraction.h"

#include "runtime/problem/kpca_along.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/products.h"
#include "runtime/base/units.h"
#include "runtime/problem/byte_products.h"

// Nearly all of the instructions are in functions that begin with this. With -Os GCC keeps their sums on the stack,
// which takes 1.6 times as many of them.
#if defined(__OPTIMIZE_SIZE__) && !defined(__clang__)
#define GS_QUICK [[gnu::optimize("O2"), gnu::noinline]]
#else
#define GS_QUICK
#endif

namespace gradstream {
namespace {

// Rows whose products with two columns of signs fit the halves of a word: 128 x 255 < 2^15.
constexpr uint32_t kPackedRowsMax = 128;
constexpr uint32_t kSignWordBits = 32;
constexpr int32_t kByteMax = 255;
// Columns that are multiplied in one pass over a sample, two in a word, and samples of a pass. Reason: their sums stay
// in registers.
constexpr uint32_t kColsOfPass = 4;
constexpr uint32_t kWordsOfPass = 2;
constexpr uint32_t kSamplesOfPass = 2;
// Fractional bits of the mean, in bytes: as many as its sums leave, and no more than a float has below 2^8.
constexpr int32_t kFractionBitsMax = 16;
constexpr int32_t kMeanSumBits = 30;
// Largest field of the exponent of (1 / scale) 2^bits, which is a float: abs(1 / scale) < 2^(ratio_field - 126).
constexpr int32_t kRatioFieldMax = 254;
// Largest magnitude of what is multiplied in 32 bits: the sum of two products fits.
constexpr int32_t kNarrowMax = 32767;
// Of a column of A, the part normal to the columns before it must have this share of the square. Reason: below it the
// products have lost six bits of a float.
constexpr Real kNormalShareMin = static_cast<Real>(1.0 / 64);
constexpr size_t kHalfMax = kAlongColsMax * (kAlongColsMax + 1) / 2;
// Rows of a WholePoint that stand together in memory, at most.
constexpr uint32_t kRowsOfGroup = 4;

// What the directions of a batch share, and what the evaluations of one direction share.
struct Head {
  uint32_t is_measured;   // X z stands
  uint32_t direction;     // whose X s stands: its number + 1; 0: none
  int32_t fraction_bits;  // of mean
  int32_t shift;          // products hold X z >> shift
  uint32_t is_wide;       // X s may be beyond kNarrowMax
  Real inverse_unit;      // z has the whole numbers z inverse_unit
  Real inverse_scale;     // of the bytes
  int32_t product_sums[kAlongColsMax];
  int64_t sums[kAlongColsMax];     // until X z stands m'z, in its unit; then those of X s over the batch
  int32_t centers[kAlongColsMax];  // m's, rounded to bytes, which X s leaves out
  Real rests[kAlongColsMax];       // what rounding left of it
};

// Views into the memory. `half` numbers are the upper half of a cols x cols matrix, row by row.
struct Work {
  Head* head;
  int64_t* cross;     // half: (Xz)'Xs + (Xs)'Xz
  int64_t* square;    // half: (Xs)'Xs
  Real* gram;         // half: z'z
  Real* explained;    // half: (Xz)'Xz
  Real* side;         // half: z's + s'z
  Real* agreement;    // half: s's
  int32_t* packed;    // pass by pass, row by row kWordsOfPass: s of a column + 2^16 s of the next, 0 where none is
  int16_t* products;  // samples x cols: X z, the mean taken out. Until it stands, its 32 bits are in `packed`
  int16_t* z;         // the words of a WholePoint; once X z stands, row by row
};

size_t half_count(uint32_t cols) { return cols * (size_t{cols} + 1) / 2; }
// Words of the packed signs, and of the products before.
size_t packed_count(Shape shape, uint32_t batch_size) {
  const size_t count = size_t{shape.rows} * ((shape.cols + kColsOfPass - 1) / kColsOfPass) * kWordsOfPass;
  return max_size(count, size_t{batch_size} * shape.cols);
}

size_t memory_size(Shape shape, uint32_t batch_size) {
  const size_t half = half_count(shape.cols);
  return Arena::taken_size<Head>(1) + 2 * Arena::taken_size<int64_t>(half) + 4 * Arena::taken_size<Real>(half) +
         Arena::taken_size<int32_t>(packed_count(shape, batch_size)) +
         Arena::taken_size<int16_t>(size_t{batch_size} * shape.cols) + Arena::taken_size<int16_t>(whole_count(shape));
}

template <typename T>
T* take(uint8_t*& at, size_t count) {
  T* const out = reinterpret_cast<T*>(at);
  at += Arena::taken_size<T>(count);
  return out;
}

Work carve(uint8_t* at, Shape shape, uint32_t batch_size) {
  const size_t half = half_count(shape.cols);
  Work work = {};
  work.head = take<Head>(at, 1);
  work.cross = take<int64_t>(at, half);
  work.square = take<int64_t>(at, half);
  work.gram = take<Real>(at, half);
  work.explained = take<Real>(at, half);
  work.side = take<Real>(at, half);
  work.agreement = take<Real>(at, half);
  work.packed = take<int32_t>(at, packed_count(shape, batch_size));
  work.products = take<int16_t>(at, size_t{batch_size} * shape.cols);
  work.z = take<int16_t>(at, whole_count(shape));
  return work;
}

// Fractional bits that the sums of the mean over `rows` rows leave it, and a tiny scale; negative: there is no room.
int32_t mean_fraction_bits(const ByteFrame& frame, uint32_t rows) {
  const int32_t bits = kMeanSumBits - (frame.range_bits + 1) -
                       static_cast<int32_t>(std::bit_width(rows - 1));  // abs(q) < abs(b - q) + 2^8
  return std::min({bits, kFractionBitsMax, kRatioFieldMax - frame.ratio_field});
}

int32_t rounded(Real value) {
  constexpr Real kHalf = static_cast<Real>(0.5);
  return static_cast<int32_t>(value < 0 ? value - kHalf : value + kHalf);
}
// value / 2^bits, rounded to the nearest.
int64_t shifted(int64_t value, int32_t bits) {
  return bits == 0 ? value : (value + (int64_t{1} << (bits - 1))) >> bits;
}

// Adds the products of cols values with each other to an upper half.
template <typename T>
void add_squares(uint32_t cols, const T* values, int64_t* half) {
  for (; cols > 0; --cols, ++values) {
    for (uint32_t i = 0; i < cols; ++i) {
      *half++ += int32_t{values[0]} * values[i];
    }
  }
}

void store_half(uint32_t cols, const int64_t* sums, Real* half) {
  for (size_t i = 0; i < half_count(cols); ++i) {
    half[i] = static_cast<Real>(sums[i]);
  }
}

// ---- Once a batch ----

// The mean of row r in bytes, with fraction_bits.
int32_t mean_of(const SampleBytes& bytes, const Head& head, uint32_t r) {
  float mean = 0;
  if (bytes.mean != nullptr) {
    std::memcpy(&mean, static_cast<const uint8_t*>(bytes.mean) + sizeof(mean) * r, sizeof(mean));
  }
  return rounded(static_cast<Real>(mean) * head.inverse_scale);
}

// How the mean is made a whole number, and how large X s and X z can be.
void place_mean(const ByteFrame& frame, Shape shape, Head& head) {
  head.fraction_bits = mean_fraction_bits(frame, shape.rows);
  head.inverse_scale = static_cast<Real>(1U << head.fraction_bits) / static_cast<Real>(frame.bytes.scale);
  const int64_t most = int64_t{kByteMax} << head.fraction_bits;
  int64_t sum = 0;  // of the largest magnitudes of a centered byte
  for (uint32_t r = 0; r < shape.rows; ++r) {
    const int64_t mean = mean_of(frame.bytes, head, r);
    sum += std::max(mean < 0 ? -mean : mean, most - mean);
  }
  const int64_t largest = (sum >> head.fraction_bits) + 1;
  head.is_wide = largest > kNarrowMax ? 1 : 0;
  head.shift = 0;
  while (largest << kWordBits >> head.shift > INT32_MAX / 2) {
    ++head.shift;
  }
}

WholePoint whole_point(Shape shape, const Work& work) { return {shape, work.z, nullptr, 0}; }

Status begin_batch(const SampleSource& source, Shape shape, const Real* z, const Work& work) {
  Head& head = *work.head;
  ByteFrame frame;
  WholePoint point = whole_point(shape, work);
  if (!find_byte_frame(source, nullptr, &frame) || !round_point(z, nullptr, &point)) {
    return all_finite(shape.size(), z) ? Status::kSingular : Status::kNotFinite;
  }
  place_mean(frame, shape, head);
  head.inverse_unit = static_cast<Real>(power_of_two(-point.exponent));
  for (uint32_t c = 0; c < shape.cols; ++c) {
    int64_t sum = 0;
    for (uint32_t r = 0; r < shape.rows; ++r) {
      sum += int64_t{mean_of(frame.bytes, head, r)} * work.z[whole_place(shape, r, c)];
    }
    head.sums[c] = shifted(sum, head.fraction_bits);
  }
  return Status::kOk;
}

// Of the sample at `position` of the batch.
void multiply_point(const uint8_t* x, Shape shape, const Work& work, uint32_t position) {
  const Head& head = *work.head;
  int64_t sums[kAlongColsMax];
  multiply_bytes(whole_point(shape, work), x, sums);
  int32_t* const out = work.packed + size_t{position} * shape.cols;
  for (uint32_t c = 0; c < shape.cols; ++c) {
    out[c] = static_cast<int32_t>(shifted(sums[c] - head.sums[c], head.shift));
  }
}

// Brings the words of the point, which stand as whole_place() says, in the order of its rows. Those of kRowsOfGroup
// rows keep their place as a whole.
void order_rows(Shape shape, int16_t* words) {
  int16_t group[kRowsOfGroup * kAlongColsMax];
  const size_t size = kRowsOfGroup * size_t{shape.cols};
  for (uint32_t first = 0; first < shape.rows; first += kRowsOfGroup) {
    const size_t begin = size_t{first} * shape.cols;
    const uint32_t rows = std::min(shape.rows - first, kRowsOfGroup);
    std::copy_n(words + begin, std::min(size, whole_count(shape) - begin), group);
    for (uint32_t e = 0; e < rows * shape.cols; ++e) {
      words[begin + e] = group[whole_place(shape, first + e / shape.cols, e % shape.cols) - begin];
    }
  }
}

// Brings X z to 16 bits, and takes what no direction changes.
void end_batch(Shape shape, uint32_t count, const Work& work) {
  Head& head = *work.head;
  const size_t size = size_t{count} * shape.cols;
  int32_t largest = 0;
  for (size_t i = 0; i < size; ++i) {
    largest = std::max(largest, work.packed[i] < 0 ? -work.packed[i] : work.packed[i]);
  }
  int32_t bits = 0;
  while (largest >> bits >= kNarrowMax) {
    ++bits;
  }
  head.shift += bits;
  int64_t sums[kHalfMax] = {};
  std::fill_n(head.product_sums, shape.cols, 0);
  for (uint32_t i = 0; i < count; ++i) {
    int16_t* const q = work.products + size_t{i} * shape.cols;
    for (uint32_t c = 0; c < shape.cols; ++c) {
      q[c] = static_cast<int16_t>(shifted(work.packed[size_t{i} * shape.cols + c], bits));
      head.product_sums[c] += q[c];
    }
    add_squares(shape.cols, q, sums);
  }
  store_half(shape.cols, sums, work.explained);
  order_rows(shape, work.z);
  std::fill_n(sums, half_count(shape.cols), 0);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    add_squares(shape.cols, work.z + size_t{r} * shape.cols, sums);
  }
  store_half(shape.cols, sums, work.gram);
  head.is_measured = 1;
  head.direction = 0;
}

// ---- Once a direction ----

// Packs the signs, and takes s's.
GS_QUICK void pack_signs(Shape shape, const uint32_t* signs, const Work& work) {
  const uint32_t cols = shape.cols;
  uint32_t masks[kAlongColsMax] = {};  // of the signs of up to 32 rows
  int32_t agreement[kHalfMax] = {};
  for (uint32_t r = 0, e = 0; r < shape.rows; ++r, e += cols) {
    const uint32_t at = e % kSignWordBits;
    uint32_t bits = signs[e / kSignWordBits] >> at;  // of the row
    if (at + cols > kSignWordBits) {
      bits |= signs[e / kSignWordBits + 1] << (kSignWordBits - at);
    }
    bits &= (1U << cols) - 1;
    uint32_t ones = (1U << cols) - 1;
    for (uint32_t c = 0; c < cols; ++c) {
      masks[c] = masks[c] << 1 | (bits >> c & 1);
    }
    int32_t* packed = work.packed + size_t{r} * kWordsOfPass;
    for (uint32_t first = 0; first < cols; first += kColsOfPass, packed += size_t{shape.rows} * kWordsOfPass) {
      for (uint32_t i = 0; i < kWordsOfPass; ++i, bits >>= 2, ones >>= 2) {  // 2 bit - 1, where there is a column
        const uint32_t word = (bits & 1) * 2 + (bits & 2) * 0x10000 - ((ones & 1) + (ones & 2) * 0x8000);
        packed[i] = static_cast<int32_t>(word);
      }
    }
    if (r % kSignWordBits == kSignWordBits - 1 || r + 1 == shape.rows) {
      const auto rows = static_cast<int32_t>(r % kSignWordBits + 1);
      int32_t* sum = agreement;
      for (uint32_t a = 0; a < cols; ++a) {
        for (uint32_t b = a; b < cols; ++b) {
          *sum++ += rows - 2 * std::popcount(masks[a] ^ masks[b]);
        }
      }
      std::fill_n(masks, cols, 0);
    }
  }
  for (size_t i = 0; i < half_count(cols); ++i) {
    work.agreement[i] = static_cast<Real>(agreement[i]);
  }
}

// out[0 .. kColsOfPass) <- the products of a column, value_of(row), with as many of signs.
template <typename ValueOf>
GS_QUICK void multiply_column(ValueOf value_of, uint32_t rows, const int32_t* packed, int32_t* out) {
  int32_t sums[kColsOfPass] = {};
  for (uint32_t r = 0; r < rows; ++r) {
    const int32_t value = value_of(r);
#pragma GCC unroll 2
    for (uint32_t i = 0; i < kWordsOfPass; ++i) {
      const int32_t word = *packed++;
      sums[2 * i] += value * static_cast<int16_t>(word);
      sums[2 * i + 1] += value * ((word + 0x8000) >> 16);
    }
  }
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kColsOfPass; ++i) {
    out[i] = sums[i];
  }
}

// out[c] <- the products of a column with the signs of column c; room for kAlongColsMax.
template <typename ValueOf>
void multiply_columns(ValueOf value_of, Shape shape, const Work& work, int32_t* out) {
  const int32_t* packed = work.packed;
  for (uint32_t c = 0; c < shape.cols; c += kColsOfPass, packed += size_t{shape.rows} * kWordsOfPass) {
    multiply_column(value_of, shape.rows, packed, out + c);
  }
}

// Adds the halves of a word of sums to two sums.
void add_halves(int32_t word, int32_t* sums) {
  const int32_t low = static_cast<int16_t>(word);
  sums[0] += low;
  sums[1] += (word - low) >> 16;
}

// first and second [0 .. kColsOfPass) <- the products of two samples, x and y, with as many columns of signs.
GS_QUICK void multiply_samples(const uint8_t* x, const uint8_t* y, uint32_t rows, const int32_t* packed, int32_t* first,
                               int32_t* second) {
  for (uint32_t c = 0; c < kColsOfPass; ++c) {
    first[c] = second[c] = 0;
  }
  while (rows > 0) {
    const uint32_t count = std::min(rows, kPackedRowsMax);
    int32_t x0 = 0, x1 = 0, y0 = 0, y1 = 0;
    const auto add_row = [&]() __attribute__((always_inline)) {
      const int32_t x_value = *x++;
      const int32_t y_value = *y++;
      const int32_t word0 = *packed++;
      x0 += x_value * word0;
      y0 += y_value * word0;
      const int32_t word1 = *packed++;
      x1 += x_value * word1;
      y1 += y_value * word1;
    };
    uint32_t left = count;
    if (left % 2 != 0) {
      add_row();
    }
    for (left /= 2; left > 0; --left) {
      add_row();
      add_row();
    }
    add_halves(x0, first);
    add_halves(x1, first + 2);
    add_halves(y0, second);
    add_halves(y1, second + 2);
    rows -= count;
  }
}

void begin_direction(const SampleBytes& bytes, Shape shape, const uint32_t* signs, const Work& work) {
  Head& head = *work.head;
  pack_signs(shape, signs, work);
  int32_t products[kAlongColsMax * kAlongColsMax];  // z's
  for (uint32_t a = 0; a < shape.cols; ++a) {
    const int16_t* const column = work.z + a;
    multiply_columns([column, shape](uint32_t r) -> int32_t { return column[size_t{r} * shape.cols]; }, shape, work,
                     products + size_t{a} * kAlongColsMax);
  }
  Real* side = work.side;
  for (uint32_t a = 0; a < shape.cols; ++a) {
    for (uint32_t b = a; b < shape.cols; ++b) {
      *side++ = static_cast<Real>(int64_t{products[a * kAlongColsMax + b]} + products[b * kAlongColsMax + a]);
    }
  }
  int32_t means[kAlongColsMax];
  multiply_columns([&bytes, &head](uint32_t r) { return mean_of(bytes, head, r); }, shape, work, means);
  const Real one = static_cast<Real>(1U << head.fraction_bits);
  for (uint32_t c = 0; c < shape.cols; ++c) {
    head.centers[c] = static_cast<int32_t>(shifted(means[c], head.fraction_bits));
    head.rests[c] = static_cast<Real>(means[c] - head.centers[c] * (1 << head.fraction_bits)) / one;
  }
  const size_t half = half_count(shape.cols);
  std::fill_n(work.cross, half, 0);
  std::fill_n(work.square, half, 0);
  std::fill_n(head.sums, shape.cols, 0);
}

// X z and X s of the samples of a pass; w has zeros for one that is not there.
struct Pass {
  const int16_t* q[kSamplesOfPass];
  int32_t w[kSamplesOfPass][kAlongColsMax];
};

// Product: a type that the sum of two products fits.
template <typename Product>
GS_QUICK void add_products(uint32_t cols, const Pass& pass, int64_t* cross, int64_t* square) {
  for (uint32_t a = 0; a < cols; ++a) {
    const int16_t* const q0 = pass.q[0];
    const int16_t* const q1 = pass.q[1];
    const int32_t* const w0 = pass.w[0];
    const int32_t* const w1 = pass.w[1];
    const Product q0_a = q0[a], q1_a = q1[a], w0_a = w0[a], w1_a = w1[a];
    for (uint32_t b = a; b < cols; ++b) {
      int64_t sum = *cross;
      sum += q0_a * w0[b] + w0_a * q0[b];
      sum += q1_a * w1[b] + w1_a * q1[b];
      *cross++ = sum;
    }
    for (uint32_t b = a; b < cols; ++b) {
      int64_t sum = *square;
      sum += w0_a * w0[b];
      sum += w1_a * w1[b];
      *square++ = sum;
    }
  }
}

// Whether a product of 64 bits takes one instruction. Without it those of 32 bits are worth code of their own.
#if defined(__ARM_ARCH_6M__)
constexpr bool kMultipliesLong = false;
#else
constexpr bool kMultipliesLong = true;
#endif

// Adds `count` samples, x[0 .. count), from `position` of the batch on.
void multiply_direction(const uint8_t* const* x, uint32_t count, Shape shape, const Work& work, uint32_t position) {
  Head& head = *work.head;
  Pass pass = {};
  const int32_t* packed = work.packed;
  for (uint32_t c = 0; c < shape.cols; c += kColsOfPass, packed += size_t{shape.rows} * kWordsOfPass) {
    multiply_samples(x[0], x[count - 1], shape.rows, packed, pass.w[0] + c, pass.w[1] + c);
  }
  for (uint32_t i = 0; i < kSamplesOfPass; ++i) {
    pass.q[i] = work.products + size_t{position + (i < count ? i : 0)} * shape.cols;
    for (uint32_t c = 0; c < shape.cols; ++c) {
      const int32_t value = i < count ? pass.w[i][c] - head.centers[c] : 0;
      pass.w[i][c] = value;
      head.sums[c] += value;
    }
  }
  if (kMultipliesLong || head.is_wide != 0) {
    add_products<int64_t>(shape.cols, pass, work.cross, work.square);
  } else {
    add_products<int32_t>(shape.cols, pass, work.cross, work.square);
  }
}

// ---- Once a point ----

// tr(G^(-1) Q), the upper halves of both; both are spoilt. Gaussian elimination of G takes Q along as a congruence, and
// its pivots divide what is left on the diagonal. kSingular: a pivot is too small a share of its diagonal entry.
Result<Real> trace_of_quotient(uint32_t cols, Real* g, Real* q) {
  Real diagonal[kAlongColsMax];
  for (size_t c = 0, at = 0; c < cols; at += cols - c, ++c) {
    diagonal[c] = g[at];
  }
  Real trace = 0;
  for (uint32_t i = 0; i < cols; ++i) {
    const uint32_t width = cols - i;  // of the row of the pivot, which g and q begin with
    const Real pivot = g[0];
    if (!(pivot > 0 && pivot >= kNormalShareMin * diagonal[i])) {
      return Status::kSingular;
    }
    const Real inverse = 1 / pivot;
    const Real share = q[0];
    trace += share * inverse;
    Real* next_g = g + width;
    Real* next_q = q + width;
    for (uint32_t a = 1; a < width; ++a) {
      const Real factor = g[a] * inverse;
      const Real rest = (q[a] - factor * share) * inverse;
      for (uint32_t b = a; b < width; ++b) {
        *next_g++ -= factor * g[b];
        *next_q++ -= factor * q[b] + g[b] * rest;
      }
    }
    g += width;
    q += width;
  }
  return trace;
}

// The loss at z + distance s, from the sums.
Result<Real> combine(Real scale_of_byte, Shape shape, Real distance, uint32_t count, const Work& work) {
  const Head& head = *work.head;
  const Real step = distance * head.inverse_unit;
  const Real squared = step * step;
  const Real scale = static_cast<Real>(uint64_t{1} << head.shift);  // of X z
  Real g[kHalfMax];
  Real q[kHalfMax];
  size_t i = 0;
  for (uint32_t a = 0; a < shape.cols; ++a) {
    for (uint32_t b = a; b < shape.cols; ++b, ++i) {
      g[i] = work.gram[i];
      q[i] = scale * scale * work.explained[i];
      if (distance == 0) {
        continue;
      }
      const Real rest_a = head.rests[a];
      const Real rest_b = head.rests[b];
      const Real cross = static_cast<Real>(work.cross[i]) - (static_cast<Real>(head.product_sums[a]) * rest_b +
                                                             static_cast<Real>(head.product_sums[b]) * rest_a);
      const Real square = static_cast<Real>(work.square[i]) -
                          (static_cast<Real>(head.sums[a]) * rest_b + static_cast<Real>(head.sums[b]) * rest_a) +
                          static_cast<Real>(count) * (rest_a * rest_b);
      g[i] += step * work.side[i] + squared * work.agreement[i];
      q[i] += scale * step * cross + squared * square;
    }
  }
  const Result<Real> trace = trace_of_quotient(shape.cols, g, q);
  GS_TRY(trace.status());
  return static_cast<Real>(-0.5) * (scale_of_byte * scale_of_byte) * trace.value() / static_cast<Real>(count);
}

// visit(x, count, position) for the samples from progress.position on, x[0 .. count) at a time. kUnfinished: the call's
// work is done.
template <uint32_t count_max, typename Visit>
Status visit_bytes(const SampleSource& source, Batch batch, EvaluationProgress& progress, Visit visit) {
  while (progress.position < batch.count) {
    const uint8_t* x[count_max];
    uint32_t count = 0;
    while (count < count_max && progress.position + count < batch.count && progress.take_unit()) {
      x[count] = source.bytes->values + size_t{batch.at(progress.position + count)} * source.dimension;
      ++count;
    }
    if (count == 0) {
      return Status::kUnfinished;
    }
    visit(x, count, progress.position);
    progress.position += count;
  }
  progress.position = 0;
  return Status::kOk;
}

}  // namespace

size_t kpca_along_size(const void* context, Shape shape, uint32_t batch_size) {
  const SampleSource& source = source_of(context);
  ByteFrame frame;
  const bool fits = source.bytes != nullptr && shape.cols <= kAlongColsMax &&
                    uint64_t{batch_size} * shape.cols <= kAlongProductsMax &&
                    find_byte_frame(source, nullptr, &frame) && mean_fraction_bits(frame, shape.rows) >= 0;
  return fits ? memory_size(shape, batch_size) : 0;
}

Result<Real> kpca_loss_along(const void* context, Shape shape, const SignDisplacement& point, Batch batch, void* memory,
                             Arena&) {
  const SampleSource& source = source_of(context);
  const Work work = carve(static_cast<uint8_t*>(memory), shape, batch.count);
  Head& head = *work.head;
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (head.is_measured == 0) {
    if (progress.position == 0) {
      GS_TRY(begin_batch(source, shape, point.z, work));
    }
    GS_TRY(visit_bytes<1>(source, batch, progress, [&](const uint8_t* const* x, uint32_t, uint32_t position) {
      multiply_point(x[0], shape, work, position);
    }));
    end_batch(shape, batch.count, work);
  }
  if (point.signs != nullptr && head.direction != point.number + 1) {
    if (progress.position == 0) {
      begin_direction(*source.bytes, shape, point.signs, work);
    }
    GS_TRY(visit_bytes<kSamplesOfPass>(source, batch, progress,
                                       [&](const uint8_t* const* x, uint32_t count, uint32_t position) {
                                         multiply_direction(x, count, shape, work, position);
                                       }));
    head.direction = point.number + 1;
  }
  const Real distance = point.signs == nullptr ? 0 : point.distance;
  return combine(static_cast<Real>(source.bytes->scale), shape, distance, batch.count, work);
}

}  // namespace gradstream
