// Products of bytes with signs against sums by long hand. Boards multiply in their own way: tests/digest covers it.
#include "runtime/problem/sign_products.h"

#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

struct Signs {
  Signs(Shape shape_of_signs, uint32_t seed) : bits((shape_of_signs.size() + 31) / 32) {
    RandomStream stream({.seed = seed});
    for (uint32_t& word : bits) {
      word = stream.next();
    }
    words.assign(sign_column_words(shape_of_signs) + 1, kGuard);
    columns.shape = shape_of_signs;
    columns.words = words.data();
    agreement.resize(shape_of_signs.cols * (shape_of_signs.cols + 1) / 2);
    pack_signs(bits.data(), &columns, agreement.data());
  }
  ~Signs() { EXPECT_EQ(words.back(), kGuard); }
  int64_t at(uint32_t r, uint32_t c) const {
    const size_t e = size_t{r} * columns.shape.cols + c;
    return (bits[e / 32] >> (e % 32) & 1) != 0 ? 1 : -1;
  }
  static constexpr uint32_t kGuard = 0xA5A5A5A5;
  std::vector<uint32_t> bits;
  std::vector<uint32_t> words;
  SignColumns columns;
  std::vector<int32_t> agreement;
};

template <typename Visit>
void for_each_shape(Visit visit) {
  for (uint32_t cols = 1; cols <= kSignColsMax; ++cols) {
    for (const uint32_t rows : {1U, 3U, 31U, 32U, 33U, 64U, 127U, 128U, 130U, 784U}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols);
      const Signs signs({rows, cols}, 100 * rows + cols);
      visit(signs);
    }
  }
}

TEST(SignProducts, PackingCountsSignsAndAgreements) {
  for_each_shape([](const Signs& signs) {
    const Shape shape = signs.columns.shape;
    size_t i = 0;
    for (uint32_t a = 0; a < shape.cols; ++a) {
      int64_t sum = 0;
      for (uint32_t r = 0; r < shape.rows; ++r) sum += signs.at(r, a);
      EXPECT_EQ(signs.columns.sums[a], sum);
      for (uint32_t b = a; b < shape.cols; ++b) {
        int64_t agreement = 0;
        for (uint32_t r = 0; r < shape.rows; ++r) agreement += signs.at(r, a) * signs.at(r, b);
        EXPECT_EQ(signs.agreement[i++], agreement);
      }
    }
  });
}

TEST(SignProducts, ProductsOfTwoSamplesAreTheirSums) {
  for_each_shape([](const Signs& signs) {
    const Shape shape = signs.columns.shape;
    RandomStream stream({.seed = shape.rows});
    std::vector<uint8_t> x(shape.rows), y(shape.rows, uint8_t{255});
    for (uint8_t& value : x) value = static_cast<uint8_t>(stream.next());
    SignColumns columns = signs.columns;
    for (uint32_t c = 0; c < shape.cols; ++c) columns.starts[c] += 1000 - 3000 * static_cast<int32_t>(c);
    int32_t first[kSignColsMax], second[kSignColsMax];
    multiply_signs(columns, x.data(), y.data(), first, second);
    for (uint32_t c = 0; c < shape.cols; ++c) {
      int64_t of_x = 1000 - 3000 * int64_t{c};
      int64_t of_y = of_x;
      for (uint32_t r = 0; r < shape.rows; ++r) {
        of_x += x[r] * signs.at(r, c);
        of_y += y[r] * signs.at(r, c);
      }
      EXPECT_EQ(first[c], of_x);
      EXPECT_EQ(second[c], of_y);
    }
  });
}

TEST(SignProducts, PlanesGiveTheProductsOfTheirNumbers) {
  for_each_shape([](const Signs& signs) {
    const Shape shape = signs.columns.shape;
    for (const uint32_t count : {2U, 4U}) {
      RandomStream stream({.seed = count + shape.rows});
      std::vector<uint8_t> planes(size_t{count} * shape.rows);
      std::vector<int32_t> values(shape.rows);
      for (uint32_t r = 0; r < shape.rows; ++r) {  // the least, the largest, and some between: the sum fits 32 bits
        const auto least = static_cast<int32_t>(0U - (1U << (8 * count - 1)));
        const auto other = static_cast<int32_t>(stream.next()) >> (count == 2 ? 16 : 12);
        values[r] = r == 0 && count == 2 ? least : r == 1 && count == 2 ? -(least + 1) : other;
        store_planes(values[r], count, shape.rows, planes.data() + r);
      }
      int32_t products[kSignColsMax];
      multiply_planes(signs.columns, planes.data(), count, products);
      for (uint32_t c = 0; c < shape.cols; ++c) {
        int64_t sum = 0;
        for (uint32_t r = 0; r < shape.rows; ++r) sum += values[r] * signs.at(r, c);
        EXPECT_EQ(products[c], static_cast<int32_t>(static_cast<uint32_t>(sum)));
      }
    }
  });
}

}  // namespace
}  // namespace gradstream
