#include "runtime/base/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

using Vector = std::vector<Real>;

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();
constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

Vector normals(size_t count, uint32_t seed) {
  Vector out(count);
  fill_normal({.seed = seed}, 0, count, out.data());
  return out;
}

// The rule of the house, written as plainly as it is stated.
Real plain_sum(const Vector& terms) {
  Real s[4] = {};
  for (size_t i = 0; i < terms.size(); ++i) {
    s[i % 4] = i < 4 ? terms[i] : s[i % 4] + terms[i];
  }
  return (s[0] + s[1]) + (s[2] + s[3]);
}

Vector plain_multiply_transposed(Shape shape, const Vector& a, const Vector& b) {
  Vector out;
  for (size_t i = 0; i < shape.cols; ++i) {
    for (size_t j = 0; j < shape.cols; ++j) {
      Vector terms;
      for (size_t r = 0; r < shape.rows; ++r) {
        terms.push_back(a[r * shape.cols + i] * b[r * shape.cols + j]);
      }
      out.push_back(plain_sum(terms));
    }
  }
  return out;
}

Vector plain_multiply_right(Shape shape, const Vector& a, const Vector& s) {
  Vector out;
  for (size_t r = 0; r < shape.rows; ++r) {
    for (size_t c = 0; c < shape.cols; ++c) {
      Vector terms;
      for (size_t k = 0; k < shape.cols; ++k) {
        terms.push_back(a[r * shape.cols + k] * s[k * shape.cols + c]);
      }
      out.push_back(plain_sum(terms));
    }
  }
  return out;
}

// |A'A - I|.
Real orthonormality(Shape shape, const Vector& a) {
  Vector gram = plain_multiply_transposed(shape, a, a);
  for (size_t i = 0; i < shape.cols; ++i) {
    gram[i * (shape.cols + 1)] -= 1;
  }
  return norm2(gram.size(), gram.data());
}

class PolarTest : public ::testing::Test {
 protected:
  Status polar(Shape shape, const Vector& a, Vector* out) {
    std::vector<uint64_t> memory(polar_scratch_size(shape) / sizeof(uint64_t));
    Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
    out->assign(a.size(), 0);
    return polar_factor(shape, a.data(), out->data(), arena);
  }
};

TEST(Linalg, DotFollowsTheRuleForEveryCount) {
  for (size_t count = 0; count <= 40; ++count) {
    const Vector x = normals(count, 1), y = normals(count, 2);
    Vector terms(count);
    for (size_t i = 0; i < count; ++i) {
      terms[i] = x[i] * y[i];
    }
    EXPECT_EQ(dot(count, x.data(), y.data()), plain_sum(terms)) << count;
    Vector squares(count);
    for (size_t i = 0; i < count; ++i) {
      squares[i] = (y[i] - x[i]) * (y[i] - x[i]);
    }
    EXPECT_EQ(distance2(count, x.data(), y.data()), std::sqrt(plain_sum(squares))) << count;
  }
}

TEST(Linalg, ProductsFollowTheRuleForEveryShape) {
  for (uint32_t rows = 1; rows <= 14; ++rows) {
    for (uint32_t cols = 1; cols <= 11; ++cols) {
      const Shape shape{rows, cols};
      const Vector a = normals(shape.size(), 3), b = normals(shape.size(), 4), s = normals(cols * cols, 5);
      Vector square(cols * cols), tall(shape.size());
      multiply_transposed(shape, a.data(), b.data(), square.data());
      EXPECT_EQ(square, plain_multiply_transposed(shape, a, b)) << rows << " x " << cols;
      multiply_right(shape, a.data(), s.data(), tall.data());
      const Vector product = plain_multiply_right(shape, a, s);
      EXPECT_EQ(tall, product) << rows << " x " << cols;
      Vector difference = b;
      subtract_multiply_right(shape, a.data(), s.data(), difference.data(), difference.data());
      for (size_t i = 0; i < shape.size(); ++i) {
        EXPECT_EQ(difference[i], b[i] - product[i]);
      }
    }
  }
}

