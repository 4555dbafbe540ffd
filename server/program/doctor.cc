#include "server/program/doctor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string_view>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/link/tls.h"
#include "runtime/link/transport.h"
#include "runtime/wire/identity.h"
#include "server/base/refusal_catalogue.h"
#include "server/base/secret.h"
#include "server/base/text_file.h"

namespace gradstream {

namespace {

constexpr uint8_t kTlsAlert = 21;
constexpr uint8_t kTlsHandshake = 22;
constexpr size_t kRecordSizeMax = 1024 + 256;  // of a peer that keeps to record_size_limit, with tag and padding
constexpr int kAlertHandshakeFailure = 40;
constexpr int kAlertIllegalParameter = 47;
constexpr int kAlertBadCertificate = 42;
constexpr int kAlertUnsupportedCertificate = 43;
constexpr int kAlertCertificateExpired = 45;
constexpr int kAlertCertificateUnknown = 46;
constexpr int kAlertUnknownAuthority = 48;
constexpr int kAlertAccessDenied = 49;
constexpr int kAlertDecryptError = 51;
constexpr int kAlertProtocolVersion = 70;
constexpr int kAlertInternalError = 80;
constexpr int kAlertMissingExtension = 109;
constexpr int kAlertUnknownPskIdentity = 115;

// A socket that is closed with it, as a transport that notes what comes first.
struct Link {
  int socket = -1;
  std::string head;           // the first bytes
  size_t largest_record = 0;  // bytes, by its header
  size_t record_left = 0;
  std::string record_header;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() {
    if (socket >= 0) {
      ::close(socket);
    }
  }
  static Result<size_t> read(void* context, uint8_t* out, size_t size) {
    auto* const self = static_cast<Link*>(context);
    const ssize_t count = ::recv(self->socket, out, size, 0);
    if (count > 0) {
      constexpr size_t kHeadMax = 16;
      const auto* const text = reinterpret_cast<const char*>(out);
      self->head.append(text, std::min(static_cast<size_t>(count), kHeadMax - std::min(kHeadMax, self->head.size())));
      self->track_records({text, static_cast<size_t>(count)});
      return static_cast<size_t>(count);
    }
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Status::kWouldBlock : Status::kClosed;
  }
  void track_records(std::string_view bytes) {
    constexpr size_t kHeaderSize = 5;
    while (!bytes.empty()) {
      const size_t inside = std::min(record_left, bytes.size());
      record_left -= inside;
      bytes.remove_prefix(inside);
      const size_t more = std::min(bytes.size(), kHeaderSize - record_header.size());
      record_header.append(bytes.substr(0, more));
      bytes.remove_prefix(more);
      if (record_header.size() == kHeaderSize) {
        record_left =
            static_cast<size_t>(static_cast<uint8_t>(record_header[3])) << 8 | static_cast<uint8_t>(record_header[4]);
        largest_record = std::max(largest_record, record_left);
        record_header.clear();
      }
    }
  }
  static Result<size_t> write(void* context, const uint8_t* bytes, size_t size) {
    const ssize_t count = ::send(static_cast<Link*>(context)->socket, bytes, size, MSG_NOSIGNAL);
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Status::kWouldBlock : Status::kClosed;
  }
};
constexpr TransportOps kLinkOps = {[](void*) { return Status::kOk; }, Link::read, Link::write, [](void*) {}, true};

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

class Deadline {
 public:
  explicit Deadline(uint32_t milliseconds)
      : end_(std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds)) {}
  int left_ms() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::max<int64_t>(left.count(), 0));
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

// True when the socket has news, false when the time is over.
bool wait_for(int socket, int16_t events, const Deadline& deadline) {
  pollfd entry = {socket, events, 0};
  int count = -1;
  do {
    count = ::poll(&entry, 1, deadline.left_ms());
  } while (count < 0 && errno == EINTR);
  return count > 0;
}

// remedy: where this end knows more than the catalogue's row of the cause; null: that row's.
void conclude(Diagnosis* out, const char* cause, std::string detail, const char* remedy = nullptr) {
  const RefusalRow* const row = find_refusal(RefusalKind::kDoctor, cause);
  GS_ASSERT(row != nullptr);
  out->cause = cause;
  out->detail = std::move(detail);
  out->remedy = remedy != nullptr ? remedy : row->remedy;
}

bool read_identity(const DoctorOptions& options, Identity* identity, Diagnosis* out) {
  out->step = "identity";
  if (options.identity_file.empty()) {
    std::strcpy(identity->name, "gradstream-doctor");
    if (getrandom(identity->key, sizeof identity->key, 0) != static_cast<ssize_t>(sizeof identity->key)) {
      conclude(out, "identity_file", std::strerror(errno), "no random bytes: check /dev/urandom");
      return false;
    }
    return true;
  }
  SecretText text;
  constexpr uint64_t kFileSizeMax = 65536;  // parse_identity() tells of what is too long for an identity
  if (const Objection problem = read_text_file(options.identity_file, kFileSizeMax, &*text)) {
    conclude(out, "identity_file", options.identity_file + " " + problem.sentence);
    return false;
  }
  uint32_t line = 0;
  const Status status = parse_identity(*text, identity, &line);
  if (status != Status::kOk) {
    std::array<char, kIdentityFaultSizeMax> words = {};
    write_identity_fault(*text, line, words);
    conclude(out, "identity_file", options.identity_file + words.data(),
             "expected the lines identity = NAME and key = 64 hexadecimal digits: copy the file anew");
  }
  return status == Status::kOk;
}

bool read_certificate(const DoctorOptions& options, Credentials* out, Diagnosis* diagnosis) {
  diagnosis->step = "identity";
  CredentialBundle bundle;
  const Objection problem = load_credentials(options.certificate, CertificateRole::kDevice, &bundle, out);
  if (problem) {
    conclude(diagnosis, "certificate_file", problem.sentence);
  }
  return !problem;
}

void conclude_connect(int cause, Diagnosis* out) {
  if (cause == ECONNREFUSED) {
    conclude(out, "nothing_listening", std::strerror(cause));
  } else if (cause == ETIMEDOUT) {
    conclude(out, "no_answer", "no answer to the connection");
  } else {
    conclude(out, "unreachable", std::strerror(cause));
  }
}

// 0, or the errno of the last address.
int connect_to(const addrinfo* list, uint32_t deadline_ms, Link* link, Diagnosis* out) {
  int cause = EHOSTUNREACH;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> host = {};
    getnameinfo(at->ai_addr, at->ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
    out->address = host.data();
    link->socket = ::socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (link->socket >= 0 && ::connect(link->socket, at->ai_addr, at->ai_addrlen) == 0) {
      return 0;
    }
    cause = errno;
    if (cause == EINPROGRESS) {
      socklen_t size = sizeof cause;
      if (!wait_for(link->socket, POLLOUT, Deadline(deadline_ms))) {
        cause = ETIMEDOUT;
      } else if (::getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &cause, &size) == 0 && cause == 0) {
        return 0;
      }
    }
    if (link->socket >= 0) {
      ::close(link->socket);
      link->socket = -1;
    }
  }
  return cause;
}

