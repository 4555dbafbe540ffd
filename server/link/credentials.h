// The server's certificate, its key and the CA of its devices: read from files, and published to the threads that
// shake hands, each of which parses a copy of its own.
//
//   home: load() --immutable texts--> TlsContext of each thread, at its next handshake
#ifndef GRADSTREAM_SERVER_LINK_CREDENTIALS_H_
#define GRADSTREAM_SERVER_LINK_CREDENTIALS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/link/certificate.h"
#include "server/base/objection.h"
#include "server/base/secret.h"

namespace gradstream {

// Paths, all three or none.
struct CredentialPaths {
  std::string authority;    // server.device_ca_file
  std::string certificate;  // server.certificate_file
  std::string key;          // server.certificate_key_file
  bool is_set() const { return !authority.empty(); }
  bool operator==(const CredentialPaths&) const = default;
};

// The files' contents, wiped at the end.
class CredentialBundle {
 public:
  // An objection names the file, the cause and the remedy.
  Objection read(const CredentialPaths& paths, CertificateRole role);
  CredentialProblem parse_into(Credentials* out, CertificateRole role) const;

 private:
  SecretText authority_;
  SecretText certificate_;
  SecretText key_;
};

// An objection names the file, of a server also its key in the configuration, the cause and the remedy.
// *bundle is what was read. A server's key that others may read is refused; a device's key in the doctor's hands is its
// user's affair.
Objection load_credentials(const CredentialPaths& paths, CertificateRole role, CredentialBundle* bundle,
                           Credentials* out);

// Of the server's certificate and the CA of its devices the one that ends first.
struct CertificateEnd {
  std::string path;
  uint64_t time_ms = 0;  // since the epoch; 0: there is none
};
// An end beyond what time_t holds counts as none.
CertificateEnd first_end(const CredentialPaths& paths, const Credentials& parsed);

class CredentialBoard {
 public:
  // Reads, checks, and publishes what is good: handshakes from now on. Objections as above; then nothing has changed.
  Objection load(const CredentialPaths& paths);
  // From any thread. Null: nothing was loaded, and the server takes no certificates.
  std::shared_ptr<const CredentialBundle> read() const;
  // On the thread of load(), of what was loaded last.
  const CertificateEnd& end() const { return end_; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const CredentialBundle> bundle_;
  CertificateEnd end_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_CREDENTIALS_H_
