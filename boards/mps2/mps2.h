// The MPS2 boards' own: registers, interrupts, and what an emulator does instead of silicon.
#ifndef GRADSTREAM_BOARDS_MPS2_MPS2_H_
#define GRADSTREAM_BOARDS_MPS2_MPS2_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

inline constexpr uint32_t kStackPaint = 0xC0DEC0DE;

void mps2_link_receive_interrupt();
void mps2_link_transmit_interrupt();
void mps2_timer_interrupt();

// One byte to the console, UART0, polled.
void mps2_console_put(char c);

// A fault: says so on the console and resets. An emulator stops with an error instead.
[[noreturn]] void mps2_fault();

// Resets the processor.
[[noreturn]] void mps2_reset();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_MPS2_H_
