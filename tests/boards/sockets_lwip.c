/* The host's own sockets and lwIP's are two worlds with the same names: this file sees lwIP's, and
 * sockets_lwip_host.c the host's. */
#include "tests/boards/sockets_lwip.h"

#include <lwip/inet.h>
#include <lwip/sockets.h>
#include <lwip/sys.h>
#include <lwip/tcpip.h>
#include <string.h>

#include "tests/boards/sockets_lwip_host.h"

enum { PORT = 7433, CHUNK = 1024, WAIT_MS = 5 };

static const char* server_address;
static uint16_t server_port;

/* Copies both ways until one end closes. A turn waits for at most WAIT_MS. */
static void lead(int inner, int outer) {
  static uint8_t bytes[CHUNK];
  for (;;) {
    struct pollfd wait = {inner, POLLIN, 0};
    if (lwip_poll(&wait, 1, WAIT_MS) > 0) {
      const ssize_t count = lwip_recv(inner, bytes, sizeof bytes, 0);
      if (count <= 0 || !host_send(outer, bytes, (size_t)count)) {
        return;
      }
    }
    const long count = host_receive(outer, bytes, sizeof bytes);
    if (count < 0 || (count > 0 && lwip_send(inner, bytes, (size_t)count, 0) != count)) {
      return;
    }
  }
}

static void serve(void* listener_pointer) {
  const int listener = *(const int*)listener_pointer;
  for (;;) {
    const int inner = lwip_accept(listener, NULL, NULL);
    const int outer = host_dial(server_address, server_port);
    if (outer >= 0) {
      lead(inner, outer);
      host_close(outer);
    }
    lwip_close(inner);
  }
}

static void on_started(void* semaphore) { sys_sem_signal((sys_sem_t*)semaphore); }

uint16_t sockets_lwip_start(const char* address, uint16_t port) {
  static int listener;
  sys_sem_t started;
  struct sockaddr_in here;
  server_address = address;
  server_port = port;
  sys_sem_new(&started, 0);
  tcpip_init(on_started, &started);
  sys_sem_wait(&started);
  memset(&here, 0, sizeof here);
  here.sin_family = AF_INET;
  here.sin_port = lwip_htons(PORT);
  here.sin_addr.s_addr = PP_HTONL(INADDR_LOOPBACK);
  listener = lwip_socket(AF_INET, SOCK_STREAM, 0);
  LWIP_ASSERT("a port to listen on",
              lwip_bind(listener, (const struct sockaddr*)&here, sizeof here) == 0 && lwip_listen(listener, 1) == 0);
  sys_thread_new("lead", serve, &listener, DEFAULT_THREAD_STACKSIZE, DEFAULT_THREAD_PRIO);
  return PORT;
}
