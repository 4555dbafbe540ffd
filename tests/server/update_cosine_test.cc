#include "server/rules/update_cosine.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

double length_of(const std::vector<Real>& values) {
  double square = 0;
  for (const Real value : values) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(square);
}

TEST(UpdateCosine, IsThatOfEachToTheSumOfAll) {
  const std::vector<std::vector<Real>> updates = {{1, 0, 0, 0, 0}, {1, 2, 0, 0, 0}, {-3, 0, 0, 0, 4}};
  const Real factors[] = {2, 1, Real{1} / 2};
  CosineSum sum;
  for (size_t i = 0; i < updates.size(); ++i) {
    sum.add(updates[i], factors[i]);
  }
  sum.close();  // (1.5, 2, 0, 0, 2)
  const double length = std::sqrt(10.25);
  EXPECT_NEAR(sum.cosine(updates[0], length_of(updates[0])), 1.5 / length, 1e-6);
  EXPECT_NEAR(sum.cosine(updates[1], length_of(updates[1])), 5.5 / std::sqrt(5.0) / length, 1e-6);
  EXPECT_NEAR(sum.cosine(updates[2], length_of(updates[2])), 3.5 / 5 / length, 1e-6);
}

TEST(UpdateCosine, TwoThatAreOppositeHaveBothEnds) {
  const std::vector<Real> one = {0.1F, 0.7F, -0.3F};
  std::vector<Real> other = one;
  for (Real& value : other) {
    value = -value;
  }
  CosineSum sum;
  sum.add(one, 3);
  sum.add(other, 1);
  sum.close();
  EXPECT_NEAR(sum.cosine(one, length_of(one)), 1, 1e-6);
  EXPECT_NEAR(sum.cosine(other, length_of(other)), -1, 1e-6);
  EXPECT_LE(sum.cosine(one, 0.999 * length_of(one)), 1);
  EXPECT_GE(sum.cosine(other, 0.999 * length_of(other)), -1);
}

TEST(UpdateCosine, AShorterUpdateHasZerosBehind) {
  const std::vector<Real> whole = {3, 0, 4, 0};
  const std::vector<Real> part = {1, 0};
  CosineSum sum;
  sum.add(part, 1);
  sum.add(whole, 1);
  sum.close();  // (4, 0, 4, 0)
  EXPECT_NEAR(sum.cosine(part, length_of(part)), std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(sum.cosine(whole, length_of(whole)), 28 / 5.0 / std::sqrt(32.0), 1e-6);
}

TEST(UpdateCosine, NothingIsKnownOfOneAloneAndOfZeros) {
  const std::vector<Real> one = {1, 2};
  const std::vector<Real> zeros = {0, 0};
  CosineSum alone;
  alone.add(one, 1);
  alone.close();
  EXPECT_EQ(alone.cosine(one, length_of(one)), 0);
  CosineSum sum;
  sum.add(one, 1);
  sum.add(zeros, 1);
  sum.close();
  EXPECT_EQ(sum.cosine(zeros, length_of(zeros)), 0);
  EXPECT_NEAR(sum.cosine(one, length_of(one)), 1, 1e-6);
  CosineSum nothing;
  nothing.add(one, 1);
  nothing.add(one, -1);
  nothing.close();
  EXPECT_EQ(nothing.cosine(one, length_of(one)), 0);
}

}  // namespace
}  // namespace gradstream
