// Between the reset of a processor, which its family's startup.cc takes, and main().
#ifndef GRADSTREAM_BOARDS_BARE_START_H_
#define GRADSTREAM_BOARDS_BARE_START_H_

#include <cstdint>

namespace gradstream {

// Fills the RAM, paints the stack, runs the constructors and main(). Called once, with an empty stack and interrupts
// masked.
extern "C" [[noreturn, gnu::used]] void start_image();

// Whether a fault at that stack pointer comes of an overflow: it may have jumped over the stack's last words, or have
// faulted just there.
bool has_overflowed(uintptr_t stack_pointer);

// Of the family: resets the processor, and leaves the RAM alone.
[[noreturn]] void reset_processor();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_BARE_START_H_
