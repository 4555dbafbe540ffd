#include "server/cluster/followed_fleet.h"

#include "server/base/log.h"

namespace gradstream {

void FollowedFleet::on_tick(uint64_t now_ms) {
  if (ticket_ != 0 || now_ms < due_ms_) {
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
  if (reply.outcome != EngineOutcome::kCommitted) {
    due_ms_ = now_ms + pause_.take();
    return true;
  }
  pause_.reset();
  take(reply, now_ms);
  return true;
}

void FollowedFleet::take(const EngineReply& reply, uint64_t now_ms) {
  due_ms_ = now_ms + kFleetPollMs;
  if (reply.fleet_change < change_) {
    place_ = {};
    change_ = 0;
    return;
  }
  std::vector<EngineFleetRow> devices;
  for (const FleetChange& row : reply.fleet) {
    if (!row.is_claim) {
      devices.push_back({row.number, row.name, row.content});
    }
  }
  if (const Objection unread = fleet_.take(devices, &ends_)) {  // a row is asked for again once it has changed
    log_event("fleet_unreadable"_event, Fields().add("cause", unread.sentence));
  }
  if (reply.fleet.empty()) {
    change_ = reply.fleet_change;
  } else {
    place_ = reply.fleet.back().place_behind();
    due_ms_ = now_ms;  // there may be more
  }
}

}  // namespace gradstream
