// What all Cortex-M boards have in common below the port, beside boards/bare/processor.h: their vectors.
#ifndef GRADSTREAM_BOARDS_CORTEX_M_CORTEX_M_H_
#define GRADSTREAM_BOARDS_CORTEX_M_CORTEX_M_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "boards/bare/processor.h"

namespace gradstream {

// An entry of the vector table.
union Vector {
  void (*handler)();
  const void* address;
};

// Of an interrupt that nobody asked for, and of a fault; begins the stack anew, so that an overflow is told too.
extern "C" [[noreturn]] void fault_handler();

struct Interrupt {
  uint32_t number;
  void (*handler)();
};

// The interrupts of a machine, 0 .. N - 1: one constant in the section GS_INTERRUPT_SECTION.
template <size_t N>
struct InterruptTable {
  Vector vectors[N];
  consteval explicit InterruptTable(std::initializer_list<Interrupt> used) : vectors{} {
    for (Vector& vector : vectors) {
      vector.handler = fault_handler;
    }
    for (const Interrupt& interrupt : used) {
      vectors[interrupt.number].handler = interrupt.handler;
    }
  }
};
#define GS_INTERRUPT_SECTION __attribute__((section(".vectors.interrupts"), used))

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_CORTEX_M_CORTEX_M_H_
