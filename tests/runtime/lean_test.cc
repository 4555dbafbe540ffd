// The lean form beside the form with tensors: scalars, losses, models and statuses are equal bit for bit.
#include "runtime/training/lean.h"

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/network.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr size_t kArenaSize = size_t{1} << 16;

bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

// A perceptron over samples of random inputs, on a product or in free numbers.
struct Net {
  Net(const char* net_name, std::vector<uint16_t> layer_widths, std::vector<Part> list)
      : name(net_name), widths(std::move(layer_widths)), samples(9, widths[0] + 1U, rows(9)) {
    data = {samples.source, widths.data(), static_cast<uint32_t>(widths.size())};
    parts.count = static_cast<uint32_t>(list.size());
    std::copy(list.begin(), list.end(), parts.part);
    manifold = list.empty() ? &kEuclideanOps : &kProductOps;
    shape = {perceptron_size(widths.data(), data.width_count), 1, list.empty() ? nullptr : &parts};
    model = random_point(*manifold, shape, 4);
    EXPECT_EQ(model.size(), shape.size()) << name;
  }
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;
  std::vector<Real> rows(uint32_t count) const {
    const std::vector<Real> inputs = random_values(count * widths[0], 8);
    std::vector<Real> out;
    for (uint32_t i = 0; i < count; ++i) {
      out.insert(out.end(), &inputs[i * widths[0]], &inputs[i * widths[0]] + widths[0]);
      out.push_back(static_cast<Real>(i % widths.back()));
    }
    return out;
  }
  Problem problem() const { return other.ops != nullptr ? other : Problem{&kPerceptronOps, &data}; }

  const char* name;
  std::vector<uint16_t> widths;
  TestSamples samples;
  NetworkData data;
  Problem other;  // that has a point of the same size; without ops: none
  Parts parts;
  const ManifoldOps* manifold;
  Shape shape;
  std::vector<Real> model;
};

Part part_of(const ManifoldOps& ops, uint32_t rows, uint32_t cols) { return {&ops, {rows, cols}}; }

// A frozen layer whose features are kept for a batch, and a trained one.
struct Head {
  Head() {
    for (uint32_t i = 0; i < 16; ++i) {
      weights[i] = static_cast<float>(static_cast<int>(i * 5 % 7) - 3) / 4;
    }
    layers[0] = {.kind = LayerKind::kDense, .activation = Activation::kRelu, .in = {1, 1, 4}, .out = {1, 1, 4}};
    layers[0].weights = weights;
    layers[1] = {.kind = LayerKind::kDense, .trained = TrainedForm::kDense, .in = {1, 1, 4}, .out = {1, 1, 3}};
    network.in = {1, 1, 4};
    network.layers = layers;
    network.layer_count = 2;
    EXPECT_EQ(check_network(network).code, NetworkFaultCode::kNone);
  }
  float weights[16];
  Layer layers[2];
  Network network;
};

struct Nets {
  Nets() {
    head_samples = {&head.network, head_of_network.samples.source};
    head_of_network.other = {&kNetworkOps, &head_samples};
  }
  Head head;
  NetworkSamples head_samples;
  Net head_of_network{"a trained head", {4, 3}, {}};
  Net free{"free", {9, 12, 3}, {}};
  Net free_product{"free product", {9, 12, 3}, {part_of(kEuclideanOps, 9, 12), part_of(kEuclideanOps, 51, 1)}};
  Net stiefel{"two layers on Stiefel",
              {20, 8, 4},
              {part_of(kStiefelOps, 20, 8), part_of(kEuclideanOps, 8, 1), part_of(kStiefelOps, 8, 4),
               part_of(kEuclideanOps, 4, 1)}};
  Net sphere{"all on a sphere", {5, 3}, {part_of(kSphereOps, 18, 1)}};
  const Net* all[5] = {&free, &free_product, &stiefel, &sphere, &head_of_network};
};