bool connect_by_name(const DoctorOptions& options, Link* link, Diagnosis* out) {
  out->step = "name";
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(options.host.c_str(), options.port.c_str(), &hints, &list);
  const Addresses addresses(list);
  if (code != 0) {
    conclude(out, "dns", options.host + ": " + gai_strerror(code));
    return false;
  }
  out->step = "connect";
  const int cause = connect_to(addresses.get(), options.deadline_ms, link, out);
  if (cause != 0) {
    conclude_connect(cause, out);
  }
  return cause == 0;
}

// Whether it is one of a certificate.
bool conclude_certificate_alert(int alert, const char* text, const std::string& detail, Diagnosis* out) {
  const char* const cause = alert == kAlertBadCertificate           ? "certificate_name"
                            : alert == kAlertUnsupportedCertificate ? "certificate_kind"
                            : alert == kAlertCertificateExpired     ? "certificate_expired"
                            : alert == kAlertCertificateUnknown     ? "registration_limit"
                            : alert == kAlertUnknownAuthority       ? "certificate_foreign"
                            : alert == kAlertMissingExtension       ? "no_certificates"
                                                                    : nullptr;
  if (cause != nullptr) {
    conclude(out, cause, detail, alert == kAlertMissingExtension ? nullptr : text);
  }
  return cause != nullptr;
}

