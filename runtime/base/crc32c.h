// CRC-32C (Castagnoli): against accidents on a wire or in a memory, not against an adversary.
#ifndef GRADSTREAM_RUNTIME_BASE_CRC32C_H_
#define GRADSTREAM_RUNTIME_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

// Of size bytes. Chain by passing the previous result; start with 0.
uint32_t crc32c(uint32_t crc, const uint8_t* bytes, size_t size);
// The same without the instruction that the processor may have for it.
uint32_t crc32c_by_table(uint32_t crc, const uint8_t* bytes, size_t size);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_CRC32C_H_
