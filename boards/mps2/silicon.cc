// What an MPS2 board on a desk has: no source of random numbers, nobody who gives options, nowhere to exit to.
#include "boards/board.h"
#include "boards/mps2/mps2.h"
#include "runtime/link/port.h"

namespace gradstream {

Status port_random_bytes(uint8_t*, size_t) { return Status::kClosed; }

bool board_option(const char*) { return false; }

void board_stop(int) {
  for (;;) {
    asm volatile("cpsid i\n wfi");
  }
}

void mps2_fault() { mps2_reset(); }

}  // namespace gradstream
