// The replicated arithmetic in numbers: one hash for each part of what server and devices must compute bit for bit the
// same. The same source runs on every processor; tools/digest.py builds, runs and compares. No heap, so that a
// Cortex-M runs it as it stands.
//
// Output: `name hash` lines. `total` is over all of them but those that begin with '~': these belong to a device's own
// path and may differ. Exit status 1 when the processor flushes subnormal numbers to zero or a step fails.
#include <cstddef>
#include <cstdint>

#include "firmware/digest_parts.h"
#include "runtime/base/arithmetic.h"
#include "runtime/base/products.h"
#include "runtime/base/status.h"
#include "runtime/manifold/fixed_rank.h"
#include "runtime/manifold/manifold.h"
#include "runtime/training/encoding.h"
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
constexpr uint32_t kDirectionCount = ReplaySpec::kDirectionCount;
constexpr uint32_t kStepCount = ReplaySpec::kStepCount;
constexpr uint32_t kScalarCount = ReplaySpec::kScalarCount;
constexpr uint32_t kDeviceCount = 9;
constexpr uint32_t kRoundCount = 200;
constexpr unsigned kScaleLog2 = 24;
constexpr Encoding kEncodings[] = {Encoding::kF32, Encoding::kBf16, Encoding::kInt8};

// A line on the console.
void write_line(const char* name, uint64_t value) {
  char digits[] = " 0123456789abcdef\n";
  for (int i = 0; i < 16; ++i) {
    digits[1 + i] = "0123456789abcdef"[(value >> (60 - 4 * i)) & 15];
  }
  console_write(name);
  console_write(digits);
}

// ---- What the server adds ----------------------------------------------------------------------------------------

