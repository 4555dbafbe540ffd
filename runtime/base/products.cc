#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"

#include <cmath>
#include <utility>

#include "runtime/base/lanes.h"
#include "runtime/base/wide.h"

namespace gradstream {
namespace {

#if GS_HAS_VECTORS
// Four entries of column_dots, a and b standing at their first columns. Requires rows >= 4.
void column_dots_tile(Shape shape, const Real* a, const Real* b, Real* out) {
  const size_t cols = shape.cols;
  Vec s[kLaneCount];
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { s[k] = load(a + k * cols) * load(b + k * cols); });
  for_rows(
      kLaneCount, shape.rows, [&](auto k, size_t row) __attribute__((always_inline)) {
        s[k] += load(a + row * cols) * load(b + row * cols);
      });
  store(sum_vectors(s), out);
}

// Partial sums k and k + 1 of the 4 x 4 entries of A' B whose first columns a and b stand at: two at a time leave
// registers for the factors.
template <uint32_t k>
[[gnu::always_inline]] inline void sum_two_lanes(Shape shape, const Real* a, const Real* b, Vec sums[4][kLaneCount]) {
  const size_t cols = shape.cols;
  Vec s[2][4];
  unrolled<2>([&](auto lane) __attribute__((always_inline)) {
    const Vec left = load(a + (k + lane) * cols), right = load(b + (k + lane) * cols);
    unrolled<4>([&](auto i) __attribute__((always_inline)) { s[lane][i] = splat_lane<i>(left) * right; });
  });
  for (size_t row = k + kLaneCount; row < shape.rows; row += kLaneCount) {
    unrolled<2>([&](auto lane) __attribute__((always_inline)) {
      if (lane == 0 || row + 1 < shape.rows) {
        const Vec left = load(a + (row + lane) * cols), right = load(b + (row + lane) * cols);
        unrolled<4>([&](auto i) __attribute__((always_inline)) { s[lane][i] += splat_lane<i>(left) * right; });
      }
    });
  }
  unrolled<4>([&](auto i) __attribute__((always_inline)) {
    sums[i][k] = s[0][i];
    sums[i][k + 1] = s[1][i];
  });
}

// The 4 x 4 entries of A' B at out, a and b standing at their first columns. Requires rows >= 4.
void multiply_transposed_block(Shape shape, const Real* a, const Real* b, Real* out) {
  Vec sums[4][kLaneCount];
  sum_two_lanes<0>(shape, a, b, sums);
  sum_two_lanes<2>(shape, a, b, sums);
  unrolled<4>([&](auto i) __attribute__((always_inline)) { store(sum_vectors(sums[i]), out + i * shape.cols); });
}

// sum over the rows of four[.][0..3] one[.][0]. Requires rows >= 4.
Vec multiply_transposed_line(Shape shape, const Real* four, const Real* one) {
  const size_t cols = shape.cols;
  Vec s[kLaneCount];
  unrolled<kLaneCount>([&](auto k)
                           __attribute__((always_inline)) { s[k] = load(four + k * cols) * splat(one[k * cols]); });
  for_rows(
      kLaneCount, shape.rows, [&](auto k, size_t row) __attribute__((always_inline)) {
        s[k] += load(four + row * cols) * splat(one[row * cols]);
      });
  return sum_vectors(s);
}

bool has_blocks(Shape shape) { return shape.rows >= kLaneCount && shape.cols >= 4; }

// A' B, or the blocks of it that hold its upper half. One column more than blocks of four is a line and a corner of its
// own; two or three more are a block that overlaps the one before.
void multiply_transposed_blocks(Shape shape, const Real* a, const Real* b, bool is_upper, Real* out) {
  const uint32_t cols = shape.cols;
  const uint32_t whole = cols % 4 == 1 ? cols - 1 : cols;
  for_column_blocks(0, whole, [&](uint32_t i) {
    for_column_blocks(is_upper ? i / 4 * 4 : 0, whole, [&](uint32_t j) {
      multiply_transposed_block(shape, a + i, b + j, out + static_cast<size_t>(i) * cols + j);
    });
  });
  for (uint32_t i = 0; whole < cols && i < whole; i += 4) {
    const Vec column = multiply_transposed_line(shape, a + i, b + whole);
    unrolled<4>([&](auto k) __attribute__((always_inline)) {
      out[(i + k) * size_t{cols} + whole] = column[decltype(k)::value];
    });
    if (!is_upper) {
      store(multiply_transposed_line(shape, b + i, a + whole), out + static_cast<size_t>(whole) * cols + i);
    }
  }
  if (whole < cols) {
    out[static_cast<size_t>(whole) * cols + whole] = strided_dot(shape.rows, cols, a + whole, cols, b + whole);
  }
}

// 4 kBlocks entries of the row vector a S, s standing at their first column. Requires n >= 4.
template <uint32_t kBlocks>
[[gnu::always_inline]] inline void multiply_row_blocks(uint32_t n, const Real* a, const Real* s, Vec product[kBlocks]) {
  Vec sum[kBlocks][kLaneCount];
  const auto add_terms = [&](auto k, size_t i, bool is_first) __attribute__((always_inline)) {
    const Vec factor = splat(a[i]);
    unrolled<kBlocks>([&](auto b) __attribute__((always_inline)) {
      const Vec term = factor * load(s + i * n + 4 * b);
      sum[b][k] = is_first ? term : sum[b][k] + term;
    });
  };
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { add_terms(k, k, true); });
  for_rows(
      kLaneCount, n, [&](auto k, size_t i) __attribute__((always_inline)) { add_terms(k, i, false); });
  unrolled<kBlocks>([&](auto b) __attribute__((always_inline)) { product[b] = sum_vectors(sum[b]); });
}

