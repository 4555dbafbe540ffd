#include <gtest/gtest.h>

#include "tests/golden/problem_vectors.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

using Point = std::vector<double>;  // time first

Point lift(double a, double b) { return {std::sqrt(1 + a * a + b * b), a, b}; }

double lorentz(const Point& x, const Point& y) { return -x[0] * y[0] + x[1] * y[1] + x[2] * y[2]; }

std::vector<Real> to_real(const Point& x) { return {x.begin(), x.end()}; }

// Five weighted points of the hyperboloid in R^3, and a point between them.
class HyperbolicMean : public ::testing::Test {
 protected:
  static std::vector<Real> weighted_points() {
    const std::vector<Real> space = random_values(10, 1);
    const std::vector<Real> weights = random_values(5, 1, 3);
    std::vector<Real> samples;
    for (size_t i = 0; i < 5; ++i) {
      for (const double value : lift(1.5 * space[2 * i], 1.5 * space[2 * i + 1])) {
        samples.push_back(static_cast<Real>(value));
      }
      samples.push_back(weights[i]);
    }
    return samples;
  }
  static std::vector<Real> point() {
    const std::vector<Real> space = random_values(2, 1, 9);
    return to_real(lift(space[0], space[1]));
  }
  void set_only_sample(const Point& z, double weight) {
    samples_.values = to_real(z);
    samples_.values.push_back(static_cast<Real>(weight));
  }
  TestSamples samples_{5, 4, weighted_points()};
  ProblemCase case_{{&kHyperbolicMeanOps, &samples_.source}, {3, 1}, point()};
};

TEST_F(HyperbolicMean, HasTheReferencesFigures) {
  expect_golden(case_, golden::problem::kHyperbolicLoss, golden::problem::kHyperbolicGradient);
}

TEST_F(HyperbolicMean, NoDistanceHidesANumberThatIsNone) {
  TestArena memory;
  for (size_t at = 0; at < 3; ++at) {
    std::vector<Real> x = case_.x;
    x[at] = std::numeric_limits<Real>::quiet_NaN();
    EXPECT_EQ(kHyperbolicMeanOps.loss(&samples_.source, case_.shape, x.data(), case_.all(), memory.arena).status(),
              Status::kNotFinite);
  }
}

TEST_F(HyperbolicMean, GradientIsTheDerivativeAlongTheHyperboloid) {
  const double step = std::cbrt(static_cast<double>(std::numeric_limits<Real>::epsilon()));
  const uint16_t indices[] = {4, 1};
  for (const Batch batch : {case_.all(), Batch{indices, 2}}) {
    const std::vector<Real> g = gradient_at(case_, batch);
    for (const auto& [a, b] : {std::pair{1.0, 0.0}, std::pair{0.0, 1.0}, std::pair{0.6, -0.8}}) {
      // d/ds of the lift at x along (a, b): the tangent ((xs . (a, b)) / x0, a, b).
      const double x1 = case_.x[1];
      const double x2 = case_.x[2];
      const double time = (x1 * a + x2 * b) / static_cast<double>(case_.x[0]);
      const double expected = g[0] * time + g[1] * a + g[2] * b;
      const double difference = (loss_at(case_, to_real(lift(x1 + step * a, x2 + step * b)), batch) -
                                 loss_at(case_, to_real(lift(x1 - step * a, x2 - step * b)), batch)) /
                                (2 * step);
      EXPECT_NEAR(expected, difference, 100 * step * step);
    }
  }
}

TEST_F(HyperbolicMean, GradientIsTangentAfterTheMetric) {
  const std::vector<Real> g = gradient_at(case_, case_.all());
  const Point riemannian = {-g[0], g[1], g[2]};
  EXPECT_NEAR(lorentz(riemannian, {case_.x[0], case_.x[1], case_.x[2]}), 0, 1e-5);
}

TEST_F(HyperbolicMean, LosesNothingFarOutOrNear) {
  const uint16_t first = 0;
  // 0.025 apart at a distance of 320 from the origin of coordinates: -2 - 2 <x, z>_L is noise there in float.
  case_.x = to_real(lift(320, 0));
  set_only_sample(lift(320.0, 0.025), 1);
  const double distance = 2 * std::asinh(0.0125);
  EXPECT_NEAR(loss_at(case_, case_.x, {&first, 1}), distance * distance, 1e-4 * distance * distance);
  const std::vector<Real> g = gradient_at(case_, {&first, 1});
  EXPECT_NEAR(g[2], -2 * 0.025, 1e-5);
  // At the sample itself.
  set_only_sample(lift(320, 0), 1);
  EXPECT_EQ(loss_at(case_, case_.x, {&first, 1}), 0);
  for (const Real value : gradient_at(case_, {&first, 1})) EXPECT_EQ(value, 0);
}

// A leaf of a large tree, seen from near its root: squared differences of 10^7 would leave 10^-4 of their difference.
TEST_F(HyperbolicMean, LosesNothingBetweenNearAndFar) {
  const uint16_t first = 0;
  case_.x = to_real(lift(0.6, 0.3));
  const Point far = lift(2100, 1636);
  set_only_sample(far, 1);
  const std::vector<Real>& z = samples_.values;
  const double along = double{case_.x[1]} * double{z[1]} + double{case_.x[2]} * double{z[2]};
  const double times = double{case_.x[0]} * double{z[0]};
  const double distance = std::acosh(times - along);
  const double unit = static_cast<double>(std::numeric_limits<Real>::epsilon());
  EXPECT_NEAR(loss_at(case_, case_.x, {&first, 1}), distance * distance, 8 * unit * distance * distance);
  // -2 d / sinh(d) (z - cosh(d) x), of which the first entry has its sign changed.
  const double factor = -2 * distance / std::sinh(distance);
  const std::vector<Real> g = gradient_at(case_, {&first, 1});
  for (size_t i = 0; i < 3; ++i) {
    const double entry = factor * (double{z[i]} - (times - along) * double{case_.x[i]});
    EXPECT_NEAR(g[i], i == 0 ? -entry : entry, 64 * unit * distance);
  }
}

TEST_F(HyperbolicMean, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
}

TEST_F(HyperbolicMean, TakesShapesOfItsSamplesOnly) {
  EXPECT_EQ(kHyperbolicMeanOps.check_shape(&samples_.source, {3, 2}), Status::kInvalidArgument);
  EXPECT_EQ(kHyperbolicMeanOps.check_shape(&samples_.source, {4, 1}), Status::kInvalidArgument);
  const SampleSource flat = {nullptr, 1, 2, nullptr};
  EXPECT_EQ(kHyperbolicMeanOps.check_shape(&flat, {1, 1}), Status::kInvalidArgument) << "no space";
}

}  // namespace
}  // namespace gradstream
