#include "runtime/base/decompositions.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

class Decompositions : public ::testing::Test {
 protected:
  std::vector<uint64_t> memory_ = std::vector<uint64_t>(4096);
  Arena arena_{memory_.data(), memory_.size() * sizeof(uint64_t)};
};

TEST_F(Decompositions, ExponentialOfARotation) {
  for (const Real angle : {Real(0), Real(0.1), Real(3), Real(-20)}) {
    const Real a[4] = {0, -angle, angle, 0};
    Real out[4];
    ASSERT_EQ(matrix_exponential(2, a, out, arena_), Status::kOk);
    const Real tolerance = 16 * kEpsilon * (1 + std::fabs(angle));
    EXPECT_NEAR(out[0], std::cos(angle), tolerance);
    EXPECT_NEAR(out[1], -std::sin(angle), tolerance);
    EXPECT_NEAR(out[2], std::sin(angle), tolerance);
    EXPECT_NEAR(out[3], std::cos(angle), tolerance);
  }
}

TEST_F(Decompositions, ExponentialOfANilpotentMatrixIsItsSeries) {
  const Real a[9] = {0, 2, 5, 0, 0, 3, 0, 0, 0};
  const Real expected[9] = {1, 2, 8, 0, 1, 3, 0, 0, 1};
  Real out[9];
  ASSERT_EQ(matrix_exponential(3, a, out, arena_), Status::kOk);
  for (int i = 0; i < 9; ++i) {
    EXPECT_NEAR(out[i], expected[i], 32 * kEpsilon);
  }
}

TEST_F(Decompositions, ExponentialRefusesWhatIsNotFinite) {
  const Real nan[4] = {0, std::numeric_limits<Real>::quiet_NaN(), 0, 0};
  const Real huge[4] = {0, static_cast<Real>(1e30), 0, 0};
  Real out[4];
  EXPECT_EQ(matrix_exponential(2, nan, out, arena_), Status::kNotFinite);
  EXPECT_EQ(matrix_exponential(2, huge, out, arena_), Status::kNotFinite);
  Arena small(memory_.data(), 16);
  EXPECT_EQ(matrix_exponential(2, huge, out, small), Status::kOutOfMemory);
}

}  // namespace
}  // namespace gradstream
