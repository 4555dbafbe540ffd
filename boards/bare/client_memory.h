// The static memory of the client on a board without an operating system, term by term, but for the stack, which the
// processor decides: it stands in the board's board_config.h. The linker script gives the sum and no more, so that a
// term that grows is a link error and not a surprise in the field. `./run footprint` compares with the image. A board
// whose client needs more lists its own terms, under these names, and does without this file.
#ifndef GRADSTREAM_BOARDS_BARE_CLIENT_MEMORY_H_
#define GRADSTREAM_BOARDS_BARE_CLIENT_MEMORY_H_

#include <cstddef>

namespace gradstream {

// Mbed TLS: record buffers (2 x 1.1 KB), handshake with x25519, keys. Measured: 6,744 bytes; without x25519 6,592.
#if defined(GS_PSK_KE_ONLY)
inline constexpr size_t kTlsPoolSize = 7 * 1024;
#else
inline constexpr size_t kTlsPoolSize = 8 * 1024;
#endif
// Model, correction, uploads, solver. Measured for St(64,4): 9,352 bytes (A9, 16 directions), 7,464 (A1). An image for
// a larger model names its own, in KB (-DGS_ARENA_KIB=40), and its linker script gives the difference.
// The smallest image has no other run than these.
#if defined(GS_SMALLEST)
inline constexpr size_t kUsualArenaSize = 9 * 1024;
#else
inline constexpr size_t kUsualArenaSize = 10 * 1024;
#endif
#if !defined(GS_ARENA_KIB)
inline constexpr size_t kArenaSize = kUsualArenaSize;
#else
inline constexpr size_t kArenaSize = GS_ARENA_KIB * 1024;
#endif
static_assert(kArenaSize >= kUsualArenaSize);
// Client, TLS session, frame reader and the rest of firmware/gradstream_device.cc.
inline constexpr size_t kDeviceSize = 5 * 1024;
// Bytes that arrive during a local step wait here; beyond it the peer is held back.
inline constexpr size_t kReceiveRingSize = 1024;
inline constexpr size_t kTransmitRingSize = 256;
// What is typed on the console during a local step: two lines of its shell.
inline constexpr size_t kConsoleRingSize = 64;
// PSA's random generator and key slots, and statics of the runtime.
inline constexpr size_t kLibrarySize = 1280;
// Not worth a name each.
inline constexpr size_t kRestSize = 960;

// All but the stack.
inline constexpr size_t kClientSize = kTlsPoolSize + kArenaSize + kDeviceSize + kReceiveRingSize + kTransmitRingSize +
                                      kConsoleRingSize + kLibrarySize + kRestSize;

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_BARE_CLIENT_MEMORY_H_
