// The replicated arithmetic in numbers: one hash for each part of what server and devices must compute bit for bit the
// same. The same source runs on every processor; tools/digest.py builds, runs and compares. No heap, so that a
// Cortex-M runs it as it stands.
//
// Output: `name hash` lines. `total` is over all of them but those that begin with '~': these belong to a device's own
// path and may differ. Exit status 1 when the processor flushes subnormal numbers to zero or a step fails.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/base/arithmetic.h"
#include "runtime/base/products.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "runtime/manifold/fixed_rank.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"
#include "runtime/training/encoding.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"
#include "server/rules/fold.h"
#include "tests/digest/digest_console.h"
#include "tests/digest/kernel_hash.h"
#include "tests/support/fold_add.h"

namespace gradstream {
namespace {

// tools/digest.py --self-test plants another value here, and demands that the comparison finds it.
#ifndef GS_DIGEST_STEP
#define GS_DIGEST_STEP 0x1.47ae14p-7F  // 0.01
#endif

constexpr Shape kStiefelShape = {64, 4};
constexpr Shape kSphereShape = {40, 1};
constexpr size_t kTensorMax = 256;
constexpr uint32_t kDirectionCount = 16;
constexpr uint32_t kStepCount = 5;
constexpr uint32_t kScalarCount = kDirectionCount * kStepCount;
constexpr uint32_t kDeviceCount = 9;
constexpr uint32_t kRoundCount = 200;
constexpr unsigned kScaleLog2 = 24;
constexpr Encoding kEncodings[] = {Encoding::kF32, Encoding::kBf16, Encoding::kInt8};

// ---- Hashes and their lines --------------------------------------------------------------------------------------

class Hash {
 public:
  void add(uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      add_byte(static_cast<uint8_t>(word >> (8 * byte)));
    }
  }
  void add(Status status) { add(static_cast<uint64_t>(status)); }
  void add(size_t count, const uint8_t* bytes) {
    for (size_t i = 0; i < count; ++i) {
      add_byte(bytes[i]);
    }
  }
  void add(size_t count, const Real* x) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(x[i]);
      for (int byte = 0; byte < 4; ++byte) {
        add_byte(static_cast<uint8_t>(bits >> (8 * byte)));
      }
    }
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3; }
  uint64_t value_ = kDigestStart;
};

class Report {
 public:
  void line(const char* name, const Hash& hash) {
    if (name[0] != '~') {
      total_.add(hash.value());
    }
    write(name, hash.value());
  }
  void finish() { write("total", total_.value()); }

 private:
  static void write(const char* name, uint64_t value) {
    char digits[] = " 0123456789abcdef\n";
    for (int i = 0; i < 16; ++i) {
      digits[1 + i] = "0123456789abcdef"[(value >> (60 - 4 * i)) & 15];
    }
    console_write(name);
    console_write(digits);
  }
  Hash total_;
};

// ---- Inputs: words of Philox as numbers, without libm ------------------------------------------------------------

// Uniform in [-size, size].
void fill_values(uint32_t seed, uint32_t step, size_t count, Real size, Real* out) {
  RandomStream stream({.seed = seed, .domain = RandomDomain::kData, .step = step});
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<Real>(static_cast<int32_t>(stream.next())) * 0x1p-31F * size;
  }
}

void require(Status status) { GS_ASSERT(status == Status::kOk); }

alignas(kArenaAlignment) uint8_t memory[24 * 1024];
Real x[kTensorMax], y[kTensorMax], v[kTensorMax], w[kTensorMax];

// A point of the manifold, in out.
void fill_point(const ManifoldOps& ops, Shape shape, uint32_t seed, Real* out) {
  Arena arena(memory, sizeof(memory));
  fill_values(seed, 0, shape.size(), 1, out);
  require(ops.project_point(shape, out, out, arena));
}

// ---- What replicas share -----------------------------------------------------------------------------------------

