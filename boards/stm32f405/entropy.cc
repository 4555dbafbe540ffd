// Random numbers from the STM32F405's generator (RM0090 chapter 24): an analog source behind a shift register, fed by
// the PLL's 48 MHz. Words pass the generator's own error flags, the comparison with the word before that RM0090 24.3.1
// demands, and the health tests of boards/entropy_health.h. A failure stays: no random numbers until a reset.
// Not run on silicon.
#include <cstdint>

#include "boards/cortex_m/cortex_m.h"
#include "boards/entropy_health.h"
#include "boards/self_test.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

volatile uint32_t& ahb2_enable() { return register_at(0x40023834); }
volatile uint32_t& control() { return register_at(0x50060800); }
volatile uint32_t& status() { return register_at(0x50060804); }
volatile uint32_t& data() { return register_at(0x50060808); }
constexpr uint32_t kGeneratorClock = 1U << 6, kEnable = 1U << 2;
constexpr uint32_t kReady = 1, kErrors = 1U << 1 | 1U << 2 | 1U << 5 | 1U << 6;  // clock and seed, now and latched
// A word takes 40 periods of 48 MHz, that is 140 cycles of the processor; a turn takes some 8.
constexpr uint32_t kWaitTurnCountMax = 10000;

EntropyHealth health;
uint32_t last_word = 0;
bool is_on = false;

Result<uint32_t> next_word() {
  for (uint32_t turn = 0; turn < kWaitTurnCountMax; ++turn) {
    const uint32_t now = status();
    if ((now & kErrors) != 0) {
      return Status::kClosed;
    }
    if ((now & kReady) != 0) {
      const uint32_t word = data();
      bool good = word != last_word;
      last_word = word;
      for (uint32_t bit = 0; bit < 32; ++bit) {
        good = health.add((word >> bit & 1) != 0) && good;
      }
      return good ? Result<uint32_t>(word) : Result<uint32_t>(Status::kClosed);
    }
  }
  return Status::kClosed;
}

Status start() {
  ahb2_enable() = ahb2_enable() | kGeneratorClock;
  control() = kEnable;
  is_on = true;
  while (!health.is_started()) {
    GS_TRY(next_word().status());
  }
  return Status::kOk;
}

}  // namespace

// The generator gives whole words, which nothing folds.
RawEntropy board_raw_entropy() { return {"generator", port_random_bytes}; }

Status port_random_bytes(uint8_t* out, size_t size) {
  if (health.has_failed()) {
    return Status::kClosed;
  }
  if (!is_on) {
    GS_TRY(start());
  }
  for (size_t done = 0; done < size;) {
    const Result<uint32_t> word = next_word();
    GS_TRY(word.status());
    for (uint32_t byte = 0; byte < 4 && done < size; ++byte) {
      out[done++] = static_cast<uint8_t>(word.value() >> (8 * byte));
    }
  }
  return Status::kOk;
}

}  // namespace gradstream
