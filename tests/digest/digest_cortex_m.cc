// Start-up of the digest program on QEMU's mps2 boards: vectors, FPU, .data and .bss, text and exit by semihosting.
// Only an emulator answers semihosting calls; no image for a real board links this file.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/base/status.h"
#include "tests/digest/digest_console.h"

int main();

extern "C" {
extern uint32_t data_load, data_begin, data_end, bss_begin, bss_end, stack_end;
void reset_handler();
void fault_handler();
}

namespace {

constexpr uintptr_t kSysWrite0 = 0x04;
constexpr uintptr_t kSysExitExtended = 0x20;
constexpr uintptr_t kStoppedByApplication = 0x20026;

void semihosting(uintptr_t operation, const void* argument) {
  register uintptr_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
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

extern "C" {

__attribute__((section(".vectors"), used)) void (*const vectors[16])() = {reinterpret_cast<void (*)()>(&stack_end),
                                                                          reset_handler,
                                                                          fault_handler,
                                                                          fault_handler,
                                                                          fault_handler,
                                                                          fault_handler,
                                                                          fault_handler};

void fault_handler() {
  gradstream::console_write("fault\n");
  leave(4);
}

// No floating point register may be touched before the FPU is on, so this function stays without FPU code.
__attribute__((target("general-regs-only"))) void reset_handler() {
#if defined(__ARM_FP)
  volatile uint32_t& cpacr = *reinterpret_cast<volatile uint32_t*>(0xE000ED88);
  cpacr = cpacr | (0xFU << 20);
  asm volatile("dsb\n isb" ::: "memory");
#endif
  const size_t data_size = reinterpret_cast<uintptr_t>(&data_end) - reinterpret_cast<uintptr_t>(&data_begin);
  const size_t bss_size = reinterpret_cast<uintptr_t>(&bss_end) - reinterpret_cast<uintptr_t>(&bss_begin);
  std::memcpy(&data_begin, &data_load, data_size);
  std::memset(&bss_begin, 0, bss_size);
  leave(main());
}
}
