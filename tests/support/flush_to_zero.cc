// Preloaded into a process, does to it what a library linked with -ffast-math does.
#include "tests/support/float_mode.h"

[[gnu::constructor]] static void flush_to_zero() {
  gradstream::set_float_mode(gradstream::float_mode() | gradstream::kFlushingModes[0]);
}
