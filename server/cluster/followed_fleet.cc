#include "server/cluster/followed_fleet.h"

#include <algorithm>

#include "server/base/log.h"

namespace gradstream {

void FollowedFleet::on_tick(uint64_t now_ms) {
  if (now_ms < next_tick_ms()) {
    return;
  }
  for (const uint32_t device : fleet_.take_ended_windows()) {
    ends_.push_back({device, gs_Reason_REASON_NONE});
  }
  ticket_ = engine_.read_fleet(place_);
}

bool FollowedFleet::on_reply(const EngineReply& reply, uint64_t now_ms) {
  if (ticket_ == 0 || reply.ticket != ticket_) {
    return false;
  }
  ticket_ = 0;
  if (std::exchange(is_old_, false)) {
    due_ms_ = now_ms;
    return true;
  }
  if (reply.outcome != EngineOutcome::kCommitted) {
    due_ms_ = now_ms + pause_.take();
    return true;
  }
  pause_.reset();
  take(reply, now_ms);
  return true;
}

void FollowedFleet::on_connection() {
  is_old_ = ticket_ != 0;
  place_ = {};
  unseen_ = fleet_.names();
  is_whole_ = false;
}

void FollowedFleet::take(const EngineReply& reply, uint64_t now_ms) {
  due_ms_ = now_ms + kFleetPollMs;
  if (reply.fleet_change < known_) {
    trouble_ = NodeTrouble::kRestored;
    return;
  }
  std::vector<EngineFleetRow> devices;
  for (const FleetChange& row : reply.fleet) {
    if (!row.is_claim) {
      devices.push_back({row.number, row.name, row.content});
      unseen_.erase(row.name);
    }
  }
  if (const Objection unread = fleet_.take(devices, &ends_)) {  // a row is asked for again once it has changed
    log_event("fleet_unreadable"_event, Fields().add("cause", unread.sentence));
  }
  if (!reply.fleet.empty()) {
    place_ = reply.fleet.back().place_behind();
    known_ = std::max(known_, place_.change);
    due_ms_ = now_ms;  // there may be more
  } else if (!std::exchange(is_whole_, true) && !unseen_.empty()) {
    trouble_ = NodeTrouble::kRestored;
  }
}

}  // namespace gradstream
