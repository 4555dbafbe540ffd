#include "firmware/shard_fault_posix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "firmware/float_shard.h"
#include "firmware/shard.h"
#include "runtime/base/config.h"
#include "runtime/base/text.h"

namespace gradstream {
namespace {

constexpr size_t kHeaderSize = 16;  // before the mean or the ends of the groups
constexpr size_t kLabelledHeaderSize = 24;
constexpr float kByteMax = 255;
constexpr char kRemedy[] = "; `gradstream data pack` makes a shard of a table, and docs/data.md has the format";
// Bytes that are looked at to tell a text. Reason: no line of numbers hides a control character for so long.
constexpr size_t kLookedAtMax = 4096;

uint32_t load_u32(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

float load_f32(const uint8_t* bytes) { return std::bit_cast<float>(load_u32(bytes)); }

bool begins_with(std::span<const uint8_t> bytes, std::string_view head) {
  return bytes.size() >= head.size() && std::memcmp(bytes.data(), head.data(), head.size()) == 0;
}

std::string text_of(float value) {
  char number[32];
  (void)std::snprintf(number, sizeof number, "%g", static_cast<double>(value));
  return std::isnan(value) ? "NaN" : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf") : number;
}

bool is_text(std::span<const uint8_t> bytes) {
  const auto looked_at = bytes.first(std::min(bytes.size(), kLookedAtMax));
  return std::all_of(looked_at.begin(), looked_at.end(),
                     [](uint8_t byte) {  // the last two stand in no UTF-8, and an erased flash is full of them
                       return (byte >= 0x20 && byte < 0xFE) || byte == '\t' || byte == '\n' || byte == '\r';
                     });
}

// Of a file without a shard's magic.
std::string kind_fault(std::span<const uint8_t> bytes) {
  constexpr struct {
    std::string_view head;
    const char* kind;
  } kKinds[] = {
      {"\x93NUMPY", "a NumPy array (.npy)"},
      {"PK\x03\x04", "a zip archive, such as .npz or .xlsx"},
      {"\x1F\x8B", "compressed by gzip"},
      {"\x89HDF", "an HDF5 file"},
      {"PAR1", "a Parquet file"},
      {"\xFF\xFE", "text in UTF-16"},
      {"\xFE\xFF", "text in UTF-16"},
  };
  if (bytes.empty()) {
    return std::string("is empty") + kRemedy;
  }
  for (const auto& [head, kind] : kKinds) {
    if (begins_with(bytes, head)) {
      return std::string("is ") + kind + ", not a shard" + kRemedy;
    }
  }
  if (begins_with(bytes, "GSD")) {
    if (bytes.size() < kHeaderSize) {
      return "is a truncated shard: it has " + std::to_string(bytes.size()) + " bytes of its header, which has " +
             std::to_string(kHeaderSize) + kRemedy;
    }
    return "is no shard of this release, which reads GSD1, GSD2 and GSD3; update the client, or make it anew";
  }
  if (is_text(bytes)) {
    return std::string("is text, such as CSV, not a shard") + kRemedy;
  }
  return std::string("is no shard: one begins with GSD1, GSD2 or GSD3") + kRemedy;
}

// Of a number of the header that must be 1 .. max; is_swapped: the other byte order would fit.
std::string number_fault(const char* what, const uint8_t* at, uint32_t max, const char* remedy) {
  const uint32_t value = load_u32(at);
  if (value >= 1 && value <= max) {
    return {};
  }
  const uint32_t swapped = __builtin_bswap32(value);
  std::string text =
      "promises " + std::to_string(value) + " " + what + ", and the limit is 1 to " + std::to_string(max);
  if (swapped >= 1 && swapped <= max) {
    return text + "; its numbers are big-endian, write them little-endian";
  }
  return text + (value == 0 ? "; make it anew with data" : remedy);
}

std::string dimensions_fault(std::span<const uint8_t> bytes) {
  std::string fault =
      number_fault("samples", &bytes[4], kSampleCountMax, "; give this device fewer, or share them among more devices");
  if (fault.empty()) {
    fault = number_fault("values a sample", &bytes[8], kDimensionMax, "; give each sample fewer values");
  }
  return fault;
}

std::string size_fault(std::span<const uint8_t> bytes, uint64_t wanted) {
  if (bytes.size() >= wanted) {
    return {};
  }
  return "is a truncated shard: it has " + std::to_string(bytes.size()) + " bytes, and its header promises " +
         std::to_string(wanted) + "; copy it again, or make it anew";
}

std::string byte_shard_fault(std::span<const uint8_t> bytes) {
  std::string fault = dimensions_fault(bytes);
  const uint32_t dimension = load_u32(&bytes[8]);
  if (fault.empty()) {
    fault = size_fault(bytes, kHeaderSize + uint64_t{dimension} * (4 + uint64_t{load_u32(&bytes[4])}));
  }
  if (!fault.empty()) {
    return fault;
  }
  const float scale = load_f32(&bytes[12]);
  if (!std::isfinite(scale) || scale == 0) {
    return "has the scale " + text_of(scale) + "; write a finite one that is not 0";
  }
  for (uint32_t i = 0; i < dimension; ++i) {
    const float mean = load_f32(&bytes[kHeaderSize + 4 * size_t{i}]);
    if (!std::isfinite(mean)) {
      return "has " + text_of(mean) + " as value " + std::to_string(i + 1) + " of its mean; write a finite one";
    }
    const float largest = kByteMax * scale;
    if (!std::isfinite(largest) || !std::isfinite(largest - mean)) {
      return "has the scale " + text_of(scale) + " and " + text_of(mean) + " as value " + std::to_string(i + 1) +
             " of its mean, by which byte 255 is no finite number; write smaller ones";
    }
  }
  return {};
}

std::string groups_fault(std::span<const uint8_t> bytes, uint32_t count, uint32_t group_count) {
  uint32_t end = 0;
  for (uint32_t i = 0; i < group_count; ++i) {
    const uint32_t next = load_u32(&bytes[kHeaderSize + 4 * size_t{i}]);
    if (next <= end || next > count) {
      return "ends group " + std::to_string(i + 1) + " at sample " + std::to_string(next) + ", expected " +
             std::to_string(end + 1) + " to " + std::to_string(count) + "; wrong groups, make it anew";
    }
    end = next;
  }
  return group_count == 0 || end == count ? std::string()
                                          : "ends its last group at sample " + std::to_string(end) + ", and it has " +
                                                std::to_string(count) + " samples; wrong groups, make it anew";
}

std::string float_shard_fault(std::span<const uint8_t> bytes) {
  std::string fault = dimensions_fault(bytes);
  if (!fault.empty()) {
    return fault;
  }
  const uint32_t count = load_u32(&bytes[4]);
  const size_t dimension = load_u32(&bytes[8]);
  const uint32_t group_count = load_u32(&bytes[12]);
  if (group_count > count) {
    return "promises " + std::to_string(group_count) + " groups, and the limit is its " + std::to_string(count) +
           " samples; write 0 where there are no groups";
  }
  const uint64_t values_at = kHeaderSize + 4 * uint64_t{group_count};
  fault = size_fault(bytes, values_at + 4 * uint64_t{count} * dimension);
  if (fault.empty()) {
    fault = groups_fault(bytes, count, group_count);
  }
  const size_t value_count = size_t{count} * dimension;  // they are in memory
  for (size_t i = 0; fault.empty() && i < value_count; ++i) {
    const float value = load_f32(&bytes[static_cast<size_t>(values_at) + 4 * i]);
    if (!std::isfinite(value)) {
      return "has " + text_of(value) + " in sample " + std::to_string(i / dimension + 1) + ", value " +
             std::to_string(i % dimension + 1) +
             " (rows and columns from 1): not a number that can be learnt from; "
             "leave the sample out, or fill the gap";
    }
  }
  return fault;
}

std::string labelled_shard_fault(std::span<const uint8_t> bytes) {
  if (bytes.size() < kLabelledHeaderSize) {
    return "is a truncated shard: it has " + std::to_string(bytes.size()) + " bytes of its header, which has " +
           std::to_string(kLabelledHeaderSize) + kRemedy;
  }
  std::string fault = dimensions_fault(bytes);
  const uint32_t count = load_u32(&bytes[4]);
  const uint32_t dimension = load_u32(&bytes[8]);
  const uint32_t class_count = load_u32(&bytes[12]);
  if (fault.empty() && dimension == 1) {
    fault = "promises 1 value a sample, and a labelled sample has 2 at least; count the label among them";
  }
  if (fault.empty() && (class_count < 2 || class_count > kLabelClassMax)) {
    fault = "promises " + std::to_string(class_count) + " classes, and the limit is 2 to " +
            std::to_string(kLabelClassMax) + "; write a shard of floats (GSD2) for more";
  }
  if (fault.empty()) {
    fault = size_fault(bytes, kLabelledHeaderSize + uint64_t{count} * dimension);
  }
  if (!fault.empty()) {
    return fault;
  }
  const float scale = load_f32(&bytes[16]);
  const float offset = load_f32(&bytes[20]);
  if (!std::isfinite(scale) || scale == 0) {
    return "has the scale " + text_of(scale) + "; write a finite one that is not 0";
  }
  if (!std::isfinite(offset)) {
    return "has the offset " + text_of(offset) + "; write a finite one";
  }
  if (!std::isfinite(kByteMax * scale + offset)) {
    return "has a scale and an offset by which byte 255 is no finite number; write smaller ones";
  }
  for (size_t i = 0; i < count; ++i) {
    const uint32_t label = bytes[kLabelledHeaderSize + (i + 1) * dimension - 1];
    if (label >= class_count) {
      return "has the label " + std::to_string(label) + " in sample " + std::to_string(i + 1) +
             " (samples from 1), and its header promises " + std::to_string(class_count) +
             " classes, labels from 0; relabel the data, or write the number of classes that they have";
    }
  }
  return {};
}

}  // namespace

std::string find_shard_fault(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeaderSize) {
    return kind_fault(bytes);
  }
  return begins_with(bytes, "GSD1")   ? byte_shard_fault(bytes)
         : begins_with(bytes, "GSD2") ? float_shard_fault(bytes)
         : begins_with(bytes, "GSD3") ? labelled_shard_fault(bytes)
                                      : kind_fault(bytes);
}

}  // namespace gradstream
