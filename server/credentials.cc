#include "server/credentials.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <mbedtls/platform_util.h>
#include <psa/crypto.h>
#include <sys/stat.h>

namespace gradstream {

namespace {

// Of a file. Reason: a P-256 certificate is a kilobyte, and some CAs may stand in one file.
constexpr size_t kFileSizeMax = 65536;

void wipe(std::string* text) { mbedtls_platform_zeroize(text->data(), text->size()); }

// Empty, or a sentence.
std::string read_file(const std::string& path, std::string* out) {
  std::error_code ignored;
  errno = std::filesystem::is_directory(path, ignored) ? EISDIR : 0;
  std::ifstream file(path, std::ios::binary);
  if (errno != EISDIR && file.is_open()) {
    out->reserve(kFileSizeMax + 1);  // no copies of a key are left behind
    for (std::istreambuf_iterator<char> at(file), end; at != end && out->size() <= kFileSizeMax; ++at) {
      out->push_back(*at);
    }
    return out->size() > kFileSizeMax ? path + " is above 64 KiB: no PEM file of a certificate or its key" : "";
  }
  return path + " cannot be read: " + std::strerror(errno != 0 ? errno : EIO) +
         "; check its path, and that the service's user may read it";
}

std::span<const char> with_end(const std::string& text) { return {text.c_str(), text.size() + 1}; }

}  // namespace

bool is_read_by_others(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}

CredentialBundle::~CredentialBundle() {
  for (std::string* const text : {&authority_, &certificate_, &key_}) {
    wipe(text);
  }
}

std::string CredentialBundle::read(const CredentialPaths& paths) {
  std::string problem = read_file(paths.authority, &authority_);
  if (problem.empty()) {
    problem = read_file(paths.certificate, &certificate_);
  }
  return problem.empty() ? read_file(paths.key, &key_) : problem;
}

CredentialProblem CredentialBundle::parse_into(Credentials* out, CertificateRole role) const {
  return out->parse({with_end(authority_), with_end(certificate_), with_end(key_)}, role);
}

std::string load_credentials(const CredentialPaths& paths, CertificateRole role, CredentialBundle* bundle,
                             Credentials* out) {
  if (psa_crypto_init() != PSA_SUCCESS) {  // a key is checked with random numbers
    return "TLS cannot start: no random bytes from the operating system; check /dev/urandom";
  }
  std::string problem = bundle->read(paths);
  if (problem.empty() && role == CertificateRole::kServer && is_read_by_others(paths.key)) {
    problem = paths.key + " can be read by others, and is the server's private key; chmod 600 " + paths.key;
  }
  if (!problem.empty()) {
    return problem;
  }
  const CredentialProblem found = bundle->parse_into(out, role);
  if (found.text == nullptr) {
    return {};
  }
  const std::string& path = found.file == CredentialFile::kAuthority     ? paths.authority
                            : found.file == CredentialFile::kCertificate ? paths.certificate
                                                                         : paths.key;
  return path + " " + found.text;
}

std::string CredentialBoard::load(const CredentialPaths& paths) {
  const auto bundle = std::make_shared<CredentialBundle>();
  Credentials parsed;
  std::string problem = load_credentials(paths, CertificateRole::kServer, bundle.get(), &parsed);
  if (problem.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bundle_ = bundle;
  }
  return problem;
}

std::shared_ptr<const CredentialBundle> CredentialBoard::read() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bundle_;
}

}  // namespace gradstream
