// Each sum has its terms one after the other, whatever is computed at once.
#include "runtime/base/weighted_rows.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

template <typename W>
void expect_sums(uint32_t maps, uint32_t count, uint32_t width, const std::vector<W>& weights) {
  const size_t stride = width + 3, weight_stride = count + 2, out_stride = width + 1;
  const std::vector<Real> values = numbers(stride * count + width, 5, 3);
  std::vector<Real> out = numbers(out_stride * maps, 6, 2);
  std::vector<Real> expected = out;
  for (uint32_t m = 0; m < maps; ++m) {
    for (uint32_t j = 0; j < count; ++j) {
      for (uint32_t c = 0; c < width; ++c) {
        expected[m * out_stride + c] += static_cast<Real>(weights[m * weight_stride + j]) * values[j * stride + c];
      }
    }
  }
  add_weighted_rows(WeightedRows{values.data(), stride, count, width}, maps, weights.data(), weight_stride, out.data(),
                    out_stride);
  EXPECT_EQ(out, expected) << maps << " maps, " << count << " rows of " << width;
}

TEST(WeightedRows, AreTheSumsInOrderBitForBit) {
  for (const uint32_t maps : {1U, 3U, 4U, 5U, 8U, 11U}) {
    for (const uint32_t count : {0U, 1U, 2U, 27U}) {
      for (const uint32_t width : {1U, 3U, 4U, 5U, 8U, 14U, 16U}) {
        const std::vector<Real> weights = numbers(size_t{maps} * (count + 2), 7, 1);
        expect_sums(maps, count, width, std::vector<Real>(weights));
        expect_sums(maps, count, width, std::vector<float>(weights.begin(), weights.end()));
        std::vector<int8_t> bytes;
        for (const Real weight : weights) bytes.push_back(static_cast<int8_t>(weight * 250));
        expect_sums(maps, count, width, bytes);
      }
    }
  }
}

}  // namespace
}  // namespace gradstream
