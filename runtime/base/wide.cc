#include "runtime/base/no_contraction.h"

#include "runtime/base/wide.h"

#include <cstring>
#include <limits>
#include <utility>

#include "runtime/base/decompositions.h"

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
  }
  (std::make_integer_sequence<uint32_t, kCount>{});
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

// Numbers kBegin .. kBegin + 7 of the sixteen of a and b.
template <uint32_t kBegin>
[[gnu::always_inline]] inline Vec8 window(Vec8 a, Vec8 b) {
  return __builtin_shufflevector(a, b, kBegin, kBegin + 1, kBegin + 2, kBegin + 3, kBegin + 4, kBegin + 5, kBegin + 6,
                                 kBegin + 7);
}

// kCols numbers, of which none behind them is read; what the other lanes hold is of no use.
template <uint32_t kCols>
[[gnu::always_inline]] inline Vec8 load_cols(const float* x) {
  if constexpr (kCols == 8) {
    return load<Vec8>(x);
  } else if constexpr (kCols >= 4) {
    constexpr uint32_t kNext = 12 - kCols;  // number 4, where the second four end with the last one
    return __builtin_shufflevector(load<Vec4>(x), load<Vec4>(x + kCols - 4), 0, 1, 2, 3, kNext % 8, (kNext + 1) % 8,
                                   (kNext + 2) % 8, (kNext + 3) % 8);
  } else {
    return Vec8{x[0], x[1], x[kCols - 1]};
  }
}

// The first kCols of eight numbers.
template <uint32_t kCols>
[[gnu::always_inline]] inline void store_cols(Vec8 v, float* out) {
  if constexpr (kCols == 8) {
    store(v, out);
  } else if constexpr (kCols >= 4) {
    const Vec4 rest = high(v);
    store(low(v), out);
    unrolled<kCols - 4>([&](auto k) __attribute__((always_inline)) { out[4 + k] = rest[decltype(k)::value]; });
  } else {
    unrolled<kCols>([&](auto k) __attribute__((always_inline)) { out[k] = v[decltype(k)::value]; });
  }
}

// out[k], number c <- the sum over the rows of term k of column c; terms.operator()<Vec>(i, term) gives the kSums
// terms of the numbers from i on. Four rows are 4 kCols numbers in a row: number q of them belongs to partial sum
// q / kCols of column q % kCols. No sum goes through memory: a wide load of what was stored in pieces would wait for
// all of them.
template <uint32_t kCols, uint32_t kSums, typename Terms>
[[gnu::always_inline]] inline void sum_columns(size_t rows, Terms terms, Vec8 (&out)[kSums]) {
  constexpr uint32_t kWhole = kCols / 2;
  constexpr uint32_t kPartCount = (kCols + 1) / 2;
  constexpr size_t kPeriod = kLaneCount * kCols;
  const size_t size = rows * kCols;
  Vec8 s[kPartCount][kSums];
  [[maybe_unused]] Vec4 rest[kSums];
  unrolled<kWhole>([&](auto k) __attribute__((always_inline)) { terms.template operator()<Vec8>(8 * k, s[k]); });
  if constexpr (kCols % 2 != 0) {
    terms.template operator()<Vec4>(8 * kWhole, rest);
  }
  const auto add_period = [&](size_t at) __attribute__((always_inline)) {
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
  };
  size_t at = kPeriod;
  for (; kCols <= 4 && at + 3 * kPeriod <= size; at += 3 * kPeriod) {
    unrolled<3>([&](auto k) __attribute__((always_inline)) { add_period(at + k * kPeriod); });
  }
  for (; at + kPeriod <= size; at += kPeriod) {
    add_period(at);
  }
  if constexpr (kCols % 2 != 0) {
    unrolled<kSums>([&](auto i) __attribute__((always_inline)) { s[kWhole][i] = twice(rest[i]); });
  }
  if (at < size) {
    unrolled<kSums>([&](auto i) __attribute__((always_inline)) {
      float sums[8 * kPartCount];
      unrolled<kPartCount>([&](auto k) __attribute__((always_inline)) { store(s[k][i], sums + 8 * k); });
      for (size_t q = 0; at + q < size; ++q) {
        float term[kSums];
        terms.template operator()<float>(at + q, term);
        sums[q] += term[i];
      }
      unrolled<kPartCount>([&](auto k) __attribute__((always_inline)) { s[k][i] = load<Vec8>(sums + 8 * k); });
    });
  }
  unrolled<kSums>([&](auto i) __attribute__((always_inline)) {
    Vec8 lanes[kLaneCount];
    unrolled<kLaneCount>([&](auto n) __attribute__((always_inline)) {
      constexpr uint32_t kBegin = decltype(n)::value * kCols, kPart = kBegin / 8;
      constexpr uint32_t kNext = kPart + 1 < kPartCount ? kPart + 1 : kPart;
      lanes[n] = window<kBegin % 8>(s[kPart][i], s[kNext][i]);
    });
    out[i] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  });
}

