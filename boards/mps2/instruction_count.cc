#include "boards/mps2/instruction_count.h"

#include <cstdint>

#include "boards/board.h"
#include "boards/cortex_m/cortex_m.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// SysTick, which the MPS2 boards do not use: 24 bits at the processor's 25 MHz, counting down. More than the longest
// poll: 671 million instructions.
volatile uint32_t& control() { return register_at(0xE000E010); }
volatile uint32_t& reload() { return register_at(0xE000E014); }
volatile uint32_t& value() { return register_at(0xE000E018); }
constexpr uint32_t kTicksMax = 0xFFFFFF;
// A poll that finds less than a record takes fewer than these; how many there are is the host's doing.
constexpr uint32_t kTicksOfPoll = 2000;
constexpr uint32_t kOn = 5;  // processor's clock, no interrupt

bool is_on = false;
bool is_asleep = false;
bool is_logging = false;
uint32_t woke_at = 0;
uint64_t ticks = 0;

}  // namespace

void start_instruction_count() {
  is_on = board_option("count-instructions");
  reload() = kTicksMax;
  value() = 0;
  control() = is_on ? kOn : 0;
  woke_at = value();
}

void stop_counting() {
  if (is_on && !is_asleep) {
    is_asleep = true;
    const uint32_t awake = (woke_at - value()) & kTicksMax;
    ticks += awake >= kTicksOfPoll ? awake : 0;
  }
}

void begin_poll() {
  stop_counting();
  is_asleep = false;
  woke_at = value();
}

void log_instruction_count() {
  if (!is_on || is_logging) {
    return;
  }
  stop_counting();
  is_logging = true;
  char line[40] = "event=awake ticks=";
  char digits[21] = {};
  size_t at = sizeof(digits) - 1, end = 18;
  for (uint64_t rest = ticks; at == sizeof(digits) - 1 || rest != 0; rest /= 10) {
    digits[--at] = static_cast<char>('0' + rest % 10);
  }
  while (digits[at] != '\0') {
    line[end++] = digits[at++];
  }
  port_log_line(line);
  is_logging = false;
  begin_poll();
}

}  // namespace gradstream
