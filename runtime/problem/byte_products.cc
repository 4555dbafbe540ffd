#include "runtime/base/no_contraction.h"

#include "runtime/problem/byte_products.h"

#include <bit>
#include <cstring>

namespace gradstream {
namespace {

constexpr uint32_t kFractionBits = 23;
constexpr uint32_t kMagnitudeMask = 0x7FFFFFFF;
constexpr int32_t kFieldMax = 255;
constexpr int32_t kFieldBias = 126;  // abs(value) < 2^(field - kFieldBias)
// Least field of a point's largest value. Reason: the least unit, 2^(field - 155), is then a normal number.
constexpr int32_t kPointFieldMin = 33;
// Rows whose products are summed in 32 bits: 255 x 32,767 x 256 < 2^31.
constexpr uint32_t kRowsOfSum = 256;
constexpr uint32_t kLaneCount = 4;
// Bits of a mean, of the sum of Q, and of the scale's reciprocal, which multiplies that sum.
constexpr int32_t kMeanSumBits = 38;
constexpr int32_t kMeanBits = 30;
constexpr int32_t kRatioBits = 24;
// Bits of P - Q that is squared, and how many squares a sum of 64 bits takes.
constexpr int32_t kDifferenceBits = 30;
constexpr uint32_t kSquareCount = 8;

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32)
#define GS_TWO_PRODUCTS 1
constexpr uint32_t kRowsTogether = 4;  // rows whose words lie together, column by column
#else
constexpr uint32_t kRowsTogether = 1;
#endif

static_assert(std::endian::native == std::endian::little, "a shard's mean is read as it lies");

int32_t field_of(uint32_t bits) { return static_cast<int32_t>(bits >> kFractionBits) & kFieldMax; }

uint32_t bits_of(Real value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }

// The least n with count <= 2^n; count >= 1.
int32_t log_of(uint32_t count) { return static_cast<int32_t>(std::bit_width(count - 1)); }

// The float's value times 2^(width - (field - kFieldBias)), rounded, halves to even; field >= that of the value.
[[gnu::always_inline]] inline int32_t round_bits(uint32_t bits, int32_t field, int32_t width) {
  const int32_t own = field_of(bits);
  const int32_t shift = field - own + 24 - width;
  if (own == 0 || shift > 24) {
    return 0;
  }
  const uint32_t mantissa = (bits & ((1U << kFractionBits) - 1)) | 1U << kFractionBits;
  const uint32_t below_half = shift <= 0 ? 0 : (1U << (shift - 1)) - 1;
  const uint32_t magnitude =
      shift <= 0 ? mantissa << -shift : (mantissa + below_half + (mantissa >> shift & 1)) >> shift;
  return bits >> 31 != 0 ? -static_cast<int32_t>(magnitude) : static_cast<int32_t>(magnitude);
}

// The same, for where it is not called for each value of a point.
int32_t whole_of_bits(uint32_t bits, int32_t field, int32_t width) { return round_bits(bits, field, width); }

// mean_r of the shard.
float mean_of(const SampleBytes& bytes, uint32_t r) {
  float mean = 0;
  if (bytes.mean != nullptr) {
    std::memcpy(&mean, static_cast<const uint8_t*>(bytes.mean) + sizeof(float) * r, sizeof(float));
  }
  return mean;
}

// mean_r + unit_r.
uint32_t mean_bits(const SampleBytes& bytes, const Units* units, uint32_t r) {
  const Real mean = static_cast<Real>(mean_of(bytes, r));
  return bits_of(kTakesUnits && units != nullptr ? mean + static_cast<Real>(units->columns[r].mean) : mean);
}

Real factor_of(const Units* units, uint32_t r) {
  return units == nullptr ? 1 : static_cast<Real>(units->columns[r].factor);
}

// One word of a point, of the bits of whole_of_bits() for a width of kWordBits.
class WordRounding {
 public:
#if defined(__arm__) && !defined(__ARM_FP)
  explicit WordRounding(int32_t field) : field_(field) {}
  int16_t word_of(Real value) const { return static_cast<int16_t>(round_bits(bits_of(value), field_, kWordBits)); }

