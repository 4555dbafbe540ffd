// STM32F405 (Cortex-M4F): USART6 on PC6 and PC7 is the link, USART1 on PB6 and PB7 the console, SysTick the clock, the
// independent watchdog the watchdog. RM0090 is ST's reference manual; its section numbers are those of revision 19.
#include <cstdint>

#include "boards/bare/machine.h"
#include "boards/cortex_m/cortex_m.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// ---- Registers ----

namespace rcc {  // RM0090 7.3
volatile uint32_t& control() { return register_at(0x40023800); }
volatile uint32_t& pll() { return register_at(0x40023804); }
volatile uint32_t& configuration() { return register_at(0x40023808); }
volatile uint32_t& ahb1_enable() { return register_at(0x40023830); }
volatile uint32_t& apb2_enable() { return register_at(0x40023844); }
volatile uint32_t& status() { return register_at(0x40023874); }
constexpr uint32_t kCrystalOn = 1U << 16, kCrystalReady = 1U << 17, kPllOn = 1U << 24, kPllReady = 1U << 25;
constexpr uint32_t kPllFromCrystal = 1U << 22;
constexpr uint32_t kSwitchMask = 3, kSwitchToPll = 2, kStatusMask = 3U << 2, kStatusPll = 2U << 2;
constexpr uint32_t kApb1By4 = 5U << 10, kApb2By2 = 4U << 13;
// status(): which reset it was.
constexpr uint32_t kWatchdogReset = 3U << 29, kSoftwareReset = 1U << 28, kPowerReset = 1U << 27, kPinReset = 1U << 26,
                   kBrownOutReset = 1U << 25, kForget = 1U << 24;
}  // namespace rcc

volatile uint32_t& flash_access() { return register_at(0x40023C00); }  // RM0090 3.9.1

struct Gpio {  // RM0090 8.4
  volatile uint32_t mode, type, speed, pull, input, output, set_reset, lock, alternate_low, alternate_high;
};
Gpio& port_b() { return *reinterpret_cast<Gpio*>(0x40020400); }
Gpio& port_c() { return *reinterpret_cast<Gpio*>(0x40020800); }

struct Usart {  // RM0090 30.6
  volatile uint32_t status, data, baud_rate, control1, control2, control3;
};
constexpr uint32_t kReceived = 1U << 5, kRoom = 1U << 7;                   // status
constexpr uint32_t kReceiveInterrupt = 1U << 5, kRoomInterrupt = 1U << 7;  // control1
constexpr uint32_t kEnable = 1U << 13, kTransmit = 1U << 3, kReceive = 1U << 2;
Usart& console() { return *reinterpret_cast<Usart*>(0x40011000); }     // USART1
Usart& link_usart() { return *reinterpret_cast<Usart*>(0x40011400); }  // USART6
constexpr uint32_t kConsoleIrq = 37, kLinkIrq = 71;

struct SysTick {
  volatile uint32_t control, reload, value;
};
SysTick& systick() { return *reinterpret_cast<SysTick*>(0xE000E010); }

// Independent watchdog, RM0090 21.4: 32 kHz / 256 is 125 Hz.
volatile uint32_t& watchdog_key() { return register_at(0x40003000); }
volatile uint32_t& watchdog_prescaler() { return register_at(0x40003004); }
volatile uint32_t& watchdog_reload() { return register_at(0x40003008); }
constexpr uint32_t kWatchdogHz = 125, kWatchdogReloadMax = 0xFFF;
static_assert(kWatchdogMs / 1000 * kWatchdogHz <= kWatchdogReloadMax);

// ---- Clocks ----

constexpr uint32_t kInternalHz = 16000000;
constexpr uint32_t kFastHz = 168000000;
constexpr uint32_t kCrystalMhz = GS_STM32F405_CRYSTAL_HZ / 1000000;
static_assert(GS_STM32F405_CRYSTAL_HZ % 1000000 == 0 && kCrystalMhz >= 4 && kCrystalMhz <= 26);  // RM0090 7.2.1
// 1 MHz x 336 / 2 for the processor, / 7 = 48 MHz for the random number generator.
constexpr uint32_t kPllFactors = kCrystalMhz | 336U << 6 | 0U << 16 | 7U << 24;
// At 16 MHz a turn takes some 8 cycles: 50 ms. A crystal takes 2 ms, the PLL 0.3 ms (data sheet, 5.3.8 and 5.3.10).
constexpr uint32_t kWaitTurnCountMax = 100000;

uint32_t system_hz = kInternalHz;
volatile uint64_t uptime_ms = 0;

bool wait_for(volatile uint32_t& word, uint32_t mask, uint32_t value) {
  for (uint32_t turn = 0; turn < kWaitTurnCountMax; ++turn) {
    if ((word & mask) == value) {
      return true;
    }
  }
  return false;
}

