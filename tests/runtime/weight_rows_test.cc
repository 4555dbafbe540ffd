#include "runtime/problem/weight_rows.h"

#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(WeightRows, StandWhereTheyAreOrAreDisplacedInACopy) {
  const std::vector<Real> x = {1, 2, 3, 4, 5, 6};
  Real row[3] = {};
  EXPECT_EQ(WeightRows(x.data(), nullptr, nullptr).read(2, 3), x.data() + 2);
  const Real amount = 10;
  const Displacement displacement = {&amount, [](const void* context, size_t offset, size_t count, Real* values) {
                                       for (size_t i = 0; i < count; ++i) {
                                         values[i] +=
                                             *static_cast<const Real*>(context) * static_cast<Real>(offset + i);
                                       }
                                     }};
  const WeightRows rows(x.data(), &displacement, row);
  ASSERT_EQ(rows.read(2, 3), row);
  EXPECT_EQ(std::vector<Real>(row, row + 3), (std::vector<Real>{23, 34, 45}));
  EXPECT_EQ(rows.read(0, 1)[0], 1);
  EXPECT_EQ(x[2], 3) << "the point itself stays";
}

TEST(WeightRows, GroupsFillTheirMemoryEvenly) {
  // 388 bytes a sample of 64-32-10.
  EXPECT_EQ(group_size(16, 388, 9640), 16u);
  EXPECT_EQ(group_size(17, 388, 9640), 17u);
  EXPECT_EQ(group_size(18, 388, 9640), 9u);
  EXPECT_EQ(group_size(1, 388, 9640), 1u);
  EXPECT_EQ(group_size(0, 388, 9640), 0u);
  // A quarter of 30 KB, where that is more.
  EXPECT_EQ(group_size(16, 916, 30760), 8u);
  EXPECT_EQ(group_size(5, 1 << 20, 100), 1u) << "one sample, whatever it takes";
  for (uint32_t largest = 0; largest < 50; ++largest) {
    const uint32_t bound = group_size_max(largest, 388, 9640);
    for (uint32_t count = 0; count <= largest; ++count) {
      EXPECT_LE(group_size(count, 388, 9640), bound);
    }
    EXPECT_LE(size_t{bound} * 388, kGroupBytesMin);
  }
}

}  // namespace
}  // namespace gradstream
