#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/training/proximal.h"
#include "runtime/training/solver.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {16, 2};
constexpr Shape kVectorShape = {16, 1};
constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-13 : 2e-6;

struct TangentMeanTest : testing::Test {
  TangentMeanTest()
      : samples(40, 16, random_values(40 * 16, 1)),
        problems{{&kKpcaOps, &samples.source}},
        registry(registry_of(problems)),
        task(stiefel_task(kShape)) {
    task.solver = SolverId::kTangentMean;
    task.estimator.id = EstimatorId::kAnalyticGradient;
  }
  Status begin() {
    model = random_point(*find_manifold(kAllManifolds, task.manifold), task.shape, 2);
    return begin_solver(registry, task, model.data(), nullptr, &run, memory.arena);
  }
  std::vector<Real> zeta() {
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    EXPECT_EQ(stream.kind, StreamKind::kTangentBlock);
    EXPECT_EQ(stream.steps_done, run.steps_done);
    return {stream.values, stream.values + stream.value_count};
  }
  // The path in long hand; its last point lifted to the model.
  std::vector<Real> reference(uint32_t step_count) {
    TestArena scratch;
    const size_t size = task.shape.size();
    std::vector<Real> x = model;
    std::vector<Real> g(size);
    std::vector<Real> pull(size);
    for (uint32_t k = 0; k < step_count; ++k) {
      EstimateInput input = estimate_input(run, x.data());
      input.step = k;
      EXPECT_EQ(run.estimator->estimate(input, nullptr, g.data(), nullptr, scratch.arena), Status::kOk);
      if (k > 0) {  // d(x, X)^2 / 2 has the gradient -L_x(X)
        EXPECT_EQ(run.manifold->inverse_retract(task.shape, x.data(), model.data(), pull.data(), scratch.arena),
                  Status::kOk);
        add_scaled(size, -task.proximal, pull.data(), g.data());
      }
      scale(size, -task.step_size, g.data());
      EXPECT_EQ(run.manifold->retract(task.shape, x.data(), g.data(), x.data(), scratch.arena), Status::kOk);
    }
    std::vector<Real> lift(size);
    EXPECT_EQ(run.manifold->inverse_retract(task.shape, model.data(), x.data(), lift.data(), scratch.arena),
              Status::kOk);
    return lift;
  }
  TestSamples samples;
  Problem problems[1];
  Registry registry;
  Task task;
  std::vector<Real> model;
  SolverRun run;
  TestArena memory;
};

TEST_F(TangentMeanTest, SendsTheLiftOfItsLastPointFromStepsMinOn) {
  for (const ManifoldId manifold : {ManifoldId::kStiefel, ManifoldId::kSphere, ManifoldId::kEuclidean}) {
    task.manifold = manifold;
    task.shape = manifold == ManifoldId::kStiefel ? kShape : kVectorShape;
    for (const Real proximal : {Real{0}, Real{1}}) {
      task.proximal = proximal;
      task.steps_min = 2;
      ASSERT_EQ(begin(), Status::kOk);
      for (uint32_t done = 1; done <= 5; ++done) {
        ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
        GradientStream stream;
        if (done < 2) {
          EXPECT_EQ(run.ops->finish(run, &stream), Status::kProtocolError);
        } else {
          EXPECT_EQ(zeta(), reference(done)) << static_cast<int>(manifold) << ' ' << done;
        }
      }
      EXPECT_EQ(run.ops->step(run, memory.arena), Status::kProtocolError);
    }
  }
}

// One step of a matching pair (R, L) is the step itself: the zeta of RFedAGS.
TEST_F(TangentMeanTest, OneStepIsRFedAGS) {
  for (const ManifoldId manifold : {ManifoldId::kStiefel, ManifoldId::kSphere}) {
    task.manifold = manifold;
    task.shape = manifold == ManifoldId::kStiefel ? kShape : kVectorShape;
    task.local_step_count = 1;
    task.solver = SolverId::kTangentMean;
    ASSERT_EQ(begin(), Status::kOk);
    ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
    const std::vector<Real> lifted = zeta();
    task.solver = SolverId::kGradientStream;
    ASSERT_EQ(begin(), Status::kOk);
    ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
    const std::vector<Real> stream = zeta();
    for (size_t e = 0; e < stream.size(); ++e) {
      EXPECT_NEAR(lifted[e], stream[e], kTolerance);
    }
  }
}

