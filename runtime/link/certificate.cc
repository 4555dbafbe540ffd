#include "runtime/base/no_contraction.h"

#include "runtime/link/certificate.h"

#include <mbedtls/oid.h>
#include <mbedtls/sha256.h>
extern "C" {
#include <mbedtls/psa_util.h>  // knows no C++
}

#include "runtime/wire/claim.h"

namespace gradstream {
namespace {

bool parse_chain(std::span<const char> text, mbedtls_x509_crt* out) {
  return mbedtls_x509_crt_parse(out, reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 0;
}

bool is_over(const mbedtls_x509_crt& certificate) { return mbedtls_x509_time_is_past(&certificate.valid_to) != 0; }
bool is_to_come(const mbedtls_x509_crt& certificate) {
  return mbedtls_x509_time_is_future(&certificate.valid_from) != 0;
}

const char* find_authority_fault(const mbedtls_x509_crt& first) {
  for (const mbedtls_x509_crt* at = &first; at != nullptr; at = at->next) {
    if (mbedtls_x509_crt_get_ca_istrue(at) != 1) {
      return "is no CA: name the CA's own certificate (basicConstraints CA:TRUE), not one that it signed";
    }
    if (is_over(*at) || is_to_come(*at)) {
      return "has expired, or its time has not come: make a CA anew, and certificates by it; check this machine's "
             "clock";
    }
  }
  return nullptr;
}

const char* find_certificate_fault(const mbedtls_x509_crt& first, CertificateRole role) {
  size_t size = 0;
  for (const mbedtls_x509_crt* at = &first; at != nullptr; at = at->next) {
    size += at->raw.len;
  }
  if (size > kCertificateChainSizeMax) {
    return "is above 900 bytes with the certificates behind it: sign it by the CA itself, with short names";
  }
  if (mbedtls_pk_get_bitlen(&first.pk) != 256 || mbedtls_pk_can_do(&first.pk, MBEDTLS_PK_ECDSA) == 0) {
    return "has another key than ECDSA over P-256: make the key with `openssl ecparam -name prime256v1 -genkey`";
  }
  if (role == CertificateRole::kDevice) {
    return device_name_of(first).empty()
               ? "names no device: its CN is to be 1 to 56 printable ASCII characters without spaces, commas, / and ~"
               : nullptr;
  }
  if (is_over(first) || is_to_come(first)) {
    return "has expired, or its time has not come: renew it, and check this machine's clock";
  }
  if (mbedtls_x509_crt_check_key_usage(&first, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) != 0 ||
      mbedtls_x509_crt_check_extended_key_usage(&first, MBEDTLS_OID_SERVER_AUTH,
                                                MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)) != 0) {
    return "is not for servers: sign it with keyUsage digitalSignature and extendedKeyUsage serverAuth";
  }
  return nullptr;
}

}  // namespace

Credentials::Credentials() {
  mbedtls_x509_crt_init(&authority_);
  mbedtls_x509_crt_init(&certificate_);
  mbedtls_pk_init(&key_);
}

Credentials::~Credentials() {
  mbedtls_x509_crt_free(&authority_);
  mbedtls_x509_crt_free(&certificate_);
  mbedtls_pk_free(&key_);
}

CredentialProblem Credentials::parse(const CredentialTexts& texts, CertificateRole role) {
  static constexpr char kNoCertificate[] =
      "holds no certificate that can be read: PEM, ECDSA over P-256 with SHA-256 is wanted "
      "(docs/how-to/certificates.md)";
  if (!parse_chain(texts.authority, &authority_)) {
    return {CredentialFile::kAuthority, kNoCertificate};
  }
  if (!parse_chain(texts.certificate, &certificate_)) {
    return {CredentialFile::kCertificate, kNoCertificate};
  }
  if (mbedtls_pk_parse_key(&key_, reinterpret_cast<const unsigned char*>(texts.key.data()), texts.key.size(), nullptr,
                           0, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE) != 0) {
    return {CredentialFile::kKey, "holds no private key that can be read: PEM without a password, P-256, is wanted"};
  }
  if (mbedtls_pk_check_pair(&certificate_.pk, &key_, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE) != 0) {
    return {CredentialFile::kKey, "is not the key of the certificate: name the one that it was signed for"};
  }
  if (const char* const fault = find_authority_fault(authority_)) {
    return {CredentialFile::kAuthority, fault};
  }
  if (const char* const fault = find_certificate_fault(certificate_, role)) {
    return {CredentialFile::kCertificate, fault};
  }
  return {};
}

bool Credentials::digest_public_key(std::span<uint8_t, kPublicKeyDigestSize> out) const {
  return mbedtls_sha256(certificate_.pk_raw.p, certificate_.pk_raw.len, out.data(), 0) == 0;
}

std::string_view device_name_of(const mbedtls_x509_crt& certificate) {
  std::string_view found;
  for (const mbedtls_x509_name* at = &certificate.subject; at != nullptr; at = at->next) {
    if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &at->oid) != 0) {
      continue;
    }
    const std::string_view name(reinterpret_cast<const char*>(at->val.p), at->val.len);
    const bool is_text = at->val.tag == MBEDTLS_ASN1_UTF8_STRING || at->val.tag == MBEDTLS_ASN1_PRINTABLE_STRING;
    if (!found.empty() || !is_text || !is_claimable_name(name)) {
      return {};
    }
    found = name;
  }
  return found;
}

}  // namespace gradstream
