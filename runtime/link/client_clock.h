// When a client acts next: the deadline of what it waits for, the end of its idle time, and the windows that spread the
// devices of a fleet.
//
// There is no clock inside: every call says what time it is. Waits are drawn from windows that the server names, or
// that this device makes after a failure. The draws depend on the seed and their number alone.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_CLOCK_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_CLOCK_H_

#include <cstdint>

#include "runtime/wire/codec.h"

namespace gradstream {

// A server that asks for a longer wait is taken to mean this one. Reason: a device must come back by itself some day.
inline constexpr uint32_t kRetryWindowMaxMs = 24 * 3600 * 1000;

// All times are milliseconds of port_now_ms().
// Invariants:
// - A wait is from the least of its window to the most, and never above kRetryWindowMaxMs.
// - After n failures in a row a device waits at least min_retry_ms. It waits at most min_retry_ms 2^n, n at most
//   kDoublingMax, and from the second doubling on no longer than the failures have lasted. So a server that was away
//   for a few seconds has its fleet back after as many.
// - No connection begins before the time that a Drain or a Refuse named, whatever else happens.
class SessionClock {
 public:
  static constexpr uint32_t kDoublingMax = 3;

  // jitter_seed is another one on every device, and in every life of a device.
  explicit SessionClock(uint32_t jitter_seed) : jitter_seed_(jitter_seed) {}

  // What the client waits for has until now_ms + within_ms.
  void expect(uint64_t now_ms, uint32_t within_ms) { deadline_ms_ = now_ms + within_ms; }
  uint64_t deadline_ms() const { return deadline_ms_; }

  // Until when an idle client sleeps.
  uint64_t wake_ms() const { return wake_ms_; }
  // As soon as a connection may begin.
  void wake_soon(uint64_t now_ms) {
    wake_ms_ = now_ms;
    stay_away();
  }
  void wake_never() { wake_ms_ = UINT64_MAX; }
  // Not before a connection may begin; later where it was to be later.
  void stay_away() { wake_ms_ = wake_ms_ > not_before_ms_ ? wake_ms_ : not_before_ms_; }

  // The server has answered as a server should: a failure to come is the first one again.
  void note_success() { failures_ = 0; }
  // An exchange has ended well. Sleeps for a time drawn from the server's window, which is returned.
  uint32_t end_exchange(const gs_RetryWindow& window, uint64_t now_ms);
  // No connection for a time drawn from the server's window; an idle client's sleep stays as it is.
  void keep_away(const gs_RetryWindow& window, uint64_t now_ms);
  // A session failed. A server that was not even reached is away for all its devices: they come back as spread as it
  // wanted them last. min_retry_ms: the least wait after any failure.
  void back_off(bool was_reached, uint32_t min_retry_ms, uint64_t now_ms);

 private:
  static constexpr uint64_t kSinceMask = (uint64_t{1} << 30) - 1;  // 12 days
  uint32_t draw(uint32_t min_ms, uint32_t max_ms);

  uint32_t jitter_seed_;
  uint32_t draw_count_ = 0;
  uint32_t window_max_ms_ = 0;  // of the last window that ended an exchange
  // In a row, and when the first of them was, without its upper bits: together one word of a board's memory.
  uint32_t failures_ : 2 = 0;
  uint32_t failing_since_ms_ : 30 = 0;
  uint64_t wake_ms_ = 0;
  uint64_t deadline_ms_ = 0;
  uint64_t not_before_ms_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_CLOCK_H_
