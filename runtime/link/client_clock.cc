#include "runtime/base/no_contraction.h"

#include "runtime/link/client_clock.h"

#include "runtime/base/random.h"

namespace gradstream {

uint32_t SessionClock::end_exchange(const gs_RetryWindow& window, uint64_t now_ms) {
  const uint32_t wait_ms = draw(window.min_ms, window.max_ms);
  window_max_ms_ = window.max_ms;
  failures_ = 0;
  wake_ms_ = now_ms + wait_ms;
  return wait_ms;
}

void SessionClock::keep_away(const gs_RetryWindow& window, uint64_t now_ms) {
  not_before_ms_ = now_ms + draw(window.min_ms, window.max_ms);
}

void SessionClock::back_off(bool was_reached, uint32_t min_retry_ms, uint64_t now_ms) {
  if (failures_ == 0) {
    failing_since_ms_ = static_cast<uint32_t>(now_ms & kSinceMask);
  }
  if (failures_ < kDoublingMax) {
    ++failures_;
  }
  const uint64_t failing_ms = (now_ms - failing_since_ms_) & kSinceMask;
  const uint64_t lasted_ms = failing_ms > (min_retry_ms << 1) ? failing_ms : min_retry_ms << 1;
  const uint32_t doubled_ms = min_retry_ms << failures_;
  const uint32_t max_ms = lasted_ms < doubled_ms ? static_cast<uint32_t>(lasted_ms) : doubled_ms;
  wake_ms_ = now_ms + draw(min_retry_ms, was_reached || window_max_ms_ < max_ms ? max_ms : window_max_ms_);
  stay_away();
}

// Uniform in [min_ms, max_ms], from a random stream that is no part of the wire: only devices must differ.
uint32_t SessionClock::draw(uint32_t min_ms, uint32_t max_ms) {
  const uint32_t max = max_ms < kRetryWindowMaxMs ? max_ms : kRetryWindowMaxMs;
  const uint32_t min = min_ms < max ? min_ms : max;
  RandomKey key;
  key.seed = jitter_seed_;
  uint32_t words[4];
  philox_block(key, draw_count_++, words);
  return min + static_cast<uint32_t>((words[0] * (static_cast<uint64_t>(max - min) + 1)) >> 32);
}

}  // namespace gradstream
