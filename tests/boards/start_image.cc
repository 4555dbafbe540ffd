// An image whose main() looks at what boards/bare/start.h and processor.h promise of it, and ends it anew in each way:
// start_test.py links it with start.cc and startup.cc of both families. No part of the client is in it.
//
// A reset leaves the RAM alone, and so the count of starts tells what comes next. The exit status is 0, or the line of
// what did not hold.
#include <cstdint>
#include <cstring>

#include "boards/bare/processor.h"
#include "boards/bare/semihosting.h"
#include "boards/bare/start.h"
#include "runtime/link/port.h"

extern "C" {
extern uint32_t __stack_begin, __stack_end;
int main();
}

namespace {

using namespace gradstream;

#define WANT(condition) ((condition) ? static_cast<void>(0) : semihosting::leave(__LINE__))

constexpr uint32_t kStackWords = 256;
__attribute__((section(".stack"), used)) uint32_t stack[kStackWords];
__attribute__((section(".noinit"))) volatile uint32_t starts;  // an emulator's RAM begins with zeros

volatile uint32_t filled = 0x12345678;
volatile uint32_t cleared;
volatile uint32_t constructed;
[[gnu::constructor]] void construct() { constructed = constructed + filled; }

// After a start all is as the program says, whatever the run before has left there.
void check_memory() {
  WANT(filled == 0x12345678 && cleared == 0 && constructed == filled);
  filled = 1;
  cleared = 1;
  constructed = 1;
}

// A place that the linker's script names, of whose size the compiler knows nothing.
uintptr_t place_of(const void* symbol) {
  auto place = reinterpret_cast<uintptr_t>(symbol);
  asm volatile("" : "+r"(place));
  return place;
}

void check_stack() {
  const uintptr_t begin = place_of(&__stack_begin);
  WANT(begin == place_of(stack) && begin + sizeof stack == place_of(&__stack_end));
  WANT(!is_stack_full() && !has_overflowed(begin) && has_overflowed(begin - 1));
  auto* const words = reinterpret_cast<volatile uint32_t*>(begin);
  for (uint32_t word = 0; word < kStackWords / 2; ++word) {  // main() takes less than the other half
    WANT(words[word] == kStackPaint);
  }
  words[kStackGuardWords] = 0;  // a stack that is nearly full
  WANT(!is_stack_full());
  words[kStackGuardWords - 1] = 0;
  WANT(is_stack_full() && has_overflowed(begin));
}

// Each way of rounding and of flushing that would part replicas. Code without floats has none.
void check_floats() {
  WANT(has_exact_floats());
#if defined(__riscv_flen)
  for (uint32_t mode = 1; mode <= 4; ++mode) {
    asm volatile("fsrm %0" ::"r"(mode));
    WANT(!has_exact_floats());
  }
  asm volatile("fsrm zero");
#elif defined(__ARM_FP)
  for (const uint32_t mode : {1U << 24, 1U << 22, 2U << 22, 3U << 22}) {
    asm volatile("vmsr fpscr, %0" ::"r"(mode));
    WANT(!has_exact_floats());
  }
  asm volatile("vmsr fpscr, %0" ::"r"(0));
#endif
  WANT(has_exact_floats());
}

bool are_interrupts_masked() {
  uint32_t state = 0;
#if defined(__riscv)
  asm volatile(GS_CSR("csrr %0, mstatus") : "=r"(state));
  return (state & 8) == 0;
#else
  asm volatile("mrs %0, primask" : "=r"(state));
  return state != 0;
#endif
}

// Nothing asks for one meanwhile.
void check_interrupts() {
  unmask_interrupts();
  WANT(!are_interrupts_masked());
  mask_interrupts();
  WANT(are_interrupts_masked());
}

void raise_fault() {
#if defined(__riscv)
  asm volatile("unimp");
#else
  asm volatile("udf #0");
#endif
}

}  // namespace

namespace gradstream {

#if defined(__riscv)
void reset_processor() {
  for (;;) {
    register_at(0x00100000) = 0x7777;  // of the test device of QEMU's machine virt
  }
}
void on_timer_interrupt() { semihosting::leave(__LINE__); }
void on_external_interrupt() { semihosting::leave(__LINE__); }
#endif

// The line of a fault, as startup.cc says it of both.
void port_log_line(const char* text) {
  const bool is_of_stack = std::strcmp(text, kStackOverflowLine) == 0;
  WANT(is_of_stack == (starts == 8));
  WANT(is_of_stack || std::strncmp(text, "event=fault reason=\"a bad access", 32) == 0);
}

void machine_fault() {
  if (starts == 8) {
    semihosting::leave(0);
  }
  reset_with(ResetNote::kFault);
}

}  // namespace gradstream

int main() {
  starts = starts + 1;
  check_memory();
#if defined(GS_TEST_OTHER_PROCESSOR)
  WANT(!is_own_processor());
  semihosting::leave(0);
#endif
  WANT(is_own_processor());
  const ResetNote note = reset_note();
  WANT(reset_note() == note);
  switch (starts) {
    case 1:  // power came
      WANT(note == ResetNote::kNone);
      check_interrupts();
      check_floats();
      reset_with(ResetNote::kSoftware);
    case 2:
      WANT(note == ResetNote::kSoftware);
      reset_with(ResetNote::kWatchdog);
    case 3:
      WANT(note == ResetNote::kWatchdog);
      raise_fault();
      break;
    case 4:
      WANT(note == ResetNote::kFault);
      reset_processor();
    case 5:  // a note counts for one start
      WANT(note == ResetNote::kNone);
      reset_with(static_cast<ResetNote>(0x5AFE0004));
    case 6:  // what is no note is none
      WANT(note == ResetNote::kNone);
      return 0;
    case 7:  // main() has no end
      WANT(note == ResetNote::kFault);
      reset_with(ResetNote::kSoftware);
    case 8:
      WANT(note == ResetNote::kSoftware);
      check_stack();
      raise_fault();
      break;
    default:
      break;
  }
  semihosting::leave(__LINE__);
}