 private:
  int32_t field_;
#else
  // With registers for floats: a sum whose unit is 1 is rounded by the processor, and has the word in its lowest bits.
  explicit WordRounding(int32_t field) : factor_(power_of_two(kWordBits - field + kFieldBias)) {}
  int16_t word_of(Real value) const {
    const float sum = static_cast<float>(value) * factor_ + 0x1.8p23F;
    return static_cast<int16_t>(std::bit_cast<uint32_t>(sum));
  }

 private:
  float factor_;
#endif
};

// whole_place(), in loops.
[[gnu::always_inline]] inline size_t place_of(uint32_t cols, uint32_t row, uint32_t col) {
  if constexpr (kRowsTogether == 1) {
    return size_t{row} * cols + col;
  } else {
    // Rows 0, 2, 1, 3: the two bits of the row's number change places.
    return (size_t{row / kRowsTogether} * cols + col) * kRowsTogether + ((row & 1) << 1 | (row >> 1 & 1));
  }
}

int64_t shift_rounded(int64_t value, int32_t shift) {
  return shift == 0 ? value : (value + (int64_t{1} << (shift - 1))) >> shift;
}

// The nearest float to a sum of which more than 32 bits are cut. Its exponent is added by the bits, without a product.
Real real_of(uint64_t sum) {
  uint32_t shift = 0;
  if (const auto high = static_cast<uint32_t>(sum >> 32); high != 0) {
    shift = 32 - static_cast<uint32_t>(std::countl_zero(high));
  }
  const auto value = static_cast<float>(static_cast<uint32_t>(sum >> shift));
  return static_cast<Real>(std::bit_cast<float>(std::bit_cast<uint32_t>(value) + (shift << kFractionBits)));
}

// ---- Sums of products: products[c] += sum over rows of sample[r] y[r][c], from 0 on where is_first ----

#if defined(GS_TWO_PRODUCTS)

using Four = int16_t[kRowsTogether];

// Two products of 16 bits an instruction: four rows lie together, in the order 0, 2, 1, 3. So the bytes 0 and 2 of a
// word of the sample, and then 1 and 3, meet their rows as UXTB16 takes them apart.
// The vectors of a Cortex-M55 could do eight (VMLADAV), some four times fewer instructions in this loop; images are
// built without them.
[[gnu::always_inline]] inline int32_t multiply_twice(uint32_t a, uint32_t b, int32_t sum) {
  int32_t out;
  asm("smlad %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
  return out;
}
[[gnu::always_inline]] inline uint32_t even_bytes(uint32_t word) {
  uint32_t out;
  asm("uxtb16 %0, %1" : "=r"(out) : "r"(word));
  return out;
}
[[gnu::always_inline]] inline uint32_t odd_bytes(uint32_t word) {
  uint32_t out;
  asm("uxtb16 %0, %1, ror #8" : "=r"(out) : "r"(word));
  return out;
}

template <uint32_t count>
[[gnu::always_inline]] inline void add_rows(const int16_t* words, uint32_t word, int32_t* sums) {
  const uint32_t even = even_bytes(word);
  const uint32_t odd = odd_bytes(word);
#pragma GCC unroll 4
  for (uint32_t c = 0; c < count; ++c, words += kRowsTogether) {
    uint32_t low;
    uint32_t high;
#if defined(__thumb2__)
    asm("ldrd %0, %1, %2" : "=&r"(low), "=r"(high) : "Q"(*reinterpret_cast<const Four*>(words)));
#else
    std::memcpy(&low, words, sizeof(low));
    std::memcpy(&high, words + 2, sizeof(high));
#endif
    sums[c] = multiply_twice(odd, high, multiply_twice(even, low, sums[c]));
  }
}

template <uint32_t count>
[[gnu::always_inline]] inline void multiply_columns(const int16_t* words, uint32_t cols, const uint8_t* sample,
                                                    uint32_t rows, bool is_first, int64_t* products) {
  int32_t lanes[count] = {};
  const uint8_t* const end = sample + rows / kRowsTogether * kRowsTogether;
  uint32_t word = 0;
  for (; sample != end; sample += kRowsTogether, words += kRowsTogether * cols) {
    std::memcpy(&word, sample, sizeof(word));
    add_rows<count>(words, word, lanes);
  }
  if (rows % kRowsTogether != 0) {  // behind the last sample nothing may be read
    word = 0;
    for (uint32_t r = 0; r < rows % kRowsTogether; ++r) {
      word |= uint32_t{sample[r]} << (8 * r);
    }
    add_rows<count>(words, word, lanes);
  }
#pragma GCC unroll 4
  for (uint32_t c = 0; c < count; ++c) {
    products[c] = (is_first ? 0 : products[c]) + lanes[c];
  }
}

#else

template <uint32_t count>
[[gnu::always_inline]] inline void multiply_columns(const int16_t* words, uint32_t cols, const uint8_t* sample,
                                                    uint32_t rows, bool is_first, int64_t* products) {
  int32_t lanes[count] = {};
  const uint8_t* const end = sample + rows;
#pragma GCC unroll 4
  for (; sample != end; words += cols) {
    const int32_t value = *sample++;
#pragma GCC unroll 4
    for (uint32_t c = 0; c < count; ++c) {
      lanes[c] += value * words[c];
    }
  }
#pragma GCC unroll 4
  for (uint32_t c = 0; c < count; ++c) {
    products[c] = (is_first ? 0 : products[c]) + lanes[c];
  }
}

#endif

// Nearly all of a loss's instructions are here. With -Os GCC keeps the sums on the stack of a Cortex-M0+, which takes
// 1.6 times as many of them.
#if defined(__OPTIMIZE_SIZE__) && !defined(__clang__)
[[gnu::optimize("O2"), gnu::noinline]] void multiply_four(const int16_t* words, uint32_t cols, const uint8_t* sample,
                                                          uint32_t rows, bool is_first, int64_t* products);
#endif
void multiply_four(const int16_t* words, uint32_t cols, const uint8_t* sample, uint32_t rows, bool is_first,
                   int64_t* products) {
  multiply_columns<kLaneCount>(words, cols, sample, rows, is_first, products);
}

// products[c] <- sum_r sample[r] 2^shifts[r] words(r, c).
void multiply_shifted(const WholePoint& point, const uint8_t* sample, int64_t* products) {
  for (uint32_t r = 0; r < point.shape.rows; ++r) {
    const int32_t value = sample[r] << point.shifts[r];
    const int16_t* word = point.words + place_of(point.shape.cols, r, 0);
    for (uint32_t c = 0; c < point.shape.cols; ++c, word += kRowsTogether) {
      products[c] = (r == 0 ? 0 : products[c]) + int64_t{value} * *word;
    }
  }
}

// products[c] <- sum_r sample[r] words(r, c).
void multiply_words(const Shape& shape, const int16_t* words, const uint8_t* sample, int64_t* products) {
  for (uint32_t row = 0; row < shape.rows; row += kRowsOfSum) {
    const uint32_t rows = shape.rows - row < kRowsOfSum ? shape.rows - row : kRowsOfSum;
    const int16_t* first = words + place_of(shape.cols, row, 0);
    uint32_t c = 0;
    for (; c + kLaneCount <= shape.cols; c += kLaneCount, first += kLaneCount * kRowsTogether) {
      multiply_four(first, shape.cols, sample + row, rows, row == 0, products + c);
    }
    for (; c < shape.cols; ++c, first += kRowsTogether) {
      multiply_columns<1>(first, shape.cols, sample + row, rows, row == 0, products + c);
    }
  }
}

// The bits of the largest value times the factor, without its sign.
uint32_t largest_bits(size_t count, const Real* x, Real factor) {
  uint32_t most = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = bits_of(x[i] * factor) & kMagnitudeMask;
    most = bits > most ? bits : most;
  }
  return most;
}

// The least field of a value of these bits that leaves its word within kWordBits: one that rounds up to a power of two
// takes the next.
int32_t field_above(uint32_t bits) {
  const int32_t field = field_of(bits);
  return whole_of_bits(bits, field, kWordBits) >> kWordBits == 0 ? field : field + 1;
}

// The words of a point whose largest value has that field.
void round_words(const Real* x, int32_t field, WholePoint* point) {
  const WordRounding rounding(field);
  for (uint32_t r = 0; r < point->shape.rows; ++r) {
    int16_t* word = point->words + place_of(point->shape.cols, r, 0);
    for (uint32_t c = 0; c < point->shape.cols; ++c, word += kRowsTogether) {
      *word = rounding.word_of(*x++);
    }
  }
}

// The same with exponents of the rows, of which `field` is the largest.
void round_rows(const Real* x, const Units* units, int32_t field, WholePoint* point) {
  const uint32_t cols = point->shape.cols;
  const int32_t least = field - kRowShiftMax;
  for (uint32_t r = 0; r < point->shape.rows; ++r, x += cols) {
    const Real factor = factor_of(units, r);
    const int32_t own = field_above(largest_bits(cols, x, factor));
    const int32_t row_field = own > least ? own : least;
    point->shifts[r] = static_cast<uint8_t>(row_field - least);
    int16_t* word = point->words + place_of(cols, r, 0);
    for (uint32_t c = 0; c < cols; ++c, word += kRowsTogether) {
      *word = static_cast<int16_t>(whole_of_bits(bits_of(x[c] * factor), row_field, kWordBits));
    }
  }
}

}  // namespace

