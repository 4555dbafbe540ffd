// Training of networks by solvers: in the form with tensors and in the lean one, of a head and of factors.
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/manifold/fixed_rank.h"
#include "runtime/training/lean.h"
#include "runtime/training/solver.h"
#include "tests/support/network_support.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kSampleCount = 40;

// Images of two stripes, upright or lying, with noise: a class each.
struct Stripes {
  explicit Stripes(const std::function<void(TestNetwork&)>& build) : net({6, 6, 1}), samples(kSampleCount, 37, rows()) {
    build(net);
    data = {&net.network, samples.source, 8};
    model = net.start();
    shape = {network_size(net.network), 1};
    EXPECT_EQ(kNetworkOps.check_shape(&data, shape), Status::kOk);
  }
  static std::vector<Real> rows() {
    const std::vector<Real> noise = numbers(size_t{36} * kSampleCount, 3, 0.6);
    std::vector<Real> out;
    for (uint32_t i = 0; i < kSampleCount; ++i) {
      for (uint32_t e = 0; e < 36; ++e) {
        const uint32_t line = i % 2 == 0 ? e % 6 : e / 6;
        out.push_back(noise[i * 36 + e] + (line == i / 2 % 6 ? 1 : 0));
      }
      out.push_back(static_cast<Real>(i % 2));
    }
    return out;
  }
  Problem problem() const { return {&kNetworkOps, &data}; }

  TestNetwork net;
  TestSamples samples;
  NetworkSamples data;
  std::vector<Real> model;
  Shape shape;
};

// Frozen filters for upright and lying lines, and a head that learns which is which.
void build_head(TestNetwork& net) {
  static constexpr float kFilters[] = {-1, 2, -1, -1, 2, -1, -1, 2, -1, -1, -1, -1, 2, 2, 2, -1, -1, -1};
  net.window(LayerKind::kConv2d, 3, 1, 1, 2, Activation::kRelu).weights = kFilters;
  net.layers.back().biases = nullptr;
  net.window(LayerKind::kAveragePool, 3, 3, 0, 2);
  net.dense(2, Activation::kNone, TrainedForm::kDense);
}
void build_factored(TestNetwork& net) {
  net.dense(8, Activation::kRelu, TrainedForm::kFactored, 3);
  net.dense(2, Activation::kNone, TrainedForm::kDense);
}
void build_trained_convolution(TestNetwork& net) {
  net.window(LayerKind::kConv2d, 3, 1, 0, 3, Activation::kRelu, TrainedForm::kDense);
  net.window(LayerKind::kMaxPool, 4, 1, 0, 3);
  net.dense(2, Activation::kNone, TrainedForm::kDense);
}

Task task_of(const Stripes& s, EstimatorId estimator, BatchMode mode, uint32_t steps) {
  Task task = stiefel_task(s.shape);
  std::strcpy(task.problem, "network");
  task.manifold = ManifoldId::kEuclidean;
  task.estimator.id = estimator;
  task.estimator.batch_mode = mode;
  task.estimator.batch_size = 10;
  task.estimator.directions.direction_count = 6;
  task.local_step_count = steps;
  task.step_size = static_cast<Real>(0.02);
  return task;
}

// A task's scalars and losses, in slices. keeps_batch: whether the arena has room for features. Empty: for nothing.
std::vector<Real> train_within(Arena& arena, const Stripes& s, const Task& task, bool is_lean, uint16_t slice_size,
                               bool keeps_batch) {
  const Problem problems[] = {s.problem()};
  const Registry registry = {all_manifolds(), kAllEstimators,    kAllSolvers,
                             problems,        &kProximalLossOps, is_lean ? &kLeanForm : nullptr};
  std::vector<Real> model = s.model;
  SolverRun run;
  const Status begun = begin_solver(registry, task, model.data(), nullptr, &run, arena);
  EXPECT_EQ(run.keeps_batch, keeps_batch);
  if (begun == Status::kOutOfMemory) {
    return {};
  }
  EXPECT_EQ(begun, Status::kOk);
  EXPECT_EQ(run.ops == kLeanForm.solver, is_lean);
  run.slice_size = slice_size;
  while (run.steps_done < task.local_step_count) {
    const Status status = run.ops->step(run, arena);
    if (status != Status::kOk && status != Status::kUnfinished) {
      ADD_FAILURE() << status_text(status);
      return {};
    }
  }
  GradientStream stream;
  EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
  std::vector<Real> out(stream.values, stream.values + stream.value_count);
  out.push_back(stream.loss_before);
  out.push_back(stream.loss_after);
  return out;
}

// The same with room for everything; how much arena it took.
std::vector<Real> train(const Stripes& s, const Task& task, bool is_lean, uint16_t slice_size, size_t* bytes) {
  TestArena memory;
  std::vector<Real> out = train_within(memory.arena, s, task, is_lean, slice_size, true);
  *bytes = memory.arena.high_water_size();
  return out;
}

TEST(NetworkTraining, TheLeanFormHasTheScalarsOfTheOther) {
  for (const auto& build : {build_head, build_factored, build_trained_convolution}) {
    const Stripes s(build);
    for (const EstimatorId estimator : {EstimatorId::kProjectionOneSided, EstimatorId::kProjectionTwoSided}) {
      for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
        for (const uint32_t steps : {1U, 3U}) {
          const Task task = task_of(s, estimator, mode, steps);
          size_t bytes = 0;
          const std::vector<Real> expected = train(s, task, false, 0, &bytes);
          ASSERT_EQ(expected.size(), 6U * steps + 2);
          for (const uint16_t slice_size : {0, 1, 5}) {
            size_t lean_bytes = 0;
            EXPECT_EQ(train(s, task, true, slice_size, &lean_bytes), expected);
          }
        }
      }
    }
  }
}

