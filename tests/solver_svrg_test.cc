#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/secant.h"
#include "runtime/training/solver.h"
#include "tests/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {16, 2};
constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-13 : 2e-6;

struct SvrgTest : testing::Test {
  SvrgTest()
      : samples(40, 16, random_values(40 * 16, 1)),
        problems{{&kKpcaOps, &samples.source}},
        registry(registry_of(problems)),
        task(stiefel_task(kShape)),
        model(random_point(kStiefelOps, kShape, 2)),
        mean_gradient(random_values(kShape.size(), 3)),
        previous_model(kShape.size()) {
    task.solver = SolverId::kSvrg;
    task.estimator.id = EstimatorId::kAnalyticGradient;
    task.estimator.batch_mode = BatchMode::kAll;
    task.steps_min = 5;
    task.curvature_form = BarzilaiBorwein::kFirst;
    std::vector<Real> v = random_values(kShape.size(), 4);
    scale(v.size(), static_cast<Real>(0.02), v.data());
    tangent(mean_gradient);
    tangent(v);
    EXPECT_EQ(kStiefelOps.retract(kShape, model.data(), v.data(), previous_model.data(), memory.arena), Status::kOk);
  }
  void tangent(std::vector<Real>& v) {
    EXPECT_EQ(kStiefelOps.project_tangent(kShape, model.data(), v.data(), v.data(), memory.arena), Status::kOk);
  }
  Status begin() {
    return begin_solver(registry, task, model.data(), nullptr, &run, memory.arena,
                        {mean_gradient.data(), previous_model.data()});
  }
  std::vector<Real> zeta_after(uint32_t steps) {
    EXPECT_EQ(begin(), Status::kOk);
    for (uint32_t k = 0; k < steps; ++k) {
      EXPECT_EQ(run.ops->step(run, memory.arena), Status::kOk);
    }
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    EXPECT_EQ(stream.steps_done, steps);
    return {stream.values, stream.values + stream.value_count};
  }
  std::vector<Real> gradient(const std::vector<Real>& x) {
    TestArena scratch;
    std::vector<Real> g(x.size());
    EXPECT_EQ(run.estimator->estimate(estimate_input(run, x.data()), nullptr, g.data(), nullptr, scratch.arena),
              Status::kOk);
    return g;
  }
  // A4 to A6 as printed, with the coefficient b - b_i given, lifted after each of the steps.
  std::vector<std::vector<Real>> reference(Real coefficient) {
    TestArena scratch;
    const std::vector<Real> own = gradient(model);
    std::vector<Real> x = model;
    std::vector<std::vector<Real>> lifts;
    for (uint32_t k = 0; k < task.local_step_count; ++k) {
      std::vector<Real> c(x.size());
      EXPECT_EQ(kStiefelOps.inverse_retract(kShape, model.data(), x.data(), c.data(), scratch.arena), Status::kOk);
      scale(c.size(), coefficient, c.data());
      add_scaled(c.size(), 1, mean_gradient.data(), c.data());
      add_scaled(c.size(), -1, own.data(), c.data());
      EXPECT_EQ(kStiefelOps.transport(kShape, model.data(), x.data(), c.data(), c.data(), scratch.arena), Status::kOk);
      std::vector<Real> v = gradient(x);
      add_scaled(v.size(), 1, c.data(), v.data());
      scale(v.size(), -task.step_size, v.data());
      EXPECT_EQ(kStiefelOps.retract(kShape, x.data(), v.data(), x.data(), scratch.arena), Status::kOk);
      EXPECT_EQ(kStiefelOps.inverse_retract(kShape, model.data(), x.data(), lifts.emplace_back(x.size()).data(),
                                            scratch.arena),
                Status::kOk);
    }
    return lifts;
  }
  void expect_near(const std::vector<Real>& a, const std::vector<Real>& b) {
    for (size_t e = 0; e < a.size(); ++e) {
      EXPECT_NEAR(a[e], b[e], kTolerance);
    }
  }
  // b_i as 002 defines it, in long hand.
  Real own_curvature() {
    Secant secant;
    EXPECT_EQ(find_secant(kStiefelOps, kShape, previous_model.data(), model.data(), gradient(previous_model).data(),
                          gradient(model).data(), &secant, memory.arena),
              Status::kOk);
    return secant.sy > 0 ? secant.sy / secant.ss : 0;
  }
  TestSamples samples;
  Problem problems[1];
  Registry registry;
  Task task;
  std::vector<Real> model;
  std::vector<Real> mean_gradient;
  std::vector<Real> previous_model;
  SolverRun run;
  TestArena memory;
};

TEST_F(SvrgTest, WithoutCurvatureIsRFedSVRG) {
  const std::vector<Real> zeta = zeta_after(5);
  expect_near(zeta, reference(0)[4]);
  task.steps_min = 2;
  expect_near(zeta_after(2), reference(0)[1]);
}

