// The smallest image computes an entry at a time (kUnrolls): the same bits as every other replica.
#include "tests/runtime/rolled_products.h"

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

using Values = std::vector<float>;

Values draw(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

void expect_same_bits(const Values& a, const Values& b, const char* what, Shape shape) {
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
        << what << " of " << shape.rows << " x " << shape.cols << ", entry " << i;
  }
}

TEST(RolledProducts, HaveTheBitsOfTheUnrolledOnes) {
  std::mt19937 random(1);
  for (const uint32_t rows : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 13U, 64U}) {
    for (const uint32_t cols : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 12U}) {
      const Shape shape{rows, cols};
      const Values a = draw(shape.size(), random), b = draw(shape.size(), random);
      const Values s = draw(size_t{cols} * cols, random);
      Values out(shape.size()), rolled(shape.size());
      multiply_right(shape, a.data(), s.data(), out.data());
      rolled_multiply_right(rows, cols, a.data(), s.data(), rolled.data());
      expect_same_bits(out, rolled, "A S", shape);
      subtract_multiply_right(shape, a.data(), s.data(), b.data(), out.data());
      rolled_subtract_multiply_right(rows, cols, a.data(), s.data(), b.data(), rolled.data());
      expect_same_bits(out, rolled, "G - A S", shape);
      Values place = a, rolled_place = a, row(cols);
      multiply_right_in_place(shape, place.data(), s.data(), row.data());
      rolled_multiply_right_in_place(rows, cols, rolled_place.data(), s.data(), row.data());
      expect_same_bits(place, rolled_place, "A S in place", shape);
      Values square(s.size()), rolled_square(s.size());
      multiply_transposed(shape, a.data(), b.data(), square.data());
      rolled_multiply_transposed(rows, cols, a.data(), b.data(), rolled_square.data());
      expect_same_bits(square, rolled_square, "A' B", shape);
      gram(shape, a.data(), square.data());
      rolled_gram(rows, cols, a.data(), rolled_square.data());
      expect_same_bits(square, rolled_square, "A' A", shape);
      Values dots(cols), rolled_dots(cols);
      column_dots(shape, a.data(), b.data(), dots.data());
      rolled_column_dots(rows, cols, a.data(), b.data(), rolled_dots.data());
      expect_same_bits(dots, rolled_dots, "column dots", shape);
      const float one = dot(shape.size(), a.data(), b.data());
      EXPECT_EQ(std::bit_cast<uint32_t>(one), std::bit_cast<uint32_t>(rolled_dot(shape.size(), a.data(), b.data())));
    }
  }
}

TEST(RolledProducts, TakeACountBelowFour) {
  const Values x = {1.5f, -2.25f, 3.125f}, y = {-0.5f, 4, 8};
  for (size_t count = 0; count <= x.size(); ++count) {
    EXPECT_EQ(std::bit_cast<uint32_t>(dot(count, x.data(), y.data())),
              std::bit_cast<uint32_t>(rolled_dot(count, x.data(), y.data())))
        << count;
  }
}

}  // namespace
}  // namespace gradstream