TEST(Linalg, SmallOperations) {
  Vector x = {1, -2, 3}, y = {4, 5, 6};
  add_scaled(3, 2, x.data(), y.data());
  EXPECT_EQ(y, (Vector{6, 1, 12}));
  add_scaled(3, 1, y.data(), y.data());
  EXPECT_EQ(y, (Vector{12, 2, 24}));
  scale(3, static_cast<Real>(0.5), y.data());
  EXPECT_EQ(y, (Vector{6, 1, 12}));
  copy(3, x.data(), y.data());
  EXPECT_EQ(y, x);
  fill_zero(3, y.data());
  EXPECT_EQ(y, (Vector{0, 0, 0}));
  const Real three_four[] = {3, 4};
  EXPECT_EQ(norm2(2, three_four), 5);
}

TEST(Linalg, AllFiniteSeesEveryPlace) {
  for (size_t place = 0; place < 9; ++place) {
    for (const Real bad : {std::numeric_limits<Real>::infinity(), -std::numeric_limits<Real>::infinity(),
                           std::numeric_limits<Real>::quiet_NaN()}) {
      Vector x(9, std::numeric_limits<Real>::max());
      EXPECT_TRUE(all_finite(x.size(), x.data()));
      x[place] = bad;
      EXPECT_FALSE(all_finite(x.size(), x.data())) << place;
    }
  }
}

