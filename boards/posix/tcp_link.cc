#include "boards/posix/tcp_link.h"

#include <cerrno>

#include <sys/socket.h>

namespace gradstream {
namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void close_link(void* context) {
  auto& link = *static_cast<TcpLink*>(context);
  hang_up(&link.dial);
  link.wants_write = false;
}

Status open_link(void* context) {
  auto& link = *static_cast<TcpLink*>(context);
  return dial(&link.dial, link.host, link.port);
}

Result<size_t> read_link(void* context, uint8_t* out, size_t size) {
  const auto& link = *static_cast<const TcpLink*>(context);
  if (link.dial.socket < 0) {
    return Status::kClosed;
  }
  const ssize_t count = ::recv(link.dial.socket, out, size, 0);
  if (count > 0) {
    return static_cast<size_t>(count);
  }
  return count < 0 && would_block() ? Status::kWouldBlock : Status::kClosed;
}

Result<size_t> write_link(void* context, const uint8_t* bytes, size_t size) {
  auto& link = *static_cast<TcpLink*>(context);
  if (link.dial.socket < 0) {
    return Status::kClosed;
  }
  const ssize_t count = ::send(link.dial.socket, bytes, size, MSG_NOSIGNAL);
  link.wants_write = count < 0 && would_block();
  if (count >= 0) {
    return static_cast<size_t>(count);
  }
  return link.wants_write ? Status::kWouldBlock : Status::kClosed;
}

}  // namespace

const TransportOps kTcpOps = {open_link, read_link, write_link, close_link, true};

pollfd wait_for(const TcpLink& link) {
  const int events = link.dial.connecting ? POLLOUT : link.wants_write ? POLLIN | POLLOUT : POLLIN;
  return {link.dial.socket, static_cast<short>(events), 0};
}

}  // namespace gradstream
