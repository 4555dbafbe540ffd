// The port for Linux as C functions (include/gradstream/posix.h).
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "boards/posix/posix.h"
#include "host/file_cause.h"
#include "include/gradstream/posix.h"
#include "runtime/link/port.h"
#include "runtime/wire/server_address.h"

namespace gradstream {
namespace {

constexpr size_t kPortSizeMax = 5;  // 65535
char server_host[kHostNameSizeMax + 1] = {};
char server_port[kPortSizeMax + 1] = {};

void copy(std::string_view from, char* out) {
  std::memcpy(out, from.data(), from.size());
  out[from.size()] = '\0';
}

// Up to capacity bytes. -1: errno.
ssize_t read_some(int file, char* out, size_t capacity) {
  size_t size = 0;
  while (size < capacity) {
    const ssize_t count = ::read(file, out + size, capacity - size);
    if (count == 0) {
      break;
    }
    if (count < 0 && errno != EINTR) {
      return -1;
    }
    size += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return static_cast<ssize_t>(size);
}

}  // namespace
}  // namespace gradstream

bool gs_posix_set_server(const char* address) {
  using namespace gradstream;
  ServerAddress parsed;
  if (address == nullptr || parse_server_address(address, &parsed).text != nullptr ||
      parsed.host.size() > kHostNameSizeMax || parsed.port.size() > kPortSizeMax) {
    return false;
  }
  copy(parsed.host, server_host);
  copy(parsed.port, server_port);
  posix_set_server(server_host, server_port);
  return true;
}

bool gs_posix_set_state_file(const char* path) {
  return gradstream::posix_set_state_file(path) == gradstream::Status::kOk;
}

bool gs_posix_read_file(const char* path, char* out, size_t capacity, size_t* size) {
  using namespace gradstream;
  if (path == nullptr || out == nullptr || size == nullptr) {
    errno = EINVAL;
    return false;
  }
  const int file = open_to_read(path);
  if (file < 0) {
    return false;
  }
  const ssize_t count = read_some(file, out, capacity);
  char rest = 0;
  const ssize_t more = count < 0 ? 0 : read_some(file, &rest, 1);
  const int cause = count < 0 || more < 0 ? errno : more > 0 ? EFBIG : 0;
  ::close(file);
  errno = cause;
  *size = cause == 0 ? static_cast<size_t>(count) : 0;
  return cause == 0;
}

uint64_t gs_posix_now_ms(void) { return gradstream::port_now_ms(); }

void gs_posix_sleep_until(uint64_t when_ms) { gradstream::port_sleep_until_ms(when_ms); }
