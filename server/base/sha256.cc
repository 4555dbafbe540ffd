#include "server/base/sha256.h"

#include <mbedtls/sha256.h>

#include "runtime/base/status.h"

namespace gradstream {

Sha256Digest sha256(std::span<const uint8_t> bytes) {
  Sha256Digest digest = {};
  const int code = mbedtls_sha256(bytes.data(), bytes.size(), digest.data(), 0);
  GS_ASSERT(code == 0);  // it fails for hardware alone
  return digest;
}

}  // namespace gradstream
