// What all Cortex-M boards have in common below the port: interrupts, start-up, reset, faults.
#ifndef GRADSTREAM_BOARDS_CORTEX_M_CORTEX_M_H_
#define GRADSTREAM_BOARDS_CORTEX_M_CORTEX_M_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gradstream {

inline constexpr uint32_t kStackPaint = 0xC0DEC0DE;
// Whether the stack's last words have lost their paint: then more, if it came, went below the stack. An object of more
// than these 128 bytes that nobody writes to may jump over them.
inline constexpr size_t kStackGuardWords = 32;
bool is_stack_full();
inline constexpr char kStackOverflowLine[] = "event=fault reason=\"stack overflow: enlarge kStackSize\"";

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

inline void mask_interrupts() { asm volatile("cpsid i" ::: "memory"); }
inline void unmask_interrupts() { asm volatile("cpsie i\n isb" ::: "memory"); }
// Until an interrupt is pending, masked or not.
inline void wait_for_interrupt() { asm volatile("dsb\n wfi" ::: "memory"); }

inline volatile uint32_t& register_at(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

// Whether the processor is the one that the image was built for: field PARTNO of CPUID. GS_PROCESSOR_PART is
// cortex_m.cmake's.
#if defined(GS_PROCESSOR_PART)
inline bool is_own_processor() { return (register_at(0xE000ED00) >> 4 & 0xFFF) == GS_PROCESSOR_PART; }
#endif

// Why the processor started, as far as its RAM, which a reset leaves alone, can tell.
enum class ResetNote : uint32_t { kNone = 0, kSoftware = 0x5AFE0001, kFault = 0x5AFE0002, kWatchdog = 0x5AFE0003 };

// Resets the processor; the note is read after it.
[[noreturn]] void reset_with(ResetNote note);
// The note of the last reset, kNone after power came; the same at each call.
ResetNote reset_note();

// What comes after a fault has been told on the console: a reset. An emulator stops with an error instead, unless it
// has the word reset-on-fault.
[[noreturn]] void machine_fault();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_CORTEX_M_CORTEX_M_H_
