#include "runtime/base/lanes.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/plain_products.h"

namespace gradstream {
namespace {

TEST(Lanes, UnrolledCallsEveryConstantInOrder) {
  std::vector<uint32_t> calls;
  unrolled<5>([&](auto k) {
    static_assert(decltype(k)::value < 5);
    calls.push_back(k);
  });
  EXPECT_EQ(calls, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
}

TEST(Lanes, SumIsOfPairs) {
  // 1 is below the rounding of the large numbers: each other order keeps another number of ones.
  const Real large = 8 / std::numeric_limits<Real>::epsilon();
  const Real s[kLaneCount] = {large, 1, -large, 1};
  EXPECT_EQ(sum_lanes(s), 0);
  const Real pairs[kLaneCount] = {large, -large, 1, 1};
  EXPECT_EQ(sum_lanes(pairs), 2);
}

TEST(Lanes, IsFiniteKnowsEveryKind) {
  using Limits = std::numeric_limits<Real>;
  for (const Real finite : {Real{0}, Limits::denorm_min(), Limits::max(), Limits::lowest()}) {
    EXPECT_TRUE(is_finite(finite));
  }
  for (const Real bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN()}) {
    EXPECT_FALSE(is_finite(bad));
  }
}

TEST(Lanes, RowsGoToTheirLanesInOrder) {
  for (uint32_t begin : {0u, kLaneCount}) {
    for (uint32_t rows = begin; rows <= begin + 9; ++rows) {
      uint32_t next = begin;
      for_rows(begin, rows, [&](auto lane, size_t row) {
        EXPECT_EQ(row, next++);
        EXPECT_EQ(lane, row % kLaneCount);
      });
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(Lanes, ColumnBlocksCoverEveryColumn) {
  for (uint32_t cols = 4; cols <= 13; ++cols) {
    std::vector<bool> covered(cols);
    uint32_t count = 0;
    for_column_blocks(0, cols, [&](uint32_t c) {
      ++count;
      ASSERT_LE(c + 4, cols);
      for (uint32_t k = 0; k < 4; ++k) {
        covered[c + k] = true;
      }
    });
    EXPECT_EQ(covered, std::vector<bool>(cols, true)) << cols;
    EXPECT_EQ(count, (cols + 3) / 4);
  }
}

TEST(Lanes, FoursAndOnesCoverEveryEntryOnceInOrder) {
  for (size_t count = 0; count <= 13; ++count) {
    std::vector<size_t> entries;
    for_fours(
        count,
        [&](size_t i) {
          EXPECT_EQ(GS_HAS_VECTORS, 1);
          entries.insert(entries.end(), {i, i + 1, i + 2, i + 3});
        },
        [&](size_t i) { entries.push_back(i); });
    ASSERT_EQ(entries.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(entries[i], i);
    }
  }
}

TEST(Lanes, ColumnsCoverEveryEntryOnce) {
  for (uint32_t rows = 0; rows <= 3; ++rows) {
    for (uint32_t cols = 1; cols <= 9; ++cols) {
      const Shape shape{rows, cols};
      std::vector<int> times(shape.size());
      for_columns(
          shape,
          [&](size_t c) {
            return [&, c](size_t i) {
              EXPECT_EQ(i % cols, c);
              for (size_t k = 0; k < 4; ++k) {
                ++times[i + k];
              }
            };
          },
          [&](size_t c, size_t i) {
            EXPECT_EQ(i % cols, c);
            ++times[i];
          });
      EXPECT_EQ(times, std::vector<int>(shape.size(), 1)) << rows << " x " << cols;
    }
  }
}

TEST(Lanes, StridedDotFollowsTheRuleForEveryCount) {
  const Vector x = normals(100, 1), y = normals(100, 2);
  for (size_t count = 0; count <= 20; ++count) {
    Vector terms(count);
    for (size_t i = 0; i < count; ++i) {
      terms[i] = x[i * 3] * y[i * 5];
    }
    EXPECT_EQ(strided_dot(count, 3, x.data(), 5, y.data()), plain_sum(terms)) << count;
  }
}

#if GS_HAS_VECTORS
TEST(Lanes, VectorsAreFourNumbersSideBySide) {
  const Vector x = normals(4 * kLaneCount + 1, 3);
  Vec lanes[kLaneCount];
  for (uint32_t k = 0; k < kLaneCount; ++k) {
    lanes[k] = load(&x[4 * k + 1]);  // of no particular alignment
  }
  Real sums[4], third[4], same[4];
  store(sum_vectors(lanes), sums);
  store(splat_lane<2>(lanes[1]), third);
  store(splat(x[0]), same);
  for (size_t i = 0; i < 4; ++i) {
    const Real column[kLaneCount] = {x[1 + i], x[5 + i], x[9 + i], x[13 + i]};
    EXPECT_EQ(sums[i], sum_lanes(column));
    EXPECT_EQ(third[i], x[4 + 1 + 2]);
    EXPECT_EQ(same[i], x[0]);
  }
}
#endif

}  // namespace
}  // namespace gradstream
