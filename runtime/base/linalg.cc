#include "runtime/base/no_contraction.h"

#include "runtime/base/linalg.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/base/wide.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();
constexpr uint32_t kLaneCount = 4;

// Calls body(k) for k = 0 .. kCount - 1, k a constant: small arrays indexed by it stay in registers at -Os and -O2 too.
template <uint32_t kCount, typename Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  [&]<uint32_t... k>(std::integer_sequence<uint32_t, k...>) __attribute__((always_inline)) {
    (body(std::integral_constant<uint32_t, k>{}), ...);
  }
  (std::make_integer_sequence<uint32_t, kCount>{});
}

[[gnu::always_inline]] inline Real sum_lanes(const Real s[kLaneCount]) { return (s[0] + s[1]) + (s[2] + s[3]); }

// Where four floats are computed by one instruction, lane by lane the same IEEE operations, the kernels below have a
// second form: other loops, the same sums in the same order, the same bits (tests/digest/kernel_hash.h). ARMv7's NEON
// is left out because it flushes subnormal numbers to zero.
#if !defined(GS_REAL_DOUBLE) && (defined(__SSE2__) || defined(__aarch64__))
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
#else
#define GS_HAS_VECTORS 0
using Vec = Real;  // of the forms below that stand in both, only the single one is called
[[gnu::always_inline]] inline Vec load(const Real* x) { return *x; }
[[gnu::always_inline]] inline void store(Vec v, Real* x) { *x = v; }
[[gnu::always_inline]] inline Vec splat(Real a) { return a; }
#endif

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

Real strided_dot(size_t count, size_t x_stride, const Real* x, size_t y_stride, const Real* y) {
  Real s[kLaneCount] = {};
  for (size_t i = 0; i < count; ++i) {
    const Real term = x[i * x_stride] * y[i * y_stride];
    s[i % kLaneCount] = i < kLaneCount ? term : s[i % kLaneCount] + term;
  }
  return sum_lanes(s);
}

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

