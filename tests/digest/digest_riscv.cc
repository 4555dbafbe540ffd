// Start-up of the digest program on QEMU's machine virt, of 32 and 64 bits: stack, FPU, .data and .bss, text and exit
// by semihosting. Only an emulator answers semihosting calls; no image for a real board links this file.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/base/status.h"
#include "tests/digest/digest_console.h"

int main();

extern "C" {
extern uint32_t data_load, data_begin, data_end, bss_begin, bss_end;
void reset_handler();
[[noreturn, gnu::used]] void fault_handler();
[[noreturn, gnu::used]] void run_main();
}

namespace {

constexpr uintptr_t kSysWrite0 = 0x04;
constexpr uintptr_t kSysExitExtended = 0x20;
constexpr uintptr_t kStoppedByApplication = 0x20026;

void semihosting(uintptr_t operation, const void* argument) {
  register uintptr_t a0 asm("a0") = operation;
  register const void* a1 asm("a1") = argument;
  asm volatile(
      ".option push\n .option norvc\n .balign 16\n"
      "slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n"
      ".option pop"
      : "+r"(a0)
      : "r"(a1)
      : "memory");
}

[[noreturn]] void leave(int status) {
  const uintptr_t block[] = {kStoppedByApplication, static_cast<uintptr_t>(status)};
  semihosting(kSysExitExtended, block);
  for (;;) {
  }
}

}  // namespace

void gradstream::console_write(const char* text) { semihosting(kSysWrite0, text); }

void gradstream::assert_failed(const char* file, int) {
  console_write("assertion failed in ");
  console_write(file);
  console_write("\n");
  leave(3);
}

void fault_handler() {
  gradstream::console_write("fault\n");
  leave(4);
}

void run_main() {
  const size_t data_size = reinterpret_cast<uintptr_t>(&data_end) - reinterpret_cast<uintptr_t>(&data_begin);
  const size_t bss_size = reinterpret_cast<uintptr_t>(&bss_end) - reinterpret_cast<uintptr_t>(&bss_begin);
  std::memcpy(&data_begin, &data_load, data_size);
  std::memset(&bss_begin, 0, bss_size);
  leave(main());
}

#if defined(__riscv_flen)
#define GS_ENABLE_FLOATS "li t0, 1 << 13\n csrs mstatus, t0\n"  // field FS: initial
#else
#define GS_ENABLE_FLOATS ""
#endif

extern "C" __attribute__((naked, used, section(".reset"))) void reset_handler() {
  asm volatile(
      ".option push\n .option arch, +zicsr\n .option norelax\n"
      "la gp, __global_pointer$\n"
      "la sp, stack_end\n"
      "la t0, 1f\n"
      "csrw mtvec, t0\n" GS_ENABLE_FLOATS
      "j run_main\n"
      ".balign 4\n"
      "1: j fault_handler\n"
      ".option pop\n");
}
