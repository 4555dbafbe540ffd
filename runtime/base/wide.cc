#include "runtime/base/wide.h"

#include <cstring>
#include <limits>
#include <utility>

#if GS_HAS_WIDE

// Everything below is compiled for AVX, and for no instruction that fuses a product with a sum.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx")
#endif

namespace gradstream::wide {
namespace {

using Vec4 = float __attribute__((vector_size(16)));
using Vec8 = float __attribute__((vector_size(32)));

constexpr uint32_t kLaneCount = 4;

template <typename Vec>
[[gnu::always_inline]] inline Vec load(const float* x) {
  Vec v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}
template <typename Vec>
[[gnu::always_inline]] inline void store(Vec v, float* x) {
  std::memcpy(x, &v, sizeof(v));
}
[[gnu::always_inline]] inline Vec8 splat(float a) { return Vec8{a, a, a, a, a, a, a, a}; }
[[gnu::always_inline]] inline Vec8 twice(Vec4 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 0, 1, 2, 3); }
[[gnu::always_inline]] inline Vec4 low(Vec8 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
[[gnu::always_inline]] inline Vec4 high(Vec8 v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }
constexpr int kAllLanes = 0xFF;
// Bit n: entry n of a comparison holds.
template <typename Mask>
[[gnu::always_inline]] inline int mask_of(Mask holds) {
  Vec8 bits;
  std::memcpy(&bits, &holds, sizeof(bits));
  return __builtin_ia32_movmskps256(bits);
}
// Entry k of each half, throughout that half.
template <int k>
[[gnu::always_inline]] inline Vec8 splat_halves(Vec8 v) {
  return __builtin_shufflevector(v, v, k, k, k, k, 4 + k, 4 + k, 4 + k, 4 + k);
}

// Calls body(k) for k = 0 .. kCount - 1, k a constant.
template <uint32_t kCount, typename Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  [&]<uint32_t... k>(std::integer_sequence<uint32_t, k...>) __attribute__((always_inline)) {
    (body(std::integral_constant<uint32_t, k>{}), ...);
  }(std::make_integer_sequence<uint32_t, kCount>{});
}

// Calls body(cols as a constant) for kFirst <= cols <= 8.
template <uint32_t kFirst, typename Body>
[[gnu::always_inline]] inline void with_cols(uint32_t cols, Body body) {
  unrolled<9 - kFirst>([&](auto k) __attribute__((always_inline)) {
    if (cols == kFirst + k) {
      body(std::integral_constant<uint32_t, kFirst + decltype(k)::value>{});
    }
  });
}

// out[k][c] <- the sum over the rows of term k of column c; terms.operator()<Vec>(i, term) gives the kSums terms of
// the numbers from i on. Four rows are 4 kCols numbers in a row: number q of them belongs to partial sum q / kCols of
// column q % kCols.
template <uint32_t kCols, uint32_t kSums, typename Terms>
[[gnu::always_inline]] inline void sum_columns(size_t rows, Terms terms, float* const (&out)[kSums]) {
  constexpr uint32_t kWhole = kCols / 2;
  constexpr size_t kPeriod = kLaneCount * kCols;
  const size_t size = rows * kCols;
  Vec8 s[kWhole][kSums];
  [[maybe_unused]] Vec4 rest[kSums];
  unrolled<kWhole>([&](auto k) __attribute__((always_inline)) { terms.template operator()<Vec8>(8 * k, s[k]); });
  if constexpr (kCols % 2 != 0) {
    terms.template operator()<Vec4>(8 * kWhole, rest);
  }
  size_t at = kPeriod;
  for (; at + kPeriod <= size; at += kPeriod) {
    unrolled<kWhole>([&](auto k) __attribute__((always_inline)) {
      Vec8 term[kSums];
      terms.template operator()<Vec8>(at + 8 * k, term);
      unrolled<kSums>([&](auto i) __attribute__((always_inline)) { s[k][i] += term[i]; });
    });
    if constexpr (kCols % 2 != 0) {
      Vec4 term[kSums];
      terms.template operator()<Vec4>(at + 8 * kWhole, term);
      unrolled<kSums>([&](auto i) __attribute__((always_inline)) { rest[i] += term[i]; });
    }
  }
  if constexpr (kCols == 4) {
    if (at == size) {
      unrolled<kSums>([&](auto i) __attribute__((always_inline)) {
        store((low(s[0][i]) + high(s[0][i])) + (low(s[1][i]) + high(s[1][i])), out[i]);
      });
      return;
    }
  }
  float sums[kSums][kPeriod];
  unrolled<kSums>([&](auto i) __attribute__((always_inline)) {
    unrolled<kWhole>([&](auto k) __attribute__((always_inline)) { store(s[k][i], sums[i] + 8 * k); });
    if constexpr (kCols % 2 != 0) {
      store(rest[i], sums[i] + 8 * kWhole);
    }
  });
  for (size_t q = 0; at + q < size; ++q) {
    float term[kSums];
    terms.template operator()<float>(at + q, term);
    unrolled<kSums>([&](auto i) __attribute__((always_inline)) { sums[i][q] += term[i]; });
  }
  unrolled<kSums>([&](auto i) __attribute__((always_inline)) {
    for (size_t c = 0; c < kCols; ++c) {
      out[i][c] = (sums[i][c] + sums[i][kCols + c]) + (sums[i][2 * kCols + c] + sums[i][3 * kCols + c]);
    }
  });
}

template <uint32_t kCols>
[[gnu::always_inline]] inline void column_dots_of(size_t rows, const float* a, const float* b, float* out) {
  const auto products = [=]<typename Vec>(size_t i, Vec* term) __attribute__((always_inline)) {
    term[0] = load<Vec>(a + i) * load<Vec>(b + i);
  };
  sum_columns<kCols, 1>(rows, products, {out});
}

constexpr uint32_t common_divisor(uint32_t a, uint32_t b) { return b == 0 ? a : common_divisor(b, a % b); }

// eight(i, factors of the numbers from i on) for every eight of the rows x kCols, one(i, factor) for those behind them.
template <uint32_t kCols, typename Eight, typename One>
[[gnu::always_inline]] inline void for_columns(size_t rows, const float* factors, Eight eight, One one) {
  constexpr uint32_t kTileCount = kCols / common_divisor(kCols, 8);
  const size_t size = rows * kCols;
  Vec8 tiles[kTileCount];
  if constexpr (kCols == 4) {
    tiles[0] = twice(load<Vec4>(factors));
  } else {
    float pattern[8 * kTileCount];
    for (size_t i = 0; i < 8 * kTileCount; ++i) {
      pattern[i] = factors[i % kCols];
    }
    unrolled<kTileCount>([&](auto k) __attribute__((always_inline)) { tiles[k] = load<Vec8>(pattern + 8 * k); });
  }
  size_t at = 0;
  for (; at + 8 * kTileCount <= size; at += 8 * kTileCount) {
    unrolled<kTileCount>([&](auto k) __attribute__((always_inline)) { eight(at + 8 * k, tiles[k]); });
  }
  for (size_t q = 0; at + q < size; ++q) {
    one(at + q, factors[q % kCols]);
  }
}

template <uint32_t kCols>
[[gnu::always_inline]] inline void scale_columns_of(size_t rows, const float* factors, const float* x, float* out) {
  for_columns<kCols>(
      rows, factors,
      [=](size_t i, Vec8 factor) __attribute__((always_inline)) { store(load<Vec8>(x + i) * factor, out + i); },
      [=](size_t i, float factor) __attribute__((always_inline)) { out[i] = x[i] * factor; });
}

// The root and the quotient of all columns at once: IEEE's, as of each alone.
template <uint32_t kCols, bool kAdds>
[[gnu::always_inline]] inline Status normalize_columns_of(size_t rows, const float* x, const float* v, float least,
                                                          float* out) {
  float squares[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  const auto terms = [=]<typename Vec>(size_t i, Vec * term) __attribute__((always_inline)) {
    Vec sum = load<Vec>(x + i);
    if constexpr (kAdds) {
      sum += load<Vec>(v + i);
      store(sum, out + i);
    }
    term[0] = sum * sum;
  };
  sum_columns<kCols, 1>(rows, terms, {squares});
  const Vec8 all = load<Vec8>(squares);
  const int finite = mask_of(all <= splat(std::numeric_limits<float>::max()));  // false for what is not a number
  const int regular = mask_of(all >= splat(least));
  if ((finite & regular) != kAllLanes) {
    return finite == kAllLanes ? Status::kSingular : Status::kNotFinite;
  }
  store(splat(1) / __builtin_ia32_sqrtps256(all), squares);
  scale_columns_of<kCols>(rows, squares, kAdds ? out : x, out);
  return Status::kOk;
}

// The last row of a matrix of fewer than eight columns, so that eight numbers can be read.
template <uint32_t kCols>
[[gnu::always_inline]] inline Vec8 load_last(const float* row) {
  float padded[8] = {};
  std::memcpy(padded, row, kCols * sizeof(float));
  return load<Vec8>(padded);
}

// s[i][j]: partial sum `lane` of entry (i, j) of A' B; what stands beyond column kCols - 1 is of no use.
template <uint32_t kCols>
[[gnu::always_inline]] inline void sum_lane(size_t rows, uint32_t lane, const float* a, const float* b,
                                            Vec8 s[kCols]) {
  const Vec8 first = load<Vec8>(b + lane * kCols);
  unrolled<kCols>([&](auto i) __attribute__((always_inline)) { s[i] = splat(a[lane * kCols + i]) * first; });
  size_t row = lane + kLaneCount;
  for (; row + 1 < rows; row += kLaneCount) {
    const Vec8 right = load<Vec8>(b + row * kCols);
    unrolled<kCols>([&](auto i) __attribute__((always_inline)) { s[i] += splat(a[row * kCols + i]) * right; });
  }
  if (row < rows) {
    const Vec8 right = load_last<kCols>(b + row * kCols);
    unrolled<kCols>([&](auto i) __attribute__((always_inline)) { s[i] += splat(a[row * kCols + i]) * right; });
  }
}

template <uint32_t kCols>
void multiply_transposed_of(size_t rows, const float* a, const float* b, float* out) {
  Vec8 sums[2][kCols];
  for (uint32_t half = 0; half < 2; ++half) {
    Vec8 s[kCols], t[kCols];
    sum_lane<kCols>(rows, 2 * half, a, b, s);
    sum_lane<kCols>(rows, 2 * half + 1, a, b, t);
    unrolled<kCols>([&](auto i) __attribute__((always_inline)) { sums[half][i] = s[i] + t[i]; });
  }
  for (uint32_t i = 0; i < kCols; ++i) {
    float entries[8];
    store(sums[0][i] + sums[1][i], entries);
    std::memcpy(out + i * kCols, entries, kCols * sizeof(float));
  }
}

// Two rows to a register: partial sums 0 and 1, and 2 and 3, together.
template <>
void multiply_transposed_of<4>(size_t rows, const float* a, const float* b, float* out) {
  Vec8 s[2][4];
  unrolled<2>([&](auto k) __attribute__((always_inline)) {
    const Vec8 left = load<Vec8>(a + 8 * k), right = load<Vec8>(b + 8 * k);
    unrolled<4>([&](auto i) __attribute__((always_inline)) { s[k][i] = splat_halves<i>(left) * right; });
  });
  const size_t size = 4 * rows;
  size_t at = 16;
  for (; at + 16 <= size; at += 16) {
    unrolled<2>([&](auto k) __attribute__((always_inline)) {
      const Vec8 left = load<Vec8>(a + at + 8 * k), right = load<Vec8>(b + at + 8 * k);
      unrolled<4>([&](auto i) __attribute__((always_inline)) { s[k][i] += splat_halves<i>(left) * right; });
    });
  }
  Vec4 lanes[kLaneCount][4];
  unrolled<4>([&](auto i) __attribute__((always_inline)) {
    unrolled<2>([&](auto k) __attribute__((always_inline)) {
      lanes[2 * k][i] = low(s[k][i]);
      lanes[2 * k + 1][i] = high(s[k][i]);
    });
  });
  unrolled<3>([&](auto k) __attribute__((always_inline)) {
    if (at + 4 * k < size) {
      const Vec8 left = twice(load<Vec4>(a + at + 4 * k));
      const Vec4 right = load<Vec4>(b + at + 4 * k);
      unrolled<4>([&](auto i) __attribute__((always_inline)) { lanes[k][i] += low(splat_halves<i>(left)) * right; });
    }
  });
  unrolled<4>([&](auto i) __attribute__((always_inline)) {
    store((lanes[0][i] + lanes[1][i]) + (lanes[2][i] + lanes[3][i]), out + 4 * i);
  });
}

// The row vector a S, s holding the rows of S.
template <uint32_t kCols>
[[gnu::always_inline]] inline Vec8 multiply_row(const float* a, const Vec8 s[kCols]) {
  Vec8 p[kLaneCount];
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { p[k] = splat(a[k]) * s[k]; });
  unrolled<kCols - kLaneCount>([&](auto k) __attribute__((always_inline)) {
    p[k] += splat(a[kLaneCount + k]) * s[kLaneCount + k];
  });
  return (p[0] + p[1]) + (p[2] + p[3]);
}

// The first kCols of eight numbers.
template <uint32_t kCols>
[[gnu::always_inline]] inline void store_row(Vec8 v, float* out) {
  if constexpr (kCols == 8) {
    store(v, out);
  } else {
    const Vec4 rest = high(v);
    store(low(v), out);
    unrolled<kCols - 4>([&](auto k) __attribute__((always_inline)) { out[4 + k] = rest[decltype(k)::value]; });
  }
}

// Every row is read before it is stored, and nothing beside it: out may be a or g.
template <uint32_t kCols, bool kSubtract>
void multiply_right_of(size_t rows, const float* a, const float* s, const float* g, float* out) {
  Vec8 s_rows[kCols];
  unrolled<kCols>([&](auto k) __attribute__((always_inline)) { s_rows[k] = load_last<kCols>(s + k * kCols); });
  const auto value_of = [&](Vec8 from, const float* row) __attribute__((always_inline)) {
    const Vec8 product = multiply_row<kCols>(row, s_rows);
    return kSubtract ? from - product : product;
  };
  size_t at = 0;
  for (; at + kCols < rows * kCols; at += kCols) {
    store_row<kCols>(value_of(kSubtract ? load<Vec8>(g + at) : Vec8{}, a + at), out + at);
  }
  store_row<kCols>(value_of(kSubtract ? load_last<kCols>(g + at) : Vec8{}, a + at), out + at);
}

template <bool kSubtract>
void multiply_right_by_4(size_t rows, const float* a, const float* s, const float* g, float* out) {
  Vec8 s_rows[4];
  unrolled<4>([&](auto k) __attribute__((always_inline)) { s_rows[k] = twice(load<Vec4>(s + 4 * k)); });
  const auto product_of = [&](Vec8 row) __attribute__((always_inline)) {
    return (splat_halves<0>(row) * s_rows[0] + splat_halves<1>(row) * s_rows[1]) +
           (splat_halves<2>(row) * s_rows[2] + splat_halves<3>(row) * s_rows[3]);
  };
  const size_t size = 4 * rows;
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    const Vec8 product = product_of(load<Vec8>(a + at));
    if constexpr (kSubtract) {
      store(load<Vec8>(g + at) - product, out + at);
    } else {
      store(product, out + at);
    }
  }
  if (at < size) {
    const Vec4 product = low(product_of(twice(load<Vec4>(a + at))));
    if constexpr (kSubtract) {
      store(load<Vec4>(g + at) - product, out + at);
    } else {
      store(product, out + at);
    }
  }
}

}  // namespace

