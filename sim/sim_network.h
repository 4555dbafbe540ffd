// The network of a simulated fleet: what lies between a device's client and the coordinator. It decides how long a
// frame is under way, what is held back, and what vanishes. It delivers nothing: the simulation does.
#ifndef GRADSTREAM_SIM_SIM_NETWORK_H_
#define GRADSTREAM_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/wire/frame.h"
#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/oracle.h"

namespace gradstream {

enum class SimEventKind : uint8_t {
  kPoll,
  kConnected,
  kConnectFailed,
  kFrameUp,
  kFrameDown,
  kCloseUp,
  kCloseDown,
  kRelease,
  kSessionDue,
  kCommit,
  kTick,
  kDeviceBoot,
  kServerBoot,
  kResume
};
using SimEvent = TimedEvent<SimEventKind>;
using SimEventQueue = EventQueue<SimEventKind>;

// Odds of a fault that belongs to a frame.
inline constexpr uint32_t kFrameOdds = 40;

// The server's end of a session.
struct SimLink {
  uint32_t device = 0;
  FrameReader reader;              // the server's
  Oracle::Request hello;           // of which a Welcome comes
  Oracle::Request pull;            // of which a Wait comes
  uint64_t due_ms = 0;             // when the device must have said something, as in server/link/session.h
  uint64_t timer_ms = UINT64_MAX;  // of the next kSessionDue
};

class SimNetwork {
 public:
  // All three must outlive this.
  SimNetwork(Dice& dice, FaultChances& faults, SimEventQueue& events) : dice_(dice), faults_(faults), events_(events) {}
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // How long the next frame is under way.
  uint64_t latency_ms();

  void open(uint64_t session, uint32_t device) { links_[session].device = device; }
  // Null: the server's end is closed.
  SimLink* find(uint64_t session);
  const std::map<uint64_t, SimLink>& links() const { return links_; }
  void close(uint64_t session) { links_.erase(session); }
  void close_all() { links_.clear(); }
  // The server's end: the device must say something within so long. See server/link/session.h. The session is open.
  void expect_device(uint64_t session, uint64_t now_ms, uint64_t patience_ms);

  // From now on nothing of the session arrives in one direction or both, and neither end learns of it: deadlines must
  // end the session. vanishes() counts the fault, since nothing has happened yet.
  void silence(uint64_t session);
  bool is_silent(uint64_t session) const { return silences_.contains(session); }
  // Also the end of a session that one end sees does not come through to the other, and connecting takes both
  // directions.
  bool vanishes(const SimEvent& event);

  // True: the frame, or the end of its session, comes later, with release(). Only the server can see an order between
  // sessions, so only what goes to it is held back; one session's frames stay in order.
  bool hold_back(const SimEvent& event, uint64_t now_ms);
  // What was held back of a session, in order, to be delivered now.
  std::vector<SimEvent> release(uint64_t session);
  // A frame has arrived at the server.
  void note_arrival(const SimEvent& event);

 private:
  struct Silence {
    bool is_up = false;
    bool is_down = false;
    bool is_counted = false;  // something has vanished
  };

  Dice& dice_;
  FaultChances& faults_;
  SimEventQueue& events_;
  std::map<uint64_t, SimLink> links_;               // by session, as the others
  std::map<uint64_t, std::vector<SimEvent>> held_;  // what comes to the server later than what was sent later
  std::map<uint64_t, Silence> silences_;
  uint64_t delivered_order_ = 0;  // highest of the frames that have arrived at the server
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_SIM_NETWORK_H_