// Results of single operations on numbers near the ends of the range. volatile keeps the compiler from answering.
void hash_numbers(Report& report) {
  volatile float smallest_normal = 0x1p-126F;
  volatile float smallest = 0x1p-149F;
  volatile float third = 3;
  const Real results[] = {
      smallest_normal / 2, smallest * 2, smallest_normal - smallest, smallest_normal / third, 1 / third,
      -1 / third,          smallest / 2, smallest_normal * smallest};
  Hash hash;
  hash.add(sizeof(results) / sizeof(results[0]), results);
  report.line("numbers", hash);
}

void hash_random(Report& report) {
  Hash hash;
  for (uint32_t domain = 0; domain < 6; ++domain) {
    RandomStream stream({.seed = 7, .domain = static_cast<RandomDomain>(domain), .version = 3, .owner = 5, .step = 2});
    for (int i = 0; i < 100; ++i) {
      hash.add(stream.next());
    }
  }
  uint16_t work[200];
  choose({.seed = 7, .domain = RandomDomain::kMinibatch, .version = 3}, 200, 32, work);
  for (int i = 0; i < 32; ++i) {
    hash.add(uint64_t{work[i]});
  }
  report.line("random", hash);
}

void hash_directions(Report& report) {
  constexpr Shape kShapes[] = {{64, 4}, {40, 1}, {1, 1}, {5, 3}, {33, 1}, {32, 1}, {7, 9}};
  Arena arena(memory, sizeof(memory));
  Hash hash;
  uint32_t number = 0;
  for (const Shape shape : kShapes) {
    const DirectionSpec spec = {.shared = number % 2 == 0,
                                .seed = 11 + number,
                                .base_version = number * 1000,
                                .owner = number,
                                .direction_count = 3 + number};
    fill_zero(shape.size(), y);
    fill_values(number, 1, 24, 1, v);
    for (uint32_t q = 0; q < 24; ++q) {
      fill_direction(spec, shape, q / spec.direction_count, q % spec.direction_count, x);
      hash.add(shape.size(), x);
    }
    // In two pieces, as frames bring them.
    require(accumulate_directions(spec, shape, 0, 10, v, y, arena));
    require(accumulate_directions(spec, shape, 10, 14, v + 10, y, arena));
    hash.add(shape.size(), y);
    ++number;
  }
  report.line("directions", hash);
}

void hash_encoding(Report& report, const char* name, Encoding encoding) {
  constexpr uint32_t kCount = 100;  // three whole blocks of int8 and a short one
  constexpr Real kSizes[] = {1, 1e-3F, 3e4F, 1e-30F, 0x1p-130F, 0};
  uint8_t bytes[4 * kCount];
  Hash hash;
  uint32_t number = 0;
  for (const Real size : kSizes) {
    fill_values(21, ++number, kCount, size, v);
    const size_t encoded = encoded_size(encoding, kCount);
    hash.add(encode_values(encoding, kCount, v, bytes));
    hash.add(encoded, bytes);
    hash.add(uint64_t{crc32c(0, bytes, encoded)});
    hash.add(decode_values(encoding, kCount, bytes, encoded, w));
    hash.add(kCount, w);
  }
  report.line(name, hash);
}

void hash_fold(Report& report) {
  FoldSlot slots[kScalarCount];
  FoldTerm terms[kScalarCount];
  Fold fold(slots, kScaleLog2);
  Hash hash;
  uint32_t weight_sum = 0;
  for (uint32_t device = 0; device < 40; ++device) {
    const uint16_t weight = static_cast<uint16_t>(1 + device * device * 40);
    const uint32_t first = device % 7;
    fill_values(31, device, kScalarCount, device % 5 == 0 ? 100 : 1, v);
    require(add_update(&fold, kScaleLog2, {v + first, kScalarCount - first}, weight, first, terms));
    weight_sum += weight;
    require(fold.finish(weight_sum, w));
    hash.add(kScalarCount, w);
  }
  const Real ties[] = {0.5F, -0.5F, 1.5F, -1.5F, 0x1p30F, -0x1p30F};
  FoldSlot few[6];
  Fold whole(few, 0);
  require(add_update(&whole, 0, ties, 3, 0, terms));
  require(whole.finish(2, w));
  hash.add(6, w);
  report.line("fold", hash);
}

