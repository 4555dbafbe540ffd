#include "runtime/base/no_contraction.h"

#include "runtime/link/tls.h"

#include <algorithm>
#include <cstring>

#include <mbedtls/entropy.h>
#include <mbedtls/platform.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ciphersuites.h>
#include <psa/crypto.h>
extern "C" {
#include <mbedtls/psa_util.h>  // knows no C++
}

#include "runtime/base/config.h"
#include "runtime/link/port.h"

// An Mbed TLS of the project's own (GRADSTREAM_MBEDTLS_TARGET) has its memory from the project, which has given it that
// already. What Mbed TLS asks of a platform is weak beside one: the project's functions take the place of these.
#if defined(MBEDTLS_MEMORY_BUFFER_ALLOC_C) && !defined(GS_OWN_MBEDTLS)
#define GS_HAS_POOL 1
#include <mbedtls/memory_buffer_alloc.h>
#endif
#if defined(GS_OWN_MBEDTLS)
#define GS_OF_PLATFORM [[gnu::weak]]
#else
#define GS_OF_PLATFORM
#endif
#if !defined(GS_BARE_METAL)
#include "runtime/link/certificate.h"
#endif

namespace gradstream {
namespace {

// What a device asks of the configuration of an Mbed TLS that is not this tree's (GRADSTREAM_MBEDTLS_TARGET).
#if MBEDTLS_VERSION_NUMBER < 0x03060000 || MBEDTLS_VERSION_NUMBER >= 0x04000000
#error "gradstream needs Mbed TLS 3.6, and this is another version: leave GRADSTREAM_MBEDTLS_TARGET empty"
#endif
#if !defined(MBEDTLS_SSL_PROTO_TLS1_3) || !defined(MBEDTLS_SSL_CLI_C)
#error "the configuration of Mbed TLS lacks a client of TLS 1.3: define MBEDTLS_SSL_PROTO_TLS1_3 and MBEDTLS_SSL_CLI_C"
#endif
#if !defined(MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED) && \
    !defined(MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_ENABLED)
#error "Mbed TLS lacks pre-shared keys: define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED"
#endif
#if defined(MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED) && \
    (!defined(PSA_WANT_ALG_ECDH) || !defined(PSA_WANT_ECC_MONTGOMERY_255))
#error "Mbed TLS lacks X25519, the one group of a server: define MBEDTLS_ECDH_C and MBEDTLS_ECP_DP_CURVE25519_ENABLED"
#endif
#if !defined(PSA_WANT_ALG_GCM) || !defined(PSA_WANT_ALG_SHA_256) || !defined(PSA_WANT_KEY_TYPE_AES)
#error "Mbed TLS lacks TLS_AES_128_GCM_SHA256: define MBEDTLS_AES_C, MBEDTLS_GCM_C and MBEDTLS_SHA256_C"
#endif
#if !defined(GS_BARE_METAL) && !defined(MBEDTLS_X509_CRT_PARSE_C)
#error "Mbed TLS lacks certificates, which a host links: define MBEDTLS_X509_CRT_PARSE_C and MBEDTLS_PEM_PARSE_C"
#endif

// A host takes more, for a ClientHello that is longer (cmake/mbedtls_config_host.h).
#if !defined(MBEDTLS_SSL_RECORD_SIZE_LIMIT) || MBEDTLS_SSL_IN_CONTENT_LEN < 1024 || MBEDTLS_SSL_OUT_CONTENT_LEN != 1024
#error \
    "one frame is one record: define MBEDTLS_SSL_RECORD_SIZE_LIMIT, OUT_CONTENT_LEN 1024, IN_CONTENT_LEN from 1024 on"
#endif
static_assert(kFrameSizeMax <= MBEDTLS_SSL_OUT_CONTENT_LEN);

// The suite and the group of docs/wire.md; a fixed list keeps what is not needed out of the ClientHello.
const int kCiphersuites[] = {MBEDTLS_TLS1_3_AES_128_GCM_SHA256, 0};
const uint16_t kGroups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_X25519, MBEDTLS_SSL_IANA_TLS_GROUP_NONE};

// WANT_READ although the transport was not drained: call again, but never for ever. Each such call consumes a message
// of the peer, and a record of 1,024 bytes holds at most some hundred.
constexpr uint32_t kAttemptsMax = 300;

#if defined(GS_HAS_POOL)
// tls_start() paints the pool behind the allocator's first header: what has still the colour at its end was never used.
constexpr uint8_t kPaint = 0xa5;
constexpr size_t kHeaderSizeMax = 64;
uint8_t* pool_begin = nullptr;
size_t pool_size_total = 0;

Status start_pool(void* pool, size_t pool_size) {
  pool_begin = static_cast<uint8_t*>(pool);
  pool_size_total = pool_size;
  mbedtls_memory_buffer_alloc_init(pool_begin, pool_size);
  std::memset(pool_begin + kHeaderSizeMax, kPaint, pool_size - kHeaderSizeMax);
  return Status::kOk;
}
#endif

struct FaultText {
  int value;
  Status status;
  const char* text;
};

constexpr char kOlderTls[] = "the peer speaks TLS but not TLS 1.3: check address and port, or update the peer";
constexpr char kUnknownIdentity[] =
    "the server does not know this identity (`gradstream device add`, then give the device the new file), or it does "
    "not allow psk_ke (allow_psk_ke in its [server])";
// Mbed TLS has no name for it. Its server says so when no key matches and it has no certificate to fall back on.
constexpr int kAlertMissingExtension = 109;

// Alerts of the server that tell a remedy.
const FaultText kAlertTexts[] = {
    {MBEDTLS_SSL_ALERT_MSG_UNKNOWN_PSK_IDENTITY, Status::kUnauthenticated,
     "the server does not know this identity: add it with `gradstream device add`, or give the device its new file"},
    {MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR, Status::kUnauthenticated,
     "wrong key: the server holds another key for this identity; give the device the file that `gradstream device add` "
     "wrote last"},
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE, Status::kUnauthenticated, kUnknownIdentity},
    {kAlertMissingExtension, Status::kUnauthenticated, kUnknownIdentity},
    {MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED, Status::kUnauthenticated,
     "the server denies this identity: revoked, disabled or pending (`gradstream device list`)"},
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, Status::kProtocolError, kOlderTls},
    {MBEDTLS_SSL_ALERT_MSG_INTERNAL_ERROR, Status::kClosed,
     "the server met a fault of its own (its log says which): try again later"},
