// The port of every Cortex-M board: memory, link, sleep, console, over the machine's few functions (machine.h). All
// waits are WFI.
#include "runtime/link/port.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "boards/board.h"
#include "boards/cortex_m/cortex_m.h"
#include "boards/cortex_m/machine.h"
#include "boards/cortex_m/ring.h"

#include GS_BOARD_CONFIG  // the board's board_config.h, by cortex_m.cmake

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
Ring<kReceiveRingSize> receive_ring;
Ring<kTransmitRingSize> transmit_ring;
bool write_blocked = false;
Ring<kConsoleRingSize> console_ring;

// With interrupts masked, or inside one.
void serve_link() {
  uint8_t byte = 0;
  while (!receive_ring.is_full() && machine_link_get(&byte)) {
    receive_ring.push(byte);
  }
  while (!transmit_ring.is_empty() && machine_link_has_room()) {
    machine_link_put(transmit_ring.pop());
  }
  // A full ring switches the interrupt off, which holds back a peer that can be held.
  machine_link_want(!receive_ring.is_full(), !transmit_ring.is_empty());
}

Status link_open(void*) { return Status::kOk; }

Result<size_t> link_read(void*, uint8_t* out, size_t size) {
  size_t count = 0;
  while (count < size && !receive_ring.is_empty()) {
    out[count++] = receive_ring.pop();
  }
  if (count > 0) {  // the ring may have been full, at any moment up to here, and the interrupt off
    mask_interrupts();
    serve_link();
    unmask_interrupts();
  }
  return count == 0 ? Result<size_t>(Status::kWouldBlock) : Result<size_t>(count);
}

Result<size_t> link_write(void*, const uint8_t* bytes, size_t size) {
  size_t count = 0;
  mask_interrupts();
  do {
    while (count < size && !transmit_ring.is_full()) {
      transmit_ring.push(bytes[count++]);
    }
    serve_link();
  } while (count < size && !transmit_ring.is_full());
  unmask_interrupts();
  write_blocked = count < size;
  return count == 0 ? Result<size_t>(Status::kWouldBlock) : Result<size_t>(count);
}

// What is still to be sent, such as a close_notify, leaves; what came in belongs to a session that is over.
void link_close(void*) {
  mask_interrupts();
  receive_ring.forget();
  serve_link();
  unmask_interrupts();
}

constexpr TransportOps kLinkOps = {link_open, link_read, link_write, link_close, false};

bool has_link_news() { return !receive_ring.is_empty() || (write_blocked && transmit_ring.is_empty()); }

}  // namespace

void on_link_interrupt() { serve_link(); }

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
#if defined(__ARM_FP)
  // Replicas agree to the last bit only without flush-to-zero and with rounding to nearest.
  uint32_t mode = 0;
  asm volatile("vmrs %0, fpscr" : "=r"(mode));
  GS_ASSERT((mode & (1U << 24 | 3U << 22)) == 0);
#endif
}

std::span<uint8_t> board_arena() { return arena_memory; }
std::span<uint8_t> board_tls_pool() { return tls_pool_memory; }
std::span<const char> board_identity_text() { return {&__identity_begin, &__identity_end}; }
std::span<const uint8_t> board_shard() { return {&__shard_begin, &__shard_end}; }
void board_feed_watchdog() { machine_watchdog_feed(); }
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
    const uint64_t now_ms = machine_now_ms();
    mask_interrupts();
    if (now_ms >= when_ms || has_link_news() || !console_ring.is_empty()) {
      break;
    }
    machine_wake_in_ms(std::min(when_ms - now_ms, kSleepMaxMs));
    wait_for_interrupt();
    unmask_interrupts();
  }
  unmask_interrupts();
}

Transport port_transport() { return {&kLinkOps, nullptr}; }

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
