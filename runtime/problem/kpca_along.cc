// Whole numbers, in the order of the work: mean and point, once a batch X z, once a direction X s. What a direction's
// signs are multiplied with is bytes: the samples as they lie, the point and the mean as planes (sign_products.h).
#include "runtime/base/no_contraction.h"

#include "runtime/problem/kpca_along.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "runtime/base/products.h"
#include "runtime/base/quick.h"
#include "runtime/base/units.h"
#include "runtime/problem/byte_products.h"
#include "runtime/problem/sign_products.h"

namespace gradstream {
namespace {

constexpr int32_t kByteMax = 255;
// Bytes of a number of the point, and of the mean.
constexpr uint32_t kPointPlanes = sizeof(int16_t);
constexpr uint32_t kMeanPlanes = sizeof(int32_t);
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
// What the directions of a batch share, and what the evaluations of one direction share.
struct Head {
  uint32_t is_measured = 0;   // X z stands
  uint32_t direction = 0;     // whose X s stands: its number + 1; 0: none
  int32_t fraction_bits = 0;  // of mean
  int32_t shift = 0;          // products hold X z >> shift
  uint32_t is_wide = 0;       // X s may be beyond kNarrowMax
  Real inverse_unit = 0;      // z has the whole numbers z inverse_unit
  Real inverse_scale = 0;     // of the bytes
  int32_t product_sums[kAlongColsMax];
  int64_t sums[kAlongColsMax];  // until X z stands m'z, in its unit; then those of X s over the batch
  SignColumns columns;          // of the direction; X s starts without m's, rounded to bytes
  Real rests[kAlongColsMax];    // what rounding left of it
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
  uint32_t* words;    // the signs, packed. Until X z stands, its 32 bits; then for a moment the words of the point
  uint8_t* mean;      // behind them: the planes of the mean
  int16_t* products;  // samples x cols: X z, the mean taken out
  uint8_t* z;         // until X z stands the words of a WholePoint, then the planes of its columns
};

size_t half_count(uint32_t cols) { return cols * (size_t{cols} + 1) / 2; }
// Words of the packed signs with the planes of the mean, and of what stands there before.
size_t words_count(Shape shape, uint32_t batch_size) {
  static_assert(kMeanPlanes == sizeof(uint32_t));
  const size_t signs = sign_column_words(shape) + shape.rows;
  const size_t point = (whole_count(shape) * sizeof(int16_t) + sizeof(uint32_t) - 1) / sizeof(uint32_t);
  return std::max<size_t>({signs, point, size_t{batch_size} * shape.cols});
}

size_t memory_size(Shape shape, uint32_t batch_size) {
  const size_t half = half_count(shape.cols);
  return Arena::taken_size<Head>(1) + 2 * Arena::taken_size<int64_t>(half) + 4 * Arena::taken_size<Real>(half) +
         Arena::taken_size<uint32_t>(words_count(shape, batch_size)) +
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
  work.words = take<uint32_t>(at, words_count(shape, batch_size));
  work.mean = reinterpret_cast<uint8_t*>(work.words + sign_column_words(shape));
  work.products = take<int16_t>(at, size_t{batch_size} * shape.cols);
  work.z = reinterpret_cast<uint8_t*>(take<int16_t>(at, whole_count(shape)));
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

// The nearest float, halves to even, as the language converts. Where the processor converts words alone, this takes a
// third of the library's instructions: all bits below a word count as one, since a float is shorter than that.
Real nearest(int64_t value) {
#if defined(__arm__) && defined(__ARM_FP)
  if constexpr (std::is_same_v<Real, float>) {
    constexpr uint32_t kFractionBits = 23;  // of a float
    const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    const auto high = static_cast<uint32_t>(magnitude >> 32);
    const auto low = static_cast<uint32_t>(magnitude);
    if (high != 0) {
      const auto shift = static_cast<uint32_t>(32 - std::countl_zero(high));
      const uint32_t lost = low << (32 - shift) != 0 ? 1 : 0;
      const auto word = static_cast<float>(static_cast<uint32_t>(magnitude >> shift) | lost);
      const uint32_t sign = value < 0 ? 1U << 31 : 0;
      return std::bit_cast<float>((std::bit_cast<uint32_t>(word) + (shift << kFractionBits)) | sign);
    }
    return value < 0 ? -static_cast<float>(low) : static_cast<float>(low);
  }
#endif
  return static_cast<Real>(value);
}

void store_half(uint32_t cols, const int64_t* sums, Real* half) {
  for (size_t i = 0; i < half_count(cols); ++i) {
    half[i] = nearest(sums[i]);
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

WholePoint whole_point(Shape shape, const Work& work) {
  return {shape, reinterpret_cast<int16_t*>(work.z), nullptr, 0};
}

// X z of the batch in 32 bits, samples x cols.
int32_t* wide_products(const Work& work) { return reinterpret_cast<int32_t*>(work.words); }

Status begin_batch(const SampleSource& source, Shape shape, const Real* z, const Work& work) {
  Head& head = *work.head;
  ByteFrame frame;
  WholePoint point = whole_point(shape, work);
  if (!find_byte_frame(source, nullptr, &frame) || !round_point(z, nullptr, &point)) {
    return all_finite(shape.size(), z) ? Status::kSingular : Status::kNotFinite;
  }
  place_mean(frame, shape, head);
  head.inverse_unit = static_cast<Real>(power_of_two(-point.exponent));
  std::fill_n(head.sums, shape.cols, 0);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    const int64_t mean = mean_of(frame.bytes, head, r);
    for (uint32_t c = 0; c < shape.cols; ++c) {
      head.sums[c] += mean * point.words[whole_place(shape, r, c)];
    }
  }
  for (uint32_t c = 0; c < shape.cols; ++c) {
    head.sums[c] = shifted(head.sums[c], head.fraction_bits);
  }
  return Status::kOk;
}

// Of the sample at `position` of the batch.
void multiply_point(const uint8_t* x, Shape shape, const Work& work, uint32_t position) {
  const Head& head = *work.head;
  int64_t sums[kAlongColsMax];
  multiply_bytes(whole_point(shape, work), x, sums);
  int32_t* const out = wide_products(work) + size_t{position} * shape.cols;
  for (uint32_t c = 0; c < shape.cols; ++c) {
    out[c] = static_cast<int32_t>(shifted(sums[c] - head.sums[c], head.shift));
  }
}

// Brings the point and the mean into planes, and takes z'z.
void make_planes(const SampleBytes& bytes, Shape shape, const Work& work) {
  int16_t* const words = reinterpret_cast<int16_t*>(work.words);
  std::copy_n(reinterpret_cast<const int16_t*>(work.z), whole_count(shape), words);
  int64_t sums[kHalfMax] = {};
  for (uint32_t r = 0; r < shape.rows; ++r) {
    int16_t row[kAlongColsMax];
    for (uint32_t c = 0; c < shape.cols; ++c) {
      row[c] = words[whole_place(shape, r, c)];
      store_planes(row[c], kPointPlanes, shape.rows, work.z + size_t{c} * kPointPlanes * shape.rows + r);
    }
    add_squares(shape.cols, row, sums);
  }
  store_half(shape.cols, sums, work.gram);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    store_planes(mean_of(bytes, *work.head, r), kMeanPlanes, shape.rows, work.mean + r);
  }
}

// Brings X z to 16 bits, and takes what no direction changes.
void end_batch(const SampleBytes& bytes, Shape shape, uint32_t count, const Work& work) {
  Head& head = *work.head;
  const int32_t* const wide = wide_products(work);
  const size_t size = size_t{count} * shape.cols;
  int32_t largest = 0;
  for (size_t i = 0; i < size; ++i) {
    largest = std::max(largest, wide[i] < 0 ? -wide[i] : wide[i]);
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
      q[c] = static_cast<int16_t>(shifted(wide[size_t{i} * shape.cols + c], bits));
      head.product_sums[c] += q[c];
    }
    add_squares(shape.cols, q, sums);
  }
  store_half(shape.cols, sums, work.explained);
  make_planes(bytes, shape, work);
  head.is_measured = 1;
  head.direction = 0;
}

// ---- Once a direction ----

void begin_direction(Shape shape, const uint32_t* signs, const Work& work) {
  Head& head = *work.head;
  SignColumns& columns = head.columns;
  columns.shape = shape;
  columns.words = work.words;
  const size_t half = half_count(shape.cols);
  int32_t agreement[kHalfMax];
  pack_signs(signs, &columns, agreement);
  std::copy_n(agreement, half, work.agreement);
  int32_t products[kAlongColsMax * kAlongColsMax];  // z's
  for (uint32_t a = 0; a < shape.cols; ++a) {
    multiply_planes(columns, work.z + size_t{a} * kPointPlanes * shape.rows, kPointPlanes,
                    products + size_t{a} * kAlongColsMax);
  }
  Real* side = work.side;
  for (uint32_t a = 0; a < shape.cols; ++a) {
    for (uint32_t b = a; b < shape.cols; ++b) {
      *side++ = nearest(int64_t{products[a * kAlongColsMax + b]} + products[b * kAlongColsMax + a]);
    }
  }
  int32_t means[kAlongColsMax];
  multiply_planes(columns, work.mean, kMeanPlanes, means);
  const Real one = static_cast<Real>(1U << head.fraction_bits);
  for (uint32_t c = 0; c < shape.cols; ++c) {
    const auto center = static_cast<int32_t>(shifted(means[c], head.fraction_bits));
    columns.starts[c] -= center;
    head.rests[c] = static_cast<Real>(means[c] - center * (1 << head.fraction_bits)) / one;
  }
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

#if defined(__ARM_FEATURE_SIMD32)

constexpr uint32_t kColsOfPairs = 4;

uint32_t halves(int32_t low, int32_t high) { return static_cast<uint16_t>(low) | static_cast<uint32_t>(high) << 16; }

// sum and two products of 16 bits: low by low and high by high, or across.
[[gnu::always_inline]] inline int64_t add_straight(uint32_t a, uint32_t b, int64_t sum) {
  asm("smlald %Q0, %R0, %1, %2" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}
[[gnu::always_inline]] inline int64_t add_across(uint32_t a, uint32_t b, int64_t sum) {
  asm("smlaldx %Q0, %R0, %1, %2" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}

// add_products() of kColsOfPairs columns and magnitudes up to kNarrowMax, by two products an instruction.
GS_QUICK void add_pairs(const Pass& pass, int64_t* cross, int64_t* square) {
  uint32_t first[kColsOfPairs];   // q and w of the first sample
  uint32_t second[kColsOfPairs];  // of the second
  uint32_t both[kColsOfPairs];    // w of both
#pragma GCC unroll 4
  for (uint32_t c = 0; c < kColsOfPairs; ++c) {
    first[c] = halves(pass.q[0][c], pass.w[0][c]);
    second[c] = halves(pass.q[1][c], pass.w[1][c]);
    both[c] = halves(pass.w[0][c], pass.w[1][c]);
  }
#pragma GCC unroll 4
  for (uint32_t a = 0; a < kColsOfPairs; ++a) {
#pragma GCC unroll 4
    for (uint32_t b = a; b < kColsOfPairs; ++b) {
      *cross = add_across(second[a], second[b], add_across(first[a], first[b], *cross));
      *square = add_straight(both[a], both[b], *square);
      ++cross;
      ++square;
    }
  }
}

#endif

void add_pass(uint32_t cols, bool is_wide, const Pass& pass, int64_t* cross, int64_t* square) {
#if defined(__ARM_FEATURE_SIMD32)
  if (cols == kColsOfPairs && !is_wide) {
    add_pairs(pass, cross, square);
    return;
  }
#endif
  if (kMultipliesLong || is_wide) {
    add_products<int64_t>(cols, pass, cross, square);
  } else {
    add_products<int32_t>(cols, pass, cross, square);
  }
}

// Adds `count` samples, x[0 .. count), from `position` of the batch on.
void multiply_direction(const uint8_t* const* x, uint32_t count, Shape shape, const Work& work, uint32_t position) {
  Head& head = *work.head;
  Pass pass;  // NOLINT: all of it is filled below, and zeros would cost an instruction each
  multiply_signs(head.columns, x[0], x[count - 1], pass.w[0], pass.w[1]);
  pass.q[0] = work.products + size_t{position} * shape.cols;
  pass.q[1] = pass.q[0] + (count - 1) * shape.cols;
  if (count < kSamplesOfPass) {
    std::fill_n(pass.w[1], kAlongColsMax, 0);
  }
  for (uint32_t c = 0; c < shape.cols; ++c) {
    head.sums[c] += int64_t{pass.w[0][c]} + pass.w[1][c];
  }
  add_pass(shape.cols, head.is_wide != 0, pass, work.cross, work.square);
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
  const Real scale = static_cast<Real>(power_of_two(head.shift));  // of X z
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
      const Real cross = nearest(work.cross[i]) - (static_cast<Real>(head.product_sums[a]) * rest_b +
                                                   static_cast<Real>(head.product_sums[b]) * rest_a);
      const Real square = nearest(work.square[i]) - (nearest(head.sums[a]) * rest_b + nearest(head.sums[b]) * rest_a) +
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
    end_batch(*source.bytes, shape, batch.count, work);
  }
  if (point.signs != nullptr && head.direction != point.number + 1) {
    if (progress.position == 0) {
      begin_direction(shape, point.signs, work);
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
