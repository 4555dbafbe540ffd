/* The host's own sockets, for a test that has lwIP's beside them. */
#ifndef GRADSTREAM_TESTS_BOARDS_SOCKETS_LWIP_HOST_H_
#define GRADSTREAM_TESTS_BOARDS_SOCKETS_LWIP_HOST_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A connected socket; below 0: nobody answers. */
int host_dial(const char* address, uint16_t port);
/* Bytes that are there now, 0 for none; below 0: the peer is gone. */
long host_receive(int file, uint8_t* out, size_t size);
/* All of them; false: the peer is gone. */
bool host_send(int file, const uint8_t* bytes, size_t size);
void host_close(int file);

#endif /* GRADSTREAM_TESTS_BOARDS_SOCKETS_LWIP_HOST_H_ */