TEST(Linalg, EigenDecomposesAndSorts) {
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

TEST(Linalg, EigenIsAccurateForSmallEigenvaluesOfAGradedMatrix) {
  const Real d = static_cast<Real>(1e-4);
  Real s[4] = {1, d / 2, d / 2, d * d};
  Real w[2], q[4];
  ASSERT_EQ(symmetric_eigen(2, s, w, q), Status::kOk);
  // The determinant, 3/4 d^2, is the product of the eigenvalues.
  EXPECT_NEAR(w[0] * w[1] / (d * d), static_cast<Real>(0.75), 8 * kEpsilon);
}

TEST(Linalg, EigenOfSpecialMatrices) {
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

// The order that linalg.h states, one entry at a time: term i goes to partial sum i % 4.
Real ordered_dot(size_t count, const Real* x, size_t x_stride, const Real* y, size_t y_stride) {
  Real s[4] = {};
  for (size_t i = 0; i < count; ++i) {
    const Real term = x[i * x_stride] * y[i * y_stride];
    s[i % 4] = i < 4 ? term : s[i % 4] + term;
  }
  return (s[0] + s[1]) + (s[2] + s[3]);
}

std::vector<Real> numbers(size_t count, uint32_t seed) {
  std::vector<Real> out(count);
  fill_normal({.seed = seed}, 0, count, out.data());
  return out;
}

// Modified Gram-Schmidt, twice, column after column.
std::vector<Real> ordered_gram_schmidt(Shape shape, std::vector<Real> a) {
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
Real ordered_cholesky_pass(Shape shape, std::vector<Real>* a) {
  const size_t n = shape.cols;
  std::vector<Real> r(n * n), inverse(n * n);
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

std::vector<Real> ordered_qr(Shape shape, std::vector<Real> a) {
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

TEST(Linalg, QrHasAPositiveDiagonalWhateverTheCondition) {
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

TEST(Linalg, QrOfDependentColumnsIsSingular) {
  Vector a = normals(40, 13), q(40);
  for (size_t i = 0; i < a.size(); i += 4) {
    a[i + 2] = a[i] * 3 - a[i + 1];
  }
  EXPECT_EQ(factor_qr({10, 4}, a, &q), Status::kSingular);
  EXPECT_EQ(factor_qr({10, 4}, Vector(40, 0), &q), Status::kSingular);
}

TEST(Linalg, QrWithTooLittleMemoryIsAStatus) {
  const Vector a = normals(40, 14);
  Vector q(40);
  std::vector<uint64_t> memory(qr_scratch_size({10, 4}) / sizeof(uint64_t) - 1);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  EXPECT_EQ(qr_factor({10, 4}, a.data(), q.data(), arena), Status::kOutOfMemory);
}

TEST(Linalg, EveryShapeKeepsTheStatedOrderOfSums) {
  for (uint32_t rows = 1; rows <= 14; ++rows) {
    for (uint32_t cols = 1; cols <= 11; ++cols) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
      const Shape shape{rows, cols};
      const std::vector<Real> a = numbers(shape.size(), rows), b = numbers(shape.size(), cols + 100);
      const std::vector<Real> s = numbers(size_t{cols} * cols, rows + 200);
      std::vector<Real> product(s.size()), square(s.size()), dots(cols), right(a.size()), left_over = b;
      multiply_transposed(shape, a.data(), b.data(), product.data());
      gram(shape, a.data(), square.data());
      column_dots(shape, a.data(), b.data(), dots.data());
      multiply_right(shape, a.data(), s.data(), right.data());
      subtract_multiply_right(shape, a.data(), s.data(), left_over.data(), left_over.data());
      std::vector<Real> by_transpose(size_t{rows} * cols);
      multiply_by_transpose(rows, cols, cols, a.data(), s.data(), by_transpose.data());
      for (size_t i = 0; i < by_transpose.size(); ++i) {
        EXPECT_EQ(by_transpose[i], ordered_dot(cols, &a[i / cols * cols], 1, &s[i % cols * cols], 1));
      }
      for (size_t i = 0; i < cols; ++i) {
        EXPECT_EQ(dots[i], ordered_dot(rows, &a[i], cols, &b[i], cols));
        for (size_t j = 0; j < cols; ++j) {
          EXPECT_EQ(product[i * cols + j], ordered_dot(rows, &a[i], cols, &b[j], cols));
          EXPECT_EQ(square[i * cols + j], ordered_dot(rows, &a[std::min(i, j)], cols, &a[std::max(i, j)], cols));
        }
      }
      for (size_t i = 0; i < a.size(); ++i) {
        const Real entry = ordered_dot(cols, &a[i / cols * cols], 1, &s[i % cols], cols);
        EXPECT_EQ(right[i], entry);
        EXPECT_EQ(left_over[i], b[i] - entry);
      }
      if (rows >= cols) {
        std::vector<Real> q, near = a;
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
}

TEST(Linalg, CombinesWhereverTheResultGoes) {
  for (const Shape shape : {Shape{7, 3}, Shape{9, 4}, Shape{6, 9}}) {
    const size_t square = size_t{shape.cols} * shape.cols;
    const std::vector<Real> a = numbers(shape.size(), 1), b = numbers(shape.size(), 2), s = numbers(square, 3);
    const std::vector<Real> t = numbers(square, 4);
    std::vector<Real> expected(shape.size()), other(shape.size()), row(shape.cols);
    multiply_right(shape, a.data(), s.data(), expected.data());
    multiply_right(shape, b.data(), t.data(), other.data());
    add(shape.size(), expected.data(), other.data(), expected.data());
    for (int place = 0; place < 3; ++place) {
      std::vector<Real> x = a, y = b, factor = t, out(shape.size());
      std::vector<Real>& target = place == 0 ? out : place == 1 ? x : y;
      combine_right(shape, x.data(), s.data(), y.data(), factor.data(), row.data(), target.data());
      EXPECT_EQ(target, expected) << place;
    }
  }
}

TEST(Linalg, EntrywiseKernelsDoEveryEntryOnce) {
  for (size_t count = 0; count <= 9; ++count) {
    const std::vector<Real> x = numbers(count, 1), y = numbers(count, 2);
    std::vector<Real> sum(count), scaled = x, added = y, copied(count);
    add(count, x.data(), y.data(), sum.data());
    scale(count, 3, scaled.data());
    add_scaled(count, 3, x.data(), added.data());
    copy(count, x.data(), copied.data());
    EXPECT_EQ(copied, x);
    std::vector<Real> less = y, both = x, moved = x;
    subtract_scaled(count, 3, x.data(), less.data(), less.data());
    combine(count, 3, both.data(), 5, y.data(), both.data());
    add_scaled_sum(count, 3, x.data(), y.data(), moved.data(), moved.data());
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(sum[i], x[i] + y[i]);
      EXPECT_EQ(scaled[i], x[i] * 3);
      EXPECT_EQ(added[i], y[i] + 3 * x[i]);
      EXPECT_EQ(less[i], y[i] - 3 * x[i]);
      EXPECT_EQ(both[i], 3 * x[i] + 5 * y[i]);
      EXPECT_EQ(moved[i], x[i] + 3 * (x[i] + y[i]));
    }
  }
  for (uint32_t cols = 1; cols <= 9; ++cols) {
    const Shape shape{3, cols};
    const std::vector<Real> x = numbers(shape.size(), 3), f = numbers(cols, 4);
    std::vector<Real> scaled = x, left_over = x;
    scale_columns(shape, f.data(), scaled.data(), scaled.data());
    subtract_columns(shape, f.data(), left_over.data(), x.data(), left_over.data());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(scaled[i], x[i] * f[i % cols]);
      EXPECT_EQ(left_over[i], x[i] - f[i % cols] * x[i]);
    }
  }
}

}  // namespace
}  // namespace gradstream
