// Reset, traps, faults of a RISC-V in machine mode. As boards/bare/start.cc, this file is compiled by itself: only the
// processor and assembly name what is in it.
#include <cstdint>

#include "boards/bare/start.h"
#include "boards/riscv/riscv.h"
#include "runtime/link/port.h"

extern "C" {
extern uint32_t __stack_end;
[[noreturn]] void reset_handler();
void trap_handler();
[[gnu::used, gnu::interrupt("machine")]] void take_interrupt();
[[noreturn, gnu::used]] void report_fault(uintptr_t stack_pointer, uint32_t cause, uint32_t place);
}

namespace gradstream {
namespace {

constexpr uint32_t kInterrupt = 1U << 31;  // of mcause
constexpr uint32_t kTimerCause = kInterrupt | 7, kExternalCause = kInterrupt | 11;

char* put_hex(char* out, uint32_t value) {
  for (int shift = 28; shift >= 0; shift -= 4) {
    *out++ = "0123456789abcdef"[value >> shift & 15];
  }
  return out;
}

char* put_text(char* out, const char* text) {
  while (*text != '\0') {
    *out++ = *text++;
  }
  return out;
}

}  // namespace

// Entry 0, locked, so that it binds machine mode too (privileged architecture 20211203, 3.7.1): read and execute.
void protect_flash(uint32_t begin, uint32_t size) {
  constexpr uint32_t kLock = 0x80, kPowerOfTwo = 0x18, kRead = 1, kExecute = 4;
  asm volatile(GS_CSR("csrw pmpaddr0, %0\n csrw pmpcfg0, %1")::"r"(begin >> 2 | (size / 8 - 1)),
               "r"(kLock | kPowerOfTwo | kRead | kExecute)
               : "memory");
}

}  // namespace gradstream

void take_interrupt() {
  uint32_t cause = 0;
  asm volatile(GS_CSR("csrr %0, mcause") : "=r"(cause));
  if (cause == gradstream::kTimerCause) {
    gradstream::on_timer_interrupt();
  } else if (cause == gradstream::kExternalCause) {
    gradstream::on_external_interrupt();
  } else {
    report_fault(reinterpret_cast<uintptr_t>(&__stack_end), cause, 0);
  }
}

void report_fault(uintptr_t stack_pointer, uint32_t cause, uint32_t place) {
  using gradstream::put_hex;
  using gradstream::put_text;
  if (gradstream::has_overflowed(stack_pointer)) {
    gradstream::port_log_line(gradstream::kStackOverflowLine);
  } else {
    char line[120] = {};
    char* out = put_text(line, "event=fault reason=\"a bad access or instruction, or an interrupt nobody asked for\"");
    out = put_hex(put_text(out, " mcause="), cause);
    (void)put_hex(put_text(out, " mepc="), place);
    gradstream::port_log_line(line);
  }
  gradstream::machine_fault();
}

// The stack may be what is broken: a fault begins it anew. By the book there is nothing left to trust but a line and a
// reset.
extern "C" __attribute__((naked, aligned(4))) void trap_handler() {
  asm volatile(
      GS_CSR("csrw mscratch, t0\n"
             "csrr t0, mcause\n"
             "bgez t0, 1f\n"
             "csrr t0, mscratch\n"
             "j take_interrupt\n"
             "1:\n"
             "mv a0, sp\n"
             "mv a1, t0\n"
             "csrr a2, mepc\n"
             "la sp, __stack_end\n"
             "j report_fault\n"));
}

// The floating point unit before any code that may use it: field FS of mstatus, initial.
#if defined(__riscv_flen)
#define GS_ENABLE_FLOATS "li t0, 1 << 13\n csrs mstatus, t0\n"
#else
#define GS_ENABLE_FLOATS ""
#endif

// The processor starts here, with interrupts masked and no stack. It may have more than one hart; the others sleep.
extern "C" __attribute__((naked, section(".reset"))) void reset_handler() {
  asm volatile(
      GS_CSR("csrr t0, mhartid\n"
             "1: beqz t0, 2f\n"
             "wfi\n"
             "j 1b\n"
             "2:\n"
             ".option norelax\n"
             "la gp, __global_pointer$\n"
             "la sp, __stack_end\n"
             "la t0, trap_handler\n"
             "csrw mtvec, t0\n" GS_ENABLE_FLOATS "j start_image\n"));
}
