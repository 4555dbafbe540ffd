// The arithmetic that replicas share, in numbers: a hash for each part of it that a device computes, bit for bit the
// same on every processor. tests/digest/digest_main.cc adds what the server computes, and ./run digest compares
// processors. A board's self-test (firmware/selftest.h) has these parts alone. No heap; 4 KB beside the arena.
#ifndef GRADSTREAM_FIRMWARE_DIGEST_PARTS_H_
#define GRADSTREAM_FIRMWARE_DIGEST_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/base/status.h"
#include "runtime/manifold/manifold.h"
#include "runtime/training/encoding.h"
#include "runtime/training/stream.h"

namespace gradstream {

// FNV-1a over bytes, least significant byte of a word first.
class DigestHash {
 public:
  void add(uint64_t word);
  void add(Status status) { add(static_cast<uint64_t>(status)); }
  void add(size_t count, const uint8_t* bytes);
  void add(size_t count, const Real* x);  // 32 bits each
  uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3; }
  uint64_t value_ = kDigestStart;
};

// Where the parts work, and what becomes of their hashes. Too large for a board's stack.
class DigestWork {
 public:
  using Sink = void (*)(const char* name, uint64_t hash);

  // Of the arena, bytes. Reason: what the hungriest part takes; a test holds it.
  static constexpr size_t kMemorySize = 10 * 1024;
  static constexpr size_t kTensorMax = 256;  // values of a tensor

  // sink is called at the end of each part; null: nobody wants to know.
  explicit DigestWork(Sink sink) : sink_(sink), arena(memory_, sizeof(memory_)) {}
  DigestWork(const DigestWork&) = delete;
  DigestWork& operator=(const DigestWork&) = delete;

  // The end of a part. One whose name begins with '~' belongs to a device's own path: it may differ between
  // processors, and the total leaves it out.
  void line(const char* name, const DigestHash& hash);
  // Over the hashes of the parts so far.
  uint64_t total() const { return total_.value(); }

 private:
  Sink sink_;
  DigestHash total_;
  alignas(kArenaAlignment) uint8_t memory_[kMemorySize];

 public:
  Arena arena;  // empty between two parts
  Real x[kTensorMax], y[kTensorMax], v[kTensorMax], w[kTensorMax];
};

// What cannot fail on a processor that computes as others do.
inline void require(Status status) { GS_ASSERT(status == Status::kOk); }

// Uniform in [-size, size]: words of Philox as numbers, without libm.
void fill_values(uint32_t seed, uint32_t step, size_t count, Real size, Real* out);
// A point of the manifold, in out.
void fill_point(DigestWork& work, const ManifoldOps& ops, Shape shape, uint32_t seed, Real* out);

// The parts. hash_walk() begins at the point in work.x; the last one is of a device's own path.
void hash_numbers(DigestWork& work);
void hash_random(DigestWork& work);
void hash_directions(DigestWork& work);
void hash_encoding(DigestWork& work, const char* name, Encoding encoding);
void hash_projection(DigestWork& work, const char* name, const ManifoldOps& ops, Shape shape);
void hash_tangent(DigestWork& work, const char* name, const ManifoldOps& ops, Shape shape);
void hash_walk(DigestWork& work, const char* name, const ManifoldOps& ops, Shape shape);
void hash_spd(DigestWork& work);
void hash_byte_losses(DigestWork& work);
void hash_losses_along(DigestWork& work);
void hash_local_steps(DigestWork& work);

// Records of rounds, one after the other, applied to a replica: 16 directions, 5 steps.
struct ReplaySpec {
  static constexpr uint32_t kDirectionCount = 16;
  static constexpr uint32_t kStepCount = 5;
  static constexpr uint32_t kScalarCount = kDirectionCount * kStepCount;
  const ManifoldOps* ops = nullptr;
  Shape shape = {};
  uint32_t round_count = 0;
  Real step_size = 0;
  void (*fill_record)(uint32_t seed, uint32_t round, Real* coefficients) = nullptr;  // kScalarCount of them
  uint32_t seed = 0;                                                                 // of fill_record
};
void hash_replay(DigestWork& work, const char* name, const ReplaySpec& spec);

// All parts of a device but the last, in one order, with `rest` called between them: DigestWork::total() is then the
// digest of a self-test. An image that leaves a manifold out has another program than this.
void hash_device_parts(DigestWork& work, void (*rest)());

// What nobody can have computed before they know the nonce: records of that nonce, applied to a replica.
uint64_t challenge_hash(DigestWork& work, uint32_t nonce);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_DIGEST_PARTS_H_