Task task_of(const Net& net, EstimatorId estimator, BatchMode mode, uint32_t steps) {
  Task task = stiefel_task(net.shape);
  std::strcpy(task.problem, net.problem().ops->name);
  task.manifold = net.manifold->id;
  task.estimator.id = estimator;
  task.estimator.batch_mode = mode;
  task.estimator.batch_size = 4;
  task.estimator.directions.direction_count = 5;
  task.local_step_count = steps;
  task.step_size = static_cast<Real>(0.01);
  return task;
}

// One task's work in one of the forms.
struct Work {
  Work(const Net& net, const Task& task, bool is_lean, const Real* correction = nullptr, size_t arena_size = kArenaSize)
      : problems{net.problem()}, model(net.model), memory(arena_size) {
    const Registry registry = {all_manifolds(), kAllEstimators,    kAllSolvers,
                               problems,        &kProximalLossOps, is_lean ? &kLeanForm : nullptr};
    begun = begin_solver(registry, task, model.data(), correction, &run, memory.arena);
    free_size = memory.arena.free_size();
  }
  void disturb() {
    ScratchScope scope(memory.arena);
    const size_t size = memory.arena.free_size();
    const Result<uint8_t*> bytes = memory.arena.scratch<uint8_t>(size);
    ASSERT_TRUE(bytes.ok());
    std::memset(bytes.value(), 0xa5, size);
  }
  Status step(uint16_t slice_size = 0) {
    for (slices = 1;; ++slices) {
      run.slice_size = slice_size;
      const Status status = run.ops->step(run, memory.arena);
      if (status != Status::kUnfinished) {
        EXPECT_EQ(memory.arena.free_size(), free_size) << "scratch is left";
        return status;
      }
      disturb();
    }
  }
  std::vector<Real> values() {
    GradientStream stream;
    if (run.ops->finish(run, &stream) != Status::kOk) {
      return {};
    }
    EXPECT_EQ(stream.kind, StreamKind::kScalarStream);
    std::vector<Real> out(stream.values, stream.values + stream.value_count);
    out.push_back(stream.loss_before);
    out.push_back(stream.loss_after);
    return out;
  }
  bool is_lean() const { return run.ops == kLeanForm.solver; }

  Problem problems[1];
  std::vector<Real> model;
  TestArena memory;
  SolverRun run;
  Status begun = Status::kOk;
  size_t free_size = 0;
  uint32_t slices = 0;
};

// check(net, task, correction or null) for every form of a task that the lean form serves.
void for_each_task(const Nets& nets, const std::function<void(const Net&, const Task&, const Real*)>& check) {
  for (const Net* const net : nets.all) {
    const std::vector<Real> correction = random_values(net->shape.size(), 12);
    for (const EstimatorId estimator : {EstimatorId::kProjectionOneSided, EstimatorId::kProjectionTwoSided}) {
      for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
        for (const uint32_t steps : {1U, 3U}) {
          for (const bool is_shared : {false, true}) {
            Task task = task_of(*net, estimator, mode, steps);
            task.estimator.directions.shared = is_shared;
            task.use_correction = !is_shared;  // half of them with, half without
            SCOPED_TRACE(std::string(net->name) + ", estimator " + std::to_string(static_cast<int>(estimator)) +
                         ", batch mode " + std::to_string(static_cast<int>(mode)) + ", steps " + std::to_string(steps));
            check(*net, task, task.use_correction ? correction.data() : nullptr);
          }
        }
      }
    }
  }
}

// The stream after each step of the form with tensors.
std::vector<std::vector<Real>> expected_steps(const Net& net, const Task& task, const Real* correction) {
  Work work(net, task, false, correction);
  EXPECT_EQ(work.begun, Status::kOk);
  EXPECT_FALSE(work.is_lean());
  std::vector<std::vector<Real>> out;
  while (work.run.steps_done < task.local_step_count && work.step() == Status::kOk) {
    out.push_back(work.values());
  }
  EXPECT_EQ(out.size(), task.local_step_count);
  return out;
}