#if !defined(GS_BARE_METAL)
    {MBEDTLS_SSL_ALERT_MSG_BAD_CERT, Status::kUnauthenticated,
     "the server finds no device's name in the certificate: its CN is to be 1 to 56 printable ASCII characters without "
     "spaces, commas, / and ~"},
    {MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT, Status::kUnauthenticated,
     "the server does not take this kind of certificate: sign it for clients (extendedKeyUsage clientAuth, keyUsage "
     "digitalSignature), ECDSA over P-256"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED, Status::kUnauthenticated,
     "the server says that this certificate has expired or that its time has not come: renew it, and compare the dates "
     "in it with the server's clock"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, Status::kClosed,
     "the server registers no more devices by certificate just now: its log says why; the client tries again"},
    {MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA, Status::kUnauthenticated,
     "this certificate is not signed by the server's device CA: sign it by the CA of server.device_ca_file"},
    {MBEDTLS_SSL_ALERT_MSG_NO_CERT, Status::kUnauthenticated, "the server wants a certificate of its device CA"},
#endif
};

const FaultText kCodeTexts[] = {
    {MBEDTLS_ERR_SSL_ALLOC_FAILED, Status::kOutOfMemory,
     "out of memory in the TLS pool: make it larger (kTlsPoolSize in the board's board_config.h)"},
    {MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION, Status::kProtocolError, kOlderTls},
    {MBEDTLS_ERR_SSL_ILLEGAL_PARAMETER, Status::kProtocolError, kOlderTls},  // a ServerHello of TLS 1.2
    {MBEDTLS_ERR_SSL_INVALID_MAC, Status::kDataCorrupt,
     "a record was damaged or forged on its way: check the link; the next session starts afresh"},
    {MBEDTLS_ERR_SSL_INVALID_RECORD, Status::kDataCorrupt,
     "bytes that are no TLS record, or a record above 1,024 bytes: check the link, and that the peer is a gradstream "
     "server"},
    {MBEDTLS_ERR_SSL_FEATURE_UNAVAILABLE, Status::kUnimplemented, "this image does not link that key exchange"},
};

