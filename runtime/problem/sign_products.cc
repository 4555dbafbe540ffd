#include "runtime/base/no_contraction.h"

#include "runtime/problem/sign_products.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/quick.h"

namespace gradstream {
namespace {

constexpr uint32_t kSignWordBits = 32;
// Columns that are multiplied in one pass over a sample. Reason: their sums stay in registers.
constexpr uint32_t kColsOfPass = 4;

// The signs' bits in their order.
class BitReader {
 public:
  explicit BitReader(const uint32_t* words) : words_(words) {}
  // The next `count` of them, 1 to 32, the first one lowest.
  uint32_t next(uint32_t count) {
    const uint32_t at = place_ % kSignWordBits;
    const uint32_t* const word = words_ + place_ / kSignWordBits;
    uint32_t bits = word[0] >> at;
    if (at + count > kSignWordBits) {
      bits |= word[1] << (kSignWordBits - at);
    }
    place_ += count;
    return bits & UINT32_MAX >> (kSignWordBits - count);
  }

 private:
  const uint32_t* words_;
  uint32_t place_ = 0;
};

// Counts signs and agreements of up to 32 rows, whose signs are bits of masks[c], in any order; a bit for no row is 0
// in each of them. The masks are 0 then.
void count_signs(uint32_t cols, uint32_t* masks, int32_t* sums, int32_t* agreement) {
  for (uint32_t a = 0; a < cols; ++a) {
    const uint32_t mask = masks[a];
    sums[a] += 2 * std::popcount(mask);
    ++agreement;  // a column agrees with itself
    for (uint32_t b = a + 1; b < cols; ++b) {
      *agreement++ -= 2 * std::popcount(mask ^ masks[b]);
    }
    masks[a] = 0;
  }
}

#if defined(__ARM_FEATURE_SIMD32)

constexpr uint32_t kRowsOfWord = 4;
constexpr uint32_t kWordsOfPass = kColsOfPass;  // for kRowsOfWord rows
constexpr uint32_t kLowBits = 0x01010101;
constexpr int32_t kByteMax = 255;

uint32_t word_rows(uint32_t rows) { return (rows + kRowsOfWord - 1) / kRowsOfWord; }

// Word (pass, row / 4, column of the pass).
GS_QUICK void pack_columns(const uint32_t* signs, const SignColumns& columns, uint32_t* masks, int32_t* sums,
                           int32_t* agreement) {
  const Shape shape = columns.shape;
  const size_t pass_size = size_t{word_rows(shape.rows)} * kWordsOfPass;
  const uint32_t row_mask = (1U << shape.cols) - 1;
  BitReader reader(signs);
  uint32_t* word = columns.words;
  for (uint32_t row = 0; row < shape.rows; row += kRowsOfWord, word += kWordsOfPass) {
    const uint32_t rows = std::min(shape.rows - row, kRowsOfWord);
    uint32_t read = reader.next(rows * shape.cols);
    uint32_t bits = 0;  // of row i in byte i; a row that is not there has no minus
    for (uint32_t i = 0; i < kRowsOfWord; ++i, read >>= shape.cols) {
      bits |= (read & row_mask) << (8 * i);
    }
    const uint32_t present = kLowBits >> (8 * (kRowsOfWord - rows));
    uint32_t* place = word;
    for (uint32_t c = 0; c < shape.cols; ++c, bits >>= 1) {
      const uint32_t plus = bits & kLowBits;
      masks[c] = masks[c] << 1 | plus;
      if (c == kColsOfPass) {
        place += pass_size - kColsOfPass;
      }
      *place++ = (present - plus) * kByteMax;
    }
    if (row / kRowsOfWord % 8 == 7) {
      count_signs(shape.cols, masks, sums, agreement);
    }
  }
}

// sum and the sums of the differences of four bytes.
[[gnu::always_inline]] inline uint32_t add_differences(uint32_t a, uint32_t b, uint32_t sum) {
  uint32_t out;
  asm("usada8 %0, %1, %2, %3" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
  return out;
}

// Two words at `at` of memory on a boundary of 4 bytes.
struct Pair {
  uint32_t low, high;
};
template <uint32_t at>
[[gnu::always_inline]] inline Pair load_pair(const uint32_t* words) {
  Pair out;
#if defined(__thumb2__)
  asm("ldrd %0, %1, [%2, %3]"
      : "=&r"(out.low), "=r"(out.high)
      : "r"(words), "I"(at * sizeof(uint32_t)), "m"(words[at]), "m"(words[at + 1]));
#else
  out = {words[at], words[at + 1]};
#endif
  return out;
}

// Adds the products of four rows, those of the words from `at` on.
template <uint32_t at>
[[gnu::always_inline]] inline void add_rows(uint32_t value, const uint32_t* words, uint32_t* sums) {
  const Pair first = load_pair<at>(words);
  const Pair second = load_pair<at + 2>(words);
  sums[0] = add_differences(value, first.low, sums[0]);
  sums[1] = add_differences(value, first.high, sums[1]);
  sums[2] = add_differences(value, second.low, sums[2]);
  sums[3] = add_differences(value, second.high, sums[3]);
}

[[gnu::always_inline]] inline uint32_t load_bytes(const uint8_t* x) {
  uint32_t word = 0;
  std::memcpy(&word, x, sizeof(word));
  return word;
}

// out[0 .. kColsOfPass) <- starts and the products of a sample with as many columns.
GS_QUICK void multiply_sample(const uint8_t* x, uint32_t rows, const uint32_t* words, const int32_t* starts,
                              int32_t* out) {
  uint32_t sums[] = {static_cast<uint32_t>(starts[0]), static_cast<uint32_t>(starts[1]),
                     static_cast<uint32_t>(starts[2]), static_cast<uint32_t>(starts[3])};
  for (; rows >= 4 * kRowsOfWord; rows -= 4 * kRowsOfWord, x += 4 * kRowsOfWord, words += 4 * kWordsOfPass) {
    add_rows<0>(load_bytes(x), words, sums);
    add_rows<kWordsOfPass>(load_bytes(x + kRowsOfWord), words, sums);
    add_rows<2 * kWordsOfPass>(load_bytes(x + 2 * kRowsOfWord), words, sums);
    add_rows<3 * kWordsOfPass>(load_bytes(x + 3 * kRowsOfWord), words, sums);
  }
  for (; rows >= kRowsOfWord; rows -= kRowsOfWord, x += kRowsOfWord, words += kWordsOfPass) {
    add_rows<0>(load_bytes(x), words, sums);
  }
  if (rows > 0) {  // behind the last sample nothing may be read
    uint32_t value = 0;
    for (uint32_t i = 0; i < rows; ++i) {
      value |= uint32_t{x[i]} << (8 * i);
    }
    add_rows<0>(value, words, sums);
  }
#pragma GCC unroll 4
  for (uint32_t c = 0; c < kColsOfPass; ++c) {
    out[c] = static_cast<int32_t>(sums[c]);
  }
}

void multiply_pass(const uint8_t* x, const uint8_t* y, uint32_t rows, const uint32_t* words, const int32_t* starts,
                   int32_t* first, int32_t* second) {
  multiply_sample(x, rows, words, starts, first);
  multiply_sample(y, rows, words, starts, second);
}

int32_t start_of(uint32_t rows, int32_t sum) { return -kByteMax * ((static_cast<int32_t>(rows) - sum) / 2); }

#else

constexpr uint32_t kWordsOfPass = 2;  // for a row
// Rows whose products with two columns of signs fit the halves of a word: 128 x 255 < 2^15.
constexpr uint32_t kPackedRowsMax = 128;

uint32_t word_rows(uint32_t rows) { return rows; }

// Word (pass, row, pair of columns): s of a column + 2^16 s of the next, 0 where none is.
GS_QUICK void pack_columns(const uint32_t* signs, const SignColumns& columns, uint32_t* masks, int32_t* sums,
                           int32_t* agreement) {
  const Shape shape = columns.shape;
  BitReader reader(signs);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    uint32_t bits = reader.next(shape.cols);
    uint32_t ones = (1U << shape.cols) - 1;
    for (uint32_t c = 0; c < shape.cols; ++c) {
      masks[c] = masks[c] << 1 | (bits >> c & 1);
    }
    uint32_t* place = columns.words + size_t{r} * kWordsOfPass;
    for (uint32_t first = 0; first < shape.cols; first += kColsOfPass, place += size_t{shape.rows} * kWordsOfPass) {
      for (uint32_t i = 0; i < kWordsOfPass; ++i, bits >>= 2, ones >>= 2) {  // 2 bit - 1, where there is a column
        place[i] = (bits & 1) * 2 + (bits & 2) * 0x10000 - ((ones & 1) + (ones & 2) * 0x8000);
      }
    }
    if (r % kSignWordBits == kSignWordBits - 1) {
      count_signs(shape.cols, masks, sums, agreement);
    }
  }
}

// Adds the halves of a word of sums to two sums.
void add_halves(int32_t word, int32_t* sums) {
  const int32_t low = static_cast<int16_t>(word);
  sums[0] += low;
  sums[1] += (word - low) >> 16;
}

// first and second [0 .. kColsOfPass) <- starts and the products of two samples, x and y, with as many columns.
GS_QUICK void multiply_pass(const uint8_t* x, const uint8_t* y, uint32_t rows, const uint32_t* words,
                            const int32_t* starts, int32_t* first, int32_t* second) {
  for (uint32_t c = 0; c < kColsOfPass; ++c) {
    first[c] = second[c] = starts[c];
  }
  while (rows > 0) {
    const uint32_t count = std::min(rows, kPackedRowsMax);
    int32_t x0 = 0, x1 = 0, y0 = 0, y1 = 0;
    const auto add_row = [&]() __attribute__((always_inline)) {
      const int32_t x_value = *x++;
      const int32_t y_value = *y++;
      const auto word0 = static_cast<int32_t>(*words++);
      x0 += x_value * word0;
      y0 += y_value * word0;
      const auto word1 = static_cast<int32_t>(*words++);
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

int32_t start_of(uint32_t, int32_t) { return 0; }

#endif

}  // namespace

size_t sign_column_words(Shape shape) {
  return size_t{word_rows(shape.rows)} * ((shape.cols + kColsOfPass - 1) / kColsOfPass) * kWordsOfPass;
}

void pack_signs(const uint32_t* signs, SignColumns* columns, int32_t* agreement) {
  const Shape shape = columns->shape;
  const auto rows = static_cast<int32_t>(shape.rows);
  uint32_t masks[kSignColsMax] = {};  // of the rows that are not counted yet
  std::fill_n(agreement, shape.cols * (shape.cols + 1) / 2, rows);
  std::fill_n(columns->starts, kSignColsMax, 0);
  std::fill_n(columns->sums, kSignColsMax, 0);
  std::fill_n(columns->sums, shape.cols, -rows);
  pack_columns(signs, *columns, masks, columns->sums, agreement);
  count_signs(shape.cols, masks, columns->sums, agreement);
  for (uint32_t c = 0; c < shape.cols; ++c) {
    columns->starts[c] = start_of(shape.rows, columns->sums[c]);
  }
}

void multiply_signs(const SignColumns& columns, const uint8_t* x, const uint8_t* y, int32_t* first, int32_t* second) {
  const uint32_t rows = columns.shape.rows;
  const uint32_t* words = columns.words;
  for (uint32_t c = 0; c < columns.shape.cols; c += kColsOfPass, words += size_t{word_rows(rows)} * kWordsOfPass) {
    multiply_pass(x, y, rows, words, columns.starts + c, first + c, second + c);
  }
}

void store_planes(int32_t value, uint32_t count, uint32_t rows, uint8_t* plane_row) {
  uint32_t rest = static_cast<uint32_t>(value) + (1U << (8 * count - 1));
  for (uint32_t k = 0; k < count; ++k, rest >>= 8) {
    plane_row[size_t{k} * rows] = static_cast<uint8_t>(rest);
  }
}

void multiply_planes(const SignColumns& columns, const uint8_t* planes, uint32_t count, int32_t* out) {
  uint32_t sums[kSignColsMax];
  for (uint32_t c = 0; c < columns.shape.cols; ++c) {
    sums[c] = 0U - (static_cast<uint32_t>(columns.sums[c]) << (8 * count - 1));
  }
  const size_t rows = columns.shape.rows;
  for (uint32_t k = 0; k < count; k += kSamplesOfPass, planes += kSamplesOfPass * rows) {
    int32_t low[kSignColsMax];
    int32_t high[kSignColsMax];
    multiply_signs(columns, planes, planes + rows, low, high);
    for (uint32_t c = 0; c < columns.shape.cols; ++c) {
      sums[c] += (static_cast<uint32_t>(low[c]) + (static_cast<uint32_t>(high[c]) << 8)) << (8 * k);
    }
  }
  for (uint32_t c = 0; c < columns.shape.cols; ++c) {
    out[c] = static_cast<int32_t>(sums[c]);
  }
}

}  // namespace gradstream
