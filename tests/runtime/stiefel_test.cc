#include "runtime/base/factors.h"
#include "runtime/base/products.h"
#include "tests/golden/stiefel_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::expect_golden;
using testing::kEpsilon;
using testing::kIsDouble;
using testing::to_reals;
using Vector = std::vector<Real>;

TEST(Stiefel, PassesTheChecker) {
  constexpr Shape kShapes[] = {{4, 1}, {4, 2}, {6, 3}, {64, 4}, {30, 5}, {13, 9}, {3, 3}};
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    for (const Shape shape : kShapes) {
      check_manifold({.ops = kStiefelOps, .shape = shape, .seed = seed});
    }
  }
}

TEST(Stiefel, PassesTheCheckerAtTheWidestShape) {
  check_manifold({.ops = kStiefelOps, .shape = {200, kStiefelColsMax}, .tolerance = 256 * kEpsilon});
}

TEST(Stiefel, EveryVariantPassesTheChecker) {
  const ManifoldOps* const variants[] = {&kStiefelSmoothOps,   &kStiefelHouseholderOps, &kStiefelQrOps,
                                         &kStiefelQrSmoothOps, &kStiefelExponentialOps, &kStiefelExponentialSmoothOps};
  for (const ManifoldOps* ops : variants) {
    for (const Shape shape : {Shape{4, 1}, Shape{6, 3}, Shape{64, 4}, Shape{13, 9}, Shape{3, 3}}) {
      for (uint32_t seed = 1; seed <= 2; ++seed) {
        check_manifold({.ops = *ops,
                        .shape = shape,
                        .seed = seed,
                        .retraction_order = ops->retraction_kind == RetractionKind::kQr ? 1 : 2,
                        .reference = &kStiefelExponentialOps});
      }
    }
  }
}

// Its inverse by its equation alone, by elimination, is that of polar near a point.
TEST(Stiefel, TheFormalVariantPassesTheChecker) {
  for (const Shape shape : {Shape{4, 1}, Shape{6, 3}, Shape{64, 4}, Shape{3, 3}, Shape{13, 8}}) {
    for (uint32_t seed = 1; seed <= 2; ++seed) {
      check_manifold({.ops = kStiefelFormalOps, .shape = shape, .seed = seed, .reference = &kStiefelExponentialOps});
    }
  }
  EXPECT_EQ(kStiefelFormalOps.check_shape({13, 9}), Status::kInvalidArgument);
}

TEST(Stiefel, PolarIsOfSecondOrder) {
  for (const Shape shape : {Shape{6, 3}, Shape{64, 4}}) {
    check_manifold({.ops = kStiefelOps, .shape = shape, .reference = &kStiefelExponentialOps});
  }
}

