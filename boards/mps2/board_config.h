// The static memory of the client on the MPS2 boards, term by term. The linker script gives the sum and no more, so a
// term that grows is a link error here and not a surprise in the field. `./run footprint` compares with the image.
#ifndef GRADSTREAM_BOARDS_MPS2_BOARD_CONFIG_H_
#define GRADSTREAM_BOARDS_MPS2_BOARD_CONFIG_H_

#include <cstddef>

namespace gradstream {

// Painted at reset; the high water is reported. Deepest: a message decoded inside a TLS read.
inline constexpr size_t kStackSize = 6 * 1024;
// Mbed TLS: record buffers (2 x 1.1 KB), handshake with x25519, keys.
inline constexpr size_t kTlsPoolSize = 10 * 1024;
// Model, correction, uploads, solver: St(64,4) takes about 9 KB of it.
inline constexpr size_t kArenaSize = 12 * 1024;
// Client, TLS session, frame reader and the rest of firmware/gradstream_device.cc.
inline constexpr size_t kDeviceSize = 7 * 1024;
// Bytes that arrive during a local step wait here; beyond it the peer is held back.
inline constexpr size_t kReceiveRingSize = 1024;
inline constexpr size_t kTransmitRingSize = 256;
// PSA's random generator and key slots, and statics of the runtime.
inline constexpr size_t kLibrarySize = 2 * 1024;
// Not worth a name each.
inline constexpr size_t kRestSize = 1024;

inline constexpr size_t kRamSize = 40 * 1024;  // the linker script's RAM
static_assert(kStackSize + kTlsPoolSize + kArenaSize + kDeviceSize + kReceiveRingSize + kTransmitRingSize +
                  kLibrarySize + kRestSize <=
              kRamSize);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_BOARD_CONFIG_H_