size_t whole_count(Shape shape) {
  return size_t{(shape.rows + kRowsTogether - 1) / kRowsTogether} * kRowsTogether * shape.cols;
}

size_t whole_place(Shape shape, uint32_t row, uint32_t col) { return place_of(shape.cols, row, col); }

bool find_byte_frame(const SampleSource& source, const Units* units, ByteFrame* out) {
  const uint32_t ratio = bits_of(Real{1} / static_cast<Real>(source.bytes->scale));
  uint32_t most = 0;
  for (uint32_t r = 0; r < source.dimension; ++r) {
    const uint32_t bits = mean_bits(*source.bytes, units, r) & kMagnitudeMask;
    most = bits > most ? bits : most;
  }
  ByteFrame frame = {*source.bytes, source.dimension, units, field_of(most), field_of(ratio)};
  const bool is_normal = frame.ratio_field != 0 && frame.ratio_field != kFieldMax && frame.mean_field != kFieldMax;
  if (!is_normal || frame.mean_field + frame.ratio_field - 2 * kFieldBias > kMeanBitsMax) {
    return false;
  }
  frame.ratio = (ratio & ((1U << kFractionBits) - 1)) | 1U << kFractionBits;
  frame.is_negative = ratio >> 31 != 0;
  const float farthest = std::bit_cast<float>(most) * std::bit_cast<float>(ratio & kMagnitudeMask);
  frame.range_bits = exponent_of(farthest + 255.0F);
  *out = frame;
  return true;
}