constexpr char kNoTls[] = "the peer speaks no TLS: check address and port, and that nothing plain listens there";
constexpr char kClosedEarly[] =
    "the peer closed the connection before it said anything: is it a gradstream server, and has it room?";
constexpr char kClosedInHandshake[] = "the connection closed in the handshake: the server's log says why";
constexpr char kClosed[] = "the connection closed";
constexpr char kClosedByPeer[] = "the server ended the session";
constexpr char kAlertOther[] = "the server ended the session with an alert";
constexpr char kHandshakeOther[] =
    "the handshake failed: the peer's answer does not fit; is it a gradstream server of this version?";
constexpr char kSessionOther[] = "the session broke: the next one starts afresh";

template <size_t N>
const FaultText* find_text(const FaultText (&texts)[N], int value) {
  for (const FaultText& text : texts) {
    if (text.value == value) {
      return &text;
    }
  }
  return nullptr;
}

// Content types of TLS records: change_cipher_spec, alert, handshake, application_data.
bool is_tls_byte(uint8_t byte) { return byte >= 20 && byte <= 23; }

}  // namespace

struct TlsSession::Contexts {
  mbedtls_ssl_context ssl;
  mbedtls_ssl_config config;
};

Status tls_start([[maybe_unused]] void* pool, [[maybe_unused]] size_t pool_size) {
#if defined(GS_HAS_POOL)
  if (pool == nullptr || pool_size < 1024) {
    return Status::kOutOfMemory;
  }
  GS_TRY(start_pool(pool, pool_size));
#endif
  switch (psa_crypto_init()) {
    case PSA_SUCCESS:
      return Status::kOk;
    case PSA_ERROR_INSUFFICIENT_MEMORY:
      return Status::kOutOfMemory;
    default:
      return Status::kClosed;
  }
}

size_t tls_high_water_size() {
#if defined(GS_HAS_POOL)
  size_t size = pool_size_total;
  while (size > 0 && pool_begin[size - 1] == kPaint) {
    --size;
  }
  return size;
#else
  return 0;
#endif
}

TlsSession::TlsSession() = default;

TlsSession::~TlsSession() { end(); }

TlsSession::Contexts& TlsSession::contexts() {
  // C structures without constructors, which begin() initialises: an array of bytes may hold them.
  static_assert(alignof(Contexts) <= 8);
  static_assert(
      sizeof(Contexts) <= kContextsSize,
      "the contexts of this Mbed TLS are larger: set GS_TLS_CONTEXTS_SIZE, such as -DGS_TLS_CONTEXTS_SIZE=1024");
  return *static_cast<Contexts*>(static_cast<void*>(contexts_));
}

int TlsSession::configure(const Identity& identity, TlsKeyExchange key_exchange) {
  mbedtls_ssl_config& config = contexts().config;
  const int code = mbedtls_ssl_config_defaults(&config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                               MBEDTLS_SSL_PRESET_DEFAULT);
  if (code != 0) {
    return code;
  }
  mbedtls_ssl_conf_rng(&config, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE);
  mbedtls_ssl_conf_min_tls_version(&config, MBEDTLS_SSL_VERSION_TLS1_3);
  mbedtls_ssl_conf_max_tls_version(&config, MBEDTLS_SSL_VERSION_TLS1_3);
  mbedtls_ssl_conf_ciphersuites(&config, kCiphersuites);
  mbedtls_ssl_conf_groups(&config, kGroups);
  if (key_exchange == TlsKeyExchange::kPskEphemeral) {
#if defined(MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED)
    mbedtls_ssl_conf_tls13_key_exchange_modes(&config, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL);
#else
    return MBEDTLS_ERR_SSL_FEATURE_UNAVAILABLE;
#endif
#if !defined(GS_BARE_METAL)
  } else if (key_exchange == TlsKeyExchange::kCertificate) {
    return configure_certificate();
#endif
  } else {
#if defined(MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_ENABLED)
    mbedtls_ssl_conf_tls13_key_exchange_modes(&config, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK);
#else
    return MBEDTLS_ERR_SSL_FEATURE_UNAVAILABLE;
#endif
  }
  return mbedtls_ssl_conf_psk(&config, identity.key, sizeof(identity.key),
                              reinterpret_cast<const unsigned char*>(identity.name), std::strlen(identity.name));
}

