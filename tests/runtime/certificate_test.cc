// Certificates and keys as files hold them: which are taken, what is said of the others, and whom they name.
#include "runtime/link/certificate.h"

#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/link/tls.h"
#include "tests/support/certificates.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

class Certificate : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(tls_start(nullptr, 0), Status::kOk); }

  static std::string name_in(const std::string& pem) {
    mbedtls_x509_crt certificate;
    mbedtls_x509_crt_init(&certificate);
    EXPECT_EQ(mbedtls_x509_crt_parse(&certificate, reinterpret_cast<const unsigned char*>(pem.c_str()), pem.size() + 1),
              0);
    const std::string name(device_name_of(certificate));
    mbedtls_x509_crt_free(&certificate);
    return name;
  }
  static std::string text_of(const CredentialProblem& problem) { return problem.text == nullptr ? "" : problem.text; }
};

TEST_F(Certificate, OneCommonNameNamesTheDevice) {
  EXPECT_EQ(name_in(test_pem::kDevice), "device-1");
  EXPECT_EQ(name_in(test_pem::kDeviceLongest), std::string(56, 'x'));
  EXPECT_EQ(name_in(test_pem::kDeviceLong), "");
  EXPECT_EQ(name_in(test_pem::kDeviceUnnamed), "");
  EXPECT_EQ(name_in(test_pem::kDeviceSpaced), "");
  EXPECT_EQ(name_in(test_pem::kDeviceTwice), "");
  EXPECT_EQ(name_in(test_pem::kDeviceClaim), "") << "no certificate proves a claim";
}

// A name is a field of bytes with a length, whatever stands in it.
TEST_F(Certificate, AnEmbeddedZeroDoesNotShortenTheName) {
  unsigned char bytes[] = {'d', '1', 0, 'x'};
  unsigned char common_name[] = {0x55, 0x04, 0x03};
  mbedtls_x509_crt certificate = {};
  certificate.subject.oid = {MBEDTLS_ASN1_OID, sizeof common_name, common_name};
  certificate.subject.val = {MBEDTLS_ASN1_UTF8_STRING, 2, bytes};
  EXPECT_EQ(device_name_of(certificate), "d1");
  certificate.subject.val.len = sizeof bytes;
  EXPECT_EQ(device_name_of(certificate), "");
  certificate.subject.val = {MBEDTLS_ASN1_BMP_STRING, 2, bytes};
  EXPECT_EQ(device_name_of(certificate), "") << "two bytes a character";
}

TEST_F(Certificate, GoodFilesAreTaken) {
  Credentials server;
  EXPECT_EQ(text_of(test_pem::parse(&server, CertificateRole::kServer, test_pem::kServer, test_pem::kServerKey)), "");
  Credentials device;
  EXPECT_EQ(text_of(test_pem::parse(&device, CertificateRole::kDevice, test_pem::kDevice, test_pem::kDeviceKey)), "");
  Credentials late;
  EXPECT_EQ(text_of(test_pem::parse(&late, CertificateRole::kDevice, test_pem::kDeviceExpired, test_pem::kDeviceKey)),
            "")
      << "the server is the judge of that";
  Credentials two;
  EXPECT_EQ(text_of(test_pem::parse(&two, CertificateRole::kDevice, test_pem::kDevice, test_pem::kDeviceKey,
                                    test_pem::kForeignCa + test_pem::kCa)),
            "")
      << "while a CA is replaced";
  std::array<uint8_t, kPublicKeyDigestSize> first = {};
  std::array<uint8_t, kPublicKeyDigestSize> second = {};
  std::array<uint8_t, kPublicKeyDigestSize> other = {};
  ASSERT_TRUE(device.digest_public_key(first) && late.digest_public_key(second) && server.digest_public_key(other));
  EXPECT_EQ(first, second) << "a renewal for the same key";
  EXPECT_NE(first, other);
}

TEST_F(Certificate, EachFileAtFaultIsNamed) {
  const struct {
    CertificateRole role;
    std::string certificate, key, authority;
    CredentialFile file;
    const char* words;
  } cases[] = {
      {CertificateRole::kServer, test_pem::kServer, test_pem::kServerKey, "", CredentialFile::kAuthority, "PEM"},
      {CertificateRole::kServer, test_pem::kServer, test_pem::kServerKey, test_pem::kServer, CredentialFile::kAuthority,
       "CA:TRUE"},
      {CertificateRole::kServer, "nonsense", test_pem::kServerKey, test_pem::kCa, CredentialFile::kCertificate, "PEM"},
      {CertificateRole::kServer, test_pem::kServerExpired, test_pem::kServerKey, test_pem::kCa,
       CredentialFile::kCertificate, "expired"},
      {CertificateRole::kServer, test_pem::kDevice, test_pem::kDeviceKey, test_pem::kCa, CredentialFile::kCertificate,
       "serverAuth"},
      {CertificateRole::kServer, test_pem::kServer + test_pem::kDevice + test_pem::kDeviceLongest, test_pem::kServerKey,
       test_pem::kCa, CredentialFile::kCertificate, "900 bytes"},
      {CertificateRole::kServer, test_pem::kServer, "nonsense", test_pem::kCa, CredentialFile::kKey, "private key"},
      {CertificateRole::kServer, test_pem::kServer, test_pem::kOtherKey, test_pem::kCa, CredentialFile::kKey,
       "not the key"},
      {CertificateRole::kDevice, test_pem::kDeviceSpaced, test_pem::kDeviceKey, test_pem::kCa,
       CredentialFile::kCertificate, "CN"},
  };
  for (const auto& row : cases) {
    Credentials credentials;
    const CredentialProblem found = test_pem::parse(&credentials, row.role, row.certificate, row.key, row.authority);
    EXPECT_EQ(found.file, row.file) << row.words;
    EXPECT_THAT(text_of(found), HasSubstr(row.words));
  }
}

}  // namespace
}  // namespace gradstream
