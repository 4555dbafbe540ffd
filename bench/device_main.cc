// What the arithmetic of a client costs on a board, in instructions: local steps, the loss alone, points and tangents
// of each manifold. Runs on QEMU's mps2 boards under -icount shift=0, where a tick of SysTick (25 MHz) is 40
// instructions and every run counts the same; start-up and console are those of tests/digest/digest_main.cc. One line a
// case: name, count.
#include <cstdint>
#include <cstring>
#include <span>

#include "firmware/shard.h"
#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"
#include "runtime/training/lean.h"
#include "runtime/training/solver.h"
#include "tests/digest/digest_console.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {64, 4};
constexpr uint32_t kSampleCount = 200;
constexpr uint32_t kBatchSize = 32;
constexpr uint32_t kDirectionCount = 16;
constexpr uint32_t kDirectionsMax = 100;
constexpr Shape kIris = {4, 2};
constexpr uint32_t kInstructionsPerTick = 40;
constexpr uint32_t kTicksMax = 0xFFFFFF;  // 24 bits: 671 million instructions

struct SysTick {
  volatile uint32_t control, reload, value;
};
SysTick& systick() { return *reinterpret_cast<SysTick*>(0xE000E010); }

float sample_values[kSampleCount * kShape.rows];
float point[kShape.size()], tangent[kShape.size()], other[kShape.size()], out[kShape.size()];
alignas(8) uint8_t memory[88 * 1024];

// Words of the stream as numbers in [-1, 1).
void fill(uint32_t seed, size_t count, float* values) {
  RandomStream stream({.seed = seed});
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int32_t>(stream.next())) * 0x1p-31F;
  }
}

Status read_sample(const void*, uint32_t index, Real* values) {
  for (uint32_t i = 0; i < kShape.rows; ++i) {
    values[i] = sample_values[index * kShape.rows + i];
  }
  return Status::kOk;
}

// The same number of samples as the client has them: bytes in a shard.
constexpr size_t kShardHeadSize = 16 + 4 * kShape.rows;
alignas(4) uint8_t shard_bytes[kShardHeadSize + kSampleCount * kShape.rows];
Shard shard;
SampleBytes shard_values;

Status read_shard_sample(const void*, uint32_t index, Real* values) {
  read_shard(shard, index, values);
  return Status::kOk;
}

Status make_shard() {
  std::memcpy(shard_bytes, "GSD1", 4);
  const uint32_t counts[] = {kSampleCount, kShape.rows};
  const float scale = 0x1p-7F;
  std::memcpy(shard_bytes + 4, counts, sizeof(counts));
  std::memcpy(shard_bytes + 12, &scale, sizeof(scale));
  fill(4, kShape.rows, out);
  for (uint32_t i = 0; i < kShape.rows; ++i) {
    out[i] = 1 + out[i] / 4;
  }
  std::memcpy(shard_bytes + 16, out, kShape.rows * sizeof(float));
  RandomStream stream({.seed = 6});
  for (size_t i = kShardHeadSize; i < sizeof(shard_bytes); ++i) {
    shard_bytes[i] = static_cast<uint8_t>(stream.next() >> 24);
  }
  const Status status = parse_shard(shard_bytes, &shard);
  shard_values = {shard.values, shard.mean, shard.scale};
  return status;
}

// Samples of fewer values: the first ones of each.
uint32_t narrow_dimension = kShape.rows;
Status read_narrow_sample(const void*, uint32_t index, Real* values) {
  for (uint32_t i = 0; i < narrow_dimension; ++i) {
    values[i] = sample_values[index * kShape.rows + i];
  }
  return Status::kOk;
}

void print(const char* name, uint64_t number) {
  char digits[21] = {};
  size_t at = sizeof(digits) - 1;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  console_write(name);
  console_write(" ");
  console_write(digits + at);
  console_write("\n");
}

template <typename Work>
void measure(const char* name, Work work) {
  systick().reload = kTicksMax;
  systick().value = 0;
  systick().control = 5;  // processor's clock, no interrupt
  const uint32_t begin = systick().value;
  const Status status = work();
  const uint32_t end = systick().value;
  systick().control = 0;
  GS_ASSERT(status == Status::kOk);
  print(name, static_cast<uint64_t>((begin - end) & kTicksMax) * kInstructionsPerTick);
}