TEST(Lean, MakesTheScalarsOfTheOtherFormInSlicesOfAnySize) {
  const Nets nets;
  for_each_task(nets, [](const Net& net, const Task& task, const Real* correction) {
    const std::vector<std::vector<Real>> whole = expected_steps(net, task, correction);
    for (const uint16_t slice_size : {0, 1, 2, 7}) {
      Work work(net, task, true, correction);
      ASSERT_EQ(work.begun, Status::kOk);
      ASSERT_TRUE(work.is_lean());
      uint32_t slices = 0;
      for (const std::vector<Real>& expected : whole) {
        ASSERT_EQ(work.step(slice_size), Status::kOk);
        ASSERT_TRUE(same_bits(work.values(), expected)) << slice_size << " units a slice";
        slices = std::max(slices, work.slices);
      }
      EXPECT_GT(slice_size == 1 ? slices : 5, 4u) << "no slices";
      EXPECT_EQ(work.step(), Status::kProtocolError);
      EXPECT_TRUE(same_bits(work.model, net.model)) << "the model is the caller's";
    }
  });
}

TEST(Lean, AStepIsDroppedAnywhereAndBegunAnew) {
  const Nets nets;
  for_each_task(nets, [](const Net& net, const Task& task, const Real* correction) {
    if (task.local_step_count == 1) {
      return;
    }
    const std::vector<std::vector<Real>> whole = expected_steps(net, task, correction);
    for (uint32_t slices = 1; slices < 120; slices += 1 + slices / 8) {
      Work work(net, task, true, correction);
      ASSERT_EQ(work.step(), Status::kOk);
      work.run.slice_size = 1;
      for (uint32_t i = 0; i < slices && work.run.steps_done == 1; ++i) {
        static_cast<void>(work.run.ops->step(work.run, work.memory.arena));
        work.disturb();
      }
      const uint32_t done = work.run.steps_done;
      drop_step(work.run, work.memory.arena);
      EXPECT_EQ(work.memory.arena.free_size(), work.free_size);
      EXPECT_TRUE(same_bits(work.values(), whole[done - 1])) << "the steps before it stand";
      while (work.run.steps_done < task.local_step_count) {
        ASSERT_EQ(work.step(2), Status::kOk);
        ASSERT_TRUE(same_bits(work.values(), whole[work.run.steps_done - 1])) << "after " << slices << " slices";
      }
    }
  });
}

TEST(Lean, AStepFromBeforeAResetIsDoneAgainByItsScalars) {
  const Nets nets;
  for_each_task(nets, [](const Net& net, const Task& task, const Real* correction) {
    const std::vector<std::vector<Real>> whole = expected_steps(net, task, correction);
    const uint32_t m = task.estimator.directions.direction_count;
    Work work(net, task, true, correction);
    for (uint32_t step = 0; step < task.local_step_count; ++step) {
      const Real loss = whole[step].back();
      if (step + 1 == task.local_step_count && step > 0) {
        ASSERT_EQ(work.step(), Status::kOk) << "the last of several is made";
      } else {
        ASSERT_EQ(work.run.ops->replay(work.run, whole[step].data() + step * m, loss, work.memory.arena), Status::kOk);
      }
      ASSERT_TRUE(same_bits(work.values(), whole[step]));
    }
    EXPECT_EQ(work.run.ops->replay(work.run, whole[0].data(), 0, work.memory.arena), Status::kProtocolError);
  });
}

TEST(Lean, TakesTheMemoryThatItNamesAndLess) {
  const Nets nets;
  for_each_task(nets, [](const Net& net, const Task& task, const Real* correction) {
    for (const uint16_t slice_size : {0, 1}) {
      Work work(net, task, true, correction);
      const size_t needed = work.run.ops->scratch_size(work.run);
      const Result<uint8_t*> rest = work.memory.arena.persistent<uint8_t>(work.memory.arena.free_size() - needed);
      ASSERT_TRUE(rest.ok());
      work.free_size = work.memory.arena.free_size();
      EXPECT_EQ(work.step(slice_size), Status::kOk);
    }
  });
}

