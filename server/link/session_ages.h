// When a session is old enough to begin anew: a new handshake draws new keys, and shows that the device may still come
// in. Without an end a device on a serial line would keep its first session for ever.
//
//   established --add()--> waits for its own time in [3/4 most, most] --take_due()--> asked to come again
//
// A fleet that has dialled at one moment must not dial at one moment again. So the times of sessions that follow each
// other are spread evenly over the last quarter: by the golden ratio, of which n multiples cut a circle into pieces of
// at most three lengths. Nothing is drawn, and no two servers differ.
#ifndef GRADSTREAM_SERVER_LINK_SESSION_AGES_H_
#define GRADSTREAM_SERVER_LINK_SESSION_AGES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "server/base/session_id.h"

namespace gradstream {

// The longest life of a session, ms. Reason: a day's handshake costs a board 37 million instructions and the server a
// millisecond, and no key of a session serves longer.
inline constexpr uint32_t kSessionAgeMaxMs = 86400000;

class SessionAges {
 public:
  // age_max_ms: of every session.
  explicit SessionAges(uint32_t age_max_ms) : age_max_ms_(age_max_ms) {}

  // A session that is not here yet, established now. Returns when it is due, which remove() wants back.
  uint64_t add(SessionId session, uint64_t now_ms) {
    constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // (sqrt(5) - 1) / 2 of 2^64
    const uint64_t quarter_ms = age_max_ms_ / 4;
    const uint64_t spread_ms = ((session * kGoldenRatio) >> 32) * quarter_ms >> 32;
    const uint64_t due_ms = now_ms + age_max_ms_ - spread_ms;
    due_.emplace(due_ms, session);
    return due_ms;
  }
  // It has ended. Nothing happens where take_due() has given it already.
  void remove(SessionId session, uint64_t due_ms) { due_.erase({due_ms, session}); }

  // UINT64_MAX: there is none.
  uint64_t next_due_ms() const { return due_.empty() ? UINT64_MAX : due_.begin()->first; }
  // The one that is due the longest, which leaves; 0: none is due.
  SessionId take_due(uint64_t now_ms) {
    return !due_.empty() && next_due_ms() <= now_ms ? due_.extract(due_.begin()).value().second : SessionId{0};
  }
  size_t count() const { return due_.size(); }

 private:
  const uint32_t age_max_ms_;
  std::set<std::pair<uint64_t, SessionId>> due_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_SESSION_AGES_H_
