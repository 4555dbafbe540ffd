#include "runtime/base/crc32c.h"

namespace gradstream {

uint32_t crc32c(uint32_t crc, const uint8_t* bytes, size_t size) {
  // Sixteen entries instead of 256: 64 bytes of flash, two look-ups a byte. Reflected polynomial 0x82f63b78.
  static constexpr uint32_t kTable[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                          0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                          0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    crc = kTable[crc & 15] ^ (crc >> 4);
    crc = kTable[crc & 15] ^ (crc >> 4);
  }
  return ~crc;
}

}  // namespace gradstream
