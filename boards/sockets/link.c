#include <limits.h>
#include <string.h>

#include "boards/sockets/names.h"
#include "boards/sockets/sockets.h"
#include "include/gradstream/port.h"

static struct {
  struct sockaddr_in server; /* port 0: none was told */
  int socket;                /* below 0: there is none */
  bool is_connecting;
  bool wants_write; /* a write blocked: wake when there is room */
} device_link = {.socket = -1};

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

bool gs_sockets_set_server(const char* address, uint16_t port) {
  struct in_addr found;
  const uint8_t port_bytes[] = {(uint8_t)(port >> 8), (uint8_t)port}; /* htons() has another name in each system */
  if (port == 0 || GS_SOCKET(inet_pton)(AF_INET, address, &found) != 1) {
    return false;
  }
  memset(&device_link.server, 0, sizeof device_link.server);
  device_link.server.sin_family = AF_INET;
  memcpy(&device_link.server.sin_port, port_bytes, sizeof port_bytes);
  device_link.server.sin_addr = found;
  return true;
}

bool gs_port_link_can_dial(void) { return true; }

void gs_port_link_close(void) {
  if (device_link.socket >= 0) {
    (void)GS_SOCKET(close)(device_link.socket);
  }
  device_link.socket = -1;
  device_link.is_connecting = false;
  device_link.wants_write = false;
}

/* A connection that is on its way; GS_PORT_CLOSED: not even that. */
static int32_t begin(void) {
  const int on = 1;
  if (device_link.server.sin_port == 0) {
    return GS_PORT_CLOSED;
  }
  device_link.socket = GS_SOCKET(socket)(AF_INET, SOCK_STREAM, 0);
  if (device_link.socket < 0) {
    return GS_PORT_CLOSED;
  }
  /* A frame is one segment, and its answer must not wait for another. A stack without the option works too. */
  (void)GS_SOCKET(setsockopt)(device_link.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (GS_SOCKET(fcntl)(device_link.socket, F_SETFL, O_NONBLOCK) != 0 ||
      (GS_SOCKET(connect)(device_link.socket, (const struct sockaddr*)&device_link.server, sizeof device_link.server) !=
           0 &&
       errno != EINPROGRESS)) {
    gs_port_link_close();
    return GS_PORT_CLOSED;
  }
  device_link.is_connecting = true;
  return GS_PORT_WOULD_BLOCK;
}

int32_t gs_port_link_open(void) {
  struct pollfd wait;
  int error = 0;
  socklen_t size = sizeof error;
  if (device_link.socket < 0 && begin() == GS_PORT_CLOSED) {
    return GS_PORT_CLOSED;
  }
  if (!device_link.is_connecting) {
    return 1;
  }
  wait.fd = device_link.socket;
  wait.events = POLLOUT;
  wait.revents = 0;
  if (GS_SOCKET(poll)(&wait, 1, 0) <= 0) {
    return GS_PORT_WOULD_BLOCK;
  }
  if (GS_SOCKET(getsockopt)(device_link.socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    gs_port_link_close();
    return GS_PORT_CLOSED;
  }
  device_link.is_connecting = false;
  return 1;
}

int32_t gs_port_link_read(uint8_t* out, size_t size) {
  if (device_link.socket < 0) {
    return GS_PORT_CLOSED;
  }
  const ssize_t count = GS_SOCKET(recv)(device_link.socket, out, size, 0);
  if (count > 0) {
    return (int32_t)count;
  }
  return count < 0 && would_block() ? GS_PORT_WOULD_BLOCK : GS_PORT_CLOSED;
}

int32_t gs_port_link_write(const uint8_t* bytes, size_t size) {
  if (device_link.socket < 0) {
    return GS_PORT_CLOSED;
  }
  const ssize_t count = GS_SOCKET(send)(device_link.socket, bytes, size, MSG_NOSIGNAL);
  device_link.wants_write = count < 0 && would_block();
  if (count > 0) {
    return (int32_t)count;
  }
  return device_link.wants_write ? GS_PORT_WOULD_BLOCK : GS_PORT_CLOSED;
}

bool gs_sockets_wait(uint32_t timeout_ms) {
  const int bounded_ms = timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX; /* poll() waits for ever below 0 */
  struct pollfd wait;
  wait.fd = device_link.socket;
  wait.events = (short)(device_link.is_connecting ? POLLOUT : device_link.wants_write ? POLLIN | POLLOUT : POLLIN);
  wait.revents = 0;
  return device_link.socket >= 0 && GS_SOCKET(poll)(&wait, 1, bounded_ms) >= 0;
}
