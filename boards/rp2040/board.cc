// Raspberry Pi Pico (RP2040, Cortex-M0+, one core of two): UART1 on GPIO 4 and 5 is the link, UART0 on GPIO 0 and 1 the
// console, the 64-bit timer the clock. Section numbers are those of the RP2040 data sheet.
#include <cstdint>

#include "boards/bare/machine.h"
#include "boards/cortex_m/cortex_m.h"
#include "boards/rp2040/clocks.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// ---- Registers; a write to + 0x2000 sets bits, to + 0x3000 clears them (2.1.2) ----

constexpr uint32_t kSet = 0x2000, kClear = 0x3000;

namespace resets {  // 2.14
constexpr uint32_t kReset = 0x4000C000, kDone = 0x4000C008;
constexpr uint32_t kIoBank = 1U << 5, kPadsBank = 1U << 8, kPllSys = 1U << 12, kTimer = 1U << 21, kUarts = 3U << 22;
}  // namespace resets

namespace clocks {  // 2.15.7, 2.16.7, 2.18.4
constexpr uint32_t kCrystalControl = 0x40024000, kCrystalStatus = 0x40024004, kCrystalStartup = 0x4002400C;
constexpr uint32_t kCrystalEnable = 0xFABAA0, kCrystalStable = 1U << 31;
constexpr uint32_t kCrystalDelay = 47;  // 1 ms: 12,000,000 / 1,000 / 256, rounded up
constexpr uint32_t kPllStatus = 0x40028000, kPllPower = 0x40028004, kPllFeedback = 0x40028008,
                   kPllDividers = 0x4002800C;
constexpr uint32_t kPllLocked = 1U << 31, kPllCoreOff = 1U << 5 | 1U, kPllDividersOff = 1U << 3;
constexpr uint32_t kReferenceControl = 0x40008030, kReferenceSelected = 0x40008038;
constexpr uint32_t kSystemControl = 0x4000803C, kSystemSelected = 0x40008044;
constexpr uint32_t kPeripheralControl = 0x40008048, kPeripheralOn = 1U << 11;
}  // namespace clocks

namespace watchdog {  // 4.7.6
constexpr uint32_t kControl = 0x40058000, kLoad = 0x40058004, kReason = 0x40058008, kTick = 0x4005802C;
constexpr uint32_t kEnable = 1U << 30, kPauseInDebug = 7U << 24, kTickOn = 1U << 9;
constexpr uint32_t kWhatToReset = 0x40010008, kAllButOscillators = 0x1FFFC;  // power-on state machine, 2.13.5
// It counts down twice a microsecond (erratum RP2040-E1).
constexpr uint32_t kLoadValue = kWatchdogMs * 1000 * 2;
static_assert(kLoadValue <= 0xFFFFFF);
}  // namespace watchdog

namespace timer {  // 4.6.5
constexpr uint32_t kAlarm0 = 0x40054010, kRawHigh = 0x40054024, kRawLow = 0x40054028, kInterrupts = 0x40054034,
                   kInterruptEnable = 0x40054038;
constexpr uint32_t kIrq = 0;
}  // namespace timer

struct Uart {  // 4.2.8, PL011
  volatile uint32_t data, receive_status, reserved[4], flags, reserved2, low_power, divisor, fraction, line, control,
      level, interrupt_mask, raw_interrupts, masked_interrupts, interrupt_clear;
};
static_assert(offsetof(Uart, flags) == 0x18 && offsetof(Uart, interrupt_clear) == 0x44);
constexpr uint32_t kReceiveEmpty = 1U << 4, kTransmitFull = 1U << 5;                     // flags
constexpr uint32_t kReceiveInterrupt = 1U << 4 | 1U << 6, kTransmitInterrupt = 1U << 5;  // with the time-out
constexpr uint32_t kEightBits = 3U << 5, kFifos = 1U << 4;                               // line
constexpr uint32_t kOn = 1U | 1U << 8 | 1U << 9;                                         // control
Uart& console() { return *reinterpret_cast<Uart*>(0x40034000); }
Uart& link_uart() { return *reinterpret_cast<Uart*>(0x40038000); }
constexpr uint32_t kConsoleIrq = 20, kLinkIrq = 21;

