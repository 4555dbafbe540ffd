#include "experiments/harness/interval.h"

#include <cmath>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// Of printed tables, 99 % and 95 % on both sides.
TEST(Interval, StudentsQuantilesAreThoseOfTables) {
  EXPECT_NEAR(student_quantile(1, 0.99), 63.6567, 1e-4);
  EXPECT_NEAR(student_quantile(2, 0.99), 9.9248, 1e-4);
  EXPECT_NEAR(student_quantile(3, 0.99), 5.8409, 1e-4);
  EXPECT_NEAR(student_quantile(9, 0.99), 3.2498, 1e-4);
  EXPECT_NEAR(student_quantile(10, 0.95), 2.2281, 1e-4);
  EXPECT_NEAR(student_quantile(19, 0.99), 2.8609, 1e-4);
  EXPECT_NEAR(student_quantile(1000, 0.95), 1.9623, 1e-4);
}

TEST(Interval, IsOfTheMean) {
  const Interval interval = interval_of_mean({1, 2, 3, 4}, 0.99);
  EXPECT_DOUBLE_EQ(interval.mean, 2.5);
  EXPECT_NEAR(interval.half, 5.8409 * std::sqrt(5.0 / 3 / 4), 1e-4);
  EXPECT_EQ(text_of(interval), "2.5000 +- 3.7703, -1.2703 to 6.2703");
  EXPECT_TRUE(std::isinf(interval_of_mean({7}, 0.99).half)) << "one value says nothing of its neighbours";
  EXPECT_EQ(interval_of_mean({7, 7, 7}, 0.99).half, 0);
}

}  // namespace
}  // namespace gradstream
