#include "runtime/base/factors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/arena.h"
#include "tests/support/plain_products.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();
constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

class PolarTest : public ::testing::Test {
 protected:
  Status polar(Shape shape, const Vector& a, Vector* out) {
    std::vector<uint64_t> memory(polar_scratch_size(shape) / sizeof(uint64_t));
    Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
    out->assign(a.size(), 0);
    return polar_factor(shape, a.data(), out->data(), arena);
  }
};

TEST_F(PolarTest, NearOrthonormalStaysOrthonormalToRounding) {
  const Shape shape{64, 4};
  Vector x, q;
  ASSERT_EQ(polar(shape, normals(shape.size(), 1), &x), Status::kOk);
  for (const double distance : {0.0, 1e-6, 1e-3, 1e-2, 0.1, 0.12, 0.5, 2.0}) {
    Vector a = x;
    const Vector direction = normals(shape.size(), 2);
    add_scaled(a.size(), static_cast<Real>(distance / 16), direction.data(), a.data());
    ASSERT_EQ(polar(shape, a, &q), Status::kOk);
    EXPECT_LT(orthonormality(shape, q), kIsDouble ? Real(2e-15) : Real(1e-6)) << distance;
    // The polar factor is the nearest orthonormal matrix: Q'A is symmetric positive definite.
    const Vector qa = plain_multiply_transposed(shape, q, a);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_GT(qa[5 * i], 0);
      for (size_t j = 0; j < i; ++j) {
        EXPECT_NEAR(qa[4 * i + j], qa[4 * j + i], 16 * kEpsilon) << distance;
      }
    }
  }
}

TEST_F(PolarTest, EveryShapeAndScale) {
  constexpr Shape kShapes[] = {{1, 1}, {5, 1}, {2, 2}, {3, 2}, {9, 3}, {13, 9}, {64, 64}};
  for (const Shape shape : kShapes) {
    for (const double size : {1e-10, 1.0, 1e15}) {
      Vector a = normals(shape.size(), 7), q;
      scale(a.size(), static_cast<Real>(size), a.data());
      ASSERT_EQ(polar(shape, a, &q), Status::kOk) << shape.rows << " x " << shape.cols << " times " << size;
      EXPECT_LT(orthonormality(shape, q), 16 * kEpsilon * Real(shape.cols)) << shape.rows << " x " << shape.cols;
    }
  }
}

TEST_F(PolarTest, IllConditionedIsStillOrthonormal) {
  const Shape shape{64, 4};
  for (const double factor : {1e-1, 1e-2, 1e-3, 1e-4}) {
    Vector a = normals(shape.size(), 8), q;
    for (size_t i = 0; i < a.size(); i += 4) {
      a[i] *= static_cast<Real>(factor);
      a[i + 1] += a[i + 2] * 10;
    }
    ASSERT_EQ(polar(shape, a, &q), Status::kOk) << factor;
    EXPECT_LT(orthonormality(shape, q), kIsDouble ? Real(2e-15) : Real(1e-6)) << factor;
  }
}

TEST_F(PolarTest, RankDeficientIsSingular) {
  const Shape shape{64, 4};
  Vector a = normals(shape.size(), 9), q;
  for (size_t i = 0; i < a.size(); i += 4) {
    a[i] = 0;
  }
  EXPECT_EQ(polar(shape, a, &q), Status::kSingular);
  a = normals(shape.size(), 9);
  for (size_t i = 0; i < a.size(); i += 4) {
    a[i + 3] = a[i] - a[i + 1] * static_cast<Real>(0.3);
  }
  EXPECT_EQ(polar(shape, a, &q), Status::kSingular);
  EXPECT_EQ(polar(shape, Vector(shape.size(), 0), &q), Status::kSingular);
  EXPECT_EQ(polar(shape, Vector(shape.size(), 1), &q), Status::kSingular);
}

TEST_F(PolarTest, NotFiniteIsAStatus) {
  for (const Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity(),
                         std::numeric_limits<Real>::max()}) {
    Vector a = normals(256, 10), q;
    a[100] = bad;
    EXPECT_EQ(polar({64, 4}, a, &q), Status::kNotFinite);
  }
}

TEST_F(PolarTest, TooLittleMemoryIsAStatus) {
  const Vector a = normals(256, 11);
  Vector q(256);
  std::vector<uint64_t> memory(polar_scratch_size({64, 4}) / sizeof(uint64_t) - 1);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  EXPECT_EQ(polar_factor({64, 4}, a.data(), q.data(), arena), Status::kOutOfMemory);
}

// Modified Gram-Schmidt, twice, column after column.
Vector ordered_gram_schmidt(Shape shape, Vector a) {
  const size_t cols = shape.cols;
  for (size_t j = 0; j < cols; ++j) {
    for (size_t i = 0; i < 2 * j; ++i) {
      const size_t done = i % j;
      const Real r = ordered_dot(shape.rows, &a[done], cols, &a[j], cols);
      for (size_t at = 0; at < a.size(); at += cols) {
        a[at + j] -= r * a[at + done];
      }
    }
    const Real length = std::sqrt(ordered_dot(shape.rows, &a[j], cols, &a[j], cols));
    for (size_t at = 0; at < a.size(); at += cols) {
      a[at + j] /= length;
    }
  }
  return a;
}