// One round at the server: partial uploads of all devices, decoded, folded with weights and encoded again. out: the
// coefficients of the record, as a replica decodes them.
void fold_round(uint32_t round, Real* out) {
  uint8_t bytes[4 * kScalarCount];
  Real values[kScalarCount];
  FoldSlot slots[kScalarCount];
  FoldTerm terms[kScalarCount];
  Fold fold(slots, kScaleLog2);
  uint32_t weight_sum = 0;
  for (uint32_t device = 0; device < kDeviceCount; ++device) {
    const uint32_t steps_done = 1 + (round + device * device) % kStepCount;
    const uint32_t count = steps_done * kDirectionCount;
    const Encoding encoding = kEncodings[(round + device) % 3];
    fill_values(1000 + device, round, count, 2, values);
    require(encode_values(encoding, count, values, bytes));
    require(decode_values(encoding, count, bytes, encoded_size(encoding, count), values));
    for (uint32_t i = 0; i < count; ++i) {
      values[i] /= static_cast<Real>(steps_done);
    }
    const uint16_t weight = static_cast<uint16_t>(150 + 10 * device);
    require(add_update(&fold, kScaleLog2, {values, count}, weight, 0, terms));
    weight_sum += weight;
  }
  const Encoding encoding = kEncodings[round % 3];
  require(fold.finish(weight_sum, out));
  require(encode_values(encoding, kScalarCount, out, bytes));
  require(decode_values(encoding, kScalarCount, bytes, encoded_size(encoding, kScalarCount), out));
}

DirectionSpec round_directions(uint32_t round) {
  return {.seed = 42, .base_version = round, .direction_count = kDirectionCount};
}

// X <- P_M(X - step sum), once from many points.
void hash_model_step(Report& report) {
  Hash hash;
  Real coefficients[kScalarCount];
  for (const ManifoldOps* ops : {&kStiefelOps, &kSphereOps, &kEuclideanOps}) {
    const Shape shape = ops == &kSphereOps ? kSphereShape : kStiefelShape;
    for (uint32_t number = 0; number < 5; ++number) {
      fill_point(*ops, shape, 51 + number, x);
      Arena arena(memory, sizeof(memory));
      Replica replica;
      require(replica.prepare(*ops, shape, arena));
      copy(shape.size(), x, replica.begin_snapshot());
      replica.adopt_snapshot(number);
      fold_round(number, coefficients);
      require(replica.begin_record());
      require(replica.add_to_record(round_directions(number), 0, kScalarCount, coefficients, arena));
      require(replica.finish_record(kDirectionCount, GS_DIGEST_STEP, arena));
      hash.add(replica.digest());
    }
  }
  report.line("model_step", hash);
}

void hash_projection(Report& report, const char* name, const ManifoldOps& ops, Shape shape) {
  constexpr Real kSizes[] = {1, 1e-3F, 1e3F, 1e-10F};
  Arena arena(memory, sizeof(memory));
  Hash hash;
  for (uint32_t number = 0; number < 20; ++number) {
    fill_values(61, number, shape.size(), kSizes[number % 4], y);
    hash.add(ops.project_point(shape, y, x, arena));  // far from the manifold
    hash.add(shape.size(), x);
    fill_values(62, number, shape.size(), 0.05F, v);
    add_scaled(shape.size(), 1, v, x);
    hash.add(ops.project_point(shape, x, x, arena));  // near it
    hash.add(shape.size(), x);
  }
  report.line(name, hash);
}

// A walk by retractions from the point in x, with a vector carried along.
void hash_walk(Report& report, const char* name, const ManifoldOps& ops, Shape shape) {
  Hash hash;
  Arena arena(memory, sizeof(memory));
  fill_values(72, 0, shape.size(), 1, w);
  require(ops.project_tangent(shape, x, w, w, arena));
  for (uint32_t step = 0; step < 40; ++step) {
    fill_values(73, step, shape.size(), 0.1F, v);
    require(ops.project_tangent(shape, x, v, v, arena));
    hash.add(shape.size(), v);
    require(ops.retract(shape, x, v, y, arena));
    hash.add(shape.size(), y);
    require(ops.transport(shape, x, y, w, w, arena));
    hash.add(shape.size(), w);
    copy(shape.size(), y, x);
  }
  report.line(name, hash);
}