template <int k>
[[gnu::always_inline]] inline Vec splat_lane(Vec v) {
  return __builtin_shufflevector(v, v, k, k, k, k);
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
  const bool pair = i + 1 < cols && shape.rows >= kLaneCount;
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

void add_to_diagonal(uint32_t n, Real value, Real* s) {
  for (size_t i = 0; i < n; ++i) {
    s[i * n + i] += value;
  }
}

Real frobenius_squared(uint32_t n, const Real* s) {
  const size_t size = static_cast<size_t>(n) * n;
  return dot(size, s, s);
}

// Jacobi rotates rows p and q of x by (c, s) in the form that does not cancel: tau = s / (1 + c).
void rotate_rows(uint32_t n, Real s, Real tau, Real* x_p, Real* x_q) {
  for_fours(
      n,
      [=](size_t k) __attribute__((always_inline)) {
        const auto g = load(x_p + k), h = load(x_q + k);
        store(g - splat(s) * (h + splat(tau) * g), x_p + k);
        store(h + splat(s) * (g - splat(tau) * h), x_q + k);
      },
      [=](size_t k) __attribute__((always_inline)) {
        const Real g = x_p[k], h = x_q[k];
        x_p[k] = g - s * (h + tau * g);
        x_q[k] = h + s * (g - tau * h);
      });
}

// Makes S[p][q] zero (Golub and Van Loan, Matrix Computations, 8.5). q_rows: eigenvectors as rows.
void jacobi_rotate(uint32_t n, uint32_t p, uint32_t q, Real* s, Real* q_rows) {
  Real* s_p = s + static_cast<size_t>(p) * n;
  Real* s_q = s + static_cast<size_t>(q) * n;
  const Real off = s_p[q];
  const Real theta = (s_q[q] - s_p[p]) / (2 * off);
  const Real magnitude = 1 / (std::fabs(theta) + std::sqrt(theta * theta + 1));
  const Real t = theta < 0 ? -magnitude : magnitude;
  const Real c = 1 / std::sqrt(t * t + 1);
  const Real sine = t * c;
  const Real tau = sine / (1 + c);
  const Real diagonal_p = s_p[p] - t * off;
  const Real diagonal_q = s_q[q] + t * off;
  rotate_rows(n, sine, tau, s_p, s_q);
  for (size_t k = 0; k < n; ++k) {
    s[k * n + p] = s_p[k];
    s[k * n + q] = s_q[k];
  }
  s_p[p] = diagonal_p;
  s_q[q] = diagonal_q;
  s_p[q] = 0;
  s_q[p] = 0;
  rotate_rows(n, sine, tau, q_rows + static_cast<size_t>(p) * n, q_rows + static_cast<size_t>(q) * n);
}

// Sorts w ascending, rows of q along with it; equal values keep their order.
void sort_eigenpairs(uint32_t n, Real* w, Real* q_rows) {
  for (size_t i = 1; i < n; ++i) {
    for (size_t j = i; j > 0 && w[j] < w[j - 1]; --j) {
      std::swap(w[j], w[j - 1]);
      for (size_t k = 0; k < n; ++k) {
        std::swap(q_rows[j * n + k], q_rows[(j - 1) * n + k]);
      }
    }
  }
}

// Scratch of polar_factor, from the arena. All n x n but row (n).
struct PolarScratch {
  Real* gram;
  Real* power;  // becomes G^(-1/2)
  Real* work0;
  Real* work1;
  Real* row;
};

// |G - I| (Frobenius) up to here takes the Newton path, without an eigen-decomposition. Reason: G stays well
// conditioned, so that the uncoupled iteration is stable (Higham, Functions of Matrices, 6.4).
constexpr Real kNearIdentity = static_cast<Real>(0.25);
constexpr int kNewtonStepsMax = 8;

// P = G^(-1/2) for G near I. Start: I - E/2 + 3/8 E^2, E = G - I, with error O(|E|^3); then P <- P (3 I - G P^2) / 2,
// which squares the error. work0 holds E. On return s.power is P.
void inverse_root_near_identity(uint32_t n, const PolarScratch& s) {
  const size_t size = static_cast<size_t>(n) * n;
  const Shape square{n, n};
  multiply_right(square, s.work0, s.work0, s.power);
  for (size_t i = 0; i < size; ++i) {
    s.power[i] = static_cast<Real>(0.375) * s.power[i] - static_cast<Real>(0.5) * s.work0[i];
  }
  add_to_diagonal(n, 1, s.power);
  for (int step = 0; step < kNewtonStepsMax; ++step) {
    multiply_right(square, s.power, s.power, s.work0);
    multiply_right(square, s.gram, s.work0, s.work1);
    // work1 <- half the residual I - G P^2, then P <- P + P work1.
    scale(size, static_cast<Real>(-0.5), s.work1);
    add_to_diagonal(n, static_cast<Real>(0.5), s.work1);
    multiply_right(square, s.power, s.work1, s.work0);
    add_scaled(size, 1, s.work0, s.power);
    if (frobenius_squared(n, s.work1) <= kEpsilon / 4) {
      return;
    }
  }
}

// P = G^(-1/2) by eigen-decomposition of G, which is overwritten, with eigenvalues below kPolarRankTolerance times the
// largest raised to it. *full_rank says that none was.
Status inverse_root_by_eigen(uint32_t n, const PolarScratch& s, bool* full_rank) {
  GS_TRY(symmetric_eigen(n, s.gram, s.row, s.work0));
  const Real largest = s.row[n - 1];
  if (!(largest > std::numeric_limits<Real>::min() / kEpsilon)) {
    return Status::kSingular;
  }
  const Real floor = kPolarRankTolerance * largest;
  *full_rank = s.row[0] > floor;
  for (size_t c = 0; c < n; ++c) {
    const Real root = std::sqrt(s.row[c] > floor ? s.row[c] : floor);
    for (size_t r = 0; r < n; ++r) {
      s.work1[c * n + r] = s.work0[r * n + c] / root;
    }
  }
  multiply_right({n, n}, s.work0, s.work1, s.power);
  return Status::kOk;
}

// a <- A (A'A)^(-1/2). A far from orthonormal is multiplied by the eigen route's factor, once or twice, until Newton's
// path takes it: the result is orthonormal to rounding whatever the errors of the eigenvalues were.
Status polar_in_place(Shape shape, Real* a, const PolarScratch& s) {
  constexpr int kEigenPassesMax = 2;
  const uint32_t n = shape.cols;
  const size_t size = static_cast<size_t>(n) * n;
  for (int pass = 0;; ++pass) {
    gram(shape, a, s.gram);
    if (!all_finite(size, s.gram)) {
      return Status::kNotFinite;
    }
    copy(size, s.gram, s.work0);
    add_to_diagonal(n, -1, s.work0);
    if (frobenius_squared(n, s.work0) <= kNearIdentity * kNearIdentity) {
      inverse_root_near_identity(n, s);
      multiply_right_in_place(shape, a, s.power, s.row);
      return Status::kOk;
    }
    if (pass == kEigenPassesMax) {
      return Status::kSingular;
    }
    bool full_rank = true;
    GS_TRY(inverse_root_by_eigen(n, s, &full_rank));
    if (!full_rank && pass > 0) {
      return Status::kSingular;
    }
    multiply_right_in_place(shape, a, s.power, s.row);
  }
}

// A column of A = QR whose part normal to those before it has less than this share of its square is for Gram-Schmidt:
// below it the Gram matrix has lost too many digits. And a sum of the other shares up to the second constant bounds the
// condition of A, its columns scaled to one length, by 1.7, so that one pass is orthonormal to rounding.
constexpr Real kNormalShareMin = static_cast<Real>(1.0 / 64);
constexpr Real kNearOrthogonal = static_cast<Real>(1.0 / 16);
// Reason: the first pass leaves a near-orthonormal matrix, whatever the condition was.
constexpr int kCholeskyPassesMax = 2;

// s <- R^(-1), s = R'R, n x n, R upper triangular with a positive diagonal, zeros below. *dependence: the sum of the
// shares of the columns' squares that lie along the columns before. false: a share is too large for this, or s is not
// finite or not positive definite; s is then spoilt.
bool invert_cholesky(uint32_t n, Real* s, Real* dependence) {
  for (size_t j = 0; j < n; ++j) {
    const Real square = s[j * n + j];
    Real normal = square;
    for (size_t i = 0; i < j; ++i) {
      Real value = s[i * n + j];
      for (size_t k = 0; k < i; ++k) {
        value -= s[k * n + i] * s[k * n + j];
      }
      value /= s[i * n + i];
      s[i * n + j] = value;
      normal -= value * value;
    }
    const Real share = normal / square;
    if (!(share >= kNormalShareMin) || !all_finite(1, &normal)) {
      return false;
    }
    *dependence += 1 - share;
    s[j * n + j] = std::sqrt(normal);
  }
  for (size_t j = 0; j < n; ++j) {
    const Real inverse = 1 / s[j * n + j];
    for (size_t i = 0; i < j; ++i) {
      Real sum = 0;
      for (size_t k = i; k < j; ++k) {
        sum += s[i * n + k] * s[k * n + j];
      }
      s[i * n + j] = -(sum * inverse);
      s[j * n + i] = 0;
    }
    s[j * n + j] = inverse;
  }
  return true;
}

// out <- Q of out = QR by modified Gram-Schmidt, every column twice.
Status gram_schmidt(Shape shape, Real* out) {
  const uint32_t rows = shape.rows;
  const uint32_t cols = shape.cols;
  for (uint32_t j = 0; j < cols; ++j) {
    Real* column = out + j;
    const Real before = strided_dot(rows, cols, column, cols, column);
    for (uint32_t i = 0; i < 2 * j; ++i) {
      const Real* done = out + (i < j ? i : i - j);
      const Real r = strided_dot(rows, cols, done, cols, column);
      for (size_t k = 0; k < shape.size(); k += cols) {
        column[k] -= r * done[k];
      }
    }
    const Real after = strided_dot(rows, cols, column, cols, column);
    if (!(after > kPolarRankTolerance * kPolarRankTolerance * before)) {
      return Status::kSingular;
    }
    const Real length = std::sqrt(after);
    for (size_t k = 0; k < shape.size(); k += cols) {
      column[k] /= length;
    }
  }
  return Status::kOk;
}

// out <- out + factor A B', all n x n. out aliases neither.
void add_product_transposed(uint32_t n, Real factor, const Real* a, const Real* b, Real* out) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      out[i * n + j] += factor * dot(n, a + i * n, b + j * n);
    }
  }
}

}  // namespace

