// The static memory of the client on a board to copy: its stack. What all bare
// boards have stands in client_memory.h.
#ifndef GRADSTREAM_BOARDS_TEMPLATE_BOARD_CONFIG_H_
#define GRADSTREAM_BOARDS_TEMPLATE_BOARD_CONFIG_H_

#include <cstddef>

#include "boards/bare/client_memory.h"

namespace gradstream {

// Painted at reset; the high water is reported. As in boards/mps2: 1.5 times what the client uses, with x25519 and both
// solvers, and an interrupt at the deepest place.
inline constexpr size_t kStackSize = 4608;
static_assert(2 * kStackSize >= 3 * (2904 + 112));

inline constexpr size_t kRamSize = 31 * 1024;  // the linker script's RAM
static_assert(kStackSize + kClientSize <= kRamSize);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_TEMPLATE_BOARD_CONFIG_H_
