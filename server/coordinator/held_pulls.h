// Pulls that the server keeps in place of a Wait: who is held, until when, and who has been held the longest.
//
//   hold() -> held -> wake() -> due -> take_due()
//               '--- its time is over ---^   (erase(): the device said something else, or is gone)
//
// Pure bookkeeping: the coordinator decides who is held and what ends it. A held session costs 24 bytes and a node of a
// map. The three lists beside it take 24, 16 and 16 bytes more, and twice that at most, because what ended early is
// dropped late. Nobody pays for sessions that are not held.
#ifndef GRADSTREAM_SERVER_COORDINATOR_HELD_PULLS_H_
#define GRADSTREAM_SERVER_COORDINATOR_HELD_PULLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "runtime/wire/codec.h"
#include "server/base/session_id.h"

namespace gradstream {

// How long the server holds a Pull at most, ms, unless its configuration says otherwise. Reason: routers forget a
// connection that is silent for some minutes, and a Pull a minute costs a device 180 bytes.
inline constexpr uint32_t kServerHoldMs = 60'000;
// The longest hold that an entry has room for. Reason: it is a day, as other limits of the server.
inline constexpr uint32_t kServerHoldMaxMs = 86'400'000;

// A Pull that is held no more. Its hold_max_ms is 0: it is answered now.
struct EndedHold {
  SessionId session = 0;
  gs_Pull pull = {};
};

class HeldPulls {
 public:
  // Holds the Pull of a session that is not held, which came at now_ms, until now_ms + hold_ms.
  void hold(SessionId session, const gs_Pull& pull, uint64_t now_ms, uint32_t hold_ms);
  // The session is due at at_ms, or earlier where its time is over by then. Of sessions that are due at the same time
  // the one that was woken first comes first.
  void wake(SessionId session, uint64_t at_ms);
  // Whether it was held. Its Pull is gone.
  bool erase(SessionId session);
  // The same, with the Pull; none: it was not held.
  std::optional<EndedHold> take(SessionId session);
  // A session that is due by now_ms, the one that is due first; none: there is none.
  std::optional<EndedHold> take_due(uint64_t now_ms);

  bool contains(SessionId session) const { return pulls_.contains(session); }
  size_t size() const { return pulls_.size(); }
  // When the next one is due; UINT64_MAX: nobody is held.
  uint64_t next_due_ms() const { return due_.empty() ? UINT64_MAX : due_.front().at_ms; }
  // The session that has been held the longest; 0: nobody is held.
  SessionId longest() const { return order_.empty() ? 0 : order_.front().session; }
  // Whether it is held, and nobody has woken it yet.
  bool is_asleep(SessionId session) const;
  // Sessions that nobody has woken yet, in order of their numbers. It costs those that were held since the last call,
  // and those that the last call gave and nobody woke.
  std::vector<SessionId> sleepers();
  // All that are held.
  std::vector<SessionId> sessions() const;

 private:
  struct Pull {
    uint64_t digest = 0;
    uint64_t due_ms = 0;
    uint32_t version = 0;
    uint32_t hold_ms : 30 = 0;  // of due_ms, since the hold began
    uint32_t has_model : 1 = 0;
    uint32_t is_woken : 1 = 0;
    uint64_t begun_ms() const { return due_ms - hold_ms; }
  };
  static_assert(sizeof(Pull) == 24);
  static_assert(kServerHoldMaxMs < 1U << 30);
  struct Due {
    uint64_t at_ms = 0;
    uint64_t number = 0;  // breaks ties
    SessionId session = 0;
    bool operator>(const Due& other) const {
      return at_ms != other.at_ms ? at_ms > other.at_ms : number > other.number;
    }
  };
  struct Begun {
    uint64_t at_ms = 0;
    SessionId session = 0;
  };

  bool holds(const Due& due) const;
  bool is_asleep(const Begun& begun) const;
  bool holds(const Begun& begun) const;
  void push(SessionId session, uint64_t at_ms);
  void settle();

  std::map<SessionId, Pull> pulls_;
  std::vector<Due> due_;       // a heap, the first one in front; its front is held, others may be over
  std::deque<Begun> order_;    // as they began; its front is held, others may be over
  std::vector<Begun> asleep_;  // whom nobody has woken, and others
  uint64_t next_number_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_HELD_PULLS_H_
