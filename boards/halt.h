// The end of a processor that has nothing left to do.
#ifndef GRADSTREAM_BOARDS_HALT_H_
#define GRADSTREAM_BOARDS_HALT_H_

namespace gradstream {

// Loops for ever. C++20 lets a compiler assume that a loop without effects ends, and so drop it with all that follows.
// The empty assembly is an effect.
[[noreturn]] inline void halt() {
  for (;;) {
    asm volatile("" ::: "memory");
  }
}

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_HALT_H_
