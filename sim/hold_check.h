// What must hold of Pulls that the server holds: each is answered once, by its deadline, and no later than the pace
// says once there is a task for its device.
#ifndef GRADSTREAM_SIM_HOLD_CHECK_H_
#define GRADSTREAM_SIM_HOLD_CHECK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "server/coordinator/coordinator.h"

namespace gradstream {

class HoldCheck {
 public:
  // limit_ms: the server's own. arrival_rate: the run's. device_count: of the fleet.
  HoldCheck(uint32_t limit_ms, uint32_t arrival_rate, uint32_t device_count);

  // A message of the session has reached the server, which has not looked at it yet.
  void on_message(uint64_t session, uint32_t device, const DeviceMessage& message, const Coordinator& server,
                  uint64_t now_ms);
  // A message leaves the server. Returns a sentence where it is an answer to nothing.
  std::string on_sent(uint64_t session, const ServerMessage& message, uint64_t now_ms);
  // The session has ended: nothing is owed any more.
  void forget(uint64_t session) { sessions_.erase(session); }
  void forget_all() { sessions_.clear(); }

  // The server stands still: a sentence on a Pull that is held beyond its deadline, or is neither held nor answered.
  // Of many sessions not every call looks at them, so that a hold may be found later, or one that was short never.
  std::string check(const Coordinator& server, uint64_t now_ms);
  // The same just after a commit: a sentence on a device that is held although it has a task to get.
  // must_wait(device): whether there is none for it, by its share of the last versions.
  std::string check_woken(const Coordinator& server, const std::function<bool(uint32_t)>& must_wait, uint64_t now_ms);
  // Holds that were seen since the beginning.
  uint64_t hold_count() const { return hold_count_; }

 private:
  struct Session {
    uint32_t device = 0;
    uint32_t owed = 0;  // answers
    uint32_t hold_max_ms = 0;
    bool has_base = false;  // its last update says which model it holds
    bool was_held = false;  // at the last check
    uint64_t due_ms = 0;    // of the Pull that may be held
    uint64_t free_ms = 0;   // since when it has a task to get; 0: it has none
  };
  void ask(Session& session, uint64_t now_ms);
  bool is_look_due();

  uint32_t limit_ms_;
  uint64_t pace_ms_;  // until the whole fleet is woken
  std::map<uint64_t, Session> sessions_;
  uint64_t hold_count_ = 0;
  size_t checks_since_look_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_HOLD_CHECK_H_
