/* What the platform of an application in C supplies: the port of gradstream::device as C functions.
 *
 * The library asks its platform by the C++ functions of runtime/link/port.h, which each board in boards/ defines. A
 * program that links gradstream::c_port has them defined by those below, and defines these in C. It must define
 * gs_port_now_ms, gs_port_random, gs_port_link_read and gs_port_link_write; a missing one is an error of the linker.
 * All others have a weak default that is told with each, and a definition of the program's own takes its place.
 * A program with several devices gives each of them a gs_port, at the end of this file.
 *
 * Nothing here may block. gs_init() and gs_poll() call them, in their thread.
 */
#ifndef GRADSTREAM_INCLUDE_GRADSTREAM_PORT_H_
#define GRADSTREAM_INCLUDE_GRADSTREAM_PORT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions answer that return int32_t, in place of a number of bytes. */
enum {
  GS_PORT_WOULD_BLOCK = 0, /* nothing now: ask again */
  GS_PORT_CLOSED = -1,     /* the link is gone, and must be opened again */
  GS_PORT_ABSENT = -2,     /* the platform has none */
  GS_PORT_FAILED = -3,     /* it has one, which failed */
  GS_PORT_NO_ANSWER = -4,  /* of opening the link: nothing answers there. Counts as closed, and has words of its own */
  GS_PORT_NO_ADDRESS = -5  /* of opening the link: the peer's name has no address. Counts as closed, with words too */
};

/* Milliseconds since boot; monotonic, 64 bits, never jumps. */
uint64_t gs_port_now_ms(void);

/* Fills out with size bytes of a source that passed its health test. false: there is none, and then no TLS. */
bool gs_port_random(uint8_t* out, size_t size);

/* ---- The link to the server: a pipe of bytes ---- */

/* Bytes that were read to out or taken from bytes, 1 .. size; GS_PORT_WOULD_BLOCK or GS_PORT_CLOSED. */
int32_t gs_port_link_read(uint8_t* out, size_t size);
int32_t gs_port_link_write(const uint8_t* bytes, size_t size);
/* Whether the platform opens the link itself, such as a socket. Default: false, as a UART that is always there. */
bool gs_port_link_can_dial(void);
/* Begins or continues to open: 1 when it is open, GS_PORT_WOULD_BLOCK until then, GS_PORT_CLOSED when the peer refuses
 * or does not answer. Default: 1. */
int32_t gs_port_link_open(void);
/* Default: nothing is done. */
void gs_port_link_close(void);

/* ---- State over a reset, where gs_config.has_storage is set ---- */

typedef struct gs_port_piece {
  const uint8_t* bytes;
  size_t size;
} gs_port_piece;

/* Replaces all that is stored by the pieces, one after the other, atomically: after a cut of power the old or the new
 * stands there. 1 on success; GS_PORT_FAILED, and 0 counts as it. Default: GS_PORT_ABSENT. */
int32_t gs_port_storage_write(const gs_port_piece* pieces, size_t count);
/* Bytes that are stored, 0 for none, and the first of them to out, up to capacity; GS_PORT_FAILED. Default:
 * GS_PORT_ABSENT. */
int32_t gs_port_storage_read(uint8_t* out, size_t capacity);
/* The local steps of the task in progress, one record each. write: record `index`, which is 0 (those before it are
 * forgotten) or follows the last one; a state written later makes all of them obsolete. Results as above. Default:
 * GS_PORT_ABSENT, and the task in progress is repeated after a reset. */
int32_t gs_port_step_write(uint32_t index, const gs_port_piece* pieces, size_t count);
int32_t gs_port_step_read(uint32_t index, uint8_t* out, size_t capacity);

/* ---- What the device says ---- */

/* One line of the log, event=..., without a newline. Default: it is lost. */
void gs_port_log(const char* line);
/* A defect of the library or a broken contract, at that line of a source. It must not return: reset the processor.
 * Default: it loops for ever, so that a watchdog resets. */
void gs_port_assert_failed(const char* file, int line);

/* ---- Of one of several devices (gs_device_init) ---- */

/* Link, storage, steps and log of one device, in place of the functions above that are named alike. What each answers
 * is told there. gs_port_link_read() and gs_port_link_write() are defined all the same, and nobody calls them. Clock,
 * random numbers and assertions are the process's: the functions above, or gradstream::posix. */
typedef struct gs_port {
  size_t size;      /* sizeof(gs_port) */
  void* context;    /* the first argument of each */
  const char* peer; /* whom the link dials, "HOST:PORT", for log lines; stays valid; null: nothing is said of it */
  bool link_can_dial;
  int32_t (*link_open)(void* context); /* null: the link is always open */
  int32_t (*link_read)(void* context, uint8_t* out, size_t size);
  int32_t (*link_write)(void* context, const uint8_t* bytes, size_t size);
  void (*link_close)(void* context); /* null: nothing is done */
  /* Null: GS_PORT_ABSENT. */
  int32_t (*storage_write)(void* context, const gs_port_piece* pieces, size_t count);
  int32_t (*storage_read)(void* context, uint8_t* out, size_t capacity);
  int32_t (*step_write)(void* context, uint32_t index, const gs_port_piece* pieces, size_t count);
  int32_t (*step_read)(void* context, uint32_t index, uint8_t* out, size_t capacity);
  void (*log)(void* context, const char* line); /* null: the process's log */
} gs_port;

#ifdef __cplusplus
}
#endif

#endif /* GRADSTREAM_INCLUDE_GRADSTREAM_PORT_H_ */
