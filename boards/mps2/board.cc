// The port for Arm's MPS2 boards AN385 (Cortex-M3), AN386 (M4F) and AN500 (M7): UART1 is the link, UART0 the console,
// the CMSDK dual timer the clock. All waits are WFI.
#include "boards/board.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "boards/mps2/board_config.h"
#include "boards/mps2/mps2.h"
#include "runtime/link/port.h"

extern "C" {
extern uint32_t __stack_begin, __stack_end;
extern const char __identity_begin, __identity_end;
extern const uint8_t __shard_begin, __shard_end;
}

namespace gradstream {
namespace {

struct Uart {
  volatile uint32_t data;
  volatile uint32_t state;
  volatile uint32_t control;
  volatile uint32_t interrupt;
  volatile uint32_t baud_divisor;
};
constexpr uint32_t kTransmitFull = 1, kReceiveFull = 2;                    // state
constexpr uint32_t kTransmitEnable = 1, kReceiveEnable = 2;                // control
constexpr uint32_t kTransmitInterrupt = 4, kReceiveInterrupt = 8;          // control
constexpr uint32_t kTransmitInterruptFlag = 1, kReceiveInterruptFlag = 2;  // interrupt

struct Timer {
  volatile uint32_t load;
  volatile uint32_t value;
  volatile uint32_t control;
  volatile uint32_t interrupt_clear;
};
// Control: 32 bits, clock divided by 256; then enable, interrupt, one shot.
constexpr uint32_t kTimerBase = 2 | (2 << 2), kTimerEnable = 1 << 7, kTimerInterrupt = 1 << 5, kTimerOneShot = 1;

Uart& console() { return *reinterpret_cast<Uart*>(0x40004000); }
Uart& link_uart() { return *reinterpret_cast<Uart*>(0x40005000); }
Timer& clock_timer() { return *reinterpret_cast<Timer*>(0x40002000); }
Timer& wake_timer() { return *reinterpret_cast<Timer*>(0x40002020); }
volatile uint32_t& interrupt_enable() { return *reinterpret_cast<volatile uint32_t*>(0xE000E100); }
volatile uint32_t& reset_control() { return *reinterpret_cast<volatile uint32_t*>(0xE000ED0C); }

constexpr uint32_t kSystemHz = 25000000;
constexpr uint32_t kBaudDivisor = kSystemHz / 115200;
constexpr uint32_t kLinkReceiveIrq = 2, kLinkTransmitIrq = 3, kTimerIrq = 10;
// One tick of the divided clock is 256 / 25,000 ms = 32 / 3,125 ms.
constexpr uint64_t kTickNumerator = 32, kTickDenominator = 3125;
// Longest single wait; the clock's 32 bits wrap after 12 hours and must be read in between.
constexpr uint64_t kSleepMaxMs = 60000;

// One writer, one reader, one of the two an interrupt. The indices are volatile, the bytes are not: without the fences
// the compiler may move a byte's store behind the index that hands it over, or its load behind the index that frees its
// place. One core sees its own accesses in order, so that the processor needs no barrier.
template <size_t N>
class Ring {
 public:
  bool is_empty() const { return begin_ == end_; }
  bool is_full() const { return size() == N; }
  size_t size() const { return end_ - begin_; }
  void push(uint8_t byte) {
    bytes_[end_ % N] = byte;
    std::atomic_signal_fence(std::memory_order_release);
    end_ = end_ + 1;
  }
  uint8_t pop() {
    std::atomic_signal_fence(std::memory_order_acquire);  // not before is_empty() has said that there is one
    const uint8_t byte = bytes_[begin_ % N];
    std::atomic_signal_fence(std::memory_order_release);
    begin_ = begin_ + 1;
    return byte;
  }
  void forget() { begin_ = end_; }

