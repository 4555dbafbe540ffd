// The kernels with eight floats to an instruction against the order of sums that products.h states, one entry at a
// time.
#include "runtime/base/wide.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/decompositions.h"
#include "runtime/base/random.h"

namespace gradstream {
namespace {

#if GS_HAS_WIDE

using Vector = std::vector<Real>;

Vector numbers(size_t count, uint32_t seed) {
  Vector out(count);
  fill_normal({.seed = seed}, 0, count, out.data());
  return out;
}

Real ordered_dot(size_t count, const Real* x, size_t x_stride, const Real* y, size_t y_stride) {
  Real s[4] = {};
  for (size_t i = 0; i < count; ++i) {
    const Real term = x[i * x_stride] * y[i * y_stride];
    s[i % 4] = i < 4 ? term : s[i % 4] + term;
  }
  return (s[0] + s[1]) + (s[2] + s[3]);
}

// Calls check(rows, cols) for every shape that the kernels take, up to 21 rows.
template <typename Check>
void for_each_shape(uint32_t cols_min, Check check) {
  if (!wide::is_available()) {
    GTEST_SKIP() << "this processor has no AVX";
  }
  for (uint32_t rows = 5; rows <= 21; ++rows) {
    for (uint32_t cols = cols_min; cols <= 8; ++cols) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
      ASSERT_TRUE(wide::takes(rows, cols));
      check(rows, cols);
    }
  }
}

TEST(Wide, TakesNoOtherShapes) {
  EXPECT_FALSE(wide::takes(4, 4));
  EXPECT_FALSE(wide::takes(64, 1));
  EXPECT_FALSE(wide::takes(64, 9));
}

TEST(Wide, AddsEveryEntry) {
  for (size_t count = 0; wide::is_available() && count <= 20; ++count) {
    const Vector x = numbers(count, 1), y = numbers(count, 2);
    Vector out(count);
    wide::add(count, x.data(), y.data(), out.data());
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(out[i], x[i] + y[i]);
    }
  }
}

TEST(Wide, ColumnKernels) {
  for_each_shape(2, [](uint32_t rows, uint32_t cols) {
    const size_t size = size_t{rows} * cols;
    const Vector a = numbers(size, rows), b = numbers(size, cols + 100), factors = numbers(cols, 3);
    Vector dots(cols), scaled = a, difference = b;
    wide::column_dots(rows, cols, a.data(), b.data(), dots.data());
    wide::scale_columns(rows, cols, factors.data(), scaled.data(), scaled.data());
    wide::subtract_columns(rows, cols, factors.data(), a.data(), difference.data(), difference.data());
    for (size_t c = 0; c < cols; ++c) {
      EXPECT_EQ(dots[c], ordered_dot(rows, &a[c], cols, &b[c], cols));
    }
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(scaled[i], factors[i % cols] * a[i]);
      EXPECT_EQ(difference[i], b[i] - factors[i % cols] * a[i]);
    }
  });
}

TEST(Wide, RemovesWhatIsAlongColumns) {
  for_each_shape(2, [](uint32_t rows, uint32_t cols) {
    const size_t size = size_t{rows} * cols;
    const Vector x = numbers(size, rows), v = numbers(size, 5);
    Vector left = v;
    wide::remove_along_columns(rows, cols, x.data(), left.data(), left.data());
    for (size_t i = 0; i < size; ++i) {
      const size_t c = i % cols;
      EXPECT_EQ(left[i], v[i] - ordered_dot(rows, &x[c], cols, &v[c], cols) * x[i]);
    }
  });
}

