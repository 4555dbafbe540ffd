#include "tests/boards/sockets_lwip_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

int host_dial(const char* address, uint16_t port) {
  const int on = 1;
  struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  if (file < 0 || inet_pton(AF_INET, address, &server.sin_addr) != 1 ||
      connect(file, (const struct sockaddr*)&server, sizeof server) != 0) {
    host_close(file);
    return -1;
  }
  (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return file;
}

long host_receive(int file, uint8_t* out, size_t size) {
  const ssize_t count = recv(file, out, size, MSG_DONTWAIT);
  if (count > 0) {
    return count;
  }
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

bool host_send(int file, const uint8_t* bytes, size_t size) {
  return send(file, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

void host_close(int file) {
  if (file >= 0) {
    close(file);
  }
}
