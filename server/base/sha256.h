// SHA-256 (FIPS 180-4) for the pure core: a server sums every record of its journal when it stores the record, and
// again when it starts. By Nettle, which takes the processor's own instructions where there are any: a fifth of the
// time that Mbed TLS's portable code takes. A cross-compiled core has Mbed TLS alone.
#ifndef GRADSTREAM_SERVER_BASE_SHA256_H_
#define GRADSTREAM_SERVER_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <span>

namespace gradstream {

using Sha256Digest = std::array<uint8_t, 32>;

// Of the bytes, in one call. Not for secrets: what it leaves on the stack is not wiped.
Sha256Digest sha256(std::span<const uint8_t> bytes);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_SHA256_H_