bool round_point(const Real* x, const Units* units, WholePoint* point) {
  const bool has_shifts = kTakesUnits && point->shifts != nullptr;
  uint32_t most = 0;
  for (uint32_t r = 0; has_shifts && r < point->shape.rows; ++r) {
    const uint32_t bits = largest_bits(point->shape.cols, x + size_t{r} * point->shape.cols, factor_of(units, r));
    most = bits > most ? bits : most;
  }
  for (size_t i = 0; !has_shifts && i < point->shape.size(); ++i) {
    const uint32_t bits = bits_of(x[i]) & kMagnitudeMask;
    most = bits > most ? bits : most;
  }
  if (field_of(most) < kPointFieldMin || field_of(most) >= kFieldMax - 1) {
    return false;
  }
  const int32_t field = field_above(most);
  point->exponent = field - kFieldBias - point->bits();
  if (has_shifts) {
    round_rows(x, units, field, point);
  } else {
    round_words(x, field, point);
  }
  return true;
}

void multiply_bytes(const WholePoint& point, const uint8_t* sample, int64_t* products) {
  if (kTakesUnits && point.shifts != nullptr) {
    multiply_shifted(point, sample, products);
  } else {
    multiply_words(point.shape, point.words, sample, products);
  }
}

void multiply_mean(const ByteFrame& frame, const WholePoint& point, int64_t* offsets) {
  const Shape shape = point.shape;
  // mean_r is m 2^(mean_field - kFieldBias - width), and the sum of m y below 2^62.
  const int32_t sum_bits = point.bits() + log_of(shape.rows);
  const int32_t width = 62 - sum_bits < kMeanBits ? 62 - sum_bits : kMeanBits;
  for (uint32_t r = 0; r < shape.rows; ++r) {
    const int32_t mean = whole_of_bits(mean_bits(frame.bytes, frame.units, r), frame.mean_field, width);
    const int32_t shift = kTakesUnits && point.shifts != nullptr ? point.shifts[r] : 0;
    const int16_t* word = point.words + place_of(shape.cols, r, 0);
    for (uint32_t c = 0; c < shape.cols; ++c, word += kRowsTogether) {
      offsets[c] = (r == 0 ? 0 : offsets[c]) + int64_t{mean} * (*word * (1 << shift));
    }
  }
  const int32_t cut = width + sum_bits - kMeanSumBits;
  const int32_t shift = width + 2 * kFieldBias + kRatioBits - frame.mean_field - frame.ratio_field - cut;
  for (uint32_t c = 0; c < shape.cols; ++c) {
    const int64_t product = (offsets[c] >> cut) * static_cast<int64_t>(frame.ratio);
    const int64_t offset = shift > 62 ? 0 : shift_rounded(product, shift);
    offsets[c] = frame.is_negative ? -offset : offset;
  }
}