volatile uint32_t& gpio_control(uint32_t pin) { return register_at(0x40014004 + 8 * pin); }
constexpr uint32_t kGpioUart = 2;
constexpr uint32_t kConsolePins[] = {0, 1}, kLinkPins[] = {4, 5};

// ---- Clocks ----

constexpr uint32_t kCrystalHz = 12000000;
constexpr uint32_t kFastHz = 125000000;  // 12 MHz x 125 / 6 / 2
// The ring oscillator at reset: 1.8 to 12 MHz, 6.5 MHz nominal (2.17.1). A link at its speed is luck.
constexpr uint32_t kRingHz = 6500000;
// A turn takes some 8 cycles, at 6.5 MHz 1.2 us: 120 ms. The crystal takes 1 ms, the PLL less.
constexpr uint32_t kWaitTurnCountMax = 100000;

bool is_crystal_clock = false;

bool wait_for(uint32_t address, uint32_t mask) {
  for (uint32_t turn = 0; turn < kWaitTurnCountMax; ++turn) {
    if ((register_at(address) & mask) == mask) {
      return true;
    }
  }
  return false;
}

bool release(uint32_t blocks) {
  register_at(resets::kReset + kClear) = blocks;
  return wait_for(resets::kDone, blocks);
}

// null, or what did not come up; the processor then stays on its ring oscillator.
const char* start_clocks() {
  using namespace clocks;
  register_at(kCrystalStartup) = kCrystalDelay;
  register_at(kCrystalControl) = kCrystalEnable;
  if (!wait_for(kCrystalStatus, kCrystalStable)) {
    return "event=clock reason=\"no crystal: on the ring oscillator, without random numbers\"";
  }
  register_at(kReferenceControl) = 2;  // from the crystal
  if (!wait_for(kReferenceSelected, 1U << 2) || !release(resets::kPllSys)) {
    return "event=clock reason=\"the reference does not switch: on the ring oscillator, without random numbers\"";
  }
  register_at(kPllStatus) = 1;  // reference / 1
  register_at(kPllFeedback) = 125;
  register_at(kPllPower + kClear) = kPllCoreOff;
  if (!wait_for(kPllStatus, kPllLocked)) {
    return "event=clock reason=\"the PLL does not lock: on the crystal's 12 MHz\"";
  }
  register_at(kPllDividers) = 6U << 16 | 2U << 12;
  register_at(kPllPower + kClear) = kPllDividersOff;
  register_at(kSystemControl) = 0;  // the auxiliary source is the PLL; then select it
  register_at(kSystemControl) = 1;
  if (!wait_for(kSystemSelected, 1U << 1)) {
    return "event=clock reason=\"the system clock does not switch: on the crystal's 12 MHz\"";
  }
  return nullptr;
}

uint32_t system_hz() {
  if ((register_at(clocks::kSystemSelected) & 1U << 1) != 0) {
    return kFastHz;
  }
  return is_crystal_clock ? kCrystalHz : kRingHz;
}

void start_uart(Uart& uart, const uint32_t (&pins)[2], uint32_t interrupts) {
  const uint32_t divisor = (system_hz() * 4 + 115200 / 2) / 115200;  // in 1/64 of 16 samples a bit
  uart.divisor = divisor / 64;
  uart.fraction = divisor % 64;
  uart.line = kEightBits | kFifos;
  uart.level = 0;
  uart.interrupt_mask = interrupts;
  uart.control = kOn;
  for (const uint32_t pin : pins) {
    gpio_control(pin) = kGpioUart;
  }
}

bool get(Uart& uart, uint8_t* byte) {
  if ((uart.flags & kReceiveEmpty) != 0) {
    return false;
  }
  *byte = static_cast<uint8_t>(uart.data);  // with an overrun a TLS record will not verify
  return true;
}

