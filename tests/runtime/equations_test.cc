#include "runtime/base/equations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/arena.h"
#include "runtime/base/products.h"
#include "tests/support/plain_products.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();

TEST(Equations, EigenDecomposesAndSorts) {
  for (const uint32_t n : {1u, 2u, 3u, 4u, 7u, 16u, 64u}) {
    const Vector a = normals(n * n, n);
    Vector s(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        s[i * n + j] = a[i * n + j] + a[j * n + i];
      }
    }
    Vector work = s, w(n), q(n * n);
    ASSERT_EQ(symmetric_eigen(n, work.data(), w.data(), q.data()), Status::kOk);
    EXPECT_TRUE(std::is_sorted(w.begin(), w.end()));
    EXPECT_LT(orthonormality({n, n}, q), 20 * kEpsilon * Real(n));
    const Vector sq = plain_multiply_right({n, n}, s, q);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        EXPECT_NEAR(sq[i * n + j], q[i * n + j] * w[j], 20 * kEpsilon * Real(n)) << n;
      }
    }
  }
}

TEST(Equations, EigenIsAccurateForSmallEigenvaluesOfAGradedMatrix) {
  const Real d = static_cast<Real>(1e-4);
  Real s[4] = {1, d / 2, d / 2, d * d};
  Real w[2], q[4];
  ASSERT_EQ(symmetric_eigen(2, s, w, q), Status::kOk);
  // The determinant, 3/4 d^2, is the product of the eigenvalues.
  EXPECT_NEAR(w[0] * w[1] / (d * d), static_cast<Real>(0.75), 8 * kEpsilon);
}

TEST(Equations, EigenOfSpecialMatrices) {
  Real zero[9] = {}, w[3], q[9];
  ASSERT_EQ(symmetric_eigen(3, zero, w, q), Status::kOk);
  EXPECT_EQ(w[0], 0);
  EXPECT_EQ(w[2], 0);
  Real swap[4] = {0, 1, 1, 0};
  ASSERT_EQ(symmetric_eigen(2, swap, w, q), Status::kOk);
  EXPECT_NEAR(w[0], -1, 4 * kEpsilon);
  EXPECT_NEAR(w[1], 1, 4 * kEpsilon);
  Real ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  ASSERT_EQ(symmetric_eigen(3, ones, w, q), Status::kOk);
  EXPECT_NEAR(w[0], 0, 4 * kEpsilon);
  EXPECT_NEAR(w[2], 3, 8 * kEpsilon);
}

class LyapunovTest : public ::testing::Test {
 protected:
  Status solve(uint32_t n, const Vector& m, const Vector& c, Vector* out) {
    std::vector<uint64_t> memory(lyapunov_scratch_size(n) / sizeof(uint64_t));
    Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
    *out = c;
    return solve_lyapunov(n, m.data(), out->data(), out->data(), arena);
  }
  // Largest entry of M X + X M' - C.
  static Real residual(uint32_t n, const Vector& m, const Vector& x, const Vector& c) {
    const Vector mx = plain_multiply_right({n, n}, m, x);
    Real worst = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        worst = std::max(worst, std::fabs(mx[i * n + j] + mx[j * n + i] - c[i * n + j]));
      }
    }
    return worst;
  }
};

TEST_F(LyapunovTest, SolvesForMatricesThatAreNotSymmetric) {
  for (const uint32_t n : {1u, 2u, 4u, 5u, 16u}) {
    for (const double size : {0.0, 0.01, 0.3, 0.7}) {
      Vector m = normals(n * n, n), c(n * n), x;
      scale(m.size(), static_cast<Real>(size) / std::sqrt(4 * Real(n)), m.data());
      for (size_t i = 0; i < n; ++i) {
        m[i * (n + 1)] += 1;
        for (size_t j = 0; j < n; ++j) {
          c[i * n + j] = Real(i + 1) / Real(n) * Real(j + 1) / Real(n);
        }
      }
      ASSERT_EQ(solve(n, m, c, &x), Status::kOk) << n << " " << size;
      EXPECT_LT(residual(n, m, x, c), 64 * kEpsilon) << n << " " << size;
    }
  }
}

TEST_F(LyapunovTest, RotationsConvergeWhileTheyAreStable) {
  // Eigenvalues a +- b i.
  const auto rotation = [](double a, double b) {
    return Vector{static_cast<Real>(a), static_cast<Real>(-b), static_cast<Real>(b), static_cast<Real>(a)};
  };
  const Vector identity = {1, 0, 0, 1};
  Vector x;
  ASSERT_EQ(solve(2, rotation(0.05, 0.9), identity, &x), Status::kOk);
  EXPECT_NEAR(x[0], 10, 1e4 * kEpsilon);
  EXPECT_NEAR(x[1], 0, 1e4 * kEpsilon);
  EXPECT_EQ(solve(2, rotation(0, 1), identity, &x), Status::kSingular);
  EXPECT_EQ(solve(2, rotation(-0.1, 0.5), identity, &x), Status::kSingular);
  EXPECT_EQ(solve(2, rotation(-1, 0), identity, &x), Status::kSingular);
}

TEST_F(LyapunovTest, PivotsWhereTheDiagonalIsZero) {
  // M + I has a zero in its first place; the eigenvalues of M are 1/2 +- i sqrt(7)/2.
  const Vector m = {-1, 2, -2, 2}, c = {1, 0, 0, 1};
  Vector x;
  ASSERT_EQ(solve(2, m, c, &x), Status::kOk);
  EXPECT_LT(residual(2, m, x, c), 64 * kEpsilon);
}

}  // namespace
}  // namespace gradstream
