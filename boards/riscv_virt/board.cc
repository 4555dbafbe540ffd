// QEMU's machine virt (RV32, one hart): the UART of the machine is the console, a UART behind its PCI bus the link, the
// CLINT's mtime the clock. Addresses and interrupts are those of QEMU's hw/riscv/virt.c, which no manual names.
#include <cstdint>

#include "boards/bare/machine.h"
#include "boards/bare/start.h"
#include "boards/riscv/riscv.h"
#if defined(GS_EMULATOR)
#include "boards/bare/semihosting.h"
#endif

namespace gradstream {
namespace {

// A 16550A (National Semiconductor PC16550D, table II), its registers a byte apart.
struct Ns16550 {
  volatile uint8_t data;
  volatile uint8_t interrupt_enable;
  volatile uint8_t fifo_control;  // read: why it interrupts, which ends an interrupt for room
  volatile uint8_t line_control;
  volatile uint8_t modem_control;
  volatile uint8_t line_status;

  static constexpr uint8_t kReceiveInterrupt = 1, kRoomInterrupt = 2;  // interrupt_enable
  static constexpr uint8_t kHasByte = 1, kHasRoom = 0x20;              // line_status

  bool has_room() const { return (line_status & kHasRoom) != 0; }
  bool get(uint8_t* byte) {
    if ((line_status & kHasByte) == 0) {
      return false;
    }
    *byte = data;
    return true;
  }
  // The divisor stays as QEMU has it, which takes no notice of it.
  void start() {
    line_control = 3;   // 8N1
    fifo_control = 7;   // FIFOs, empty; an interrupt from the first byte on
    modem_control = 8;  // OUT2: on a PC's board it leads the interrupt out
    interrupt_enable = kReceiveInterrupt;
  }
};

constexpr uint32_t kFlashBegin = 0x80000000, kFlashSize = 512 * 1024;  // riscv_virt.ld
constexpr uint32_t kConsoleIrq = 10, kLinkIrq = 33;                    // slot 1, INTA
constexpr uint32_t kTicksPerMs = 10000;
constexpr uint64_t kNever = UINT64_MAX;
constexpr uint32_t kPciSerial = 0x00021B36;  // device and vendor of QEMU's pci-serial
constexpr uint32_t kLinkPort = 0x1000;       // where the bus shows its registers

Ns16550& console() { return *reinterpret_cast<Ns16550*>(0x10000000); }
Ns16550& link_uart() { return *reinterpret_cast<Ns16550*>(0x03000000 + kLinkPort); }
// The PCI configuration of the device in slot 1.
volatile uint32_t& pci_configuration(uint32_t offset) { return register_at(0x30000000 + (1U << 15) + offset); }
// PLIC, of this hart's machine mode.
volatile uint32_t& plic_priority(uint32_t irq) { return register_at(0x0C000000 + 4 * irq); }
volatile uint32_t& plic_enable(uint32_t irq) { return register_at(0x0C002000 + irq / 32 * 4); }
volatile uint32_t& plic_claim() { return register_at(0x0C200004); }

uint64_t ticks() {
  uint32_t high = 0, low = 0;
  do {
    high = register_at(0x0200BFFC);
    low = register_at(0x0200BFF8);
  } while (high != register_at(0x0200BFFC));
  return static_cast<uint64_t>(high) << 32 | low;
}

// The interrupt comes at that tick; the high word first set to its end, so that none comes between.
void interrupt_at(uint64_t when) {
  register_at(0x02004004) = UINT32_MAX;
  register_at(0x02004000) = static_cast<uint32_t>(when);
  register_at(0x02004004) = static_cast<uint32_t>(when >> 32);
}

#if defined(GS_EMULATOR)
// With the word cut-tick=N power goes N ticks of 100 ns after the start: 100 instructions each under -icount shift=0.
uint64_t cut_at = kNever;
#else
constexpr uint64_t cut_at = kNever;
#endif

void enable_irq(uint32_t irq) {
  plic_priority(irq) = 1;
  plic_enable(irq) = plic_enable(irq) | 1U << irq % 32;
}

bool has_link() { return pci_configuration(0) == kPciSerial; }

void start_link() {
  constexpr uint32_t kCommand = 0x04, kFirstRegion = 0x10, kAnswerPorts = 1;
  pci_configuration(kFirstRegion) = kLinkPort;
  pci_configuration(kCommand) = pci_configuration(kCommand) | kAnswerPorts;
  link_uart().start();
  enable_irq(kLinkIrq);
}

}  // namespace

void reset_processor() {
  for (;;) {
    register_at(0x00100000) = 0x7777;  // of the machine's test device: reset
  }
}

void on_timer_interrupt() {
#if defined(GS_EMULATOR)
  if (ticks() >= cut_at) {
    semihosting::leave(semihosting::kExitPowerCut);
  }
#endif
  interrupt_at(cut_at);
}

void on_external_interrupt() {
  const uint32_t irq = plic_claim();
  if (irq == kConsoleIrq) {
    on_console_interrupt();
  } else if (irq == kLinkIrq) {
    (void)link_uart().fifo_control;
    on_link_interrupt();
  }
  plic_claim() = irq;
}

void machine_start() {
  protect_flash(kFlashBegin, kFlashSize);
  console().start();
  enable_irq(kConsoleIrq);
  if (has_link()) {
    start_link();
  }
#if defined(GS_EMULATOR)
  if (const uint32_t cut_tick = semihosting::number("cut-tick="); cut_tick != 0) {
    cut_at = ticks() + cut_tick;
  }
#endif
  interrupt_at(cut_at);
  enable_interrupts(kTimerInterrupt | kExternalInterrupt);
  unmask_interrupts();
}

void machine_console_put(char c) {
  while (!console().has_room()) {
  }
  console().data = static_cast<uint8_t>(c);
}

bool machine_console_get(uint8_t* byte) { return console().get(byte); }

bool machine_link_has_room() { return link_uart().has_room(); }
void machine_link_put(uint8_t byte) { link_uart().data = byte; }
bool machine_link_get(uint8_t* byte) { return link_uart().get(byte); }
void machine_link_want(bool receive, bool transmit) {
  link_uart().interrupt_enable =
      static_cast<uint8_t>((receive ? Ns16550::kReceiveInterrupt : 0) | (transmit ? Ns16550::kRoomInterrupt : 0));
}

uint64_t machine_now_ms() { return ticks() / kTicksPerMs; }

void machine_wake_in_ms(uint64_t delta_ms) {
  const uint64_t when = ticks() + delta_ms * kTicksPerMs;
  interrupt_at(when < cut_at ? when : cut_at);
}

// The machine has no watchdog.
void machine_watchdog_feed() {}

// The machine with a UART for the link.
bool machine_is_own_chip() { return has_link(); }

ResetCause machine_reset_cause() {
  return reset_note() == ResetNote::kNone ? ResetCause::kPowerOn : ResetCause::kSoftware;
}

}  // namespace gradstream
