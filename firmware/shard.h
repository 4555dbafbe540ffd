// A shard: one device's samples as a small binary that is the same in a file, in a flash page and in a test.
//
//   offset        size       content (little-endian)
//   0             4          "GSD1"
//   4             4          count, samples (u32, 1 .. kSampleCountMax)
//   8             4          dimension, values of one sample (u32, 1 .. kDimensionMax)
//   12            4          scale (f32, finite, not 0)
//   16            4 d        mean (f32, finite), d = dimension
//   16 + 4 d      count d    bytes: value[i] = byte[i] * scale - mean[i], finite for every byte, sample after sample
//
// Bytes behind it are ignored, since a flash page is longer. 200 samples of 64 values take 13,072 bytes.
#ifndef GRADSTREAM_FIRMWARE_SHARD_H_
#define GRADSTREAM_FIRMWARE_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace gradstream {

// Views into the caller's bytes, which must outlive it. No alignment is asked of them.
struct Shard {
  uint32_t count = 0;
  uint32_t dimension = 0;
  float scale = 0;
  const uint8_t* mean = nullptr;
  const uint8_t* values = nullptr;
};

// kDataCorrupt: no magic, or fewer bytes than the header promises; kOutOfRange: a count or dimension of 0 or beyond its
// limit; kNotFinite: scale or mean, or what byte 255 stands for by them. *out is set on kOk only.
Status parse_shard(std::span<const uint8_t> bytes, Shard* out);

// Writes sample `index` (dimension values) to out, in the bits that SampleBytes says (runtime/problem/problem.h).
// Requires index < count.
void read_shard(const Shard& shard, uint32_t index, float* out);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_SHARD_H_
