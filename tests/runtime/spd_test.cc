#include "runtime/base/products.h"
#include "tests/golden/spd_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::expect_golden;
using testing::kEpsilon;
using testing::kIsDouble;
using testing::to_reals;
using Vector = std::vector<Real>;

TEST(Spd, EveryVariantPassesTheChecker) {
  for (const ManifoldOps* ops : {&kSpdOps, &kSpdSecondOrderOps}) {
    for (const Shape shape : {Shape{1, 1}, Shape{2, 2}, Shape{4, 4}, Shape{20, 20}}) {
      for (uint32_t seed = 1; seed <= 3; ++seed) {
        check_manifold({.ops = *ops,
                        .shape = shape,
                        .seed = seed,
                        .tolerance = (64 + 8 * static_cast<Real>(shape.rows)) * kEpsilon,
                        .is_embedded = false,
                        .reference = &kSpdOps});
      }
    }
  }
}

TEST(Spd, RefusesShapes) {
  EXPECT_EQ(kSpdOps.check_shape({3, 2}), Status::kInvalidArgument);
  EXPECT_EQ(kSpdOps.check_shape({0, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kSpdOps.check_shape({kSpdRowsMax + 1, kSpdRowsMax + 1}), Status::kInvalidArgument);
  EXPECT_EQ(kSpdOps.check_shape({kSpdRowsMax, kSpdRowsMax}), Status::kOk);
  EXPECT_EQ(kSpdOps.dimension({4, 4}), 10u);
}

class SpdGolden : public ::testing::Test {
 protected:
  const Shape shape_{4, 4};
  uint64_t memory_[128] = {};
  Arena arena_{memory_, sizeof(memory_)};
  const Vector x_ = to_reals(golden::spd::kX);
  const Vector y_ = to_reals(golden::spd::kY);
  const Vector v_ = to_reals(golden::spd::kV);
  Vector out_ = Vector(16);
  // Entries go up to 24 and condition numbers to 40.
  template <size_t kCount>
  void expect_near(const double (&golden)[kCount]) const {
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(static_cast<double>(out_[i]), golden[i], kIsDouble ? 1e-11 : 1e-4) << "entry " << i;
    }
  }
};

TEST_F(SpdGolden, Exponential) {
  ASSERT_EQ(kSpdOps.retract(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::spd::kExp);
  EXPECT_GT(distance2(16, out_.data(), to_reals(golden::spd::kExpWithWrongPowers).data()), static_cast<Real>(0.1))
      << "the printed formula has the wrong powers of X";
}

TEST_F(SpdGolden, Logarithm) {
  ASSERT_EQ(kSpdOps.inverse_retract(shape_, x_.data(), y_.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::spd::kLog);
}

TEST_F(SpdGolden, SecondOrder) {
  ASSERT_EQ(kSpdSecondOrderOps.retract(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::spd::kSecondOrder);
}

TEST_F(SpdGolden, Transport) {
  ASSERT_EQ(kSpdOps.transport(shape_, x_.data(), y_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::spd::kTransported);
}

TEST_F(SpdGolden, Gradient) {
  const Vector g = to_reals(golden::spd::kEuclideanGradient);
  ASSERT_EQ(kSpdOps.riemannian_gradient(shape_, x_.data(), g.data(), out_.data(), arena_), Status::kOk);
  expect_near(golden::spd::kGradient);
}

TEST_F(SpdGolden, DistanceAndNorm) {
  const double tolerance = kIsDouble ? 1e-12 : 1e-5;
  EXPECT_NEAR(static_cast<double>(kSpdOps.distance(shape_, x_.data(), y_.data(), arena_).value()),
              golden::spd::kDistance, tolerance);
  const Real squared = kSpdOps.inner(shape_, x_.data(), v_.data(), v_.data(), arena_).value();
  EXPECT_NEAR(static_cast<double>(std::sqrt(squared)), golden::spd::kNorm, tolerance);
}

TEST_F(SpdGolden, LostDefinitenessIsRefusedByEveryOperation) {
  // A pivot that is zero to rounding, and one that is negative.
  for (const Real corner : {Real{1}, static_cast<Real>(0.5)}) {
    const Real lost[4] = {1, 1, 1, corner}, good[4] = {2, 0, 0, 1}, v[4] = {1, 0, 0, 1};
    const Shape shape{2, 2};
    Real out[4];
    for (const ManifoldOps* ops : {&kSpdOps, &kSpdSecondOrderOps}) {
      EXPECT_EQ(ops->project_point(shape, lost, out, arena_), Status::kSingular);
      EXPECT_EQ(ops->retract(shape, lost, v, out, arena_), Status::kSingular);
      EXPECT_EQ(ops->inverse_retract(shape, lost, good, out, arena_), Status::kSingular);
      EXPECT_EQ(ops->transport(shape, lost, good, v, out, arena_), Status::kSingular);
      EXPECT_EQ(ops->inner(shape, lost, v, v, arena_).status(), Status::kSingular);
      EXPECT_EQ(ops->distance(shape, lost, good, arena_).status(), Status::kSingular);
    }
    EXPECT_EQ(kSpdOps.log_map(shape, good, lost, out, arena_), Status::kSingular);
  }
}

TEST_F(SpdGolden, StepsThatLeaveWhatFloatsCanHoldAreRefused) {
  const Shape shape{2, 2};
  const Real x[4] = {1, 0, 0, 1};
  const Real up[4] = {1000, 0, 0, 0}, apart[4] = {60, 55, 55, -60};
  const Real nan[4] = {std::numeric_limits<Real>::quiet_NaN(), 0, 0, 1};
  Real out[4];
  EXPECT_EQ(kSpdOps.retract(shape, x, up, out, arena_), Status::kNotFinite);
  EXPECT_EQ(kSpdOps.retract(shape, x, apart, out, arena_), Status::kSingular);
  EXPECT_EQ(kSpdOps.retract(shape, x, nan, out, arena_), Status::kNotFinite);
  EXPECT_EQ(kSpdOps.project_point(shape, nan, out, arena_), Status::kNotFinite);
  Real quarter[4] = {static_cast<Real>(0.25), 0, 0, 1};
  EXPECT_EQ(kSpdSecondOrderOps.inverse_retract(shape, x, quarter, out, arena_), Status::kSingular)
      << "no step of this retraction goes so near to the edge";
  Arena small(memory_, 64);
  EXPECT_EQ(kSpdOps.retract(shape_, x_.data(), v_.data(), out_.data(), small), Status::kOutOfMemory);
}

TEST(Spd, BadlyScaledPointsKeepTheirDigits) {
  // Scaling rows and columns changes neither the distance nor, in relative terms, the exponential: condition 1e12.
  const Shape shape{2, 2};
  uint64_t memory[64];
  Arena arena(memory, sizeof(memory));
  const Real s = static_cast<Real>(1e-6);
  const Real x[4] = {2, s, s, 2 * s * s}, y[4] = {1, 0, 0, 3 * s * s};
  const Real plain_x[4] = {2, 1, 1, 2}, plain_y[4] = {1, 0, 0, 3};
  EXPECT_NEAR(kSpdOps.distance(shape, x, y, arena).value(), kSpdOps.distance(shape, plain_x, plain_y, arena).value(),
              16 * kEpsilon);
  Real v[4], back[4];
  ASSERT_EQ(kSpdOps.log_map(shape, x, y, v, arena), Status::kOk);
  ASSERT_EQ(kSpdOps.exp_map(shape, x, v, back, arena), Status::kOk);
  EXPECT_NEAR(back[3] / (s * s), 3, 64 * kEpsilon);
  EXPECT_NEAR(back[0], 1, 64 * kEpsilon);
}

}  // namespace
}  // namespace gradstream
