#include "bench/parameters_workload.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

const WorkloadRow& row_of(const std::string& name) {
  const auto rows = parameter_workloads();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const WorkloadRow& row) { return row.name == name; });
  EXPECT_NE(found, rows.end()) << name;
  return *found;
}

std::vector<Real> first_columns(const ParameterWorkload& workload) {
  std::vector<Real> model(workload.shape().size());
  for (uint32_t c = 0; c < workload.shape().cols; ++c) {
    model[c * workload.shape().cols + c] = 1;
  }
  return model;
}

// Of numpy: eigenvalues of the covariance, residuals of lstsq. Of glm: the deviance of iris is 11.8985.
TEST(ParameterWorkload, KnowsTheLeastLossOfEachProblem) {
  EXPECT_NEAR(ParameterWorkload(row_of("iris_com"), 1, false).optimum(), -0.48884260, 1e-8);
  EXPECT_NEAR(ParameterWorkload(row_of("ls_cars"), 1, false).optimum(), 0.14615368366, 1e-10);
  EXPECT_NEAR(ParameterWorkload(row_of("log_iris"), 1, false).optimum(), 11.8985 / 2 / 150, 1e-6);
  // Classes that planes part have no least point: the loss comes to 0.
  EXPECT_LT(ParameterWorkload(row_of("log_wine"), 1, false).optimum(), 1e-8);
}

TEST(ParameterWorkload, WithUnitsTakenOutATableIsTheSameInWhateverUnits) {
  const ParameterWorkload raw(row_of("ls_cars_raw"), 1, true);
  const ParameterWorkload prepared(row_of("ls_cars"), 1, true);
  EXPECT_NEAR(raw.optimum(), prepared.optimum(), 1e-10);
  EXPECT_NEAR(raw.loss(first_columns(raw)), prepared.loss(first_columns(prepared)), 1e-10);
  EXPECT_NEAR(ParameterWorkload(row_of("iris_raw"), 1, true).optimum(),
              ParameterWorkload(row_of("iris_com"), 1, false).optimum(), 1e-10);
  EXPECT_LT(ParameterWorkload(row_of("iris_raw"), 1, false).optimum(), -10);
}

TEST(ParameterWorkload, GapIsRelativeToWhatTheProblemCanGain) {
  const ParameterWorkload kpca(row_of("iris_com"), 1, false);
  EXPECT_EQ(kpca.gap(kpca.optimum(), 0), 0);
  EXPECT_DOUBLE_EQ(kpca.gap(0, 0), 1);
  const ParameterWorkload squares(row_of("ls_wine"), 1, false);
  EXPECT_EQ(squares.gap(squares.optimum(), 3), 0);
  EXPECT_DOUBLE_EQ(squares.gap(3, 3), 1);
}

TEST(ParameterWorkload, EveryDeviceOfEveryTableHoldsSamples) {
  for (const WorkloadRow& row : parameter_workloads()) {
    const ParameterWorkload workload(row, 2, true);
    uint32_t count = 0;
    for (uint32_t i = 0; i < row.device_count; ++i) {
      const Problem problem = workload.problem(i);
      count += problem.ops->sample_count(problem.context);
      EXPECT_EQ(problem.ops->check_shape(problem.context, workload.shape()), Status::kOk) << row.name;
    }
    EXPECT_GE(count, 150U) << row.name;
    EXPECT_GT(workload.loss(first_columns(workload)), workload.optimum()) << row.name;
    EXPECT_GT(workload.step_unit(), 0) << row.name;
  }
}

}  // namespace
}  // namespace gradstream
