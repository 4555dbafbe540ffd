// A failed assertion over the C function of an application (include/gradstream/port.h).
#include "boards/halt.h"
#include "include/gradstream/port.h"
#include "runtime/base/status.h"

extern "C" [[gnu::weak]] void gs_port_assert_failed(const char*, int) {}

namespace gradstream {

void assert_failed(const char* file, int line) {
  gs_port_assert_failed(file, line);
  halt();
}

}  // namespace gradstream
