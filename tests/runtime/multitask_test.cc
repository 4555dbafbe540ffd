#include <gtest/gtest.h>

#include "tests/golden/problem_vectors.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

constexpr uint32_t kEnds[] = {4, 9, 12};

// Three tasks of 4, 5 and 3 rows with 6 features, and any 6 x 2 point.
class Multitask : public ::testing::Test {
 protected:
  TestSamples samples_{12, 7, random_values(84, 1)};
  MultitaskData data_{samples_.source, kEnds, 3, 0};
  ProblemCase case_{{&kMultitaskOps, &data_}, {6, 2}, random_values(12, 1, 9)};
};

TEST_F(Multitask, HasTheReferencesFigures) {
  expect_golden(case_, golden::problem::kMultitaskLoss, golden::problem::kMultitaskGradient);
}

TEST_F(Multitask, HasTheReferencesFiguresWithARidge) {
  data_.ridge = static_cast<Real>(0.05);
  expect_golden(case_, golden::problem::kMultitaskRidgeLoss, golden::problem::kMultitaskRidgeGradient);
}

TEST_F(Multitask, GradientIsTheDerivativeWithoutARidge) {
  const uint16_t indices[] = {2, 1};
  for (const Batch batch : {case_.all(), Batch{indices, 2}, Batch{indices, 1}}) {
    expect_gradient_is_derivative(case_, batch);
  }
}

TEST_F(Multitask, DependsOnTheSubspaceAloneWithoutARidge) {
  std::vector<Real> turned = case_.x;
  for (size_t r = 0; r < 6; ++r) {
    turned[2 * r] = case_.x[2 * r] + 2 * case_.x[2 * r + 1];
    turned[2 * r + 1] = 3 * case_.x[2 * r] - case_.x[2 * r + 1];
  }
  EXPECT_NEAR(loss_at(case_, turned, case_.all()), loss_at(case_, case_.x, case_.all()), 1e-5);
}

TEST_F(Multitask, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
}

TEST_F(Multitask, RefusesATaskThatDoesNotFixItsWeights) {
  constexpr uint32_t kShortEnds[] = {1, 9, 12};  // one row, two columns
  data_.task_ends = kShortEnds;
  TestArena memory;
  const auto loss = [&] { return kMultitaskOps.loss(&data_, {6, 2}, case_.x.data(), case_.all(), memory.arena); };
  EXPECT_EQ(loss().status(), Status::kSingular);
  data_.ridge = static_cast<Real>(0.05);
  EXPECT_TRUE(loss().ok());
}

// Two features that differ by a three thousandth: their normal equations are singular to float.
TEST_F(Multitask, FitsATaskWhoseNormalEquationsAreSingularToFloat) {
  const std::vector<Real> rows = {300, 300.125, -0.125, -210, -210.0625, 0.0625, 120, 119.875, 0.125, 80, 80, 0};
  const TestSamples samples(4, 3, rows);
  constexpr uint32_t kEnd = 4;
  const MultitaskData data = {samples.source, &kEnd, 1, static_cast<Real>(1e-7)};
  const std::vector<Real> x = {1, 0, 0, 1};
  TestArena memory;
  const uint16_t only = 0;
  const Result<Real> loss = kMultitaskOps.loss(&data, {2, 2}, x.data(), {&only, 1}, memory.arena);
  ASSERT_TRUE(loss.ok());
  EXPECT_LT(loss.value(), 1e-6) << "w = (1, -1) fits, half the squared target is 1.8e-2";
}

TEST_F(Multitask, TakesShapesOfItsSamplesOnly) {
  EXPECT_EQ(kMultitaskOps.sample_count(&data_), 3u);
  EXPECT_EQ(kMultitaskOps.check_shape(&data_, {6, 6}), Status::kOk);
  EXPECT_EQ(kMultitaskOps.check_shape(&data_, {6, 7}), Status::kInvalidArgument);
  EXPECT_EQ(kMultitaskOps.check_shape(&data_, {7, 2}), Status::kInvalidArgument);
  EXPECT_EQ(kMultitaskOps.check_shape(&data_, {6, 0}), Status::kInvalidArgument);
  data_.ridge = -1;
  EXPECT_EQ(kMultitaskOps.check_shape(&data_, {6, 2}), Status::kInvalidArgument);
  data_.ridge = 0;
  data_.task_count = 2;  // rows that belong to no task
  EXPECT_EQ(kMultitaskOps.check_shape(&data_, {6, 2}), Status::kInvalidArgument);
  data_.task_count = 0;
  EXPECT_EQ(kMultitaskOps.check_shape(&data_, {6, 2}), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
