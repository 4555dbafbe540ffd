// What an emulator does instead of silicon: random numbers, options, an exit code.
#include <cstring>

#include "boards/board.h"
#include "boards/cortex_m/cortex_m.h"
#include "boards/cortex_m/semihosting.h"
#include "runtime/link/port.h"

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

}  // namespace

Status port_random_bytes(uint8_t* out, size_t size) {
  const uint32_t arguments[] = {random_handle(), semihosting::address(out), size};
  const bool read = arguments[0] != semihosting::kFailed && semihosting::call(semihosting::kRead, arguments) == 0;
  return read ? Status::kOk : Status::kClosed;
}

bool board_option(const char* word) {
  size_t rest = 0;
  return semihosting::word(word, &rest) != nullptr && rest == 0;
}

void board_stop(int code) { semihosting::leave(code); }

void machine_fault() { semihosting::leave(semihosting::kExitFault); }

}  // namespace gradstream