// One entry of it.
[[gnu::always_inline]] inline Real multiply_row_column(uint32_t n, const Real* a, const Real* s) {
  Real sum[kLaneCount];
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { sum[k] = a[k] * s[k * size_t{n}]; });
  for_rows(
      kLaneCount, n, [&](auto k, size_t i) __attribute__((always_inline)) { sum[k] += a[i] * s[i * n]; });
  return sum_lanes(sum);
}

// Calls store_four(i, values) and store_one(i, value) for the entries i of A S, row by row. What a store needs is read
// before, so that with cols == 4 it may go to A. Requires cols >= 4.
template <typename StoreFour, typename StoreOne>
[[gnu::always_inline]] inline void multiply_right_blocks(Shape shape, const Real* a, const Real* s,
                                                         StoreFour store_four, StoreOne store_one) {
  const uint32_t n = shape.cols;
  const size_t size = shape.size();
  if (n == 4) {
    const Vec s0 = load(s), s1 = load(s + 4), s2 = load(s + 8), s3 = load(s + 12);
    for (size_t at = 0; at < size; at += 4) {
      const Vec row = load(a + at);
      store_four(at, (splat_lane<0>(row) * s0 + splat_lane<1>(row) * s1) +
                         (splat_lane<2>(row) * s2 + splat_lane<3>(row) * s3));
    }
    return;
  }
  for (size_t at = 0; at < size; at += n) {
    uint32_t c = 0;
    Vec product[2];
    for (; c + 8 <= n; c += 8) {
      multiply_row_blocks<2>(n, a + at, s + c, product);
      store_four(at + c, product[0]);
      store_four(at + c + 4, product[1]);
    }
    if (c + 4 <= n) {
      multiply_row_blocks<1>(n, a + at, s + c, product);
      store_four(at + c, product[0]);
      c += 4;
    }
    for (; c < n; ++c) {
      store_one(at + c, multiply_row_column(n, a + at, s + c));
    }
  }
}
#else
// Four entries of column_dots, a and b standing at their first columns. Requires rows >= 4.
void column_dots_tile(Shape shape, const Real* a, const Real* b, Real* out) {
  const size_t cols = shape.cols;
  Real lanes[kLaneCount][4];
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) {
    unrolled<4>([&](auto c) __attribute__((always_inline)) { lanes[k][c] = a[k * cols + c] * b[k * cols + c]; });
  });
  const auto add_row = [&](auto k, size_t at) __attribute__((always_inline)) {
    unrolled<4>([&](auto c) __attribute__((always_inline)) { lanes[k][c] += a[at + c] * b[at + c]; });
  };
  uint32_t row = kLaneCount;
  for (; row + kLaneCount <= shape.rows; row += kLaneCount) {
    unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { add_row(k, (row + k) * cols); });
  }
  unrolled<kLaneCount - 1>([&](auto k) __attribute__((always_inline)) {
    if (row + k < shape.rows) {
      add_row(k, (row + k) * cols);
    }
  });
  unrolled<4>([&](auto c) __attribute__((always_inline)) {
    out[c] = (lanes[0][c] + lanes[1][c]) + (lanes[2][c] + lanes[3][c]);
  });
}

