// Reset, vectors, stack of the MPS2 boards.
#include <cstddef>
#include <cstdint>

#include "boards/mps2/board_config.h"
#include "boards/mps2/mps2.h"

using Handler = void (*)();

extern "C" {
extern uint32_t __stack_begin, __stack_end, __data_begin, __data_end, __bss_begin, __bss_end;
extern const uint32_t __data_load;
extern const Handler __init_array_begin, __init_array_end;
int main();
[[noreturn]] void reset_handler();
}

namespace {

__attribute__((section(".stack"), used)) alignas(8) uint8_t stack[gradstream::kStackSize];

// An interrupt that nobody asked for, or a fault: by the book there is nothing left to trust.
[[noreturn]] void fault_handler() { gradstream::mps2_fault(); }

void nothing() {}

union Vector {
  Handler handler;
  const void* address;
};

constexpr size_t kVectorCount = 16 + 32;

}  // namespace

extern "C" const Vector vectors[kVectorCount] __attribute__((section(".vectors")));
const Vector vectors[kVectorCount] = {
    {.address = &__stack_end},
    {.handler = reset_handler},
    {.handler = fault_handler},  // NMI
    {.handler = fault_handler},  // HardFault
    {.handler = fault_handler},
    {.handler = fault_handler},
    {.handler = fault_handler},
    {.address = nullptr},
    {.address = nullptr},
    {.address = nullptr},
    {.address = nullptr},
    {.handler = fault_handler},  // SVCall
    {.handler = fault_handler},
    {.address = nullptr},
    {.handler = fault_handler},  // PendSV
    {.handler = fault_handler},  // SysTick
    {.handler = nothing},        // 0, 1: UART0, the console, is polled
    {.handler = nothing},
    {.handler = gradstream::mps2_link_receive_interrupt},   // 2
    {.handler = gradstream::mps2_link_transmit_interrupt},  // 3
    {.handler = nothing},
    {.handler = nothing},
    {.handler = nothing},
    {.handler = nothing},
    {.handler = nothing},
    {.handler = nothing},
    {.handler = gradstream::mps2_timer_interrupt},  // 10: both halves of the dual timer
};

void reset_handler() {
#if defined(__ARM_FP)
  // The floating point unit before any code that may use it.
  volatile uint32_t* const coprocessor_access = reinterpret_cast<volatile uint32_t*>(0xE000ED88);
  *coprocessor_access = *coprocessor_access | (0xFU << 20);
  asm volatile("dsb\n isb" ::: "memory");
#endif
  const uint32_t* from = &__data_load;
  for (uint32_t* to = &__data_begin; to != &__data_end;) {
    *to++ = *from++;
  }
  for (uint32_t* to = &__bss_begin; to != &__bss_end;) {
    *to++ = 0;
  }
  uint32_t* top = nullptr;
  asm volatile("mov %0, sp" : "=r"(top));
  for (volatile uint32_t* to = &__stack_begin; to < top; ++to) {
    *to = gradstream::kStackPaint;
  }
  for (const Handler* constructor = &__init_array_begin; constructor != &__init_array_end; ++constructor) {
    (*constructor)();
  }
  main();
  gradstream::mps2_fault();
}