Real dot(size_t count, const Real* x, const Real* y) {
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
    if (!(std::fabs(x[i]) <= std::numeric_limits<Real>::max())) {
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
  for (; shape.rows >= kLaneCount && c + 4 <= cols; c += 4) {
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

Status invert_in_place(uint32_t n, Real* a, uint32_t* pivots) {
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) {
        pivot = i;
      }
    }
    pivots[k] = static_cast<uint32_t>(pivot);
    for (size_t j = 0; j < n && pivot != k; ++j) {
      std::swap(a[k * n + j], a[pivot * n + j]);
    }
    const Real inverse = 1 / a[k * n + k];
    if (!all_finite(1, &inverse)) {
      return Status::kSingular;
    }
    a[k * n + k] = 1;
    scale(n, inverse, a + k * n);
    for (size_t i = 0; i < n; ++i) {
      if (i != k) {
        const Real factor = a[i * n + k];
        a[i * n + k] = 0;
        add_scaled(n, -factor, a + k * n, a + i * n);
      }
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t i = 0; i < n && pivots[k] != k; ++i) {
      std::swap(a[i * n + k], a[i * n + pivots[k]]);
    }
  }
  return Status::kOk;
}

Status symmetric_eigen(uint32_t n, Real* s, Real* w, Real* q) {
  constexpr int kSweepsMax = 32;
  // Below this an entry is zero whatever stands on the diagonal.
  const Real negligible = kEpsilon * kEpsilon * std::sqrt(frobenius_squared(n, s));
  fill_zero(static_cast<size_t>(n) * n, q);
  add_to_diagonal(n, 1, q);
  const auto root_of_diagonal = [=](size_t i) { return std::sqrt(std::fabs(s[i * n + i])); };
  for (size_t i = 0; i < n; ++i) {
    w[i] = root_of_diagonal(i);
  }
  bool rotated = true;
  for (int sweep = 0; sweep < kSweepsMax && rotated; ++sweep) {
    rotated = false;
    for (uint32_t i = 0; i + 1 < n; ++i) {
      for (uint32_t j = i + 1; j < n; ++j) {
        // Relative to the two diagonal entries, so that small eigenvalues of a positive definite matrix are accurate
        // too (Demmel and Veselic, "Jacobi's method is more accurate than QR", 1992).
        const Real off = std::fabs(s[static_cast<size_t>(i) * n + j]);
        if (!(off <= negligible || off <= kEpsilon * w[i] * w[j])) {
          jacobi_rotate(n, i, j, s, q);
          w[i] = root_of_diagonal(i);
          w[j] = root_of_diagonal(j);
          rotated = true;
        }
      }
    }
  }
  if (rotated) {
    return Status::kSingular;
  }
  for (size_t i = 0; i < n; ++i) {
    w[i] = s[i * n + i];
  }
  sort_eigenpairs(n, w, q);
  transpose_square(n, q);
  return Status::kOk;
}

