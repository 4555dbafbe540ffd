// What any process on Linux gives as its port, whatever its link, log and storage are.
#include <cerrno>
#include <cstdlib>

#include <sys/random.h>
#include <sys/types.h>
#include <time.h>

#include "boards/device_port.h"
#include "runtime/link/port.h"

namespace gradstream {

uint64_t port_now_ms() {
  timespec now = {};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

Status port_random_bytes(uint8_t* out, size_t size) {
  while (size > 0) {
    const ssize_t count = ::getrandom(out, size, 0);
    if (count < 0 && errno != EINTR) {
      return Status::kClosed;
    }
    if (count > 0) {
      out += count;
      size -= static_cast<size_t>(count);
    }
  }
  return Status::kOk;
}

// A host repeats the task in progress: its steps are quick, and its files last.
Status port_step_write(uint32_t index, const StoragePiece* pieces, size_t count) {
  return device_port != nullptr ? device_step_write(index, pieces, count) : Status::kUnimplemented;
}
Result<size_t> port_step_read(uint32_t index, uint8_t* out, size_t capacity) {
  return device_port != nullptr ? device_step_read(index, out, capacity) : Status::kUnimplemented;
}

void port_reboot() { std::abort(); }

}  // namespace gradstream