template <uint32_t kCols>
[[gnu::always_inline]] inline Vec8 column_dots_of(size_t rows, const float* a, const float* b) {
  const auto products = [=]<typename Vec>(size_t i, Vec * term) __attribute__((always_inline)) {
    term[0] = load<Vec>(a + i) * load<Vec>(b + i);
  };
  Vec8 sums[1];
  sum_columns<kCols, 1>(rows, products, sums);
  return sums[0];
}

constexpr uint32_t common_divisor(uint32_t a, uint32_t b) { return b == 0 ? a : common_divisor(b, a % b); }

// The kCols factors as they lie over numbers 8 kTile .. 8 kTile + 7 of a matrix.
template <uint32_t kCols, uint32_t kTile>
[[gnu::always_inline]] inline Vec8 tile_of(Vec8 f) {
  constexpr uint32_t k = 8 * kTile;
  return __builtin_shufflevector(f, f, k % kCols, (k + 1) % kCols, (k + 2) % kCols, (k + 3) % kCols, (k + 4) % kCols,
                                 (k + 5) % kCols, (k + 6) % kCols, (k + 7) % kCols);
}

// eight(i, factors of the numbers from i on) for every eight of the rows x kCols, one(i, factors) for those behind
// them: kSets factors of each number.
template <uint32_t kCols, uint32_t kSets, typename Eight, typename One>
[[gnu::always_inline]] inline void for_columns(size_t rows, const Vec8 (&factors)[kSets], Eight eight, One one) {
  constexpr uint32_t kTileCount = kCols / common_divisor(kCols, 8);
  const size_t size = rows * kCols;
  Vec8 tiles[kTileCount][kSets];
  unrolled<kTileCount>([&](auto k) __attribute__((always_inline)) {
    unrolled<kSets>([&](auto i) __attribute__((always_inline)) {
      tiles[k][i] = tile_of<kCols, decltype(k)::value>(factors[i]);
    });
  });
  size_t at = 0;
  // At least four eights a turn: a shape of a few hundred numbers is soon over.
  constexpr uint32_t kTurnCount = kTileCount * ((3 + kTileCount) / kTileCount);
  for (; at + 8 * kTurnCount <= size; at += 8 * kTurnCount) {
    unrolled<kTurnCount>([&](auto k) __attribute__((always_inline)) { eight(at + 8 * k, tiles[k % kTileCount]); });
  }
  for (; kTurnCount > kTileCount && at + 8 * kTileCount <= size; at += 8 * kTileCount) {
    unrolled<kTileCount>([&](auto k) __attribute__((always_inline)) { eight(at + 8 * k, tiles[k]); });
  }
  if (at < size) {
    float each[kSets][8];
    unrolled<kSets>([&](auto i) __attribute__((always_inline)) { store(factors[i], each[i]); });
    for (size_t q = 0; at + q < size; ++q) {
      float factor[kSets];
      unrolled<kSets>([&](auto i) __attribute__((always_inline)) { factor[i] = each[i][q % kCols]; });
      one(at + q, factor);
    }
  }
}

