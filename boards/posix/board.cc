// The port for Linux, Raspberry Pi among them: one TCP connection, a state file, waits.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include <poll.h>

#include "boards/device_port.h"
#include "boards/posix/posix.h"
#include "boards/posix/state_file.h"
#include "boards/posix/tcp_link.h"
#include "host/end_signals.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// Of HOST:PORT in log lines: the longest DNS name, brackets, colon and port.
constexpr size_t kServerTextSizeMax = 253 + 2 + 1 + 5;
// Longest single wait: a clock that stands still during a system's sleep is read again.
constexpr uint64_t kSleepMaxMs = 60000;

char server_text[kServerTextSizeMax + 1] = {};
char state_path[kStatePathSizeMax + 1] = {};

// The one connection.
TcpLink tcp;

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
  if (std::strlen(path) > kStatePathSizeMax) {
    return Status::kInvalidArgument;
  }
  static_cast<void>(std::snprintf(state_path, sizeof(state_path), "%s", path));
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

Transport port_transport() {
  return device_port != nullptr ? device_transport() : Transport{&kTcpOps, &tcp, server_text};
}

Status port_storage_write(const StoragePiece* pieces, size_t count) {
  if (device_port != nullptr) {
    return device_storage_write(pieces, count);
  }
  return state_path[0] == '\0' ? Status::kUnimplemented : write_state_file(state_path, pieces, count);
}

Result<size_t> port_storage_read(uint8_t* out, size_t capacity) {
  if (device_port != nullptr) {
    return device_storage_read(out, capacity);
  }
  return state_path[0] == '\0' ? Result<size_t>(Status::kUnimplemented) : read_state_file(state_path, out, capacity);
}

}  // namespace gradstream