#endif

// The 2 x 2 entries of A' B at out, a and b standing at their first columns. 16 partial sums fill half of the
// registers of a Cortex-M4F. Requires rows >= 4.
void multiply_transposed_tile(uint32_t rows, uint32_t cols, const Real* a, const Real* b, Real* out) {
  Real s00[kLaneCount], s01[kLaneCount], s10[kLaneCount], s11[kLaneCount];
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) {
    const Real* a_row = a + static_cast<size_t>(k) * cols;
    const Real* b_row = b + static_cast<size_t>(k) * cols;
    s00[k] = a_row[0] * b_row[0];
    s01[k] = a_row[0] * b_row[1];
    s10[k] = a_row[1] * b_row[0];
    s11[k] = a_row[1] * b_row[1];
  });
  const auto add_row = [&](auto k, const Real* a_row, const Real* b_row) __attribute__((always_inline)) {
    s00[k] += a_row[0] * b_row[0];
    s01[k] += a_row[0] * b_row[1];
    s10[k] += a_row[1] * b_row[0];
    s11[k] += a_row[1] * b_row[1];
  };
  uint32_t row = kLaneCount;
  for (; row + kLaneCount <= rows; row += kLaneCount) {
    unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) {
      const size_t at = static_cast<size_t>(row + k) * cols;
      add_row(k, a + at, b + at);
    });
  }
  unrolled<kLaneCount - 1>([&](auto k) __attribute__((always_inline)) {
    if (row + k < rows) {
      const size_t at = static_cast<size_t>(row + k) * cols;
      add_row(k, a + at, b + at);
    }
  });
  out[0] = sum_lanes(s00);
  out[1] = sum_lanes(s01);
  out[cols] = sum_lanes(s10);
  out[cols + 1] = sum_lanes(s11);
}

// Rows i and i + 1 of A' B from column j_begin on.
void multiply_transposed_rows(Shape shape, const Real* a, const Real* b, uint32_t i, uint32_t j_begin, Real* out) {
  const uint32_t cols = shape.cols;
  const bool pair = kUnrolls && i + 1 < cols && shape.rows >= kLaneCount;
  uint32_t j = j_begin;
  for (; pair && j + 1 < cols; j += 2) {
    multiply_transposed_tile(shape.rows, cols, a + i, b + j, out + static_cast<size_t>(i) * cols + j);
  }
  for (; j < cols; ++j) {
    for (uint32_t k = i; k < cols && k < i + 2; ++k) {
      out[static_cast<size_t>(k) * cols + j] = strided_dot(shape.rows, cols, a + k, cols, b + j);
    }
  }
}

// Four entries of the row vector a S, s standing at their first column. Requires n >= 4.
[[gnu::always_inline]] inline void multiply_row_tile(uint32_t n, const Real* a, const Real* s, Real product[4]) {
  Real lanes[4][kLaneCount];
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) {
    const Real* s_row = s + static_cast<size_t>(k) * n;
    unrolled<4>([&](auto c) __attribute__((always_inline)) { lanes[c][k] = a[k] * s_row[c]; });
  });
  const auto add_term = [&](auto k, uint32_t i) __attribute__((always_inline)) {
    const Real* s_row = s + static_cast<size_t>(i) * n;
    unrolled<4>([&](auto c) __attribute__((always_inline)) { lanes[c][k] += a[i] * s_row[c]; });
  };
  uint32_t i = kLaneCount;
  for (; i + kLaneCount <= n; i += kLaneCount) {
    unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { add_term(k, i + k); });
  }
  unrolled<kLaneCount - 1>([&](auto k) __attribute__((always_inline)) {
    if (i + k < n) {
      add_term(k, i + k);
    }
  });
  unrolled<4>([&](auto c) __attribute__((always_inline)) { product[c] = sum_lanes(lanes[c]); });
}

