// A local step in slices is the whole step, bit for bit: every problem, solver, estimator and kind of batch, in slices
// of any size, with whatever else may use the arena between two slices.
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/manifold/fixed_rank.h"
#include "runtime/training/solver.h"
#include "tests/support/network_support.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps, &kSolverTangentMeanOps,
                                         &kSolverSvrgOps, &kSolverCurveOps};
constexpr size_t kArenaSize = size_t{1} << 15;
constexpr uint16_t kSliceSizes[] = {1, 2, 7, 100};

// A loss of an application that has its answer at the third call with the same point and samples.
struct SlowLoss {
  static constexpr const char* kName = "slow";
  mutable uint32_t calls = 0;
  mutable std::vector<Real> asked;

  uint32_t sample_count() const { return 5; }
  Status check_shape(Shape shape) const { return shape.size() == 6 ? Status::kOk : Status::kInvalidArgument; }
  Status wait(const Real* x, Batch batch) const {
    std::vector<Real> point(x, x + 6);
    for (uint32_t b = 0; b < batch.count; ++b) point.push_back(static_cast<Real>(batch.at(b)));
    calls = point == asked ? calls + 1 : 1;
    asked = calls == 3 ? std::vector<Real>() : point;
    return calls == 3 ? Status::kOk : Status::kUnfinished;
  }
  Result<Real> loss(Shape, const Real* x, Batch batch) const {
    GS_TRY(wait(x, batch));
    Real sum = 0;
    for (uint32_t b = 0; b < batch.count; ++b) sum += x[batch.at(b)] * x[batch.at(b) + 1];
    return sum / static_cast<Real>(batch.count);
  }
  Status gradient(Shape, const Real* x, Batch batch, Real* out) const {
    GS_TRY(wait(x, batch));
    fill_zero(6, out);
    for (uint32_t b = 0; b < batch.count; ++b) {
      out[batch.at(b)] += x[batch.at(b) + 1] / static_cast<Real>(batch.count);
      out[batch.at(b) + 1] += x[batch.at(b)] / static_cast<Real>(batch.count);
    }
    return Status::kOk;
  }
};
constexpr ProblemOps kSlowOps = make_problem_ops<SlowLoss>();

struct Case {
  const char* name = "";
  Problem problem;
  const ManifoldOps* manifold = nullptr;
  Shape shape;
  std::vector<Real> model;
};

// Every problem of the runtime on a manifold that suits it.
struct Cases {
  Cases() {
    add("kpca", &kKpcaOps, kStiefelOps, {12, 3}, 23, 12, random_values(23 * 12, 1));
    for (size_t i = 0; i < byte_values.size(); ++i) byte_values[i] = static_cast<uint8_t>(i * i % 251);
    add("kpca of bytes", {&kKpcaOps, &byte_source}, kStiefelOps, {12, 3});
    add("brockett", &kBrockettOps, kStiefelOps, {5, 2}, 7, 25, random_values(7 * 25, 2));
    add("spd_mean", &kSpdMeanOps, kSpdOps, {3, 3}, 6, 9, spd_samples(6));
    add("hyperbolic", &kHyperbolicMeanOps, kHyperbolicOps, {4, 1}, 9, 5, hyperbolic_samples(9));
    add("least_squares", &kLeastSquaresOps, kEuclideanOps, {6, 2}, 11, 8, random_values(11 * 8, 3));
    add("logistic", &kLogisticOps, kEuclideanOps, {6, 1}, 11, 7, labelled(11, 6));
    samples.emplace_back(7, 3, std::vector<Real>{0, 0, 1, 5, 3, -1, 2, 1, 2, 2, 3, 2, 4, 0, -3, 0, 3, 1, 3, 2, 0});
    add("completion", {&kCompletionOps, &samples.back().source}, kFixedRankOps, fixed_rank_shape(parts));
    samples.emplace_back(12, 7, random_values(84, 1));
    tasks = {samples.back().source, ends, 3, static_cast<Real>(0.05)};
    add("multitask", {&kMultitaskOps, &tasks}, kGrassmannOps, {6, 2});
    samples.emplace_back(8, 4, labelled(8, 3));
    network = {samples.back().source, widths, 3};
    add("perceptron", {&kPerceptronOps, &network}, kEuclideanOps, {perceptron_size(widths, 3), 1});
    add_networks();
    add("slow", {&kSlowOps, &slow}, kSphereOps, {6, 1});
  }

