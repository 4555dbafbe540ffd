// The shared random stream: Philox4x32-10 with an explicit (counter, key) layout, so that server, every device and an
// independent reference draw the very same numbers. Counter words (block, version, owner, step), key words (seed,
// domain). Known answers: tests/golden/random_vectors.h.
#ifndef GRADSTREAM_RUNTIME_BASE_RANDOM_H_
#define GRADSTREAM_RUNTIME_BASE_RANDOM_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"

namespace gradstream {

// Key word 1. Values are part of the wire (docs/wire.md) and of the reference; never renumber.
enum class RandomDomain : uint32_t {
  kData = 0,
  kInitialPoint = 1,
  kMinibatch = 2,  // owner = client's enrolment index
  kClientSampling = 3,
  kOwnDirections = 4,     // owner = client's enrolment index
  kSharedDirections = 5,  // owner = group
  kIterate = 6,           // owner = client's enrolment index: which local iterate is sent
};

// Names one stream of 2^34 words.
struct RandomKey {
  uint32_t seed = 0;
  RandomDomain domain = RandomDomain::kData;
  uint32_t version = 0;  // counter word 1: the base version of the update
  uint32_t owner = 0;    // counter word 2: client's enrolment index, or group
  uint32_t step = 0;     // counter word 3: local step
};

// Block `block` of Philox4x32-10 with the given key: 4 words.
void philox_block(const RandomKey& key, uint32_t block, uint32_t out[4]);

// Raw Philox4x32-10, for known-answer tests.
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

// Reads the stream of a key word by word from word index `first`.
class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key, uint64_t first = 0);
  uint32_t next();
  // (word + 0.5) / 2^32, in (0, 1).
  double next_uniform() { return (static_cast<double>(next()) + 0.5) / 4294967296.0; }

 private:
  RandomKey key_;
  uint64_t index_;
  uint32_t block_[4];
};

// Standard normals number first .. first + count - 1 of the key. Normals 2 i and 2 i + 1 are r cos(2 pi u1) and
// r sin(2 pi u1) with r = sqrt(-2 ln u0); u0 and u1 are the uniforms of words 2 i and 2 i + 1. Uses libm, and so is
// not reproducible between machines. The float build computes the uniforms in double, then rounds them to float before
// ln and cos.
void fill_normal(const RandomKey& key, uint64_t first, size_t count, Real* out);

// m of n without replacement: partial Fisher-Yates, j = i + ((word_i * (n - i)) >> 32), first m entries in that order.
// work: n entries, overwritten; the choice is work[0..m). Requires m <= n, and n <= kSampleCountMax for short entries.
void choose(const RandomKey& key, uint32_t n, uint32_t m, uint16_t* work);
void choose(const RandomKey& key, uint32_t n, uint32_t m, uint32_t* work);
// The same of the n entries that stand in work.
void choose_of(const RandomKey& key, uint32_t n, uint32_t m, uint16_t* work);  // for fleets of any size

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_RANDOM_H_
