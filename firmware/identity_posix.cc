#include "firmware/identity_posix.h"

#include <cerrno>
#include <span>
#include <vector>

#include <fcntl.h>
#include <mbedtls/platform_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include "firmware/name_posix.h"
#include "host/durable_file.h"
#include "host/file_cause.h"
#include "host/read_file.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// Of a file, bytes. Reason: what `gradstream claim add` writes is far below it.
constexpr size_t kReadSizeMax = 65536;

// cause: errno.
FileFault path_problem(int cause, const std::string& path, const char* what, const char* remedy) {
  return {std::string("cannot ") + what + " " + path + ": " + cause_text(cause) + "; " + remedy_text(cause, remedy),
          is_temporary_at(cause, path.c_str()) ? kExitTemporary : kExitIdentity};
}

void append_hex(std::span<const uint8_t> bytes, std::string* out) {
  for (const uint8_t byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    *out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

}  // namespace

SecretIdentity::~SecretIdentity() { mbedtls_platform_zeroize(key, sizeof key); }

FileFault read_identity(const std::string& path, Identity* out, ServerKey* server) {
  std::vector<char> text;
  if (const int cause = read_file(path.c_str(), kReadSizeMax, &text); cause != 0) {
    return path_problem(cause, path, "read", "give the file that `gradstream` wrote");
  }
  uint32_t line = 0;
  const Status status = parse_identity(text, out, &line, server);
  std::string problem = status == Status::kOk
                            ? std::string()
                            : path + identity_fault_text(text, line) + ": give the file that `gradstream` wrote";
  mbedtls_platform_zeroize(text.data(), text.size());
  return {problem};
}

FileFault store_identity(const std::string& path, const Identity& identity, const char* note, const ServerKey& server) {
  std::string text;
  text.reserve(kIdentityTextSizeMax);  // a text that outgrows its block leaves the old one as it is
  text = note;
  text += "\nidentity = ";
  text += identity.name;
  text += "\nkey = ";
  append_hex(identity.key, &text);
  if (server.is_there) {
    text += "\nserver = ";
    append_hex(server.bytes, &text);
  }
  text += "\n";
  const std::string part = path + ".part";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int cause = file < 0 ? errno : write_durably(file, text.data(), text.size());
  mbedtls_platform_zeroize(text.data(), text.size());
  if (file >= 0) {
    ::close(file);
  }
  cause = cause == 0 ? rename_durably(part.c_str(), path.c_str()) : cause;
  if (cause == 0) {
    return {};
  }
  ::unlink(part.c_str());
  return path_problem(cause, path, "write", "name a folder that can be written with --identity");
}

void erase_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  struct stat info = {};
  int cause = file < 0 || ::fstat(file, &info) != 0 || ::unlink(path.c_str()) != 0 ? errno : 0;
  if (file < 0 && cause == ENOENT) {
    return;
  }
  cause = cause == 0 ? sync_folder_of(path.c_str()) : cause;
  if (cause == 0) {
    const std::string zeros(static_cast<size_t>(info.st_size), '\0');
    cause = write_durably(file, zeros.data(), zeros.size());
  }
  if (file >= 0) {
    ::close(file);
  }
  if (cause != 0) {
    port_log_line(
        ("event=warning reason=\"cannot remove " + path + ": " + cause_text(cause) + "; remove it, it holds a secret\"")
            .c_str());
  }
}

}  // namespace gradstream
