#include "host/table_shard.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gradstream {
namespace {

constexpr double kByteMax = 255;

void append(std::vector<uint8_t>* out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<uint8_t>(value >> shift));
  }
}

void append(std::vector<uint8_t>* out, float value) { append(out, std::bit_cast<uint32_t>(value)); }

std::vector<uint8_t> head(char kind, const SampleTable& table, size_t size) {
  std::vector<uint8_t> out = {'G', 'S', 'D', static_cast<uint8_t>(kind)};
  out.reserve(size);
  append(&out, table.sample_count);
  append(&out, table.dimension);
  return out;
}

uint8_t nearest_byte(double value, double scale, double offset) {
  return static_cast<uint8_t>(std::clamp(std::round((value - offset) / scale), 0.0, kByteMax));
}

}  // namespace

std::vector<uint8_t> float_shard_bytes(const SampleTable& table) {
  std::vector<uint8_t> out = head('2', table, 16 + 4 * table.values.size());
  append(&out, uint32_t{0});
  for (const float value : table.values) {
    append(&out, value);
  }
  return out;
}

std::vector<uint8_t> byte_shard_bytes(const SampleTable& table, float scale, std::span<const float> mean,
                                      double* error) {
  std::vector<uint8_t> out = head('1', table, 16 + 4 * mean.size() + table.values.size());
  append(&out, scale);
  for (const float value : mean) {
    append(&out, value);
  }
  *error = 0;
  for (size_t i = 0; i < table.values.size(); ++i) {
    const float shift = mean[i % table.dimension];
    const uint8_t byte = nearest_byte(table.values[i], scale, -static_cast<double>(shift));
    const float read = static_cast<float>(byte) * scale - shift;
    *error = std::max(*error, std::fabs(static_cast<double>(read) - static_cast<double>(table.values[i])));
    out.push_back(byte);
  }
  return out;
}

std::vector<uint8_t> labelled_shard_bytes(const SampleTable& table, float scale, float offset, uint32_t class_count,
                                          double* error) {
  std::vector<uint8_t> out = head('3', table, 24 + table.values.size());
  append(&out, class_count);
  append(&out, scale);
  append(&out, offset);
  *error = 0;
  for (size_t i = 0; i < table.values.size(); ++i) {
    const float value = table.values[i];
    if ((i + 1) % table.dimension == 0) {
      out.push_back(static_cast<uint8_t>(value));
      continue;
    }
    const uint8_t byte = nearest_byte(value, scale, offset);
    const float read = static_cast<float>(byte) * scale + offset;
    *error = std::max(*error, std::fabs(static_cast<double>(read) - static_cast<double>(value)));
    out.push_back(byte);
  }
  return out;
}

}  // namespace gradstream