uint64_t micros() {
  uint32_t high = 0, low = 0;
  do {
    high = register_at(timer::kRawHigh);
    low = register_at(timer::kRawLow);
  } while (high != register_at(timer::kRawHigh));
  return static_cast<uint64_t>(high) << 32 | low;
}

void on_link() {
  link_uart().interrupt_clear = kReceiveInterrupt | kTransmitInterrupt;
  on_link_interrupt();
}

void on_console() {
  console().interrupt_clear = kReceiveInterrupt;
  on_console_interrupt();
}

void on_wake() { register_at(timer::kInterrupts) = 1; }

GS_INTERRUPT_SECTION constinit const InterruptTable<32> interrupts({{timer::kIrq, on_wake},
                                                                    {kConsoleIrq, on_console},
                                                                    {kLinkIrq, on_link}});

}  // namespace

bool rp2040_has_crystal_clock() { return is_crystal_clock; }

void machine_start() {
  const char* clock_fault = start_clocks();
  is_crystal_clock = (register_at(clocks::kReferenceSelected) & 1U << 2) != 0;
  register_at(clocks::kPeripheralControl) = clocks::kPeripheralOn;  // from the system clock
  // The microsecond of timer and watchdog.
  register_at(watchdog::kTick) = (is_crystal_clock ? kCrystalHz : kRingHz) / 1000000 | watchdog::kTickOn;
  const bool is_released = release(resets::kIoBank | resets::kPadsBank | resets::kTimer | resets::kUarts);
  GS_ASSERT(is_released);
  start_uart(console(), kConsolePins, kReceiveInterrupt);
  start_uart(link_uart(), kLinkPins, kReceiveInterrupt);
  register_at(timer::kInterruptEnable) = 1;
  register_at(watchdog::kWhatToReset) = watchdog::kAllButOscillators;
  machine_watchdog_feed();
  register_at(watchdog::kControl) = watchdog::kEnable | watchdog::kPauseInDebug;
  register_at(0xE000E100) = 1U << timer::kIrq | 1U << kConsoleIrq | 1U << kLinkIrq;
  if (clock_fault != nullptr) {
    port_log_line(clock_fault);
  }
}

void machine_console_put(char c) {
  while ((console().flags & kTransmitFull) != 0) {
  }
  console().data = static_cast<uint8_t>(c);
}

bool machine_console_get(uint8_t* byte) { return get(console(), byte); }

bool machine_link_has_room() { return (link_uart().flags & kTransmitFull) == 0; }
void machine_link_put(uint8_t byte) { link_uart().data = byte; }

bool machine_link_get(uint8_t* byte) { return get(link_uart(), byte); }

void machine_link_want(bool receive, bool transmit) {
  link_uart().interrupt_mask = (receive ? kReceiveInterrupt : 0) | (transmit ? kTransmitInterrupt : 0);
}

uint64_t machine_now_ms() { return micros() / 1000; }

void machine_wake_in_ms(uint64_t delta_ms) {
  register_at(timer::kAlarm0) = static_cast<uint32_t>(micros() + delta_ms * 1000);
}

void machine_watchdog_feed() { register_at(watchdog::kLoad) = watchdog::kLoadValue; }

// Any revision (2.20.1).
bool machine_is_own_chip() {
  constexpr uint32_t kChipId = 0x40000000, kChipMask = 0x0FFFFFFF, kRp2040 = 0x0002927;
  return (register_at(kChipId) & kChipMask) == kRp2040;
}

// The watchdog keeps its reason over a reset by software, which leaves a note.
ResetCause machine_reset_cause() {
  if (reset_note() != ResetNote::kNone) {
    return ResetCause::kSoftware;
  }
  return (register_at(watchdog::kReason) & 1) != 0 ? ResetCause::kWatchdog : ResetCause::kPowerOn;
}

}  // namespace gradstream
