#include "server/link/tls_stream.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <mbedtls/error.h>
#include <mbedtls/platform.h>
#include <psa/crypto.h>

#include "runtime/wire/claim.h"
#include "server/link/client_hello.h"

namespace gradstream {

namespace {

// Bytes read from the socket at once: a few records, so that a pipelined upload takes few system calls.
constexpr size_t kScratchSize = 4096;
// write() takes nothing more while so much waits for the socket: bounds the stream's own memory.
constexpr size_t kOutHighWater = 4096;

// x25519 first: half the time of P-256 on a small processor. P-256 for boards whose hardware has only that.
constexpr uint16_t kGroups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_X25519, MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
                                MBEDTLS_SSL_IANA_TLS_GROUP_NONE};
// A PSK is bound to SHA-256.
constexpr int kCiphersuites[] = {MBEDTLS_TLS1_3_AES_128_GCM_SHA256, MBEDTLS_TLS1_3_AES_128_CCM_SHA256, 0};

constexpr unsigned char kAlertUnknownPskIdentity = 115;
constexpr unsigned char kAlertCertificateRequired = 116;

// Codes of Mbed TLS's modules for X.509 and what it is made of (mbedtls/error.h).
constexpr int kX509CodeFirst = 0x2080;
constexpr int kX509CodeEnd = 0x4000;

int random_bytes(void*, unsigned char* out, size_t size) {
  return psa_generate_random(out, size) == PSA_SUCCESS ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

// glibc's calloc takes nothing from the thread's cache of freed blocks, and a handshake is hundreds of short-lived
// ones. explicit_bzero, as compilers make one calloc of malloc and memset.
void* cached_calloc(size_t count, size_t size) {
  size_t total = 0;
  void* const block = __builtin_mul_overflow(count, size, &total) ? nullptr : std::malloc(total);
  if (block != nullptr) {
    explicit_bzero(block, total);
  }
  return block;
}

TlsFault fault_of(PskRefusal refusal) {
  switch (refusal) {
    case PskRefusal::kNone:
      return TlsFault::kNone;
    case PskRefusal::kRevoked:
      return TlsFault::kRevoked;
    case PskRefusal::kInactive:
      return TlsFault::kInactive;
    case PskRefusal::kExpired:
      return TlsFault::kExpiredKey;
    case PskRefusal::kClaimEnded:
      return TlsFault::kClaimEnded;
  }
  return TlsFault::kProtocol;
}

std::string mbedtls_text(int code) {
  char text[128];
  mbedtls_strerror(code, text, sizeof text);
  return text;
}

}  // namespace

// ---- TlsContext ----------------------------------------------------------------------------------------------------

TlsContext::TlsContext(PskLookup lookup, const TlsPolicy& policy, const CredentialBoard* board)
    : lookup_(std::move(lookup)), policy_(policy), board_(board) {
  mbedtls_ssl_config_init(&config_);
  scratch_.resize(kScratchSize);
}

TlsContext::~TlsContext() { mbedtls_ssl_config_free(&config_); }

Status TlsContext::start() {
  mbedtls_platform_set_calloc_free(cached_calloc, std::free);
  if (psa_crypto_init() != PSA_SUCCESS) {
    return Status::kClosed;
  }
  if (mbedtls_ssl_config_defaults(&config_, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                  MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
    return Status::kOutOfMemory;
  }
  int modes = MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL;
  if (policy_.allow_psk_ke) {
    modes |= MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK;
  }
  if (board_ != nullptr) {
    modes |= MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL;
    mbedtls_ssl_conf_authmode(&config_, MBEDTLS_SSL_VERIFY_OPTIONAL);  // TlsStream::admit_certificate() is the judge
    mbedtls_ssl_conf_cert_cb(&config_, &TlsContext::on_choose_certificate);
  }
  mbedtls_ssl_conf_tls13_key_exchange_modes(&config_, modes);
  mbedtls_ssl_conf_min_tls_version(&config_, MBEDTLS_SSL_VERSION_TLS1_3);
  mbedtls_ssl_conf_groups(&config_, kGroups);
  mbedtls_ssl_conf_ciphersuites(&config_, kCiphersuites);
  mbedtls_ssl_conf_rng(&config_, random_bytes, nullptr);
  mbedtls_ssl_conf_psk_cb(&config_, &TlsContext::on_psk, this);
  claim_config_ = config_;
  mbedtls_ssl_conf_tls13_key_exchange_modes(&claim_config_, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL);
  return Status::kOk;
}

// Those published last, which the board has checked. A certificate that has expired since is shown all the same: peers
// name it.
const std::shared_ptr<Credentials>& TlsContext::credentials() {
  if (board_ != nullptr) {
    auto bundle = board_->read();
    if (bundle != bundle_) {
      credentials_ = std::make_shared<Credentials>();
      bundle->parse_into(credentials_.get(), CertificateRole::kServer);
      bundle_ = std::move(bundle);
    }
  }
  return credentials_;
}

// Called in every handshake, when its kind has been chosen.
int TlsContext::on_choose_certificate(mbedtls_ssl_context* ssl) {
  auto* const stream = static_cast<TlsStream*>(mbedtls_ssl_get_user_data_p(ssl));
  if (!stream->identity_.empty()) {
    // A peer whose PSK was refused, and which has been told so, cannot fall back to a certificate. If the PSK is
    // acceptable we send no certificate and ask for none, so the peer must complete PSK authentication.
    return stream->is_refused() ? MBEDTLS_ERR_SSL_UNKNOWN_IDENTITY : 0;
  }
  const Credentials& credentials = *stream->during_handshake_.credentials;
  stream->has_shown_certificate_ = true;
  mbedtls_ssl_set_hs_ca_chain(ssl, credentials.authority(), nullptr);
  return mbedtls_ssl_set_hs_own_cert(ssl, credentials.certificate(), credentials.key());
}

int TlsContext::on_psk(void* context, mbedtls_ssl_context* ssl, const unsigned char* identity, size_t identity_size) {
  auto* const self = static_cast<TlsContext*>(context);
  auto* const stream = static_cast<TlsStream*>(mbedtls_ssl_get_user_data_p(ssl));
  stream->identity_.assign(reinterpret_cast<const char*>(identity), std::min(identity_size, kHelloIdentitySizeMax));
  stream->identity_known_ = identity_size <= kHelloIdentitySizeMax && stream->look_up(self->lookup_);
  if (stream->is_refused() && !self->policy_.hide_identities) {
    // Mbed TLS would say "missing extension", from which nobody at the device learns what to do.
    stream->send_alert(!stream->identity_known_                         ? kAlertUnknownPskIdentity
                       : stream->entry_.refusal == PskRefusal::kExpired ? MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR
                                                                        : MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED);
    return MBEDTLS_ERR_SSL_UNKNOWN_IDENTITY;
  }
  const bool has_no_key = !stream->identity_known_ || stream->entry_.refusal == PskRefusal::kExpired;
  if (has_no_key && !stream->draw_key()) {
    return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
  }
  if (is_claim_identity(stream->identity_)) {
    // Many hold the key: without an exchange of its own, each of them reads a session that it has recorded. Mbed TLS
    // chooses the exchange after this call.
    ssl->MBEDTLS_PRIVATE(conf) = &self->claim_config_;
  }
  const int code = mbedtls_ssl_set_hs_psk(ssl, stream->entry_.key.data(), stream->entry_.key.size());
  stream->entry_.key.wipe();  // the stream outlives the handshake by days
  return code;
}

// ---- TlsStream -----------------------------------------------------------------------------------------------------

TlsStream::TlsStream(Tcp::socket socket, TlsContext& context, std::function<void()> on_event)
    : socket_(std::move(socket)), context_(context), on_event_(std::move(on_event)) {
  mbedtls_ssl_init(&ssl_);
}

TlsStream::~TlsStream() { mbedtls_ssl_free(&ssl_); }

Status TlsStream::start(std::vector<uint8_t> first_bytes, std::unique_ptr<KnownPsk> known) {
  ErrorCode ignored;
  socket_.non_blocking(true, ignored);
  if (mbedtls_ssl_setup(&ssl_, &context_.config_) != 0) {
    return Status::kOutOfMemory;
  }
  mbedtls_ssl_set_user_data_p(&ssl_, this);
  during_handshake_ = {context_.credentials(), std::move(known)};
  if (during_handshake_.credentials != nullptr) {
    mbedtls_ssl_set_verify(&ssl_, &TlsStream::on_verify, this);
  }
  mbedtls_ssl_set_bio(&ssl_, this, &TlsStream::bio_send, &TlsStream::bio_receive, nullptr);
  kept_ = std::move(first_bytes);
  input_ = kept_;
  wire_bytes_received_ = kept_.size();
  arm_read();
  return Status::kOk;
}

Status TlsStream::handshake() {
  if (fault_ != TlsFault::kNone) {
    return Status::kProtocolError;
  }
  if (!looks_like_tls()) {
    return Status::kProtocolError;
  }
  for (;;) {
    starved_ = false;
    const int code = mbedtls_ssl_handshake(&ssl_);
    if (code == 0) {
      established_ = true;
      const Status admitted = has_shown_certificate_ ? admit_certificate() : admit_key();
      during_handshake_ = {};
      flush();
      return admitted;
    }
    if (code == MBEDTLS_ERR_SSL_WANT_READ && !starved_) {
      continue;  // it stopped between two messages although bytes are there
    }
    flush();
    if (code == MBEDTLS_ERR_SSL_WANT_READ || code == MBEDTLS_ERR_SSL_WANT_WRITE) {
      arm_read();
      return Status::kWouldBlock;
    }
    return fail(code);
  }
}

bool TlsStream::look_up(const PskLookup& lookup) {
  const std::unique_ptr<KnownPsk> known = std::move(during_handshake_.known);
  if (known == nullptr || known->identity != identity_) {
    return lookup(identity_, &entry_);
  }
  entry_ = std::move(known->entry);
  return known->is_known;
}

// Once for each certificate of the chain, the device's own last.
int TlsStream::on_verify(void* stream, mbedtls_x509_crt* certificate, int depth, uint32_t* flags) {
  auto* const self = static_cast<TlsStream*>(stream);
  if (depth == 0) {
    self->has_certificate_ = true;
    self->identity_ = device_name_of(*certificate);
    self->identity_known_ = true;
    self->entry_.device = kNoDevice;
    *flags |= self->identity_.empty() ? MBEDTLS_X509_BADCERT_CN_MISMATCH : 0;
  }
  return 0;
}

// In place of a key that this end does not have: drawn for one handshake, so that what follows is what follows a wrong
// key. False: there are no random numbers.
bool TlsStream::draw_key() { return psa_generate_random(entry_.key.data(), entry_.key.size()) == PSA_SUCCESS; }

// The peer has proven its key. What an alert at once would have told anybody, it may know.
Status TlsStream::admit_key() {
  GS_ASSERT(identity_known_);  // nobody has a key that was drawn
  if (entry_.refusal == PskRefusal::kNone) {
    return Status::kOk;
  }
  refuse(fault_of(entry_.refusal));
  return Status::kProtocolError;
}

// This end has shown a certificate, and no key has proven anything, so the peer's certificate must. Its CN names the
// device, and the fleet says whether that device may come in. The peer is refused here and not in the handshake,
// because Mbed TLS's server would encrypt an alert there with keys that the peer has left behind. Also frees the
// certificate, which no idle session needs.
Status TlsStream::admit_certificate() {
  const TlsFault fault = find_certificate_fault();
  mbedtls_ssl_session* const session = ssl_.MBEDTLS_PRIVATE(session);
  if (session->MBEDTLS_PRIVATE(peer_cert) != nullptr) {
    mbedtls_x509_crt_free(session->MBEDTLS_PRIVATE(peer_cert));
    mbedtls_free(session->MBEDTLS_PRIVATE(peer_cert));
    session->MBEDTLS_PRIVATE(peer_cert) = nullptr;
  }
  if (fault != TlsFault::kNone) {
    refuse(fault);
    return Status::kProtocolError;
  }
  const bool is_known = context_.lookup_(identity_, &entry_);
  entry_.key.wipe();
  if (!is_known) {
    entry_ = {};
    entry_.device = kNoDevice;
  }
  switch (entry_.refusal) {
    case PskRefusal::kRevoked:
      refuse(TlsFault::kRevoked);
      break;
    case PskRefusal::kInactive:
      refuse(TlsFault::kInactive);
      break;
    default:
      return Status::kOk;  // the generations of its key say nothing about a certificate
  }
  return Status::kProtocolError;
}

TlsFault TlsStream::find_certificate_fault() const {
  constexpr uint32_t kUsage = MBEDTLS_X509_BADCERT_KEY_USAGE | MBEDTLS_X509_BADCERT_EXT_KEY_USAGE |
                              MBEDTLS_X509_BADCERT_BAD_PK | MBEDTLS_X509_BADCERT_BAD_KEY;
  const uint32_t flags = mbedtls_ssl_get_verify_result(&ssl_);
  return !has_certificate_                                 ? TlsFault::kNoCertificate
         : (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0 ? TlsFault::kCertificateForeign
         : (flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0     ? TlsFault::kCertificateExpired
         : (flags & MBEDTLS_X509_BADCERT_FUTURE) != 0      ? TlsFault::kCertificateEarly
         : (flags & kUsage) != 0                           ? TlsFault::kCertificateUsage
         : identity_.empty()                               ? TlsFault::kCertificateName
         : flags != 0                                      ? TlsFault::kCertificateBroken
                                                           : TlsFault::kNone;
}

void TlsStream::refuse(TlsFault fault) {
  unsigned char alert = MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED;
  switch (fault) {
    case TlsFault::kUnknownIdentity:
      alert = kAlertUnknownPskIdentity;
      break;
    case TlsFault::kCertificateExpired:  // "has expired or is not currently valid" (RFC 8446, 6.2)
    case TlsFault::kCertificateEarly:
      alert = MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED;
      break;
    case TlsFault::kCertificateForeign:
      alert = MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA;
      break;
    case TlsFault::kCertificateUsage:
      alert = MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT;
      break;
    case TlsFault::kCertificateName:
    case TlsFault::kCertificateBroken:
      alert = MBEDTLS_SSL_ALERT_MSG_BAD_CERT;
      break;
    case TlsFault::kNoCertificate:
      alert = kAlertCertificateRequired;
      break;
    case TlsFault::kRegistrationLimit:
      alert = MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN;
      break;
    case TlsFault::kRegistrationFailed:
      alert = MBEDTLS_SSL_ALERT_MSG_INTERNAL_ERROR;
      break;
    default:
      break;
  }
  send_alert(alert);
  fault_ = fault;
}

void TlsStream::send_alert(unsigned char alert) {
  if (ssl_.MBEDTLS_PRIVATE(out_left) > 0) {  // what it has not sent yet, it sends in place of an alert
    mbedtls_ssl_send_alert_message(&ssl_, MBEDTLS_SSL_ALERT_LEVEL_FATAL, alert);
  }
  mbedtls_ssl_send_alert_message(&ssl_, MBEDTLS_SSL_ALERT_LEVEL_FATAL, alert);
  alert_sent_ = true;
}

Result<size_t> TlsStream::read(uint8_t* out, size_t size) {
  if (fault_ != TlsFault::kNone) {
    return Status::kProtocolError;
  }
  for (;;) {
    starved_ = false;
    const int code = mbedtls_ssl_read(&ssl_, out, size);
    if (code > 0) {
      return static_cast<size_t>(code);
    }
    if (code == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
      continue;  // not an error
    }
    if (code == MBEDTLS_ERR_SSL_WANT_READ && !starved_) {
      continue;  // seen with data pending
    }
    if (code == MBEDTLS_ERR_SSL_WANT_READ || code == MBEDTLS_ERR_SSL_WANT_WRITE) {
      flush();
      arm_read();
      return Status::kWouldBlock;
    }
    if (code == 0 || code == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || code == MBEDTLS_ERR_SSL_CONN_EOF) {
      return Status::kClosed;
    }
    flush();
    return fail(code);
  }
}

Status TlsStream::write(std::span<const uint8_t> bytes) {
  if (shut_ || peer_gone_ || !established_ || fault_ != TlsFault::kNone) {
    return Status::kClosed;
  }
  if (!can_write()) {
    return Status::kWouldBlock;
  }
  // The BIO takes everything, so that a write never stops half-way and no bytes need to be repeated. A peer's
  // record_.sizelimit below ours makes several records of one frame.
  while (!bytes.empty()) {
    const int code = mbedtls_ssl_write(&ssl_, bytes.data(), bytes.size());
    if (code <= 0) {
      return fail(code);
    }
    bytes = bytes.subspan(static_cast<size_t>(code));
  }
  return Status::kOk;
}

bool TlsStream::can_write() const { return out_.size() < kOutHighWater; }

void TlsStream::flush() {
  if (writing_ || out_.empty() || !socket_.is_open()) {
    return;
  }
  // Nearly always the socket takes a flight at once, and nothing has to be waited for.
  ErrorCode refusal;
  const size_t sent = socket_.write_some(asio::buffer(out_), refusal);
  if (!refusal) {
    wire_bytes_sent_ += sent;
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent));
    if (out_.empty()) {
      context_.spare_ = std::exchange(out_, {});  // an idle stream keeps no memory for its last flight
      return;
    }
  }  // else the write below meets the same error, and reports it as an event
  in_flight_ = std::exchange(out_, {});
  writing_ = true;
  const auto self = shared_from_this();
  asio::async_write(socket_, asio::buffer(in_flight_),
                    [self](const ErrorCode& error, size_t size) { self->on_written(error, size); });
}

void TlsStream::on_written(const ErrorCode& error, size_t size) {
  writing_ = false;
  in_flight_ = {};
  wire_bytes_sent_ += size;
  if (error) {
    peer_gone_ = true;
    out_.clear();
  }
  flush();
  if (shut_ && !writing_ && !fin_sent_ && socket_.is_open()) {
    fin_sent_ = true;
    ErrorCode ignored;
    socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  }
  notify();
}

void TlsStream::shut_down() {
  if (shut_) {
    return;
  }
  if (established_ && fault_ == TlsFault::kNone && !peer_gone_) {
    mbedtls_ssl_close_notify(&ssl_);
  }
  shut_ = true;
  input_ = {};
  flush();
  if (!writing_ && socket_.is_open()) {
    fin_sent_ = true;
    ErrorCode ignored;
    socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  }
  arm_read();
}

void TlsStream::close() {
  on_event_ = nullptr;
  ErrorCode ignored;
  socket_.close(ignored);
}

// The buffers of a read, as Asio asks for them: whenever it tries the socket. A wait for the socket in place of a read
// would cost a call of epoll_ctl each time. A read costs none: the socket was registered, edge-triggered, when it was
// opened, and Asio waits for the next edge only when a try finds nothing.
struct TlsStream::ReadPlace {
  TlsStream* stream;  // which the read's handler keeps alive
  const asio::mutable_buffer* begin() const {
    asio::mutable_buffer& place = stream->context_.place_;
    place = stream->choose_place();
    return &place;
  }
  const asio::mutable_buffer* end() const { return &stream->context_.place_ + 1; }
};

void TlsStream::arm_read() {
  if (reading_.is_under_way || peer_gone_ || !input_.empty() || !socket_.is_open()) {
    return;
  }
  reading_.is_under_way = true;
  reading_.is_beginning = true;
  socket_.async_read_some(ReadPlace{this}, [self = shared_from_this()](const ErrorCode& error, size_t size) {
    self->on_read(error, size);
  });
  reading_.is_beginning = false;
}

// The scratch, where on_read() is called as soon as the bytes are there: when the loop tries the socket after an edge.
// If bytes are there when the read begins, or a write ends with it, other streams may read in between. Then the read
// takes one byte to a place of its own, and on_read() fetches the others.
asio::mutable_buffer TlsStream::choose_place() {
  reading_.is_apart = reading_.is_beginning || writing_;
  if (reading_.is_apart) {
    return asio::buffer(&reading_.first_byte, sizeof reading_.first_byte);
  }
  context_.scratch_reader_ = this;
  return asio::buffer(context_.scratch_);
}

void TlsStream::on_read(const ErrorCode& error, size_t size) {
  reading_.is_under_way = false;
  std::vector<uint8_t>& scratch = context_.scratch_;
  ErrorCode code = error;
  if (!code && reading_.is_apart) {
    scratch[0] = reading_.first_byte;
    size += socket_.read_some(asio::buffer(scratch) + size, code);
  } else if (!code) {
    GS_ASSERT(context_.scratch_reader_ == this);  // else these are the bytes of another stream
  }
  wire_bytes_received_ += size;
  if (code == asio::error::would_block) {
    code.clear();
  }
  if (!code && shut_) {
    arm_read();
    return;
  }
  peer_gone_ = peer_gone_ || code;
  input_ = {scratch.data(), size};
  notify();
  // The next stream reads into the same scratch. What is left is what the owner does not take now.
  kept_ = std::vector<uint8_t>(input_.begin(), input_.end());
  input_ = kept_;
}

void TlsStream::notify() {
  const auto on_event = on_event_;  // close() inside the call empties the member
  if (on_event) {
    on_event();
  }
}

// The first two bytes of a TLS record are 22 (handshake) and 3. Whatever else begins a connection is named as what it
// is, instead of as an invalid record.
bool TlsStream::looks_like_tls() {
  const size_t size = input_.size();
  if (size == 0 || wire_bytes_received_ != size) {
    return true;  // nothing yet, or no longer at the beginning
  }
  const uint8_t* const first = input_.data();
  if (first[0] == MBEDTLS_SSL_MSG_HANDSHAKE && (size < 2 || first[1] == 3)) {
    return true;
  }
  fault_ = TlsFault::kNotTls;
  fault_detail_.assign(reinterpret_cast<const char*>(first), std::min<size_t>(size, 16));
  return false;
}

int TlsStream::bio_send(void* context, const unsigned char* bytes, size_t size) {
  auto* const self = static_cast<TlsStream*>(context);
  if (self->peer_gone_) {
    return MBEDTLS_ERR_SSL_CONN_EOF;
  }
  if (self->alert_sent_) {
    return static_cast<int>(size);  // Mbed TLS has an alert of its own for what the first one refused
  }
  self->alert_sent_ = size > 0 && bytes[0] == MBEDTLS_SSL_MSG_ALERT;  // one record each time; encrypted ones are 23
  if (self->out_.empty()) {
    self->out_.swap(self->context_.spare_);
  }
  self->out_.insert(self->out_.end(), bytes, bytes + size);
  return static_cast<int>(size);
}

int TlsStream::bio_receive(void* context, unsigned char* out, size_t size) {
  auto* const self = static_cast<TlsStream*>(context);
  if (self->input_.empty()) {
    self->starved_ = true;
    return self->peer_gone_ ? MBEDTLS_ERR_SSL_CONN_EOF : MBEDTLS_ERR_SSL_WANT_READ;
  }
  const size_t taken = std::min(self->input_.size(), size);
  std::memcpy(out, self->input_.data(), taken);
  self->input_ = self->input_.subspan(taken);
  self->track_records(out, taken);
  return static_cast<int>(taken);
}

void TlsStream::track_records(const unsigned char* bytes, size_t size) {
  while (size > 0) {
    if (record_.left > 0) {
      const size_t taken = std::min(record_.left, size);
      record_.left -= taken;
      bytes += taken;
      size -= taken;
      continue;
    }
    record_.header[record_.header_size++] = *bytes++;
    --size;
    if (record_.header_size == sizeof record_.header) {
      record_.left = static_cast<size_t>(record_.header[3]) << 8 | record_.header[4];
      record_.header_size = 0;
      record_.size = record_.left;
    }
  }
}

// What Mbed TLS has no alert for. Close notify: nothing is to be said.
unsigned char TlsStream::alert_of(int code) const {
  const bool is_over = record_.size > kTlsRecordSizeMax;
  switch (code) {
    case MBEDTLS_ERR_SSL_CONN_EOF:
    case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
    case MBEDTLS_ERR_SSL_INVALID_MAC:  // it has one for that
      return MBEDTLS_SSL_ALERT_MSG_CLOSE_NOTIFY;
    case MBEDTLS_ERR_SSL_INVALID_RECORD:
      return is_over ? MBEDTLS_SSL_ALERT_MSG_RECORD_OVERFLOW : MBEDTLS_SSL_ALERT_MSG_DECODE_ERROR;
    case MBEDTLS_ERR_SSL_UNEXPECTED_MESSAGE:
      return MBEDTLS_SSL_ALERT_MSG_UNEXPECTED_MESSAGE;
    case MBEDTLS_ERR_SSL_DECODE_ERROR:
      return MBEDTLS_SSL_ALERT_MSG_DECODE_ERROR;
    case MBEDTLS_ERR_SSL_BAD_INPUT_DATA:  // a record beyond its memory, or a key share that x25519 refuses
      return is_over ? MBEDTLS_SSL_ALERT_MSG_RECORD_OVERFLOW : MBEDTLS_SSL_ALERT_MSG_ILLEGAL_PARAMETER;
    case MBEDTLS_ERR_SSL_ILLEGAL_PARAMETER:
      return MBEDTLS_SSL_ALERT_MSG_ILLEGAL_PARAMETER;
    case MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE:
      return MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE;
    default:
      return MBEDTLS_SSL_ALERT_MSG_INTERNAL_ERROR;
  }
}

// Whether the peer could read it: in clear, before this end has keys, or by the session's keys. In between the peer has
// left the keys behind that Mbed TLS's server would encrypt with.
bool TlsStream::can_send_alert() const {
  return !alert_sent_ && (established_ || ssl_.MBEDTLS_PRIVATE(transform_out) == nullptr);
}

// The fault of a handshake by certificate that did not come to its end. kNone: the certificates are not at fault.
TlsFault TlsStream::find_broken_certificate(int code) const {
  if (established_ || !has_shown_certificate_) {
    return TlsFault::kNone;
  }
  if (has_certificate_) {  // what its key has signed is wrong
    return code == MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE ? TlsFault::kCertificateBroken : TlsFault::kNone;
  }
  // An alert, from before the peer's keys had changed or after.
  if (code == MBEDTLS_ERR_SSL_INVALID_MAC || code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
    return TlsFault::kServerUntrusted;
  }
  // What cannot be parsed is an error of another module of Mbed TLS.
  const bool is_unread = -code >= kX509CodeFirst && -code < kX509CodeEnd;
  return is_unread ? TlsFault::kCertificateBroken : TlsFault::kNone;
}

Status TlsStream::fail(int code) {
  if (fault_ != TlsFault::kNone) {
    return Status::kProtocolError;
  }
  fault_detail_ = mbedtls_text(code);
  const bool has_alert = alert_sent_;  // of Mbed TLS's own
  if (can_send_alert()) {
    if (const unsigned char alert = alert_of(code); alert != MBEDTLS_SSL_ALERT_MSG_CLOSE_NOTIFY) {
      send_alert(alert);
      flush();
    }
  }
  if (const TlsFault of_certificate = find_broken_certificate(code); of_certificate != TlsFault::kNone) {
    fault_ = of_certificate;
  } else if (code != MBEDTLS_ERR_SSL_CONN_EOF && record_.size > kTlsRecordSizeMax) {
    // The first flight comes before this end has said how much it takes.
    fault_ = established_ || !identity_.empty() || has_shown_certificate_ ? TlsFault::kRecordTooLarge
                                                                          : TlsFault::kHelloTooLarge;
  } else if (ssl_.MBEDTLS_PRIVATE(state) == MBEDTLS_SSL_HELLO_RETRY_REQUEST && !has_alert) {
    fault_ = TlsFault::kNoGroup;  // a wrong key leaves it in the same state, and has an alert
  } else if (code == MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION) {
    fault_ = TlsFault::kTlsVersion;
  } else if (!established_ && !identity_.empty() && !identity_known_) {
    fault_ = TlsFault::kUnknownIdentity;
  } else if (!established_ && !identity_.empty() && entry_.refusal != PskRefusal::kNone) {
    fault_ = fault_of(entry_.refusal);
  } else if (!established_ && !identity_.empty() && code == MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE) {
    fault_ = TlsFault::kWrongKey;
  } else if (!established_ && !identity_.empty() && code == MBEDTLS_ERR_SSL_ILLEGAL_PARAMETER &&
             (entry_.claim != 0 || !context_.policy_.allow_psk_ke)) {
    // Mbed TLS looks for a key exchange after the identity, and calls the one that is not allowed a missing extension.
    fault_ = entry_.claim != 0 ? TlsFault::kClaimKeyExchange : TlsFault::kKeyExchange;
  } else if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
    fault_ = TlsFault::kPeerAlert;
  } else if (code == MBEDTLS_ERR_SSL_CONN_EOF || code == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
    fault_ = TlsFault::kPeerClosed;
  } else if (!established_ && identity_.empty() &&
             (code == MBEDTLS_ERR_SSL_ILLEGAL_PARAMETER || code == MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE)) {
    fault_ = TlsFault::kNoPsk;
  } else {
    fault_ = TlsFault::kProtocol;
  }
  return Status::kProtocolError;
}

}  // namespace gradstream
