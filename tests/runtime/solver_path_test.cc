// What solvers share: the end of a step, what is handed over, and the frame of a path with a tangent at its begin.
#include "runtime/training/solver_path.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {6, 2};

struct State : PathState {
  Real* other;
  uint32_t count;
};

// A task that begin_solver has seen, without the solver's own memory.
struct Bench {
  Bench()
      : samples(10, kShape.rows, random_values(size_t{10} * kShape.rows, 9)), problems{{&kKpcaOps, &samples.source}} {
    Task task = stiefel_task(kShape);
    task.solver = SolverId::kTangentMean;
    task.estimator.id = EstimatorId::kAnalyticGradient;
    task.encoding = Encoding::kF32;
    model = random_point(kStiefelOps, kShape, 1);
    EXPECT_EQ(begin_solver(registry_of(problems), task, model.data(), nullptr, &run, memory.arena), Status::kOk);
    memory.arena.reset();
  }
  TestArena memory;
  TestSamples samples;
  Problem problems[1];
  std::vector<Real> model;
  SolverRun run;
};

TEST(SolverPath, TheFirstAndTheLastLossAreKept) {
  SolverRun run;
  StepLosses losses;
  for (const Real loss : {5, 3, 4}) {
    count_step(run, loss, losses);
  }
  EXPECT_EQ(run.steps_done, 3U);
  EXPECT_EQ(losses.before, 5);
  EXPECT_EQ(losses.after, 4);
  const Real values[2] = {};
  GradientStream stream;
  fill_stream(run, StreamKind::kTangentBlock, values, 2, losses, &stream);
  EXPECT_EQ(stream.kind, StreamKind::kTangentBlock);
  EXPECT_EQ(stream.steps_done, 3U);
  EXPECT_EQ(stream.values, values);
  EXPECT_EQ(stream.value_count, 2U);
  EXPECT_EQ(stream.loss_before, 5);
  EXPECT_EQ(stream.loss_after, 4);
}

TEST(SolverPath, OnlyFiniteScalarsOfAStepToComeAreReplayed) {
  SolverRun run;
  run.task.local_step_count = 2;
  run.task.estimator.directions.direction_count = 3;
  Real scalars[4] = {1, 2, 3, NAN};  // the last one is not of the step
  EXPECT_EQ(check_replay(run, scalars), Status::kOk);
  scalars[2] = INFINITY;
  EXPECT_EQ(check_replay(run, scalars), Status::kNotFinite);
  run.steps_done = 2;
  EXPECT_EQ(check_replay(run, scalars), Status::kProtocolError);
}

TEST(SolverPath, APathBeginsAtTheModel) {
  Bench bench;
  const size_t size = kShape.size();
  ASSERT_EQ(prepare_path(bench.run, bench.memory.arena, &State::other), Status::kOk);
  EXPECT_EQ(bench.memory.arena.mark(), path_persistent_size<State>(bench.run, 3));
  const State& state = solver_state<State>(bench.run);
  EXPECT_EQ(std::vector<Real>(state.x, state.x + size), bench.model);
  EXPECT_EQ(std::vector<Real>(state.zeta, state.zeta + size), std::vector<Real>(size));
  ASSERT_NE(state.other, nullptr);
  EXPECT_EQ(state.count, 0U);
  EXPECT_EQ(state.losses.before, 0);
  bench.memory.arena.reset();
  ASSERT_EQ(prepare_path<State>(bench.run, bench.memory.arena), Status::kOk);
  EXPECT_EQ(bench.memory.arena.mark(), path_persistent_size<State>(bench.run, 2));
  EXPECT_EQ(solver_state<State>(bench.run).other, nullptr);
  TestArena small(path_persistent_size<State>(bench.run, 2) - kArenaAlignment);
  EXPECT_EQ(prepare_path<State>(bench.run, small.arena), Status::kOutOfMemory);
}

TEST(SolverPath, ScratchIsTensorsScalarsAndTheHungriestOfTheRest) {
  Bench bench;
  const size_t tensor_size = Arena::taken_size<Real>(kShape.size());
  EXPECT_EQ(estimate_scalar_count(bench.run), 0U);
  const size_t none = path_scratch_size(bench.run, 0, 0);
  EXPECT_GE(none, manifold_scratch_size(bench.run));
  EXPECT_EQ(path_scratch_size(bench.run, 2, 0), none + 2 * tensor_size);
  EXPECT_EQ(path_scratch_size(bench.run, 0, none + 80), none + 80);
  bench.run.estimator = &kProjectionOneSidedOps;
  EXPECT_EQ(estimate_scalar_count(bench.run), 16U);
}

TEST(SolverPath, TheGradientIsATangentWithTheProximalTermBeyondTheFirstStep) {
  Bench bench;
  const size_t size = kShape.size();
  std::vector<Real> x = random_point(kStiefelOps, kShape, 2);
  for (size_t e = 0; e < size; ++e) {
    x[e] = bench.model[e] + static_cast<Real>(0.01) * x[e];  // near enough for the inverse retraction
  }
  ASSERT_EQ(kStiefelOps.project_point(kShape, x.data(), x.data(), bench.memory.arena), Status::kOk);
  const auto gradient = [&](uint32_t steps_done, Real proximal) {
    bench.run.steps_done = steps_done;
    bench.run.task.proximal = proximal;
    bench.run.estimate = EstimateProgress{};
    bench.run.estimate.evaluation.units_left = EvaluationProgress::kNoLimit;
    std::vector<Real> g(size);
    Real loss = 0;
    EXPECT_EQ(path_gradient(bench.run, x.data(), nullptr, g.data(), &loss, bench.memory.arena), Status::kOk);
    EXPECT_NE(loss, 0);
    return g;
  };
  const std::vector<Real> plain = gradient(1, 0);
  EXPECT_EQ(gradient(0, 3), plain) << "the first step begins at the model, where the term is flat";
  EXPECT_NE(gradient(1, 3), plain);
  std::vector<Real> projected(size);
  ASSERT_EQ(kStiefelOps.project_tangent(kShape, x.data(), plain.data(), projected.data(), bench.memory.arena),
            Status::kOk);
  for (size_t e = 0; e < size; ++e) {
    EXPECT_NEAR(projected[e], plain[e], 1e-5);
  }
}

}  // namespace
}  // namespace gradstream
