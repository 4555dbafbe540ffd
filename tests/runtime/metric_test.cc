#include "runtime/problem/metric.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Metric, OfEqualScoresTheFirstCounts) {
  QualitySum sum;
  const Real scores[] = {1, 3, 3, 2};
  sum.add_class(4, 1, scores);
  EXPECT_EQ(sum.part, 1);
  sum.add_class(4, 2, scores);
  EXPECT_EQ(sum.part, 1);
  EXPECT_EQ(sum.whole, 2);
  EXPECT_EQ(metric_of_means(sum), static_cast<Real>(0.5));
}

TEST(Metric, RootsAndSharesAreOfTheSums) {
  QualitySum sum;
  sum.add(12, 2);
  sum.add(6, 0);
  EXPECT_EQ(metric_of_means(sum), 9);
  EXPECT_EQ(metric_of_roots(sum), 3);
  EXPECT_EQ(metric_of_shares(sum), 9);
  sum.add(-20, 1);
  EXPECT_EQ(metric_of_shares(sum), 0) << "worse than nothing is nothing";
}

}  // namespace
}  // namespace gradstream
