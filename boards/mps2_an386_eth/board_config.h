// The static memory of the client on the MPS2 board AN386 with its Ethernet: that of the same client by UART, and what
// the network takes, term by term. The linker script gives the sum and no more.
#ifndef GRADSTREAM_BOARDS_MPS2_AN386_ETH_BOARD_CONFIG_H_
#define GRADSTREAM_BOARDS_MPS2_AN386_ETH_BOARD_CONFIG_H_

#include <cstddef>

#include "boards/mps2/board_config.h"

namespace gradstream {

// What was received and not yet read: TCP's window (boards/ethernet/lwipopts.h). A power of two.
inline constexpr size_t kNetworkRingSize = 2048;
// lwIP: 3.5 KB for what is sent, four buffers of 0.6 KB for what comes in, connections and tables.
inline constexpr size_t kNetworkStackSize = 8 * 1024;
// The controller's driver, the settings and the rest of boards/ethernet.
inline constexpr size_t kNetworkRestSize = 512;

inline constexpr size_t kNetworkRamSize = 11 * 1024;  // what the linker script adds to kRamSize
static_assert(kNetworkRingSize + kNetworkStackSize + kNetworkRestSize <= kNetworkRamSize);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_AN386_ETH_BOARD_CONFIG_H_
