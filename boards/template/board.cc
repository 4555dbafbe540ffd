// A board to copy: the functions of bare/machine.h over a clock, two UARTs and a watchdog that no chip has. It
// builds as it stands (tests/boards/template_test.py); what a port writes anew is marked PORT, see docs/porting.md.
#include <cstdint>

#include "boards/bare/machine.h"
#include "boards/cortex_m/cortex_m.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// ---- Registers ----

// PORT: the chip's UART, with the section of its manual.
struct Uart {
  volatile uint32_t data, status, control, baud_divider;
};
constexpr uint32_t kReceived = 1U << 0, kRoom = 1U << 1;                   // status
constexpr uint32_t kReceiveInterrupt = 1U << 0, kRoomInterrupt = 1U << 1;  // control
constexpr uint32_t kEnable = 1U << 2;
Uart& console() { return *reinterpret_cast<Uart*>(0x40000000); }
Uart& link_uart() { return *reinterpret_cast<Uart*>(0x40001000); }
constexpr uint32_t kConsoleIrq = 0, kLinkIrq = 1;

struct SysTick {  // every Cortex-M has it
  volatile uint32_t control, reload, value;
};
SysTick& systick() { return *reinterpret_cast<SysTick*>(0xE000E010); }

// PORT: the watchdog, and which register says why the chip started.
volatile uint32_t& watchdog_reload() { return register_at(0x40002000); }
volatile uint32_t& reset_status() { return register_at(0x40003000); }
constexpr uint32_t kWatchdogHz = 1000;
constexpr uint32_t kResetByWatchdog = 1U << 0;

// ---- Clocks ----

constexpr uint32_t kInternalHz = 8000000;
constexpr uint32_t kFastHz = 64000000;
constexpr uint32_t kBaudRate = 115200;
constexpr uint32_t kWaitTurnCountMax = 100000;  // PORT: several times what the data sheet says a crystal takes
volatile uint32_t& crystal_status() { return register_at(0x40004000); }
constexpr uint32_t kCrystalReady = 1U << 0;

uint32_t system_hz = kInternalHz;
volatile uint64_t uptime_ms = 0;

// null, or what did not come up; the processor then stays on its internal clock. Each wait is bounded: a board with a
// broken crystal must say so.
const char* start_clocks() {
  for (uint32_t turn = 0; turn < kWaitTurnCountMax; ++turn) {
    if ((crystal_status() & kCrystalReady) != 0) {
      system_hz = kFastHz;  // PORT: switch the clock over
      return nullptr;
    }
  }
  return "event=clock reason=\"no crystal: on the internal clock\"";
}

void start_uart(Uart& uart, uint32_t flags) {
  uart.baud_divider = (system_hz + kBaudRate / 2) / kBaudRate;
  uart.control = kEnable | flags;
}

bool get(Uart& uart, uint8_t* byte) {
  if ((uart.status & kReceived) == 0) {
    return false;
  }
  *byte = static_cast<uint8_t>(uart.data);  // PORT: forget an overrun too; a TLS record will not verify
  return true;
}

void enable_interrupt(uint32_t irq) { register_at(0xE000E100 + irq / 32 * 4) = 1U << irq % 32; }

// PORT: the size is one more than the number of the last interrupt in use. Where the UART wants its interrupt cleared,
// a function of this file does that and calls on_link_interrupt() or on_console_interrupt().
GS_INTERRUPT_SECTION constinit const InterruptTable<2> interrupts({{kConsoleIrq, on_console_interrupt},
                                                                   {kLinkIrq, on_link_interrupt}});

}  // namespace

extern "C" void systick_handler() { uptime_ms = uptime_ms + 1; }

void machine_start() {
  const char* clock_fault = start_clocks();
  // PORT: clocks and alternate functions of the pins; a pull-up on the link's input keeps an open one quiet.
  start_uart(console(), kReceiveInterrupt);
  start_uart(link_uart(), kReceiveInterrupt);
  systick().reload = system_hz / 1000 - 1;
  systick().value = 0;
  systick().control = 7;  // processor's clock, interrupt, on
  machine_watchdog_feed();
  enable_interrupt(kConsoleIrq);
  enable_interrupt(kLinkIrq);
  if (clock_fault != nullptr) {
    port_log_line(clock_fault);
  }
}

void machine_console_put(char c) {
  while ((console().status & kRoom) == 0) {
  }
  console().data = static_cast<uint8_t>(c);
}

bool machine_console_get(uint8_t* byte) { return get(console(), byte); }

bool machine_link_has_room() { return (link_uart().status & kRoom) != 0; }
void machine_link_put(uint8_t byte) { link_uart().data = byte; }

bool machine_link_get(uint8_t* byte) { return get(link_uart(), byte); }

void machine_link_want(bool receive, bool transmit) {
  link_uart().control = kEnable | (receive ? kReceiveInterrupt : 0) | (transmit ? kRoomInterrupt : 0);
}

uint64_t machine_now_ms() {
  mask_interrupts();
  const uint64_t now_ms = uptime_ms;
  unmask_interrupts();
  return now_ms;
}

void machine_wake_in_ms(uint64_t) {}  // SysTick wakes every millisecond

void machine_watchdog_feed() { watchdog_reload() = kWatchdogMs / 1000 * kWatchdogHz; }

// Compare the number by which the chip names itself, where there is one.
bool machine_is_own_chip() { return true; }

ResetCause machine_reset_cause() {
  static const uint32_t status = reset_status();
  if ((status & kResetByWatchdog) != 0) {
    return ResetCause::kWatchdog;
  }
  return reset_note() != ResetNote::kNone ? ResetCause::kSoftware : ResetCause::kPowerOn;
}

}  // namespace gradstream