TEST(Wide, TransportsColumnsAsOneAfterTheOther) {
  for_each_shape(2, [](uint32_t rows, uint32_t cols) {
    const size_t size = size_t{rows} * cols;
    const Vector x = numbers(size, rows), v = numbers(size, 5);
    Vector y = x;
    for (size_t i = 0; i < size; ++i) {
      y[i] += Real{0.1F} * v[i];  // x'y above 0
    }
    Vector out = v;
    EXPECT_EQ(wide::transport_columns(rows, cols, x.data(), y.data(), out.data(), 1e-6F, out.data()), Status::kOk);
    Real least = std::numeric_limits<Real>::infinity();
    for (size_t c = 0; c < cols; ++c) {
      const Real divisor = 1 + ordered_dot(rows, &x[c], cols, &y[c], cols);
      const Real factor = ordered_dot(rows, &y[c], cols, &v[c], cols) / divisor;
      least = std::min(least, divisor);
      for (size_t i = c; i < size; i += cols) {
        EXPECT_EQ(out[i], (v[i] - factor * x[i]) - factor * y[i]);
      }
    }
    // The least divisor of any column is not above itself.
    Vector untouched = v;
    EXPECT_EQ(wide::transport_columns(rows, cols, x.data(), y.data(), v.data(), least, untouched.data()),
              Status::kSingular);
    EXPECT_EQ(untouched, v);
  });
}

TEST(Wide, NormalizesColumnsAsOneAfterTheOther) {
  for_each_shape(2, [](uint32_t rows, uint32_t cols) {
    const size_t size = size_t{rows} * cols;
    const Vector x = numbers(size, rows), v = numbers(size, 5);
    for (const bool adds : {false, true}) {
      Vector sum = x;
      for (size_t i = 0; adds && i < size; ++i) {
        sum[i] += v[i];
      }
      Vector expected(size), out(size), in_place = x;
      for (size_t i = 0; i < size; ++i) {
        const Real* const column = &sum[i % cols];
        expected[i] = sum[i] * (1 / std::sqrt(ordered_dot(rows, column, cols, column, cols)));
      }
      const Real* const second = adds ? v.data() : nullptr;
      EXPECT_EQ(wide::normalize_columns(rows, cols, x.data(), second, 1e-30F, out.data()), Status::kOk);
      EXPECT_EQ(out, expected);
      EXPECT_EQ(wide::normalize_columns(rows, cols, in_place.data(), second, 1e-30F, in_place.data()), Status::kOk);
      EXPECT_EQ(in_place, expected);
    }
    for (const auto& [scale, status] : {std::pair{1e-20F, Status::kSingular}, {1e30F, Status::kNotFinite}}) {
      Vector bad = x, out(size);
      for (size_t i = cols - 1; i < size; i += cols) {
        bad[i] *= scale;
      }
      EXPECT_EQ(wide::normalize_columns(rows, cols, bad.data(), nullptr, 1e-30F, out.data()), status);
    }
  });
}

Real ordered_series(const Real (&coefficients)[kAngleTermCount], Real q) {
  Real sums[2] = {};  // of the even and the odd powers
  for (int k = kAngleTermCount; k-- > 0;) {
    sums[k % 2] = coefficients[k] + (q * q) * sums[k % 2];
  }
  return sums[0] + q * sums[1];
}