int32_t square_shift(const ByteFrame& frame, const WholePoint& point) {
  const int32_t bits = frame.range_bits + point.bits() + log_of(point.shape.rows);
  return bits > kDifferenceBits ? bits - kDifferenceBits : 0;
}

Real sum_of_squares(uint32_t cols, const int64_t* products, const int64_t* offsets, int32_t shift) {
  Real total = 0;
  for (uint32_t first = 0; first < cols; first += kSquareCount) {
    const uint32_t end = cols - first < kSquareCount ? cols : first + kSquareCount;
    uint64_t sum = 0;
    for (uint32_t c = first; c < end; ++c) {
      const int64_t difference = products[c] - offsets[c];
      const auto value = static_cast<int32_t>(shift == 0 ? difference : shift_rounded(difference, shift));
      sum += static_cast<uint64_t>(int64_t{value} * value);
    }
    const Real group = real_of(sum);
    total = first == 0 ? group : total + group;
  }
  return total;
}

Real square_unit(const ByteFrame& frame, const WholePoint& point, int32_t shift) {
  return static_cast<Real>(frame.bytes.scale) * static_cast<Real>(power_of_two(point.exponent)) *
         static_cast<Real>(power_of_two(shift));
}

Real squared_norm(const ByteFrame& frame, const uint8_t* sample) {
  Real sums[kLaneCount] = {};
  for (uint32_t r = 0; r < frame.dimension; ++r) {
    Real value = static_cast<Real>(static_cast<float>(sample[r]) * frame.bytes.scale - mean_of(frame.bytes, r));
    if (kTakesUnits && frame.units != nullptr) {
      const UnitsColumn& column = frame.units->columns[r];
      value = (value - static_cast<Real>(column.mean)) * static_cast<Real>(column.factor);
    }
    sums[r % kLaneCount] += value * value;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace gradstream
