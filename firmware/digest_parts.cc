#include "runtime/base/no_contraction.h"

#include "firmware/digest_parts.h"

#include <bit>
#include <cstring>
#include <iterator>

#include "runtime/base/crc32c.h"
#include "runtime/base/products.h"
#include "runtime/base/random.h"
#include "runtime/base/units.h"
#include "runtime/manifold/fixed_rank.h"
#include "runtime/problem/problem.h"
#include "runtime/training/solver.h"

namespace gradstream {
namespace {

constexpr Shape kStiefelShape = {64, 4};
constexpr Shape kSphereShape = {40, 1};
constexpr Encoding kEncodings[] = {Encoding::kF32, Encoding::kBf16, Encoding::kInt8};
constexpr const char* kEncodingParts[] = {"encoding_f32", "encoding_bf16", "encoding_int8"};

// Small whole numbers, so that the samples themselves are exact anywhere.
Status read_sample(const void*, uint32_t index, Real* out) {
  for (uint32_t i = 0; i < kStiefelShape.rows; ++i) {
    out[i] = static_cast<Real>((index * 31 + i * i * 7) % 17) - 8;
  }
  return Status::kOk;
}

// Until the arena is reset, at the part's end.
template <typename T>
T* take(DigestWork& work, size_t count) {
  const Result<T*> taken = work.arena.persistent<T>(count);
  require(taken.status());
  return taken.value();
}

void fill_bytes(uint32_t seed, size_t count, uint8_t* out) {
  RandomStream stream({.seed = seed});
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>(stream.next());
  }
}

DirectionSpec round_directions(uint32_t round) {
  return {.seed = 42, .base_version = round, .direction_count = ReplaySpec::kDirectionCount};
}

// The replica's digests, one for each round, then its version.
DigestHash replay(DigestWork& work, const ReplaySpec& spec) {
  fill_point(work, *spec.ops, spec.shape, 81, work.x);
  Replica replica;
  DigestHash hash;
  Real coefficients[ReplaySpec::kScalarCount];
  require(replica.prepare(*spec.ops, spec.shape, work.arena));
  copy(spec.shape.size(), work.x, replica.begin_snapshot());
  replica.adopt_snapshot(0);
  for (uint32_t round = 0; round < spec.round_count; ++round) {
    spec.fill_record(spec.seed, round, coefficients);
    require(replica.begin_record());
    require(replica.add_to_record(round_directions(round), 0, ReplaySpec::kScalarCount, coefficients, work.arena));
    require(replica.finish_record(ReplaySpec::kDirectionCount, spec.step_size / (1 + 0.1F * static_cast<Real>(round)),
                                  work.arena));
    hash.add(replica.digest());
  }
  hash.add(uint64_t{replica.version()});
  work.arena.reset();
  return hash;
}

}  // namespace

void DigestHash::add(uint64_t word) {
  for (int byte = 0; byte < 8; ++byte) {
    add_byte(static_cast<uint8_t>(word >> (8 * byte)));
  }
}

void DigestHash::add(size_t count, const uint8_t* bytes) {
  for (size_t i = 0; i < count; ++i) {
    add_byte(bytes[i]);
  }
}

void DigestHash::add(size_t count, const Real* x) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]);
    for (int byte = 0; byte < 4; ++byte) {
      add_byte(static_cast<uint8_t>(bits >> (8 * byte)));
    }
  }
}

void DigestWork::line(const char* name, const DigestHash& hash) {
  if (name[0] != '~') {
    total_.add(hash.value());
  }
  if (sink_ != nullptr) {
    sink_(name, hash.value());
  }
}

void fill_values(uint32_t seed, uint32_t step, size_t count, Real size, Real* out) {
  RandomStream stream({.seed = seed, .domain = RandomDomain::kData, .step = step});
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<Real>(static_cast<int32_t>(stream.next())) * 0x1p-31F * size;
  }
}

void fill_point(DigestWork& work, const ManifoldOps& ops, Shape shape, uint32_t seed, Real* out) {
  fill_values(seed, 0, shape.size(), 1, out);
  require(ops.project_point(shape, out, out, work.arena));
}

