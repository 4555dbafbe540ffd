#include "runtime/base/products.h"
#include "tests/golden/hyperbolic_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::expect_golden;
using testing::kEpsilon;
using testing::kIsDouble;
using testing::to_reals;
using Vector = std::vector<Real>;

TEST(Hyperbolic, EveryVariantPassesTheChecker) {
  for (const ManifoldOps* ops : {&kHyperbolicOps, &kHyperbolicProjectionOps}) {
    for (const Shape shape : {Shape{2, 1}, Shape{3, 1}, Shape{6, 1}}) {
      for (uint32_t seed = 1; seed <= 4; ++seed) {
        check_manifold({.ops = *ops,
                        .shape = shape,
                        .seed = seed,
                        .tolerance = 512 * kEpsilon,
                        .retraction_order = ops->retraction_kind == RetractionKind::kProjection ? 1 : 2,
                        .reference = &kHyperbolicOps});
      }
    }
  }
}

TEST(Hyperbolic, RefusesShapes) {
  EXPECT_EQ(kHyperbolicOps.check_shape({1, 1}), Status::kInvalidArgument);
  EXPECT_EQ(kHyperbolicOps.check_shape({4, 2}), Status::kInvalidArgument);
  EXPECT_EQ(kHyperbolicOps.check_shape({kDimensionMax + 1, 1}), Status::kInvalidArgument);
  EXPECT_EQ(kHyperbolicOps.check_shape({2, 1}), Status::kOk);
  EXPECT_EQ(kHyperbolicOps.dimension({6, 1}), 5u);
}

class HyperbolicGolden : public ::testing::Test {
 protected:
  const Shape shape_{5, 1};
  Arena arena_{nullptr, 0};
  const Vector x_ = to_reals(golden::hyperbolic::kX);
  const Vector y_ = to_reals(golden::hyperbolic::kY);
  Vector out_ = Vector(5);
  // Entries go up to 6.
  template <size_t kCount>
  void expect_near(const double (&golden)[kCount]) const {
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(static_cast<double>(out_[i]), golden[i], kIsDouble ? 1e-12 : 1e-5) << "entry " << i;
    }
  }
};

