#include "server/link/credentials.h"

#include <ctime>
#include <utility>

#include <psa/crypto.h>
#include <sys/stat.h>

#include "server/base/private_file.h"
#include "server/base/text_file.h"

namespace gradstream {

namespace {

// Of a file. Reason: a P-256 certificate is a kilobyte, and some CAs may stand in one file.
constexpr size_t kFileSizeMax = 65536;

// An objection is about what is called so.
Objection read_file(const std::string& path, const std::string& name, std::string* out) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > static_cast<off_t>(kFileSizeMax)) {
    return name + " is above 64 KiB: no PEM file of a certificate or its key";
  }
  const Objection problem = read_text_file(path, kFileSizeMax, out);
  return problem ? name + " " + problem.sentence + "; check its path, and that the service's user may read it" : "";
}

// What a sentence begins with: a server's files are known by their keys too, which may name one file.
std::string text_of(CredentialFile file, const CredentialPaths& paths, CertificateRole role) {
  const bool is_server = role == CertificateRole::kServer;
  switch (file) {
    case CredentialFile::kAuthority:
      return (is_server ? "server.device_ca_file " : "") + paths.authority;
    case CredentialFile::kCertificate:
      return (is_server ? "server.certificate_file " : "") + paths.certificate;
    case CredentialFile::kKey:
      break;
  }
  return (is_server ? "server.certificate_key_file " : "") + paths.key;
}

std::span<const char> with_end(const std::string& text) { return {text.c_str(), text.size() + 1}; }

}  // namespace

Objection CredentialBundle::read(const CredentialPaths& paths, CertificateRole role) {
  Objection problem = read_file(paths.authority, text_of(CredentialFile::kAuthority, paths, role), &*authority_);
  if (!problem) {
    problem = read_file(paths.certificate, text_of(CredentialFile::kCertificate, paths, role), &*certificate_);
  }
  return problem ? problem : read_file(paths.key, text_of(CredentialFile::kKey, paths, role), &*key_);
}

CredentialProblem CredentialBundle::parse_into(Credentials* out, CertificateRole role) const {
  return out->parse({with_end(*authority_), with_end(*certificate_), with_end(*key_)}, role);
}

Objection load_credentials(const CredentialPaths& paths, CertificateRole role, CredentialBundle* bundle,
                           Credentials* out) {
  if (psa_crypto_init() != PSA_SUCCESS) {  // a key is checked with random numbers
    return "TLS cannot start: no random bytes from the operating system; check /dev/urandom";
  }
  Objection problem = bundle->read(paths, role);
  if (!problem && role == CertificateRole::kServer && is_read_by_others(paths.key)) {
    problem = text_of(CredentialFile::kKey, paths, role) +
              " can be read by others, and is the server's private key; chmod 600 " + paths.key;
  }
  if (problem) {
    return problem;
  }
  const CredentialProblem found = bundle->parse_into(out, role);
  if (found.text == nullptr) {
    return {};
  }
  return text_of(found.file, paths, role) + " " + found.text;
}

CertificateEnd first_end(const CredentialPaths& paths, const Credentials& parsed) {
  CertificateEnd first;
  const auto take = [&first](const mbedtls_x509_crt* certificate, const std::string& path) {
    for (; certificate != nullptr && certificate->version != 0; certificate = certificate->next) {
      const mbedtls_x509_time& end = certificate->valid_to;
      std::tm time = {};
      time.tm_year = end.year - 1900;
      time.tm_mon = end.mon - 1;
      time.tm_mday = end.day;
      time.tm_hour = end.hour;
      time.tm_min = end.min;
      time.tm_sec = end.sec;
      const std::time_t seconds = ::timegm(&time);
      const uint64_t time_ms = seconds <= 0 ? 0 : static_cast<uint64_t>(seconds) * 1000;
      if (time_ms != 0 && (first.time_ms == 0 || time_ms < first.time_ms)) {
        first = {path, time_ms};
      }
    }
  };
  take(parsed.certificate(), paths.certificate);
  take(parsed.authority(), paths.authority);
  return first;
}

Objection CredentialBoard::load(const CredentialPaths& paths) {
  const auto bundle = std::make_shared<CredentialBundle>();
  Credentials parsed;
  Objection problem = load_credentials(paths, CertificateRole::kServer, bundle.get(), &parsed);
  if (!problem) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bundle_ = bundle;
    end_ = first_end(paths, parsed);
  }
  return problem;
}

std::shared_ptr<const CredentialBundle> CredentialBoard::read() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bundle_;
}

}  // namespace gradstream
