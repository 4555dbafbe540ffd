// What a microcontroller supplies to the port of boards without an operating system (boards/bare/port.cc): its clock,
// two UARTs, a watchdog. One file of registers, boards/<machine>/board.cc.
#ifndef GRADSTREAM_BOARDS_BARE_MACHINE_H_
#define GRADSTREAM_BOARDS_BARE_MACHINE_H_

#include <cstdint>

#include "boards/board.h"

namespace gradstream {

// Clocks (each wait for one bounded), UARTs at 115,200 baud 8N1, timer, watchdog; interrupts on. A fall-back is told on
// the console.
void machine_start();

// One byte to the console, waiting for room.
void machine_console_put(char c);
// A byte that was typed; false: nothing has come. Called from the console's interrupt.
bool machine_console_get(uint8_t* byte);

// The link, where it is a UART (uart_link.cc). Called with interrupts masked or from the link's interrupt.
bool machine_link_has_room();
void machine_link_put(uint8_t byte);
bool machine_link_get(uint8_t* byte);  // false: nothing has come
// Which of its interrupts are wanted: a byte has come; there is room.
void machine_link_want(bool receive, bool transmit);

// Milliseconds since machine_start(); called with interrupts on.
uint64_t machine_now_ms();
// An interrupt at the latest after so long, 1 .. kSleepMaxMs, so that a wait for one ends. Interrupts are masked.
inline constexpr uint32_t kSleepMaxMs = 5000;  // below the period of every watchdog
void machine_wake_in_ms(uint64_t delta_ms);

// Gives the image another kWatchdogMs. Without it the machine resets, and says why after it. Reason: several times the
// slowest local step of a model that fits a board, and an erase of its flash; the RP2040's counter ends at 8.3 s.
inline constexpr uint32_t kWatchdogMs = 8000;
static_assert(kSleepMaxMs < kWatchdogMs);
void machine_watchdog_feed();

// Whether the chip is the one that the image is for, where it has an identification of its own; true where it has
// none. The processor's has been compared before.
bool machine_is_own_chip();

// Why the machine started, with what its own registers know.
ResetCause machine_reset_cause();

// ---- Of the port, for the machine's interrupts ----

// The link has a byte or room.
void on_link_interrupt();
// The console has a byte.
void on_console_interrupt();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_BARE_MACHINE_H_