void add(size_t count, const Real* x, const Real* y, Real* out) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    store(load<Vec8>(x + i) + load<Vec8>(y + i), out + i);
  }
  for (; i < count; ++i) {
    out[i] = x[i] + y[i];
  }
}

void column_dots(size_t rows, uint32_t cols, const Real* a, const Real* b, Real* out) {
  with_cols<2>(cols, [&](auto n) __attribute__((always_inline)) {
    column_dots_of<decltype(n)::value>(rows, a, b, out);
  });
}

void scale_columns(size_t rows, uint32_t cols, const Real* factors, const Real* x, Real* out) {
  with_cols<2>(
      cols, [&](auto n)
                __attribute__((always_inline)) { scale_columns_of<decltype(n)::value>(rows, factors, x, out); });
}

void subtract_columns(size_t rows, uint32_t cols, const Real* factors, const Real* x, const Real* y, Real* out) {
  with_cols<2>(cols, [&](auto n) __attribute__((always_inline)) {
    for_columns<decltype(n)::value>(
        rows, factors,
        [=](size_t i, Vec8 factor) __attribute__((always_inline)) {
          store(load<Vec8>(y + i) - factor * load<Vec8>(x + i), out + i);
        },
        [=](size_t i, float factor) __attribute__((always_inline)) { out[i] = y[i] - factor * x[i]; });
  });
}

