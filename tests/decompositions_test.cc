#include "runtime/base/decompositions.h"

#include <algorithm>
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

TEST_F(Decompositions, CholeskyGivesTheFactorOrSaysWhatIsWrong) {
  const Real s[9] = {4, 2, -2, 2, 5, 3, -2, 3, 14};
  const Real expected[9] = {2, 0, 0, 1, 2, 0, -1, 2, 3};
  Real l[9];
  ASSERT_EQ(cholesky(3, s, l), Status::kOk);
  for (int i = 0; i < 9; ++i) {
    EXPECT_NEAR(l[i], expected[i], 8 * kEpsilon);
  }
  const Real indefinite[4] = {1, 2, 2, 1}, semidefinite[4] = {1, 1, 1, 1}, zero[1] = {0};
  const Real nan[4] = {1, 0, std::numeric_limits<Real>::quiet_NaN(), 1};
  EXPECT_EQ(cholesky(2, indefinite, l), Status::kSingular);
  EXPECT_EQ(cholesky(2, semidefinite, l), Status::kSingular);
  EXPECT_EQ(cholesky(1, zero, l), Status::kSingular);
  EXPECT_EQ(cholesky(2, nan, l), Status::kNotFinite);
}

TEST_F(Decompositions, CongruenceInverseUndoesTheCongruence) {
  const Real l[4] = {2, 0, 1, 3};
  const Real s[4] = {8, -2, -2, 10};  // L [[2, -1], [-1, 1.5]] L', but for the last entry
  Real out[4];
  congruence_inverse(2, l, s, out);
  // L out L' = s.
  EXPECT_NEAR(4 * out[0], s[0], 16 * kEpsilon);
  EXPECT_NEAR(2 * out[0] + 6 * out[1], s[1], 16 * kEpsilon);
  EXPECT_NEAR(out[0] + 6 * out[1] + 9 * out[3], s[3], 32 * kEpsilon);
  EXPECT_EQ(out[1], out[2]);
}

TEST_F(Decompositions, SingularValuesKeepTheDigitsOfSmallOnes) {
  // Columns of lengths 3, 1e-4 and 0 in orthogonal directions, mixed by a rotation from the right.
  const Real small = static_cast<Real>(1e-4), c = static_cast<Real>(0.6), s = static_cast<Real>(0.8);
  Real a[12] = {3 * c, -3 * s, 0, small * s, small * c, 0, 0, 0, 0, 0, 0, 0}, before[12], w[3], v[9];
  std::copy(a, a + 12, before);
  ASSERT_EQ(singular_values({4, 3}, a, w, v), Status::kOk);
  EXPECT_NEAR(w[0], 3, 16 * kEpsilon);
  EXPECT_NEAR(w[1] / small, 1, 64 * kEpsilon);
  EXPECT_EQ(w[2], 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(a[3 * i + 2], 0) << "a column without length stays zero";
    for (int j = 0; j < 3; ++j) {
      Real sum = 0;
      for (int k = 0; k < 3; ++k) {
        sum += a[3 * i + k] * w[k] * v[3 * j + k];
      }
      EXPECT_NEAR(sum, before[3 * i + j], 32 * kEpsilon);
    }
  }
}

TEST_F(Decompositions, SingularValuesOfAMatrixWithoutFullRankConverge) {
  std::vector<Real> a(64), b(64), w(8), v(64);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 8; ++j) {
      a[8 * i + j] = static_cast<Real>((i + 1) * (j + 2)) + static_cast<Real>(i * i) - static_cast<Real>(j);
    }
  }
  ASSERT_EQ(singular_values({8, 8}, a.data(), w.data(), v.data()), Status::kOk);
  EXPECT_GT(w[1], 1);
  EXPECT_LE(w[3], 16 * kEpsilon * w[0]) << "its rank is 3";
  a[5] = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(singular_values({8, 8}, a.data(), w.data(), nullptr), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
