// The port of every board without an operating system: memory, sleep, console, over the machine's few functions
// (machine.h) and a link (link.h). All waits are WFI.
#include "runtime/link/port.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "boards/bare/link.h"
#include "boards/bare/machine.h"
#include "boards/bare/processor.h"
#include "boards/bare/ring.h"
#include "boards/board.h"

#include GS_BOARD_CONFIG  // the board's board_config.h, by bare.cmake

extern "C" {
extern uint32_t __stack_begin, __stack_end;
extern const char __identity_begin, __identity_end;
extern const uint8_t __shard_begin, __shard_end;
}

namespace gradstream {
namespace {

__attribute__((section(".stack"), used)) alignas(8) uint8_t stack[kStackSize];
alignas(8) uint8_t arena_memory[kArenaSize];
alignas(8) uint8_t tls_pool_memory[kTlsPoolSize];
Ring<kConsoleRingSize> console_ring;

}  // namespace

// What does not fit is lost, as nobody types that much in a local step; the last place is for a line's end, so that the
// shell refuses what is left of the line.
void on_console_interrupt() {
  uint8_t byte = 0;
  while (machine_console_get(&byte)) {
    const size_t wanted = byte == '\r' || byte == '\n' ? 1 : 2;
    if (console_ring.size() + wanted <= kConsoleRingSize) {
      console_ring.push(byte);
    }
  }
}

bool board_console_read(uint8_t* byte) {
  const bool is_there = !console_ring.is_empty();
  if (is_there) {
    *byte = console_ring.pop();
  }
  return is_there;
}

void board_start() {
  machine_start();
  if (!is_own_processor() || !machine_is_own_chip()) {
    port_log_line("event=failed reason=\"image of another board: flash the one of this board\"");
    board_stop(kStopWrongBoard);
  }
  GS_ASSERT(has_exact_floats());
}

std::span<uint8_t> board_arena() { return arena_memory; }
std::span<uint8_t> board_tls_pool() { return tls_pool_memory; }
std::span<const char> board_identity_text() { return {&__identity_begin, &__identity_end}; }
std::span<const uint8_t> board_shard() { return {&__shard_begin, &__shard_end}; }

// Where nothing faults below the stack (rp2040.ld), this is what finds an overflow.
void board_feed_watchdog() {
  if (is_stack_full()) {
    port_log_line(kStackOverflowLine);
    machine_fault();
  }
  machine_watchdog_feed();
}

ResetCause board_reset_cause() { return machine_reset_cause(); }

size_t board_stack_high_water_size() {
  const volatile uint32_t* unused = &__stack_begin;
  while (unused < &__stack_end && *unused == kStackPaint) {
    unused = unused + 1;
  }
  return static_cast<size_t>(&__stack_end - unused) * sizeof(uint32_t);
}

uint64_t port_now_ms() { return machine_now_ms(); }

void port_sleep_until_ms(uint64_t when_ms) {
  for (;;) {
    machine_watchdog_feed();
    const uint32_t link_wait_ms = link_serve();
    const uint64_t now_ms = machine_now_ms();
    mask_interrupts();
    if (now_ms >= when_ms || link_has_news() || !console_ring.is_empty()) {
      break;
    }
    machine_wake_in_ms(std::min<uint64_t>(when_ms - now_ms, link_wait_ms));
    wait_for_interrupt();
    unmask_interrupts();
  }
  unmask_interrupts();
}

void port_log_line(const char* text) {
  while (*text != '\0') {
    machine_console_put(*text++);
  }
  machine_console_put('\r');
  machine_console_put('\n');
}

void port_reboot() { reset_with(ResetNote::kSoftware); }

void assert_failed(const char* file, int line) {
  port_log_line("event=assert_failed");
  port_log_line(file);
  char digits[8] = {};
  for (int at = 6; at >= 0 && line > 0; --at, line /= 10) {
    digits[at] = static_cast<char>('0' + line % 10);
  }
  const char* first = digits;
  while (*first == '\0' && first < digits + 6) {
    ++first;
  }
  port_log_line(first);
  machine_fault();
}

}  // namespace gradstream
