// This file is compiled by itself (bare.cmake), never with the rest of the image. It fills memory of which the compiler
// knows nothing. As part of the whole, main() would become part of start_image(), and could read a variable before it
// has its value.
#include "boards/bare/start.h"

#include <cstddef>
#include <cstdint>

#include "boards/bare/processor.h"

using Constructor = void (*)();

extern "C" {
extern uint32_t __stack_begin, __data_begin, __data_end, __bss_begin, __bss_end;
extern const uint32_t __data_load;
extern const Constructor __init_array_begin, __init_array_end;
int main();
}

namespace gradstream {
namespace {

// Not cleared at start: a reset leaves RAM alone, and after power came it holds anything but a note.
__attribute__((section(".noinit"))) volatile ResetNote note_in_ram;
ResetNote note_at_start = ResetNote::kNone;

}  // namespace

ResetNote reset_note() { return note_at_start; }

void reset_with(ResetNote note) {
  note_in_ram = note;
  reset_processor();
}

bool is_stack_full() {
  const volatile uint32_t* const begin = &__stack_begin;
  for (size_t word = 0; word < kStackGuardWords; ++word) {
    if (begin[word] != kStackPaint) {
      return true;
    }
  }
  return false;
}

bool has_overflowed(uintptr_t stack_pointer) {
  return stack_pointer < reinterpret_cast<uintptr_t>(&__stack_begin) || is_stack_full();
}

void start_image() {
  const uint32_t* from = &__data_load;
  for (uint32_t* to = &__data_begin; to != &__data_end;) {
    *to++ = *from++;
  }
  for (uint32_t* to = &__bss_begin; to != &__bss_end;) {
    *to++ = 0;
  }
  uint32_t* top = nullptr;
#if defined(__riscv)
  asm volatile("mv %0, sp" : "=r"(top));
#else
  asm volatile("mov %0, sp" : "=r"(top));
#endif
  for (volatile uint32_t* to = &__stack_begin; to < top; ++to) {
    *to = kStackPaint;
  }
  switch (note_in_ram) {
    case ResetNote::kSoftware:
    case ResetNote::kFault:
    case ResetNote::kWatchdog:
      note_at_start = note_in_ram;
      break;
    default:
      break;
  }
  note_in_ram = ResetNote::kNone;
  for (const Constructor* constructor = &__init_array_begin; constructor != &__init_array_end; ++constructor) {
    (*constructor)();
  }
  main();
  machine_fault();
}

}  // namespace gradstream