TEST(Lean, ServesScalarsBySignsAndLeavesTheRest) {
  const Nets nets;
  const Net& net = nets.free;
  const auto is_lean = [&](const Task& task) {
    Work work(net, task, true);
    EXPECT_EQ(work.begun, Status::kOk);
    EXPECT_EQ(work.step(), Status::kOk);
    return work.is_lean();
  };
  const Task task = task_of(net, EstimatorId::kProjectionOneSided, BatchMode::kAll, 2);
  EXPECT_TRUE(is_lean(task));
  Task other = task;
  other.estimator.directions.kind = DirectionKind::kSphere;
  EXPECT_FALSE(is_lean(other)) << "a direction of the sphere is a tensor";
  other = task;
  other.stream = StreamKind::kTangentBlock;
  EXPECT_FALSE(is_lean(other)) << "a dense upload is a tensor";
  for (const EstimatorId id :
       {EstimatorId::kAnalyticGradient, EstimatorId::kTangentRetraction, EstimatorId::kProjectionTangent}) {
    other = task;
    other.estimator.id = id;
    EXPECT_FALSE(is_lean(other)) << static_cast<int>(id);
  }
  other = task;
  other.proximal_form = ProximalForm::kChordal;
  other.proximal_weight = 1;
  EXPECT_FALSE(is_lean(other)) << "a proximal term looks at the whole point";
}

TEST(Lean, RefusesWhatTheOtherFormRefuses) {
  Nets nets;
  Net& net = nets.stiefel;
  for (const bool is_lean : {false, true}) {
    Task task = task_of(net, EstimatorId::kProjectionOneSided, BatchMode::kAll, 2);
    task.proximal = 1;
    EXPECT_EQ(Work(net, task, is_lean).begun, Status::kInvalidArgument);
    task.proximal = 0;
    task.local_step_count = 256;
    task.estimator.directions.direction_count = 17;
    EXPECT_EQ(Work(net, task, is_lean).begun, Status::kInvalidArgument) << "too many scalars";
    task = task_of(net, EstimatorId::kProjectionOneSided, BatchMode::kAll, 2);
    EXPECT_EQ(Work(net, task, is_lean, nullptr, 512).begun, Status::kOutOfMemory);

    const Real free_number = net.model[165];
    net.model[165] = std::numeric_limits<Real>::infinity();
    EXPECT_EQ(Work(net, task, is_lean).step(), Status::kNotFinite);
    net.model[165] = free_number;

    Work work(net, task, is_lean);
    net.samples.read_status = Status::kClosed;
    EXPECT_EQ(work.step(), Status::kClosed);
    net.samples.read_status = Status::kOk;
    EXPECT_EQ(work.step(), Status::kOk);
    const Real nothing[5] = {0, 0, std::numeric_limits<Real>::quiet_NaN(), 0, 0};
    EXPECT_EQ(work.run.ops->replay(work.run, nothing, 0, work.memory.arena), Status::kNotFinite);
    const Real huge[5] = {static_cast<Real>(1e38), static_cast<Real>(1e38), static_cast<Real>(1e38), 0, 0};
    EXPECT_EQ(work.run.ops->replay(work.run, huge, 0, work.memory.arena), Status::kNotFinite) << "G is not finite";
    GradientStream stream;
    EXPECT_EQ(work.run.ops->finish(work.run, &stream), Status::kOk);
    EXPECT_EQ(stream.steps_done, 1u);
  }
}

// ---- Records ----

struct Block {
  DirectionSpec directions;
  std::vector<Real> coefficients;
};

std::vector<Block> blocks_of(uint32_t count, uint32_t size) {
  std::vector<Block> out;
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back({{DirectionKind::kSign, i % 2 == 0, 3, 5 + i, 2 * i, 8}, random_values(size, 20 + i)});
  }
  return out;
}

Replica replica_of(const Net& net, bool has_sum, Arena& arena) {
  Replica replica;
  EXPECT_EQ(replica.prepare(*net.manifold, net.shape, arena, false, 0, has_sum), Status::kOk);
  EXPECT_EQ(replica.has_sum(), has_sum);
  std::copy(net.model.begin(), net.model.end(), replica.begin_snapshot());
  replica.adopt_snapshot(6);
  return replica;
}

