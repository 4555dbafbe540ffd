#include "tests/golden/sphere_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::expect_golden;
using testing::kEpsilon;
using testing::to_reals;
using Vector = std::vector<Real>;

TEST(Sphere, PassesTheChecker) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    check_manifold({.ops = kSphereOps, .shape = {2, 1}, .seed = seed});
    check_manifold({.ops = kSphereOps, .shape = {11, 1}, .seed = seed});
    check_manifold({.ops = kSphereOps, .shape = {6, 4}, .seed = seed});
    check_manifold({.ops = kSphereOps, .shape = {600, 1}, .seed = seed});
  }
}

TEST(Sphere, ExponentialPassesTheChecker) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    for (const Shape shape : {Shape{2, 1}, Shape{11, 1}, Shape{6, 4}, Shape{600, 1}}) {
      check_manifold({.ops = kSphereExponentialOps, .shape = shape, .seed = seed});
    }
  }
}

TEST(Sphere, RefusesShapesWithoutRoomForATangent) {
  EXPECT_EQ(kSphereOps.check_shape({1, 1}), Status::kInvalidArgument);
  EXPECT_EQ(kSphereOps.check_shape({0, 5}), Status::kInvalidArgument);
  EXPECT_EQ(kSphereOps.check_shape({2, kDimensionMax + 1}), Status::kInvalidArgument);
  EXPECT_EQ(kSphereOps.check_shape({1, 2}), Status::kOk);
  EXPECT_EQ(kSphereOps.dimension({6, 2}), 11u);
}

class SphereGolden : public ::testing::Test {
 protected:
  const Shape shape_{6, 1};
  Arena arena_{nullptr, 0};
  const Vector x_ = to_reals(golden::sphere::kX);
  const Vector y_ = to_reals(golden::sphere::kY);
  const Vector v_ = to_reals(golden::sphere::kV);
  const Vector u_ = to_reals(golden::sphere::kU);
  const Vector ambient_ = to_reals(golden::sphere::kAmbient);
  Vector out_ = Vector(6);
};

TEST_F(SphereGolden, ProjectTangent) {
  ASSERT_EQ(kSphereOps.project_tangent(shape_, x_.data(), ambient_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::sphere::kProjected, out_);
}

TEST_F(SphereGolden, Retract) {
  ASSERT_EQ(kSphereOps.retract(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::sphere::kRetracted, out_);
}

TEST_F(SphereGolden, InverseRetract) {
  ASSERT_EQ(kSphereOps.inverse_retract(shape_, x_.data(), y_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::sphere::kInverseOfY, out_);
}

TEST_F(SphereGolden, Transport) {
  ASSERT_EQ(kSphereOps.transport(shape_, x_.data(), y_.data(), u_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::sphere::kTransportedU, out_);
}

TEST_F(SphereGolden, Exponential) {
  ASSERT_EQ(kSphereExponentialOps.retract(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::sphere::kY, out_);
  ASSERT_EQ(kSphereOps.exp_map(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::sphere::kY, out_);
}

TEST_F(SphereGolden, Logarithm) {
  ASSERT_EQ(kSphereExponentialOps.inverse_retract(shape_, x_.data(), y_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::sphere::kV, out_);
}

TEST_F(SphereGolden, Distance) {
  const Result<Real> distance = kSphereOps.distance(shape_, x_.data(), y_.data(), arena_);
  ASSERT_TRUE(distance.ok());
  EXPECT_NEAR(static_cast<double>(distance.value()), golden::sphere::kDistance, testing::kIsDouble ? 1e-12 : 1e-6);
}

TEST(Sphere, NearPointsKeepTheirDigits) {
  // A short step comes back with all its digits; y / (x'y) - x would lose most of them.
  Arena arena(nullptr, 0);
  const Real x[2] = {1, 0};
  const Real v[2] = {0, static_cast<Real>(1e-5)};
  Real y[2], back[2];
  ASSERT_EQ(kSphereOps.retract({2, 1}, x, v, y, arena), Status::kOk);
  ASSERT_EQ(kSphereOps.inverse_retract({2, 1}, x, y, back, arena), Status::kOk);
  EXPECT_NEAR(back[1], v[1], 4 * kEpsilon * v[1]);
  // The retraction travels atan(v) = v - v^3 / 3.
  EXPECT_NEAR(kSphereOps.distance({2, 1}, x, y, arena).value(), v[1], 4 * kEpsilon * v[1] + v[1] * v[1] * v[1]);
}

TEST(Sphere, SaysWhereNoUniqueAnswerExists) {
  Arena arena(nullptr, 0);
  const Real x[2] = {1, 0}, antipode[2] = {-1, 0}, right_angle[2] = {0, 1}, v[2] = {0, 1}, minus_x[2] = {-1, 0};
  Real out[2];
  EXPECT_EQ(kSphereOps.inverse_retract({2, 1}, x, antipode, out, arena), Status::kSingular);
  EXPECT_EQ(kSphereOps.inverse_retract({2, 1}, x, right_angle, out, arena), Status::kSingular);
  EXPECT_EQ(kSphereOps.log_map({2, 1}, x, antipode, out, arena), Status::kSingular);
  EXPECT_EQ(kSphereExponentialOps.inverse_retract({2, 1}, x, right_angle, out, arena), Status::kOk);
  EXPECT_NEAR(out[1], std::acos(Real{-1}) / 2, 4 * kEpsilon);
  EXPECT_EQ(kSphereOps.transport({2, 1}, x, antipode, v, out, arena), Status::kSingular);
  EXPECT_EQ(kSphereOps.retract({2, 1}, x, minus_x, out, arena), Status::kSingular);
  const Real zero[2] = {0, 0};
  EXPECT_EQ(kSphereOps.project_point({2, 1}, zero, out, arena), Status::kSingular);
  const Real bad[2] = {1, std::numeric_limits<Real>::quiet_NaN()};
  EXPECT_EQ(kSphereOps.project_point({2, 1}, bad, out, arena), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
