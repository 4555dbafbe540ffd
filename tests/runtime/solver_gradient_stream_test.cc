#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/training/solver.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {64, 4};
constexpr Shape kVectorShape = {64, 1};

struct GradientStreamTest : testing::Test {
  GradientStreamTest()
      : samples(200, 64, random_values(200 * 64, 1)),
        problems{{&kKpcaOps, &samples.source}},
        registry(registry_of(problems)),
        task(stiefel_task(kShape)) {
    task.solver = SolverId::kGradientStream;
    task.estimator.id = EstimatorId::kAnalyticGradient;
  }
  Status begin() {
    model = random_point(*find_manifold(kAllManifolds, task.manifold), task.shape, 2);
    return begin_solver(registry, task, model.data(), nullptr, &run, memory.arena);
  }
  Status steps(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      GS_TRY(run.ops->step(run, memory.arena));
    }
    return Status::kOk;
  }
  std::vector<Real> zeta() {
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    EXPECT_EQ(stream.kind, StreamKind::kTangentBlock);
    EXPECT_EQ(stream.value_count, task.shape.size());
    EXPECT_EQ(stream.steps_done, run.steps_done);
    return {stream.values, stream.values + stream.value_count};
  }
  // Algorithm A1 in long hand, with the retraction at the end of each step.
  std::vector<Real> reference(uint32_t step_count) {
    TestArena scratch;
    const size_t size = task.shape.size();
    std::vector<Real> x = model;
    std::vector<Real> eta(size);
    std::vector<Real> sum(size);
    std::vector<Real> scalars(16);
    for (uint32_t k = 0; k < step_count; ++k) {
      EstimateInput input = estimate_input(run, x.data());
      input.step = k;
      EXPECT_EQ(run.estimator->estimate(input, scalars.data(), eta.data(), nullptr, scratch.arena), Status::kOk);
      if (run.estimator->uses_scalars) {
        EXPECT_EQ(run.manifold->project_tangent(task.shape, x.data(), eta.data(), eta.data(), scratch.arena),
                  Status::kOk);
      }
      scale(size, -task.step_size, eta.data());
      std::vector<Real> moved = eta;
      if (k > 0) {
        EXPECT_EQ(run.manifold->transport(task.shape, x.data(), model.data(), eta.data(), moved.data(), scratch.arena),
                  Status::kOk);
      }
      add_scaled(size, 1, moved.data(), sum.data());
      EXPECT_EQ(run.manifold->retract(task.shape, x.data(), eta.data(), x.data(), scratch.arena), Status::kOk);
    }
    return sum;
  }
  TestSamples samples;
  Problem problems[1];
  Registry registry;
  Task task;
  std::vector<Real> model;
  SolverRun run;
  TestArena memory;
};

TEST_F(GradientStreamTest, ZetaIsThatOfTheAlgorithmAfterEveryStep) {
  for (const ManifoldId manifold : {ManifoldId::kStiefel, ManifoldId::kSphere, ManifoldId::kEuclidean}) {
    for (const EstimatorId estimator : {EstimatorId::kAnalyticGradient, EstimatorId::kProjectionOneSided}) {
      task.manifold = manifold;
      task.shape = manifold == ManifoldId::kStiefel ? kShape : kVectorShape;
      task.estimator.id = estimator;
      ASSERT_EQ(begin(), Status::kOk);
      GradientStream stream;
      EXPECT_EQ(run.ops->finish(run, &stream), Status::kProtocolError);
      for (uint32_t done = 1; done <= 5; ++done) {
        ASSERT_EQ(steps(1), Status::kOk);
        EXPECT_EQ(zeta(), reference(done)) << static_cast<int>(manifold) << ' ' << done;
      }
      EXPECT_EQ(steps(1), Status::kProtocolError);
    }
  }
}

TEST_F(GradientStreamTest, ZetaIsTangentAtTheModel) {
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(steps(5), Status::kOk);
  const std::vector<Real> block = zeta();
  std::vector<Real> projected(block.size());
  ASSERT_EQ(kStiefelOps.project_tangent(kShape, model.data(), block.data(), projected.data(), memory.arena),
            Status::kOk);
  for (size_t e = 0; e < block.size(); ++e) {
    EXPECT_NEAR(projected[e], block[e], 1e-6);
  }
}

TEST_F(GradientStreamTest, LossFalls) {
  task.estimator.batch_mode = BatchMode::kAll;
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(steps(5), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  EXPECT_LT(stream.loss_after, stream.loss_before);
}

// A failure at any place of a step, also after its retraction was made, leaves the work as it was.
TEST_F(GradientStreamTest, AFailedStepIsAsIfItHadNotBegun) {
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(steps(2), Status::kOk);
  const std::vector<Real> before = zeta();
  for (int i = 0; i < 2; ++i) {
    samples.read_status = Status::kClosed;
    EXPECT_EQ(steps(1), Status::kClosed);
    samples.read_status = Status::kOk;
    EXPECT_EQ(run.steps_done, 2u);
    EXPECT_EQ(zeta(), before);
  }
  ASSERT_EQ(steps(3), Status::kOk);
  EXPECT_EQ(zeta(), reference(5));
}

TEST_F(GradientStreamTest, RefusesStepsThatAreNotFinite) {
  task.step_size = std::numeric_limits<Real>::max();
  for (Real& value : samples.values) {
    value *= 1000;
  }
  ASSERT_EQ(begin(), Status::kOk);
  EXPECT_EQ(steps(1), Status::kNotFinite);
  EXPECT_EQ(run.steps_done, 0u);
}

TEST_F(GradientStreamTest, KindOfStreamIsATangentBlock) {
  EXPECT_EQ(kSolverGradientStreamOps.stream(kAnalyticGradientOps), StreamKind::kTangentBlock);
  EXPECT_EQ(kSolverGradientStreamOps.stream(kProjectionOneSidedOps), StreamKind::kTangentBlock);
}

#if !defined(GS_REAL_DOUBLE)
// RAM of Stiefel 64 x 4, K = 5, batch 32 of 200 samples: numbers that may fall, and grow only on purpose.
TEST_F(GradientStreamTest, MemoryIsPinned) {
  for (const EstimatorId estimator : {EstimatorId::kAnalyticGradient, EstimatorId::kProjectionOneSided}) {
    task.estimator.id = estimator;
    TestArena fresh;
    model = random_point(kStiefelOps, kShape, 2);
    ASSERT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, fresh.arena), Status::kOk);
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(run.ops->step(run, fresh.arena), Status::kOk);
    }
    const size_t persistent = run.ops->persistent_size(run);
    const size_t scratch = run.ops->scratch_size(run);
    const size_t state_size = sizeof(void*) == 8 ? 40 : 24;
    const size_t zeroth_order_size = run.estimator->uses_scalars ? 1024 + 64 : 0;
    EXPECT_EQ(persistent, state_size + 3 * 1024) << "three tensors";
    EXPECT_EQ(scratch, 1024 + 400 + 272 + zeroth_order_size) << "a tensor, 200 indices, a sample with its products";
    EXPECT_EQ(fresh.arena.mark(), persistent);
    EXPECT_EQ(fresh.arena.high_water_size(), persistent + scratch);
  }
}
#endif

}  // namespace
}  // namespace gradstream