// Where the arena has no room for the features of a batch, each evaluation makes them anew, in the same bits.
TEST(NetworkTraining, FeaturesAreGivenUpWhereTheArenaHasNoRoomForThem) {
  const Stripes s(build_head);
  for (const bool is_lean : {false, true}) {
    for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon}) {
      const Task task = task_of(s, EstimatorId::kProjectionOneSided, mode, 2);
      size_t bytes = 0;
      const std::vector<Real> expected = train(s, task, is_lean, 0, &bytes);
      std::vector<uint64_t> memory(bytes / 8);
      const size_t kept = kNetworkOps.kept_size(&s.data, s.shape, 10);
      ASSERT_GT(kept, 8U * 8 * sizeof(Real)) << "features of eight samples";
      for (const uint16_t slice_size : {0, 1}) {
        Arena less(memory.data(), bytes - kArenaAlignment);
        EXPECT_EQ(train_within(less, s, task, is_lean, slice_size, false), expected);
        EXPECT_LE(less.high_water_size(), bytes - kept);
      }
      Arena least(memory.data(), bytes - kept - kArenaAlignment);
      EXPECT_TRUE(train_within(least, s, task, is_lean, 0, true).empty()) << "refused";
    }
  }
}

// The loss over all samples after so many steps from the start.
double loss_after(const Stripes& s, const EstimatorOps& estimator, uint32_t steps, Real step) {
  const Task task = task_of(s, estimator.id, BatchMode::kCommon, 1);
  std::vector<Real> model = s.model;
  std::vector<Real> g(model.size()), scalars(task.estimator.directions.direction_count);
  for (uint32_t i = 0; i < steps; ++i) {
    EstimatorParameters parameters = task.estimator;
    parameters.directions.base_version = i;
    EstimateInput input;
    input.manifold = &kEuclideanOps;
    input.shape = s.shape;
    input.problem = s.problem();
    input.parameters = &parameters;
    input.version = i;
    input.z = model.data();
    TestArena memory;
    EXPECT_EQ(estimator.estimate(input, scalars.data(), g.data(), nullptr, memory.arena), Status::kOk);
    add_scaled(model.size(), -step, g.data(), model.data());
  }
  return loss_at({s.problem(), s.shape, model}, model, {nullptr, kSampleCount});
}

// The parts that the network lists make a product, in which a factored layer is a point of fixed rank. P_M moves its
// factors and leaves the layer, so that the loss stays; and steps by scalars keep the factors orthonormal.
TEST(NetworkTraining, FactorsTrainOnTheirManifold) {
  const Stripes s(build_factored);
  NetworkPart list[kPartCountMax];
  const uint32_t count = network_parts(s.net.network, list);
  ASSERT_EQ(count, 4U);
  Parts factors, parts;
  for (uint32_t i = 0; i < count; ++i) {
    if (list[i].rank > 0) {
      factors = fixed_rank_parts(list[i].rows, list[i].cols, list[i].rank);
      parts.part[parts.count++] = {&kFixedRankOps, fixed_rank_shape(factors)};
    } else {
      parts.part[parts.count++] = {&kEuclideanOps, {list[i].rows, list[i].cols}};
    }
  }
  const Shape shape = {s.shape.rows, 1, &parts};
  ASSERT_EQ(kProductOps.check_shape(shape), Status::kOk);
  ASSERT_EQ(kNetworkOps.check_shape(&s.data, shape), Status::kOk);
  TestArena memory;
  std::vector<Real> x = s.model;
  ASSERT_EQ(kProductOps.project_point(shape, x.data(), x.data(), memory.arena), Status::kOk);
  const Batch all = {nullptr, kSampleCount};
  const double start = loss_at({s.problem(), s.shape, s.model}, s.model, all);
  EXPECT_NEAR(loss_at({s.problem(), shape, x}, x, all), start, 1e-4 * start);
  EstimatorParameters parameters = task_of(s, EstimatorId::kProjectionOneSided, BatchMode::kCommon, 1).estimator;
  parameters.directions.direction_count = 20;
  std::vector<Real> g(x.size()), scalars(20);
  for (uint32_t i = 0; i < 250; ++i) {
    parameters.directions.base_version = i;
    EstimateInput input = {&kProductOps, shape, s.problem(), &parameters, 0, i};
    input.z = x.data();
    ASSERT_EQ(kProjectionOneSidedOps.estimate(input, scalars.data(), g.data(), nullptr, memory.arena), Status::kOk);
    add_scaled(x.size(), static_cast<Real>(-0.05), g.data(), x.data());
    ASSERT_EQ(kProductOps.project_point(shape, x.data(), x.data(), memory.arena), Status::kOk);
  }
  EXPECT_LT(loss_at({s.problem(), shape, x}, x, all), 0.9 * start);
  for (uint32_t i = 0; i < 3; ++i) {
    for (uint32_t j = 0; j < 3; ++j) {
      Real sum = 0;
      for (uint32_t r = 0; r < 36; ++r) sum += x[r * 3 + i] * x[r * 3 + j];
      EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-5);
    }
  }
}

TEST(NetworkTraining, AHeadLearnsByGradientsAndByForwardPasses) {
  const Stripes s(build_head);
  const double before = loss_at({s.problem(), s.shape, s.model}, s.model, {nullptr, kSampleCount});
  EXPECT_LT(loss_after(s, kAnalyticGradientOps, 100, static_cast<Real>(0.2)), 0.3 * before);
  EXPECT_LT(loss_after(s, kProjectionOneSidedOps, 200, static_cast<Real>(0.02)), 0.7 * before);
}

}  // namespace
}  // namespace gradstream