  // A head behind frozen layers, whose features are kept for some samples of a batch; and trained layers in front.
  void add_networks() {
    for (const bool has_head : {true, false}) {
      TestNetwork& net = nets.emplace_back(Volume{5, 4, 1});
      net.window(LayerKind::kConv2d, 3, 2, 1, 3, Activation::kRelu,
                 has_head ? TrainedForm::kFrozen : TrainedForm::kDense);
      net.window(LayerKind::kMaxPool, 2, 1, 0, 3);
      if (!has_head) net.dense(4, Activation::kRelu, TrainedForm::kFactored, 2);
      net.dense(2, Activation::kNone, TrainedForm::kDense);
      samples.emplace_back(8, 21, labelled(8, 20));
      network_samples.push_back({&net.network, samples.back().source, 2});
      add(has_head ? "network head" : "network", {&kNetworkOps, &network_samples.back()}, kEuclideanOps,
          {network_size(net.network), 1});
    }
  }
  void add(const char* name, Problem problem, const ManifoldOps& manifold, Shape shape) {
    TestArena memory;
    std::vector<Real> model(shape.size());
    EXPECT_EQ(manifold.random_point(shape, {.seed = 5}, model.data(), memory.arena), Status::kOk) << name;
    EXPECT_EQ(problem.ops->check_shape(problem.context, shape), Status::kOk) << name;
    all.push_back({name, problem, &manifold, shape, model});
  }
  void add(const char* name, const ProblemOps* ops, const ManifoldOps& manifold, Shape shape, uint32_t count,
           uint32_t dimension, const std::vector<Real>& values) {
    samples.emplace_back(count, dimension, values);
    add(name, {ops, &samples.back().source}, manifold, shape);
  }
  static std::vector<Real> spd_samples(uint32_t count) {
    std::vector<Real> out;
    for (uint32_t i = 0; i < count; ++i) {
      const Real s = static_cast<Real>(i) / 10;
      out.insert(out.end(), {2 + s, s, 0, s, 1 + s, -s, 0, -s, 3});
    }
    return out;
  }
  static std::vector<Real> hyperbolic_samples(uint32_t count) {
    const std::vector<Real> at = random_values(3 * count, 4);
    std::vector<Real> out;
    for (uint32_t i = 0; i < count; ++i) {
      const Real* const x = &at[3 * i];
      out.insert(out.end(), {std::sqrt(1 + x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), x[0], x[1], x[2], 1});
    }
    return out;
  }
  static std::vector<Real> labelled(uint32_t count, uint32_t inputs) {
    const std::vector<Real> at = random_values(count * inputs, 6);
    std::vector<Real> out;
    for (uint32_t i = 0; i < count; ++i) {
      out.insert(out.end(), &at[i * inputs], &at[i * inputs] + inputs);
      out.push_back(static_cast<Real>(i % 2));
    }
    return out;
  }

  static Status read_bytes(const void* context, uint32_t index, Real* out) {
    const SampleBytes& bytes = *static_cast<const SampleBytes*>(context);
    for (uint32_t r = 0; r < 12; ++r) out[r] = static_cast<Real>(bytes.values[index * 12 + r]) * bytes.scale;
    return Status::kOk;
  }

  std::vector<uint8_t> byte_values = std::vector<uint8_t>(23 * 12);
  const SampleBytes bytes = {byte_values.data(), nullptr, 0.01F};
  const SampleSource byte_source = {&bytes, 23, 12, read_bytes, &bytes};
  const Parts parts = fixed_rank_parts(6, 4, 2);
  std::deque<TestSamples> samples;
  static constexpr uint32_t ends[] = {4, 9, 12};
  MultitaskData tasks;
  static constexpr uint16_t widths[] = {3, 4, 2};
  NetworkData network;
  std::deque<TestNetwork> nets;
  std::deque<NetworkSamples> network_samples;
  SlowLoss slow;
  std::vector<Case> all;
};

