// How far estimates depend on the smoothing, against direct estimates.
#include "runtime/training/smoothing.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

struct Checked {
  explicit Checked(Real smoothing, EstimatorId estimator = EstimatorId::kProjectionOneSided)
      : samples(100, 8, random_values(800, 21)),
        problems{{&kKpcaOps, &samples.source}},
        x(random_point(kStiefelOps, {8, 2}, 3)) {
    Task task = stiefel_task({8, 2});
    task.stage = TaskStage::kStart;
    task.step_size = 0;
    task.estimator.smoothing = smoothing;
    task.estimator.id = estimator;
    EXPECT_EQ(begin_solver(registry_of(problems), task, x.data(), nullptr, &run, memory.arena), Status::kOk);
  }

  std::vector<Real> scalars_at(Real smoothing) {
    EstimatorParameters parameters = run.task.estimator;
    parameters.smoothing = smoothing;
    EstimateInput input = estimate_input(run, x.data());
    input.parameters = &parameters;
    std::vector<Real> scalars(parameters.directions.direction_count);
    std::vector<Real> g(16);
    EXPECT_EQ(run.estimator->estimate(input, scalars.data(), g.data(), nullptr, memory.arena), Status::kOk);
    return scalars;
  }

  TestSamples samples;
  Problem problems[1];
  std::vector<Real> x;
  TestArena memory;
  SolverRun run;
};

double distance_of(const std::vector<Real>& a, const std::vector<Real>& b) {
  double difference = 0, norm_a = 0, norm_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm_a += std::pow(static_cast<double>(a[i]), 2);
    norm_b += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / std::max(norm_a, norm_b));
}

TEST(Smoothing, DistancesAreThoseOfDirectEstimates) {
  for (const EstimatorId id : {EstimatorId::kProjectionOneSided, EstimatorId::kProjectionTwoSided}) {
    for (const double mu : {1e-2, 0.3, 2.0}) {
      Checked checked(static_cast<Real>(mu), id);
      ASSERT_TRUE(SmoothingCheck::applies(checked.run));
      SmoothingCheck check;
      ASSERT_EQ(check.step(checked.run, 0, checked.memory.arena), Status::kOk);
      const auto mu_real = static_cast<Real>(mu);
      const std::vector<Real> s = checked.scalars_at(mu_real);
      EXPECT_NEAR(check.to_quarter(), distance_of(s, checked.scalars_at(mu_real / 4)), 1e-5);
      EXPECT_NEAR(check.to_fourfold(), distance_of(s, checked.scalars_at(4 * mu_real)), 1e-5);
    }
  }
}

TEST(Smoothing, ASoundSmoothingIsToldFromOthers) {
  const auto larger_of = [](double mu) {
    Checked checked(static_cast<Real>(mu));
    SmoothingCheck check;
    EXPECT_EQ(check.step(checked.run, 0, checked.memory.arena), Status::kOk);
    return std::max(check.to_quarter(), check.to_fourfold());
  };
  EXPECT_LT(larger_of(1e-2), 0.25F);
  EXPECT_GT(larger_of(1), 0.25F);
  EXPECT_GT(larger_of(1e-6), 0.25F);
}

TEST(Smoothing, SlicesChangeNothing) {
  Checked checked(static_cast<Real>(0.3));
  SmoothingCheck whole;
  ASSERT_EQ(whole.step(checked.run, 0, checked.memory.arena), Status::kOk);
  for (const uint16_t units : {1, 7, 40}) {
    SmoothingCheck cut;
    uint32_t calls = 1;
    for (; cut.step(checked.run, units, checked.memory.arena) == Status::kUnfinished; ++calls) {
      EXPECT_TRUE(cut.is_step_open());
    }
    EXPECT_GT(calls, 10U);
    EXPECT_FALSE(cut.is_step_open());
    EXPECT_EQ(cut.to_quarter(), whole.to_quarter());
    EXPECT_EQ(cut.to_fourfold(), whole.to_fourfold());
  }
  const size_t free_size = checked.memory.arena.free_size();
  SmoothingCheck dropped;
  EXPECT_EQ(dropped.step(checked.run, 1, checked.memory.arena), Status::kUnfinished);
  dropped.drop(checked.memory.arena);
  EXPECT_FALSE(dropped.is_step_open());
  EXPECT_EQ(checked.memory.arena.free_size(), free_size);
}

TEST(Smoothing, AnEstimatorWithoutScalarsHasNone) {
  Checked checked(static_cast<Real>(0.01), EstimatorId::kAnalyticGradient);
  EXPECT_FALSE(SmoothingCheck::applies(checked.run));
}

}  // namespace
}  // namespace gradstream
