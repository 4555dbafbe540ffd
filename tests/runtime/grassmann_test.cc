#include "runtime/base/products.h"
#include "tests/golden/grassmann_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::expect_golden;
using testing::kEpsilon;
using testing::kIsDouble;
using testing::to_reals;
using Vector = std::vector<Real>;

TEST(Grassmann, EveryVariantPassesTheChecker) {
  const ManifoldOps* const variants[] = {
      &kGrassmannOps,          &kGrassmannParallelOps, &kGrassmannQrOps,          &kGrassmannQrParallelOps,
      &kGrassmannUnalignedOps, &kGrassmannSmoothOps,   &kGrassmannExponentialOps, &kGrassmannExponentialProjectionOps};
  for (const ManifoldOps* ops : variants) {
    for (const Shape shape : {Shape{2, 1}, Shape{6, 3}, Shape{64, 4}, Shape{13, 9}, Shape{10, 9}}) {
      for (uint32_t seed = 1; seed <= 3; ++seed) {
        check_manifold({.ops = *ops,
                        .shape = shape,
                        .seed = seed,
                        .retraction_order = ops->retraction_kind == RetractionKind::kQr ? 1 : 2,
                        .reference = &kGrassmannExponentialOps});
      }
    }
  }
}

TEST(Grassmann, RefusesShapesWithoutRoomForATangent) {
  EXPECT_EQ(kGrassmannOps.check_shape({3, 3}), Status::kInvalidArgument);
  EXPECT_EQ(kGrassmannOps.check_shape({3, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kGrassmannOps.check_shape({128, kStiefelColsMax + 1}), Status::kInvalidArgument);
  EXPECT_EQ(kGrassmannOps.check_shape({4, 3}), Status::kOk);
  EXPECT_EQ(kGrassmannOps.dimension({6, 2}), 8u);
}

class GrassmannGolden : public ::testing::Test {
 protected:
  const Shape shape_{6, 3};
  uint64_t memory_[256] = {};
  Arena arena_{memory_, sizeof(memory_)};
  const Vector x_ = to_reals(golden::grassmann::kX);
  const Vector y_ = to_reals(golden::grassmann::kExp);
  const Vector h_ = to_reals(golden::grassmann::kH);
  const Vector g_ = to_reals(golden::grassmann::kG);
  Vector out_ = Vector(18);
  // The same subspace as y by another representative: columns permuted, one of them with its sign turned.
  Vector other_y() const {
    Vector other(18);
    for (size_t i = 0; i < 18; i += 3) {
      other[i] = -y_[i + 2];
      other[i + 1] = y_[i];
      other[i + 2] = y_[i + 1];
    }
    return other;
  }
};

TEST_F(GrassmannGolden, Exponential) {
  ASSERT_EQ(kGrassmannExponentialOps.retract(shape_, x_.data(), h_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::grassmann::kExp, out_);
}

// The geodesic by four steps of a quarter, each by the series, is the one by a single step that is too long for it.
TEST_F(GrassmannGolden, LongStepsGoOnWhereShortOnesLead) {
  const size_t size = shape_.size();
  Vector v = h_, quarter, at = x_, next(size);
  scale(size, static_cast<Real>(3) / norm2(size, v.data()), v.data());
  ASSERT_EQ(kGrassmannExponentialOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kOk);
  quarter = v;
  scale(size, static_cast<Real>(0.25), quarter.data());
  for (int step = 0; step < 4; ++step) {
    Vector moved(size);
    ASSERT_EQ(kGrassmannExponentialOps.retract(shape_, at.data(), quarter.data(), next.data(), arena_), Status::kOk);
    ASSERT_EQ(kGrassmannParallelOps.transport(shape_, at.data(), next.data(), quarter.data(), moved.data(), arena_),
              Status::kOk);
    at = next;
    quarter = moved;
  }
  EXPECT_LE(kGrassmannOps.distance(shape_, at.data(), out_.data(), arena_).value(), 64 * kEpsilon);
}

TEST_F(GrassmannGolden, Logarithm) {
  ASSERT_EQ(kGrassmannExponentialOps.inverse_retract(shape_, x_.data(), y_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::grassmann::kLog, out_);
  // The printed formula lacks its right factor: another vector.
  EXPECT_GT(distance2(18, out_.data(), to_reals(golden::grassmann::kLogWithoutRightFactor).data()),
            static_cast<Real>(0.1));
}

TEST_F(GrassmannGolden, LogarithmAndDistanceDoNotDependOnTheRepresentative) {
  const Vector other = other_y();
  ASSERT_EQ(kGrassmannExponentialOps.log_map(shape_, x_.data(), other.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::grassmann::kLog, out_);
  EXPECT_LE(kGrassmannOps.distance(shape_, y_.data(), other.data(), arena_).value(), 32 * kEpsilon);
}

TEST_F(GrassmannGolden, Distance) {
  const double tolerance = kIsDouble ? 1e-12 : 1e-6;
  EXPECT_NEAR(static_cast<double>(kGrassmannOps.distance(shape_, x_.data(), y_.data(), arena_).value()),
              golden::grassmann::kDistance, tolerance);
  // Short distances keep their digits, where acos(cosine) has a floor of 3.5e-4 in float.
  Vector step = h_;
  scale(18, static_cast<Real>(1e-4), step.data());
  ASSERT_EQ(kGrassmannExponentialOps.retract(shape_, x_.data(), step.data(), out_.data(), arena_), Status::kOk);
  EXPECT_NEAR(kGrassmannOps.distance(shape_, x_.data(), out_.data(), arena_).value(), norm2(18, step.data()),
              16 * kEpsilon);
}

TEST_F(GrassmannGolden, Polar) {
  ASSERT_EQ(kGrassmannOps.retract(shape_, x_.data(), h_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::grassmann::kPolar, out_);
}

TEST_F(GrassmannGolden, ParallelTransport) {
  ASSERT_EQ(kGrassmannParallelOps.transport(shape_, x_.data(), y_.data(), g_.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::grassmann::kTransported, out_);
}

TEST_F(GrassmannGolden, TransportsFollowTheRepresentative) {
  const Vector other = other_y();
  for (const ManifoldOps* ops : {&kGrassmannOps, &kGrassmannParallelOps}) {
    Vector expected(18);
    ASSERT_EQ(ops->transport(shape_, x_.data(), y_.data(), g_.data(), expected.data(), arena_), Status::kOk);
    ASSERT_EQ(ops->transport(shape_, x_.data(), other.data(), g_.data(), out_.data(), arena_), Status::kOk);
    for (size_t i = 0; i < 18; i += 3) {
      EXPECT_NEAR(out_[i], -expected[i + 2], 32 * kEpsilon);
      EXPECT_NEAR(out_[i + 1], expected[i], 32 * kEpsilon);
      EXPECT_NEAR(out_[i + 2], expected[i + 1], 32 * kEpsilon);
    }
  }
}

// From a point to its polar retraction, which is aligned with it.
TEST_F(GrassmannGolden, UnalignedIsProjectionBetweenAlignedRepresentatives) {
  Vector next(18), expected(18);
  ASSERT_EQ(kGrassmannOps.retract(shape_, x_.data(), h_.data(), next.data(), arena_), Status::kOk);
  ASSERT_EQ(kGrassmannOps.transport(shape_, x_.data(), next.data(), g_.data(), expected.data(), arena_), Status::kOk);
  ASSERT_EQ(kGrassmannUnalignedOps.transport(shape_, x_.data(), next.data(), g_.data(), out_.data(), arena_),
            Status::kOk);
  for (size_t i = 0; i < 18; ++i) {
    EXPECT_NEAR(out_[i], expected[i], 32 * kEpsilon);
  }
}

// The same, and there it is the parallel transport.
TEST_F(GrassmannGolden, SmoothIsParallelBetweenAlignedRepresentatives) {
  Vector next(18), expected(18);
  ASSERT_EQ(kGrassmannOps.retract(shape_, x_.data(), h_.data(), next.data(), arena_), Status::kOk);
  ASSERT_EQ(kGrassmannParallelOps.transport(shape_, x_.data(), next.data(), g_.data(), expected.data(), arena_),
            Status::kOk);
  ASSERT_EQ(kGrassmannSmoothOps.transport(shape_, x_.data(), next.data(), g_.data(), out_.data(), arena_), Status::kOk);
  for (size_t i = 0; i < 18; ++i) {
    EXPECT_NEAR(out_[i], expected[i], 32 * kEpsilon);
  }
}

TEST_F(GrassmannGolden, SaysWhereNoUniqueAnswerExists) {
  // Subspaces with a right angle between them.
  Vector first(12), second(12);
  first[0] = first[3] = second[0] = second[5] = 1;
  const Shape shape{6, 2};
  EXPECT_EQ(kGrassmannOps.inverse_retract(shape, first.data(), second.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kGrassmannExponentialOps.log_map(shape, first.data(), second.data(), out_.data(), arena_),
            Status::kSingular);
  for (const ManifoldOps* ops : {&kGrassmannOps, &kGrassmannParallelOps}) {
    EXPECT_EQ(ops->transport(shape, first.data(), second.data(), second.data(), out_.data(), arena_),
              Status::kSingular);
  }
  EXPECT_NEAR(kGrassmannOps.distance(shape, first.data(), second.data(), arena_).value(), std::acos(Real{0}),
              16 * kEpsilon);
  Vector bad = h_;
  bad[3] = std::numeric_limits<Real>::quiet_NaN();
  for (const ManifoldOps* ops : {&kGrassmannOps, &kGrassmannQrOps, &kGrassmannExponentialOps}) {
    EXPECT_EQ(ops->retract(shape_, x_.data(), bad.data(), out_.data(), arena_), Status::kNotFinite);
  }
  Arena small(memory_, 32);
  EXPECT_EQ(kGrassmannOps.retract(shape_, x_.data(), h_.data(), out_.data(), small), Status::kOutOfMemory);
  EXPECT_EQ(kGrassmannOps.distance(shape_, x_.data(), y_.data(), small).status(), Status::kOutOfMemory);
}

}  // namespace
}  // namespace gradstream