// A times the inverse of the Cholesky factor of A'A, and how far A was from orthogonal columns; 2: too far.
Real ordered_cholesky_pass(Shape shape, Vector* a) {
  const size_t n = shape.cols;
  Vector r(n * n), inverse(n * n);
  Real dependence = 0;
  for (size_t j = 0; j < n; ++j) {
    const Real square = ordered_dot(shape.rows, &(*a)[j], n, &(*a)[j], n);
    Real normal = square;
    for (size_t i = 0; i < j; ++i) {
      r[i * n + j] = ordered_dot(shape.rows, &(*a)[i], n, &(*a)[j], n);
      for (size_t k = 0; k < i; ++k) {
        r[i * n + j] -= r[k * n + i] * r[k * n + j];
      }
      r[i * n + j] /= r[i * n + i];
      normal -= r[i * n + j] * r[i * n + j];
    }
    if (!(normal / square >= static_cast<Real>(1.0 / 64))) {
      return 2;
    }
    dependence += 1 - normal / square;
    r[j * n + j] = std::sqrt(normal);
  }
  for (size_t j = 0; j < n; ++j) {
    inverse[j * n + j] = 1 / r[j * n + j];
    for (size_t i = 0; i < j; ++i) {
      Real sum = 0;
      for (size_t k = i; k < j; ++k) {
        sum += inverse[i * n + k] * r[k * n + j];
      }
      inverse[i * n + j] = -(sum * inverse[j * n + j]);
    }
  }
  *a = plain_multiply_right(shape, *a, inverse);
  return dependence;
}

Vector ordered_qr(Shape shape, Vector a) {
  for (int pass = 0; pass < 2; ++pass) {
    const Real dependence = ordered_cholesky_pass(shape, &a);
    if (dependence <= static_cast<Real>(1.0 / 16)) {
      return a;
    }
    if (dependence == 2) {
      break;
    }
  }
  return ordered_gram_schmidt(shape, std::move(a));
}

// Status of qr_factor with exactly the memory that it names.
Status factor_qr(Shape shape, const Vector& a, Vector* q) {
  std::vector<uint64_t> memory(qr_scratch_size(shape) / sizeof(uint64_t));
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  q->resize(a.size());
  return qr_factor(shape, a.data(), q->data(), arena);
}

TEST(Factors, QrHasAPositiveDiagonalWhateverTheCondition) {
  const Shape shape{10, 4};
  // Near 1 one pass does, up to 8 two; beyond it Gram-Schmidt.
  for (const double share : {1e-3, 1.0, 30.0, 1e3}) {
    Vector a = normals(shape.size(), 12), q;
    for (size_t i = 0; i < a.size(); i += 4) {
      a[i + 2] += static_cast<Real>(share) * a[i];
    }
    ASSERT_EQ(factor_qr(shape, a, &q), Status::kOk);
    EXPECT_LT(orthonormality(shape, q), 8 * kEpsilon) << share;
    const Vector r = plain_multiply_transposed(shape, q, a);
    const Real size = norm2(a.size(), a.data());
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_GT(r[5 * i], 0);
      for (size_t j = 0; j < i; ++j) {
        EXPECT_NEAR(r[4 * i + j], 0, 16 * kEpsilon * size) << share;
      }
    }
  }
}

TEST(Factors, QrOfDependentColumnsIsSingular) {
  Vector a = normals(40, 13), q(40);
  for (size_t i = 0; i < a.size(); i += 4) {
    a[i + 2] = a[i] * 3 - a[i + 1];
  }
  EXPECT_EQ(factor_qr({10, 4}, a, &q), Status::kSingular);
  EXPECT_EQ(factor_qr({10, 4}, Vector(40, 0), &q), Status::kSingular);
}

TEST(Factors, QrWithTooLittleMemoryIsAStatus) {
  const Vector a = normals(40, 14);
  Vector q(40);
  std::vector<uint64_t> memory(qr_scratch_size({10, 4}) / sizeof(uint64_t) - 1);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  EXPECT_EQ(qr_factor({10, 4}, a.data(), q.data(), arena), Status::kOutOfMemory);
}

TEST(Factors, QrOfEveryShapeKeepsTheStatedOrderOfSums) {
  for (uint32_t rows = 1; rows <= 14; ++rows) {
    for (uint32_t cols = 1; cols <= std::min(rows, 11u); ++cols) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
      const Shape shape{rows, cols};
      const Vector a = normals(shape.size(), rows);
      Vector q, near = a;
      ASSERT_EQ(factor_qr(shape, a, &q), Status::kOk);
      EXPECT_EQ(q, ordered_qr(shape, a));
      for (size_t i = 0; i < a.size(); ++i) {
        near[i] = q[i] + static_cast<Real>(0.01) * a[i];
      }
      ASSERT_EQ(factor_qr(shape, near, &q), Status::kOk);
      EXPECT_EQ(q, ordered_qr(shape, near));
    }
  }
}

}  // namespace
}  // namespace gradstream
