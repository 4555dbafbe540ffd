// A TCP connection as a transport. A process may have several, one for each device in it.
#ifndef GRADSTREAM_BOARDS_POSIX_TCP_LINK_H_
#define GRADSTREAM_BOARDS_POSIX_TCP_LINK_H_

#include <poll.h>

#include "boards/posix/dial.h"
#include "runtime/link/transport.h"

namespace gradstream {

// The strings are looked up at each connection, and are the caller's.
struct TcpLink {
  const char* host = nullptr;
  const char* port = nullptr;
  Dial dial;
  bool wants_write = false;  // a write blocked: wake when there is room
};

// The context is a TcpLink.
extern const TransportOps kTcpOps;

// What poll() is to wait for, so that the link has news. Without a connection its file is -1, which poll() passes over.
pollfd wait_for(const TcpLink& link);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_POSIX_TCP_LINK_H_
