// Why a device cannot reach a server. The doctor does the client's side of a connection up to the end of the TLS
// handshake, step by step. For the first step that fails it names the cause and the remedy. No message is sent, so that
// no live session is replaced.
#ifndef GRADSTREAM_SERVER_PROGRAM_DOCTOR_H_
#define GRADSTREAM_SERVER_PROGRAM_DOCTOR_H_

#include <cstdint>
#include <string>

#include "server/link/credentials.h"

namespace gradstream {

struct DoctorOptions {
  std::string host;
  std::string port;
  std::string identity_file;    // empty: an unknown identity, to see whether a server is there
  CredentialPaths certificate;  // none: by pre-shared key; authority: the CA of the server
  std::string server_name;      // that its certificate must be for; empty: the host
  bool is_psk_ke = false;       // the key exchange without forward secrecy
  uint32_t deadline_ms = 5000;  // of the connection, and again of the handshake
};

// cause is "none" or a stable word, which docs/how-to/connect.md explains:
// - of the files: "identity_file", "certificate_file";
// - of the connection: "dns", "nothing_listening", "unreachable", "no_answer", "plain_text";
// - of TLS: "tls_version", "key_exchange", "record_too_large", "handshake", "closed", "server_busy";
// - of the device: "unknown_identity", "not_active", "wrong_key";
// - of a device's certificate: "certificate_name", "certificate_kind", "certificate_foreign", "registration_limit",
//   "certificate_expired" (or not valid yet), "no_certificates" (the server takes keys only);
// - of the server's certificate: "server_certificate".
struct Diagnosis {
  std::string cause = "none";
  std::string step;     // that failed, or the last: "identity", "name", "connect", "tls"
  std::string address;  // that was tried
  std::string detail;
  std::string remedy;
  bool is_well() const { return cause == "none"; }
};

Diagnosis diagnose(const DoctorOptions& options);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_DOCTOR_H_
