#include "runtime/training/secant.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// s = (1, 2), y = (4, 1) in the plane, where transport is nothing.
TEST(Secant, IsOfTwoModelsAndTheirGradients) {
  TestArena memory;
  const Real previous[] = {1, 1};
  const Real current[] = {2, 3};
  const Real previous_gradient[] = {-1, 2};
  const Real gradient[] = {3, 3};
  Secant secant;
  ASSERT_EQ(find_secant(kEuclideanOps, {2, 1}, previous, current, previous_gradient, gradient, &secant, memory.arena),
            Status::kOk);
  EXPECT_EQ(secant.ss, 5);
  EXPECT_EQ(secant.sy, 6);
  EXPECT_EQ(secant.yy, 17);
  EXPECT_EQ(memory.arena.high_water_size(), secant_scratch_size(kEuclideanOps, {2, 1}));
}

// On the unit circle, from angle 0 to atan(3/4): L = y / (x'y) - x = (0, 3/4), transported to length 3/4 along the
// tangent (-3/5, 4/5); a gradient (0, 1) there becomes that tangent.
TEST(Secant, IsTransportedToTheCurrentModel) {
  TestArena memory;
  const Real previous[] = {1, 0};
  const Real current[] = {static_cast<Real>(0.8), static_cast<Real>(0.6)};
  const Real previous_gradient[] = {0, 1};
  const Real gradient[] = {static_cast<Real>(-1.8), static_cast<Real>(2.4)};  // 3 along the tangent
  Secant secant;
  ASSERT_EQ(find_secant(kSphereOps, {2, 1}, previous, current, previous_gradient, gradient, &secant, memory.arena),
            Status::kOk);
  EXPECT_NEAR(secant.ss, 0.5625, 1e-6);
  EXPECT_NEAR(secant.sy, 1.5, 1e-6);
  EXPECT_NEAR(secant.yy, 4, 1e-5);
  const Real far[] = {-1, 0};
  EXPECT_EQ(find_secant(kSphereOps, {2, 1}, previous, far, previous_gradient, gradient, &secant, memory.arena),
            Status::kSingular);
}

TEST(Secant, GuardsWhatMeansNothing) {
  EXPECT_EQ(curvature_of(BarzilaiBorwein::kNone, {1, 1, 1}), 0);
  EXPECT_EQ(curvature_of(BarzilaiBorwein::kFirst, {2, 6, 30}), 3);
  EXPECT_EQ(curvature_of(BarzilaiBorwein::kSecond, {2, 6, 30}), 5);
  for (const BarzilaiBorwein form : {BarzilaiBorwein::kFirst, BarzilaiBorwein::kSecond}) {
    EXPECT_EQ(curvature_of(form, {0, 0, 1}), 0) << "the model did not move";
    EXPECT_EQ(curvature_of(form, {2, -6, 30}), 0) << "no positive curvature";
    EXPECT_EQ(curvature_of(form, {2, 0, 30}), 0);
    EXPECT_EQ(curvature_of(form, {2, std::numeric_limits<Real>::quiet_NaN(), 1}), 0);
    EXPECT_EQ(barzilai_borwein_step(form, {2, -6, 30}, static_cast<Real>(0.01), 1), 1) << "the largest step";
    EXPECT_EQ(barzilai_borwein_step(form, {0, 0, 0}, static_cast<Real>(0.01), 1), 1);
  }
  EXPECT_EQ(barzilai_borwein_step(BarzilaiBorwein::kFirst, {2, 8, 64}, static_cast<Real>(0.01), 1), Real{0.25});
  EXPECT_EQ(barzilai_borwein_step(BarzilaiBorwein::kSecond, {2, 8, 64}, static_cast<Real>(0.01), 1), Real{0.125});
  EXPECT_EQ(barzilai_borwein_step(BarzilaiBorwein::kFirst, {2, 8, 64}, Real{0.5}, 1), Real{0.5});
  EXPECT_EQ(barzilai_borwein_step(BarzilaiBorwein::kFirst, {2, 8, 64}, 0, Real{0.125}), Real{0.125});
}

}  // namespace
}  // namespace gradstream
