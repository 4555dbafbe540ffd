// What an emulator does instead of silicon: random numbers, options, an exit code.
#include <cstring>

#include "boards/bare/processor.h"
#include "boards/bare/semihosting.h"
#include "boards/board.h"
#include "boards/self_test.h"
#include "runtime/link/port.h"

#include GS_BOARD_CONFIG  // the board's board_config.h, by bare.cmake

namespace gradstream {
namespace semihosting {

const char* word(const char* prefix, size_t* size) {
  static char line[320] = {};
  if (line[0] == '\0') {
    const uint32_t arguments[] = {address(line), sizeof(line) - 1};
    if (call(kCommandLine, arguments) != 0) {
      return nullptr;
    }
  }
  const size_t prefix_size = std::strlen(prefix);
  for (const char* found = std::strstr(line, prefix); found != nullptr; found = std::strstr(found + 1, prefix)) {
    if (found == line || found[-1] == ' ') {
      const char* begin = found + prefix_size;
      *size = std::strcspn(begin, " ");
      return begin;
    }
  }
  return nullptr;
}

uint32_t number(const char* prefix) {
  size_t size = 0;
  const char* digits = word(prefix, &size);
  uint32_t value = 0;
  for (size_t i = 0; digits != nullptr && i < size; ++i) {
    value = 10 * value + static_cast<uint32_t>(digits[i] - '0');
  }
  return value;
}

}  // namespace semihosting

namespace {

uint32_t random_handle() {
  static const char kPath[] = "/dev/urandom";
  static uint32_t handle = semihosting::kFailed;
  if (handle == semihosting::kFailed) {
    const uint32_t arguments[] = {semihosting::address(kPath), semihosting::kReadBinary, sizeof(kPath) - 1};
    handle = semihosting::call(semihosting::kOpen, arguments);
  }
  return handle;
}

// Nothing wakes it any more: what a watchdog is for.
[[noreturn]] void hang() {
  mask_interrupts();
  // A pending one would end each wait, and cost the emulator its time.
#if defined(__riscv)
  asm volatile(GS_CSR("csrw mie, zero"));
#else
  register_at(0xE000E180) = 0xFFFFFFFF;
#endif
  for (;;) {
    wait_for_interrupt();
  }
}

// Each depth takes more than its frame; all together more than the stack.
constexpr uint32_t kFrameWords = 16;
constexpr uint32_t kDepth = kStackSize / (kFrameWords * sizeof(uint32_t));

[[gnu::noinline]] uint32_t overflow_stack(uint32_t depth) {
  volatile uint32_t frame[kFrameWords];
  frame[0] = depth;
  const uint32_t sum = depth == 0 ? 0 : overflow_stack(depth - 1);
  return sum + frame[0];
}

void raise_fault() {
#if defined(__riscv)
  asm volatile("unimp");
#elif defined(__ARM_ARCH_6M__)
  asm volatile("svc #0");  // rp2040js has no HardFault; this exception, which nobody asks for, has the same handler
#else
  asm volatile("udf #0");
#endif
}

}  // namespace

bool board_own_command(const char* line) {
  if (std::strcmp(line, "hang") == 0) {
    hang();
  }
  if (std::strcmp(line, "overflow-stack") == 0) {
    return overflow_stack(kDepth) != 0;
  }
  if (std::strcmp(line, "fault") == 0) {
    raise_fault();
    return true;
  }
  GS_ASSERT(std::strcmp(line, "fail-assert") != 0);
  return false;
}

Status port_random_bytes(uint8_t* out, size_t size) {
  const uint32_t arguments[] = {random_handle(), semihosting::address(out), size};
  const bool read = arguments[0] != semihosting::kFailed && semihosting::call(semihosting::kRead, arguments) == 0;
  return read ? Status::kOk : Status::kClosed;
}

// Of the emulator's host: a report names it so.
RawEntropy board_raw_entropy() { return {"emulator", port_random_bytes}; }

bool board_option(const char* word) {
  size_t rest = 0;
  return semihosting::word(word, &rest) != nullptr && rest == 0;
}

void board_stop(int code) { semihosting::leave(code); }

void machine_fault() {
  if (board_option("reset-on-fault")) {
    reset_with(ResetNote::kFault);
  }
  semihosting::leave(semihosting::kExitFault);
}

}  // namespace gradstream
