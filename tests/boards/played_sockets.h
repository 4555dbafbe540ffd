/* The system's sockets, but for the two functions that sockets_link_test.cc plays: a GS_SOCKETS_HEADER. */
#ifndef GRADSTREAM_TESTS_BOARDS_PLAYED_SOCKETS_H_
#define GRADSTREAM_TESTS_BOARDS_PLAYED_SOCKETS_H_

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

int played_connect(int socket, const struct sockaddr* address, socklen_t size);
int played_poll(struct pollfd* waits, nfds_t count, int timeout_ms);

#ifdef __cplusplus
}
#endif

#define GS_SOCKET(name) GS_PLAYED_##name
#define GS_PLAYED_close close
#define GS_PLAYED_connect played_connect
#define GS_PLAYED_fcntl fcntl
#define GS_PLAYED_getsockopt getsockopt
#define GS_PLAYED_inet_pton inet_pton
#define GS_PLAYED_poll played_poll
#define GS_PLAYED_recv recv
#define GS_PLAYED_send send
#define GS_PLAYED_setsockopt setsockopt
#define GS_PLAYED_socket socket

#endif /* GRADSTREAM_TESTS_BOARDS_PLAYED_SOCKETS_H_ */