// The path is of local_retraction, the lift of the run's: the two need not be a pair.
TEST_F(TangentMeanTest, ThePathMayHaveARetractionOfItsOwn) {
  const ManifoldOps* const manifolds[] = {&kStiefelOps, &kStiefelQrOps};
  registry.manifolds = manifolds;
  task.local_step_count = 1;
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  const std::vector<Real> own = zeta();
  task.local_retraction = RetractionKind::kQr;
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  const std::vector<Real> lift = zeta();
  std::vector<Real> at_qr(model.size());
  ASSERT_EQ(kStiefelQrOps.retract(task.shape, model.data(), own.data(), at_qr.data(), memory.arena), Status::kOk);
  std::vector<Real> wanted(model.size());
  ASSERT_EQ(kStiefelOps.inverse_retract(task.shape, model.data(), at_qr.data(), wanted.data(), memory.arena),
            Status::kOk);
  EXPECT_NE(lift, own);
  for (size_t e = 0; e < lift.size(); ++e) {
    EXPECT_NEAR(lift[e], wanted[e], kTolerance);
  }
  task.local_retraction = RetractionKind::kExponential;
  EXPECT_EQ(begin(), Status::kUnimplemented) << "not linked";
}

TEST_F(TangentMeanTest, AProximalTermHoldsThePathNearItsStart) {
  const auto length = [this](Real proximal) {
    task.proximal = proximal;
    EXPECT_EQ(begin(), Status::kOk);
    for (int k = 0; k < 5; ++k) {
      EXPECT_EQ(run.ops->step(run, memory.arena), Status::kOk);
    }
    return norm2(task.shape.size(), zeta().data());
  };
  const Real free = length(0);
  EXPECT_LT(length(10), static_cast<Real>(0.8) * free) << "the sign of E30 would make it longer";
  task.solver = SolverId::kGradientStream;
  const Real free_stream = length(0);
  EXPECT_LT(length(10), static_cast<Real>(0.8) * free_stream);
  task.solver = SolverId::kProjection;
  task.estimator.id = EstimatorId::kProjectionOneSided;
  EXPECT_EQ(begin(), Status::kInvalidArgument) << "that path has its correction";
  task.proximal = -1;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
}

TEST_F(TangentMeanTest, AFailedStepIsAsIfItHadNotBegun) {
  ASSERT_EQ(begin(), Status::kOk);
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  const std::vector<Real> before = zeta();
  samples.read_status = Status::kClosed;
  EXPECT_EQ(run.ops->step(run, memory.arena), Status::kClosed);
  samples.read_status = Status::kOk;
  EXPECT_EQ(zeta(), before);
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  EXPECT_EQ(zeta(), reference(2));
}

#if !defined(GS_REAL_DOUBLE)
// RAM of Stiefel 64 x 4, K = 5, batch 32 of 200 samples: numbers that may fall, and grow only on purpose.
TEST_F(TangentMeanTest, MemoryIsPinned) {
  const TestSamples many(200, 64, random_values(200 * 64, 1));
  const Problem own[] = {{&kKpcaOps, &many.source}};
  task.shape = {64, 4};
  task.proximal = 1;
  model = random_point(kStiefelOps, task.shape, 2);
  TestArena fresh;
  ASSERT_EQ(begin_solver(registry_of(own), task, model.data(), nullptr, &run, fresh.arena), Status::kOk);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(run.ops->step(run, fresh.arena), Status::kOk);
  }
  const size_t persistent = run.ops->persistent_size(run);
  const size_t scratch = run.ops->scratch_size(run);
  const size_t state_size = sizeof(void*) == 8 ? 32 : 24;
  std::printf("tangent mean, St(64,4): %zu bytes persistent, %zu scratch\n", persistent, scratch);
  EXPECT_EQ(persistent, state_size + 2 * 1024) << "two tensors";
  EXPECT_EQ(scratch, 2 * 1024 + 1024 + kStiefelOps.scratch_size(task.shape)) << "two tensors, the proximal pull";
  EXPECT_EQ(fresh.arena.mark(), persistent);
  EXPECT_LE(fresh.arena.high_water_size(), persistent + scratch);
}
#endif

}  // namespace
}  // namespace gradstream
