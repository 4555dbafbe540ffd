// The port for Linux, Raspberry Pi among them: one TCP connection, a state file, waits.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boards/posix/posix.h"
#include "boards/posix/tcp_link.h"
#include "host/durable_file.h"
#include "host/end_signals.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

constexpr size_t kPathSizeMax = 4000;
// Of HOST:PORT in log lines: the longest DNS name, brackets, colon and port.
constexpr size_t kServerTextSizeMax = 253 + 2 + 1 + 5;
// Longest single wait: a clock that stands still during a system's sleep is read again.
constexpr uint64_t kSleepMaxMs = 60000;

char server_text[kServerTextSizeMax + 1] = {};
char state_path[kPathSizeMax + 1] = {};
char temporary_path[kPathSizeMax + 8] = {};

// The one connection.
TcpLink tcp;

bool write_all(int file, const uint8_t* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(file, bytes, size);
    if (count < 0 && errno != EINTR) {
      return false;
    }
    if (count > 0) {
      bytes += count;
      size -= static_cast<size_t>(count);
    }
  }
  return true;
}

bool write_temporary(const StoragePiece* pieces, size_t count) {
  const int file = ::open(temporary_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {
    return false;
  }
  bool written = true;
  for (size_t i = 0; i < count && written; ++i) {
    written = write_all(file, pieces[i].bytes, pieces[i].size);
  }
  written = written && ::fsync(file) == 0;
  return ::close(file) == 0 && written;
}

}  // namespace

void posix_set_server(const char* host, const char* port) {
  tcp.host = host;
  tcp.port = port;
  const bool is_v6 = std::strchr(host, ':') != nullptr;
  (void)std::snprintf(server_text, sizeof(server_text), is_v6 ? "[%s]:%s" : "%s:%s", host, port);
}

Status posix_set_state_file(const char* path) {
  state_path[0] = '\0';
  if (path == nullptr) {
    return Status::kOk;
  }
  if (std::strlen(path) > kPathSizeMax) {
    return Status::kInvalidArgument;
  }
  static_cast<void>(std::snprintf(state_path, sizeof(state_path), "%s", path));
  static_cast<void>(std::snprintf(temporary_path, sizeof(temporary_path), "%s.new", path));
  return Status::kOk;
}

void port_sleep_until_ms(uint64_t when_ms) {
  const uint64_t now_ms = port_now_ms();
  if (when_ms <= now_ms) {
    return;
  }
  const int timeout = static_cast<int>(std::min(when_ms - now_ms, kSleepMaxMs));
  // poll() passes over a file of -1. A signal that asks for the process's end wakes it for good.
  pollfd wait[] = {wait_for(tcp), {signal_file(), POLLIN, 0}};
  (void)::poll(wait, sizeof(wait) / sizeof(wait[0]), timeout);
}

Transport port_transport() { return {&kTcpOps, &tcp, server_text}; }

Status port_storage_write(const StoragePiece* pieces, size_t count) {
  if (state_path[0] == '\0') {
    return Status::kUnimplemented;
  }
  const bool stored = write_temporary(pieces, count) && rename_durably(temporary_path, state_path) == 0;
  return stored ? Status::kOk : Status::kClosed;
}

Result<size_t> port_storage_read(uint8_t* out, size_t capacity) {
  if (state_path[0] == '\0') {
    return Status::kUnimplemented;
  }
  const int file = ::open(state_path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT ? Result<size_t>(size_t{0}) : Result<size_t>(Status::kClosed);
  }
  size_t size = 0;
  uint8_t rest[512];
  for (;;) {
    const bool fits = size < capacity;
    const ssize_t count = fits ? ::read(file, out + size, capacity - size) : ::read(file, rest, sizeof(rest));
    if (count > 0) {
      size += static_cast<size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      ::close(file);
      return count == 0 ? Result<size_t>(size) : Result<size_t>(Status::kClosed);
    }
  }
}

}  // namespace gradstream