// null, or what did not come up; the processor then stays on its internal 16 MHz.
const char* start_clocks() {
  rcc::control() = rcc::control() | rcc::kCrystalOn;
  if (!wait_for(rcc::control(), rcc::kCrystalReady, rcc::kCrystalReady)) {
    return "event=clock reason=\"no crystal: on the internal 16 MHz, without random numbers\"";
  }
  rcc::pll() = kPllFactors | rcc::kPllFromCrystal;
  rcc::control() = rcc::control() | rcc::kPllOn;
  if (!wait_for(rcc::control(), rcc::kPllReady, rcc::kPllReady)) {
    return "event=clock reason=\"the PLL does not lock: on the internal 16 MHz, without random numbers\"";
  }
  flash_access() = 5 | 7U << 8;  // 5 wait states at 168 MHz and 3.3 V; prefetch and both caches
  rcc::configuration() = rcc::kApb1By4 | rcc::kApb2By2;
  rcc::configuration() = rcc::configuration() | rcc::kSwitchToPll;
  if (!wait_for(rcc::configuration(), rcc::kStatusMask, rcc::kStatusPll)) {
    rcc::configuration() = 0;
    return "event=clock reason=\"the clock does not switch: on the internal 16 MHz\"";
  }
  system_hz = kFastHz;
  return nullptr;
}

void start_usart(Usart& usart, uint32_t flags) {
  const uint32_t bus_hz = system_hz == kFastHz ? kFastHz / 2 : kInternalHz;
  usart.baud_rate = (bus_hz + 115200 / 2) / 115200;
  usart.control1 = kEnable | kTransmit | kReceive | flags;
}

bool get(Usart& usart, uint8_t* byte) {
  if ((usart.status & kReceived) == 0) {
    return false;
  }
  *byte = static_cast<uint8_t>(usart.data);  // which also forgets an overrun; a TLS record will not verify
  return true;
}

void start_pins() {
  rcc::ahb1_enable() = rcc::ahb1_enable() | 1U << 1 | 1U << 2;    // ports B and C
  rcc::apb2_enable() = rcc::apb2_enable() | 1U << 4 | 1U << 5;    // USART1 and USART6
  port_b().alternate_low = port_b().alternate_low | 0x77000000U;  // PB6, PB7: AF7, USART1
  port_b().mode = (port_b().mode & ~0xF000U) | 0xA000U;           // alternate function
  port_c().alternate_low = port_c().alternate_low | 0x88000000U;  // PC6, PC7: AF8, USART6
  port_c().mode = (port_c().mode & ~0xF000U) | 0xA000U;
  port_c().pull = (port_c().pull & ~0xC000U) | 0x4000U;  // a link that is not plugged in is quiet
}

// Without the PLL's 48 MHz for its generator, and in QEMU, which has no PLL, SysTick still counts at the board's speed.
uint32_t tick_hz() {
#if defined(GS_EMULATOR)
  return kFastHz;
#else
  return system_hz;
#endif
}

void enable_interrupt(uint32_t irq) { register_at(0xE000E100 + irq / 32 * 4) = 1U << irq % 32; }

GS_INTERRUPT_SECTION constinit const InterruptTable<82> interrupts({{kConsoleIrq, on_console_interrupt},
                                                                    {kLinkIrq, on_link_interrupt}});

}  // namespace

extern "C" void systick_handler() { uptime_ms = uptime_ms + 1; }

void machine_start() {
  const char* clock_fault = start_clocks();
  start_pins();
  start_usart(console(), kReceiveInterrupt);
  start_usart(link_usart(), kReceiveInterrupt);
  systick().reload = tick_hz() / 1000 - 1;
  systick().value = 0;
  systick().control = 7;  // processor's clock, interrupt, on
  watchdog_key() = 0xCCCC;
  watchdog_key() = 0x5555;
  watchdog_prescaler() = 6;
  watchdog_reload() = kWatchdogMs / 1000 * kWatchdogHz;
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

bool machine_link_has_room() { return (link_usart().status & kRoom) != 0; }
void machine_link_put(uint8_t byte) { link_usart().data = byte; }

bool machine_link_get(uint8_t* byte) { return get(link_usart(), byte); }

void machine_link_want(bool receive, bool transmit) {
  link_usart().control1 =
      kEnable | kTransmit | kReceive | (receive ? kReceiveInterrupt : 0) | (transmit ? kRoomInterrupt : 0);
}

uint64_t machine_now_ms() {
  mask_interrupts();
  const uint64_t now_ms = uptime_ms;
  unmask_interrupts();
  return now_ms;
}

void machine_wake_in_ms(uint64_t) {}  // SysTick wakes every millisecond

void machine_watchdog_feed() { watchdog_key() = 0xAAAA; }

// Of the STM32F405, F407, F415 and F417 (RM0090 38.6.1); which of them has which package it does not say.
bool machine_is_own_chip() {
  constexpr uint32_t kDeviceId = 0xE0042000, kDeviceMask = 0xFFF, kStm32f405 = 0x413;
  const uint32_t device = register_at(kDeviceId) & kDeviceMask;
#if defined(GS_EMULATOR)
  return device == kStm32f405 || device == 0;  // QEMU has no such register
#else
  return device == kStm32f405;
#endif
}

ResetCause machine_reset_cause() {
  static const uint32_t status = rcc::status();
  rcc::status() = rcc::status() | rcc::kForget;
  if ((status & rcc::kWatchdogReset) != 0) {
    return ResetCause::kWatchdog;
  }
  if ((status & rcc::kSoftwareReset) != 0 || reset_note() != ResetNote::kNone) {
    return ResetCause::kSoftware;
  }
  if ((status & rcc::kPowerReset) == 0 && (status & (rcc::kBrownOutReset | rcc::kPinReset)) != 0) {
    return (status & rcc::kBrownOutReset) != 0 ? ResetCause::kBrownOut : ResetCause::kPin;
  }
  return ResetCause::kPowerOn;
}

}  // namespace gradstream
