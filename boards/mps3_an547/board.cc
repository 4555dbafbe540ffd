// Arm's MPS3 board AN547 (Cortex-M55 in an SSE-300 subsystem), in Secure state throughout: UART1 is the link, UART0 the
// console, the subsystem's 64-bit system counter the clock.
#include <cstdint>

#include "boards/bare/machine.h"
#include "boards/cortex_m/cortex_m.h"
#include "boards/mps2/cmsdk_uart.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

CmsdkUart& console() { return *reinterpret_cast<CmsdkUart*>(0x49303000); }
CmsdkUart& link_uart() { return *reinterpret_cast<CmsdkUart*>(0x49304000); }
// SSE-300's counter (control frame) and its first timer, in the Secure alias.
volatile uint32_t& counter_control() { return register_at(0x58100000); }
volatile uint32_t& timer_count_low() { return register_at(0x58000000); }
volatile uint32_t& timer_count_high() { return register_at(0x58000004); }
volatile uint32_t& timer_compare_low() { return register_at(0x58000020); }
volatile uint32_t& timer_compare_high() { return register_at(0x58000024); }
volatile uint32_t& timer_control() { return register_at(0x5800002C); }
volatile uint32_t& interrupt_enable(uint32_t irq) { return register_at(0xE000E100 + irq / 32 * 4); }

constexpr uint32_t kSystemHz = 32000000;
constexpr uint32_t kUartHz = 25000000;
constexpr uint32_t kTicksPerMs = kSystemHz / 1000;
constexpr uint32_t kTimerIrq = 3, kConsoleIrq = 43, kLinkIrq = 44;  // combined interrupts of UART0 and UART1

uint64_t ticks() {
  uint32_t high = 0, low = 0;
  do {
    high = timer_count_high();
    low = timer_count_low();
  } while (high != timer_count_high());
  return static_cast<uint64_t>(high) << 32 | low;
}

void on_link() {
  link_uart().interrupt = CmsdkUart::kInterruptFlags;
  on_link_interrupt();
}

void on_console() {
  console().interrupt = CmsdkUart::kInterruptFlags;
  on_console_interrupt();
}

void on_wake() { timer_control() = 0; }

GS_INTERRUPT_SECTION constinit const InterruptTable<48> interrupts({{kTimerIrq, on_wake},
                                                                    {kConsoleIrq, on_console},
                                                                    {kLinkIrq, on_link}});

}  // namespace

void machine_start() {
  counter_control() = 1;
  console().start(kUartHz / 115200,
                  CmsdkUart::kTransmitEnable | CmsdkUart::kReceiveEnable | CmsdkUart::kReceiveInterrupt);
  link_uart().start(kUartHz / 115200, CmsdkUart::kTransmitEnable | CmsdkUart::kReceiveEnable |
                                          CmsdkUart::kTransmitInterrupt | CmsdkUart::kReceiveInterrupt);
  interrupt_enable(kTimerIrq) = 1U << kTimerIrq % 32;
  interrupt_enable(kConsoleIrq) = 1U << kConsoleIrq % 32;
  interrupt_enable(kLinkIrq) = 1U << kLinkIrq % 32;
}

void machine_console_put(char c) {
  while (!console().has_room()) {
  }
  console().put(static_cast<uint8_t>(c));
}

bool machine_console_get(uint8_t* byte) { return console().get(byte); }

bool machine_link_has_room() { return link_uart().has_room(); }
void machine_link_put(uint8_t byte) { link_uart().put(byte); }
bool machine_link_get(uint8_t* byte) { return link_uart().get(byte); }
void machine_link_want(bool receive, bool) { link_uart().want_receive(receive); }

uint64_t machine_now_ms() { return ticks() / kTicksPerMs; }

void machine_wake_in_ms(uint64_t delta_ms) {
  const uint64_t when = ticks() + delta_ms * kTicksPerMs;
  timer_compare_low() = static_cast<uint32_t>(when);
  timer_compare_high() = static_cast<uint32_t>(when >> 32);
  timer_control() = 1;  // enabled, interrupt not masked
}

// The board's watchdogs are not used: QEMU does not model them, and nobody has the board to try them on.
void machine_watchdog_feed() {}

bool machine_is_own_chip() { return true; }  // the processor tells the boards apart

ResetCause machine_reset_cause() {
  return reset_note() == ResetNote::kNone ? ResetCause::kPowerOn : ResetCause::kSoftware;
}

}  // namespace gradstream