void hash_tangent(Report& report, const char* name, const ManifoldOps& ops, Shape shape) {
  fill_point(ops, shape, 71, x);
  hash_walk(report, name, ops, shape);
}

// Symmetric positive definite: P_M of numbers is none, so the walk starts near a multiple of the identity.
void hash_spd(Report& report) {
  constexpr Shape kSpdShape = {12, 12};
  Arena arena(memory, sizeof(memory));
  fill_values(74, 0, kSpdShape.size(), 0.1F, x);
  for (size_t i = 0; i < kSpdShape.rows; ++i) {
    x[i * kSpdShape.cols + i] += 2;
  }
  require(kSpdSecondOrderOps.project_point(kSpdShape, x, x, arena));
  hash_walk(report, "tangent_spd_second_order", kSpdSecondOrderOps, kSpdShape);
}

void hash_fixed_rank(Report& report) {
  const Parts parts = fixed_rank_parts(20, 14, 3);
  hash_projection(report, "projection_fixed_rank", kFixedRankOps, fixed_rank_shape(parts));
  hash_tangent(report, "tangent_fixed_rank", kFixedRankOps, fixed_rank_shape(parts));
}

void hash_replay(Report& report, const char* name, const ManifoldOps& ops, Shape shape) {
  fill_point(ops, shape, 81, x);
  Arena arena(memory, sizeof(memory));
  Replica replica;
  Hash hash;
  Real coefficients[kScalarCount];
  require(replica.prepare(ops, shape, arena));
  copy(shape.size(), x, replica.begin_snapshot());
  replica.adopt_snapshot(0);
  for (uint32_t round = 0; round < kRoundCount; ++round) {
    fold_round(round, coefficients);
    require(replica.begin_record());
    require(replica.add_to_record(round_directions(round), 0, kScalarCount, coefficients, arena));
    require(replica.finish_record(kDirectionCount, GS_DIGEST_STEP / (1 + 0.1F * static_cast<Real>(round)), arena));
    hash.add(replica.digest());
  }
  hash.add(uint64_t{replica.version()});
  report.line(name, hash);
}

// A layer of fixed rank and its biases, as parts of a product.
void hash_layer_of_rank(Report& report) {
  const Parts factors = fixed_rank_parts(20, 14, 3);
  const Parts parts = {2, {{&kFixedRankOps, fixed_rank_shape(factors)}, {&kEuclideanOps, {14, 1}}}};
  const Shape shape = {37 * 3 + 14, 1, &parts};
  hash_projection(report, "projection_rank_part", kProductOps, shape);
  hash_tangent(report, "tangent_rank_part", kProductOps, shape);
  hash_replay(report, "replay_rank_part", kProductOps, shape);
}

// The other reproducible manifolds and variants. 7 and 9 columns: what does not fit whole vectors of four.
void hash_more_manifolds(Report& report) {
  hash_projection(report, "projection_oblique", kObliqueOps, {30, 7});
  hash_tangent(report, "tangent_oblique", kObliqueOps, {30, 7});
  hash_replay(report, "replay_oblique", kObliqueOps, kStiefelShape);
  hash_projection(report, "projection_grassmann", kGrassmannOps, {28, 9});
  hash_tangent(report, "tangent_grassmann", kGrassmannOps, {28, 9});
  hash_tangent(report, "tangent_grassmann_parallel", kGrassmannParallelOps, {36, 7});
  hash_replay(report, "replay_grassmann", kGrassmannOps, kStiefelShape);
  hash_tangent(report, "tangent_stiefel_qr", kStiefelQrOps, {36, 7});
  hash_tangent(report, "tangent_stiefel_smooth", kStiefelQrSmoothOps, {28, 9});
  hash_tangent(report, "tangent_stiefel_householder", kStiefelHouseholderOps, {28, 9});
  hash_tangent(report, "tangent_hyperbolic_projection", kHyperbolicProjectionOps, {6, 1});
  hash_spd(report);
  hash_fixed_rank(report);
  hash_layer_of_rank(report);
}