// Calls store(i, value) for every entry i of A S. Four columns are stored together, after the reads that they need:
// with cols == 4 the store may go to A.
template <typename Store>
[[gnu::always_inline]] inline void multiply_right_into(Shape shape, const Real* a, const Real* s, Store store) {
  const uint32_t n = shape.cols;
  const size_t size = shape.size();
  Real product[4];
  if (!kUnrolls) {
    for (size_t at = 0; at < size; at += n) {
      for (uint32_t c = 0; c < n; c += 4) {
        const uint32_t count = n - c < 4 ? n - c : 4;
        for (uint32_t k = 0; k < count; ++k) {
          product[k] = strided_dot(n, 1, a + at, n, s + c + k);
        }
        for (uint32_t k = 0; k < count; ++k) {
          store(at + c + k, product[k]);
        }
      }
    }
    return;
  }
  if (n == 4) {
    Real fixed[16];
    unrolled<16>([&](auto i) __attribute__((always_inline)) { fixed[i] = s[i]; });
    for (size_t at = 0; at < size; at += 4) {
      multiply_row_tile(4, a + at, fixed, product);
      unrolled<4>([&](auto c) __attribute__((always_inline)) { store(at + c, product[c]); });
    }
    return;
  }
  for (size_t at = 0; at < size; at += n) {
    uint32_t c = 0;
    for (; n > 4 && c + 4 <= n; c += 4) {
      multiply_row_tile(n, a + at, s + c, product);
      unrolled<4>([&](auto k) __attribute__((always_inline)) { store(at + c + k, product[k]); });
    }
    for (; c < n; ++c) {
      store(at + c, strided_dot(n, 1, a + at, n, s + c));
    }
  }
}

}  // namespace

Real dot(size_t count, const Real* x, const Real* y) {
  if (!kUnrolls) {
    return strided_dot(count, 1, x, 1, y);
  }
  if (count < kLaneCount) {
    const Real s0 = count > 0 ? x[0] * y[0] : 0, s1 = count > 1 ? x[1] * y[1] : 0, s2 = count > 2 ? x[2] * y[2] : 0;
    return (s0 + s1) + (s2 + Real{0});
  }
#if GS_HAS_VECTORS
  Vec s = load(x) * load(y);
#else
  Real s[kLaneCount];
  unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { s[k] = x[k] * y[k]; });
#endif
  size_t i = kLaneCount;
  for (; i + kLaneCount <= count; i += kLaneCount) {
#if GS_HAS_VECTORS
    s += load(x + i) * load(y + i);
#else
    unrolled<kLaneCount>([&](auto k) __attribute__((always_inline)) { s[k] += x[i + k] * y[i + k]; });
#endif
  }
  unrolled<kLaneCount - 1>([&](auto k) __attribute__((always_inline)) {
    if (i + k < count) {
      s[decltype(k)::value] += x[i + k] * y[i + k];
    }
  });
  return (s[0] + s[1]) + (s[2] + s[3]);
}

Real norm2(size_t count, const Real* x) { return std::sqrt(dot(count, x, x)); }

Real distance2(size_t count, const Real* x, const Real* y) {
  Real s[kLaneCount] = {};
  for (size_t i = 0; i < count; ++i) {
    const Real difference = y[i] - x[i];
    s[i % kLaneCount] += difference * difference;
  }
  return std::sqrt(sum_lanes(s));
}

void add(size_t count, const Real* x, const Real* y, Real* out) {
#if GS_HAS_WIDE
  if (wide::is_available()) {
    wide::add(count, x, y, out);
    return;
  }
#endif
  for_fours(
      count, [=](size_t i) __attribute__((always_inline)) { store(load(x + i) + load(y + i), out + i); },
      [=](size_t i) __attribute__((always_inline)) { out[i] = x[i] + y[i]; });
}

void add_scaled(size_t count, Real a, const Real* x, Real* y) {
  for_fours(
      count, [=](size_t i) __attribute__((always_inline)) { store(load(y + i) + splat(a) * load(x + i), y + i); },
      [=](size_t i) __attribute__((always_inline)) { y[i] += a * x[i]; });
}

void subtract_scaled(size_t count, Real a, const Real* x, const Real* y, Real* out) {
  for_fours(
      count, [=](size_t i) __attribute__((always_inline)) { store(load(y + i) - splat(a) * load(x + i), out + i); },
      [=](size_t i) __attribute__((always_inline)) { out[i] = y[i] - a * x[i]; });
}

void combine(size_t count, Real a, const Real* x, Real b, const Real* y, Real* out) {
  for_fours(
      count,
      [=](size_t i) __attribute__((always_inline)) { store(splat(a) * load(x + i) + splat(b) * load(y + i), out + i); },
      [=](size_t i) __attribute__((always_inline)) { out[i] = a * x[i] + b * y[i]; });
}

