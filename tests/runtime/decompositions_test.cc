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

TEST_F(Decompositions, AngleSeriesIsCosineAndSineUpToARightAngle) {
  for (int step = 0; step <= 100; ++step) {
    const double square = 2.4674 * step / 100, angle = std::sqrt(square);
    Real cosine = 0, sine = 0;
    for (int k = kAngleTermCount; k-- > 0;) {
      cosine = kAngleSeries.cosine[k] + static_cast<Real>(square) * cosine;
      sine = kAngleSeries.sine[k] + static_cast<Real>(square) * sine;
    }
    EXPECT_NEAR(static_cast<double>(cosine), std::cos(angle), 2.0 * static_cast<double>(kEpsilon));
    EXPECT_NEAR(static_cast<double>(sine), angle > 0 ? std::sin(angle) / angle : 1,
                2.0 * static_cast<double>(kEpsilon));
  }
}

// G = Q diag(squares) Q' with a reflection Q.
TEST_F(Decompositions, AngleSeriesOfMatrices) {
  for (uint32_t n = 1; n <= 9; ++n) {
    for (const Real longest : {Real(0), Real(1e-3), Real(0.5), Real(1.5)}) {
      std::vector<Real> angles(n), g(n * n), expected[2], out[2], term(n * n), row(n);
      Real squares = 0;
      for (size_t i = 0; i < n; ++i) {
        angles[i] = longest * static_cast<Real>(i + 1) / static_cast<Real>(n);
        squares += angles[i] * angles[i] * angles[i] * angles[i];
      }
      // |G| may not be above what the series takes.
      const Real shrink = squares > 6 ? std::sqrt(std::sqrt(6 / squares)) : Real{1};
      const auto entry = [n](size_t i, size_t j) {
        return (i == j ? Real{1} : Real{0}) - Real{2} / static_cast<Real>(n);
      };
      for (std::vector<Real>* each : {&expected[0], &expected[1], &out[0], &out[1]}) {
        each->assign(n * n, 0);
      }
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) {
          for (size_t k = 0; k < n; ++k) {
            const Real angle = shrink * angles[k], both = entry(i, k) * entry(j, k);
            g[i * n + j] += both * angle * angle;
            expected[0][i * n + j] += both * std::cos(angle);
            expected[1][i * n + j] += both * (angle > 0 ? std::sin(angle) / angle : Real{1});
          }
        }
      }
      ASSERT_TRUE(angle_series(n, g.data(), out[0].data(), out[1].data(), term.data(), row.data()));
      for (size_t i = 0; i < n * n; ++i) {
        EXPECT_NEAR(out[0][i], expected[0][i], 32 * kEpsilon);
        EXPECT_NEAR(out[1][i], expected[1][i], 32 * kEpsilon);
      }
    }
  }
}

TEST_F(Decompositions, AngleSeriesRefusesLongSteps) {
  Real cosine = 0, ratio = 0, term = 0, row = 0;
  for (const Real square :
       {static_cast<Real>(2.5), std::numeric_limits<Real>::infinity(), std::numeric_limits<Real>::quiet_NaN()}) {
    EXPECT_FALSE(angle_series(1, &square, &cosine, &ratio, &term, &row));
  }
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
