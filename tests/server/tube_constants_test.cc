// The constants of 002 and 003 by manifold, and what follows from them.
#include "server/run/tube_constants.h"

#include <cmath>

#include <gtest/gtest.h>

#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters product(const char* parts) {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = parts;
  p.model->shape = {};
  set_parts(&p);
  return p;
}

// The displacement that touches the cone of 30 degrees, and the one that goes through the centre of the sphere.
TEST(TubeConstants, StretchOfTheSphere) {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kSphere;
  const TubeConstants tube = tube_of(p);
  double worst = 0;
  for (double angle = 0; angle < 6.28; angle += 0.01) {
    const double x = 1 + tube.gamma * std::cos(angle);
    const double y = tube.gamma * std::sin(angle);
    const double length = std::hypot(x, y);
    worst = std::fmax(worst, std::hypot(x / length - 1, y / length) / tube.gamma);
  }
  EXPECT_LE(worst, tube.stretch);
  EXPECT_GT(worst, tube.stretch - 0.01);
  p.model->manifold = ManifoldId::kSpd;
  EXPECT_EQ(tube_of(p).stretch, 2);
  EXPECT_EQ(tube_of(p).gamma, 0);
}

TEST(TubeConstants, AProductHasThoseOfItsWorstPart) {
  EXPECT_EQ(tube_of(product("sphere 4x1, euclidean 3x1")).gamma, 0.5);
  EXPECT_EQ(tube_of(product("sphere 4x1, euclidean 3x1")).stretch, 1.04);
  EXPECT_EQ(tube_of(product("sphere 4x1, fixed_rank 6x5 2")).gamma, 0);
  EXPECT_EQ(tube_of(product("sphere 4x1, fixed_rank 6x5 2")).stretch, 2);
  EXPECT_TRUE(std::isinf(tube_of(product("euclidean 4x1, euclidean 3x1")).gamma));
  EXPECT_EQ(curvature_of(product("hyperbolic 4x1, stiefel 4x2")).least, -1);
  EXPECT_FALSE(curvature_of(product("hyperbolic 4x1, stiefel 4x2")).is_compact);
  EXPECT_TRUE(curvature_of(product("sphere 4x1, stiefel 4x2")).is_compact);
  EXPECT_FALSE(curvature_of(product("sphere 4x1, fixed_rank 6x5 2")).is_bounded);
}

TEST(TubeConstants, AStiefelMatrixThatIsSquareOrHasOneColumnIsNotNegative) {
  RunParameters p = tangent_parameters();
  EXPECT_EQ(curvature_of(p).least, -0.5);
  p.model->shape = {4, 4};
  EXPECT_EQ(curvature_of(p).least, 0);
  p.model->shape = {4, 1};
  EXPECT_EQ(curvature_of(p).least, 0);
}

// L = 2, noise 1e-4: the error 2 noise^2 / mu^2 + (L mu / 2)^2 is no less beside the smoothing that suits it.
TEST(TubeConstants, NoSmoothingHasALessError) {
  RunParameters p = scalar_parameters();
  const double noise = 1e-4;
  const auto one_sided = [&](double mu) { return 2 * noise * noise / (mu * mu) + mu * mu; };
  const auto two_sided = [&](double mu) { return noise * noise / (2 * mu * mu) + std::pow(mu * mu / 3, 2); };
  const double one = suited_smoothing(p, noise, 2);
  EXPECT_LT(one_sided(one), one_sided(0.9 * one));
  EXPECT_LT(one_sided(one), one_sided(1.1 * one));
  p.local->estimator = EstimatorId::kProjectionTwoSided;
  const double two = suited_smoothing(p, noise, 2);
  EXPECT_LT(two_sided(two), two_sided(0.9 * two));
  EXPECT_LT(two_sided(two), two_sided(1.1 * two));
  p.local->estimator = EstimatorId::kTangentRetraction;
  EXPECT_NEAR(suited_smoothing(p, noise, 2), one / std::sqrt(32.0), 1e-12);
}

}  // namespace
}  // namespace gradstream