// One task's work: the stream after each step.
struct Work {
  Work(const Case& c, const Task& task) : problems{c.problem} {
    const Registry registry = {all_manifolds(), kAllEstimators, kSolvers, problems, &kProximalLossOps};
    std::vector<Real> previous = c.model;
    mean_gradient.resize(c.shape.size());
    if (task.solver == SolverId::kSvrg) {
      // Any tangent and any point nearby serve.
      EXPECT_EQ(c.manifold->project_tangent(c.shape, c.model.data(), random_values(c.shape.size(), 8).data(),
                                            mean_gradient.data(), memory.arena),
                Status::kOk);
      std::vector<Real> back = mean_gradient;
      for (Real& value : back) value *= static_cast<Real>(0.01);
      EXPECT_EQ(c.manifold->retract(c.shape, c.model.data(), back.data(), previous.data(), memory.arena), Status::kOk);
    }
    previous_model = previous;
    model = c.model;
    begun = begin_solver(registry, task, model.data(), nullptr, &run, memory.arena,
                         {mean_gradient.data(), previous_model.data()});
    free_size = memory.arena.free_size();
  }

  // Another user of the arena, between two slices.
  void disturb() {
    ScratchScope scope(memory.arena);
    const size_t size = memory.arena.free_size();
    const Result<uint8_t*> bytes = memory.arena.scratch<uint8_t>(size - size % kArenaAlignment);
    ASSERT_TRUE(bytes.ok());
    std::memset(bytes.value(), 0xa5, size);
  }

  Status step(uint16_t slice_size) {
    for (slices = 1;; ++slices) {
      run.slice_size = slice_size;
      const Status status = run.ops->step(run, memory.arena);
      if (status != Status::kUnfinished) {
        EXPECT_FALSE(run.is_step_open);
        EXPECT_EQ(memory.arena.free_size(), free_size) << "scratch is left";
        return status;
      }
      EXPECT_TRUE(run.is_step_open);
      disturb();
    }
  }

  std::vector<Real> values() {
    GradientStream stream;
    if (run.ops->finish(run, &stream) != Status::kOk) {
      return {};
    }
    std::vector<Real> out(stream.values, stream.values + stream.value_count);
    out.push_back(stream.loss_before);
    out.push_back(stream.loss_after);
    return out;
  }

  Problem problems[1];
  std::vector<Real> model, mean_gradient, previous_model;
  TestArena memory{kArenaSize};
  SolverRun run;
  Status begun = Status::kOk;
  size_t free_size = 0;
  uint32_t slices = 0;
};

bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

Task task_of(const Case& c, const SolverOps& solver, const EstimatorOps& estimator, BatchMode mode) {
  Task task = stiefel_task(c.shape);
  std::strcpy(task.problem, c.problem.ops->name);
  task.manifold = c.manifold->id;
  task.solver = solver.id;
  task.estimator.id = estimator.id;
  task.estimator.batch_mode = mode;
  task.estimator.batch_size = 3;
  task.estimator.directions.direction_count = 5;
  task.local_step_count = 3;
  task.steps_min = 1;
  task.step_size = static_cast<Real>(0.01);
  if (solver.id == SolverId::kSvrg) {
    task.curvature = static_cast<Real>(0.5);
    task.curvature_form = BarzilaiBorwein::kFirst;
  }
  return task;
}

