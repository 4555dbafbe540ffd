// The engine's clock, as a node knows it.
//
//   sent ---- engine_ms ---- received      by the node's clock; the engine's time is that of some moment between them
//
// Nodes write times into rows, and compare what other nodes have written there with now (DeviceRow, task.issued_ms).
// The clocks of machines may be minutes apart. So all nodes take the engine's time, and run on by clocks of their own
// between two of its answers: these differ by less than a millisecond in the seconds until the next one.
//
// A fail-over may bring an engine whose clock is behind the one before. Between a time of the old clock and one of the
// new one more has gone by than their difference. A node tells by how much, where it has seen both clocks.
#ifndef GRADSTREAM_SERVER_ENGINE_ENGINE_CLOCK_H_
#define GRADSTREAM_SERVER_ENGINE_ENGINE_CLOCK_H_

#include <algorithm>
#include <cstdint>

namespace gradstream {

// A node's time is at most so far from the engine's, ms. Reason: what is compared are the seconds that a device takes
// for its steps. An answer that took twice as long says nothing of the time.
inline constexpr uint64_t kClockErrorMaxMs = 1000;

class EngineClock {
 public:
  // A question leaves, at that time of the node's clock, which never goes back. At most one is under way.
  void ask(uint64_t now_ms) { asked_ms_ = now_ms; }
  // Its answer, and what the engine's clock showed meanwhile.
  void answer(uint64_t now_ms, uint64_t engine_ms) {
    const uint64_t trip_ms = now_ms - asked_ms_;
    if (trip_ms <= 2 * kClockErrorMaxMs) {
      const uint64_t ahead_ms = engine_ms - (asked_ms_ + trip_ms / 2);
      if (is_known_) {
        note_step(now_ms, ahead_ms, trip_ms);
      }
      ahead_ms_ = ahead_ms;
      trip_ms_ = trip_ms;
      is_known_ = true;
    }
  }
  // Whether an answer came in time to tell. Until then there is no time.
  bool is_known() const { return is_known_; }
  // The engine's time at this one of the node's, within kClockErrorMaxMs.
  uint64_t at(uint64_t now_ms) const { return now_ms + ahead_ms_; }
  // So much more may have gone by since that time of the engine's than at() tells: its clock was set back behind it.
  uint64_t set_back_ms(uint64_t since_ms) const { return since_ms <= set_back_until_ms_ ? set_back_ms_ : 0; }

 private:
  // A difference that the ways of the two answers may explain is no step.
  void note_step(uint64_t now_ms, uint64_t ahead_ms, uint64_t trip_ms) {
    const auto back_ms = static_cast<int64_t>(ahead_ms_ - ahead_ms);
    if (back_ms > static_cast<int64_t>((trip_ms + trip_ms_) / 2 + 1)) {
      set_back_ms_ += static_cast<uint64_t>(back_ms);
      // Other nodes' times may be ahead of this one's.
      set_back_until_ms_ = std::max(set_back_until_ms_, at(now_ms) + 2 * kClockErrorMaxMs);
    }
  }

  uint64_t asked_ms_ = 0;
  uint64_t ahead_ms_ = 0;           // of the node's clock, modulo 2^64
  uint64_t trip_ms_ = 0;            // of the answer that tells it
  uint64_t set_back_ms_ = 0;        // by all steps together
  uint64_t set_back_until_ms_ = 0;  // times behind this one are of the new clock
  bool is_known_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_ENGINE_CLOCK_H_
