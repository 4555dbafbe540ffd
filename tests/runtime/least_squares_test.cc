#include <gtest/gtest.h>

#include "tests/golden/problem_vectors.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

// Five samples of four inputs and two outputs, and any 4 x 2 point.
class LeastSquares : public ::testing::Test {
 protected:
  TestSamples samples_{5, 6, random_values(30, 1)};
  ProblemCase case_{{&kLeastSquaresOps, &samples_.source}, {4, 2}, random_values(8, 1, 9)};
};

TEST_F(LeastSquares, HasTheReferencesFigures) {
  expect_golden(case_, golden::problem::kLeastSquaresLoss, golden::problem::kLeastSquaresGradient);
}

TEST_F(LeastSquares, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {4, 0, 2};
  for (const Batch batch : {case_.all(), Batch{indices, 3}, Batch{indices, 1}}) {
    expect_gradient_is_derivative(case_, batch);
  }
}

TEST_F(LeastSquares, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
}

TEST_F(LeastSquares, TakesShapesOfItsSamplesOnly) {
  EXPECT_EQ(kLeastSquaresOps.check_shape(&samples_.source, {5, 1}), Status::kOk);
  EXPECT_EQ(kLeastSquaresOps.check_shape(&samples_.source, {6, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kLeastSquaresOps.check_shape(&samples_.source, {0, 6}), Status::kInvalidArgument);
  EXPECT_EQ(kLeastSquaresOps.check_shape(&samples_.source, {4, 1}), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
