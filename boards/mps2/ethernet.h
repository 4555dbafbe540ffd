// The LAN9220 of the MPS2 boards, for images with GS_ETHERNET.
#ifndef GRADSTREAM_BOARDS_MPS2_ETHERNET_H_
#define GRADSTREAM_BOARDS_MPS2_ETHERNET_H_

#include <cstdint>

namespace gradstream {

inline constexpr uint32_t kEthernetIrq = 13;
void on_ethernet();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_ETHERNET_H_
