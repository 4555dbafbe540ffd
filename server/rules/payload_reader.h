// Reads the bytes of a payload from the front: numbers are little-endian.
#ifndef GRADSTREAM_SERVER_RULES_PAYLOAD_READER_H_
#define GRADSTREAM_SERVER_RULES_PAYLOAD_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gradstream {

inline void put_u32(uint32_t value, std::vector<uint8_t>* out) {
  for (int shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<uint8_t>(value >> shift));
  }
}

// Of up to 4 bytes.
inline uint32_t u32_of(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  }
  return value;
}

// ok turns false for good when the bytes run out; what is taken from then on is empty or 0.
struct PayloadReader {
  std::span<const uint8_t> rest;
  bool ok = true;

  std::span<const uint8_t> take(size_t size) {
    if (size > rest.size()) {
      ok = false;
      return {};
    }
    const auto taken = rest.first(size);
    rest = rest.subspan(size);
    return taken;
  }
  uint32_t take_u32() { return u32_of(take(4)); }
  uint8_t take_u8() {
    const auto bytes = take(1);
    return bytes.empty() ? uint8_t{0} : bytes[0];
  }
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_PAYLOAD_READER_H_