void add_scaled_sum(size_t count, Real a, const Real* x, const Real* y, const Real* v, Real* out) {
  for_fours(
      count,
      [=](size_t i)
          __attribute__((always_inline)) { store(load(v + i) + splat(a) * (load(x + i) + load(y + i)), out + i); },
      [=](size_t i) __attribute__((always_inline)) { out[i] = v[i] + a * (x[i] + y[i]); });
}

void scale(size_t count, Real a, Real* x) {
  for_fours(
      count, [=](size_t i) __attribute__((always_inline)) { store(load(x + i) * splat(a), x + i); },
      [=](size_t i) __attribute__((always_inline)) { x[i] *= a; });
}

void copy(size_t count, const Real* x, Real* y) {
  for_fours(
      count, [=](size_t i) __attribute__((always_inline)) { store(load(x + i), y + i); },
      [=](size_t i) __attribute__((always_inline)) { y[i] = x[i]; });
}

void scale_columns(Shape shape, const Real* factors, const Real* x, Real* out) {
#if GS_HAS_WIDE
  if (wide::takes(shape.rows, shape.cols)) {
    wide::scale_columns(shape.rows, shape.cols, factors, x, out);
    return;
  }
#endif
  for_columns(
      shape,
      [=](size_t c) __attribute__((always_inline)) {
        const auto factor = load(factors + c);
        return [=](size_t i) __attribute__((always_inline)) { store(load(x + i) * factor, out + i); };
      },
      [=](size_t c, size_t i) __attribute__((always_inline)) { out[i] = x[i] * factors[c]; });
}

void subtract_columns(Shape shape, const Real* factors, const Real* x, const Real* y, Real* out) {
#if GS_HAS_WIDE
  if (wide::takes(shape.rows, shape.cols)) {
    wide::subtract_columns(shape.rows, shape.cols, factors, x, y, out);
    return;
  }
#endif
  for_columns(
      shape,
      [=](size_t c) __attribute__((always_inline)) {
        const auto factor = load(factors + c);
        return [=](size_t i) __attribute__((always_inline)) { store(load(y + i) - factor * load(x + i), out + i); };
      },
      [=](size_t c, size_t i) __attribute__((always_inline)) { out[i] = y[i] - factors[c] * x[i]; });
}

void multiply_right_in_place(Shape shape, Real* a, const Real* s, Real* row) {
#if GS_HAS_WIDE
  if (shape.cols >= 4 && wide::takes(shape.rows, shape.cols)) {
    wide::multiply_right(shape.rows, shape.cols, a, s, nullptr, a);
    return;
  }
#endif
  if (shape.cols == 4) {
    multiply_right(shape, a, s, a);
    return;
  }
  for (size_t at = 0; at < shape.size(); at += shape.cols) {
    copy(shape.cols, a + at, row);
    multiply_right({1, shape.cols}, row, s, a + at);
  }
}

// Signs of products change exactly, so that the sum is that of A S and B T.
void combine_right(Shape shape, const Real* a, const Real* s, const Real* b, Real* t, Real* row, Real* out) {
  const bool is_in_place = out == a || out == b;
  if (is_in_place) {
    multiply_right_in_place(shape, out, out == a ? s : t, row);
  } else {
    multiply_right(shape, a, s, out);
  }
  if (out == b) {
    // Here S is what is left; T may be overwritten.
    copy(static_cast<size_t>(shape.cols) * shape.cols, s, t);
  }
  scale(static_cast<size_t>(shape.cols) * shape.cols, -1, t);
  subtract_multiply_right(shape, out == b ? a : b, t, out, out);
}

void fill_zero(size_t count, Real* x) {
  for (size_t i = 0; i < count; ++i) {
    x[i] = 0;
  }
}

bool all_finite(size_t count, const Real* x) {
  for (size_t i = 0; i < count; ++i) {
    if (!is_finite(x[i])) {
      return false;
    }
  }
  return true;
}

void column_dots(Shape shape, const Real* a, const Real* b, Real* out) {
#if GS_HAS_WIDE
  if (wide::takes(shape.rows, shape.cols)) {
    wide::column_dots(shape.rows, shape.cols, a, b, out);
    return;
  }
#endif
  const size_t cols = shape.cols;
#if GS_HAS_VECTORS
  if (has_blocks(shape)) {
    for_column_blocks(0, shape.cols, [&](uint32_t c) { column_dots_tile(shape, a + c, b + c, out + c); });
    return;
  }
#endif
  size_t c = 0;
  for (; kUnrolls && shape.rows >= kLaneCount && c + 4 <= cols; c += 4) {
    column_dots_tile(shape, a + c, b + c, out + c);
  }
  for (; c < cols; ++c) {
    out[c] = strided_dot(shape.rows, cols, a + c, cols, b + c);
  }
}

