// What a board tells its self-test (firmware/self_test.h), besides boards/board.h and boards/flash.h. Every board has
// these by boards/bare/self_test.cc, but for its entropy.
#ifndef GRADSTREAM_BOARDS_SELF_TEST_H_
#define GRADSTREAM_BOARDS_SELF_TEST_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace gradstream {

// A word by which the processor names itself, such as CPUID or misa.
struct ProcessorWord {
  const char* name;
  uint32_t value;
};
std::span<const ProcessorWord> board_processor();

// Counts the processor's cycles upwards, and begins again at 0 after mask.
struct CycleCounter {
  const char* name = nullptr;  // null: the board has none, or uses it for something else
  uint32_t mask = 0;
  uint32_t (*read)() = nullptr;
};
// Starts it.
CycleCounter board_cycle_counter();

// The board's source of random numbers before anything is folded or hashed: bits, eight a byte.
struct RawEntropy {
  const char* source = nullptr;  // null: the board has none
  // kClosed: the source failed, now or before.
  Status (*read)(uint8_t* out, size_t size) = nullptr;
};
RawEntropy board_raw_entropy();

// Bytes.
struct BoardSizes {
  size_t stack = 0;
  size_t ram = 0;  // that the image may take, the stack in it
  size_t ram_used = 0;
  size_t flash = 0;  // that the image may take
  size_t flash_used = 0;
};
BoardSizes board_sizes();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_SELF_TEST_H_