// Calls check(case, task) for each combination that the runtime takes; how many there were.
uint32_t for_each_combination(const Cases& cases, const std::function<void(const Case&, const Task&)>& check) {
  uint32_t count = 0;
  for (const Case& c : cases.all) {
    for (const SolverOps* const solver : kSolvers) {
      for (const EstimatorOps* const estimator : kAllEstimators) {
        for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
          const Task task = task_of(c, *solver, *estimator, mode);
          if (Work(c, task).begun != Status::kOk) {
            continue;
          }
          SCOPED_TRACE(std::string(c.name) + ", " + solver->name + ", " + estimator->name + ", batch mode " +
                       std::to_string(static_cast<int>(mode)));
          check(c, task);
          ++count;
        }
      }
    }
  }
  return count;
}

// The stream after each whole step.
std::vector<std::vector<Real>> whole_steps(const Case& c, const Task& task) {
  Work work(c, task);
  std::vector<std::vector<Real>> out;
  while (work.run.steps_done < task.local_step_count && work.step(0) == Status::kOk) {
    out.push_back(work.values());
  }
  EXPECT_EQ(out.size(), task.local_step_count);
  return out;
}

TEST(Slices, OfAnySizeMakeTheWholeStep) {
  const Cases cases;
  uint32_t solver_counts[8] = {};
  const uint32_t count = for_each_combination(cases, [&](const Case& c, const Task& task) {
    ++solver_counts[static_cast<size_t>(task.solver)];
    const std::vector<std::vector<Real>> whole = whole_steps(c, task);
    for (const uint16_t slice_size : kSliceSizes) {
      Work work(c, task);
      uint32_t slices = 0;
      for (const std::vector<Real>& expected : whole) {
        ASSERT_EQ(work.step(slice_size), Status::kOk);
        ASSERT_TRUE(same_bits(work.values(), expected)) << slice_size << " units a slice";
        slices = std::max(slices, work.slices);
      }
      EXPECT_GT(slice_size == 1 ? slices : 3, 2u) << "no slices";
      EXPECT_EQ(work.step(slice_size), Status::kProtocolError);
    }
  });
  EXPECT_GE(count, 250u);
  for (const SolverOps* const solver : kSolvers) {
    EXPECT_GT(solver_counts[static_cast<size_t>(solver->id)], 0u) << solver->name;
  }
}

TEST(Slices, TakeNoMoreMemoryThanTheWholeStep) {
  const Cases cases;
  for_each_combination(cases, [](const Case& c, const Task& task) {
    Work whole(c, task);
    Work sliced(c, task);
    for (Work* const work : {&whole, &sliced}) {
      const size_t needed = work->run.ops->scratch_size(work->run);
      const Result<uint8_t*> rest = work->memory.arena.persistent<uint8_t>(work->memory.arena.free_size() - needed);
      ASSERT_TRUE(rest.ok());
      work->free_size = work->memory.arena.free_size();
      EXPECT_EQ(work->step(work == &whole ? 0 : 1), Status::kOk);
    }
  });
}

TEST(Slices, AStepIsDroppedAnywhereAndBegunAnew) {
  const Cases cases;
  for_each_combination(cases, [](const Case& c, const Task& task) {
    if (task.solver == SolverId::kCurve) {
      return;
    }
    const std::vector<std::vector<Real>> whole = whole_steps(c, task);
    for (uint32_t slices = 1; slices < 40; slices += 1 + slices / 4) {
      Work work(c, task);
      ASSERT_EQ(work.step(0), Status::kOk);
      work.run.slice_size = 1;
      for (uint32_t i = 0; i < slices && work.run.steps_done == 1; ++i) {
        static_cast<void>(work.run.ops->step(work.run, work.memory.arena));
        work.disturb();
      }
      const uint32_t done = work.run.steps_done;
      drop_step(work.run, work.memory.arena);
      EXPECT_FALSE(work.run.is_step_open);
      EXPECT_EQ(work.memory.arena.free_size(), work.free_size);
      EXPECT_TRUE(same_bits(work.values(), whole[done - 1])) << "the steps before it stand";
      work.disturb();
      ASSERT_EQ(work.step(2), Status::kOk);
      ASSERT_TRUE(same_bits(work.values(), whole[done])) << "after " << slices << " slices";
    }
  });
}

