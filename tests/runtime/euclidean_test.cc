#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;

TEST(Euclidean, PassesTheChecker) {
  check_manifold({.ops = kEuclideanOps, .shape = {7, 1}});
  check_manifold({.ops = kEuclideanOps, .shape = {5, 3}, .seed = 2});
}

TEST(Euclidean, RefusesEmptyAndOversizedShapes) {
  EXPECT_EQ(kEuclideanOps.check_shape({0, 3}), Status::kInvalidArgument);
  EXPECT_EQ(kEuclideanOps.check_shape({3, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kEuclideanOps.check_shape({kDimensionMax + 1, 1}), Status::kInvalidArgument);
  EXPECT_EQ(kEuclideanOps.check_shape({1, kDimensionMax}), Status::kOk);
  EXPECT_EQ(kEuclideanOps.dimension({4, 3}), 12u);
}

TEST(Euclidean, ProjectPointRefusesWhatIsNotFinite) {
  Arena arena(nullptr, 0);
  Real z[2] = {1, std::numeric_limits<Real>::infinity()};
  EXPECT_EQ(kEuclideanOps.project_point({2, 1}, z, z, arena), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
