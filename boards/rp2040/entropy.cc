// Random numbers from the RP2040's ring oscillator, read by a processor that the crystal clocks (data sheet 2.17.5: a
// bit of the free-running oscillator; it calls it unfit for security by itself, since its rate can be pulled from
// outside). So 64 raw bits, some 1 us apart, are folded into each byte, the raw bits pass the tests of
// boards/entropy_health.h, and Mbed TLS hashes what it gets. A failure stays: no random numbers until a reset. Not run
// on silicon.
#include <cstdint>

#include "boards/cortex_m/cortex_m.h"
#include "boards/entropy_health.h"
#include "boards/rp2040/clocks.h"
#include "boards/self_test.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

volatile uint32_t& random_bit() { return register_at(0x4006001C); }
constexpr uint32_t kFoldCount = 64;     // raw bits to a byte
constexpr uint32_t kGapTurnCount = 40;  // at 125 MHz some 1 us: several periods of the oscillator

EntropyHealth health;

bool raw_bit() {
  for (uint32_t turn = 0; turn < kGapTurnCount; ++turn) {
    asm volatile("nop");
  }
  return (random_bit() & 1) != 0;
}

Status read_raw(uint8_t* out, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    uint32_t byte = 0;
    for (uint32_t bit = 0; bit < 8; ++bit) {
      byte |= (raw_bit() ? 1U : 0U) << bit;
    }
    out[i] = static_cast<uint8_t>(byte);
  }
  return rp2040_has_crystal_clock() ? Status::kOk : Status::kClosed;
}

}  // namespace

RawEntropy board_raw_entropy() { return {"ring-oscillator", read_raw}; }

Status port_random_bytes(uint8_t* out, size_t size) {
  if (!rp2040_has_crystal_clock()) {
    return Status::kClosed;
  }
  while (!health.is_started() && !health.has_failed()) {
    (void)health.add(raw_bit());
  }
  for (size_t i = 0; i < size; ++i) {
    uint32_t folded = 0;
    for (uint32_t bit = 0; bit < kFoldCount; ++bit) {
      const bool raw = raw_bit();
      (void)health.add(raw);
      folded ^= (raw ? 1U : 0U) << bit % 8;
    }
    out[i] = static_cast<uint8_t>(folded);
  }
  return health.has_failed() ? Status::kClosed : Status::kOk;
}

}  // namespace gradstream
