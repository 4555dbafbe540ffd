// The figures are NumPy's, in double: Algorithm A13 in long hand, with the same Philox permutations and lambdas.
#include <gtest/gtest.h>

#include "runtime/problem/proximal_loss.h"
#include "runtime/training/solver.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// As in perceptron_test.cc.
std::vector<Real> numbers(size_t count, uint32_t seed) {
  std::vector<Real> out(count);
  for (Real& value : out) {
    seed = (seed * 1103515245U + 12345U) & 0x7fffffffU;
    value = static_cast<Real>((seed >> 8) / 8388608.0 - 0.5);
  }
  return out;
}

std::vector<Real> rows() {
  const std::vector<Real> inputs = numbers(15, 1);
  const std::vector<Real> targets = numbers(5, 9);
  std::vector<Real> out;
  for (size_t i = 0; i < 5; ++i) {
    out.insert(out.end(), inputs.begin() + 3 * i, inputs.begin() + 3 * i + 3);
    out.push_back(targets[i]);
  }
  return out;
}

struct SolverCurve : testing::Test {
  SolverCurve() {
    task.solver = SolverId::kCurve;
    task.manifold = ManifoldId::kEuclidean;
    task.estimator.id = EstimatorId::kAnalyticGradient;
    task.estimator.batch_size = 2;
    task.local_step_count = 3;
    task.step_size = static_cast<Real>(0.05);
    task.proximal = static_cast<Real>(0.3);
    task.curvature = static_cast<Real>(0.8);
    std::strcpy(task.problem, kLeastSquaresOps.name);
  }
  Status begin() {
    const SolverOps* const solvers[] = {&kSolverCurveOps};
    const Registry registry = {kAllManifolds, kAllEstimators, solvers, problems};
    return begin_solver(registry, task, model.data(), nullptr, &run, memory.arena);
  }
  GradientStream finished() {
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    return stream;
  }
  TestArena memory;
  TestSamples samples{5, 4, rows()};
  Problem problems[1] = {{&kLeastSquaresOps, &samples.source}};
  Task task = stiefel_task({3, 1});
  std::vector<Real> model = numbers(3, 4);
  SolverRun run;
};

TEST_F(SolverCurve, IsTheAlgorithmEpochForEpoch) {
  const double uploads[][6] = {{0.0262487430751825, -0.0889639002817409, 0.0139307080316216, 0.00302869869472822,
                                -0.0474267811561029, 0.0170071982293385},
                               {0.0424228714075247, -0.0672455937790491, 0.0930968339983781, 0.0138349914104713,
                                -0.0286548012796205, 0.0581606346554785},
                               {0.0288039945045953, -0.0773959527310522, 0.162224370124533, 0.00315505853895354,
                                -0.0440398596950141, 0.0861753953678189}};
  const double losses[] = {0.0220454666451315, 0.0189874291936576, 0.0125078976862911};
  const double tolerance = sizeof(Real) == sizeof(double) ? 1e-13 : 2e-6;
  ASSERT_EQ(begin(), Status::kOk);
  for (uint32_t k = 0; k < 3; ++k) {
    ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
    const GradientStream stream = finished();
    ASSERT_EQ(stream.value_count, 6U);
    EXPECT_EQ(stream.kind, StreamKind::kTangentBlock);
    EXPECT_EQ(stream.steps_done, k + 1);
    for (size_t e = 0; e < 6; ++e) {
      EXPECT_NEAR(stream.values[e], uploads[k][e], tolerance) << "step " << k << " entry " << e;
    }
    EXPECT_NEAR(stream.loss_before, losses[0], tolerance);
    EXPECT_NEAR(stream.loss_after, losses[k], tolerance);
  }
  EXPECT_EQ(run.ops->step(run, memory.arena), Status::kProtocolError) << "all steps are done";
}

