#include "runtime/base/products.h"
#include "tests/golden/oblique_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::expect_golden;
using testing::kEpsilon;
using testing::to_reals;
using Vector = std::vector<Real>;

TEST(Oblique, EveryVariantPassesTheChecker) {
  for (const ManifoldOps* ops : {&kObliqueOps, &kObliqueProjectionOps, &kObliqueExponentialOps}) {
    for (const Shape shape : {Shape{2, 1}, Shape{3, 2}, Shape{5, 3}, Shape{64, 4}, Shape{9, 17}}) {
      for (uint32_t seed = 1; seed <= 3; ++seed) {
        check_manifold({.ops = *ops, .shape = shape, .seed = seed, .reference = &kObliqueExponentialOps});
      }
    }
  }
}

TEST(Oblique, RefusesShapesWithoutRoomForATangent) {
  EXPECT_EQ(kObliqueOps.check_shape({1, 3}), Status::kInvalidArgument);
  EXPECT_EQ(kObliqueOps.check_shape({3, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kObliqueOps.check_shape({2, kDimensionMax + 1}), Status::kInvalidArgument);
  EXPECT_EQ(kObliqueOps.check_shape({2, 7}), Status::kOk);
  EXPECT_EQ(kObliqueOps.dimension({5, 3}), 12u);
}

class ObliqueGolden : public ::testing::Test {
 protected:
  const Shape shape_{5, 3};
  uint64_t memory_[16] = {};
  Arena arena_{memory_, sizeof(memory_)};
  const Vector x_ = to_reals(golden::oblique::kX);
  const Vector ambient_ = to_reals(golden::oblique::kAmbient);
  const Vector projected_ = to_reals(golden::oblique::kProjected);
  Vector out_ = Vector(15);
};

TEST_F(ObliqueGolden, ProjectTangent) {
  ASSERT_EQ(kObliqueOps.project_tangent(shape_, x_.data(), ambient_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::oblique::kProjected, out_);
}

TEST_F(ObliqueGolden, RetractAndItsInverse) {
  Vector v = projected_;
  scale(v.size(), static_cast<Real>(0.3), v.data());
  ASSERT_EQ(kObliqueOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::oblique::kRetracted, out_);
  const Vector y = to_reals(golden::oblique::kRetracted);
  ASSERT_EQ(kObliqueOps.inverse_retract(shape_, x_.data(), y.data(), out_.data(), arena_), Status::kOk);
  for (size_t i = 0; i < v.size(); ++i) {
    EXPECT_NEAR(out_[i], v[i], 16 * kEpsilon);
  }
}

TEST_F(ObliqueGolden, ProjectPoint) {
  ASSERT_EQ(kObliqueOps.project_point(shape_, ambient_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::oblique::kNormalized, out_);
}

TEST_F(ObliqueGolden, IsASphereInEveryColumn) {
  Vector column(5), expected(5), y = projected_;
  scale(y.size(), static_cast<Real>(0.2), y.data());
  ASSERT_EQ(kObliqueExponentialOps.retract(shape_, x_.data(), y.data(), out_.data(), arena_), Status::kOk);
  for (size_t i = 0; i < 5; ++i) {
    column[i] = x_[3 * i + 1];
    expected[i] = y[3 * i + 1];
  }
  ASSERT_EQ(kSphereExponentialOps.retract({5, 1}, column.data(), expected.data(), expected.data(), arena_),
            Status::kOk);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(out_[3 * i + 1], expected[i], 4 * kEpsilon);
  }
}

// On both sides of the length up to which a series does it, and with columns that do not move.
TEST_F(ObliqueGolden, StepsOfEveryLengthAreOnTheSphereOfEveryColumn) {
  for (const Real length : {Real(0), Real(1e-20), Real(1e-4), Real(1), Real(1.56), Real(1.58), Real(3), Real(7)}) {
    Vector v = projected_, expected(5);
    for (size_t c = 0; c < 3; ++c) {
      Real square = 0;
      for (size_t i = c; i < 15; i += 3) {
        square += v[i] * v[i];
      }
      for (size_t i = c; i < 15; i += 3) {
        v[i] *= (c == 0 ? 0 : length) / std::sqrt(square);
      }
    }
    ASSERT_EQ(kObliqueExponentialOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kOk);
    for (size_t c = 0; c < 3; ++c) {
      Vector point(5), step(5);
      for (size_t i = 0; i < 5; ++i) {
        point[i] = x_[3 * i + c];
        step[i] = v[3 * i + c];
      }
      ASSERT_EQ(kSphereExponentialOps.retract({5, 1}, point.data(), step.data(), expected.data(), arena_), Status::kOk);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(out_[3 * i + c], expected[i], 4 * kEpsilon) << length;
      }
    }
  }
}

TEST_F(ObliqueGolden, SaysWhichColumnsHaveNoAnswer) {
  // The second column is zero, not finite, or opposite; the others are good.
  Vector zero = ambient_, nan = ambient_, opposite = x_;
  for (size_t i = 1; i < 15; i += 3) {
    zero[i] = 0;
    opposite[i] = -x_[i];
  }
  nan[4] = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(kObliqueOps.project_point(shape_, zero.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kObliqueOps.project_point(shape_, nan.data(), out_.data(), arena_), Status::kNotFinite);
  EXPECT_EQ(kObliqueOps.inverse_retract(shape_, x_.data(), opposite.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kObliqueOps.transport(shape_, x_.data(), opposite.data(), projected_.data(), out_.data(), arena_),
            Status::kSingular);
  EXPECT_EQ(kObliqueExponentialOps.log_map(shape_, x_.data(), opposite.data(), out_.data(), arena_), Status::kSingular);
  for (const Vector* bad : {static_cast<const Vector*>(&nan), &x_}) {
    Vector step = projected_;
    step[4] = bad == &nan ? 0 : std::numeric_limits<Real>::quiet_NaN();
    EXPECT_EQ(kObliqueExponentialOps.retract(shape_, bad->data(), step.data(), out_.data(), arena_),
              Status::kNotFinite);
  }
  Arena small(memory_, 8);
  EXPECT_EQ(kObliqueOps.project_point(shape_, x_.data(), out_.data(), small), Status::kOutOfMemory);
}

}  // namespace
}  // namespace gradstream
