// The static memory of the client on the STM32F405: its stack. What all bare
// boards have stands in client_memory.h.
#ifndef GRADSTREAM_BOARDS_STM32F405_BOARD_CONFIG_H_
#define GRADSTREAM_BOARDS_STM32F405_BOARD_CONFIG_H_

#include <cstddef>

#include "boards/bare/client_memory.h"

namespace gradstream {

// Painted at reset; the high water is reported. Measured: 2,888 bytes, with x25519 and both solvers, and up to 112 more
// when an interrupt comes at the deepest place. The stack is 1.5 times the sum, and as large as that of boards/mps2.
inline constexpr size_t kStackSize = 4608;
static_assert(2 * kStackSize >= 3 * (2888 + 112));

inline constexpr size_t kRamSize = 31 * 1024;  // the linker script's RAM
static_assert(kStackSize + kClientSize <= kRamSize);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_STM32F405_BOARD_CONFIG_H_
