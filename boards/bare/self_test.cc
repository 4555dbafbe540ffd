#include "boards/self_test.h"

#include <iterator>

#include "boards/bare/machine.h"
#include "boards/bare/processor.h"

extern "C" {
extern uint32_t __stack_begin, __stack_end, __data_begin, __data_end, __bss_end;
extern const uint32_t __data_load;
extern const uint8_t __flash_begin, __flash_end, __ram_begin, __ram_end;
}

namespace gradstream {
namespace {

template <typename A, typename B>
size_t distance(const A& begin, const B& end) {
  return reinterpret_cast<uintptr_t>(&end) - reinterpret_cast<uintptr_t>(&begin);
}

#if defined(__riscv)
uint32_t read_cycles() {
  uint32_t cycles = 0;
  asm volatile(GS_CSR("csrr %0, mcycle") : "=r"(cycles));
  return cycles;
}
#else
// SysTick counts 24 bits down at the processor's clock (Armv6-M and Armv7-M architecture reference manuals, B3.3).
constexpr uint32_t kSysTickMask = 0xFFFFFF;
volatile uint32_t& systick_control() { return register_at(0xE000E010); }
volatile uint32_t& systick_reload() { return register_at(0xE000E014); }
volatile uint32_t& systick_value() { return register_at(0xE000E018); }

uint32_t read_systick() { return kSysTickMask - systick_value(); }

CycleCounter start_systick() {
  constexpr uint32_t kOn = 5;  // processor's clock, no interrupt
  if ((systick_control() & 1) != 0) {
    return {};  // it is the machine's clock
  }
  systick_reload() = kSysTickMask;
  systick_value() = 0;
  systick_control() = kOn;
  return {"systick", kSysTickMask, read_systick};
}

// The counter of the DWT unit, which an Armv6-M does not have and a debugger may share (Armv7-M, C1.8).
#if !defined(GS_EMULATOR) && !defined(__ARM_ARCH_6M__)
volatile uint32_t& debug_control() { return register_at(0xE000EDFC); }
volatile uint32_t& dwt_control() { return register_at(0xE0001000); }
volatile uint32_t& dwt_cycles() { return register_at(0xE0001004); }

uint32_t read_dwt() { return dwt_cycles(); }

CycleCounter start_dwt() {
  constexpr uint32_t kTraceOn = 1U << 24, kNoCounter = 1U << 25, kCountOn = 1;
  debug_control() = debug_control() | kTraceOn;
  if ((dwt_control() & kNoCounter) != 0) {
    return {};
  }
  dwt_control() = dwt_control() | kCountOn;
  const uint32_t begin = dwt_cycles();
  return dwt_cycles() == begin ? CycleCounter{} : CycleCounter{"dwt", UINT32_MAX, read_dwt};
}
#else
CycleCounter start_dwt() { return {}; }  // QEMU has none: a look at it faults
#endif
#endif

}  // namespace

std::span<const ProcessorWord> board_processor() {
#if defined(__riscv)
  static ProcessorWord words[] = {{"misa", 0}, {"mvendorid", 0}, {"marchid", 0}, {"mimpid", 0}};
  asm volatile(GS_CSR("csrr %0, misa") : "=r"(words[0].value));
  asm volatile(GS_CSR("csrr %0, mvendorid") : "=r"(words[1].value));
  asm volatile(GS_CSR("csrr %0, marchid") : "=r"(words[2].value));
  asm volatile(GS_CSR("csrr %0, mimpid") : "=r"(words[3].value));
#else
  static ProcessorWord words[] = {{"cpuid", 0}};
  words[0].value = register_at(0xE000ED00);
#endif
  return words;
}

CycleCounter board_cycle_counter() {
#if defined(__riscv)
  return {"mcycle", UINT32_MAX, read_cycles};
#else
  const CycleCounter dwt = start_dwt();
  return dwt.name != nullptr ? dwt : start_systick();
#endif
}

BoardSizes board_sizes() {
  return {.stack = distance(__stack_begin, __stack_end),
          .ram = distance(__ram_begin, __ram_end),
          .ram_used = distance(__stack_begin, __bss_end),
          .flash = distance(__flash_begin, __flash_end),
          .flash_used = distance(__flash_begin, __data_load) + distance(__data_begin, __data_end)};
}

}  // namespace gradstream
