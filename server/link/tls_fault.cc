#include "server/link/tls_fault.h"

namespace gradstream {

const char* tls_fault_event(TlsFault fault) {
  switch (fault) {
    case TlsFault::kNone:
      return "tls_ok";
    case TlsFault::kNotTls:
      return "tls_plain_text_peer";
    case TlsFault::kTlsVersion:
      return "tls_version";
    case TlsFault::kUnknownIdentity:
      return "tls_unknown_identity";
    case TlsFault::kRevoked:
      return "tls_revoked_identity";
    case TlsFault::kInactive:
      return "tls_inactive_identity";
    case TlsFault::kExpiredKey:
      return "tls_expired_key";
    case TlsFault::kClaimEnded:
      return "tls_claim_ended";
    case TlsFault::kWrongKey:
      return "tls_wrong_key";
    case TlsFault::kNoPsk:
      return "tls_no_psk";
    case TlsFault::kKeyExchange:
      return "tls_key_exchange";
    case TlsFault::kClaimKeyExchange:
      return "tls_claim_key_exchange";
    case TlsFault::kNoGroup:
      return "tls_no_group";
    case TlsFault::kHelloTooLarge:
      return "tls_hello_too_large";
    case TlsFault::kRecordTooLarge:
      return "tls_record_too_large";
    case TlsFault::kCertificateExpired:
      return "tls_certificate_expired";
    case TlsFault::kCertificateEarly:
      return "tls_certificate_not_yet_valid";
    case TlsFault::kCertificateForeign:
      return "tls_certificate_foreign";
    case TlsFault::kCertificateUsage:
      return "tls_certificate_usage";
    case TlsFault::kCertificateName:
      return "tls_certificate_name";
    case TlsFault::kCertificateBroken:
      return "tls_certificate_broken";
    case TlsFault::kNoCertificate:
      return "tls_no_certificate";
    case TlsFault::kServerUntrusted:
      return "tls_server_untrusted";
    case TlsFault::kRegistrationLimit:
      return "tls_registration_limit";
    case TlsFault::kRegistrationFailed:
      return "tls_registration_failed";
    case TlsFault::kPeerAlert:
      return "tls_peer_alert";
    case TlsFault::kPeerClosed:
      return "tls_peer_closed";
    case TlsFault::kProtocol:
      return "tls_protocol";
  }
  return "tls_protocol";
}

const char* tls_fault_remedy(TlsFault fault) {
  switch (fault) {
    case TlsFault::kNone:
      return "";
    case TlsFault::kNotTls:
      return "the peer speaks no TLS: this port takes gradstream devices over TLS 1.3 only";
    case TlsFault::kTlsVersion:
      return "the peer speaks an older TLS: enable TLS 1.3 in its configuration";
    case TlsFault::kUnknownIdentity:
      return "enrol it with `gradstream device add`, or correct its identity file";
    case TlsFault::kRevoked:
      return "the device was revoked: enrol it under a new name to let it in again";
    case TlsFault::kInactive:
      return "the device is pending or disabled: `gradstream device enable` lets it in";
    case TlsFault::kExpiredKey:
      return "its key was rotated and the window is over: give it the file of the last `gradstream device rotate`";
    case TlsFault::kClaimEnded:
      return "the claim's time is over: `gradstream claim add` makes another one, and the device needs its file";
    case TlsFault::kWrongKey:
      return "its identity file is not the one that `gradstream device add` or `rotate` wrote last";
    case TlsFault::kNoPsk:
      return "configure the device's pre-shared key with psk_dhe_ke (x25519 or P-256)";
    case TlsFault::kKeyExchange:
      return "it asks for psk_ke, which is not allowed here: give the device psk_dhe_ke, or set server.allow_psk_ke = "
             "true (no forward secrecy)";
    case TlsFault::kClaimKeyExchange:
      return "claims are not taken over psk_ke, as all who hold the claim could read them: let the device claim with "
             "psk_dhe_ke, its default";
    case TlsFault::kNoGroup:
      return "let the peer offer x25519 or P-256 (secp256r1); a share of a hybrid group may stand beside it";
    case TlsFault::kHelloTooLarge:
      return "its ClientHello has more than 2,048 bytes: let it offer fewer key shares and extensions";
    case TlsFault::kRecordTooLarge:
      return "the peer ignores record_size_limit (RFC 8449), and sends records of more than 2,048 bytes: use a client "
             "that knows it";
    case TlsFault::kCertificateExpired:
      return "sign the device a new certificate, and compare its dates with this machine's clock";
    case TlsFault::kCertificateEarly:
      return "its time begins later: compare its dates with this machine's clock";
    case TlsFault::kCertificateForeign:
      return "sign the device's certificate by the CA of server.device_ca_file; if that CA was replaced, keep both in "
             "the file for a while";
    case TlsFault::kCertificateUsage:
      return "sign it for clients: extendedKeyUsage clientAuth, keyUsage digitalSignature, a key over P-256";
    case TlsFault::kCertificateName:
      return "its CN is to be the device's name: 1 to 56 printable ASCII characters without spaces, commas, / and ~";
    case TlsFault::kCertificateBroken:
      return "the certificate cannot be read or its key is another one: ECDSA over P-256, at most 900 bytes, and the "
             "key that it was signed for";
    case TlsFault::kNoCertificate:
      return "give the device a certificate of the device CA, or a pre-shared key";
    case TlsFault::kServerUntrusted:
      return "the device does not believe server.certificate_file: see its console; compare its CA, its dates and the "
             "name that the device dials";
    case TlsFault::kRegistrationLimit:
      return "the device tries again; see registrations_per_s_max and registration_device_count_max of server.limits, "
             "and who holds certificates for so many names";
    case TlsFault::kRegistrationFailed:
      return "free space or repair the disk; the device tries again by itself";
    case TlsFault::kPeerAlert:
      return "see the device's console";
    case TlsFault::kPeerClosed:
      return "none needed if the device was reset; else check the link";
    case TlsFault::kProtocol:
      return "check the link for lost or foreign bytes; the device dials again";
  }
  return "";
}

}  // namespace gradstream
