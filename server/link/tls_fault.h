// Why a TLS session did not come about or broke, as the log and its reader call it.
#ifndef GRADSTREAM_SERVER_LINK_TLS_FAULT_H_
#define GRADSTREAM_SERVER_LINK_TLS_FAULT_H_

#include <cstdint>

#include "server/base/event_catalogue.h"

namespace gradstream {

enum class TlsFault : uint8_t {
  kNone,
  kNotTls,              // the first bytes are no TLS record
  kTlsVersion,          // the peer speaks TLS, but not 1.3
  kUnknownIdentity,     // nobody of that name is enrolled
  kRevoked,             // enrolled once, revoked since
  kInactive,            // pending or disabled
  kExpiredKey,          // of a generation that a rotation has ended
  kClaimEnded,          // a claim whose time is over
  kWrongKey,            // the identity is known, its key differs
  kNoPsk,               // the peer offers no pre-shared key or no key exchange of ours
  kKeyExchange,         // the identity is known, but offered with psk_ke alone, which the context does not allow
  kClaimKeyExchange,    // a claim is offered with psk_ke alone, which no context allows
  kNoGroup,             // the peer offers no group that this end has
  kHelloTooLarge,       // its ClientHello is longer than this end takes
  kRecordTooLarge,      // the peer sends records beyond record_size_limit
  kCertificateExpired,  // by certificate: of the device CA, but its time is over
  kCertificateEarly,    // its time has not come
  kCertificateForeign,  // not signed by the device CA
  kCertificateUsage,    // not for clients
  kCertificateName,     // its CN is no device's name, or there is none
  kCertificateBroken,   // cannot be read, or the peer does not prove its key
  kNoCertificate,       // the peer has none and no pre-shared key
  kServerUntrusted,     // the peer broke off at this end's certificate
  kRegistrationLimit,   // an unknown device, and no more are registered now
  kRegistrationFailed,  // an unknown device, and the database failed
  kPeerAlert,           // the peer ended it with an alert
  kPeerClosed,          // the peer closed the connection
  kProtocol,            // anything else that is no TLS 1.3
};
// What the log says of it, with the remedy. kNone is no fault.
const EventRow& tls_fault_event(TlsFault fault);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_TLS_FAULT_H_
