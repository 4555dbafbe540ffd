// The processor below the port, of whichever family the image is for: interrupts, floats, reset. What takes more than
// an instruction stands in startup.cc of the family's folder (boards/cortex_m, boards/riscv).
#ifndef GRADSTREAM_BOARDS_BARE_PROCESSOR_H_
#define GRADSTREAM_BOARDS_BARE_PROCESSOR_H_

#include <cstddef>
#include <cstdint>

// Control and status registers are an extension of their own (Zicsr). GCC 12 finds no library for a processor that is
// named with it, so these instructions ask the assembler for it.
#define GS_CSR(instruction) ".option push\n .option arch, +zicsr\n " instruction "\n .option pop\n"

namespace gradstream {

inline constexpr uint32_t kStackPaint = 0xC0DEC0DE;
// Whether the stack's last words have lost their paint: then more, if it came, went below the stack. An object of more
// than these 128 bytes that nobody writes to may jump over them.
inline constexpr size_t kStackGuardWords = 32;
bool is_stack_full();
inline constexpr char kStackOverflowLine[] = "event=fault reason=\"stack overflow: enlarge kStackSize\"";

inline volatile uint32_t& register_at(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

// Each is one instruction, or two.
inline void mask_interrupts() {
#if defined(__riscv)
  asm volatile(GS_CSR("csrci mstatus, 8")::: "memory");
#else
  asm volatile("cpsid i" ::: "memory");
#endif
}
inline void unmask_interrupts() {
#if defined(__riscv)
  asm volatile(GS_CSR("csrsi mstatus, 8")::: "memory");
#else
  asm volatile("cpsie i\n isb" ::: "memory");
#endif
}
// Until an interrupt is pending, masked or not.
inline void wait_for_interrupt() {
#if defined(__riscv)
  asm volatile("fence\n wfi" ::: "memory");
#else
  asm volatile("dsb\n wfi" ::: "memory");
#endif
}

#if defined(GS_PROCESSOR_PART)  // of the family's .cmake
// Whether the processor is one that the image was built for. A Cortex-M: field PARTNO of CPUID. A RISC-V: misa has all
// extensions that the code uses; more do no harm. A misa of 0 tells nothing, and any processor may have it.
inline bool is_own_processor() {
#if defined(__riscv)
  uint32_t misa = 0;
  asm volatile(GS_CSR("csrr %0, misa") : "=r"(misa));
  return misa == 0 || (misa & GS_PROCESSOR_PART) == GS_PROCESSOR_PART;
#else
  return (register_at(0xE000ED00) >> 4 & 0xFFF) == GS_PROCESSOR_PART;
#endif
}
#endif

// Whether floats round to nearest and subnormal numbers are not flushed to zero. Without it replicas do not agree to
// the last bit. A RISC-V flushes none.
inline bool has_exact_floats() {
#if defined(__riscv_flen)
  uint32_t mode = 0;
  asm volatile("frrm %0" : "=r"(mode));
  return mode == 0;
#elif defined(__ARM_FP)
  uint32_t mode = 0;
  asm volatile("vmrs %0, fpscr" : "=r"(mode));
  return (mode & (1U << 24 | 3U << 22)) == 0;
#else
  return true;
#endif
}

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

#endif  // GRADSTREAM_BOARDS_BARE_PROCESSOR_H_
