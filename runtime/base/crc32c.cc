#include "runtime/base/no_contraction.h"

#include "runtime/base/crc32c.h"

#include <cstring>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, reflected

// Sixteen entries instead of 256: 64 bytes of flash, two look-ups a byte.
uint32_t add_bytes(uint32_t crc, const uint8_t* bytes, size_t size) {
  static constexpr uint32_t kTable[16] = {0x00000000, 0x105ec76f, 0x20bd8ede,  0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                          0x61c69362, 0x7198540d, kPolynomial, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                          0xc38d26c4, 0xd3d3e1ab, 0xe330a81a,  0xf36e6f75};
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    crc = kTable[crc & 15] ^ (crc >> 4);
    crc = kTable[crc & 15] ^ (crc >> 4);
  }
  return crc;
}

#if !defined(GS_BARE_METAL)
constexpr size_t kStride = 8;

// row[k].of[b]: what byte b does to the sum k bytes later. Reason for 8 KiB: a server sums every update and every
// record of its journal, and a tenth of its time went into look-ups of half a byte.
struct Rows {
  uint32_t of[256] = {};
};
struct Table {
  Rows row[kStride];
};

constexpr Table make_table() {
  Table table;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    table.row[0].of[byte] = crc;
  }
  for (size_t k = 1; k < kStride; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = table.row[k - 1].of[byte];
      table.row[k].of[byte] = (before >> 8) ^ table.row[0].of[before & 255];
    }
  }
  return table;
}

// Eight bytes at a time, by bytes, so that neither order nor alignment matters; size is a multiple of kStride.
uint32_t add_strides(uint32_t crc, const uint8_t* bytes, size_t size) {
  static constexpr Table kTable = make_table();
  const auto& row = kTable.row;
  for (const uint8_t* const end = bytes + size; bytes != end; bytes += kStride) {
    crc = row[7].of[bytes[0] ^ (crc & 255)] ^ row[6].of[bytes[1] ^ (crc >> 8 & 255)] ^
          row[5].of[bytes[2] ^ (crc >> 16 & 255)] ^ row[4].of[bytes[3] ^ (crc >> 24)] ^ row[3].of[bytes[4]] ^
          row[2].of[bytes[5]] ^ row[1].of[bytes[6]] ^ row[0].of[bytes[7]];
  }
  return crc;
}
#endif

#if defined(__x86_64__)
// A fifth of the tables' time. Processors of the 64-bit baseline may lack the instruction: callers ask.
__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t* bytes, size_t size) {
  uint64_t sum = static_cast<uint32_t>(~crc);
  for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    sum = __builtin_ia32_crc32di(sum, word);
  }
  auto narrow = static_cast<uint32_t>(sum);
  for (; size > 0; --size, ++bytes) {
    narrow = __builtin_ia32_crc32qi(narrow, *bytes);
  }
  return ~narrow;
}
#endif

}  // namespace

uint32_t crc32c(uint32_t crc, const uint8_t* bytes, size_t size) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    return crc32c_by_instruction(crc, bytes, size);
  }
#endif
  return crc32c_by_table(crc, bytes, size);
}

uint32_t crc32c_by_table(uint32_t crc, const uint8_t* bytes, size_t size) {
  crc = ~crc;
#if !defined(GS_BARE_METAL)
  const size_t whole = size - size % kStride;
  crc = add_strides(crc, bytes, whole);
  bytes += whole;
  size -= whole;
#endif
  return ~add_bytes(crc, bytes, size);
}

}  // namespace gradstream
