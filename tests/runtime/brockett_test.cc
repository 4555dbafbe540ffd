#include <gtest/gtest.h>

#include "tests/golden/problem_vectors.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

// Three symmetric 5 x 5 matrices B + B', and any 5 x 2 point.
class Brockett : public ::testing::Test {
 protected:
  static std::vector<Real> matrices() {
    std::vector<Real> b = random_values(75, 1);
    std::vector<Real> a(75);
    for (size_t m = 0; m < 75; m += 25) {
      for (size_t i = 0; i < 25; ++i) a[m + i] = b[m + i] + b[m + i % 5 * 5 + i / 5];
    }
    return a;
  }
  TestSamples samples_{3, 25, matrices()};
  ProblemCase case_{{&kBrockettOps, &samples_.source}, {5, 2}, random_values(10, 1, 9)};
};

TEST_F(Brockett, HasTheReferencesFigures) {
  expect_golden(case_, golden::problem::kBrockettLoss, golden::problem::kBrockettGradient);
}

TEST_F(Brockett, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {2, 0};
  for (const Batch batch : {case_.all(), Batch{indices, 2}, Batch{indices + 1, 1}}) {
    expect_gradient_is_derivative(case_, batch);
  }
}

TEST_F(Brockett, CountsTheSymmetricPart) {
  const double loss = loss_at(case_, case_.x, case_.all());
  const std::vector<Real> gradient = gradient_at(case_, case_.all());
  samples_.values[1] += 2;  // entry (0, 1) of the first matrix up, (1, 0) down
  samples_.values[5] -= 2;
  EXPECT_NEAR(loss_at(case_, case_.x, case_.all()), loss, 1e-5);
  const std::vector<Real> found = gradient_at(case_, case_.all());
  for (size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(found[i], gradient[i], 1e-5);
}

TEST_F(Brockett, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
}

TEST_F(Brockett, TakesShapesOfItsSamplesOnly) {
  EXPECT_EQ(kBrockettOps.check_shape(&samples_.source, {5, 5}), Status::kOk);
  EXPECT_EQ(kBrockettOps.check_shape(&samples_.source, {5, 6}), Status::kInvalidArgument);
  EXPECT_EQ(kBrockettOps.check_shape(&samples_.source, {5, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kBrockettOps.check_shape(&samples_.source, {4, 2}), Status::kInvalidArgument);
  EXPECT_EQ(kBrockettOps.check_shape(&samples_.source, {25, 1}), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
