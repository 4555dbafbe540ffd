#include "tests/golden/stiefel_vectors.h"
#include "tests/manifold_checker.h"

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
  uint64_t memory_[256] = {};
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
  ASSERT_EQ(qr_factor(shape_, z.data(), out_.data()), Status::kOk);
  expect_golden(golden::stiefel::kQrOfXPlusV, out_);
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
