#include "server/link/tls_fault.h"

namespace gradstream {

const EventRow& tls_fault_event(TlsFault fault) {
  switch (fault) {
    case TlsFault::kNotTls:
      return "tls_plain_text_peer"_event;
    case TlsFault::kTlsVersion:
      return "tls_version"_event;
    case TlsFault::kUnknownIdentity:
      return "tls_unknown_identity"_event;
    case TlsFault::kRevoked:
      return "tls_revoked_identity"_event;
    case TlsFault::kInactive:
      return "tls_inactive_identity"_event;
    case TlsFault::kExpiredKey:
      return "tls_expired_key"_event;
    case TlsFault::kClaimEnded:
      return "tls_claim_ended"_event;
    case TlsFault::kWrongKey:
      return "tls_wrong_key"_event;
    case TlsFault::kNoPsk:
      return "tls_no_psk"_event;
    case TlsFault::kKeyExchange:
      return "tls_key_exchange"_event;
    case TlsFault::kClaimKeyExchange:
      return "tls_claim_key_exchange"_event;
    case TlsFault::kNoGroup:
      return "tls_no_group"_event;
    case TlsFault::kHelloTooLarge:
      return "tls_hello_too_large"_event;
    case TlsFault::kRecordTooLarge:
      return "tls_record_too_large"_event;
    case TlsFault::kCertificateExpired:
      return "tls_certificate_expired"_event;
    case TlsFault::kCertificateEarly:
      return "tls_certificate_not_yet_valid"_event;
    case TlsFault::kCertificateForeign:
      return "tls_certificate_foreign"_event;
    case TlsFault::kCertificateUsage:
      return "tls_certificate_usage"_event;
    case TlsFault::kCertificateName:
      return "tls_certificate_name"_event;
    case TlsFault::kCertificateBroken:
      return "tls_certificate_broken"_event;
    case TlsFault::kNoCertificate:
      return "tls_no_certificate"_event;
    case TlsFault::kServerUntrusted:
      return "tls_server_untrusted"_event;
    case TlsFault::kRegistrationLimit:
      return "tls_registration_limit"_event;
    case TlsFault::kRegistrationFailed:
      return "tls_registration_failed"_event;
    case TlsFault::kPeerAlert:
      return "tls_peer_alert"_event;
    case TlsFault::kPeerClosed:
      return "tls_peer_closed"_event;
    case TlsFault::kNone:
    case TlsFault::kProtocol:
      return "tls_protocol"_event;
  }
  return "tls_protocol"_event;
}

}  // namespace gradstream
