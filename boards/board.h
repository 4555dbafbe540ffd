// What a board without an operating system gives to the client's main(), besides runtime/link/port.h. A Linux process
// has a main() of its own (firmware/main_posix.cc) and the same client_main.
#ifndef GRADSTREAM_BOARDS_BOARD_H_
#define GRADSTREAM_BOARDS_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace gradstream {

// Clock, link, console, watchdog; interrupts on. Does not return where the processor or the chip is not the one that
// the image was built for: it says so on the console and stops with kStopWrongBoard.
void board_start();

// As the wire's enum of the same name.
enum class ResetCause : uint8_t { kNone = 0, kPowerOn = 1, kWatchdog = 2, kSoftware = 3, kBrownOut = 4, kPin = 5 };
// Why the board started.
ResetCause board_reset_cause();

// At least once in a turn of the main loop; without it the watchdog resets the board.
void board_feed_watchdog();

// Static memory of the board, sized in its board_config.h.
std::span<uint8_t> board_arena();
std::span<uint8_t> board_tls_pool();

// Pages of flash apart from the image; what is in them is judged by their readers.
std::span<const char> board_identity_text();
std::span<const uint8_t> board_shard();

// Whether the port's storage keeps anything: the board has flash for it.
bool board_has_storage();

// Reads what the storage keeps once more. kDataCorrupt: it does not hold together any more; kUnimplemented: there is
// none. Takes as long as reading a page of flash.
Status board_check_storage();

// Erases the identity's page, and what the storage keeps of that device; then the board starts anew, and an emulator
// ends. Returns only if it cannot: kUnimplemented without a flash driver, kClosed when the flash fails.
Status board_wipe_identity();

// The next byte that was typed on the console; false: there is none.
bool board_console_read(uint8_t* byte);

// Bytes of the stack ever used, found by its paint.
size_t board_stack_high_water_size();

// Whether the operator gave this word to the board, such as "until-finished"; boards without such a way say no.
bool board_option(const char* word);

// A line for the console's shell that only this board knows; false: it does not. Images for silicon know none; those
// for an emulator have words that make them fail (boards/bare/emulator.cc).
bool board_own_command(const char* line);

// The client ended. An emulator exits with the code, a board sleeps for ever.
[[noreturn]] void board_stop(int code);
inline constexpr int kStopWrongBoard = 10;  // a code beside those of firmware/client_main.h

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_BOARD_H_
