#include "runtime/base/no_contraction.h"

#include "runtime/base/random.h"

#include <cmath>

#include "runtime/base/status.h"

namespace gradstream {
namespace {

// Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kKeyStep0 = 0x9E3779B9;
constexpr uint32_t kKeyStep1 = 0xBB67AE85;
constexpr int kRoundCount = 10;
constexpr uint64_t kBlockWordCount = 4;

constexpr Real kTwoPi = static_cast<Real>(6.283185307179586476925286766559);

// The next two normals of a stream that stands at an even word.
struct NormalPair {
  Real first;
  Real second;
};

NormalPair normal_pair(RandomStream& stream) {
  const Real u0 = static_cast<Real>(stream.next_uniform());
  const Real u1 = static_cast<Real>(stream.next_uniform());
  const Real radius = std::sqrt(static_cast<Real>(-2) * std::log(u0));
  const Real angle = kTwoPi * u1;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// The index is as wide as a fleet or a set of samples needs.
template <typename Index>
void choose_of_entries(const RandomKey& key, uint32_t n, uint32_t m, Index* work) {
  GS_ASSERT(m <= n);
  RandomStream stream(key);
  for (uint32_t i = 0; i < m; ++i) {
    const uint32_t j = i + static_cast<uint32_t>((static_cast<uint64_t>(stream.next()) * (n - i)) >> 32);
    const Index chosen = work[j];
    work[j] = work[i];
    work[i] = chosen;
  }
}

template <typename Index>
void choose_among(const RandomKey& key, uint32_t n, uint32_t m, Index* work) {
  for (uint32_t i = 0; i < n; ++i) {
    work[i] = static_cast<Index>(i);
  }
  choose_of_entries(key, n, m, work);
}

}  // namespace

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < kRoundCount; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * c0;
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += kKeyStep0;
    k1 += kKeyStep1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

void philox_block(const RandomKey& key, uint32_t block, uint32_t out[4]) {
  const uint32_t counter[4] = {block, key.version, key.owner, key.step};
  const uint32_t key_words[2] = {key.seed, static_cast<uint32_t>(key.domain)};
  philox4x32(counter, key_words, out);
}

RandomStream::RandomStream(const RandomKey& key, uint64_t first) : key_(key), index_(first), block_{} {
  if (index_ % kBlockWordCount != 0) {
    philox_block(key_, static_cast<uint32_t>(index_ / kBlockWordCount), block_);
  }
}

uint32_t RandomStream::next() {
  const uint64_t place = index_ % kBlockWordCount;
  if (place == 0) {
    philox_block(key_, static_cast<uint32_t>(index_ / kBlockWordCount), block_);
  }
  ++index_;
  return block_[place];
}

void fill_normal(const RandomKey& key, uint64_t first, size_t count, Real* out) {
  RandomStream stream(key, first & ~static_cast<uint64_t>(1));
  size_t i = 0;
  if (first % 2 != 0 && count > 0) {
    out[i++] = normal_pair(stream).second;
  }
  while (i < count) {
    const NormalPair pair = normal_pair(stream);
    out[i++] = pair.first;
    if (i < count) {
      out[i++] = pair.second;
    }
  }
}

void choose(const RandomKey& key, uint32_t n, uint32_t m, uint16_t* work) {
  GS_ASSERT(n <= kSampleCountMax);
  choose_among(key, n, m, work);
}

void choose(const RandomKey& key, uint32_t n, uint32_t m, uint32_t* work) { choose_among(key, n, m, work); }

void choose_of(const RandomKey& key, uint32_t n, uint32_t m, uint16_t* work) { choose_of_entries(key, n, m, work); }

}  // namespace gradstream
