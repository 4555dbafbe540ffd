// A flash memory, as the log of a client's state needs it: two pages and five functions. A page is what is erased at
// once, or several of these.
#ifndef GRADSTREAM_BOARDS_FLASH_H_
#define GRADSTREAM_BOARDS_FLASH_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"

namespace gradstream {

inline constexpr uint32_t kFlashPageCount = 2;

struct FlashOps {
  // Bytes of a page; a multiple of kFlashUnitSize.
  uint32_t (*page_size)();
  // Copies bytes of a page; they lie inside it.
  void (*read)(uint32_t page, uint32_t offset, uint8_t* out, uint32_t size);
  // Clears bits: the page's bytes become old AND new. offset and size are multiples of kFlashUnitSize; each unit is
  // programmed once between two erases. kClosed when the memory reports a failure. A cut leaves any part of it done.
  Status (*program)(uint32_t page, uint32_t offset, const uint8_t* bytes, uint32_t size);
  // Sets all bits of the page. Codes as program. A cut leaves any mixture of old, set and neither.
  Status (*erase)(uint32_t page);
  // Whether the supply is good enough to program or erase now; where a board cannot tell, true.
  bool (*is_power_good)();
};

// The two pages that the board gives to the client's state; null: it keeps none.
const FlashOps* board_flash();

// Erases the page of the identity. kClosed when the memory reports a failure. An emulator, whose reset would load the
// page again, ends instead of returning.
Status erase_identity();

// Reason: as much as the widest flash word of the microcontrollers in question (128 bits, STM32H5 and H7).
inline constexpr uint32_t kFlashUnitSize = 16;

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_FLASH_H_