// Columns of length 1 and steps of different lengths, the shortest ones zero.
TEST(Wide, MovesColumnsAsOneAfterTheOther) {
  for_each_shape(2, [](uint32_t rows, uint32_t cols) {
    const size_t size = size_t{rows} * cols;
    Vector x = numbers(size, rows), v = numbers(size, 5), expected(size), out(size);
    ASSERT_EQ(wide::normalize_columns(rows, cols, x.data(), nullptr, 1e-30F, x.data()), Status::kOk);
    for (size_t i = 0; i < size; ++i) {
      v[i] *= 0.1F * static_cast<Real>(i % cols) / std::sqrt(static_cast<Real>(rows));
    }
    wide::remove_along_columns(rows, cols, x.data(), v.data(), v.data());
    for (uint32_t c = 0; c < cols; ++c) {
      const Real xx = ordered_dot(rows, &x[c], cols, &x[c], cols), xv = ordered_dot(rows, &x[c], cols, &v[c], cols);
      const Real vv = ordered_dot(rows, &v[c], cols, &v[c], cols);
      const Real cosine = ordered_series(kAngleSeries.cosine, vv), ratio = ordered_series(kAngleSeries.sine, vv);
      const Real square = (cosine * (cosine * xx) + (cosine * ratio) * (xv + xv)) + ratio * (ratio * vv);
      ASSERT_NEAR(square, 1, kNearOne);
      const Real inverse = 1.5F - 0.5F * square;
      for (size_t i = c; i < size; i += cols) {
        expected[i] = (cosine * inverse) * x[i] + (ratio * inverse) * v[i];
      }
    }
    bool is_short = false;
    EXPECT_EQ(wide::exponential_columns(rows, cols, x.data(), v.data(), 1e-30F, out.data(), &is_short), Status::kOk);
    EXPECT_TRUE(is_short);
    EXPECT_EQ(out, expected);
    Vector in_place = v;
    EXPECT_EQ(wide::exponential_columns(rows, cols, x.data(), v.data(), 1e-30F, in_place.data(), &is_short),
              Status::kOk);
    EXPECT_EQ(in_place, expected);
    // Off the sphere by more than rounding: by root and quotient.
    Vector doubled = x;
    for (Real& value : doubled) {
      value *= 2;
    }
    const Vector nothing(size);
    EXPECT_EQ(wide::exponential_columns(rows, cols, doubled.data(), nothing.data(), 1e-30F, out.data(), &is_short),
              Status::kOk);
    for (size_t i = 0; i < size; ++i) {
      const Real* const column = &doubled[i % cols];
      EXPECT_EQ(out[i], (1 / std::sqrt(ordered_dot(rows, column, cols, column, cols))) * doubled[i]);
    }
    // A point that is none is refused, and a step that is too long, or not a number, left to others.
    Vector zero(size), kept = expected;
    EXPECT_EQ(wide::exponential_columns(rows, cols, zero.data(), zero.data(), 1e-30F, out.data(), &is_short),
              Status::kSingular);
    EXPECT_TRUE(is_short);
    for (const Real length : {1.6F, std::numeric_limits<Real>::quiet_NaN()}) {
      Vector far = zero;
      far[size - 1] = length;
      EXPECT_EQ(wide::exponential_columns(rows, cols, x.data(), far.data(), 1e-30F, kept.data(), &is_short),
                Status::kOk);
      EXPECT_FALSE(is_short);
      EXPECT_EQ(kept, expected);
    }
  });
}

TEST(Wide, MatrixKernels) {
  for_each_shape(4, [](uint32_t rows, uint32_t cols) {
    const size_t size = size_t{rows} * cols;
    const Vector a = numbers(size, rows), b = numbers(size, cols + 100), s = numbers(size_t{cols} * cols, 4);
    Vector product(s.size()), right(size), in_place = a, left_over = b;
    wide::multiply_transposed(rows, cols, a.data(), b.data(), product.data());
    wide::multiply_right(rows, cols, a.data(), s.data(), nullptr, right.data());
    wide::multiply_right(rows, cols, in_place.data(), s.data(), nullptr, in_place.data());
    wide::multiply_right(rows, cols, a.data(), s.data(), left_over.data(), left_over.data());
    for (size_t i = 0; i < cols; ++i) {
      for (size_t j = 0; j < cols; ++j) {
        EXPECT_EQ(product[i * cols + j], ordered_dot(rows, &a[i], cols, &b[j], cols));
      }
    }
    for (size_t i = 0; i < size; ++i) {
      const Real entry = ordered_dot(cols, &a[i / cols * cols], 1, &s[i % cols], cols);
      EXPECT_EQ(right[i], entry);
      EXPECT_EQ(in_place[i], entry);
      EXPECT_EQ(left_over[i], b[i] - entry);
    }
  });
}

#else

TEST(Wide, IsNotInThisBuild) { SUCCEED(); }

#endif

}  // namespace
}  // namespace gradstream
