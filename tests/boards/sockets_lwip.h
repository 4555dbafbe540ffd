/* lwIP on a host, for tests of boards/sockets: its stack in a thread of its own, with no interface but its loopback. */
#ifndef GRADSTREAM_TESTS_BOARDS_SOCKETS_LWIP_H_
#define GRADSTREAM_TESTS_BOARDS_SOCKETS_LWIP_H_

#include <stdint.h>

/* Starts the stack, and a thread that takes connections of lwIP's loopback and leads each to the server behind the
 * host's own sockets, one after the other. Returns the port of lwIP's 127.0.0.1. */
uint16_t sockets_lwip_start(const char* address, uint16_t port);

#endif /* GRADSTREAM_TESTS_BOARDS_SOCKETS_LWIP_H_ */
