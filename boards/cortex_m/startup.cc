// Reset, the processor's own vectors, faults. A machine's interrupts follow in the section ".vectors.interrupts".
//
// This file is compiled by itself (cortex_m.cmake), never with the rest of the image. It fills memory of which the
// compiler knows nothing. As part of the whole, main() would become part of reset_handler(), and could read a variable
// before it has its value.
#include <cstddef>
#include <cstdint>

#include "boards/cortex_m/cortex_m.h"
#include "runtime/link/port.h"

using Handler = void (*)();

extern "C" {
extern uint32_t __stack_begin, __stack_end, __data_begin, __data_end, __bss_begin, __bss_end;
extern const uint32_t __data_load;
extern const Handler __init_array_begin, __init_array_end;
int main();
[[noreturn]] void reset_handler();
[[noreturn, gnu::used]] void report_fault(uintptr_t stack_pointer);
// A machine that uses these defines them.
void nmi_handler() __attribute__((weak));
void systick_handler() __attribute__((weak));
}

namespace gradstream {
namespace {

// Not cleared at start: a reset leaves RAM alone, and after power came it holds anything but a note.
__attribute__((section(".noinit"))) volatile ResetNote note_in_ram;
ResetNote note_at_start = ResetNote::kNone;

volatile uint32_t& reset_control() { return register_at(0xE000ED0C); }

}  // namespace

ResetNote reset_note() { return note_at_start; }

bool is_stack_full() {
  const volatile uint32_t* const begin = &__stack_begin;
  for (size_t word = 0; word < kStackGuardWords; ++word) {
    if (begin[word] != kStackPaint) {
      return true;
    }
  }
  return false;
}

void reset_with(ResetNote note) {
  note_in_ram = note;
  for (;;) {
    asm volatile("dsb" ::: "memory");
    reset_control() = 0x05FA0004;  // key and SYSRESETREQ
  }
}

}  // namespace gradstream

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

// An overflow may have jumped over the stack's last words, or have faulted just there.
void report_fault(uintptr_t stack_pointer) {
  if (stack_pointer < reinterpret_cast<uintptr_t>(&__stack_begin) || gradstream::is_stack_full()) {
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
  switch (gradstream::note_in_ram) {
    case gradstream::ResetNote::kSoftware:
    case gradstream::ResetNote::kFault:
    case gradstream::ResetNote::kWatchdog:
      gradstream::note_at_start = gradstream::note_in_ram;
      break;
    default:
      break;
  }
  gradstream::note_in_ram = gradstream::ResetNote::kNone;
  for (const Handler* constructor = &__init_array_begin; constructor != &__init_array_end; ++constructor) {
    (*constructor)();
  }
  main();
  gradstream::machine_fault();
}
