#include <gtest/gtest.h>

#include "tests/golden/problem_vectors.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

// out (n x n) <- G'G + diagonal I.
void add_gram(size_t n, const Real* g, Real diagonal, std::vector<Real>& out) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      Real sum = i == j ? diagonal : 0;
      for (size_t k = 0; k < n; ++k) sum += g[k * n + i] * g[k * n + j];
      out.push_back(sum);
    }
  }
}

// Four SPD matrices G'G + I/10 and the point G'G + I.
class SpdMean : public ::testing::Test {
 protected:
  static std::vector<Real> matrices() {
    const std::vector<Real> g = random_values(36, 1);
    std::vector<Real> z;
    for (size_t m = 0; m < 4; ++m) add_gram(3, &g[9 * m], static_cast<Real>(0.1), z);
    return z;
  }
  static std::vector<Real> point() {
    const std::vector<Real> g = random_values(9, 1, 9);
    std::vector<Real> x;
    add_gram(3, g.data(), 1, x);
    return x;
  }
  TestSamples samples_{4, 9, matrices()};
  ProblemCase case_{{&kSpdMeanOps, &samples_.source}, {3, 3}, point()};
};

TEST_F(SpdMean, HasTheReferencesFigures) {
  expect_golden(case_, golden::problem::kSpdMeanLoss, golden::problem::kSpdMeanGradient);
}

TEST_F(SpdMean, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {3, 1};
  for (const Batch batch : {case_.all(), Batch{indices, 2}}) {
    expect_gradient_is_derivative(case_, batch, true);
  }
}

TEST_F(SpdMean, IsZeroAtItsOnlySample) {
  const uint16_t index = 2;
  case_.x.assign(samples_.values.begin() + 18, samples_.values.begin() + 27);
  EXPECT_NEAR(loss_at(case_, case_.x, {&index, 1}), 0, 1e-9);
  for (const Real value : gradient_at(case_, {&index, 1})) EXPECT_NEAR(value, 0, 1e-4);
}

TEST_F(SpdMean, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
}

TEST_F(SpdMean, RefusesWhatLostDefiniteness) {
  TestArena memory;
  std::vector<Real> gradient(9);
  std::vector<Real> flat = case_.x;
  for (size_t j = 0; j < 3; ++j) flat[j] = flat[3 * j] = 0;
  const auto loss = [&](const std::vector<Real>& x) {
    return kSpdMeanOps.loss(&samples_.source, {3, 3}, x.data(), case_.all(), memory.arena).status();
  };
  EXPECT_EQ(loss(flat), Status::kSingular) << "the point";
  EXPECT_EQ(kSpdMeanOps.gradient(&samples_.source, {3, 3}, flat.data(), case_.all(), gradient.data(), memory.arena),
            Status::kSingular);
  samples_.values[4] = -1;
  EXPECT_EQ(loss(case_.x), Status::kSingular) << "a sample";
  SampleFault fault;
  EXPECT_EQ(kSpdMeanOps.find_fault(&samples_.source, {3, 3}, memory.arena, &fault), Status::kSingular);
  EXPECT_EQ(fault.sample, 0U);
  EXPECT_STREQ(fault.what, "positive definite matrix");
}

TEST_F(SpdMean, TakesShapesOfItsSamplesOnly) {
  EXPECT_EQ(kSpdMeanOps.check_shape(&samples_.source, {9, 1}), Status::kInvalidArgument);
  EXPECT_EQ(kSpdMeanOps.check_shape(&samples_.source, {2, 2}), Status::kInvalidArgument);
  const SampleSource large = {nullptr, 1, 65 * 65, nullptr};
  EXPECT_EQ(kSpdMeanOps.check_shape(&large, {65, 65}), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
