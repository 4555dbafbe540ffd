#include "runtime/training/solver.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {64, 4};

struct SolverTest : testing::Test {
  SolverTest()
      : samples(200, 64, random_values(200 * 64, 1)),
        problems{{&kKpcaOps, &samples.source}},
        registry(registry_of(problems)),
        model(random_point(kStiefelOps, kShape, 2)),
        correction(kShape.size(), 1),
        task(stiefel_task(kShape)) {}
  // The arena must be as before whenever the status is not kOk.
  Status begin() {
    const size_t mark = memory.arena.mark();
    const Status status = begin_solver(registry, task, model.data(), correction.data(), &run, memory.arena);
    EXPECT_TRUE(status == Status::kOk || memory.arena.mark() == mark);
    return status;
  }
  TestSamples samples;
  Problem problems[1];
  Registry registry;
  std::vector<Real> model;
  std::vector<Real> correction;
  Task task;
  SolverRun run;
  TestArena memory;
};

TEST_F(SolverTest, LooksUpEverythingTheTaskNames) {
  ASSERT_EQ(begin(), Status::kOk);
  EXPECT_EQ(run.ops, &kSolverProjectionOps);
  EXPECT_EQ(run.manifold, &kStiefelOps);
  EXPECT_EQ(run.estimator, &kProjectionOneSidedOps);
  EXPECT_EQ(run.problem.ops, &kKpcaOps);
  EXPECT_EQ(run.model, model.data());
  EXPECT_EQ(run.steps_done, 0u);
  EXPECT_EQ(run.correction, nullptr) << "the task does not ask for one";
  task.use_correction = true;
  ASSERT_EQ(begin(), Status::kOk);
  EXPECT_EQ(run.correction, correction.data());
}

TEST_F(SolverTest, TakesSeedVersionAndIndexOfDirectionsFromTheTask) {
  task.estimator.directions.owner = 9;
  ASSERT_EQ(begin(), Status::kOk);
  EXPECT_EQ(run.task.estimator.directions.seed, task.seed);
  EXPECT_EQ(run.task.estimator.directions.base_version, task.version);
  EXPECT_EQ(run.task.estimator.directions.owner, 9u) << "the group";
  task.estimator.directions.shared = false;
  ASSERT_EQ(begin(), Status::kOk);
  EXPECT_EQ(run.task.estimator.directions.owner, task.client_index);
  run.task.seed = 99;
  ASSERT_EQ(begin_solver(registry, run.task, model.data(), nullptr, &run, memory.arena), Status::kOk);
  EXPECT_EQ(run.task.seed, 99u) << "the task may be the run's own";
}

TEST_F(SolverTest, WhatIsNotLinkedIsUnimplemented) {
  const Task good = task;
  task.solver = static_cast<SolverId>(200);
  EXPECT_EQ(begin(), Status::kUnimplemented);
  task = good;
  task.manifold = static_cast<ManifoldId>(200);
  EXPECT_EQ(begin(), Status::kUnimplemented);
  task = good;
  task.estimator.id = static_cast<EstimatorId>(200);
  EXPECT_EQ(begin(), Status::kUnimplemented);
  task = good;
  task.problem[0] = 'q';
  EXPECT_EQ(begin(), Status::kUnimplemented);
  task = good;
  registry.solvers = {};
  EXPECT_EQ(begin(), Status::kUnimplemented);
}

TEST_F(SolverTest, NumbersOutOfBoundsAreInvalid) {
  const Task good = task;
  const auto refuses = [&](auto change) {
    task = good;
    change();
    EXPECT_EQ(begin(), Status::kInvalidArgument);
    task = good;
  };
  refuses([&] { task.shape = {0, 4}; });
  refuses([&] { task.shape = {64, 0}; });
  refuses([&] { task.shape = {kDimensionMax + 1, 4}; });
  refuses([&] { task.shape = {4, 64}; });
  refuses([&] { task.shape = {63, 4}; });
  refuses([&] { task.local_step_count = 0; });
  refuses([&] { task.local_step_count = kLocalStepCountMax + 1; });
  refuses([&] { task.steps_min = 6; });
  refuses([&] { task.step_size = 0; });
  refuses([&] { task.step_size = -1; });
  refuses([&] { task.step_size = std::numeric_limits<Real>::quiet_NaN(); });
  refuses([&] { task.step_size = std::numeric_limits<Real>::infinity(); });
  refuses([&] { task.encoding = Encoding::kNone; });
  refuses([&] { task.encoding = static_cast<Encoding>(77); });
  refuses([&] { task.estimator.smoothing = 0; });
  refuses([&] { task.estimator.directions.direction_count = 0; });
  refuses([&] { task.estimator.batch_size = 0; });
  refuses([&] { task.estimator.batch_mode = BatchMode::kNone; });
  refuses([&] {
    task.local_step_count = 5;
    task.estimator.directions.direction_count = kDirectionCountMax;
  });
  refuses([&] { std::memset(task.problem, 'k', sizeof task.problem); });
  refuses([&] {
    task.solver = SolverId::kGradientStream;
    task.use_correction = true;
  });
  EXPECT_EQ(begin(), Status::kOk);
}

TEST_F(SolverTest, ADeviceWithoutSamplesIsRefused) {
  samples.source.count = 0;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
}

// mu/2 |x - X|^2 beside the bare loss, for every solver but svrg; an image that does not link it says so.
TEST_F(SolverTest, AProximalTermStandsAroundTheProblem) {
  registry.proximal_loss = &kProximalLossOps;
  task.proximal_form = ProximalForm::kChordal;
  task.proximal_weight = 3;
  ASSERT_EQ(begin(), Status::kOk);
  std::vector<Real> x = model;
  x[0] += 2;
  const Batch all = {nullptr, samples.source.count};
  const auto loss_of = [&](const Problem& problem) {
    return problem.ops->loss(problem.context, task.shape, x.data(), all, memory.arena).value();
  };
  EXPECT_NEAR(loss_of(run.problem), loss_of(problems[0]) + 6, 1e-5);
  task.proximal_weight = -1;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.proximal_weight = 3;
  task.proximal_sigma = 0;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.proximal_sigma = 1;
  task.proximal = 1;
  EXPECT_EQ(begin(), Status::kInvalidArgument) << "two terms";
  task.proximal = 0;
  task.solver = SolverId::kSvrg;
  task.estimator.id = EstimatorId::kAnalyticGradient;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.solver = SolverId::kProjection;
  registry.proximal_loss = nullptr;
  EXPECT_EQ(begin(), Status::kUnimplemented);
}

TEST_F(SolverTest, ArenaMustHoldPersistentAndScratch) {
  ASSERT_EQ(begin(), Status::kOk);
  const size_t needed = run.ops->persistent_size(run) + run.ops->scratch_size(run);
  TestArena exact(needed);
  EXPECT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, exact.arena), Status::kOk);
  TestArena small(needed - 8);
  EXPECT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, small.arena), Status::kOutOfMemory);
  EXPECT_EQ(small.arena.high_water_size(), 0u);
}

}  // namespace
}  // namespace gradstream
