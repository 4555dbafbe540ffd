#include "runtime/base/products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/plain_products.h"

namespace gradstream {
namespace {

TEST(Products, DotFollowsTheRuleForEveryCount) {
  for (size_t count = 0; count <= 40; ++count) {
    const Vector x = normals(count, 1), y = normals(count, 2);
    Vector terms(count);
    for (size_t i = 0; i < count; ++i) {
      terms[i] = x[i] * y[i];
    }
    EXPECT_EQ(dot(count, x.data(), y.data()), plain_sum(terms)) << count;
    Vector squares(count);
    for (size_t i = 0; i < count; ++i) {
      squares[i] = (y[i] - x[i]) * (y[i] - x[i]);
    }
    EXPECT_EQ(distance2(count, x.data(), y.data()), std::sqrt(plain_sum(squares))) << count;
  }
}

TEST(Products, ProductsFollowTheRuleForEveryShape) {
  for (uint32_t rows = 1; rows <= 14; ++rows) {
    for (uint32_t cols = 1; cols <= 11; ++cols) {
      const Shape shape{rows, cols};
      const Vector a = normals(shape.size(), 3), b = normals(shape.size(), 4), s = normals(cols * cols, 5);
      Vector square(cols * cols), tall(shape.size());
      multiply_transposed(shape, a.data(), b.data(), square.data());
      EXPECT_EQ(square, plain_multiply_transposed(shape, a, b)) << rows << " x " << cols;
      multiply_right(shape, a.data(), s.data(), tall.data());
      const Vector product = plain_multiply_right(shape, a, s);
      EXPECT_EQ(tall, product) << rows << " x " << cols;
      Vector difference = b;
      subtract_multiply_right(shape, a.data(), s.data(), difference.data(), difference.data());
      for (size_t i = 0; i < shape.size(); ++i) {
        EXPECT_EQ(difference[i], b[i] - product[i]);
      }
    }
  }
}

TEST(Products, SmallOperations) {
  Vector x = {1, -2, 3}, y = {4, 5, 6};
  add_scaled(3, 2, x.data(), y.data());
  EXPECT_EQ(y, (Vector{6, 1, 12}));
  add_scaled(3, 1, y.data(), y.data());
  EXPECT_EQ(y, (Vector{12, 2, 24}));
  scale(3, static_cast<Real>(0.5), y.data());
  EXPECT_EQ(y, (Vector{6, 1, 12}));
  copy(3, x.data(), y.data());
  EXPECT_EQ(y, x);
  fill_zero(3, y.data());
  EXPECT_EQ(y, (Vector{0, 0, 0}));
  const Real three_four[] = {3, 4};
  EXPECT_EQ(norm2(2, three_four), 5);
}

TEST(Products, SquaresOfEverySize) {
  for (uint32_t n = 1; n <= 9; ++n) {
    const Vector a = normals(size_t{n} * n, n);
    Vector shifted = a, transposed = a, mean = a, squares(a.size());
    add_to_diagonal(n, 3, shifted.data());
    transpose_square(n, transposed.data());
    symmetrize(n, mean.data());
    for (size_t i = 0; i < a.size(); ++i) {
      const size_t row = i / n, col = i % n, mirrored = col * n + row;
      EXPECT_EQ(shifted[i], row == col ? a[i] + 3 : a[i]) << n;
      EXPECT_EQ(transposed[i], a[mirrored]) << n;
      EXPECT_EQ(mean[i], (a[i] + a[mirrored]) / 2) << n;
      squares[i] = a[i] * a[i];
    }
    EXPECT_EQ(frobenius_squared(n, a.data()), plain_sum(squares)) << n;
  }
}

TEST(Products, AllFiniteSeesEveryPlace) {
  for (size_t place = 0; place < 9; ++place) {
    for (const Real bad : {std::numeric_limits<Real>::infinity(), -std::numeric_limits<Real>::infinity(),
                           std::numeric_limits<Real>::quiet_NaN()}) {
      Vector x(9, std::numeric_limits<Real>::max());
      EXPECT_TRUE(all_finite(x.size(), x.data()));
      x[place] = bad;
      EXPECT_FALSE(all_finite(x.size(), x.data())) << place;
    }
  }
}

TEST(Products, EveryShapeKeepsTheStatedOrderOfSums) {
  for (uint32_t rows = 1; rows <= 14; ++rows) {
    for (uint32_t cols = 1; cols <= 11; ++cols) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
      const Shape shape{rows, cols};
      const Vector a = normals(shape.size(), rows), b = normals(shape.size(), cols + 100);
      const Vector s = normals(size_t{cols} * cols, rows + 200);
      Vector product(s.size()), square(s.size()), dots(cols), right(a.size()), left_over = b;
      multiply_transposed(shape, a.data(), b.data(), product.data());
      gram(shape, a.data(), square.data());
      column_dots(shape, a.data(), b.data(), dots.data());
      multiply_right(shape, a.data(), s.data(), right.data());
      subtract_multiply_right(shape, a.data(), s.data(), left_over.data(), left_over.data());
      Vector by_transpose(size_t{rows} * cols);
      multiply_by_transpose(rows, cols, cols, a.data(), s.data(), by_transpose.data());
      for (size_t i = 0; i < by_transpose.size(); ++i) {
        EXPECT_EQ(by_transpose[i], ordered_dot(cols, &a[i / cols * cols], 1, &s[i % cols * cols], 1));
      }
      for (size_t i = 0; i < cols; ++i) {
        EXPECT_EQ(dots[i], ordered_dot(rows, &a[i], cols, &b[i], cols));
        for (size_t j = 0; j < cols; ++j) {
          EXPECT_EQ(product[i * cols + j], ordered_dot(rows, &a[i], cols, &b[j], cols));
          EXPECT_EQ(square[i * cols + j], ordered_dot(rows, &a[std::min(i, j)], cols, &a[std::max(i, j)], cols));
        }
      }
      for (size_t i = 0; i < a.size(); ++i) {
        const Real entry = ordered_dot(cols, &a[i / cols * cols], 1, &s[i % cols], cols);
        EXPECT_EQ(right[i], entry);
        EXPECT_EQ(left_over[i], b[i] - entry);
      }
    }
  }
}

TEST(Products, CombinesWhereverTheResultGoes) {
  for (const Shape shape : {Shape{7, 3}, Shape{9, 4}, Shape{6, 9}}) {
    const size_t square = size_t{shape.cols} * shape.cols;
    const Vector a = normals(shape.size(), 1), b = normals(shape.size(), 2), s = normals(square, 3);
    const Vector t = normals(square, 4);
    Vector expected(shape.size()), other(shape.size()), row(shape.cols);
    multiply_right(shape, a.data(), s.data(), expected.data());
    multiply_right(shape, b.data(), t.data(), other.data());
    add(shape.size(), expected.data(), other.data(), expected.data());
    for (int place = 0; place < 3; ++place) {
      Vector x = a, y = b, factor = t, out(shape.size());
      Vector& target = place == 0 ? out : place == 1 ? x : y;
      combine_right(shape, x.data(), s.data(), y.data(), factor.data(), row.data(), target.data());
      EXPECT_EQ(target, expected) << place;
    }
  }
}

TEST(Products, EntrywiseKernelsDoEveryEntryOnce) {
  for (size_t count = 0; count <= 9; ++count) {
    const Vector x = normals(count, 1), y = normals(count, 2);
    Vector sum(count), scaled = x, added = y, copied(count);
    add(count, x.data(), y.data(), sum.data());
    scale(count, 3, scaled.data());
    add_scaled(count, 3, x.data(), added.data());
    copy(count, x.data(), copied.data());
    EXPECT_EQ(copied, x);
    Vector less = y, both = x, moved = x;
    subtract_scaled(count, 3, x.data(), less.data(), less.data());
    combine(count, 3, both.data(), 5, y.data(), both.data());
    add_scaled_sum(count, 3, x.data(), y.data(), moved.data(), moved.data());
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(sum[i], x[i] + y[i]);
      EXPECT_EQ(scaled[i], x[i] * 3);
      EXPECT_EQ(added[i], y[i] + 3 * x[i]);
      EXPECT_EQ(less[i], y[i] - 3 * x[i]);
      EXPECT_EQ(both[i], 3 * x[i] + 5 * y[i]);
      EXPECT_EQ(moved[i], x[i] + 3 * (x[i] + y[i]));
    }
  }
  for (uint32_t cols = 1; cols <= 9; ++cols) {
    const Shape shape{3, cols};
    const Vector x = normals(shape.size(), 3), f = normals(cols, 4);
    Vector scaled = x, left_over = x;
    scale_columns(shape, f.data(), scaled.data(), scaled.data());
    subtract_columns(shape, f.data(), left_over.data(), x.data(), left_over.data());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(scaled[i], x[i] * f[i % cols]);
      EXPECT_EQ(left_over[i], x[i] - f[i % cols] * x[i]);
    }
  }
}

}  // namespace
}  // namespace gradstream