TEST_F(SvrgTest, WithCurvatureIsTheBarzilaiBorweinCorrection) {
  ASSERT_EQ(begin(), Status::kOk);
  // The loss curves up along some directions and down along others; a coefficient b_i needs one of the first.
  Real own = 0;
  for (uint32_t seed = 4; seed < 40 && own == 0; ++seed) {
    std::vector<Real> v = random_values(kShape.size(), seed);
    scale(v.size(), static_cast<Real>(0.02), v.data());
    tangent(v);
    ASSERT_EQ(kStiefelOps.retract(kShape, model.data(), v.data(), previous_model.data(), memory.arena), Status::kOk);
    own = own_curvature();
  }
  ASSERT_NE(own, 0) << "nothing would be left of the correction";
  task.curvature = 2;
  expect_near(zeta_after(5), reference(2 - own)[4]);
  task.local_step_count = 1;  // L_X(X) = 0: one step is RFedSVRG's
  task.steps_min = 1;
  const std::vector<Real> one = zeta_after(1);
  task.curvature = 0;
  EXPECT_EQ(one, zeta_after(1));
}

// Option 2: x_l with l from 0 .. K - 1, the start included and the end never.
TEST_F(SvrgTest, DrawsItsIterateFromAllButTheLast) {
  ASSERT_EQ(begin(), Status::kOk);
  const std::vector<std::vector<Real>> lifts = reference(0);
  task.draws_iterate = true;
  std::set<size_t> drawn;
  for (task.client_index = 0; task.client_index < 30; ++task.client_index) {
    const std::vector<Real> zeta = zeta_after(5);
    size_t l = 0;
    if (norm2(zeta.size(), zeta.data()) > 0) {
      const auto is_it = [&](const std::vector<Real>& lift) {
        std::vector<Real> difference = lift;
        add_scaled(zeta.size(), -1, zeta.data(), difference.data());
        return norm2(zeta.size(), difference.data()) < 10 * kTolerance;
      };
      l = 1 + static_cast<size_t>(std::find_if(lifts.begin(), lifts.end(), is_it) - lifts.begin());
    }
    drawn.insert(l);
  }
  EXPECT_EQ(drawn, (std::set<size_t>{0, 1, 2, 3, 4}));
}

TEST_F(SvrgTest, RefusesWhatThePublishedWorkDoesNotHave) {
  ASSERT_EQ(begin(), Status::kOk);
  task.estimator.batch_mode = BatchMode::kCommon;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.estimator.batch_mode = BatchMode::kAll;
  task.proximal = 1;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.proximal = 0;
  task.draws_iterate = true;
  task.steps_min = 1;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.draws_iterate = false;
  EXPECT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, memory.arena), Status::kInvalidArgument);
  task.curvature = 1;
  EXPECT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, memory.arena, {mean_gradient.data(), nullptr}),
            Status::kInvalidArgument);
  task.estimator.id = EstimatorId::kProjectionOneSided;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
}

TEST_F(SvrgTest, AFailedStepIsAsIfItHadNotBegun) {
  task.steps_min = 2;
  const std::vector<Real> before = zeta_after(2);
  samples.read_status = Status::kClosed;
  EXPECT_EQ(run.ops->step(run, memory.arena), Status::kClosed);
  samples.read_status = Status::kOk;
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  expect_near({stream.values, stream.values + stream.value_count}, reference(0)[2]);
}

#if !defined(GS_REAL_DOUBLE)
// RAM of Stiefel 64 x 4, K = 5, 200 samples: numbers that may fall, and grow only on purpose. The mean gradient, and
// with a curvature the model before, are the replica's: two tensors more.
TEST_F(SvrgTest, MemoryIsPinned) {
  const TestSamples many(200, 64, random_values(200 * 64, 1));
  const Problem own[] = {{&kKpcaOps, &many.source}};
  task.shape = {64, 4};
  task.curvature = 1;
  model = random_point(kStiefelOps, task.shape, 2);
  TestArena fresh;
  const ModelParts parts{model.data(), model.data()};
  ASSERT_EQ(begin_solver(registry_of(own), task, model.data(), nullptr, &run, fresh.arena, parts), Status::kOk);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(run.ops->step(run, fresh.arena), Status::kOk);
  }
  const size_t persistent = run.ops->persistent_size(run);
  const size_t scratch = run.ops->scratch_size(run);
  const size_t state_size = sizeof(void*) == 8 ? 48 : 32;
  std::printf("svrg, St(64,4): %zu bytes persistent, %zu scratch, %zu replica\n", persistent, scratch,
              Replica::persistent_size(task.shape, false, kExtraPartBits));
  EXPECT_EQ(persistent, state_size + 3 * 1024) << "three tensors";
  EXPECT_EQ(scratch, 2 * 1024 + 2 * 1024 + kStiefelOps.scratch_size(task.shape)) << "two tensors, and the secant's two";
  EXPECT_EQ(fresh.arena.mark(), persistent);
  EXPECT_LE(fresh.arena.high_water_size(), persistent + scratch);
  EXPECT_EQ(Replica::persistent_size(task.shape, false, kExtraPartBits), 4 * 1024U);
}
#endif

}  // namespace
}  // namespace gradstream