// The server's step of a dense run.
void hash_dense_replay(Report& report) {
  fill_point(kStiefelOps, kStiefelShape, 91, x);
  Arena arena(memory, sizeof(memory));
  Replica replica;
  Hash hash;
  require(replica.prepare(kStiefelOps, kStiefelShape, arena));
  copy(kStiefelShape.size(), x, replica.begin_snapshot());
  replica.adopt_snapshot(0);
  for (uint32_t round = 0; round < kRoundCount; ++round) {
    fill_values(92, round, kStiefelShape.size(), 1, v);
    require(kStiefelOps.project_tangent(kStiefelShape, replica.model(), v, v, arena));
    require(replica.step_tangent(v, 0.1F, arena));
    hash.add(replica.digest());
  }
  report.line("dense_replay", hash);
}

// ---- A device's own path -----------------------------------------------------------------------------------------

// Small whole numbers, so that the samples themselves are exact anywhere.
Status read_sample(const void*, uint32_t index, Real* out) {
  for (uint32_t i = 0; i < kStiefelShape.rows; ++i) {
    out[i] = static_cast<Real>((index * 31 + i * i * 7) % 17) - 8;
  }
  return Status::kOk;
}

void hash_local_steps(Report& report) {
  static const SampleSource source = {nullptr, 50, kStiefelShape.rows, read_sample};
  static const Problem problem = {&kKpcaOps, &source};
  static const ManifoldOps* const manifolds[] = {&kStiefelOps};
  static const EstimatorOps* const estimators[] = {&kProjectionOneSidedOps};
  static const SolverOps* const solvers[] = {&kSolverProjectionOps};
  const Registry registry = {manifolds, estimators, solvers, {&problem, 1}};
  Task task;
  task.sequence = 1;
  task.version = 3;
  task.solver = SolverId::kProjection;
  task.manifold = ManifoldId::kStiefel;
  task.shape = kStiefelShape;
  task.seed = 7;
  task.client_index = 2;
  task.local_step_count = kStepCount;
  task.step_size = 1e-4F;
  task.encoding = Encoding::kF32;
  std::strcpy(task.problem, "kpca");
  task.estimator.id = EstimatorId::kProjectionOneSided;
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = 32;
  task.estimator.smoothing = 0.01F;
  task.estimator.directions.direction_count = kDirectionCount;
  fill_point(kStiefelOps, kStiefelShape, 101, x);
  Arena arena(memory, sizeof(memory));
  SolverRun run;
  GradientStream stream;
  require(begin_solver(registry, task, x, nullptr, &run, arena));
  for (uint32_t step = 0; step < kStepCount; ++step) {
    require(run.ops->step(run, arena));
  }
  require(run.ops->finish(run, &stream));
  Hash hash;
  hash.add(stream.value_count, stream.values);
  report.line("~local_steps", hash);
}

// Losses over bytes: the same on every processor, so that boards and native clients of a run come to one digest.
void hash_byte_losses(Report& report) {
  constexpr uint32_t kBytesRows = 257;
  constexpr uint32_t kBytesCount = 7;
  constexpr Shape kBytesShapes[] = {{64, 4}, {63, 3}, {13, 1}, {30, 2}, {32, 7}, {kBytesRows, 2}};
  static uint8_t values[kBytesCount * kBytesRows + 1];
  static float mean[kBytesRows];
  static UnitsColumn columns[kBytesRows];
  static float point[2 * kBytesRows];
  RandomStream stream({.seed = 110});
  for (uint8_t& value : values) {
    value = static_cast<uint8_t>(stream.next());
  }
  fill_values(111, 0, kBytesRows, 3, mean);
  fill_values(112, 0, 2 * kBytesRows, 1, point);
  for (uint32_t r = 0; r < kBytesRows; ++r) {
    columns[r] = {8, mean[r], 0x1p-9F * static_cast<float>(1 + r * r % 300)};
  }
  Hash hash;
  Arena arena(memory, sizeof(memory));
  for (const Shape shape : kBytesShapes) {
    const SampleBytes bytes = {values + shape.cols % 2, mean, 0x1.9p-6F};
    const SampleSource source = {nullptr, kBytesCount, shape.rows, nullptr, &bytes};  // nobody reads a float
    const Units units = {columns, shape.rows};
    for (const Units* const taken : {static_cast<const Units*>(nullptr), &units}) {
      Batch batch = {nullptr, kBytesCount};
      batch.units = taken;
      const Result<Real> loss = kKpcaOps.loss(&source, shape, point, batch, arena);
      require(loss.status());
      hash.add(1, &loss.value());
    }
  }
  report.line("byte_losses", hash);
}

