// A TLS 1.3 client session (Mbed TLS) over a Transport. PSK with ephemeral x25519 (psk_dhe_ke) by default, pure PSK as
// a named option; on hosts also a certificate of a device CA. Never blocks. No heap on a board: Mbed TLS allocates from
// the pool given to tls_start().
//
//   begin() -> handshake() ... kOk -> read() / write() / flush() ... -> end()
//
// What the session sends is gathered in one buffer of one record and handed to the transport when Mbed TLS pauses: one
// write for each flight. What the transport did not take then leaves with the next call of any function.
// After kClosed, kUnauthenticated, kProtocolError, kDataCorrupt or kOutOfMemory the session is dead: read
// last_fault_text(), then end().
#ifndef GRADSTREAM_RUNTIME_LINK_TLS_H_
#define GRADSTREAM_RUNTIME_LINK_TLS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/link/transport.h"
#include "runtime/wire/identity.h"

namespace gradstream {

class Credentials;  // certificate.h

// kCertificate: of the begin() with credentials.
enum class TlsKeyExchange : uint8_t { kPskEphemeral = 0, kPsk = 1, kCertificate = 2 };

// Call it once per process or boot, before the first session. It takes the pool (boards; ignored where Mbed TLS is
// built on the libc's heap). It seeds the random generator, on a board from port_random_bytes. kClosed when there is no
// entropy, kOutOfMemory. On a host it also returns kOk when called again.
Status tls_start(void* pool, size_t pool_size);
// Bytes of the pool up to the highest one ever written, so that a pool of this size would have done. 0 where Mbed TLS
// uses the libc's heap.
size_t tls_high_water_size();

class TlsSession {
 public:
  TlsSession();
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Begins a session over a transport that is open; identity and transport's context must outlive it. A session that
  // has begun is ended first. kUnimplemented: this build has no such key exchange. kOutOfMemory: the pool is too small.
  Status begin(const Transport& transport, const Identity& identity, TlsKeyExchange key_exchange);
#if !defined(GS_BARE_METAL)
  // The same with a certificate (ECDSA, x25519); the credentials and the name must outlive the session. server_name:
  // what the server's certificate must be for, its DNS name or IP address. The server judges the device's certificate
  // after handshake() has returned kOk here: a refusal is a fault of the reads that follow.
  Status begin(const Transport& transport, const Credentials& credentials, const char* server_name);
  // Says that nothing more will be written; what the peer has still to say can be read. kClosed.
  Status finish_writing();
#endif
  // kOk when established. kWouldBlock: call again when the transport has news. Else dead: kUnauthenticated when the
  // server refused this device or the two share no way of speaking, kProtocolError when the peer speaks no TLS 1.3,
  // kClosed, kDataCorrupt, kOutOfMemory.
  Status handshake();
  // Plain bytes of the peer: at least one, or kWouldBlock. kClosed, kDataCorrupt, kOutOfMemory.
  Result<size_t> read(uint8_t* out, size_t size);
  // Takes at least one byte, as one record of its own, or none: kWouldBlock. Up to 1,000 bytes (one frame) are taken
  // whole. Taken bytes are the session's; the transport may get them later (flush()). kClosed, kOutOfMemory.
  Result<size_t> write(const uint8_t* bytes, size_t size);
  // Hands what is gathered to the transport. kOk: nothing is left. kWouldBlock, kClosed.
  Status flush();
  // Sends close_notify if it can at once, frees everything. Does not close the transport. Allowed in any state.
  void end();

  bool is_begun() const { return phase_ != Phase::kIdle; }
  // Mbed TLS code of the fault that killed the session, 0: none; the alert that the peer sent, -1: none; and static
  // text in words, with the remedy. They stand until the next begin().
  int last_fault() const { return fault_; }
  int last_alert() const { return alert_; }
  const char* last_fault_text() const { return fault_text_; }
  // Bytes on the transport since begin(), both directions: for the byte tables.
  size_t wire_bytes_sent() const { return bytes_sent_; }
  size_t wire_bytes_received() const { return bytes_received_; }

 private:
  enum class Phase : uint8_t { kIdle, kHandshake, kOpen, kDead };
  struct Contexts;  // Mbed TLS's, in contexts_
  // Largest record: 5 of header, 1,024 of content, 1 of type, 16 of tag, padding to 16.
  static constexpr size_t kOutputSize = 1072;
#if defined(GS_TLS_CONTEXTS_SIZE)
  static constexpr size_t kContextsSize = GS_TLS_CONTEXTS_SIZE;
#elif defined(GS_OWN_MBEDTLS)  // with its own default configuration 568 bytes on 32 bits
  static constexpr size_t kContextsSize = sizeof(void*) == 8 ? 1024 : 640;
#else
  static constexpr size_t kContextsSize = sizeof(void*) == 8 ? 1024 : 448;
#endif

  Contexts& contexts();
  int configure(const Identity& identity, TlsKeyExchange key_exchange);
#if !defined(GS_BARE_METAL)
  int configure_certificate();
  Status classify_certificate();
#endif
  Status die(int code);
  Status classify(int code);
  static int send_callback(void* session, const unsigned char* bytes, size_t size);
  static int receive_callback(void* session, unsigned char* out, size_t size);
  bool should_retry(int code, uint32_t* attempts);

#if !defined(GS_BARE_METAL)
  const Credentials* credentials_ = nullptr;
  const char* server_name_ = nullptr;
#endif
  Transport transport_;
  Phase phase_ = Phase::kIdle;
  bool input_empty_ = false;  // the transport said so in the last call of receive_callback
  uint8_t first_byte_ = 0;    // of the peer: tells TLS from plain text
  bool transport_closed_ = false;
  int fault_ = 0;
  int alert_ = -1;
  const char* fault_text_ = "";
  size_t bytes_sent_ = 0;
  size_t bytes_received_ = 0;
  size_t output_begin_ = 0;
  size_t output_end_ = 0;
  alignas(8) uint8_t contexts_[kContextsSize];
  uint8_t output_[kOutputSize];
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_TLS_H_