TEST(Slices, ASampleThatFailsEndsTheStepWherePossible) {
  Cases cases;
  TestSamples& samples = cases.samples.front();  // of kpca
  const Case& c = cases.all.front();
  const Task task = task_of(c, kSolverProjectionOps, kProjectionTwoSidedOps, BatchMode::kAll);
  const std::vector<std::vector<Real>> whole = whole_steps(c, task);
  Work work(c, task);
  work.run.slice_size = 3;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(work.run.ops->step(work.run, work.memory.arena), Status::kUnfinished);
  }
  samples.read_status = Status::kClosed;
  EXPECT_EQ(work.step(3), Status::kClosed);
  samples.read_status = Status::kOk;
  ASSERT_EQ(work.step(3), Status::kOk);
  EXPECT_TRUE(same_bits(work.values(), whole[0]));
}

// A source that has its sample at the second call only, with steps of any size.
TEST(Slices, ASampleThatIsNotThereYetIsReadAgain) {
  Cases cases;
  for (const Case& c : cases.all) {
    if (c.problem.ops == &kSlowOps || c.problem.ops == &kMultitaskOps || c.problem.ops == &kPerceptronOps ||
        c.problem.ops == &kNetworkOps) {
      continue;  // not of a SampleSource
    }
    SCOPED_TRACE(c.name);
    const Task task = task_of(c, kSolverTangentMeanOps, kProjectionTangentOps, BatchMode::kCommon);
    const std::vector<std::vector<Real>> whole = whole_steps(c, task);
    struct Late {
      SampleSource inner;
      uint32_t calls = 0;
    } late{source_of(c.problem.context), 0};
    SampleSource source = late.inner;
    source.context = &late;
    source.read = [](const void* context, uint32_t index, Real* out) {
      Late& self = *static_cast<Late*>(const_cast<void*>(context));
      return ++self.calls % 2 == 0 ? self.inner.read(self.inner.context, index, out) : Status::kUnfinished;
    };
    Case other = c;
    other.problem.context = &source;
    Work work(other, task);
    ASSERT_EQ(run_step(work.run, work.memory.arena), Status::kOk);
    EXPECT_TRUE(same_bits(work.values(), whole[0]));
    ASSERT_EQ(work.step(2), Status::kOk);
    EXPECT_TRUE(same_bits(work.values(), whole[1]));
  }
}

TEST(Slices, AProximalTermIsAddedOnce) {
  const Cases cases;
  for (const EstimatorOps* const estimator : kAllEstimators) {
    const Case& c = cases.all.front();
    Task task = task_of(c, kSolverGradientStreamOps, *estimator, BatchMode::kCommon);
    task.proximal_form = ProximalForm::kChordal;
    task.proximal_weight = 3;
    const std::vector<std::vector<Real>> whole = whole_steps(c, task);
    Work work(c, task);
    for (const std::vector<Real>& expected : whole) {
      ASSERT_EQ(work.step(1), Status::kOk);
      EXPECT_TRUE(same_bits(work.values(), expected));
    }
  }
}

// Directions that are kept and summed as they come, and directions of the sphere.
TEST(Slices, KeepDirectionsOfTheSphere) {
  const Cases cases;
  for (const EstimatorOps* const estimator : {&kProjectionOneSidedOps, &kProjectionTwoSidedOps}) {
    for (const BatchMode mode : {BatchMode::kCommon, BatchMode::kPerDirection}) {
      const Case& c = cases.all.front();
      Task task = task_of(c, kSolverProjectionOps, *estimator, mode);
      task.estimator.directions.kind = DirectionKind::kSphere;
      const std::vector<std::vector<Real>> whole = whole_steps(c, task);
      for (const uint16_t slice_size : kSliceSizes) {
        Work work(c, task);
        for (const std::vector<Real>& expected : whole) {
          ASSERT_EQ(work.step(slice_size), Status::kOk);
          EXPECT_TRUE(same_bits(work.values(), expected));
        }
      }
    }
  }
}

}  // namespace
}  // namespace gradstream