// Losses along directions, beside points of as many columns as they serve: the same bits, as above.
void hash_losses_along(Report& report) {
  constexpr uint32_t kAlongRows = 200;
  constexpr uint32_t kAlongCount = 7;
  constexpr Shape kAlongShapes[] = {{64, 4}, {63, 3}, {kAlongRows, 1}, {30, 2}, {33, 7}, {32, 8}};
  static uint8_t values[kAlongCount * kAlongRows];
  static float mean[kAlongRows];
  RandomStream stream({.seed = 113});
  for (uint8_t& value : values) {
    value = static_cast<uint8_t>(stream.next());
  }
  fill_values(114, 0, kAlongRows, 3, mean);
  const SampleBytes bytes = {values, mean, 0x1.9p-6F};
  Hash hash;
  for (const Shape shape : kAlongShapes) {
    const SampleSource source = {nullptr, kAlongCount, shape.rows, nullptr, &bytes};
    fill_point(kStiefelOps, shape, 115, x);
    Arena arena(memory, sizeof(memory));
    const size_t size = kKpcaOps.along_size(&source, shape, kAlongCount);
    const Result<uint8_t*> along = arena.scratch<uint8_t>(size);
    require(along.status());
    std::memset(along.value(), 0, size);
    for (uint32_t number = 0; number < 2; ++number) {
      uint32_t signs[kTensorMax / 32];
      for (uint32_t& word : signs) {
        word = stream.next();
      }
      for (const Real distance : {0.001F, -0.001F, 0.03F}) {
        const SignDisplacement point = {x, signs, number, distance};
        const Result<Real> loss =
            kKpcaOps.loss_along(&source, shape, point, {nullptr, kAlongCount}, along.value(), arena);
        require(loss.status());
        hash.add(1, &loss.value());
      }
    }
  }
  report.line("losses_along", hash);
}

int run_all() {
  if (!keeps_subnormals()) {
    console_write("error: this processor flushes subnormal numbers to zero: its replica would drift\n");
    return 1;
  }
  Report report;
  hash_numbers(report);
  hash_random(report);
  hash_directions(report);
  hash_encoding(report, "encoding_f32", Encoding::kF32);
  hash_encoding(report, "encoding_bf16", Encoding::kBf16);
  hash_encoding(report, "encoding_int8", Encoding::kInt8);
  hash_fold(report);
  hash_model_step(report);
  hash_projection(report, "projection_stiefel", kStiefelOps, kStiefelShape);
  hash_projection(report, "projection_sphere", kSphereOps, kSphereShape);
  hash_tangent(report, "tangent_stiefel", kStiefelOps, kStiefelShape);
  hash_tangent(report, "tangent_sphere", kSphereOps, kSphereShape);
  hash_replay(report, "replay_stiefel", kStiefelOps, kStiefelShape);
  hash_replay(report, "replay_sphere", kSphereOps, kSphereShape);
  hash_dense_replay(report);
  hash_more_manifolds(report);
  hash_byte_losses(report);
  hash_losses_along(report);
  Hash kernels;
  kernels.add(testing::kernel_hash());
  report.line("kernels", kernels);
  hash_local_steps(report);
  report.finish();
  return 0;
}

}  // namespace
}  // namespace gradstream

int main() { return gradstream::run_all(); }
