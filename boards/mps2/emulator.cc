// What QEMU does instead of silicon, by semihosting: random numbers, options, an exit code. Linked into the emulator's
// image alone: on a board without a debugger the first call would hang, and a device must not take its keys from there.
#if !defined(GS_EMULATOR)
#error "only images for the emulator may contain this file"
#endif
#include <cstring>

#include "boards/board.h"
#include "boards/mps2/mps2.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

enum Operation : uint32_t { kOpen = 0x01, kRead = 0x06, kCommandLine = 0x15, kExitExtended = 0x20 };

uint32_t call(Operation operation, const void* arguments) {
  register uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = arguments;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

uint32_t address(const void* pointer) { return reinterpret_cast<uint32_t>(pointer); }

constexpr uint32_t kFailed = 0xFFFFFFFF;
constexpr uint32_t kReadBinary = 1;

uint32_t random_handle() {
  static const char kPath[] = "/dev/urandom";
  static uint32_t handle = kFailed;
  if (handle == kFailed) {
    const uint32_t arguments[] = {address(kPath), kReadBinary, sizeof(kPath) - 1};
    handle = call(kOpen, arguments);
  }
  return handle;
}

[[noreturn]] void leave(int code) {
  const uint32_t arguments[] = {0x20026, static_cast<uint32_t>(code)};  // ADP_Stopped_ApplicationExit
  (void)call(kExitExtended, arguments);
  for (;;) {
  }
}

}  // namespace

Status port_random_bytes(uint8_t* out, size_t size) {
  const uint32_t arguments[] = {random_handle(), address(out), size};
  const bool read = arguments[0] != kFailed && call(kRead, arguments) == 0;
  return read ? Status::kOk : Status::kClosed;
}

// Words of QEMU's -semihosting-config arg=...
bool board_option(const char* word) {
  char line[160] = {};
  const uint32_t arguments[] = {address(line), sizeof(line) - 1};
  if (call(kCommandLine, arguments) != 0) {
    return false;
  }
  const size_t size = std::strlen(word);
  for (const char* found = std::strstr(line, word); found != nullptr; found = std::strstr(found + 1, word)) {
    const bool begins = found == line || found[-1] == ' ';
    if (begins && (found[size] == ' ' || found[size] == '\0')) {
      return true;
    }
  }
  return false;
}

void board_stop(int code) { leave(code); }

void mps2_fault() {
  port_log_line("event=fault reason=\"the processor took a fault or an assertion failed\"");
  leave(70);
}

}  // namespace gradstream