TEST_F(HyperbolicGolden, ProjectTangent) {
  const Vector a = to_reals(golden::hyperbolic::kAmbient);
  ASSERT_EQ(kHyperbolicOps.project_tangent(shape_, x_.data(), a.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::hyperbolic::kProjected);
}

TEST_F(HyperbolicGolden, Gradient) {
  const Vector g = to_reals(golden::hyperbolic::kEuclideanGradient);
  ASSERT_EQ(kHyperbolicOps.riemannian_gradient(shape_, x_.data(), g.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::hyperbolic::kGradient);
}

TEST_F(HyperbolicGolden, LogarithmAndExponential) {
  ASSERT_EQ(kHyperbolicOps.inverse_retract(shape_, x_.data(), y_.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::hyperbolic::kLog);
  const Vector v = to_reals(golden::hyperbolic::kLog);
  ASSERT_EQ(kHyperbolicOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::hyperbolic::kY);
}

TEST_F(HyperbolicGolden, Transport) {
  const Vector u = to_reals(golden::hyperbolic::kU);
  ASSERT_EQ(kHyperbolicOps.transport(shape_, x_.data(), y_.data(), u.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::hyperbolic::kTransported);
}

TEST_F(HyperbolicGolden, DistanceAndInner) {
  EXPECT_NEAR(static_cast<double>(kHyperbolicOps.distance(shape_, x_.data(), y_.data(), arena_).value()),
              golden::hyperbolic::kDistance, kIsDouble ? 1e-12 : 1e-6);
  EXPECT_NEAR(std::cosh(golden::hyperbolic::kDistance), -golden::hyperbolic::kInner, 1e-12);
  const Vector u = to_reals(golden::hyperbolic::kU);
  const Vector v = to_reals(golden::hyperbolic::kLog);
  double product = -golden::hyperbolic::kU[0] * golden::hyperbolic::kLog[0];
  for (size_t i = 1; i < 5; ++i) {
    product += golden::hyperbolic::kU[i] * golden::hyperbolic::kLog[i];
  }
  EXPECT_NEAR(static_cast<double>(kHyperbolicOps.inner(shape_, x_.data(), u.data(), v.data(), arena_).value()), product,
              kIsDouble ? 1e-12 : 1e-5);
}

TEST_F(HyperbolicGolden, NearPointsFarFromTheOriginKeepTheirDigits) {
  // About 320 from the origin and 0.025 apart: -2 - 2 <x, y>_L gives 1.56e-2 in float, 43 times too much.
  Vector x(5), y(5);
  for (size_t i = 0; i < 4; ++i) {
    x[i + 1] = static_cast<Real>(golden::hyperbolic::kFarX[i]);
    y[i + 1] = static_cast<Real>(golden::hyperbolic::kFarY[i]);
  }
  ASSERT_EQ(kHyperbolicOps.project_point(shape_, x.data(), x.data(), arena_), Status::kOk);
  ASSERT_EQ(kHyperbolicOps.project_point(shape_, y.data(), y.data(), arena_), Status::kOk);
  const Real distance = kHyperbolicOps.distance(shape_, x.data(), y.data(), arena_).value();
  const Real chord = 2 * std::sinh(distance / 2);
  EXPECT_NEAR(static_cast<double>(chord * chord) / golden::hyperbolic::kFarChordSquared, 1, kIsDouble ? 1e-7 : 2e-3);
  ASSERT_EQ(kHyperbolicOps.log_map(shape_, x.data(), y.data(), out_.data(), arena_), Status::kOk);
  ASSERT_EQ(kHyperbolicOps.exp_map(shape_, x.data(), out_.data(), out_.data(), arena_), Status::kOk);
  EXPECT_LE(distance2(5, out_.data(), y.data()), 4 * kEpsilon * y[0]);
}

// Tangents c xs + w with w across xs have the product c c' |xs|^2 / x0^2 + w'w'. As it is printed <v, w>_L is a
// difference of two numbers x0^2 times as large: in float, 1000 from the origin, a tenth of it was rounding.
TEST_F(HyperbolicGolden, ProductsOfTangentsFarFromTheOriginKeepTheirDigits) {
  const double tolerance = 32 * static_cast<double>(kEpsilon);
  for (const double far : {0.5, 1.0, 30.0, 1000.0}) {
    Vector x = {0, static_cast<Real>(far), static_cast<Real>(-far / 2), 0, static_cast<Real>(far / 8)};
    ASSERT_EQ(kHyperbolicOps.project_point(shape_, x.data(), x.data(), arena_), Status::kOk);
    const double squared = far * far * (1 + 1.0 / 4 + 1.0 / 64);
    const double time = std::sqrt(1 + squared);
    const auto tangent = [&](double along, double across) {
      Vector v = {static_cast<Real>(along * squared / time), 0, 0, static_cast<Real>(across), 0};
      for (const size_t i : {1, 2, 4}) {
        v[i] = static_cast<Real>(along) * x[i];
      }
      return v;
    };
    const Vector v = tangent(0.75, 0.5);
    const Vector w = tangent(-0.5, 0.25);
    const double scale = squared / (time * time);
    EXPECT_NEAR(static_cast<double>(kHyperbolicOps.inner(shape_, x.data(), v.data(), w.data(), arena_).value()),
                -0.375 * scale + 0.125, tolerance)
        << far;
    EXPECT_NEAR(static_cast<double>(kHyperbolicOps.inner(shape_, x.data(), v.data(), v.data(), arena_).value()),
                0.5625 * scale + 0.25, tolerance)
        << far;
    const Vector outwards = tangent(0.75, 0);
    ASSERT_EQ(kHyperbolicOps.exp_map(shape_, x.data(), outwards.data(), out_.data(), arena_), Status::kOk);
    const double length = 0.75 * std::sqrt(scale);
    const double farther = std::sinh(std::asinh(std::sqrt(squared)) + length) / std::sqrt(squared);
    for (size_t i = 1; i < 5; ++i) {
      EXPECT_NEAR(static_cast<double>(out_[i]), farther * static_cast<double>(x[i]), tolerance * farther * far) << far;
    }
  }
}

TEST_F(HyperbolicGolden, StepsBeyondWhatFloatsHoldAreRefused) {
  Vector v(5);
  v[1] = static_cast<Real>(kIsDouble ? 1000 : 200);
  ASSERT_EQ(kHyperbolicOps.project_tangent(shape_, x_.data(), v.data(), v.data(), arena_), Status::kOk);
  EXPECT_EQ(kHyperbolicOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kNotFinite);
  v[2] = std::numeric_limits<Real>::quiet_NaN();
  for (const ManifoldOps* ops : {&kHyperbolicOps, &kHyperbolicProjectionOps}) {
    EXPECT_EQ(ops->retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kNotFinite);
    EXPECT_EQ(ops->project_point(shape_, v.data(), out_.data(), arena_), Status::kNotFinite);
  }
  EXPECT_EQ(kHyperbolicOps.log_map(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
