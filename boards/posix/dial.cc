#include "boards/posix/dial.h"

#include <cerrno>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gradstream {
namespace {

int begin_connection(const addrinfo& address) {
  const int made = ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) {
    return -1;
  }
  const int on = 1;
  (void)::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)::setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  if (::connect(made, address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
    ::close(made);
    return -1;
  }
  return made;
}

// From next_address on, the first address that a connection can be begun to.
Status begin(Dial* link, const char* host, const char* port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const size_t first = link->next_address;
  link->next_address = 0;
  if (host == nullptr || ::getaddrinfo(host, port, &hints, &found) != 0) {
    return Status::kInvalidArgument;
  }
  size_t index = 0;
  for (const addrinfo* address = found; address != nullptr && link->socket < 0; address = address->ai_next, ++index) {
    if (index >= first) {
      link->socket = begin_connection(*address);
      link->next_address = link->socket >= 0 && address->ai_next != nullptr ? index + 1 : 0;
    }
  }
  ::freeaddrinfo(found);
  link->connecting = link->socket >= 0;
  return link->connecting ? Status::kOk : Status::kClosed;
}

// kClosed, kDeadlineExceeded: nothing comes of this address.
Status finish(Dial* link) {
  pollfd wait = {link->socket, POLLOUT, 0};
  if (::poll(&wait, 1, 0) <= 0) {
    return Status::kWouldBlock;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    hang_up(link);
    return error == ETIMEDOUT ? Status::kDeadlineExceeded : Status::kClosed;
  }
  link->connecting = false;
  link->next_address = 0;
  return Status::kOk;
}

}  // namespace

Status dial(Dial* link, const char* host, const char* port) {
  for (;;) {
    if (link->socket < 0) {
      GS_TRY(begin(link, host, port));
    }
    if (!link->connecting) {
      return Status::kOk;
    }
    const Status status = finish(link);
    const bool is_over = status == Status::kClosed || status == Status::kDeadlineExceeded;
    if (!is_over || link->next_address == 0) {
      return status;
    }
  }
}

void hang_up(Dial* link) {
  if (link->socket >= 0) {
    ::close(link->socket);
  }
  link->socket = -1;
  link->connecting = false;
}

}  // namespace gradstream