#if !defined(GS_BARE_METAL)
int TlsSession::configure_certificate() {
  mbedtls_ssl_config& config = contexts().config;
  mbedtls_ssl_conf_tls13_key_exchange_modes(&config, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL);
  mbedtls_ssl_conf_authmode(&config, MBEDTLS_SSL_VERIFY_REQUIRED);
  mbedtls_ssl_conf_ca_chain(&config, credentials_->authority(), nullptr);
  return mbedtls_ssl_conf_own_cert(&config, credentials_->certificate(), credentials_->key());
}

Status TlsSession::begin(const Transport& transport, const Credentials& credentials, const char* server_name) {
  credentials_ = &credentials;
  server_name_ = server_name;
  return begin(transport, Identity{}, TlsKeyExchange::kCertificate);
}
#endif

Status TlsSession::begin(const Transport& transport, const Identity& identity, TlsKeyExchange key_exchange) {
  end();
  transport_ = transport;
  input_empty_ = transport_closed_ = false;
  first_byte_ = 0;
  fault_ = 0;
  alert_ = -1;
  fault_text_ = "";
  bytes_sent_ = bytes_received_ = output_begin_ = output_end_ = 0;
  mbedtls_ssl_init(&contexts().ssl);
  mbedtls_ssl_config_init(&contexts().config);
  phase_ = Phase::kHandshake;
  int code = configure(identity, key_exchange);
  if (code == 0) {
    code = mbedtls_ssl_setup(&contexts().ssl, &contexts().config);
  }
#if !defined(GS_BARE_METAL)
  if (code == 0 && key_exchange == TlsKeyExchange::kCertificate) {
    code = mbedtls_ssl_set_hostname(&contexts().ssl, server_name_);
  }
#endif
  if (code != 0) {
    return die(code);
  }
  mbedtls_ssl_set_bio(&contexts().ssl, this, send_callback, receive_callback, nullptr);
  return Status::kOk;
}

// Gathers; the transport gets it in flush(). A handshake may ask for more than one record before it pauses.
int TlsSession::send_callback(void* session, const unsigned char* bytes, size_t size) {
  TlsSession& self = *static_cast<TlsSession*>(session);
  if (kOutputSize - self.output_end_ < size && self.flush() == Status::kClosed) {
    return MBEDTLS_ERR_SSL_CONN_EOF;
  }
  const size_t count = std::min(size, kOutputSize - self.output_end_);
  if (count == 0) {
    return MBEDTLS_ERR_SSL_WANT_WRITE;
  }
  std::memcpy(self.output_ + self.output_end_, bytes, count);
  self.output_end_ += count;
  return static_cast<int>(count);
}

int TlsSession::receive_callback(void* session, unsigned char* out, size_t size) {
  TlsSession& self = *static_cast<TlsSession*>(session);
  const Result<size_t> count = self.transport_.ops->read(self.transport_.context, out, size);
  if (count.status() == Status::kWouldBlock) {
    self.input_empty_ = true;
    return MBEDTLS_ERR_SSL_WANT_READ;
  }
  if (!count.ok()) {
    self.transport_closed_ = true;
    return MBEDTLS_ERR_SSL_CONN_EOF;
  }
  if (self.bytes_received_ == 0) {
    self.first_byte_ = out[0];
  }
  self.bytes_received_ += count.value();
  return static_cast<int>(count.value());
}

