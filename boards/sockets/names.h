/* Whose sockets boards/sockets/link.c calls. GS_SOCKET(name) is the system's function of that POSIX name. Of lwIP say
 * GS_SOCKETS_LWIP=1. Another system names a header of its own, GS_SOCKETS_HEADER="my_sockets.h": it includes the
 * system's headers and defines GS_SOCKET, such as
 *
 *   #define GS_SOCKET(name) zsock_##name
 */
#ifndef GRADSTREAM_BOARDS_SOCKETS_NAMES_H_
#define GRADSTREAM_BOARDS_SOCKETS_NAMES_H_

#if defined(GS_SOCKETS_HEADER)
#include GS_SOCKETS_HEADER
#elif defined(GS_SOCKETS_LWIP)
#include <lwip/errno.h>
#include <lwip/inet.h>
#include <lwip/sockets.h>
#define GS_SOCKET(name) lwip_##name
#else
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#define GS_SOCKET(name) name
#endif

#endif /* GRADSTREAM_BOARDS_SOCKETS_NAMES_H_ */
