#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/manifold/fixed_rank.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

// Seven entries of a 6 x 4 matrix, and a point of rank 2.
class Completion : public ::testing::Test {
 protected:
  Completion() {
    TestArena memory;
    case_.x.resize(case_.shape.size());
    EXPECT_EQ(kFixedRankOps.random_point(case_.shape, {.seed = 5}, case_.x.data(), memory.arena), Status::kOk);
  }
  const Parts parts_ = fixed_rank_parts(6, 4, 2);
  TestSamples samples_{7, 3, {0, 0, 1, 5, 3, -1, 2, 1, 0.5F, 2, 3, 2, 4, 0, -0.25F, 0, 3, 1.5F, 3, 2, 0}};
  ProblemCase case_{{&kCompletionOps, &samples_.source}, fixed_rank_shape(parts_), {}};
};

TEST_F(Completion, IsTheMeanSquareOfTheKnownEntries) {
  Real dense[24];
  fixed_rank_to_dense(case_.shape, case_.x.data(), dense);
  double sum = 0;
  for (size_t i = 0; i < 7; ++i) {
    const Real* const sample = &samples_.values[3 * i];
    const auto at = static_cast<size_t>(4 * sample[0] + sample[1]);
    const double error = static_cast<double>(dense[at]) - static_cast<double>(sample[2]);
    sum += error * error / 14;
  }
  EXPECT_NEAR(loss_at(case_, case_.x, case_.all()), sum, 1e-6);
}

TEST_F(Completion, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {6, 0, 3};
  for (const Batch batch : {case_.all(), Batch{indices, 3}, Batch{indices, 1}}) {
    expect_gradient_is_derivative(case_, batch);
  }
}

// Along the manifold too: <grad f, v> is the slope of f on the retraction's curve.
TEST_F(Completion, ItsRiemannianGradientIsTheSlopeAlongRetractions) {
  TestArena memory;
  std::vector<Real> gradient = gradient_at(case_, case_.all());
  ASSERT_EQ(
      kFixedRankOps.riemannian_gradient(case_.shape, case_.x.data(), gradient.data(), gradient.data(), memory.arena),
      Status::kOk);
  std::vector<Real> v(case_.shape.size());
  ASSERT_EQ(random_tangent(kFixedRankOps, case_.shape, case_.x.data(), {.seed = 8}, v.data(), memory.arena),
            Status::kOk);
  const double slope = dot(v.size(), gradient.data(), v.data());
  const double h = sizeof(Real) == sizeof(float) ? 1e-2 : 1e-4;
  double values[2];
  for (int side = 0; side < 2; ++side) {
    std::vector<Real> step = v;
    std::vector<Real> y(v.size());
    scale(step.size(), static_cast<Real>(side == 0 ? -h : h), step.data());
    ASSERT_EQ(kFixedRankOps.retract(case_.shape, case_.x.data(), step.data(), y.data(), memory.arena), Status::kOk);
    values[side] = loss_at(case_, y, case_.all());
  }
  EXPECT_NEAR((values[1] - values[0]) / (2 * h), slope, 40 * h * h * (1 + std::fabs(slope)));
}

TEST_F(Completion, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
  expect_names_bad_value(case_, samples_, 2, 0, 6, case_.shape.parts->part[0].shape.rows - 1, "row");
  expect_names_bad_value(case_, samples_, 5, 1, 0.5, case_.shape.parts->part[1].shape.rows - 1, "column");
  for (const Real bad : {Real{-1}, Real{6}, Real{0.5F}}) {
    samples_.values[0] = bad;
    TestArena memory;
    EXPECT_EQ(kCompletionOps.loss(&samples_.source, case_.shape, case_.x.data(), case_.all(), memory.arena).status(),
              Status::kOutOfRange);
  }
}

TEST_F(Completion, TakesPointsOfFixedRankOnly) {
  EXPECT_EQ(kCompletionOps.check_shape(&samples_.source, {12, 2}), Status::kInvalidArgument);
  SampleSource pairs = samples_.source;
  pairs.dimension = 2;
  EXPECT_EQ(kCompletionOps.check_shape(&pairs, case_.shape), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
