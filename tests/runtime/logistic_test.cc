#include <gtest/gtest.h>

#include "tests/golden/problem_vectors.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

// Six samples of four inputs, labelled in turn.
std::vector<Real> labelled(uint32_t class_count) {
  const std::vector<Real> inputs = random_values(24, 1);
  std::vector<Real> samples;
  for (size_t i = 0; i < 6; ++i) {
    samples.insert(samples.end(), inputs.begin() + 4 * i, inputs.begin() + 4 * i + 4);
    samples.push_back(static_cast<Real>(i % class_count));
  }
  return samples;
}

class Logistic : public ::testing::Test {
 protected:
  TestSamples two_samples_{6, 5, labelled(2)};
  TestSamples three_samples_{6, 5, labelled(3)};
  ProblemCase two_{{&kLogisticOps, &two_samples_.source}, {4, 1}, random_values(4, 1, 9)};
  ProblemCase three_{{&kLogisticOps, &three_samples_.source}, {4, 3}, random_values(12, 1, 9)};
};

TEST_F(Logistic, HasTheReferencesFigures) {
  expect_golden(two_, golden::problem::kLogisticLoss, golden::problem::kLogisticGradient);
  expect_golden(three_, golden::problem::kSoftmaxLoss, golden::problem::kSoftmaxGradient);
}

TEST_F(Logistic, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {4, 0, 2};
  for (const ProblemCase& c : {two_, three_}) {
    for (const Batch batch : {c.all(), Batch{indices, 3}, Batch{indices, 1}}) {
      expect_gradient_is_derivative(c, batch);
    }
  }
}

TEST_F(Logistic, DoesNotOverflowFarFromTheBoundary) {
  for (Real& value : two_.x) value *= 10000;
  EXPECT_GT(loss_at(two_, two_.x, two_.all()), 10000);
  for (const Real value : gradient_at(two_, two_.all())) EXPECT_TRUE(std::isfinite(value));
}

TEST_F(Logistic, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(two_);
  expect_declared_memory(three_);
  expect_refuses_bad_samples(two_, two_samples_);
  expect_refuses_bad_samples(three_, three_samples_);
}

TEST_F(Logistic, RefusesALabelThatIsNoClass) {
  TestArena memory;
  std::vector<Real> gradient(12);
  for (const double label : {-1.0, 0.5, 3.0, 1e9}) {
    three_samples_.values[4] = static_cast<Real>(label);
    EXPECT_EQ(kLogisticOps.loss(three_.problem.context, {4, 3}, three_.x.data(), three_.all(), memory.arena).status(),
              Status::kOutOfRange)
        << label;
    EXPECT_EQ(kLogisticOps.gradient(three_.problem.context, {4, 3}, three_.x.data(), three_.all(), gradient.data(),
                                    memory.arena),
              Status::kOutOfRange);
  }
}

TEST_F(Logistic, NamesTheFirstLabelThatIsNoClass) {
  for (const double label : {-1.0, 0.5, 2.0, 1e9}) {
    expect_names_bad_value(two_, two_samples_, 4, 4, label, 1, "label");
  }
  expect_names_bad_value(three_, three_samples_, 2, 4, 3, 2, "label");
}

TEST_F(Logistic, TakesShapesOfItsSamplesOnly) {
  EXPECT_EQ(kLogisticOps.check_shape(&two_samples_.source, {4, 7}), Status::kOk);
  EXPECT_EQ(kLogisticOps.check_shape(&two_samples_.source, {4, 0}), Status::kInvalidArgument);
  EXPECT_EQ(kLogisticOps.check_shape(&two_samples_.source, {5, 1}), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