size_t polar_scratch_size(Shape shape) {
  return Arena::taken_size<Real>((4 * static_cast<size_t>(shape.cols) + 1) * shape.cols);
}

Status polar_factor(Shape shape, const Real* a, Real* out, Arena& arena) {
  const size_t size = static_cast<size_t>(shape.cols) * shape.cols;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(4 * size + shape.cols);
  GS_TRY(scratch.status());
  Real* const begin = scratch.value();
  if (out != a) {
    copy(shape.size(), a, out);
  }
  return polar_in_place(shape, out, {begin, begin + size, begin + 2 * size, begin + 3 * size, begin + 4 * size});
}

size_t qr_scratch_size(Shape shape) {
  return Arena::taken_size<Real>((static_cast<size_t>(shape.cols) + 1) * shape.cols);
}

Status qr_factor(Shape shape, const Real* a, Real* out, Arena& arena) {
  const uint32_t n = shape.cols;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>((static_cast<size_t>(n) + 1) * n);
  GS_TRY(scratch.status());
  Real* const square = scratch.value();
  Real* const row = square + static_cast<size_t>(n) * n;
  if (out != a) {
    copy(shape.size(), a, out);
  }
  for (int pass = 0; pass < kCholeskyPassesMax; ++pass) {
    gram(shape, out, square);
    Real dependence = 0;
    if (!invert_cholesky(n, square, &dependence)) {
      break;
    }
    multiply_right_in_place(shape, out, square, row);
    if (dependence <= kNearOrthogonal) {
      return Status::kOk;
    }
  }
  return gram_schmidt(shape, out);
}

size_t lyapunov_scratch_size(uint32_t n) {
  return Arena::taken_size<Real>(2 * static_cast<size_t>(n) * n) + Arena::taken_size<uint32_t>(n);
}

Status solve_lyapunov(uint32_t n, const Real* m, const Real* c, Real* out, Arena& arena) {
  constexpr int kDoublingsMax = 24;
  const size_t size = static_cast<size_t>(n) * n;
  const Shape square{n, n};
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(2 * size);
  GS_TRY(scratch.status());
  const Result<uint32_t*> pivots = arena.scratch<uint32_t>(n);
  GS_TRY(pivots.status());
  Real* power = scratch.value();
  Real* work = power + size;

  // With B = (M + I)^(-1) and A = I - 2 B the equation reads X - A X A' = 2 B C B'.
  copy(size, m, work);
  add_to_diagonal(n, 1, work);
  GS_TRY(invert_in_place(n, work, pivots.value()));
  multiply_right(square, work, c, power);
  fill_zero(size, out);
  add_product_transposed(n, 2, power, work, out);
  copy(size, work, power);
  scale(size, -2, power);
  add_to_diagonal(n, 1, power);
  for (int doubling = 0; doubling < kDoublingsMax; ++doubling) {
    if (frobenius_squared(n, power) <= kEpsilon / 4) {
      return Status::kOk;
    }
    multiply_right(square, power, out, work);
    add_product_transposed(n, 1, work, power, out);
    multiply_right(square, power, power, work);
    std::swap(power, work);
  }
  return Status::kSingular;
}

}  // namespace gradstream
