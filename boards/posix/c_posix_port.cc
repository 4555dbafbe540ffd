// The port for Linux of one of several devices, as C functions (include/gradstream/posix.h).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include <poll.h>

#include "boards/device_port.h"
#include "boards/posix/state_file.h"
#include "boards/posix/tcp_link.h"
#include "host/end_signals.h"
#include "include/gradstream/port.h"
#include "include/gradstream/posix.h"
#include "runtime/link/port.h"
#include "runtime/wire/server_address.h"

namespace gradstream {
namespace {

constexpr size_t kPortSizeMax = 5;  // 65535
// Longest single wait: a clock that stands still during a system's sleep is read again.
constexpr uint64_t kSleepMaxMs = 60000;

struct PosixPort {
  TcpLink link;
  const char* state_file = nullptr;
  char host[kHostNameSizeMax + 1] = {};
  char port[kPortSizeMax + 1] = {};
  char server[kHostNameSizeMax + kPortSizeMax + 4] = {};  // with brackets and a colon
};
static_assert(sizeof(PosixPort) <= sizeof(gs_posix_port));
static_assert(alignof(PosixPort) <= alignof(gs_posix_port));

PosixPort& port_of(void* context) { return *static_cast<PosixPort*>(context); }

int32_t answer_of(Status status) {
  switch (status) {
    case Status::kOk:
      return 1;
    case Status::kWouldBlock:
      return GS_PORT_WOULD_BLOCK;
    case Status::kDeadlineExceeded:
      return GS_PORT_NO_ANSWER;
    case Status::kInvalidArgument:
      return GS_PORT_NO_ADDRESS;
    default:
      return GS_PORT_CLOSED;
  }
}

int32_t answer_of(const Result<size_t>& size) {
  return size.ok() ? static_cast<int32_t>(size.value()) : answer_of(size.status());
}

int32_t open_link(void* context) { return answer_of(kTcpOps.open(&port_of(context).link)); }

int32_t read_link(void* context, uint8_t* out, size_t size) {
  return answer_of(kTcpOps.read(&port_of(context).link, out, size));
}

int32_t write_link(void* context, const uint8_t* bytes, size_t size) {
  return answer_of(kTcpOps.write(&port_of(context).link, bytes, size));
}

void close_link(void* context) { kTcpOps.close(&port_of(context).link); }

int32_t write_storage(void* context, const gs_port_piece* pieces, size_t count) {
  const auto* const same = reinterpret_cast<const StoragePiece*>(pieces);  // boards/device_port.cc compares the types
  return write_state_file(port_of(context).state_file, same, count) == Status::kOk ? 1 : GS_PORT_FAILED;
}

int32_t read_storage(void* context, uint8_t* out, size_t capacity) {
  const Result<size_t> size = read_state_file(port_of(context).state_file, out, capacity);
  return size.ok() ? static_cast<int32_t>(size.value()) : GS_PORT_FAILED;
}

void copy(std::string_view from, char* out) {
  std::memcpy(out, from.data(), from.size());
  out[from.size()] = '\0';
}

}  // namespace
}  // namespace gradstream

bool gs_posix_port_init(gs_posix_port* posix, const char* server, const char* state_file, gs_port* out) {
  using namespace gradstream;
  ServerAddress parsed;
  const bool is_given = posix != nullptr && out != nullptr && server != nullptr;
  if (!is_given || parse_server_address(server, &parsed).text != nullptr || parsed.host.size() > kHostNameSizeMax ||
      parsed.port.size() > kPortSizeMax || (state_file != nullptr && std::strlen(state_file) > kStatePathSizeMax)) {
    return false;
  }
  auto* const port = new (posix) PosixPort();
  copy(parsed.host, port->host);
  copy(parsed.port, port->port);
  const bool is_v6 = std::strchr(port->host, ':') != nullptr;
  (void)std::snprintf(port->server, sizeof(port->server), is_v6 ? "[%s]:%s" : "%s:%s", port->host, port->port);
  port->link.host = port->host;
  port->link.port = port->port;
  port->state_file = state_file;
  *out = {};
  out->size = sizeof *out;
  out->context = port;
  out->peer = port->server;
  out->link_can_dial = true;
  out->link_open = open_link;
  out->link_read = read_link;
  out->link_write = write_link;
  out->link_close = close_link;
  if (state_file != nullptr) {
    out->storage_write = write_storage;
    out->storage_read = read_storage;
  }
  return true;
}

void gs_posix_sleep_until_any(const gs_posix_port* ports, size_t count, uint64_t when_ms) {
  using namespace gradstream;
  GS_ASSERT(count > 0 && count <= GS_POSIX_PORTS_MAX);
  const uint64_t now_ms = port_now_ms();
  if (when_ms <= now_ms) {
    return;
  }
  pollfd waits[GS_POSIX_PORTS_MAX + 1];
  std::transform(ports, ports + count, waits, [](const gs_posix_port& port) {
    return wait_for(std::launder(reinterpret_cast<const PosixPort*>(&port))->link);
  });
  waits[count] = {signal_file(), POLLIN, 0};
  (void)::poll(waits, count + 1, static_cast<int>(std::min(when_ms - now_ms, kSleepMaxMs)));
}
