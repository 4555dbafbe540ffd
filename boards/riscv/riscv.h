// What all RISC-V boards have in common below the port, beside boards/bare/processor.h: traps. The client runs in
// machine mode throughout.
#ifndef GRADSTREAM_BOARDS_RISCV_RISCV_H_
#define GRADSTREAM_BOARDS_RISCV_RISCV_H_

#include <cstdint>

#include "boards/bare/processor.h"

namespace gradstream {

// Bits of mie and mip: the hart's timer, and the interrupt controller of the chip.
inline constexpr uint32_t kTimerInterrupt = 1U << 7, kExternalInterrupt = 1U << 11;

inline void enable_interrupts(uint32_t bits) { asm volatile(GS_CSR("csrs mie, %0")::"r"(bits) : "memory"); }

// ---- Of the machine, called with interrupts masked ----

void on_timer_interrupt();
void on_external_interrupt();

// No store may reach the `size` bytes from `begin` on any more, until a reset: there stands what would be flash. The
// stack lies above them, so that its overflow faults. size: a power of two, of which begin is a multiple. For
// processors with physical memory protection: on others its registers are illegal instructions, and the machine leaves
// it out.
void protect_flash(uint32_t begin, uint32_t size);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_RISCV_RISCV_H_
