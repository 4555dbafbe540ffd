#include "server/base/sha256.h"

#if defined(GS_HAS_NETTLE)
#include <nettle/sha2.h>
#else
#include <mbedtls/sha256.h>

#include "runtime/base/status.h"
#endif

namespace gradstream {

Sha256Digest sha256(std::span<const uint8_t> bytes) {
  Sha256Digest digest = {};
#if defined(GS_HAS_NETTLE)
  sha256_ctx context = {};
  sha256_init(&context);
  sha256_update(&context, bytes.size(), bytes.data());
  sha256_digest(&context, digest.size(), digest.data());
#else
  const int code = mbedtls_sha256(bytes.data(), bytes.size(), digest.data(), 0);
  GS_ASSERT(code == 0);  // it fails for hardware alone
#endif
  return digest;
}

}  // namespace gradstream