void remove_along_columns(size_t rows, uint32_t cols, const Real* x, const Real* g, Real* out) {
  with_cols<2>(cols, [&](auto n) __attribute__((always_inline)) {
    float along[8];
    column_dots_of<decltype(n)::value>(rows, x, g, along);
    for_columns<decltype(n)::value>(
        rows, along,
        [=](size_t i, Vec8 factor) __attribute__((always_inline)) {
          store(load<Vec8>(g + i) - factor * load<Vec8>(x + i), out + i);
        },
        [=](size_t i, float factor) __attribute__((always_inline)) { out[i] = g[i] - factor * x[i]; });
  });
}

Status normalize_columns(size_t rows, uint32_t cols, const Real* x, const Real* v, Real least, Real* out) {
  Status status = Status::kOk;
  with_cols<2>(
      cols, [&](auto n) __attribute__((always_inline)) {
        constexpr uint32_t kCols = decltype(n)::value;
        status = v == nullptr ? normalize_columns_of<kCols, false>(rows, x, v, least, out)
                              : normalize_columns_of<kCols, true>(rows, x, v, least, out);
      });
  return status;
}

void dots_with_both(size_t rows, uint32_t cols, const Real* x, const Real* y, const Real* v, Real* xy, Real* yv) {
  with_cols<2>(cols, [&](auto n) __attribute__((always_inline)) {
    const auto terms = [=]<typename Vec>(size_t i, Vec* term) __attribute__((always_inline)) {
      const Vec middle = load<Vec>(y + i);
      term[0] = load<Vec>(x + i) * middle;
      term[1] = middle * load<Vec>(v + i);
    };
    sum_columns<decltype(n)::value, 2>(rows, terms, {xy, yv});
  });
}