// Results of single operations on numbers near the ends of the range. volatile keeps the compiler from answering.
void hash_numbers(DigestWork& work) {
  volatile float smallest_normal = 0x1p-126F;
  volatile float smallest = 0x1p-149F;
  volatile float third = 3;
  const Real results[] = {
      smallest_normal / 2, smallest * 2, smallest_normal - smallest, smallest_normal / third, 1 / third,
      -1 / third,          smallest / 2, smallest_normal * smallest};
  DigestHash hash;
  hash.add(sizeof(results) / sizeof(results[0]), results);
  work.line("numbers", hash);
}

void hash_random(DigestWork& work) {
  DigestHash hash;
  for (uint32_t domain = 0; domain < 6; ++domain) {
    RandomStream stream({.seed = 7, .domain = static_cast<RandomDomain>(domain), .version = 3, .owner = 5, .step = 2});
    for (int i = 0; i < 100; ++i) {
      hash.add(stream.next());
    }
  }
  uint16_t chosen[200];
  choose({.seed = 7, .domain = RandomDomain::kMinibatch, .version = 3}, 200, 32, chosen);
  for (int i = 0; i < 32; ++i) {
    hash.add(uint64_t{chosen[i]});
  }
  work.line("random", hash);
}

void hash_directions(DigestWork& work) {
  constexpr Shape kShapes[] = {{64, 4}, {40, 1}, {1, 1}, {5, 3}, {33, 1}, {32, 1}, {7, 9}};
  DigestHash hash;
  uint32_t number = 0;
  for (const Shape shape : kShapes) {
    const DirectionSpec spec = {.shared = number % 2 == 0,
                                .seed = 11 + number,
                                .base_version = number * 1000,
                                .owner = number,
                                .direction_count = 3 + number};
    fill_zero(shape.size(), work.y);
    fill_values(number, 1, 24, 1, work.v);
    for (uint32_t q = 0; q < 24; ++q) {
      fill_direction(spec, shape, q / spec.direction_count, q % spec.direction_count, work.x);
      hash.add(shape.size(), work.x);
    }
    // In two pieces, as frames bring them.
    require(accumulate_directions(spec, shape, 0, 10, work.v, work.y, work.arena));
    require(accumulate_directions(spec, shape, 10, 14, work.v + 10, work.y, work.arena));
    hash.add(shape.size(), work.y);
    ++number;
  }
  work.line("directions", hash);
}

void hash_encoding(DigestWork& work, const char* name, Encoding encoding) {
  constexpr uint32_t kCount = 100;  // three whole blocks of int8 and a short one
  constexpr Real kSizes[] = {1, 1e-3F, 3e4F, 1e-30F, 0x1p-130F, 0};
  uint8_t bytes[4 * kCount];
  DigestHash hash;
  uint32_t number = 0;
  for (const Real size : kSizes) {
    fill_values(21, ++number, kCount, size, work.v);
    const size_t encoded = encoded_size(encoding, kCount);
    hash.add(encode_values(encoding, kCount, work.v, bytes));
    hash.add(encoded, bytes);
    hash.add(uint64_t{crc32c(0, bytes, encoded)});
    hash.add(decode_values(encoding, kCount, bytes, encoded, work.w));
    hash.add(kCount, work.w);
  }
  work.line(name, hash);
}

void hash_projection(DigestWork& work, const char* name, const ManifoldOps& ops, Shape shape) {
  constexpr Real kSizes[] = {1, 1e-3F, 1e3F, 1e-10F};
  DigestHash hash;
  for (uint32_t number = 0; number < 20; ++number) {
    fill_values(61, number, shape.size(), kSizes[number % 4], work.y);
    hash.add(ops.project_point(shape, work.y, work.x, work.arena));  // far from the manifold
    hash.add(shape.size(), work.x);
    fill_values(62, number, shape.size(), 0.05F, work.v);
    add_scaled(shape.size(), 1, work.v, work.x);
    hash.add(ops.project_point(shape, work.x, work.x, work.arena));  // near it
    hash.add(shape.size(), work.x);
  }
  work.line(name, hash);
}

