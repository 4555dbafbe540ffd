// The static memory of the client on the MPS2 boards: its stack. What all bare
// boards have stands in client_memory.h.
#ifndef GRADSTREAM_BOARDS_MPS2_BOARD_CONFIG_H_
#define GRADSTREAM_BOARDS_MPS2_BOARD_CONFIG_H_

#include <cstddef>

#include "boards/bare/client_memory.h"

namespace gradstream {

// Painted at reset; the high water is reported. Measured: 2,528 bytes (M4F), with x25519 and both solvers. An interrupt
// takes up to 112 more. The smallest image's stack is 1.5 times the sum. Others have more than that: they may have
// losses of an application, whose frames nobody knows here.
#if defined(GS_SMALLEST)
inline constexpr size_t kStackSize = 4096;
#else
inline constexpr size_t kStackSize = 4608;
#endif
static_assert(2 * kStackSize >= 3 * (2528 + 112));

inline constexpr size_t kRamSize = 31 * 1024 + kArenaSize - kUsualArenaSize;  // the linker script's RAM
static_assert(kStackSize + kClientSize <= kRamSize);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_BOARD_CONFIG_H_
