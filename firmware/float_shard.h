// A shard of floats, for problems whose samples are no grey values alone: matrices, targets, labels, weights. Where the
// inputs fit into bytes and the target is a class, the labelled form is a quarter as long: 1,300 samples of 14 x 14
// pixels take 256,124 bytes. gradstream-client reads both, and the shard of bytes (firmware/shard.h) besides.
//
//   offset           size       floats (little-endian)
//   0                4          "GSD2"
//   4                4          count, samples (u32, 1 .. kSampleCountMax)
//   8                4          dimension, values of one sample (u32, 1 .. kDimensionMax)
//   12               4          groups, g (u32, 0 .. count)
//   16               4 g        ends of the groups (u32, rising, the last is count): group i is samples
//                               [end[i - 1], end[i]). "multitask" learns one task from each; other problems want none
//   16 + 4 g         4 count d  values (f32, finite), sample after sample, d = dimension
//
//   offset           size       bytes with labels
//   0                4          "GSD3"
//   4                4          count, samples (u32, 1 .. kSampleCountMax)
//   8                4          dimension, values of one sample, the label among them (u32, 2 .. kDimensionMax)
//   12               4          classes (u32, 2 .. 256)
//   16               4          scale (f32, finite, not 0)
//   20               4          offset (f32, finite)
//   24               count d    sample after sample: d - 1 bytes, of which value[i] = byte[i] * scale + offset, then
//                               the label's (0 .. classes - 1), which is the last value
//
// Bytes behind it are ignored.
#ifndef GRADSTREAM_FIRMWARE_FLOAT_SHARD_H_
#define GRADSTREAM_FIRMWARE_FLOAT_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace gradstream {

// Classes of a labelled shard. Reason: a label is one byte.
inline constexpr uint32_t kLabelClassMax = 256;

// Views into the caller's bytes, which must outlive it. No alignment is asked of them.
struct FloatShard {
  uint32_t count = 0;
  uint32_t dimension = 0;
  uint32_t group_count = 0;
  const uint8_t* group_ends = nullptr;
  const uint8_t* values = nullptr;
  float scale = 0;  // of bytes with labels; 0: floats
  float offset = 0;
};

// Whether the bytes begin as a shard of floats, or of bytes with labels, does.
bool is_float_shard(std::span<const uint8_t> bytes);

// Of either form. kDataCorrupt: no magic, fewer bytes than the header promises, or ends that do not rise to count;
// kOutOfRange: a number of the header beyond its limit, or a label beyond its classes; kNotFinite: a value, scale or
// offset. *out is set on kOk only.
Status parse_float_shard(std::span<const uint8_t> bytes, FloatShard* out);

// Bytes of a shard that parse_float_shard() has read from these: what stands behind it begins there.
size_t float_shard_size(const FloatShard& shard, std::span<const uint8_t> bytes);

// Requires index < group_count.
uint32_t float_shard_group_end(const FloatShard& shard, uint32_t index);

// Writes sample `index` (dimension values) to out. Requires index < count.
void read_float_shard(const FloatShard& shard, uint32_t index, float* out);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_FLOAT_SHARD_H_