template <uint32_t kCols>
[[gnu::always_inline]] inline void scale_columns_of(size_t rows, Vec8 factors, const float* x, float* out) {
  for_columns<kCols, 1>(
      rows, {factors},
      [=](size_t i, const Vec8* f) __attribute__((always_inline)) { store(load<Vec8>(x + i) * f[0], out + i); },
      [=](size_t i, const float* f) __attribute__((always_inline)) { out[i] = x[i] * f[0]; });
}

// out <- Y - X diag(factors).
template <uint32_t kCols>
[[gnu::always_inline]] inline void subtract_columns_of(size_t rows, Vec8 factors, const float* x, const float* y,
                                                       float* out) {
  for_columns<kCols, 1>(
      rows, {factors},
      [=](size_t i, const Vec8* f)
          __attribute__((always_inline)) { store(load<Vec8>(y + i) - f[0] * load<Vec8>(x + i), out + i); },
      [=](size_t i, const float* f) __attribute__((always_inline)) { out[i] = y[i] - f[0] * x[i]; });
}

// kOk: the first kCols squares of lengths are finite and at least `least`.
template <uint32_t kCols>
[[gnu::always_inline]] inline Status check_squares(Vec8 squares, float least) {
  constexpr int kLanes = (1 << kCols) - 1;
  const int finite = mask_of(squares <= splat(std::numeric_limits<float>::max()));  // false for what is not a number
  const int regular = mask_of(squares >= splat(least));
  if ((finite & regular & kLanes) == kLanes) {
    return Status::kOk;
  }
  return (finite & kLanes) == kLanes ? Status::kSingular : Status::kNotFinite;
}

// The root and the quotient of all columns at once: IEEE's, as of each alone. X + V is added twice and not kept: out,
// in memory that may lie unevenly to cache lines, would be stored to and read again at once.
template <uint32_t kCols, bool kAdds>
[[gnu::always_inline]] inline Status normalize_columns_of(size_t rows, const float* x, const float* v, float least,
                                                          float* out) {
  const auto number = [=]<typename Vec>(size_t i, Vec * z) __attribute__((always_inline)) {
    *z = load<Vec>(x + i);
    if constexpr (kAdds) {
      *z += load<Vec>(v + i);
    }
  };
  const auto terms = [=]<typename Vec>(size_t i, Vec * term) __attribute__((always_inline)) {
    Vec z;
    number(i, &z);
    term[0] = z * z;
  };
  Vec8 squares[1];
  sum_columns<kCols, 1>(rows, terms, squares);
  const Status status = check_squares<kCols>(squares[0], least);
  if (status == Status::kOk) {
    for_columns<kCols, 1>(
        rows, {splat(1) / __builtin_ia32_sqrtps256(squares[0])},
        [=](size_t i, const Vec8* f) __attribute__((always_inline)) {
          Vec8 z;
          number(i, &z);
          store(z * f[0], out + i);
        },
        [=](size_t i, const float* f) __attribute__((always_inline)) {
          float z;
          number(i, &z);
          out[i] = z * f[0];
        });
  }
  return status;
}

// The series with these coefficients at eight places.
[[gnu::always_inline]] inline Vec8 angle_series(const float (&coefficients)[kAngleTermCount], Vec8 q) {
  constexpr uint32_t kPairCount = kAngleTermCount / 2;
  const Vec8 squared = q * q;
  Vec8 even = splat(coefficients[kAngleTermCount - 1]), odd = splat(coefficients[kAngleTermCount - 2]);
  unrolled<kPairCount>([&](auto k) __attribute__((always_inline)) {
    even = splat(coefficients[kAngleTermCount - 3 - 2 * static_cast<int>(k)]) + squared * even;
  });
  unrolled<kPairCount - 1>([&](auto k) __attribute__((always_inline)) {
    odd = splat(coefficients[kAngleTermCount - 4 - 2 * static_cast<int>(k)]) + squared * odd;
  });
  return even + q * odd;
}

