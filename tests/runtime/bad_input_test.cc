// What data and steps can do to an algorithm, case by case: a named status, and the state as before. The table of
// docs/algorithms.md, "Bad input", says which test holds each; here are those that need several parts of the runtime.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kSpdShape = {3, 3};

// Q diag(values) Q' with a fixed rotation Q, symmetric to the last bit.
std::vector<Real> spd_matrix(const double (&values)[3]) {
  const double c = 0.8, s = 0.6;
  const double q[9] = {c, -s * c, s * s, s, c * c, -c * s, 0, s, c};
  std::vector<Real> out(9);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = i; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) {
        sum += q[3 * i + k] * values[k] * q[3 * j + k];
      }
      out[3 * i + j] = out[3 * j + i] = static_cast<Real>(sum);
    }
  }
  return out;
}

// A task on SPD matrices with the mean of `samples`, begun at `model`.
class SpdTask {
 public:
  SpdTask(std::vector<Real> samples, Real step_size)
      : samples_(static_cast<uint32_t>(samples.size() / 9), 9, samples), problems_{{&kSpdMeanOps, &samples_.source}} {
    Task task = stiefel_task(kSpdShape);
    task.manifold = ManifoldId::kSpd;
    task.solver = SolverId::kGradientStream;
    task.estimator.id = EstimatorId::kAnalyticGradient;
    task.estimator.batch_mode = BatchMode::kAll;
    task.step_size = step_size;
    const char name[] = "spd_mean";
    std::copy(std::begin(name), std::end(name), task.problem);
    Registry registry = registry_of(problems_);
    registry.manifolds = all_manifolds();
    status = begin_solver(registry, task, model.data(), nullptr, &run, memory_.arena);
  }
  Status step() { return run.ops->step(run, memory_.arena); }

  std::vector<Real> model = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  SolverRun run;
  Status status = Status::kOk;

 private:
  TestSamples samples_;
  Problem problems_[1];
  TestArena memory_;
};

// The condition of the worst device of X7, seed 3, is 7.7e8: beyond what float can hold, so that the rounded matrix is
// as likely indefinite as not. Its gradient is refused by name or finite, its neighbours' is what it was.
TEST(BadInput, AMatrixTooIllConditionedForItsPrecisionIsRefusedByName) {
  const std::vector<Real> good = spd_matrix({1, 2, 4});
  uint32_t refused = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    const double scale = 1 + i / 40.0;
    SpdTask task(spd_matrix({scale, 0.3, scale / 7.7e8}), static_cast<Real>(0.1));
    ASSERT_EQ(task.status, Status::kOk);
    const Status status = task.step();
    EXPECT_TRUE(status == Status::kOk || status == Status::kSingular) << status_text(status);
    refused += status == Status::kSingular ? 1 : 0;
    EXPECT_EQ(task.run.steps_done, status == Status::kOk ? 1U : 0U);
    GradientStream stream;
    EXPECT_EQ(task.run.ops->finish(task.run, &stream), status == Status::kOk ? Status::kOk : Status::kProtocolError);
    EXPECT_TRUE(status != Status::kOk || all_finite(9, stream.values));
  }
  EXPECT_EQ(refused > 0, sizeof(Real) == sizeof(float)) << "double holds such a matrix";
  SpdTask neighbour(good, static_cast<Real>(0.1));
  EXPECT_EQ(neighbour.step(), Status::kOk);
}

// The second step begins where the first one led: too far for any float, and named as such. The first one stays.
TEST(BadInput, AStepBeyondWhatTheManifoldHoldsLeavesTheStepsBeforeIt) {
  SpdTask task(spd_matrix({1, 2, 4}), static_cast<Real>(1e4));
  ASSERT_EQ(task.status, Status::kOk);
  ASSERT_EQ(task.step(), Status::kOk);
  const Status status = task.step();
  EXPECT_TRUE(status == Status::kSingular || status == Status::kNotFinite) << status_text(status);
  EXPECT_EQ(task.run.steps_done, 1U);
  GradientStream stream;
  EXPECT_EQ(task.run.ops->finish(task.run, &stream), Status::kOk);
  EXPECT_TRUE(all_finite(9, stream.values));
}

// A replica whose step leaves the tube in which the nearest point is unique keeps its model and its version.
TEST(BadInput, AStepOutOfTheProximalTubeLeavesTheReplica) {
  struct Case {
    const ManifoldOps* ops;
    Shape shape;
  };
  for (const Case& one : {Case{&kStiefelOps, {6, 2}}, Case{&kGrassmannOps, {6, 2}}, Case{&kObliqueOps, {6, 2}},
                          Case{&kSphereOps, {6, 1}}}) {
    SCOPED_TRACE(one.ops->name);
    TestArena memory;
    Replica replica;
    ASSERT_EQ(replica.prepare(*one.ops, one.shape, memory.arena), Status::kOk);
    const std::vector<Real> start = random_point(*one.ops, one.shape, 3);
    std::copy(start.begin(), start.end(), replica.begin_snapshot());
    replica.adopt_snapshot(4);
    const uint64_t digest = replica.digest();
    std::vector<Real> step = start;  // X - X = 0: the farthest from every nearest point
    EXPECT_EQ(replica.step_gradient(step.data(), 1, memory.arena), Status::kSingular);
    step[0] = std::numeric_limits<Real>::max();
    step[1] = -step[0];
    EXPECT_EQ(replica.step_gradient(step.data(), 4, memory.arena), Status::kNotFinite);
    EXPECT_EQ(replica.version(), 4U);
    EXPECT_EQ(replica.digest(), digest);
  }
}

// One column of two the same, or none at all, is no point of rank two.
TEST(BadInput, RankDeficientPointsAreSingularInEveryRetraction) {
  const Shape shape{5, 2};
  const Real x[10] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  const Real to_equal[10] = {0, 1, 0, -1, 0, 0, 0, 0, 0, 0};  // both columns of X + V are the first
  TestArena memory;
  std::vector<Real> out(10);
  for (const ManifoldOps* ops : {&kStiefelOps, &kStiefelQrOps, &kGrassmannOps, &kGrassmannQrOps}) {
    EXPECT_EQ(ops->retract(shape, x, to_equal, out.data(), memory.arena), Status::kSingular);
  }
}

}  // namespace
}  // namespace gradstream
