// The static memory of the client on the board riscv-virt: its stack. What all bare boards have stands in
// client_memory.h.
#ifndef GRADSTREAM_BOARDS_RISCV_VIRT_BOARD_CONFIG_H_
#define GRADSTREAM_BOARDS_RISCV_VIRT_BOARD_CONFIG_H_

#include <cstddef>

#include "boards/bare/client_memory.h"

namespace gradstream {

// Painted at reset; the high water is reported. Measured: 2,988 bytes (rv32imc), with x25519 and both solvers.
inline constexpr size_t kStackSize = 4864;
static_assert(2 * kStackSize >= 3 * 2988);

inline constexpr size_t kRamSize = 31 * 1024 + 256 + kArenaSize - kUsualArenaSize;  // the linker script's RAM
static_assert(kStackSize + kClientSize <= kRamSize);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_RISCV_VIRT_BOARD_CONFIG_H_
