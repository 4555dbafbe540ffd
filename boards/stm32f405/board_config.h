// The static memory of the client on the STM32F405: its stack. What all Cortex-M boards
// have stands in client_memory.h.
#ifndef GRADSTREAM_BOARDS_STM32F405_BOARD_CONFIG_H_
#define GRADSTREAM_BOARDS_STM32F405_BOARD_CONFIG_H_

#include <cstddef>

#include "boards/cortex_m/client_memory.h"

namespace gradstream {

// Painted at reset; the high water is reported. Measured: 2,904 bytes, with x25519 and both solvers; 3,000 when an
// interrupt comes at the deepest place. 1.5 times that.
inline constexpr size_t kStackSize = 4608;
static_assert(2 * kStackSize >= 3 * 3000);

inline constexpr size_t kRamSize = 31 * 1024;  // the linker script's RAM
static_assert(kStackSize + kClientSize <= kRamSize);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_STM32F405_BOARD_CONFIG_H_