// A walk by retractions from the point in work.x, with a vector carried along.
void hash_walk(DigestWork& work, const char* name, const ManifoldOps& ops, Shape shape) {
  DigestHash hash;
  fill_values(72, 0, shape.size(), 1, work.w);
  require(ops.project_tangent(shape, work.x, work.w, work.w, work.arena));
  for (uint32_t step = 0; step < 40; ++step) {
    fill_values(73, step, shape.size(), 0.1F, work.v);
    require(ops.project_tangent(shape, work.x, work.v, work.v, work.arena));
    hash.add(shape.size(), work.v);
    require(ops.retract(shape, work.x, work.v, work.y, work.arena));
    hash.add(shape.size(), work.y);
    require(ops.transport(shape, work.x, work.y, work.w, work.w, work.arena));
    hash.add(shape.size(), work.w);
    copy(shape.size(), work.y, work.x);
  }
  work.line(name, hash);
}

void hash_tangent(DigestWork& work, const char* name, const ManifoldOps& ops, Shape shape) {
  fill_point(work, ops, shape, 71, work.x);
  hash_walk(work, name, ops, shape);
}

// Symmetric positive definite: P_M of numbers is none, so the walk starts near a multiple of the identity.
void hash_spd(DigestWork& work) {
  constexpr Shape kSpdShape = {12, 12};
  fill_values(74, 0, kSpdShape.size(), 0.1F, work.x);
  for (size_t i = 0; i < kSpdShape.rows; ++i) {
    work.x[i * kSpdShape.cols + i] += 2;
  }
  require(kSpdSecondOrderOps.project_point(kSpdShape, work.x, work.x, work.arena));
  hash_walk(work, "tangent_spd_second_order", kSpdSecondOrderOps, kSpdShape);
}

void hash_local_steps(DigestWork& work) {
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
  task.local_step_count = ReplaySpec::kStepCount;
  task.step_size = 1e-4F;
  task.encoding = Encoding::kF32;
  std::strcpy(task.problem, "kpca");
  task.estimator.id = EstimatorId::kProjectionOneSided;
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = 32;
  task.estimator.smoothing = 0.01F;
  task.estimator.directions.direction_count = ReplaySpec::kDirectionCount;
  fill_point(work, kStiefelOps, kStiefelShape, 101, work.x);
  SolverRun run;
  GradientStream stream;
  require(begin_solver(registry, task, work.x, nullptr, &run, work.arena));
  for (uint32_t step = 0; step < ReplaySpec::kStepCount; ++step) {
    require(run.ops->step(run, work.arena));
  }
  require(run.ops->finish(run, &stream));
  DigestHash hash;
  hash.add(stream.value_count, stream.values);
  work.line("~local_steps", hash);
  work.arena.reset();
}

// Losses over bytes: the same on every processor, so that boards and native clients of a run come to one digest.
void hash_byte_losses(DigestWork& work) {
  constexpr uint32_t kBytesRows = 257;
  constexpr uint32_t kBytesCount = 7;
  constexpr Shape kBytesShapes[] = {{64, 4}, {63, 3}, {13, 1}, {30, 2}, {32, 7}, {kBytesRows, 2}};
  uint8_t* const values = take<uint8_t>(work, kBytesCount * kBytesRows + 1);
  float* const mean = take<float>(work, kBytesRows);
  UnitsColumn* const columns = take<UnitsColumn>(work, kBytesRows);
  float* const point = take<float>(work, 2 * kBytesRows);
  fill_bytes(110, kBytesCount * kBytesRows + 1, values);
  fill_values(111, 0, kBytesRows, 3, mean);
  fill_values(112, 0, 2 * kBytesRows, 1, point);
  for (uint32_t r = 0; r < kBytesRows; ++r) {
    columns[r] = {8, mean[r], 0x1p-9F * static_cast<float>(1 + r * r % 300)};
  }
  DigestHash hash;
  for (const Shape shape : kBytesShapes) {
    const SampleBytes bytes = {values + shape.cols % 2, mean, 0x1.9p-6F};
    const SampleSource source = {nullptr, kBytesCount, shape.rows, nullptr, &bytes};  // nobody reads a float
    const Units units = {columns, shape.rows};
    for (const Units* const taken : {static_cast<const Units*>(nullptr), &units}) {
      Batch batch = {nullptr, kBytesCount};
      batch.units = taken;
      const Result<Real> loss = kKpcaOps.loss(&source, shape, point, batch, work.arena);
      require(loss.status());
      hash.add(1, &loss.value());
    }
  }
  work.line("byte_losses", hash);
  work.arena.reset();
}

