// The self-test's image of a board without an operating system: a nonce from the console, a report, and no more.
#include <cstdint>

#include <self_test_sources.h>  // made by tools/source_digest.py

#include "boards/board.h"
#include "firmware/self_test.h"
#include "runtime/link/port.h"

namespace {

// For somebody who types the nonce, ms. Reason: the terminal may be opened after the board has started.
constexpr uint64_t kNonceMs = 30000;
constexpr size_t kDigitCountMax = 9;  // fits 32 bits

// The number that was typed as a line; 0: none came in time.
uint32_t read_nonce() {
  const uint64_t end_ms = gradstream::port_now_ms() + kNonceMs;
  uint32_t nonce = 0;
  size_t digit_count = 0;
  while (gradstream::port_now_ms() < end_ms) {
    gradstream::board_feed_watchdog();
    uint8_t byte = 0;
    while (gradstream::board_console_read(&byte)) {
      if (byte >= '0' && byte <= '9' && digit_count < kDigitCountMax) {
        nonce = 10 * nonce + (byte - '0');
        ++digit_count;
      } else if ((byte == '\r' || byte == '\n') && digit_count > 0) {
        return nonce;
      }
    }
    gradstream::port_sleep_until_ms(end_ms);
  }
  return 0;
}

}  // namespace

int main() {
  using gradstream::SelfTestBoard;
  gradstream::board_start();
  gradstream::port_log_line(
      "event=self_test reason=\"type the nonce of ./run report nonce and Enter; without one it begins in 30 s\"");
  SelfTestBoard board;
  board.name = GS_BOARD_NAME;
  board.version = GS_VERSION;
  board.sources = GS_SOURCES_DIGEST;
#if defined(GS_EMULATOR)
  board.is_emulated = true;
#endif
  board.flash = gradstream::board_flash();
  board.entropy = gradstream::board_raw_entropy();
  board.sizes = gradstream::board_sizes();
  board.stack_used = gradstream::board_stack_high_water_size;
  board.feed = gradstream::board_feed_watchdog;
  board.now_ms = gradstream::port_now_ms;
  board.log = gradstream::port_log_line;
  const uint32_t nonce = read_nonce();
  board.processor = gradstream::board_processor();
  board.cycles = gradstream::board_cycle_counter();
  static gradstream::SelfTestMemory memory;
  gradstream::run_self_test(board, nonce, &memory);
  gradstream::board_stop(0);
}