TEST(Stiefel, RefusesWideShapes) {
  EXPECT_EQ(kStiefelOps.check_shape({3, 4}), Status::kInvalidArgument);
  EXPECT_EQ(kStiefelOps.check_shape({3, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kStiefelOps.check_shape({128, kStiefelColsMax + 1}), Status::kInvalidArgument);
  EXPECT_EQ(kStiefelOps.check_shape({kDimensionMax + 1, 1}), Status::kInvalidArgument);
  EXPECT_EQ(kStiefelOps.check_shape({4, 4}), Status::kOk);
  EXPECT_EQ(kStiefelOps.dimension({6, 3}), 12u);
}

TEST(Stiefel, ScratchIsANumber) {
  // Four cols x cols matrices and a row: what a board gives to St(64, 4).
  EXPECT_EQ(kStiefelOps.scratch_size({64, 4}), kIsDouble ? 544u : 272u);
}

class StiefelGolden : public ::testing::Test {
 protected:
  const Shape shape_{6, 3};
  uint64_t memory_[1024] = {};
  Arena arena_{memory_, sizeof(memory_)};
  const Vector x_ = to_reals(golden::stiefel::kX);
  const Vector y_ = to_reals(golden::stiefel::kY);
  const Vector v_ = to_reals(golden::stiefel::kV);
  const Vector u_ = to_reals(golden::stiefel::kU);
  const Vector ambient_ = to_reals(golden::stiefel::kAmbient);
  Vector out_ = Vector(18);
};

TEST_F(StiefelGolden, ProjectTangent) {
  ASSERT_EQ(kStiefelOps.project_tangent(shape_, x_.data(), ambient_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kProjected, out_);
}

TEST_F(StiefelGolden, Retract) {
  ASSERT_EQ(kStiefelOps.retract(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kY, out_);
}

TEST_F(StiefelGolden, InverseRetract) {
  ASSERT_EQ(kStiefelOps.inverse_retract(shape_, x_.data(), y_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kV, out_);
}

TEST_F(StiefelGolden, Transport) {
  ASSERT_EQ(kStiefelOps.transport(shape_, x_.data(), y_.data(), u_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kTransportedU, out_);
}

TEST_F(StiefelGolden, ProjectPoint) {
  Vector z = x_;
  add_scaled(z.size(), static_cast<Real>(0.2), ambient_.data(), z.data());
  ASSERT_EQ(kStiefelOps.project_point(shape_, z.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kPolarOfXPlusFifthOfAmbient, out_);
}

TEST_F(StiefelGolden, QrOfTheSameStepIsAnotherPoint) {
  Vector z = x_;
  add_scaled(z.size(), 1, v_.data(), z.data());
  ASSERT_EQ(qr_factor(shape_, z.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kQrOfXPlusV, out_);
}

TEST_F(StiefelGolden, QrRetract) {
  ASSERT_EQ(kStiefelQrOps.retract(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kQrOfXPlusV, out_);
}

TEST_F(StiefelGolden, QrIsOnlyOfFirstOrder) {
  // |QR(tV) - Exp(tV)| falls by 4 when t is halved, where polar's falls by 8.
  const auto error = [&](Real t) {
    Vector v = v_, exact(18);
    scale(v.size(), t, v.data());
    EXPECT_EQ(kStiefelQrOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kOk);
    EXPECT_EQ(kStiefelExponentialOps.exp_map(shape_, x_.data(), v.data(), exact.data(), arena_), Status::kOk);
    return distance2(18, out_.data(), exact.data());
  };
  EXPECT_NEAR(std::log2(error(static_cast<Real>(0.1)) / error(static_cast<Real>(0.05))), 2, 0.2);
}

TEST_F(StiefelGolden, Exponential) {
  ASSERT_EQ(kStiefelExponentialOps.retract(shape_, x_.data(), v_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kExp, out_);
  // Its inverse finds the same velocity, about 1.9 long.
  const Vector y = out_;
  ASSERT_EQ(kStiefelExponentialOps.inverse_retract(shape_, x_.data(), y.data(), out_.data(), arena_), Status::kOk);
  for (size_t i = 0; i < out_.size(); ++i) {
    EXPECT_NEAR(out_[i], v_[i], kIsDouble ? 1e-12 : 1e-5);
  }
}

TEST_F(StiefelGolden, SmoothTransport) {
  ASSERT_EQ(kStiefelSmoothOps.transport(shape_, x_.data(), y_.data(), u_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::stiefel::kTransportedUAligned, out_);
}

TEST_F(StiefelGolden, HouseholderTransport) {
  ASSERT_EQ(kStiefelHouseholderOps.transport(shape_, x_.data(), y_.data(), u_.data(), out_.data(), arena_),
            Status::kOk);
  expect_golden(golden::stiefel::kTransportedUHouseholder, out_);
}

TEST_F(StiefelGolden, VariantsSayWhereTheyAreUndefined) {
  Vector opposite = x_;
  scale(opposite.size(), -1, opposite.data());
  const Real* const x = x_.data();
  EXPECT_EQ(kStiefelQrOps.inverse_retract(shape_, x, opposite.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kStiefelQrOps.retract(shape_, x, opposite.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kStiefelExponentialOps.inverse_retract(shape_, x, opposite.data(), out_.data(), arena_), Status::kSingular);
  // y orthogonal to x: X'Y has no polar factor.
  Vector first(12), second(12);
  first[0] = first[3] = second[4] = second[7] = 1;
  EXPECT_EQ(kStiefelSmoothOps.transport({6, 2}, first.data(), second.data(), second.data(), out_.data(), arena_),
            Status::kSingular);
  Vector bad = v_;
  bad[4] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(kStiefelOps.retract(shape_, x, bad.data(), out_.data(), arena_), Status::kNotFinite);
  EXPECT_EQ(kStiefelQrOps.retract(shape_, x, bad.data(), out_.data(), arena_), Status::kNotFinite);
  EXPECT_EQ(kStiefelExponentialOps.retract(shape_, x, bad.data(), out_.data(), arena_), Status::kNotFinite);
}

TEST_F(StiefelGolden, SaysWhereNoInverseExists) {
  Vector opposite = x_;
  scale(opposite.size(), -1, opposite.data());
  EXPECT_EQ(kStiefelOps.inverse_retract(shape_, x_.data(), opposite.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kStiefelOps.distance(shape_, x_.data(), opposite.data(), arena_).status(), Status::kSingular);
  Vector minus_x = opposite;
  EXPECT_EQ(kStiefelOps.retract(shape_, x_.data(), minus_x.data(), out_.data(), arena_), Status::kSingular);
}

TEST_F(StiefelGolden, TooLittleMemoryIsAStatus) {
  Arena small(memory_, 32);
  EXPECT_EQ(kStiefelOps.project_tangent(shape_, x_.data(), u_.data(), out_.data(), small), Status::kOutOfMemory);
  EXPECT_EQ(kStiefelOps.retract(shape_, x_.data(), v_.data(), out_.data(), small), Status::kOutOfMemory);
  EXPECT_EQ(kStiefelOps.inverse_retract(shape_, x_.data(), y_.data(), out_.data(), small), Status::kOutOfMemory);
  EXPECT_EQ(kStiefelOps.distance(shape_, x_.data(), y_.data(), small).status(), Status::kOutOfMemory);
  for (const ManifoldOps* ops : {&kStiefelSmoothOps, &kStiefelHouseholderOps}) {
    EXPECT_EQ(ops->transport(shape_, x_.data(), y_.data(), u_.data(), out_.data(), small), Status::kOutOfMemory);
  }
  for (const ManifoldOps* ops : {&kStiefelQrOps, &kStiefelExponentialOps}) {
    EXPECT_EQ(ops->inverse_retract(shape_, x_.data(), y_.data(), out_.data(), small), Status::kOutOfMemory);
  }
}

TEST(Stiefel, TenThousandRetractionsStayOrthonormal) {
  const Shape shape{64, 4};
  std::vector<uint64_t> memory(256);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  Vector x(shape.size()), v(shape.size()), gram(16);
  ASSERT_EQ(kStiefelOps.random_point(shape, {.seed = 1}, x.data(), arena), Status::kOk);
  fill_normal({.seed = 2}, 0, v.size(), v.data());
  scale(v.size(), static_cast<Real>(0.001), v.data());
  Real worst = 0;
  for (int step = 0; step < 10000; ++step) {
    ASSERT_EQ(kStiefelOps.project_tangent(shape, x.data(), v.data(), v.data(), arena), Status::kOk);
    ASSERT_EQ(kStiefelOps.retract(shape, x.data(), v.data(), x.data(), arena), Status::kOk);
    multiply_transposed(shape, x.data(), x.data(), gram.data());
    for (size_t i = 0; i < 4; ++i) {
      gram[5 * i] -= 1;
    }
    worst = std::max(worst, norm2(16, gram.data()));
  }
  EXPECT_LT(worst, kIsDouble ? Real(2e-15) : Real(1e-6));
}

}  // namespace
}  // namespace gradstream
