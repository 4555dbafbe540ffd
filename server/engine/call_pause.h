// How long a node waits before it makes a call again whose answer was lost: an engine that is away is not flooded.
#ifndef GRADSTREAM_SERVER_ENGINE_CALL_PAUSE_H_
#define GRADSTREAM_SERVER_ENGINE_CALL_PAUSE_H_

#include <algorithm>
#include <cstdint>
#include <utility>

namespace gradstream {

// The first pause, ms. Reason: a fail-over by hand takes a tenth of a second, and a device's answer waits for it.
inline constexpr uint64_t kCallPauseFirstMs = 50;
// The longest one, ms. Reason: a call a second is nothing to an engine, and a node is back a second behind it.
inline constexpr uint64_t kCallPauseLastMs = 1000;

// Of one kind of calls.
class CallPause {
 public:
  // ms, twice as long each time.
  uint64_t take() { return std::exchange(next_ms_, std::min(2 * next_ms_, kCallPauseLastMs)); }
  // An answer has come.
  void reset() { *this = CallPause(); }
  void begin(uint64_t now_ms) { due_ms_ = now_ms + take(); }
  // UINT64_MAX: none has begun.
  uint64_t due_ms() const { return due_ms_; }
  // Whether one has begun and is over: then it is none any more.
  bool end(uint64_t now_ms) {
    const bool is_over = now_ms >= due_ms_;
    due_ms_ = is_over ? UINT64_MAX : due_ms_;
    return is_over;
  }

 private:
  uint64_t due_ms_ = UINT64_MAX;
  uint64_t next_ms_ = kCallPauseFirstMs;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_CALL_PAUSE_H_