TEST(Lean, ARecordMovesTheModelAsItMovesAReplicaWithASum) {
  const Nets nets;
  for (const Net* const net : nets.all) {
    for (const uint32_t block_count : {1U, 3U}) {
      const std::vector<Block> blocks = blocks_of(block_count, 24);
      TestArena memory, lean_memory;
      Replica replica = replica_of(*net, true, memory.arena);
      Replica lean = replica_of(*net, false, lean_memory.arena);
      EXPECT_EQ(memory.arena.mark() - lean_memory.arena.mark(), Arena::taken_size<Real>(net->shape.size()));
      KeptRecord& record = *kLeanForm.begin(lean_memory.arena).value();
      ASSERT_EQ(replica.begin_record(), Status::kOk);
      EXPECT_EQ(lean.begin_record(), Status::kProtocolError) << "it has no sum";
      for (const Block& block : blocks) {
        ASSERT_EQ(replica.add_to_record(block.directions, 0, 24, block.coefficients.data(), memory.arena), Status::kOk);
        for (uint32_t first = 0; first < 24; first += 10) {
          const uint32_t count = std::min(10U, 24 - first);
          ASSERT_EQ(kLeanForm.keep(record, block.directions, first, count, 24, block.coefficients.data() + first,
                                   lean_memory.arena),
                    Status::kOk);
        }
      }
      const Real scale = static_cast<Real>(0.01);
      ASSERT_EQ(replica.finish_record(8, scale, memory.arena), Status::kOk);
      ASSERT_EQ(kLeanForm.step(record, lean, 8, scale, lean_memory.arena), Status::kOk);
      lean_memory.arena.release(record.mark);
      EXPECT_EQ(lean_memory.arena.mark(), Arena::taken_size<Real>(net->shape.size())) << "the model alone is left";
      EXPECT_TRUE(lean.has_model());
      EXPECT_EQ(lean.version(), 7u);
      EXPECT_EQ(lean.digest(), replica.digest()) << net->name << ", " << block_count << " blocks";
      EXPECT_NE(std::vector<Real>(lean.model(), lean.model() + net->shape.size()), net->model);
    }
  }
}

TEST(Lean, ARecordThatDoesNotFitIsOfNoUse) {
  const DirectionSpec directions = blocks_of(1, 8).front().directions;
  const std::vector<Real> values(8);
  EXPECT_EQ(kLeanForm.begin(*std::make_unique<Arena>(nullptr, 0)).status(), Status::kOutOfMemory);
  TestArena memory(64 + 2 * kKeptCoefficientMax * sizeof(Real));
  KeptRecord record;
  EXPECT_EQ(kLeanForm.keep(record, directions, 0, 8, kKeptCoefficientMax, values.data(), memory.arena), Status::kOk);
  EXPECT_EQ(kLeanForm.keep(record, directions, 0, 1, 1, values.data(), memory.arena), Status::kOutOfMemory);
  EXPECT_EQ(
      kLeanForm.keep(record, directions, kKeptCoefficientMax - 7, 8, kKeptCoefficientMax, values.data(), memory.arena),
      Status::kDataCorrupt)
      << "a piece beyond its block";
  KeptRecord fresh;
  EXPECT_EQ(kLeanForm.keep(fresh, directions, 8, 8, 16, values.data(), memory.arena), Status::kDataCorrupt);
  TestArena small(1024);
  record = {};
  EXPECT_EQ(kLeanForm.keep(record, directions, 0, 8, 300, values.data(), small.arena), Status::kOutOfMemory);
}

TEST(Lean, AFailedStepLeavesNoModel) {
  const Nets nets;
  TestArena memory;
  Replica lean = replica_of(nets.free, false, memory.arena);
  KeptRecord record;
  const std::vector<Real> values(8, std::numeric_limits<Real>::max());
  ASSERT_EQ(kLeanForm.keep(record, blocks_of(1, 8).front().directions, 0, 8, 8, values.data(), memory.arena),
            Status::kOk);
  EXPECT_EQ(kLeanForm.step(record, lean, 0, 1, memory.arena), Status::kInvalidArgument);
  EXPECT_TRUE(lean.has_model());
  EXPECT_EQ(kLeanForm.step(record, lean, 8, 1, memory.arena), Status::kNotFinite);
  EXPECT_FALSE(lean.has_model());
  EXPECT_EQ(kLeanForm.step(record, lean, 8, 1, memory.arena), Status::kProtocolError);
}

}  // namespace
}  // namespace gradstream