constexpr SampleSource kSource = {nullptr, kSampleCount, kShape.rows, read_sample};
constexpr SampleSource kShardSource = {nullptr, kSampleCount, kShape.rows, read_shard_sample, &shard_values};
constexpr Problem kOfFloats[] = {{&kKpcaOps, &kSource}};
constexpr Problem kOfShard[] = {{&kKpcaOps, &kShardSource}};
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kTangentRetractionOps};
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps};
constexpr const ManifoldOps* kManifolds[] = {&kStiefelOps, &kStiefelExponentialOps, &kSphereOps};

Task make_task(SolverId solver, EstimatorId estimator, RetractionKind retraction) {
  Task task;
  task.sequence = task.version = 1;
  task.solver = solver;
  task.manifold = ManifoldId::kStiefel;
  task.retraction = retraction;
  task.shape = kShape;
  task.estimator.id = estimator;
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = kBatchSize;
  task.estimator.smoothing = 0.01F;
  task.estimator.directions.direction_count = kDirectionCount;
  task.seed = 7;
  task.local_step_count = 2;
  task.step_size = 0.02F;
  task.encoding = Encoding::kF32;
  for (size_t i = 0; i < 4; ++i) {
    task.problem[i] = "kpca"[i];
  }
  return task;
}

// The second step: the first of A1 needs no retraction.
void measure_step(const char* name, SolverId solver, EstimatorId estimator, RetractionKind retraction, Arena& arena,
                  std::span<const Problem> problems = kOfFloats) {
  arena.reset();
  SolverRun run;
  const Registry registry = {kManifolds, kEstimators, kSolvers, problems};
  Status status = begin_solver(registry, make_task(solver, estimator, retraction), point, nullptr, &run, arena);
  GS_ASSERT(status == Status::kOk);
  status = run.ops->step(run, arena);
  GS_ASSERT(status == Status::kOk);
  measure(name, [&] { return run.ops->step(run, arena); });
  arena.reset();
}

// A perceptron 64-32-10 by scalars. The first of two steps has an estimate and a move; the last has no move in the lean
// form.
constexpr uint16_t kWidths[] = {64, 32, 10};
constexpr Shape kNetworkShape = {2410, 1};
constexpr uint32_t kNetworkBatchSize = 16;
float network_point[kNetworkShape.rows];

Status read_network_sample(const void*, uint32_t index, Real* values) {
  values[kShape.rows] = static_cast<Real>(index % 10);
  return read_sample(nullptr, index, values);
}

void measure_network_step(const char* name, uint32_t step_count, const LeanForm* lean, Arena& arena) {
  arena.reset();
  fill(5, kNetworkShape.rows, network_point);
  scale(kNetworkShape.rows, 0.2F, network_point);
  const NetworkData data = {{nullptr, kSampleCount, kShape.rows + 1, read_network_sample}, kWidths, 3};
  const Problem network[] = {{&kPerceptronOps, &data}};
  constexpr const ManifoldOps* kFree[] = {&kEuclideanOps};
  Task task = make_task(SolverId::kProjection, EstimatorId::kProjectionOneSided, RetractionKind::kDefault);
  task.manifold = ManifoldId::kEuclidean;
  task.shape = kNetworkShape;
  task.estimator.batch_size = kNetworkBatchSize;
  task.local_step_count = step_count;
  for (size_t i = 0; kPerceptronOps.name[i] != '\0'; ++i) {
    task.problem[i] = kPerceptronOps.name[i];
  }
  SolverRun run;
  const Registry registry = {kFree, kEstimators, kSolvers, network, nullptr, lean};
  const Status status = begin_solver(registry, task, network_point, nullptr, &run, arena);
  GS_ASSERT(status == Status::kOk);
  measure(name, [&] { return run.ops->step(run, arena); });
  arena.reset();
}

// One estimate over all samples of the batch, at the shapes and directions of 003's Iris and Digits.
void measure_estimate(const char* name, const EstimatorOps& estimator, const ManifoldOps& ops, Shape shape,
                      uint32_t direction_count, uint32_t batch_size, Arena& arena) {
  arena.reset();
  const SampleSource source = {nullptr, batch_size, shape.rows, read_narrow_sample};
  narrow_dimension = shape.rows;
  fill(2, shape.size(), tangent);
  const Status projected = ops.project_point(shape, tangent, point, arena);
  GS_ASSERT(projected == Status::kOk);
  EstimatorParameters parameters;
  parameters.id = estimator.id;
  parameters.batch_mode = BatchMode::kAll;
  parameters.smoothing = 0.01F;
  parameters.directions.seed = 7;
  parameters.directions.direction_count = direction_count;
  EstimateInput input;
  input.manifold = &ops;
  input.shape = shape;
  input.problem = {&kKpcaOps, &source};
  input.parameters = &parameters;
  input.z = point;
  static float scalars[kDirectionsMax];
  measure(name, [&] { return estimator.estimate(input, scalars, out, nullptr, arena); });
}