// Losses along directions, beside points of as many columns as they serve: the same bits, as above.
void hash_losses_along(DigestWork& work) {
  constexpr uint32_t kAlongRows = 200;
  constexpr uint32_t kAlongCount = 7;
  constexpr Shape kAlongShapes[] = {{64, 4}, {63, 3}, {kAlongRows, 1}, {30, 2}, {33, 7}, {32, 8}};
  uint8_t* const values = take<uint8_t>(work, kAlongCount * kAlongRows);
  float* const mean = take<float>(work, kAlongRows);
  RandomStream stream({.seed = 113});
  for (uint32_t i = 0; i < kAlongCount * kAlongRows; ++i) {
    values[i] = static_cast<uint8_t>(stream.next());
  }
  fill_values(114, 0, kAlongRows, 3, mean);
  const SampleBytes bytes = {values, mean, 0x1.9p-6F};
  DigestHash hash;
  for (const Shape shape : kAlongShapes) {
    const SampleSource source = {nullptr, kAlongCount, shape.rows, nullptr, &bytes};
    fill_point(work, kStiefelOps, shape, 115, work.x);
    const ScratchScope scope(work.arena);
    const size_t size = kKpcaOps.along_size(&source, shape, kAlongCount);
    const Result<uint8_t*> along = work.arena.scratch<uint8_t>(size);
    require(along.status());
    std::memset(along.value(), 0, size);
    for (uint32_t number = 0; number < 2; ++number) {
      uint32_t signs[DigestWork::kTensorMax / 32];
      for (uint32_t& word : signs) {
        word = stream.next();
      }
      for (const Real distance : {0.001F, -0.001F, 0.03F}) {
        const SignDisplacement point = {work.x, signs, number, distance};
        const Result<Real> loss =
            kKpcaOps.loss_along(&source, shape, point, {nullptr, kAlongCount}, along.value(), work.arena);
        require(loss.status());
        hash.add(1, &loss.value());
      }
    }
  }
  work.line("losses_along", hash);
  work.arena.reset();
}

void hash_replay(DigestWork& work, const char* name, const ReplaySpec& spec) { work.line(name, replay(work, spec)); }

void hash_device_parts(DigestWork& work, void (*rest)()) {
  hash_numbers(work);
  hash_random(work);
  hash_directions(work);
  for (size_t i = 0; i < std::size(kEncodings); ++i) {
    hash_encoding(work, kEncodingParts[i], kEncodings[i]);
  }
  rest();
  hash_projection(work, "projection_stiefel", kStiefelOps, kStiefelShape);
  hash_projection(work, "projection_sphere", kSphereOps, kSphereShape);
  hash_tangent(work, "tangent_stiefel", kStiefelOps, kStiefelShape);
  hash_tangent(work, "tangent_sphere", kSphereOps, kSphereShape);
  rest();
  hash_projection(work, "projection_oblique", kObliqueOps, {30, 7});
  hash_tangent(work, "tangent_oblique", kObliqueOps, {30, 7});
  rest();
  hash_projection(work, "projection_grassmann", kGrassmannOps, {28, 9});
  hash_tangent(work, "tangent_grassmann", kGrassmannOps, {28, 9});
  rest();
  hash_tangent(work, "tangent_hyperbolic_projection", kHyperbolicProjectionOps, {6, 1});
  hash_spd(work);
  rest();
  const Parts factors = fixed_rank_parts(20, 14, 3);
  hash_projection(work, "projection_fixed_rank", kFixedRankOps, fixed_rank_shape(factors));
  hash_tangent(work, "tangent_fixed_rank", kFixedRankOps, fixed_rank_shape(factors));
  rest();
  hash_byte_losses(work);
  hash_losses_along(work);
  rest();
}

uint64_t challenge_hash(DigestWork& work, uint32_t nonce) {
  constexpr uint32_t kRoundCount = 20;
  constexpr Real kStepSize = 0x1.47ae14p-7F;  // 0.01
  const auto of_nonce = [](uint32_t seed, uint32_t round, Real* out) {
    fill_values(seed, round, ReplaySpec::kScalarCount, 2, out);
  };
  return replay(work, {&kStiefelOps, kStiefelShape, kRoundCount, kStepSize, of_nonce, nonce}).value();
}

}  // namespace gradstream