// With gamma = 1 the control point stays in the plane between both ends, at the same distance from each.
TEST_F(SolverCurve, OrthogonalityKeepsTheControlPointBetweenTheEnds) {
  task.curvature = 1;
  ASSERT_EQ(begin(), Status::kOk);
  for (uint32_t k = 0; k < 3; ++k) {
    ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
    const GradientStream stream = finished();
    Real along = 0;
    Real bend = 0;
    for (size_t e = 0; e < 3; ++e) {
      const Real off = stream.values[3 + e] - stream.values[e] / 2;
      along += off * stream.values[e];
      bend += off * off;
    }
    EXPECT_NEAR(along, 0, 1e-7);
    EXPECT_GT(bend, 1e-8);
  }
}

// A term in the loss pulls at the end point alone: the chordal one is the term that the solver has of its own.
TEST_F(SolverCurve, ATermInTheLossIsOfTheEndPointAlone) {
  const auto upload = [&](ProximalForm form) {
    TestArena own;
    task.proximal_form = form;
    task.proximal = form == ProximalForm::kGeodesic ? static_cast<Real>(0.3) : 0;
    task.proximal_weight = form == ProximalForm::kGeodesic ? 0 : static_cast<Real>(0.3);
    const SolverOps* const solvers[] = {&kSolverCurveOps};
    Registry registry = {kAllManifolds, kAllEstimators, solvers, problems};
    registry.proximal_loss = &kProximalLossOps;
    EXPECT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, own.arena), Status::kOk);
    for (uint32_t k = 0; k < 3; ++k) {
      EXPECT_EQ(run.ops->step(run, own.arena), Status::kOk);
    }
    const GradientStream stream = finished();
    return std::vector<Real>(stream.values, stream.values + stream.value_count);
  };
  const std::vector<Real> wanted = upload(ProximalForm::kGeodesic);
  const std::vector<Real> chordal = upload(ProximalForm::kChordal);
  for (size_t e = 0; e < wanted.size(); ++e) {
    EXPECT_NEAR(chordal[e], wanted[e], sizeof(Real) == sizeof(double) ? 1e-13 : 2e-6) << e;
  }
  EXPECT_NE(upload(ProximalForm::kLorentz), chordal);
}

TEST_F(SolverCurve, DeclaresItsMemory) {
  ASSERT_EQ(begin(), Status::kOk);
  const size_t size = run.ops->persistent_size(run) + run.ops->scratch_size(run);
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  EXPECT_EQ(memory.arena.high_water_size(), size);
  TestArena small(size - kArenaAlignment);
  const SolverOps* const solvers[] = {&kSolverCurveOps};
  EXPECT_EQ(
      begin_solver({kAllManifolds, kAllEstimators, solvers, problems}, task, model.data(), nullptr, &run, small.arena),
      Status::kOutOfMemory);
}

TEST_F(SolverCurve, AStepThatFailsLeavesTheUploadOfThoseBefore) {
  ASSERT_EQ(begin(), Status::kOk);
  GradientStream none;
  EXPECT_EQ(run.ops->finish(run, &none), Status::kProtocolError);
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  const GradientStream before = finished();
  const std::vector<Real> kept(before.values, before.values + before.value_count);
  samples.read_status = Status::kClosed;
  EXPECT_EQ(run.ops->step(run, memory.arena), Status::kClosed);
  samples.read_status = Status::kOk;
  EXPECT_EQ(run.ops->step(run, memory.arena), Status::kProtocolError);
  const GradientStream after = finished();
  EXPECT_EQ(std::vector<Real>(after.values, after.values + after.value_count), kept);
  EXPECT_EQ(after.steps_done, 1U);
}

TEST_F(SolverCurve, RefusesWhatHasNoCurve) {
  task.curvature = 2;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.curvature = 1;
  task.use_correction = true;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.use_correction = false;
  task.estimator.batch_mode = BatchMode::kAll;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.estimator.batch_mode = BatchMode::kCommon;
  task.manifold = ManifoldId::kSphere;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