void measure_manifold(const ManifoldOps& ops, Shape shape, const char* const (&names)[4], Arena& arena) {
  fill(2, shape.size(), tangent);
  Status status = ops.project_point(shape, tangent, point, arena);
  GS_ASSERT(status == Status::kOk);
  fill(3, shape.size(), tangent);
  scale(shape.size(), 0.05F, tangent);
  measure(names[0], [&] { return ops.project_point(shape, tangent, out, arena); });
  measure(names[1], [&] { return ops.project_tangent(shape, point, tangent, tangent, arena); });
  measure(names[2], [&] { return ops.retract(shape, point, tangent, other, arena); });
  measure(names[3], [&] { return ops.transport(shape, point, other, tangent, out, arena); });
}

}  // namespace
}  // namespace gradstream

int main() {
  using namespace gradstream;
  Arena arena(memory, sizeof(memory));
  fill(1, kSampleCount * kShape.rows, sample_values);
  measure_manifold(kSphereOps, {256, 1},
                   {"sphere_256_project", "sphere_256_tangent", "sphere_256_retract", "sphere_256_transport"}, arena);
  measure_manifold(kStiefelOps, kShape,
                   {"stiefel_64x4_project", "stiefel_64x4_tangent", "stiefel_64x4_retract", "stiefel_64x4_transport"},
                   arena);
  measure("loss_batch_32", [&] {
    return kKpcaOps.loss(&kSource, kShape, point, Batch{nullptr, kBatchSize}, arena).status();
  });
  const auto step = [&](const char* name, SolverId solver, EstimatorId estimator, RetractionKind retraction) {
    measure_step(name, solver, estimator, retraction, arena);
  };
  constexpr RetractionKind kPolar = RetractionKind::kPolar;
  const Status made = make_shard();
  GS_ASSERT(made == Status::kOk);
  measure("loss_batch_32_shard", [&] {
    return kKpcaOps.loss(&kShardSource, kShape, point, Batch{nullptr, kBatchSize}, arena).status();
  });
  measure_step("step_projection_m16_shard", SolverId::kProjection, EstimatorId::kProjectionOneSided, kPolar, arena,
               kOfShard);
  measure_step("step_gradient_stream_shard", SolverId::kGradientStream, EstimatorId::kAnalyticGradient, kPolar, arena,
               kOfShard);
  step("step_projection_m16", SolverId::kProjection, EstimatorId::kProjectionOneSided, kPolar);
  step("step_gradient_stream", SolverId::kGradientStream, EstimatorId::kAnalyticGradient, kPolar);
  step("step_gradient_stream_zeroth_m16", SolverId::kGradientStream, EstimatorId::kProjectionOneSided, kPolar);
  step("step_tangent_polar_m16", SolverId::kGradientStream, EstimatorId::kTangentRetraction, kPolar);
  step("step_tangent_exponential_m16", SolverId::kGradientStream, EstimatorId::kTangentRetraction,
       RetractionKind::kExponential);
  measure_network_step("step_network_tensors_m16", 2, nullptr, arena);
  measure_network_step("step_network_lean_m16", 2, &kLeanForm, arena);
  measure_network_step("step_network_lean_last_m16", 1, &kLeanForm, arena);
  const auto estimate = [&](const char* name, const EstimatorOps& estimator, const ManifoldOps& ops, Shape shape) {
    const bool is_iris = shape == kIris;
    measure_estimate(name, estimator, ops, shape, is_iris ? kDirectionsMax : 50, is_iris ? 150 : kBatchSize, arena);
  };
  estimate("estimate_iris_projection", kProjectionOneSidedOps, kStiefelOps, kIris);
  estimate("estimate_iris_projection_tangent", kProjectionTangentOps, kStiefelOps, kIris);
  estimate("estimate_iris_tangent_polar", kTangentRetractionOps, kStiefelOps, kIris);
  estimate("estimate_iris_tangent_exponential", kTangentRetractionOps, kStiefelExponentialOps, kIris);
  estimate("estimate_digits_projection", kProjectionOneSidedOps, kStiefelOps, kShape);
  estimate("estimate_digits_projection_tangent", kProjectionTangentOps, kStiefelOps, kShape);
  estimate("estimate_digits_tangent_polar", kTangentRetractionOps, kStiefelOps, kShape);
  estimate("estimate_digits_tangent_exponential", kTangentRetractionOps, kStiefelExponentialOps, kShape);
  return 0;
}
