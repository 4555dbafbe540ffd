// What a board on a desk has: nobody who gives options, nowhere to exit to, and a reset after a fault.
#include "boards/bare/machine.h"
#include "boards/bare/processor.h"
#include "boards/board.h"

namespace gradstream {

bool board_option(const char*) { return false; }

bool board_own_command(const char*) { return false; }

void board_stop(int) {
  for (;;) {
    machine_watchdog_feed();
    mask_interrupts();
    machine_wake_in_ms(kSleepMaxMs);
    wait_for_interrupt();
    unmask_interrupts();
  }
}

void machine_fault() { reset_with(ResetNote::kFault); }

}  // namespace gradstream