template <uint32_t kCols>
[[gnu::always_inline]] inline Status exponential_columns_of(size_t rows, const float* x, const float* v, float least,
                                                            float* out, bool* is_short) {
  const auto terms = [=]<typename Vec>(size_t i, Vec * term) __attribute__((always_inline)) {
    const Vec point = load<Vec>(x + i), step = load<Vec>(v + i);
    term[0] = point * point;
    term[1] = point * step;
    term[2] = step * step;
  };
  Vec8 sums[3];
  sum_columns<kCols, 3>(rows, terms, sums);
  constexpr int kLanes = (1 << kCols) - 1;
  *is_short = (mask_of(sums[2] <= splat(kAngleSquaredMax)) & kLanes) == kLanes;
  if (!*is_short) {
    return Status::kOk;
  }
  const Vec8 cosine = angle_series(kAngleSeries.cosine, sums[2]), ratio = angle_series(kAngleSeries.sine, sums[2]);
  const Vec8 square =
      (cosine * (cosine * sums[0]) + (cosine * ratio) * (sums[1] + sums[1])) + ratio * (ratio * sums[2]);
  const int near_one = mask_of(square >= splat(1 - kNearOne)) & mask_of(square <= splat(1 + kNearOne));
  Vec8 inverse = splat(1.5F) - splat(0.5F) * square;
  if ((near_one & kLanes) != kLanes) {
    const Status status = check_squares<kCols>(square, least);
    if (status != Status::kOk) {
      return status;
    }
    inverse = splat(1) / __builtin_ia32_sqrtps256(square);
  }
  for_columns<kCols, 2>(
      rows, {cosine * inverse, ratio * inverse},
      [=](size_t i, const Vec8* f)
          __attribute__((always_inline)) { store(f[0] * load<Vec8>(x + i) + f[1] * load<Vec8>(v + i), out + i); },
      [=](size_t i, const float* f) __attribute__((always_inline)) { out[i] = f[0] * x[i] + f[1] * v[i]; });
  return Status::kOk;
}

template <uint32_t kCols>
[[gnu::always_inline]] inline Status transport_columns_of(size_t rows, const float* x, const float* y, const float* v,
                                                          float least, float* out) {
  const auto terms = [=]<typename Vec>(size_t i, Vec * term) __attribute__((always_inline)) {
    const Vec middle = load<Vec>(y + i);
    term[0] = load<Vec>(x + i) * middle;
    term[1] = middle * load<Vec>(v + i);
  };
  Vec8 sums[2];
  sum_columns<kCols, 2>(rows, terms, sums);
  const Vec8 divisors = splat(1) + sums[0];
  constexpr int kLanes = (1 << kCols) - 1;
  if ((mask_of(divisors > splat(least)) & kLanes) != kLanes) {  // false for what is not a number
    return Status::kSingular;
  }
  for_columns<kCols, 1>(
      rows, {sums[1] / divisors},
      [=](size_t i, const Vec8* f) __attribute__((always_inline)) {
        store((load<Vec8>(v + i) - f[0] * load<Vec8>(x + i)) - f[0] * load<Vec8>(y + i), out + i);
      },
      [=](size_t i, const float* f) __attribute__((always_inline)) { out[i] = (v[i] - f[0] * x[i]) - f[0] * y[i]; });
  return Status::kOk;
}