void hash_fold(DigestWork& work) {
  FoldSlot slots[kScalarCount];
  FoldTerm terms[kScalarCount];
  Fold fold(slots, kScaleLog2);
  DigestHash hash;
  uint32_t weight_sum = 0;
  for (uint32_t device = 0; device < 40; ++device) {
    const uint16_t weight = static_cast<uint16_t>(1 + device * device * 40);
    const uint32_t first = device % 7;
    fill_values(31, device, kScalarCount, device % 5 == 0 ? 100 : 1, work.v);
    require(add_update(&fold, kScaleLog2, {work.v + first, kScalarCount - first}, weight, first, terms));
    weight_sum += weight;
    require(fold.finish(weight_sum, work.w));
    hash.add(kScalarCount, work.w);
  }
  const Real ties[] = {0.5F, -0.5F, 1.5F, -1.5F, 0x1p30F, -0x1p30F};
  FoldSlot few[6];
  Fold whole(few, 0);
  require(add_update(&whole, 0, ties, 3, 0, terms));
  require(whole.finish(2, work.w));
  hash.add(6, work.w);
  work.line("fold", hash);
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
void hash_model_step(DigestWork& work) {
  DigestHash hash;
  Real coefficients[kScalarCount];
  for (const ManifoldOps* ops : {&kStiefelOps, &kSphereOps, &kEuclideanOps}) {
    const Shape shape = ops == &kSphereOps ? kSphereShape : kStiefelShape;
    for (uint32_t number = 0; number < 5; ++number) {
      fill_point(work, *ops, shape, 51 + number, work.x);
      Replica replica;
      require(replica.prepare(*ops, shape, work.arena));
      copy(shape.size(), work.x, replica.begin_snapshot());
      replica.adopt_snapshot(number);
      fold_round(number, coefficients);
      require(replica.begin_record());
      require(replica.add_to_record(round_directions(number), 0, kScalarCount, coefficients, work.arena));
      require(replica.finish_record(kDirectionCount, GS_DIGEST_STEP, work.arena));
      hash.add(replica.digest());
      work.arena.reset();
    }
  }
  work.line("model_step", hash);
}

void replay_rounds(DigestWork& work, const char* name, const ManifoldOps& ops, Shape shape) {
  const auto of_fold = [](uint32_t, uint32_t round, Real* out) { fold_round(round, out); };
  hash_replay(work, name, {&ops, shape, kRoundCount, GS_DIGEST_STEP, of_fold});
}

// A layer of fixed rank and its biases, as parts of a product.
void hash_layer_of_rank(DigestWork& work) {
  const Parts factors = fixed_rank_parts(20, 14, 3);
  const Parts parts = {2, {{&kFixedRankOps, fixed_rank_shape(factors)}, {&kEuclideanOps, {14, 1}}}};
  const Shape shape = {37 * 3 + 14, 1, &parts};
  hash_projection(work, "projection_rank_part", kProductOps, shape);
  hash_tangent(work, "tangent_rank_part", kProductOps, shape);
  replay_rounds(work, "replay_rank_part", kProductOps, shape);
}

// The other reproducible manifolds and variants. 7 and 9 columns: what does not fit whole vectors of four.
void hash_more_manifolds(DigestWork& work) {
  hash_projection(work, "projection_oblique", kObliqueOps, {30, 7});
  hash_tangent(work, "tangent_oblique", kObliqueOps, {30, 7});
  replay_rounds(work, "replay_oblique", kObliqueOps, kStiefelShape);
  hash_projection(work, "projection_grassmann", kGrassmannOps, {28, 9});
  hash_tangent(work, "tangent_grassmann", kGrassmannOps, {28, 9});
  hash_tangent(work, "tangent_grassmann_parallel", kGrassmannParallelOps, {36, 7});
  replay_rounds(work, "replay_grassmann", kGrassmannOps, kStiefelShape);
  hash_tangent(work, "tangent_stiefel_qr", kStiefelQrOps, {36, 7});
  hash_tangent(work, "tangent_stiefel_smooth", kStiefelQrSmoothOps, {28, 9});
  hash_tangent(work, "tangent_stiefel_householder", kStiefelHouseholderOps, {28, 9});
  hash_tangent(work, "tangent_hyperbolic_projection", kHyperbolicProjectionOps, {6, 1});
  hash_spd(work);
  const Parts factors = fixed_rank_parts(20, 14, 3);
  hash_projection(work, "projection_fixed_rank", kFixedRankOps, fixed_rank_shape(factors));
  hash_tangent(work, "tangent_fixed_rank", kFixedRankOps, fixed_rank_shape(factors));
  hash_layer_of_rank(work);
}

// The server's step of a dense run.
void hash_dense_replay(DigestWork& work) {
  fill_point(work, kStiefelOps, kStiefelShape, 91, work.x);
  Replica replica;
  DigestHash hash;
  require(replica.prepare(kStiefelOps, kStiefelShape, work.arena));
  copy(kStiefelShape.size(), work.x, replica.begin_snapshot());
  replica.adopt_snapshot(0);
  for (uint32_t round = 0; round < kRoundCount; ++round) {
    fill_values(92, round, kStiefelShape.size(), 1, work.v);
    require(kStiefelOps.project_tangent(kStiefelShape, replica.model(), work.v, work.v, work.arena));
    require(replica.step_tangent(work.v, 0.1F, work.arena));
    hash.add(replica.digest());
  }
  work.line("dense_replay", hash);
  work.arena.reset();
}

int run_all() {
  if (!keeps_subnormals()) {
    console_write("error: this processor flushes subnormal numbers to zero: its replica would drift\n");
    return 1;
  }
  static DigestWork work(write_line);
  hash_numbers(work);
  hash_random(work);
  hash_directions(work);
  hash_encoding(work, "encoding_f32", Encoding::kF32);
  hash_encoding(work, "encoding_bf16", Encoding::kBf16);
  hash_encoding(work, "encoding_int8", Encoding::kInt8);
  hash_fold(work);
  hash_model_step(work);
  hash_projection(work, "projection_stiefel", kStiefelOps, kStiefelShape);
  hash_projection(work, "projection_sphere", kSphereOps, kSphereShape);
  hash_tangent(work, "tangent_stiefel", kStiefelOps, kStiefelShape);
  hash_tangent(work, "tangent_sphere", kSphereOps, kSphereShape);
  replay_rounds(work, "replay_stiefel", kStiefelOps, kStiefelShape);
  replay_rounds(work, "replay_sphere", kSphereOps, kSphereShape);
  hash_dense_replay(work);
  hash_more_manifolds(work);
  hash_byte_losses(work);
  hash_losses_along(work);
  DigestHash kernels;
  kernels.add(testing::kernel_hash());
  work.line("kernels", kernels);
  hash_local_steps(work);
  write_line("total", work.total());
  return 0;
}

}  // namespace
}  // namespace gradstream

int main() { return gradstream::run_all(); }
