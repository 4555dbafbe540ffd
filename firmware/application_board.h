/* The board of an application in C that brings its own main(): what boards/board.h and runtime/link/port.h give in C++.
 * examples/vibration/application.c is such an application. boards/bare/bare.cmake makes its image:
 * gs_add_bare_application(). All functions are for the one thread that calls gs_poll(). None allocates.
 */
#ifndef GRADSTREAM_FIRMWARE_APPLICATION_BOARD_H_
#define GRADSTREAM_FIRMWARE_APPLICATION_BOARD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/gradstream/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Before all else: starts clock, link, console and watchdog. Then fills in what the board gives to gs_init(): versions,
 * identity, arena, TLS pool, storage and why the board started. The other fields stay as they are. Does not return
 * where the processor is another one than the image is for; the console says so. */
void gs_board_start(gs_config* config);

/* Milliseconds since the start, for gs_poll(). */
uint64_t gs_board_now_ms(void);
/* Sleeps until then, or until the link or the console has news. May wake early. Feeds the watchdog. */
void gs_board_sleep_until_ms(uint64_t when_ms);
/* In a turn of the loop that does not sleep. Reason: the watchdog resets a board that nobody feeds for 8 s. */
void gs_board_feed_watchdog(void);

/* One line for the console, without its end; written at once. */
void gs_board_log(const char* line);

/* The samples in the board's pages of flash: a shard of floats as `gradstream data pack` writes it (docs/data.md). *out
 * is valid for ever. false: there is none, or it is damaged. */
bool gs_board_samples(gs_sample_source* out);

/* Bytes of the stack ever used, for gs_note_stack_high_water(). */
uint32_t gs_board_stack_high_water(void);

/* The application ends: an emulator exits with the status, a board sleeps for ever. */
#if defined(__cplusplus)
[[noreturn]]
#else
_Noreturn
#endif
void gs_board_stop(int status);

#ifdef __cplusplus
}
#endif

#endif /* GRADSTREAM_FIRMWARE_APPLICATION_BOARD_H_ */
