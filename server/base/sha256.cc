#include "server/base/sha256.h"

#include <cstddef>
#include <cstring>

#include <mbedtls/sha256.h>

#include "runtime/base/status.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradstream {

Sha256Digest sha256_portable(std::span<const uint8_t> bytes) {
  Sha256Digest digest = {};
  const int code = mbedtls_sha256(bytes.data(), bytes.size(), digest.data(), 0);
  GS_ASSERT(code == 0);  // it fails for hardware alone
  return digest;
}

#if !defined(__x86_64__)

Sha256Digest sha256(std::span<const uint8_t> bytes) { return sha256_portable(bytes); }

#else

namespace {

constexpr size_t kBlockSize = 64;
constexpr size_t kLengthSize = 8;  // of the message's length in bits, at the end of the last block

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes; FIPS 180-4, 4.2.2.
alignas(16) constexpr uint32_t kRoundWords[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The working variables in the order that the instructions take them, the first one highest.
struct Lanes {
  __m128i abef;
  __m128i cdgh;
};

__m128i load(const void* bytes) { return _mm_loadu_si128(static_cast<const __m128i*>(bytes)); }

// Four rounds an index i; the message's words of four later rounds take the place of those that are used.
__attribute__((target("sha,sse4.1"))) void add_blocks(Lanes& sum, const uint8_t* bytes, size_t block_count) {
  const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);  // the words are big-endian
  for (; block_count > 0; --block_count, bytes += kBlockSize) {
    const Lanes before = sum;
    __m128i words[4];
    for (size_t i = 0; i < 4; ++i) {
      words[i] = _mm_shuffle_epi8(load(bytes + 16 * i), order);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; ++i) {
      __m128i& now = words[i % 4];
      const __m128i& last = words[(i + 3) % 4];
      const __m128i low = _mm_add_epi32(now, load(kRoundWords + 4 * i));
      sum.cdgh = _mm_sha256rnds2_epu32(sum.cdgh, sum.abef, low);
      sum.abef = _mm_sha256rnds2_epu32(sum.abef, sum.cdgh, _mm_shuffle_epi32(low, 0x0e));
      if (i < 12) {
        const __m128i older = _mm_alignr_epi8(last, words[(i + 2) % 4], 4);
        now = _mm_add_epi32(_mm_sha256msg1_epu32(now, words[(i + 1) % 4]), older);
        now = _mm_sha256msg2_epu32(now, last);
      }
    }
    sum.abef = _mm_add_epi32(sum.abef, before.abef);
    sum.cdgh = _mm_add_epi32(sum.cdgh, before.cdgh);
  }
}

void store_big_endian(uint8_t* out, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    out[i] = static_cast<uint8_t>(value >> (8 * (size - 1 - i)));
  }
}

Sha256Digest sha256_x86(std::span<const uint8_t> bytes) {
  // The first 32 bits of the fractional parts of the square roots of the first 8 primes; 5.3.3.
  Lanes sum = {_mm_set_epi32(0x6a09e667, static_cast<int>(0xbb67ae85), 0x510e527f, static_cast<int>(0x9b05688c)),
               _mm_set_epi32(0x3c6ef372, static_cast<int>(0xa54ff53a), 0x1f83d9ab, 0x5be0cd19)};
  const size_t whole = bytes.size() / kBlockSize;
  const size_t rest = bytes.size() % kBlockSize;
  uint8_t end[2 * kBlockSize] = {};
  if (rest > 0) {
    std::memcpy(end, bytes.data() + whole * kBlockSize, rest);
  }
  end[rest] = 0x80;
  const size_t end_blocks = rest + 1 + kLengthSize <= kBlockSize ? 1 : 2;
  store_big_endian(end + end_blocks * kBlockSize - kLengthSize, uint64_t{bytes.size()} * 8, kLengthSize);
  add_blocks(sum, bytes.data(), whole);
  add_blocks(sum, end, end_blocks);
  uint32_t fe_ba[4];
  uint32_t hg_dc[4];
  std::memcpy(fe_ba, &sum.abef, sizeof fe_ba);
  std::memcpy(hg_dc, &sum.cdgh, sizeof hg_dc);
  const uint32_t words[8] = {fe_ba[3], fe_ba[2], hg_dc[3], hg_dc[2], fe_ba[1], fe_ba[0], hg_dc[1], hg_dc[0]};
  Sha256Digest digest;
  for (size_t i = 0; i < 8; ++i) {
    store_big_endian(digest.data() + 4 * i, words[i], 4);
  }
  return digest;
}

bool has_instructions() { return __builtin_cpu_supports("sse4.1") != 0 && __builtin_cpu_supports("sha") != 0; }

}  // namespace

Sha256Digest sha256(std::span<const uint8_t> bytes) {
  static const bool is_fast = has_instructions();
  return is_fast ? sha256_x86(bytes) : sha256_portable(bytes);
}

#endif

}  // namespace gradstream
