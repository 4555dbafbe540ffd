// Certificates of a device CA, in place of pre-shared keys: what one end proves itself with, and the CA that it
// believes the other one by. For hosts: boards link none of it.
//
// ECDSA over P-256, as PEM. One frame of the wire is one TLS record, so a chain is at most kCertificateChainSizeMax.
#ifndef GRADSTREAM_RUNTIME_LINK_CERTIFICATE_H_
#define GRADSTREAM_RUNTIME_LINK_CERTIFICATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

namespace gradstream {

// Bytes of a certificate and of those between it and the CA, as DER. Reason: with what TLS adds the chain fits one
// record.
inline constexpr size_t kCertificateChainSizeMax = 900;
inline constexpr size_t kPublicKeyDigestSize = 32;  // SHA-256

enum class CertificateRole : uint8_t { kDevice, kServer };

// Contents of three files, each with a 0 at its end that counts (Mbed TLS wants it of PEM).
struct CredentialTexts {
  std::span<const char> authority;  // PEM, one CA or several
  std::span<const char> certificate;
  std::span<const char> key;
};

enum class CredentialFile : uint8_t { kAuthority, kCertificate, kKey };
struct CredentialProblem {
  CredentialFile file = CredentialFile::kAuthority;
  const char* text = nullptr;  // with the remedy; null: there is none
};

class Credentials {
 public:
  Credentials();
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  // Once, before any other call, after tls_start(). A server's certificate must be valid now and for servers. A
  // device's must name it; whether it is valid now is the server's to say, as the device's clock may be wrong. What
  // is found of dates, names and uses leaves everything parsed.
  CredentialProblem parse(const CredentialTexts& texts, CertificateRole role);

  mbedtls_x509_crt* authority() const { return &authority_; }
  mbedtls_x509_crt* certificate() const { return &certificate_; }
  mbedtls_pk_context* key() const { return &key_; }
  // The digest of the certificate's public key. It stays the same when the certificate is renewed for the same key.
  // false: out of memory.
  bool digest_public_key(std::span<uint8_t, kPublicKeyDigestSize> out) const;

 private:
  // Mbed TLS takes them as not const, and changes none of them after parse().
  mutable mbedtls_x509_crt authority_ = {};
  mutable mbedtls_x509_crt certificate_ = {};
  mutable mbedtls_pk_context key_ = {};
};

// The name of the device that a certificate is for: its one CN. Empty: it has none or several, or one that is no name
// of a device (is_claimable_name() of claim.h). It stands in the certificate.
std::string_view device_name_of(const mbedtls_x509_crt& certificate);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CERTIFICATE_H_
