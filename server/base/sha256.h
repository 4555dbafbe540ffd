// SHA-256 (FIPS 180-4), as fast as the processor has it.
//
// Mbed TLS computes it in C at a third of the speed of an x86 processor's own instructions, and a server sums every
// record of its journal twice: once when it stores it and once when it starts.
#ifndef GRADSTREAM_SERVER_BASE_SHA256_H_
#define GRADSTREAM_SERVER_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <span>

namespace gradstream {

using Sha256Digest = std::array<uint8_t, 32>;

// Of the bytes, in one call. Not for secrets: what it leaves on the stack is not wiped.
Sha256Digest sha256(std::span<const uint8_t> bytes);

// The same without the processor's own instructions: what every other processor computes.
Sha256Digest sha256_portable(std::span<const uint8_t> bytes);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_SHA256_H_
