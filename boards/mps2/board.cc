// Arm's MPS2 boards AN385 (Cortex-M3), AN386 (M4F) and AN500 (M7): UART1 is the link, or with GS_ETHERNET the board's
// LAN9220; UART0 the console, the CMSDK dual timer the clock.
#include <cstdint>

#include "boards/bare/machine.h"
#include "boards/cortex_m/cortex_m.h"
#include "boards/mps2/cmsdk_uart.h"
#if defined(GS_EMULATOR)
#include "boards/bare/semihosting.h"
#include "boards/mps2/instruction_count.h"
#include "boards/mps2/power_cut.h"
#endif
#if defined(GS_ETHERNET)
#include "boards/mps2/ethernet.h"
#endif
#include "runtime/link/port.h"

namespace gradstream {
namespace {

struct Timer {
  volatile uint32_t load;
  volatile uint32_t value;
  volatile uint32_t control;
  volatile uint32_t interrupt_clear;
};
// Control: 32 bits, clock divided by 256; then enable, interrupt, one shot.
constexpr uint32_t kTimerBase = 2 | (2 << 2), kTimerEnable = 1 << 7, kTimerInterrupt = 1 << 5, kTimerOneShot = 1;

struct Watchdog {
  volatile uint32_t load;
  volatile uint32_t value;
  volatile uint32_t control;
  volatile uint32_t interrupt_clear;
};
constexpr uint32_t kWatchdogInterrupt = 1, kWatchdogReset = 2;

CmsdkUart& console() { return *reinterpret_cast<CmsdkUart*>(0x40004000); }
Timer& clock_timer() { return *reinterpret_cast<Timer*>(0x40002000); }
Timer& wake_timer() { return *reinterpret_cast<Timer*>(0x40002020); }
Watchdog& watchdog() { return *reinterpret_cast<Watchdog*>(0x40008000); }
volatile uint32_t& interrupt_enable() { return register_at(0xE000E100); }

constexpr uint32_t kSystemHz = 25000000;
constexpr uint32_t kBaudDivisor = kSystemHz / 115200;
constexpr uint32_t kConsoleIrq = 0, kLinkReceiveIrq = 2, kLinkTransmitIrq = 3, kTimerIrq = 10;
// One tick of the divided clock is 256 / 25,000 ms = 32 / 3,125 ms.
constexpr uint64_t kTickNumerator = 32, kTickDenominator = 3125;

// 32 bits wrap after 12 hours, and each passing wrap is counted when the clock is read: after every sleep.
constexpr uint64_t kWrapMs = (uint64_t{1} << 32) * kTickNumerator / kTickDenominator;
static_assert(kSleepMaxMs < kWrapMs);
uint32_t clock_last = 0;
uint32_t clock_high = 0;

#if defined(GS_EMULATOR)
// So typed, a byte takes a sleeping board's clock a second further, and with it every deadline of the client and of the
// network; what the board does takes no less time. The timers behind sleep and watchdog do not notice.
constexpr uint8_t kSkipByte = 0x16;  // SYN: no text has it
constexpr uint32_t kSkipMs = 1000;
volatile uint32_t skipped_ms = 0;
volatile bool is_asleep = false;
#endif

#if defined(GS_ETHERNET)
constexpr uint32_t kLinkInterrupts = 0;  // enabled when it is waited for

void start_link() {}  // by the link, when it is opened
#else
CmsdkUart& link_uart() { return *reinterpret_cast<CmsdkUart*>(0x40005000); }
constexpr uint32_t kLinkInterrupts = 1U << kLinkReceiveIrq | 1U << kLinkTransmitIrq;

void start_link() {
  link_uart().start(kBaudDivisor, CmsdkUart::kTransmitEnable | CmsdkUart::kReceiveEnable |
                                      CmsdkUart::kTransmitInterrupt | CmsdkUart::kReceiveInterrupt);
}

void on_link() {
  link_uart().interrupt = CmsdkUart::kInterruptFlags;
  on_link_interrupt();
}
#endif

void on_console() {
  console().interrupt = CmsdkUart::kInterruptFlags;
  on_console_interrupt();
}

void on_wake() { wake_timer().interrupt_clear = 1; }

// clang-format off
GS_INTERRUPT_SECTION constinit const InterruptTable<32> interrupts({
#if defined(GS_EMULATOR)
    {kPowerCutIrq, on_power_cut},
#endif
    {kConsoleIrq, on_console},
#if defined(GS_ETHERNET)
    {kEthernetIrq, on_ethernet},
#else
    {kLinkReceiveIrq, on_link},
    {kLinkTransmitIrq, on_link},
#endif
    {kTimerIrq, on_wake},  // both halves of the dual timer
});
// clang-format on

}  // namespace

// The watchdog's first period has passed. Nobody feeds it any more; the second one resets, were this not to.
extern "C" void nmi_handler() {
  port_log_line("event=watchdog reason=\"the image hung; resetting\"");
  reset_with(ResetNote::kWatchdog);
}

void machine_start() {
  clock_timer().load = 0xFFFFFFFF;
  clock_timer().control = kTimerBase | kTimerEnable;
  console().start(kBaudDivisor, CmsdkUart::kTransmitEnable | CmsdkUart::kReceiveEnable | CmsdkUart::kReceiveInterrupt);
  start_link();
  watchdog().load = kSystemHz / 1000 * kWatchdogMs;
  watchdog().control = kWatchdogInterrupt | kWatchdogReset;
  interrupt_enable() = kLinkInterrupts | 1U << kConsoleIrq | 1U << kTimerIrq;
#if defined(GS_EMULATOR)
  if (is_own_processor()) {  // another one may lack the instructions of the C library behind these
    plan_power_cut();
    start_instruction_count();
    skipped_ms = semihosting::number("uptime-ms=");  // as if it had run for so long already
  }
#endif
}

void machine_console_put(char c) {
  while (!console().has_room()) {
  }
  console().put(static_cast<uint8_t>(c));
#if defined(GS_EMULATOR)
  if (c == '\n') {
    log_instruction_count();
  }
#endif
}

bool machine_console_get(uint8_t* byte) {
  bool is_there = console().get(byte);
#if defined(GS_EMULATOR)
  for (; is_there && *byte == kSkipByte; is_there = console().get(byte)) {
    skipped_ms = skipped_ms + (is_asleep ? kSkipMs : 0);
  }
#endif
  return is_there;
}

#if !defined(GS_ETHERNET)
bool machine_link_has_room() { return link_uart().has_room(); }
void machine_link_put(uint8_t byte) { link_uart().put(byte); }
bool machine_link_get(uint8_t* byte) { return link_uart().get(byte); }
void machine_link_want(bool receive, bool) { link_uart().want_receive(receive); }
#endif

uint64_t machine_now_ms() {
  const uint32_t now = ~clock_timer().value;  // it counts down
  clock_high += now < clock_last ? 1 : 0;
  clock_last = now;
  const uint64_t now_ms = (static_cast<uint64_t>(clock_high) << 32 | now) * kTickNumerator / kTickDenominator;
#if defined(GS_EMULATOR)
  return now_ms + skipped_ms;
#else
  return now_ms;
#endif
}

void machine_wake_in_ms(uint64_t delta_ms) {
#if defined(GS_EMULATOR)
  stop_counting();
  is_asleep = true;
#endif
  wake_timer().control = 0;
  wake_timer().load = static_cast<uint32_t>(delta_ms * kTickDenominator / kTickNumerator + 1);
  wake_timer().control = kTimerBase | kTimerEnable | kTimerInterrupt | kTimerOneShot;
}

void machine_watchdog_feed() {
  watchdog().interrupt_clear = 1;  // and loads it anew
#if defined(GS_EMULATOR)
  is_asleep = false;  // it is fed after every sleep
  begin_poll();
#endif
}

bool machine_is_own_chip() { return true; }  // the processor tells the boards apart

ResetCause machine_reset_cause() {
  switch (reset_note()) {
    case ResetNote::kWatchdog:
      return ResetCause::kWatchdog;
    case ResetNote::kSoftware:
    case ResetNote::kFault:
      return ResetCause::kSoftware;
    default:
      return ResetCause::kPowerOn;
  }
}

}  // namespace gradstream