Status TlsSession::flush() {
  if (phase_ == Phase::kIdle || phase_ == Phase::kDead) {
    return Status::kClosed;
  }
  while (output_begin_ < output_end_) {
    const Result<size_t> count =
        transport_.ops->write(transport_.context, output_ + output_begin_, output_end_ - output_begin_);
    if (count.status() == Status::kWouldBlock) {
      return Status::kWouldBlock;
    }
    if (!count.ok()) {
      transport_closed_ = true;
      return die(MBEDTLS_ERR_SSL_CONN_EOF);
    }
    bytes_sent_ += count.value();
    output_begin_ += count.value();
  }
  output_begin_ = output_end_ = 0;
  return Status::kOk;
}

// Mbed TLS says WANT_READ also after a message that gave no data, with more of them waiting: only what our own
// receive_callback saw tells whether the transport is drained.
bool TlsSession::should_retry(int code, uint32_t* attempts) {
  const bool more =
      code == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET || (code == MBEDTLS_ERR_SSL_WANT_READ && !input_empty_);
  return more && ++*attempts < kAttemptsMax;
}

Status TlsSession::handshake() {
  if (phase_ != Phase::kHandshake) {
    return phase_ == Phase::kOpen ? Status::kOk : Status::kClosed;
  }
  int code = 0;
  uint32_t attempts = 0;
  do {
    input_empty_ = false;
    code = mbedtls_ssl_handshake(&contexts().ssl);
  } while (should_retry(code, &attempts));
  if (phase_ == Phase::kDead) {
    return Status::kClosed;
  }
  if (code != 0 && code != MBEDTLS_ERR_SSL_WANT_READ && code != MBEDTLS_ERR_SSL_WANT_WRITE) {
    const Status pushed = flush();  // our alert, if the transport still takes it
    return pushed == Status::kClosed ? Status::kClosed : die(code);
  }
  if (flush() == Status::kClosed) {
    return Status::kClosed;
  }
  if (code != 0) {
    return Status::kWouldBlock;
  }
  phase_ = Phase::kOpen;
  return Status::kOk;
}

Result<size_t> TlsSession::read(uint8_t* out, size_t size) {
  if (phase_ != Phase::kOpen || flush() == Status::kClosed) {
    return Status::kClosed;
  }
  int code = 0;
  uint32_t attempts = 0;
  do {
    input_empty_ = false;
    code = mbedtls_ssl_read(&contexts().ssl, out, size);
  } while (should_retry(code, &attempts));
  if (phase_ == Phase::kDead) {
    return Status::kClosed;
  }
  if (code > 0) {
    return static_cast<size_t>(code);
  }
  if (code == MBEDTLS_ERR_SSL_WANT_READ || code == MBEDTLS_ERR_SSL_WANT_WRITE) {
    return flush() == Status::kClosed ? Status::kClosed : Status::kWouldBlock;
  }
  (void)flush();
  return phase_ == Phase::kDead ? Status::kClosed : die(code == 0 ? MBEDTLS_ERR_SSL_CONN_EOF : code);
}

// ssl_write must be repeated with the same bytes after WANT_WRITE. It never says so here: it is called only when the
// buffer has room for a whole record.
Result<size_t> TlsSession::write(const uint8_t* bytes, size_t size) {
  if (phase_ != Phase::kOpen) {
    return Status::kClosed;
  }
  GS_TRY(flush());
  const int code = mbedtls_ssl_write(&contexts().ssl, bytes, size);
  if (code <= 0) {
    return phase_ == Phase::kDead ? Status::kClosed : die(code);
  }
  return flush() == Status::kClosed ? Result<size_t>(Status::kClosed) : Result<size_t>(static_cast<size_t>(code));
}

#if !defined(GS_BARE_METAL)
Status TlsSession::finish_writing() {
  if (phase_ != Phase::kOpen || flush() == Status::kClosed) {
    return Status::kClosed;
  }
  const int code = mbedtls_ssl_close_notify(&contexts().ssl);
  if (code != 0) {
    return phase_ == Phase::kDead ? Status::kClosed : die(code);
  }
  return flush() == Status::kClosed ? Status::kClosed : Status::kOk;
}
#endif

void TlsSession::end() {
  if (phase_ == Phase::kIdle) {
    return;
  }
  if (phase_ == Phase::kOpen && flush() == Status::kOk) {
    (void)mbedtls_ssl_close_notify(&contexts().ssl);
    (void)flush();
  }
  phase_ = Phase::kIdle;
  mbedtls_ssl_free(&contexts().ssl);
  mbedtls_ssl_config_free(&contexts().config);
  mbedtls_platform_zeroize(output_, sizeof(output_));
}

