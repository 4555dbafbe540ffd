/* What a program in C on Linux tells its port (gradstream::posix) before gs_init(): where the server is, and where it
 * keeps state. It also reads an identity's file, and has the clock and the sleep of the main loop:
 *
 *   static char identity[GS_POSIX_IDENTITY_SIZE];
 *   size_t identity_size = 0;
 *   if (!gs_posix_set_server("gradstream.example:7433") ||
 *       !gs_posix_read_file("kitchen.identity", identity, sizeof identity, &identity_size) ||
 *       !gs_posix_set_state_file("/var/lib/product/kitchen.state")) { ... }
 *   ... gs_init(&config) with config.has_storage ...
 *   for (;;) {
 *     gs_posix_sleep_until(gs_poll(gs_posix_now_ms()));
 *   }
 *
 * Log lines of the device go to standard error. One thread, as of all of <gradstream/device.h>. Several devices have a
 * gs_posix_port each, at the end of this file.
 */
#ifndef GRADSTREAM_INCLUDE_GRADSTREAM_POSIX_H_
#define GRADSTREAM_INCLUDE_GRADSTREAM_POSIX_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for what `gradstream device add` writes, bytes; comments in the file may make it longer. */
enum { GS_POSIX_IDENTITY_SIZE = 1024 };

/* address: "name:7433", "192.0.2.1:7433" or "[2001:db8::1]:7433". It is copied; a name is looked up at each connection.
 * false: null, or no address and port; the server stays as it was. */
bool gs_posix_set_server(const char* address);

/* The file that holds the state; null: none is kept, as at first. Its folder must exist. The path is copied.
 * false: it has more than 4,000 bytes, and none is kept. */
bool gs_posix_set_state_file(const char* path);

/* Reads a whole file, such as that of an identity, to out; *size are its bytes. false: it is none, or cannot
 * be read (errno says why), or has more than capacity bytes (errno is EFBIG). */
bool gs_posix_read_file(const char* path, char* out, size_t capacity, size_t* size);

/* Milliseconds since boot, of the clock that gs_poll() takes. */
uint64_t gs_posix_now_ms(void);
/* Returns at that time, before it when the link has news, and after a minute at the latest. */
void gs_posix_sleep_until(uint64_t when_ms);

/* ---- Of one of several devices (gs_device_init) ---- */

/* Bytes of its connection and its address. */
enum { GS_POSIX_PORT_SIZE = 640 };
/* What is in it is the library's. It is neither moved nor copied, and outlives its device. */
typedef struct gs_posix_port {
  uint64_t words[GS_POSIX_PORT_SIZE / sizeof(uint64_t)];
} gs_posix_port;

/* Begins *posix, and writes what gs_device_init() takes as its port to *out. server: as gs_posix_set_server().
 * state_file: as gs_posix_set_state_file(), but the string stays the caller's; each device has a file of its own.
 * false: a null pointer, no address and port, or a path of more than 4,000 bytes; nothing is written. The look-up of a
 * name blocks, and all devices of the process with it: 10 s and more where no name server answers. Several devices
 * take numeric addresses, which need no look-up. */
struct gs_port;
bool gs_posix_port_init(gs_posix_port* posix, const char* server, const char* state_file, struct gs_port* out);

/* Ports that one sleep looks at, at most. Reason: 8 KB of stack. */
enum { GS_POSIX_PORTS_MAX = 1024 };
/* As gs_posix_sleep_until(), for the links of `count` devices, 1 .. GS_POSIX_PORTS_MAX. */
void gs_posix_sleep_until_any(const gs_posix_port* ports, size_t count, uint64_t when_ms);

#ifdef __cplusplus
}
#endif

#endif /* GRADSTREAM_INCLUDE_GRADSTREAM_POSIX_H_ */
