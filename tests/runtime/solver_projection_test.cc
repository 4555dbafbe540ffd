#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/solver.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {64, 4};

struct SolverProjectionTest : testing::Test {
  SolverProjectionTest()
      : samples(200, 64, random_values(200 * 64, 1)),
        problems{{&kKpcaOps, &samples.source}},
        registry(registry_of(problems)),
        model(random_point(kStiefelOps, kShape, 2)),
        correction(random_values(kShape.size(), 3)),
        task(stiefel_task(kShape)) {}
  Status begin() { return begin_solver(registry, task, model.data(), correction.data(), &run, memory.arena); }
  Status steps(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      GS_TRY(run.ops->step(run, memory.arena));
    }
    return Status::kOk;
  }
  // Algorithm A9 in long hand; the scalars of all steps, and the mean estimate.
  void reference(std::vector<Real>* all_scalars, std::vector<Real>* mean) {
    TestArena scratch;
    std::vector<Real> zhat = model;
    std::vector<Real> z = model;
    std::vector<Real> g(kShape.size());
    mean->assign(kShape.size(), 0);
    for (uint32_t t = 0; t < task.local_step_count; ++t) {
      std::vector<Real> scalars(task.estimator.directions.direction_count);
      EstimateInput input = estimate_input(run, z.data());
      input.step = t;
      ASSERT_EQ(run.estimator->estimate(input, scalars.data(), g.data(), nullptr, scratch.arena), Status::kOk);
      all_scalars->insert(all_scalars->end(), scalars.begin(), scalars.end());
      for (size_t e = 0; e < g.size(); ++e) {
        (*mean)[e] += g[e] / static_cast<Real>(task.local_step_count);
        zhat[e] -= task.step_size * (task.use_correction ? g[e] + correction[e] : g[e]);
      }
      ASSERT_EQ(kStiefelOps.project_point(kShape, zhat.data(), z.data(), scratch.arena), Status::kOk);
    }
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

// A board that lost its power does the steps that it had kept again, from their scalars, and goes on.
TEST_F(SolverProjectionTest, StepsReplayedFromTheirScalarsAreThoseThatWereDone) {
  task.use_correction = true;
  const uint32_t m = task.estimator.directions.direction_count;
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(steps(task.local_step_count), Status::kOk);
  GradientStream done;
  ASSERT_EQ(run.ops->finish(run, &done), Status::kOk);
  const std::vector<Real> scalars(done.values, done.values + done.value_count);
  for (uint32_t kept = 0; kept <= task.local_step_count; ++kept) {
    SCOPED_TRACE(kept);
    std::vector<Real> losses;
    memory.arena.reset();
    ASSERT_EQ(begin(), Status::kOk);
    for (uint32_t i = 0; i < kept; ++i) {
      ASSERT_EQ(steps(1), Status::kOk);
      GradientStream stream;
      ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
      losses.push_back(stream.loss_after);
    }
    memory.arena.reset();
    ASSERT_EQ(begin(), Status::kOk);
    const uint32_t reads = samples.read_count;
    for (uint32_t i = 0; i < kept; ++i) {
      ASSERT_EQ(run.ops->replay(run, scalars.data() + size_t{i} * m, losses[i], memory.arena), Status::kOk);
    }
    EXPECT_EQ(samples.read_count, reads) << "a replay evaluates nothing";
    EXPECT_EQ(run.steps_done, kept);
    ASSERT_EQ(steps(task.local_step_count - kept), Status::kOk);
    GradientStream again;
    ASSERT_EQ(run.ops->finish(run, &again), Status::kOk);
    EXPECT_EQ(std::vector<Real>(again.values, again.values + again.value_count), scalars);
    EXPECT_EQ(again.loss_before, done.loss_before);
    EXPECT_EQ(again.loss_after, done.loss_after);
  }
}

TEST_F(SolverProjectionTest, AReplayRefusesWhatIsNoStep) {
  ASSERT_EQ(begin(), Status::kOk);
  std::vector<Real> scalars(task.estimator.directions.direction_count, 1);
  scalars[3] = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(run.ops->replay(run, scalars.data(), 0, memory.arena), Status::kNotFinite);
  EXPECT_EQ(run.steps_done, 0U);
  ASSERT_EQ(steps(task.local_step_count), Status::kOk);
  scalars[3] = 1;
  EXPECT_EQ(run.ops->replay(run, scalars.data(), 0, memory.arena), Status::kProtocolError);
  task.estimator.id = EstimatorId::kAnalyticGradient;
  task.estimator.batch_mode = BatchMode::kAll;
  memory.arena.reset();
  ASSERT_EQ(begin(), Status::kOk);
  EXPECT_EQ(run.ops->replay(run, scalars.data(), 0, memory.arena), Status::kUnimplemented);
}

TEST_F(SolverProjectionTest, ScalarsAreThoseOfTheAlgorithm) {
  for (const bool use_correction : {false, true}) {
    for (const EstimatorId estimator : {EstimatorId::kProjectionOneSided, EstimatorId::kProjectionTwoSided}) {
      task.use_correction = use_correction;
      task.estimator.id = estimator;
      ASSERT_EQ(begin(), Status::kOk);
      ASSERT_EQ(steps(5), Status::kOk);
      GradientStream stream;
      ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
      std::vector<Real> scalars;
      std::vector<Real> mean;
      reference(&scalars, &mean);
      EXPECT_EQ(stream.kind, StreamKind::kScalarStream);
      EXPECT_EQ(stream.steps_done, 5u);
      ASSERT_EQ(stream.value_count, 80u);
      EXPECT_EQ((std::vector<Real>{stream.values, stream.values + 80}), scalars);
    }
  }
}

TEST_F(SolverProjectionTest, AnalyticGradientGivesTheDenseMean) {
  task.estimator.id = EstimatorId::kAnalyticGradient;
  task.use_correction = true;
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(steps(5), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  std::vector<Real> none;
  std::vector<Real> mean;
  reference(&none, &mean);
  EXPECT_EQ(stream.kind, StreamKind::kTangentBlock);
  ASSERT_EQ(stream.value_count, kShape.size());
  for (size_t e = 0; e < kShape.size(); ++e) {
    EXPECT_NEAR(stream.values[e], mean[e], 1e-5);
  }
}

TEST_F(SolverProjectionTest, KindOfStreamFollowsTheEstimator) {
  EXPECT_EQ(kSolverProjectionOps.stream(kProjectionOneSidedOps), StreamKind::kScalarStream);
  EXPECT_EQ(kSolverProjectionOps.stream(kProjectionTwoSidedOps), StreamKind::kScalarStream);
  EXPECT_EQ(kSolverProjectionOps.stream(kAnalyticGradientOps), StreamKind::kTangentBlock);
}

// Work cut short is the beginning of the whole work, and asking for it changes nothing.
TEST_F(SolverProjectionTest, PartOfTheWorkIsItsBeginning) {
  task.estimator.batch_mode = BatchMode::kAll;
  ASSERT_EQ(begin(), Status::kOk);
  GradientStream stream;
  EXPECT_EQ(run.ops->finish(run, &stream), Status::kProtocolError);
  std::vector<Real> scalars;
  std::vector<Real> mean;
  reference(&scalars, &mean);
  for (uint32_t done = 1; done <= 5; ++done) {
    ASSERT_EQ(steps(1), Status::kOk);
    ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
    EXPECT_EQ(stream.steps_done, done);
    ASSERT_EQ(stream.value_count, done * 16);
    EXPECT_EQ((std::vector<Real>{stream.values, stream.values + done * 16}),
              (std::vector<Real>{scalars.begin(), scalars.begin() + done * 16}));
  }
  EXPECT_EQ(steps(1), Status::kProtocolError);
  EXPECT_LT(stream.loss_after, stream.loss_before);
}

TEST_F(SolverProjectionTest, AFailedStepIsAsIfItHadNotBegun) {
  for (const EstimatorId estimator : {EstimatorId::kProjectionOneSided, EstimatorId::kAnalyticGradient}) {
    task.estimator.id = estimator;
    ASSERT_EQ(begin(), Status::kOk);
    ASSERT_EQ(steps(2), Status::kOk);
    samples.read_status = Status::kClosed;
    EXPECT_EQ(steps(1), Status::kClosed);
    samples.read_status = Status::kOk;
    const std::vector<Real> values = samples.values;
    samples.values.assign(values.size(), std::numeric_limits<Real>::quiet_NaN());
    EXPECT_EQ(steps(1), Status::kNotFinite);
    samples.values = values;
    EXPECT_EQ(run.steps_done, 2u);
    ASSERT_EQ(steps(3), Status::kOk);
    GradientStream failed;
    ASSERT_EQ(run.ops->finish(run, &failed), Status::kOk);
    SolverRun clean;
    ASSERT_EQ(begin_solver(registry, task, model.data(), nullptr, &clean, memory.arena), Status::kOk);
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(clean.ops->step(clean, memory.arena), Status::kOk);
    }
    GradientStream whole;
    ASSERT_EQ(clean.ops->finish(clean, &whole), Status::kOk);
    EXPECT_EQ((std::vector<Real>{failed.values, failed.values + failed.value_count}),
              (std::vector<Real>{whole.values, whole.values + whole.value_count}));
  }
}

// The estimate is fine and P_M fails: a correction that is not a number stands for any such step.
TEST_F(SolverProjectionTest, AFailedProjectionIsAsIfItHadNotBegun) {
  task.use_correction = true;
  task.estimator.id = EstimatorId::kAnalyticGradient;
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(steps(1), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  const std::vector<Real> before(stream.values, stream.values + stream.value_count);
  const Real kept = correction[0];
  correction[0] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(steps(1), Status::kNotFinite);
  correction[0] = kept;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  EXPECT_EQ(stream.steps_done, 1u);
  EXPECT_EQ((std::vector<Real>{stream.values, stream.values + stream.value_count}), before);
}

// Directions of its own and shared ones differ; the same task twice does not.
TEST_F(SolverProjectionTest, IsAFunctionOfTheTask) {
  const auto scalars_of = [&] {
    EXPECT_EQ(begin(), Status::kOk);
    EXPECT_EQ(steps(5), Status::kOk);
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    return std::vector<Real>(stream.values, stream.values + stream.value_count);
  };
  const std::vector<Real> first = scalars_of();
  EXPECT_EQ(scalars_of(), first);
  task.estimator.directions.shared = false;
  EXPECT_NE(scalars_of(), first);
}

#if !defined(GS_REAL_DOUBLE)
// RAM of Stiefel 64 x 4, m = 16, K = 5, batch 32 of 200 samples: numbers that may fall, and grow only on purpose.
TEST_F(SolverProjectionTest, MemoryIsPinned) {
  TestArena fresh;
  ASSERT_EQ(begin_solver(registry, task, model.data(), correction.data(), &run, fresh.arena), Status::kOk);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(run.ops->step(run, fresh.arena), Status::kOk);
  }
  const size_t persistent = run.ops->persistent_size(run);
  const size_t scratch = run.ops->scratch_size(run);
  const size_t state_size = sizeof(void*) == 8 ? 40 : 24;
  EXPECT_EQ(persistent, state_size + 2 * 1024 + 320) << "two tensors and 80 scalars";
  EXPECT_EQ(scratch, 2 * 1024 + 400 + 272) << "two tensors, 200 indices, a sample with its products or P_M";
  EXPECT_EQ(fresh.arena.mark(), persistent);
  EXPECT_EQ(fresh.arena.high_water_size(), persistent + scratch);
}
#endif

}  // namespace
}  // namespace gradstream