Status TlsSession::die(int code) {
  if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
    alert_ = contexts().ssl.MBEDTLS_PRIVATE(in_msg)[1];
  }
  fault_ = code;
  const Status status = classify(code);
  phase_ = Phase::kDead;
  return status;
}

// Names the fault; the order is from what is certain to what is left.
Status TlsSession::classify(int code) {
  const bool in_handshake = phase_ == Phase::kHandshake;
  if (in_handshake && bytes_received_ > 0 && !is_tls_byte(first_byte_)) {
    fault_text_ = kNoTls;
    return Status::kProtocolError;
  }
  if (code == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
    fault_text_ = kClosedByPeer;
    return Status::kClosed;
  }
  if (code == MBEDTLS_ERR_SSL_CONN_EOF || transport_closed_) {
    fault_text_ = !in_handshake ? kClosed : bytes_received_ == 0 ? kClosedEarly : kClosedInHandshake;
    return Status::kClosed;
  }
  if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
    const FaultText* alert = find_text(kAlertTexts, alert_);
    fault_text_ = alert != nullptr ? alert->text : kAlertOther;
    return alert != nullptr ? alert->status : Status::kClosed;
  }
#if !defined(GS_BARE_METAL)
  if (code == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED || code == MBEDTLS_ERR_SSL_BAD_CERTIFICATE) {
    return classify_certificate();
  }
#endif
  if (const FaultText* known = find_text(kCodeTexts, code)) {
    fault_text_ = known->text;
    return known->status;
  }
  fault_text_ = in_handshake ? kHandshakeOther : kSessionOther;
  return in_handshake ? Status::kProtocolError : Status::kDataCorrupt;
}

#if !defined(GS_BARE_METAL)
// What is wrong with the server's certificate.
Status TlsSession::classify_certificate() {
  const uint32_t flags = mbedtls_ssl_get_verify_result(&contexts().ssl);
  if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
    fault_text_ =
        "the server's certificate is not signed by the CA that this device was given: compare --server-ca with "
        "the CA of server.certificate_file";
  } else if ((flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) != 0) {
    fault_text_ =
        "the server's certificate has expired or its time has not come: renew it, and check this machine's "
        "clock";
  } else if ((flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0) {
    fault_text_ =
        "the server's certificate is for another name than the one that was dialled: dial one of its "
        "subjectAltName, or give that with --server-name";
  } else {
    fault_text_ = "the server's certificate is no ECDSA certificate for servers over P-256";
  }
  return Status::kUnauthenticated;
}
#endif

}  // namespace gradstream

// What Mbed TLS asks of a platform without an operating system.
extern "C" {

#if defined(MBEDTLS_ENTROPY_HARDWARE_ALT)
GS_OF_PLATFORM int mbedtls_hardware_poll(void*, unsigned char* out, size_t size, size_t* out_size) {
  *out_size = 0;
  if (gradstream::port_random_bytes(out, size) != gradstream::Status::kOk) {
    return MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
  }
  *out_size = size;
  return 0;
}
#endif

#if defined(MBEDTLS_PLATFORM_ZEROIZE_ALT)
// Not optimised away: every store is volatile. By words where they are aligned, since a handshake clears some 20 KB.
GS_OF_PLATFORM void mbedtls_platform_zeroize(void* bytes, size_t size) {
  using Word [[gnu::may_alias]] = uint32_t;
  volatile unsigned char* out = static_cast<volatile unsigned char*>(bytes);
  volatile unsigned char* const end = out + size;
  const auto is_aligned = [&out] { return reinterpret_cast<uintptr_t>(out) % sizeof(Word) == 0; };
  while (out != end) {
    if (is_aligned() && static_cast<size_t>(end - out) >= sizeof(Word)) {
      *reinterpret_cast<volatile Word*>(out) = 0;
      out += sizeof(Word);
    } else {
      *out++ = 0;
    }
  }
}
#endif

}  // extern "C"
