// A look at the first bytes of a connection, before a session and its memory are spent on it (RFC 8446, 4.1.2 and
// 5.1). Nothing is proven by them: Mbed TLS parses the same bytes again.
#ifndef GRADSTREAM_SERVER_LINK_CLIENT_HELLO_H_
#define GRADSTREAM_SERVER_LINK_CLIENT_HELLO_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <mbedtls/ssl.h>

namespace gradstream {

// In bytes: the largest record that a peer may send. It holds content, its type, tag and padding.
inline constexpr size_t kTlsRecordSizeMax = MBEDTLS_SSL_IN_CONTENT_LEN + 256;
// In bytes: what is kept of a connection that has no session yet. Reason: room for the largest record and its header.
inline constexpr size_t kClientHelloSizeMax = 2560;
static_assert(kClientHelloSizeMax >= 5 + kTlsRecordSizeMax);
// In bytes: identities that are looked up and that the log shows. Longer ones cannot be enrolled.
inline constexpr size_t kHelloIdentitySizeMax = 63;

struct ClientHello {
  // Nothing more is to be waited for: the message is there, or these bytes begin none that this server takes.
  bool is_complete = false;
  bool is_hello = false;  // a ClientHello is there as a whole
  bool has_psk = false;   // it offers a pre-shared key
  std::string identity;   // of the first key that it offers; empty: none, or one of more than kHelloIdentitySizeMax
};

// bytes: from the connection's first one on.
ClientHello peek_client_hello(std::span<const uint8_t> bytes);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_CLIENT_HELLO_H_