 private:
  static_assert((N & (N - 1)) == 0, "the counters wrap");
  volatile uint32_t begin_ = 0;
  volatile uint32_t end_ = 0;
  uint8_t bytes_[N];
};

Ring<kReceiveRingSize> receive_ring;
Ring<kTransmitRingSize> transmit_ring;
bool write_blocked = false;
uint32_t clock_last = 0;
uint32_t clock_high = 0;
alignas(8) uint8_t arena_memory[kArenaSize];
alignas(8) uint8_t tls_pool_memory[kTlsPoolSize];

void mask_interrupts() { asm volatile("cpsid i" ::: "memory"); }
void unmask_interrupts() { asm volatile("cpsie i\n isb" ::: "memory"); }

// With interrupts masked, or inside one.
void feed_transmitter() {
  while (!transmit_ring.is_empty() && (link_uart().state & kTransmitFull) == 0) {
    link_uart().data = transmit_ring.pop();
  }
}

Status link_open(void*) { return Status::kOk; }

Result<size_t> link_read(void*, uint8_t* out, size_t size) {
  size_t count = 0;
  while (count < size && !receive_ring.is_empty()) {
    out[count++] = receive_ring.pop();
  }
  if (count == 0) {
    return Status::kWouldBlock;
  }
  // A full ring had switched the interrupt off, which holds the peer back.
  link_uart().control = link_uart().control | kReceiveInterrupt;
  return count;
}

Result<size_t> link_write(void*, const uint8_t* bytes, size_t size) {
  size_t count = 0;
  mask_interrupts();
  do {
    while (count < size && !transmit_ring.is_full()) {
      transmit_ring.push(bytes[count++]);
    }
    feed_transmitter();
  } while (count < size && !transmit_ring.is_full());
  unmask_interrupts();
  write_blocked = count < size;
  return count == 0 ? Result<size_t>(Status::kWouldBlock) : Result<size_t>(count);
}

// What is still to be sent, such as a close_notify, leaves; what came in belongs to a session that is over.
void link_close(void*) {
  mask_interrupts();
  receive_ring.forget();
  unmask_interrupts();
  link_uart().control = link_uart().control | kReceiveInterrupt;
}

constexpr TransportOps kLinkOps = {link_open, link_read, link_write, link_close, false};

bool has_link_news() { return !receive_ring.is_empty() || (write_blocked && transmit_ring.is_empty()); }

uint64_t clock_ticks() {
  const uint32_t now = ~clock_timer().value;  // it counts down
  clock_high += now < clock_last ? 1 : 0;
  clock_last = now;
  return static_cast<uint64_t>(clock_high) << 32 | now;
}

void set_wake_timer(uint64_t delta_ms) {
  const uint64_t ticks = delta_ms * kTickDenominator / kTickNumerator + 1;
  wake_timer().control = 0;
  wake_timer().load = static_cast<uint32_t>(ticks);
  wake_timer().control = kTimerBase | kTimerEnable | kTimerInterrupt | kTimerOneShot;
}

}  // namespace

void mps2_link_receive_interrupt() {
  link_uart().interrupt = kReceiveInterruptFlag;
  while ((link_uart().state & kReceiveFull) != 0) {
    if (receive_ring.is_full()) {
      link_uart().control = link_uart().control & ~kReceiveInterrupt;
      return;
    }
    receive_ring.push(static_cast<uint8_t>(link_uart().data));
  }
}

void mps2_link_transmit_interrupt() {
  link_uart().interrupt = kTransmitInterruptFlag;
  feed_transmitter();
}

void mps2_timer_interrupt() { wake_timer().interrupt_clear = 1; }

void mps2_console_put(char c) {
  while ((console().state & kTransmitFull) != 0) {
  }
  console().data = static_cast<uint8_t>(c);
}

void mps2_reset() {
  for (;;) {
    asm volatile("dsb" ::: "memory");
    reset_control() = 0x05FA0004;  // key and SYSRESETREQ
  }
}

void board_start() {
  clock_timer().load = 0xFFFFFFFF;
  clock_timer().control = kTimerBase | kTimerEnable;
  console().baud_divisor = kBaudDivisor;
  console().control = kTransmitEnable;
  link_uart().baud_divisor = kBaudDivisor;
  link_uart().control = kTransmitEnable | kReceiveEnable | kTransmitInterrupt | kReceiveInterrupt;
  interrupt_enable() = 1U << kLinkReceiveIrq | 1U << kLinkTransmitIrq | 1U << kTimerIrq;
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

size_t board_stack_high_water_size() {
  const volatile uint32_t* unused = &__stack_begin;
  while (unused < &__stack_end && *unused == kStackPaint) {
    unused = unused + 1;
  }
  return static_cast<size_t>(&__stack_end - unused) * sizeof(uint32_t);
}

uint64_t port_now_ms() { return clock_ticks() * kTickNumerator / kTickDenominator; }

void port_sleep_until_ms(uint64_t when_ms) {
  for (;;) {
    const uint64_t now_ms = port_now_ms();
    mask_interrupts();
    if (now_ms >= when_ms || has_link_news()) {
      break;
    }
    set_wake_timer(std::min(when_ms - now_ms, kSleepMaxMs));
    asm volatile("dsb\n wfi" ::: "memory");  // a pending interrupt ends it, masked or not
    unmask_interrupts();
  }
  unmask_interrupts();
}

Transport port_transport() { return {&kLinkOps, nullptr}; }

void port_log_line(const char* text) {
  while (*text != '\0') {
    mps2_console_put(*text++);
  }
  mps2_console_put('\r');
  mps2_console_put('\n');
}

Status port_storage_write(const StoragePiece*, size_t) { return Status::kUnimplemented; }
Result<size_t> port_storage_read(uint8_t*, size_t) { return Status::kUnimplemented; }

void port_reboot() { mps2_reset(); }

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
  mps2_fault();
}

}  // namespace gradstream
