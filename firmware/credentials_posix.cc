#include "firmware/credentials_posix.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include <mbedtls/platform_util.h>

#include "firmware/client_main.h"
#include "firmware/fail_posix.h"
#include "firmware/name_posix.h"
#include "host/read_file.h"
#include "runtime/link/port.h"
#include "runtime/link/tls.h"
#include "runtime/wire/claim.h"
#include "runtime/wire/identity.h"

namespace gradstream {
namespace {

// Identities, certificates and keys, in bytes. Reason: they are kilobytes.
constexpr size_t kReadSizeMax = 1U << 20;

void warn_of_readers(const std::string& path) {
  using std::filesystem::perms;
  std::error_code error;
  const perms found = std::filesystem::status(path, error).permissions();
  if (!error && (found & (perms::group_all | perms::others_all)) != perms::none) {
    port_log_line(("event=warning reason=\"others may read the key in " + path + ": chmod 600\"").c_str());
  }
}

// An end for PEM. 0, or errno.
int read_pem(const std::string& path, std::vector<char>* out) {
  const int cause = read_file(path.c_str(), kReadSizeMax, out);
  out->push_back('\0');
  return cause;
}

}  // namespace

int load_identity(const std::string& path, std::vector<char>* text, std::string* name) {
  if (const int cause = read_file(path.c_str(), kReadSizeMax, text); cause != 0) {
    return fail_path(kExitIdentity, cause, path, "read the identity",
                     "`gradstream device add NAME --out FILE` writes one (mode 0600)");
  }
  Identity identity;
  uint32_t line = 0;
  if (parse_identity(*text, &identity, &line) != Status::kOk) {
    return fail(kExitIdentity,
                path + identity_fault_text(*text, line) + ": give the file that `gradstream device add` wrote");
  }
  if (is_claim_identity(identity.name)) {
    return fail(kExitIdentity, path +
                                   " is a claim: give it as --claim, with --name, and --identity a file "
                                   "that is to be written");
  }
  warn_of_readers(path);
  *name = identity.name;
  return kExitOk;
}

int load_certificate(const CertificateFiles& files, const std::string& host, Certificate* out, std::vector<char>* text,
                     std::string* name) {
  if (tls_start(nullptr, 0) != Status::kOk) {
    return fail(kExitNoEntropy, "no random numbers for TLS");
  }
  std::vector<char> authority, certificate, key;
  for (const auto& [path, bytes] : {std::pair(&files.authority, &authority),
                                    std::pair(&files.certificate, &certificate), std::pair(&files.key, &key)}) {
    if (const int cause = read_pem(*path, bytes); cause != 0) {
      return fail_path(kExitIdentity, cause, *path, "read", "name the PEM file of the device");
    }
  }
  const CredentialProblem problem = out->credentials.parse({authority, certificate, key}, CertificateRole::kDevice);
  mbedtls_platform_zeroize(key.data(), key.size());
  if (problem.text != nullptr) {
    const std::string& path = problem.file == CredentialFile::kAuthority     ? files.authority
                              : problem.file == CredentialFile::kCertificate ? files.certificate
                                                                             : files.key;
    return fail(kExitIdentity, path + " " + problem.text);
  }
  warn_of_readers(files.key);
  *name = device_name_of(*out->credentials.certificate());
  out->server_name = files.server_name.empty() ? host : files.server_name;
  std::array<uint8_t, kPublicKeyDigestSize> digest = {};
  if (!out->credentials.digest_public_key(digest)) {
    return fail(kExitMemory, "no memory for a digest of the certificate's key");
  }
  std::string identity = "identity = " + *name + "\nkey = ";
  for (const uint8_t byte : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    identity += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  text->assign(identity.begin(), identity.end());
  return kExitOk;
}

}  // namespace gradstream
