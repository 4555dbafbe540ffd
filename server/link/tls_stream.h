// A TLS 1.3 server session (Mbed TLS) over an Asio socket, with error codes.
//
//            socket --when it is readable--> input_ --BIO--> Mbed TLS --read()--> caller
//   caller --write()--> Mbed TLS --BIO--> out_ --flush(): one send per flight; what the socket does not take waits-->
//
// Bytes are read into one buffer of the context, which all streams share; a stream keeps a copy of its own only of what
// its owner leaves there. The memory of a flight is the context's too, and goes back when the socket has taken it. So
// an idle stream holds no buffers beside those of Mbed TLS.
//
// A read takes at most that one buffer, and the next one begins behind the events of all other streams. So a peer that
// sends without pause starves nobody.
//
// A pump, not a coroutine: Mbed TLS may want to write in order to read. The stream calls on_event whenever bytes came,
// bytes left or the peer is gone; the owner then calls handshake(), read() and write() until they would block.
//
// Trust: the identity is that of the pre-shared key that both ends proved (psk_dhe_ke with x25519 or P-256; psk_ke
// where the context allows it). Where the context has credentials, it may also be the CN of a certificate that the
// device CA has signed. There are no tickets and no renegotiation; records have at most 1,024 bytes. A peer offers one
// identity. An unknown one of a key is answered at once with the alert unknown_psk_identity, unless the policy hides
// identities; an unknown one of a certificate may be one that the owner registers (is_unregistered()). What a peer
// sends is looked at only when the peer is admitted. A stream says one fatal alert at most, and nothing behind it.
//
// A context and its streams belong to one thread. Several contexts may have threads of their own, because the keys and
// random numbers of PSA, which are the process's, are locked (MBEDTLS_THREADING_C). All contexts are started before any
// of them has a stream.
#ifndef GRADSTREAM_SERVER_LINK_TLS_STREAM_H_
#define GRADSTREAM_SERVER_LINK_TLS_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mbedtls/ssl.h>

#include "runtime/base/status.h"
#include "server/base/asio_alias.h"
#include "server/base/secret.h"
#include "server/link/credentials.h"
#include "server/link/tls_fault.h"

namespace gradstream {

inline constexpr size_t kPskSize = 32;  // bytes
using PskKey = Secret<kPskSize>;

// What the fleet says of an identity.
enum class PskRefusal : uint8_t {
  kNone,
  kRevoked,
  kInactive,    // pending or disabled
  kExpired,     // proves a key that a rotation has replaced, after its window
  kClaimEnded,  // a claim whose time is over
};
inline constexpr uint32_t kNoDevice = UINT32_MAX;
struct PskEntry {
  PskKey key = {};
  uint32_t device = 0;  // enrolment index; kNoDevice: of a claim
  uint32_t claim = 0;   // its id; 0: this is a device
  PskRefusal refusal = PskRefusal::kNone;
};
// false: no such identity. Called on the thread of the context's streams, in the middle of a handshake: all of them
// wait for it. So it takes at most a page-cache read. The server's runs one SELECT, or two for a key of a rotation; in
// WAL mode a reader seldom waits for anyone, and 5 s at most.
using PskLookup = std::function<bool(std::string_view identity, PskEntry* out)>;

// What a lookup has said of an identity, for a handshake that follows at once and then asks no second time. Whoever
// keeps a connection waiting drops it, because a device may be revoked meanwhile.
struct KnownPsk {
  std::string identity;
  bool is_known = false;  // what the lookup returned
  PskEntry entry;
};

// How peers are taken.
struct TlsPolicy {
  bool allow_psk_ke = false;  // also the key exchange without forward secrecy, for the smallest boards
  // Who has no key learns nothing by a name: an unknown identity is answered as a known one with a wrong key, after the
  // same work, with the same alert; and whoever is revoked, disabled or over is told so after its key is proven. Else
  // an alert says at once what this end knows of the name. fault() says it in either case.
  bool hide_identities = false;
};

class TlsStream;

// What all sessions share. Must outlive them.
class TlsContext {
 public:
  // board: of the certificates that are taken beside keys, loaded; null: none are. Must outlive the context.
  TlsContext(PskLookup lookup, const TlsPolicy& policy, const CredentialBoard* board = nullptr);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  // kOk, or kClosed when the random generator cannot be seeded, kOutOfMemory. Once, before the first stream.
  Status start();
  bool takes_certificates() const { return board_ != nullptr; }

 private:
  friend class TlsStream;
  static int on_psk(void* context, mbedtls_ssl_context* ssl, const unsigned char* identity, size_t identity_size);
  static int on_choose_certificate(mbedtls_ssl_context* ssl);
  const std::shared_ptr<Credentials>& credentials();

