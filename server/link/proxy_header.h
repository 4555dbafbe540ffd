// What a balancer says of a connection that it passes on, before the peer's own first byte: the PROXY protocol, version
// 2 (HAProxy's proxy-protocol.txt, section 2.2). Version 1, which is text, is not taken.
//
//   signature (12 bytes) | version and command | family and transport | size (2 bytes) | addresses | further fields
#ifndef GRADSTREAM_SERVER_LINK_PROXY_HEADER_H_
#define GRADSTREAM_SERVER_LINK_PROXY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/base/asio_alias.h"

namespace gradstream {

// In bytes, of a whole header. Reason: the protocol lets a balancer count on 536; clouds add some fields of their own.
inline constexpr size_t kProxyHeaderSizeMax = 1024;

struct ProxyHeader {
  enum class Kind : uint8_t {
    kPartial,  // these bytes begin a header, and it is not there as a whole
    kNone,     // they begin something else
    kText,     // they begin a header of version 1
    kWrong,    // the signature stands there, and behind it what version 2 does not have, or too much
    kOwn,      // a connection of the balancer itself (LOCAL), or of a peer without an address of TCP
    kPeer,     // of `peer`
  };
  Kind kind = Kind::kPartial;
  size_t size = 0;          // of kOwn, kPeer: bytes of the header, behind which the peer's own begin
  Tcp::endpoint peer = {};  // of kPeer
};

// bytes: from the connection's first one on.
ProxyHeader peek_proxy_header(std::span<const uint8_t> bytes);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_PROXY_HEADER_H_
