// What a link adds to the sleep of a board, besides port_transport(): uart_link.cc, or an Ethernet.
#ifndef GRADSTREAM_BOARDS_BARE_LINK_H_
#define GRADSTREAM_BOARDS_BARE_LINK_H_

#include <cstdint>

namespace gradstream {

// Does what has become due; after how many ms it wants to be called again at the latest, 1 .. kSleepMaxMs. Interrupts
// are on.
uint32_t link_serve();
// Whether there is something to read, or room that a writer waits for. Interrupts are masked; after false, one comes
// when that may have changed.
bool link_has_news();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_BARE_LINK_H_
