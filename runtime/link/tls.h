// A TLS 1.3 client session (Mbed TLS) over a Transport. PSK with ephemeral x25519 (psk_dhe_ke) by default, pure PSK as a
// named option. Never blocks; one session at a time; no heap: Mbed TLS allocates from the pool given to tls_start().
//
// Transport errors, alerts and our own contract stay apart: see TlsFault.
#ifndef GRADSTREAM_RUNTIME_LINK_TLS_H_
#define GRADSTREAM_RUNTIME_LINK_TLS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"
#include "runtime/link/transport.h"

namespace gradstream {

// Who this device is: a small file or flash page apart from the image.
struct Identity {
  static constexpr size_t kNameSizeMax = 63;
  static constexpr size_t kKeySize = 32;  // bytes; SHA-256 PSK
  char name[kNameSizeMax + 1] = {};
  uint8_t key[kKeySize] = {};
};

// Parses the text form that `gradstream device add` writes (docs/wire.md): lines `identity = NAME`, `key = 64 hex digits`,
// `#` comments. kDataCorrupt with *line = the line at fault (0: a field is missing).
Status parse_identity(std::span<const char> text, Identity* out, uint32_t* line);

enum class TlsKeyExchange : uint8_t { kPskEphemeral = 0, kPsk = 1 };

// Once per process or boot, before the first session: gives the pool (boards; ignored on a host that links malloc) and
// seeds PSA from port_random_bytes. kClosed when there is no entropy, kOutOfMemory.
Status tls_start(void* pool, size_t pool_size);
// Most bytes of the pool ever used, 0 where not measured.
size_t tls_high_water_size();

class TlsSession {
 public:
  // Memory of the contexts is inside the object: see kTlsStateSize in tls.cc for the sum.
  TlsSession();
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Begins a session; the identity and transport must outlive it. kInvalidArgument, kOutOfMemory.
  Status begin(const Transport& transport, const Identity& identity, TlsKeyExchange key_exchange);
  // kOk when established, kWouldBlock: call again when the transport has news, else the session is dead.
  Status handshake();
  // As Transport. A write that returned kWouldBlock must be repeated with the same bytes (the session keeps none).
  Result<size_t> read(uint8_t* out, size_t size);
  Result<size_t> write(const uint8_t* bytes, size_t size);
  // Sends close_notify if it can at once, frees everything.
  void end();

  // Mbed TLS code of the last fault, 0: none; and static text in words with the remedy ("the server does not know this
  // identity: device add", "wrong key", "the peer speaks no TLS", ...).
  int last_fault() const;
  const char* last_fault_text() const;
  // Bytes on the transport since begin(), both directions: for the byte tables.
  size_t wire_bytes_sent() const;
  size_t wire_bytes_received() const;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_TLS_H_