void conclude_alert(int alert, Diagnosis* out) {
  const std::string detail = "the server's alert " + std::to_string(alert);
  switch (alert) {
    case kAlertUnknownPskIdentity:
      return conclude(out, "unknown_identity", detail);
    case kAlertAccessDenied:
      return conclude(out, "not_active", detail);
    case kAlertDecryptError:
      return conclude(out, "wrong_key", detail);
    case kAlertProtocolVersion:
      return conclude(out, "tls_version", detail, "the server has no TLS 1.3: is it a gradstream server?");
    case kAlertMissingExtension:
    case kAlertHandshakeFailure:
    case kAlertIllegalParameter:
      return conclude(out, "key_exchange", detail);
    case kAlertInternalError:
      return conclude(out, "server_busy", detail);
    default:
      return conclude(out, "handshake", detail);
  }
}

void conclude_tls(Status status, const TlsSession& session, const Link& link, bool by_certificate, Diagnosis* out) {
  if (session.last_alert() >= 0) {
    if (by_certificate &&
        conclude_certificate_alert(session.last_alert(), session.last_fault_text(),
                                   "the server's alert " + std::to_string(session.last_alert()), out)) {
      return;
    }
    conclude_alert(session.last_alert(), out);
  } else if (!link.head.empty() && link.head[0] != kTlsAlert && link.head[0] != kTlsHandshake) {
    conclude(out, "plain_text", "its first bytes: " + link.head);
  } else if (link.head.empty()) {
    conclude(out, "closed", "the peer closed without a word");
  } else if (link.largest_record > kRecordSizeMax) {
    conclude(out, "record_too_large", "a record of " + std::to_string(link.largest_record) + " bytes");
  } else if (by_certificate && status == Status::kUnauthenticated) {
    conclude(out, "server_certificate", "this end does not trust it", session.last_fault_text());
  } else if (status == Status::kProtocolError) {
    conclude(out, "tls_version", session.last_fault_text());
  } else {
    conclude(out, "handshake", session.last_fault_text());
  }
}

// By certificate the server judges after this end's handshake: it takes the session's end as such, or refuses it.
Status hear_judgement(const DoctorOptions& options, TlsSession* session, const Link& link) {
  const Deadline deadline(options.deadline_ms);
  GS_TRY(session->finish_writing());
  for (;;) {
    uint8_t ignored[64];
    const Status status = session->read(ignored, sizeof ignored).status();
    if (status != Status::kOk && status != Status::kWouldBlock) {
      return status == Status::kClosed && session->last_alert() < 0 ? Status::kOk : status;
    }
    if (status == Status::kWouldBlock && !wait_for(link.socket, POLLIN, deadline)) {
      return Status::kDeadlineExceeded;
    }
  }
}

void shake_hands(const DoctorOptions& options, const Identity& identity, const Credentials* credentials, Link* link,
                 Diagnosis* out) {
  out->step = "tls";
  TlsSession session;
  const Transport transport = {&kLinkOps, link};
  const std::string& name = options.server_name.empty() ? options.host : options.server_name;
  Status status = tls_start(nullptr, 0);
  if (status == Status::kOk) {
    status = credentials != nullptr
                 ? session.begin(transport, *credentials, name.c_str())
                 : session.begin(transport, identity,
                                 options.is_psk_ke ? TlsKeyExchange::kPsk : TlsKeyExchange::kPskEphemeral);
  }
  const Deadline deadline(options.deadline_ms);
  while (status == Status::kOk && (status = session.handshake()) == Status::kWouldBlock) {
    if (!wait_for(link->socket, POLLIN, deadline)) {
      conclude(out, "no_answer", "connected, and no answer to the ClientHello",
               "something accepts connections there and says nothing: compare host and port with server.listen");
      return;
    }
    status = Status::kOk;
  }
  if (status == Status::kOk && credentials != nullptr) {
    status = hear_judgement(options, &session, *link);
  }
  if (status != Status::kOk) {
    conclude_tls(status, session, *link, credentials != nullptr, out);
    return;
  }
  out->detail = "TLS 1.3, " + std::to_string(session.wire_bytes_sent() + session.wire_bytes_received()) + " bytes";
  session.end();
}

}  // namespace

Diagnosis diagnose(const DoctorOptions& options) {
  Diagnosis diagnosis;
  SecretValue<Identity> identity;
  Credentials credentials;
  Link link;
  const bool by_certificate = options.certificate.is_set();
  const bool is_read = by_certificate ? read_certificate(options, &credentials, &diagnosis)
                                      : read_identity(options, &*identity, &diagnosis);
  if (is_read && connect_by_name(options, &link, &diagnosis)) {
    shake_hands(options, *identity, by_certificate ? &credentials : nullptr, &link, &diagnosis);
  }
  return diagnosis;
}

}  // namespace gradstream
