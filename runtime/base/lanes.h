// What the kernels of this folder are written with: loops that the compiler unrolls, four numbers in one vector, and
// the four partial sums of a reduction. Everything is inline: a kernel keeps its sums in registers, in whatever file it
// stands. Not for other rooms, which call products.h.
#ifndef GRADSTREAM_RUNTIME_BASE_LANES_H_
#define GRADSTREAM_RUNTIME_BASE_LANES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"

namespace gradstream {

// Partial sums of a reduction: term i goes to sum i % kLaneCount.
inline constexpr uint32_t kLaneCount = 4;

// Whether kernels take several entries at a time. Reason: in the smallest image floats are computed by functions,
// beside which the loops take little time, and unrolled loops take 5 KB of flash. The bits are the same.
#if defined(GS_SMALLEST)
inline constexpr bool kUnrolls = false;
#else
inline constexpr bool kUnrolls = true;
#endif

// Calls body(k) for k = 0 .. kCount - 1, k a constant: small arrays indexed by it stay in registers at -Os and -O2 too.
template <uint32_t kCount, typename Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  [&]<uint32_t... k>(std::integer_sequence<uint32_t, k...>) __attribute__((always_inline)) {
    (body(std::integral_constant<uint32_t, k>{}), ...);
  }
  (std::make_integer_sequence<uint32_t, kCount>{});
}

// How the partial sums are added.
[[gnu::always_inline]] inline Real sum_lanes(const Real s[kLaneCount]) { return (s[0] + s[1]) + (s[2] + s[3]); }

// Without libm, and false for what is not a number.
[[gnu::always_inline]] inline bool is_finite(Real x) { return std::fabs(x) <= std::numeric_limits<Real>::max(); }

// Where four floats are computed by one instruction, lane by lane the same IEEE operations, the kernels below have a
// second form: other loops, the same sums in the same order, the same bits (tests/digest/kernel_hash.h). ARMv7's NEON
// is left out because it flushes subnormal numbers to zero.
#if !defined(GS_REAL_DOUBLE) && !defined(GS_SMALLEST) && (defined(__SSE2__) || defined(__aarch64__))
#define GS_HAS_VECTORS 1
using Vec = Real __attribute__((vector_size(4 * sizeof(Real))));

[[gnu::always_inline]] inline Vec load(const Real* x) {
  Vec v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}
[[gnu::always_inline]] inline void store(Vec v, Real* x) { std::memcpy(x, &v, sizeof(v)); }
[[gnu::always_inline]] inline Vec splat(Real a) { return Vec{a, a, a, a}; }
[[gnu::always_inline]] inline Vec sum_vectors(const Vec s[kLaneCount]) { return (s[0] + s[1]) + (s[2] + s[3]); }
// Four times entry k.
template <int k>
[[gnu::always_inline]] inline Vec splat_lane(Vec v) {
  return __builtin_shufflevector(v, v, k, k, k, k);
}
#else
#define GS_HAS_VECTORS 0
using Vec = Real;  // of the forms below that stand in both, only the single one is called
[[gnu::always_inline]] inline Vec load(const Real* x) { return *x; }
[[gnu::always_inline]] inline void store(Vec v, Real* x) { *x = v; }
[[gnu::always_inline]] inline Vec splat(Real a) { return a; }
#endif

// Columns are taken four at a time; calls body(c) for their first ones, the last four overlapping the ones before.
template <typename Body>
[[gnu::always_inline]] inline void for_column_blocks(uint32_t begin, uint32_t cols, Body body) {
  for (uint32_t c = begin; c < cols; c += 4) {
    body(c + 4 <= cols ? c : cols - 4);
  }
}

// Calls body(lane, row) for every row in order, lane = row % 4 a constant.
template <typename Body>
[[gnu::always_inline]] inline void for_rows(uint32_t begin, uint32_t rows, Body body) {
  uint32_t row = begin;
  for (; row + kLaneCount <= rows; row += kLaneCount) {
    unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { body(k, row + k); });
  }
  unrolled<kLaneCount - 1>([&](auto k) __attribute__((always_inline)) {
    if (row + k < rows) {
      body(k, row + k);
    }
  });
}

// four(i) for i = 0, 4, ... and one(i) for the rest; without vectors one(i) for all.
template <typename Four, typename One>
[[gnu::always_inline]] inline void for_fours(size_t count, [[maybe_unused]] Four four, One one) {
  size_t i = 0;
#if GS_HAS_VECTORS
  for (; i + 4 <= count; i += 4) {
    four(i);
  }
#endif
  for (; i < count; ++i) {
    one(i);
  }
}

// four(c) gives what is called with i = row * cols + c for every row and for every four columns from c on; one(c, i)
// does a single entry.
template <typename Four, typename One>
[[gnu::always_inline]] inline void for_columns(Shape shape, [[maybe_unused]] Four four, One one) {
  const size_t cols = shape.cols;
  const size_t size = shape.size();
  size_t begin = 0;
#if GS_HAS_VECTORS
  for (; begin + 4 <= cols; begin += 4) {
    const auto row = four(begin);
    for (size_t i = begin; i < size; i += cols) {
      row(i);
    }
  }
#endif
  for (size_t at = 0; begin < cols && at < size; at += cols) {
    for (size_t c = begin; c < cols; ++c) {
      one(c, at + c);
    }
  }
}

// sum x[i x_stride] y[i y_stride], in the order of dot(). x and y may alias.
inline Real strided_dot(size_t count, size_t x_stride, const Real* x, size_t y_stride, const Real* y) {
  Real s[kLaneCount] = {};
  for (size_t i = 0; i < count; ++i) {
    const Real term = x[i * x_stride] * y[i * y_stride];
    s[i % kLaneCount] = i < kLaneCount ? term : s[i % kLaneCount] + term;
  }
  return sum_lanes(s);
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_LANES_H_
