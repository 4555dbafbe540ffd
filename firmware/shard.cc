#include "firmware/shard.h"

#include <bit>
#include <cstring>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

constexpr size_t kHeaderSize = 16;
constexpr float kByteMax = 255;

uint32_t load_u32(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

// As it lies. Reason: the compiler makes one load of it where the processor needs no alignment, and none of the above.
float load_f32(const uint8_t* bytes) {
  static_assert(std::endian::native == std::endian::little);
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// By its exponent, so that no library is needed.
bool is_finite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7f800000U) != 0x7f800000U; }

}  // namespace

Status parse_shard(std::span<const uint8_t> bytes, Shard* out) {
  if (bytes.size() < kHeaderSize || std::memcmp(bytes.data(), "GSD1", 4) != 0) {
    return Status::kDataCorrupt;
  }
  Shard shard;
  shard.count = load_u32(&bytes[4]);
  shard.dimension = load_u32(&bytes[8]);
  shard.scale = load_f32(&bytes[12]);
  if (shard.count == 0 || shard.count > kSampleCountMax || shard.dimension == 0 || shard.dimension > kDimensionMax) {
    return Status::kOutOfRange;
  }
  const uint64_t size = kHeaderSize + uint64_t{shard.dimension} * (4 + uint64_t{shard.count});
  if (bytes.size() < size) {
    return Status::kDataCorrupt;
  }
  shard.mean = bytes.data() + kHeaderSize;
  shard.values = shard.mean + 4 * size_t{shard.dimension};
  const float largest = kByteMax * shard.scale;
  bool finite = is_finite(largest) && shard.scale != 0.0f;
  for (uint32_t i = 0; i < shard.dimension; ++i) {
    const float mean = load_f32(shard.mean + 4 * size_t{i});
    finite = finite && is_finite(mean) && is_finite(largest - mean);
  }
  if (!finite) {
    return Status::kNotFinite;
  }
  *out = shard;
  return Status::kOk;
}

void read_shard(const Shard& shard, uint32_t index, float* out) {
  const uint8_t* values = shard.values + size_t{index} * shard.dimension;
  for (uint32_t i = 0; i < shard.dimension; ++i) {
    out[i] = static_cast<float>(values[i]) * shard.scale - load_f32(shard.mean + 4 * size_t{i});
  }
}

}  // namespace gradstream
