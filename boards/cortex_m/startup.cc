// Reset, the processor's own vectors, faults. A machine's interrupts follow in the section ".vectors.interrupts". As
// boards/bare/start.cc, this file is compiled by itself: only the processor and assembly name what is in it.
#include <cstdint>

#include "boards/bare/start.h"
#include "boards/cortex_m/cortex_m.h"
#include "runtime/link/port.h"

extern "C" {
extern uint32_t __stack_end;
[[noreturn]] void reset_handler();
[[noreturn, gnu::used]] void report_fault(uintptr_t stack_pointer);
// A machine that uses these defines them.
void nmi_handler() __attribute__((weak));
void systick_handler() __attribute__((weak));
}

void gradstream::reset_processor() {
  volatile uint32_t& reset_control = register_at(0xE000ED0C);
  for (;;) {
    asm volatile("dsb" ::: "memory");
    reset_control = 0x05FA0004;  // key and SYSRESETREQ
  }
}

// Only the processor reads it.
extern "C" const gradstream::Vector vectors[16];
__attribute__((section(".vectors"), used)) const gradstream::Vector vectors[16] = {
    {.address = &__stack_end},
    {.handler = reset_handler},
    {.handler = nmi_handler},
    {.handler = gradstream::fault_handler},  // HardFault
    {.handler = gradstream::fault_handler},
    {.handler = gradstream::fault_handler},
    {.handler = gradstream::fault_handler},
    {.handler = gradstream::fault_handler},  // SecureFault, where there is one
    {.address = nullptr},
    {.address = nullptr},
    {.address = nullptr},
    {.handler = gradstream::fault_handler},  // SVCall
    {.handler = gradstream::fault_handler},
    {.address = nullptr},
    {.handler = gradstream::fault_handler},  // PendSV
    {.handler = systick_handler},
};

void nmi_handler() { gradstream::fault_handler(); }
void systick_handler() { gradstream::fault_handler(); }

void report_fault(uintptr_t stack_pointer) {
  if (gradstream::has_overflowed(stack_pointer)) {
    gradstream::port_log_line(gradstream::kStackOverflowLine);
  } else {
    gradstream::port_log_line("event=fault reason=\"a bad access or instruction, or an interrupt nobody asked for\"");
  }
  gradstream::machine_fault();
}

// The stack may be what is broken: begin it anew. By the book there is nothing left to trust but a line and a reset.
extern "C" __attribute__((naked)) void gradstream::fault_handler() {
  asm volatile(
      "mov r0, sp\n"
      "ldr r1, =__stack_end\n"
      "mov sp, r1\n"
      "ldr r1, =report_fault\n"
      "bx r1\n");
}

void reset_handler() {
#if defined(__ARM_FP)
  // The floating point unit before any code that may use it.
  volatile uint32_t& coprocessor_access = gradstream::register_at(0xE000ED88);
  coprocessor_access = coprocessor_access | (0xFU << 20);
  asm volatile("dsb\n isb" ::: "memory");
#endif
  gradstream::start_image();
}