void subtract_both(size_t rows, uint32_t cols, const Real* factors, const Real* x, const Real* y, const Real* v,
                   Real* out) {
  with_cols<2>(cols, [&](auto n) __attribute__((always_inline)) {
    for_columns<decltype(n)::value>(
        rows, factors,
        [=](size_t i, Vec8 factor) __attribute__((always_inline)) {
          store((load<Vec8>(v + i) - factor * load<Vec8>(x + i)) - factor * load<Vec8>(y + i), out + i);
        },
        [=](size_t i, float factor) __attribute__((always_inline)) {
          out[i] = (v[i] - factor * x[i]) - factor * y[i];
        });
  });
}

void multiply_transposed(size_t rows, uint32_t cols, const Real* a, const Real* b, Real* out) {
  with_cols<4>(cols, [&](auto n) __attribute__((always_inline)) {
    multiply_transposed_of<decltype(n)::value>(rows, a, b, out);
  });
}

void multiply_right(size_t rows, uint32_t cols, const Real* a, const Real* s, const Real* g, Real* out) {
  if (cols == 4) {
    const auto by_4 = g == nullptr ? multiply_right_by_4<false> : multiply_right_by_4<true>;
    return by_4(rows, a, s, g, out);
  }
  with_cols<5>(cols, [&](auto n) __attribute__((always_inline)) {
    if (g == nullptr) {
      multiply_right_of<decltype(n)::value, false>(rows, a, s, g, out);
    } else {
      multiply_right_of<decltype(n)::value, true>(rows, a, s, g, out);
    }
  });
}

}  // namespace gradstream::wide

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // GS_HAS_WIDE
