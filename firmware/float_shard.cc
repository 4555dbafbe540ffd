#include "firmware/float_shard.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

constexpr size_t kHeaderSize = 16;
constexpr size_t kLabelledHeaderSize = 24;
constexpr float kByteMax = 255;

uint32_t load_u32(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

float load_f32(const uint8_t* bytes) { return std::bit_cast<float>(load_u32(bytes)); }

bool do_groups_rise(const FloatShard& shard) {
  uint32_t end = 0;
  for (uint32_t i = 0; i < shard.group_count; ++i) {
    const uint32_t next = float_shard_group_end(shard, i);
    if (next <= end) {
      return false;
    }
    end = next;
  }
  return shard.group_count == 0 || end == shard.count;
}

bool is_labelled(std::span<const uint8_t> bytes) {
  return bytes.size() >= kHeaderSize && std::memcmp(bytes.data(), "GSD3", 4) == 0;
}

Status parse_labelled(std::span<const uint8_t> bytes, FloatShard* out) {
  if (bytes.size() < kLabelledHeaderSize) {
    return Status::kDataCorrupt;
  }
  FloatShard shard;
  shard.count = load_u32(&bytes[4]);
  shard.dimension = load_u32(&bytes[8]);
  const uint32_t class_count = load_u32(&bytes[12]);
  shard.scale = load_f32(&bytes[16]);
  shard.offset = load_f32(&bytes[20]);
  if (shard.count == 0 || shard.count > kSampleCountMax || shard.dimension < 2 || shard.dimension > kDimensionMax ||
      class_count < 2 || class_count > kLabelClassMax) {
    return Status::kOutOfRange;
  }
  if (bytes.size() < kLabelledHeaderSize + uint64_t{shard.count} * shard.dimension) {
    return Status::kDataCorrupt;
  }
  if (shard.scale == 0.0F || !std::isfinite(shard.offset) || !std::isfinite(kByteMax * shard.scale + shard.offset)) {
    return Status::kNotFinite;
  }
  shard.values = bytes.data() + kLabelledHeaderSize;
  for (size_t i = shard.dimension - 1; i < size_t{shard.count} * shard.dimension; i += shard.dimension) {
    if (shard.values[i] >= class_count) {
      return Status::kOutOfRange;
    }
  }
  *out = shard;
  return Status::kOk;
}

}  // namespace

bool is_float_shard(std::span<const uint8_t> bytes) {
  return is_labelled(bytes) || (bytes.size() >= kHeaderSize && std::memcmp(bytes.data(), "GSD2", 4) == 0);
}

Status parse_float_shard(std::span<const uint8_t> bytes, FloatShard* out) {
  if (!is_float_shard(bytes)) {
    return Status::kDataCorrupt;
  }
  if (is_labelled(bytes)) {
    return parse_labelled(bytes, out);
  }
  FloatShard shard;
  shard.count = load_u32(&bytes[4]);
  shard.dimension = load_u32(&bytes[8]);
  shard.group_count = load_u32(&bytes[12]);
  if (shard.count == 0 || shard.count > kSampleCountMax || shard.dimension == 0 || shard.dimension > kDimensionMax ||
      shard.group_count > shard.count) {
    return Status::kOutOfRange;
  }
  const size_t value_count = size_t{shard.count} * shard.dimension;
  if (bytes.size() < kHeaderSize + 4 * (uint64_t{shard.group_count} + uint64_t{shard.count} * shard.dimension)) {
    return Status::kDataCorrupt;
  }
  shard.group_ends = bytes.data() + kHeaderSize;
  shard.values = shard.group_ends + 4 * size_t{shard.group_count};
  if (!do_groups_rise(shard)) {
    return Status::kDataCorrupt;
  }
  for (size_t i = 0; i < value_count; ++i) {
    if (!std::isfinite(load_f32(shard.values + 4 * i))) {
      return Status::kNotFinite;
    }
  }
  *out = shard;
  return Status::kOk;
}

size_t float_shard_size(const FloatShard& shard, std::span<const uint8_t> bytes) {
  const size_t value_size = shard.scale != 0 ? 1 : sizeof(float);
  return static_cast<size_t>(shard.values - bytes.data()) + value_size * shard.count * shard.dimension;
}

uint32_t float_shard_group_end(const FloatShard& shard, uint32_t index) {
  return load_u32(shard.group_ends + 4 * size_t{index});
}

void read_float_shard(const FloatShard& shard, uint32_t index, float* out) {
  if (shard.scale != 0.0F) {
    const uint8_t* const bytes = shard.values + size_t{index} * shard.dimension;
    for (uint32_t i = 0; i + 1 < shard.dimension; ++i) {
      out[i] = static_cast<float>(bytes[i]) * shard.scale + shard.offset;
    }
    out[shard.dimension - 1] = static_cast<float>(bytes[shard.dimension - 1]);
    return;
  }
  const uint8_t* values = shard.values + 4 * size_t{index} * shard.dimension;
  for (uint32_t i = 0; i < shard.dimension; ++i) {
    out[i] = load_f32(values + 4 * size_t{i});
  }
}

}  // namespace gradstream
