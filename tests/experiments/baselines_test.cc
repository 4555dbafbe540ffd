// The centralised methods: against figures of an independent reference on the School data, and on a problem whose
// solution is known.
#include "experiments/workloads/baselines.h"

#include <cmath>
#include <cstdlib>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// Iterations after which the reference noted cost and test error, subspaces of dimension 3, and what it noted: it stops
// to be comparable point by point once line searches decide by rounding, which the tolerance allows for.
constexpr uint32_t kNoted[] = {0, 1, 5, 10, 20};

struct SchoolFigures {
  Baseline method;
  uint32_t seed;
  double cost[std::size(kNoted)];
  double error[std::size(kNoted)];
};

constexpr SchoolFigures kSchool[] = {
    {Baseline::kSteepestDescent,
     1,
     {5136.102802045308, 4726.939959792776, 4294.42291190265, 4218.581631208507, 4204.49784124495},
     {0.7597117105035355, 0.7121285460322515, 0.6441767403771422, 0.6361930766770211, 0.6376604307869546}},
    {Baseline::kSteepestDescent,
     2,
     {6144.2643176876645, 4900.961979238482, 4278.135519830967, 4252.119073017981, 4235.554751703608},
     {0.9092131915215023, 0.7218854726204742, 0.6351730252028416, 0.6310613358239009, 0.6294537063665805}},
    {Baseline::kConjugateGradient,
     1,
     {5136.102802045308, 4726.939959792776, 4282.690023879471, 4231.6863644183695, 4214.865773906604},
     {0.7597117105035355, 0.7121285460322515, 0.6384090783326685, 0.6296893236335416, 0.62786615978151}},
    {Baseline::kConjugateGradient,
     2,
     {6144.2643176876645, 4900.961979238482, 4377.590839472703, 4256.9275317762695, 4239.19039844086},
     {0.9092131915215023, 0.7218854726204742, 0.6511067558358609, 0.6321556707613056, 0.6281249554997594}},
    {Baseline::kLbfgs,
     1,
     {5136.102802045308, 4726.939959792776, 4243.677242616053, 4208.442762175859, 4190.310168844585},
     {0.7597117105035355, 0.7121285460322515, 0.6307040366643957, 0.6310360921444692, 0.6280500276188731}},
    {Baseline::kLbfgs,
     2,
     {6144.2643176876645, 4900.961979238482, 4278.610474247541, 4232.228634151667, 4210.195559381337},
     {0.9092131915215023, 0.7218854726204742, 0.6374212447190817, 0.6358133331426764, 0.6306083021498767}},
};

TEST(Baselines, FollowTheReferenceOnSchool) {
  const char* const folder = std::getenv("GS_DATA_DIR");
  if (folder == nullptr) GTEST_SKIP() << "GS_DATA_DIR names no folder with school.csv.gz";
  for (const SchoolFigures& figures : kSchool) {
    const std::unique_ptr<Workload> workload = make_school(folder, 3, figures.seed);
    ASSERT_NE(workload, nullptr);
    const Objective objective = pooled_objective(*workload, kGrassmannOps);
    BaselineOptions options;
    options.method = figures.method;
    options.iteration_count = kNoted[std::size(kNoted) - 1];
    size_t noted = 0;
    minimise(objective, workload->start(), options, [&](uint32_t iteration, const Matrix& x, double cost) {
      if (noted < std::size(kNoted) && iteration == kNoted[noted]) {
        SCOPED_TRACE(testing::Message() << "method " << static_cast<int>(figures.method) << " seed " << figures.seed
                                        << " iteration " << iteration);
        EXPECT_NEAR(cost, figures.cost[noted], 1e-6 * figures.cost[noted]);
        EXPECT_NEAR(workload->measure(x).other, figures.error[noted], 1e-6);
        ++noted;
      }
      return true;
    });
    EXPECT_EQ(noted, std::size(kNoted));
  }
}

// Brockett's cost over St(2, 25): all methods reach the eigenvalues, and the one that learns curvature a small
// gradient.
TEST(Baselines, FindTheMinimumOfBrockettsCost) {
  const std::unique_ptr<Workload> workload = make_brockett(3);
  const Objective objective = pooled_objective(*workload, kStiefelOps);
  const double start_cost = objective.cost(workload->start());
  for (const Baseline method : {Baseline::kSteepestDescent, Baseline::kConjugateGradient, Baseline::kLbfgs}) {
    BaselineOptions options;
    options.method = method;
    options.iteration_count = 150;
    options.grad_norm_min = 1e-3;
    double last = start_cost;
    const BaselineResult result =
        minimise(objective, workload->start(), options, [&](uint32_t, const Matrix&, double cost) {
          EXPECT_LE(cost, last);
          last = cost;
          return true;
        });
    EXPECT_LE(result.grad_norm, method == Baseline::kLbfgs ? 1e-3 : 5e-2) << static_cast<int>(method);
    EXPECT_NEAR(result.cost, workload->optimum(), 1e-3) << static_cast<int>(method);
    EXPECT_LE(result.iterations, options.iteration_count);
  }
}

TEST(Baselines, StopWhenTheWatcherSaysSo) {
  const std::unique_ptr<Workload> workload = make_brockett(3);
  const BaselineResult result = minimise(pooled_objective(*workload, kStiefelOps), workload->start(), {},
                                         [](uint32_t iteration, const Matrix&, double) { return iteration < 2; });
  EXPECT_EQ(result.iterations, 2u);
}

TEST(Baselines, StopAtTheStart) {
  const std::unique_ptr<Workload> workload = make_brockett(3);
  BaselineOptions options;
  options.grad_norm_min = 1e9;
  const BaselineResult result = minimise(pooled_objective(*workload, kStiefelOps), workload->start(), options);
  EXPECT_EQ(result.iterations, 0u);
  EXPECT_EQ(result.x, workload->start());
}

}  // namespace
}  // namespace gradstream