void multiply_transposed(Shape shape, const Real* a, const Real* b, Real* out) {
#if GS_HAS_WIDE
  if (shape.cols >= 4 && wide::takes(shape.rows, shape.cols)) {
    wide::multiply_transposed(shape.rows, shape.cols, a, b, out);
    return;
  }
#endif
#if GS_HAS_VECTORS
  if (has_blocks(shape)) {
    multiply_transposed_blocks(shape, a, b, false, out);
    return;
  }
#endif
  for (uint32_t i = 0; i < shape.cols; i += 2) {
    multiply_transposed_rows(shape, a, b, i, 0, out);
  }
}

void gram(Shape shape, const Real* a, Real* out) {
#if GS_HAS_WIDE
  if (shape.cols >= 4 && wide::takes(shape.rows, shape.cols)) {
    wide::multiply_transposed(shape.rows, shape.cols, a, a, out);  // symmetric to the last bit
    return;
  }
#endif
  const size_t cols = shape.cols;
#if GS_HAS_VECTORS
  const bool is_block = has_blocks(shape);
  if (is_block) {
    multiply_transposed_blocks(shape, a, a, true, out);
  }
#else
  constexpr bool is_block = false;
#endif
  for (uint32_t i = 0; !is_block && i < cols; i += 2) {
    multiply_transposed_rows(shape, a, a, i, i, out);
  }
  for (size_t i = 0; i < cols; ++i) {
    for (size_t j = i + 1; j < cols; ++j) {
      out[j * cols + i] = out[i * cols + j];
    }
  }
}

void multiply_by_transpose(uint32_t p, uint32_t q, uint32_t n, const Real* a, const Real* b, Real* out) {
  for (size_t i = 0; i < p; ++i) {
    for (size_t j = 0; j < q; ++j) {
      out[i * q + j] = dot(n, a + i * n, b + j * n);
    }
  }
}

void multiply_right(Shape shape, const Real* a, const Real* s, Real* out) {
#if GS_HAS_WIDE
  if (shape.cols >= 4 && wide::takes(shape.rows, shape.cols)) {
    wide::multiply_right(shape.rows, shape.cols, a, s, nullptr, out);
    return;
  }
#endif
#if GS_HAS_VECTORS
  if (shape.cols >= 4) {
    multiply_right_blocks(
        shape, a, s, [=](size_t i, Vec values) __attribute__((always_inline)) { store(values, out + i); },
        [=](size_t i, Real value) __attribute__((always_inline)) { out[i] = value; });
    return;
  }
#endif
  multiply_right_into(
      shape, a, s, [=](size_t i, Real value) __attribute__((always_inline)) { out[i] = value; });
}

void subtract_multiply_right(Shape shape, const Real* a, const Real* s, const Real* g, Real* out) {
#if GS_HAS_WIDE
  if (shape.cols >= 4 && wide::takes(shape.rows, shape.cols)) {
    wide::multiply_right(shape.rows, shape.cols, a, s, g, out);
    return;
  }
#endif
#if GS_HAS_VECTORS
  if (shape.cols >= 4) {
    multiply_right_blocks(
        shape, a, s, [=](size_t i, Vec values) __attribute__((always_inline)) { store(load(g + i) - values, out + i); },
        [=](size_t i, Real value) __attribute__((always_inline)) { out[i] = g[i] - value; });
    return;
  }
#endif
  multiply_right_into(
      shape, a, s, [=](size_t i, Real value) __attribute__((always_inline)) { out[i] = g[i] - value; });
}

void add_to_diagonal(uint32_t n, Real value, Real* s) {
  for (size_t i = 0; i < n; ++i) {
    s[i * n + i] += value;
  }
}

Real frobenius_squared(uint32_t n, const Real* s) {
  const size_t size = static_cast<size_t>(n) * n;
  return dot(size, s, s);
}

void symmetrize(uint32_t n, Real* s) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      const Real mean = (s[i * n + j] + s[j * n + i]) / 2;
      s[i * n + j] = mean;
      s[j * n + i] = mean;
    }
  }
}

void transpose_square(uint32_t n, Real* s) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      std::swap(s[i * n + j], s[j * n + i]);
    }
  }
}

}  // namespace gradstream