// s[i][j]: partial sum `lane` of entry (i, j) of A' B; what stands beyond column kCols - 1 is of no use.
template <uint32_t kCols>
[[gnu::always_inline]] inline void sum_lane(size_t rows, uint32_t lane, const float* a, const float* b, Vec8 s[kCols]) {
  const Vec8 first = load<Vec8>(b + lane * kCols);
  unrolled<kCols>([&](auto i) __attribute__((always_inline)) { s[i] = splat(a[lane * kCols + i]) * first; });
  size_t row = lane + kLaneCount;
  for (; row + 1 < rows; row += kLaneCount) {
    const Vec8 right = load<Vec8>(b + row * kCols);
    unrolled<kCols>([&](auto i) __attribute__((always_inline)) { s[i] += splat(a[row * kCols + i]) * right; });
  }
  if (row < rows) {
    const Vec8 right = load_cols<kCols>(b + row * kCols);
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
    store_cols<kCols>(sums[0][i] + sums[1][i], out + i * kCols);
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

// Every row is read before it is stored, and nothing beside it: out may be a or g.
template <uint32_t kCols, bool kSubtract>
void multiply_right_of(size_t rows, const float* a, const float* s, const float* g, float* out) {
  Vec8 s_rows[kCols];
  unrolled<kCols>([&](auto k) __attribute__((always_inline)) { s_rows[k] = load_cols<kCols>(s + k * kCols); });
  const auto value_of = [&](Vec8 from, const float* row) __attribute__((always_inline)) {
    const Vec8 product = multiply_row<kCols>(row, s_rows);
    return kSubtract ? from - product : product;
  };
  size_t at = 0;
  for (; at + kCols < rows * kCols; at += kCols) {
    store_cols<kCols>(value_of(kSubtract ? load<Vec8>(g + at) : Vec8{}, a + at), out + at);
  }
  store_cols<kCols>(value_of(kSubtract ? load_cols<kCols>(g + at) : Vec8{}, a + at), out + at);
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
  with_cols<2>(
      cols, [&](auto n) __attribute__((always_inline)) {
        constexpr uint32_t kCols = decltype(n)::value;
        store_cols<kCols>(column_dots_of<kCols>(rows, a, b), out);
      });
}

void scale_columns(size_t rows, uint32_t cols, const Real* factors, const Real* x, Real* out) {
  with_cols<2>(
      cols, [&](auto n) __attribute__((always_inline)) {
        constexpr uint32_t kCols = decltype(n)::value;
        scale_columns_of<kCols>(rows, load_cols<kCols>(factors), x, out);
      });
}

void subtract_columns(size_t rows, uint32_t cols, const Real* factors, const Real* x, const Real* y, Real* out) {
  with_cols<2>(
      cols, [&](auto n) __attribute__((always_inline)) {
        constexpr uint32_t kCols = decltype(n)::value;
        subtract_columns_of<kCols>(rows, load_cols<kCols>(factors), x, y, out);
      });
}

void remove_along_columns(size_t rows, uint32_t cols, const Real* x, const Real* g, Real* out) {
  with_cols<2>(
      cols, [&](auto n) __attribute__((always_inline)) {
        constexpr uint32_t kCols = decltype(n)::value;
        subtract_columns_of<kCols>(rows, column_dots_of<kCols>(rows, x, g), x, g, out);
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

Status exponential_columns(size_t rows, uint32_t cols, const Real* x, const Real* v, Real least, Real* out,
                           bool* is_short) {
  Status status = Status::kOk;
  with_cols<2>(
      cols, [&](auto n) __attribute__((always_inline)) {
        status = exponential_columns_of<decltype(n)::value>(rows, x, v, least, out, is_short);
      });
  return status;
}

Status transport_columns(size_t rows, uint32_t cols, const Real* x, const Real* y, const Real* v, Real least,
                         Real* out) {
  Status status = Status::kOk;
  with_cols<2>(
      cols, [&](auto n) __attribute__((always_inline)) {
        status = transport_columns_of<decltype(n)::value>(rows, x, y, v, least, out);
      });
  return status;
}

void multiply_transposed(size_t rows, uint32_t cols, const Real* a, const Real* b, Real* out) {
  with_cols<4>(
      cols, [&](auto n)
                __attribute__((always_inline)) { multiply_transposed_of<decltype(n)::value>(rows, a, b, out); });
}

void multiply_right(size_t rows, uint32_t cols, const Real* a, const Real* s, const Real* g, Real* out) {
  if (cols == 4) {
    const auto by_4 = g == nullptr ? multiply_right_by_4<false> : multiply_right_by_4<true>;
    return by_4(rows, a, s, g, out);
  }
  with_cols<5>(
      cols, [&](auto n) __attribute__((always_inline)) {
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
