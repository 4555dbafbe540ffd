/* The link of an application in C over BSD sockets: gs_port_link_*() of <gradstream/port.h> by one TCP connection, for
 * Linux, lwIP's sockets and whatever has their functions. Clock, random numbers, storage and log stay the
 * application's. One device a process.
 *
 * The application calls gs_sockets_set_server() before gs_init(), and gs_sockets_wait() where its loop sleeps. All
 * calls are for the one thread of gs_poll(). The client decides when to dial again, and gives a dial up after
 * kHandshakeDeadlineMs (runtime/base/config.h).
 *
 * boards/sockets/names.h says whose functions are called; docs/rtos.md how a project adds this.
 */
#ifndef GRADSTREAM_BOARDS_SOCKETS_SOCKETS_H_
#define GRADSTREAM_BOARDS_SOCKETS_SOCKETS_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whom the device dials: an IPv4 address in digits, such as "192.168.1.5", and a port. false, and nothing changes:
 * these are no digits. A name is looked up by the application, since that blocks: before, and again where the server
 * has moved. The next dial takes the new address. */
bool gs_sockets_set_server(const char* address, uint16_t port);

/* Sleeps until the link has news, or until so many milliseconds have passed. Returns at once, false, where there is no
 * connection to wait for: sleep by the system's own means then. */
bool gs_sockets_wait(uint32_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* GRADSTREAM_BOARDS_SOCKETS_SOCKETS_H_ */