  PskLookup lookup_;
  TlsPolicy policy_;
  const CredentialBoard* board_;
  std::shared_ptr<const CredentialBundle> bundle_;  // that the credentials were parsed from
  std::shared_ptr<Credentials> credentials_;
  mbedtls_ssl_config config_ = {};
  mbedtls_ssl_config claim_config_ = {};       // the same for sessions of claims, and not freed: psk_dhe_ke alone
  std::vector<uint8_t> scratch_;               // what one read of one stream takes, see TlsStream
  const TlsStream* scratch_reader_ = nullptr;  // who reads into it, or did so last
  asio::mutable_buffer place_;                 // of the read that is being made
  std::vector<uint8_t> spare_;                 // memory of a flight that has left, empty
};

class TlsStream : public std::enable_shared_from_this<TlsStream> {
 public:
  TlsStream(Tcp::socket socket, TlsContext& context, std::function<void()> on_event);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Begins to read. The socket has TCP_NODELAY: a handshake is small flights, and Nagle costs 40 ms for each.
  // first_bytes: of the connection, read by whoever had it before. The owner calls handshake() for them, as no event
  // comes. known: of the identity in them, null: it has not been looked up. kOutOfMemory.
  Status start(std::vector<uint8_t> first_bytes = {}, std::unique_ptr<KnownPsk> known = nullptr);
  // kOk: established. kWouldBlock: call again on the next event. Any other: dead, see fault().
  Status handshake();
  // After handshake(): by its certificate the peer is a device that nobody has enrolled. The owner calls admit() or
  // refuse().
  bool is_unregistered() const { return established_ && has_certificate_ && entry_.device == kNoDevice; }
  void admit(uint32_t device) { entry_.device = device; }
  // Tells an established peer by an alert; fault() is that one from now on.
  void refuse(TlsFault fault);
  // At least one byte. kWouldBlock; kClosed: the peer is gone; kProtocolError: see fault().
  Result<size_t> read(uint8_t* out, size_t size);
  // Takes all of the bytes (at most one record's worth) or none (kWouldBlock: call again after a flush() that leaves
  // can_write(), or on the next event). flush() hands the taken bytes to the socket, in one send if none is under way.
  // If the socket does not take all of them at once, it gets the rest later, and on_event is called then.
  Status write(std::span<const uint8_t> bytes);
  bool can_write() const;
  void flush();
  // Sends what was taken and close_notify, then FIN, then discards input until the peer closes: closing at once would
  // reset the connection and lose the last words. on_event is called when that is done; call close() then, or when the
  // owner's patience ends.
  void shut_down();
  bool shut_down_done() const { return shut_ && !writing_ && peer_gone_; }
  // Frees the socket and never calls on_event again.
  void close();

  bool is_writing() const { return writing_; }
  // The peer has begun a TLS record and not finished it.
  bool in_record() const { return record_.header_size > 0 || record_.left > 0; }
  TlsFault fault() const { return fault_; }
  // What the peer sent first, for kNotTls; the Mbed TLS error in words otherwise.
  const std::string& fault_detail() const { return fault_detail_; }
  // The identity offered, proven once handshake() returned kOk; its enrolment index.
  const std::string& identity() const { return identity_; }
  uint32_t device() const { return entry_.device; }
  uint32_t claim() const { return entry_.claim; }
  uint64_t wire_bytes_sent() const { return wire_bytes_sent_; }
  uint64_t wire_bytes_received() const { return wire_bytes_received_; }

 private:
  friend class TlsContext;
  static int bio_send(void* context, const unsigned char* bytes, size_t size);
  static int bio_receive(void* context, unsigned char* out, size_t size);
  static int on_verify(void* stream, mbedtls_x509_crt* certificate, int depth, uint32_t* flags);
  bool look_up(const PskLookup& lookup);
  // Of an identity that was offered with a key.
  bool is_refused() const { return !identity_known_ || entry_.refusal != PskRefusal::kNone; }
  bool draw_key();
  Status admit_key();
  bool can_send_alert() const;
  unsigned char alert_of(int code) const;
  void send_alert(unsigned char alert);
  Status admit_certificate();
  TlsFault find_certificate_fault() const;
  TlsFault find_broken_certificate(int code) const;
  struct DuringHandshake {
    std::shared_ptr<Credentials> credentials;  // of this end
    std::unique_ptr<KnownPsk> known;           // until the key is looked up
  };
  // Where the input stands among the peer's records.
  struct RecordTrack {
    uint8_t header[5] = {};
    size_t header_size = 0;
    size_t left = 0;
    size_t size = 0;  // of the one that began last
  };
  struct ReadPlace;
  struct Reading {
    bool is_under_way = false;
    bool is_beginning = false;  // Asio is being asked for it
    bool is_apart = false;      // it has put one byte into first_byte, and none into the scratch
    uint8_t first_byte = 0;
  };
  void arm_read();
  asio::mutable_buffer choose_place();
  void on_read(const ErrorCode& error, size_t size);
  void on_written(const ErrorCode& error, size_t size);
  bool looks_like_tls();
  void track_records(const unsigned char* bytes, size_t size);
  Status fail(int mbedtls_code);
  void notify();

  Tcp::socket socket_;
  TlsContext& context_;
  std::function<void()> on_event_;
  mbedtls_ssl_context ssl_ = {};
  std::span<const uint8_t> input_;  // received and not yet given to Mbed TLS: in the context's scratch, or in kept_
  std::vector<uint8_t> kept_;
  std::vector<uint8_t> out_;
  std::vector<uint8_t> in_flight_;
  Reading reading_;
  bool writing_ = false;
  bool starved_ = false;    // the BIO had nothing to give since the last call into Mbed TLS
  bool peer_gone_ = false;  // EOF or an error of the socket
  bool shut_ = false;
  bool fin_sent_ = false;
  bool alert_sent_ = false;  // a fatal one: nothing may follow
  bool established_ = false;
  RecordTrack record_;
  TlsFault fault_ = TlsFault::kNone;
  std::string fault_detail_;
  std::string identity_;
  PskEntry entry_;
  bool identity_known_ = false;
  bool has_shown_certificate_ = false;  // of this end
  bool has_certificate_ = false;        // the identity is its CN
  DuringHandshake during_handshake_;
  uint64_t wire_bytes_sent_ = 0;
  uint64_t wire_bytes_received_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_TLS_STREAM_H_
