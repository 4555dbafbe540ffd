#include "server/cluster/followed_fleet.h"

#include <algorithm>
#include <tuple>

#include "server/base/log.h"

namespace gradstream {
namespace {

// By which the engine gives its rows.
std::tuple<uint64_t, bool, uint64_t> order_of(const FleetPlace& place) {
  return {place.change, place.is_claim, place.number};
}

}  // namespace

void FollowedFleet::on_tick(uint64_t now_ms) {
  if (now_ms < next_tick_ms()) {
    return;
  }
  for (const uint32_t device : fleet_.take_ended_windows()) {
    ends_.push_back({device, gs_Reason_REASON_NONE});
  }
  asked_ = is_whole_ || now_ms >= poll_ms_ ? place_ : proof_;
  ticket_ = engine_.read_fleet(asked_);
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
  proof_ = {};
  poll_ms_ = 0;
  unseen_ = fleet_.names();
  is_whole_ = false;
}

void FollowedFleet::take(const EngineReply& reply, uint64_t now_ms) {
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
  const bool is_poll = order_of(asked_) == order_of(place_);
  const bool is_proof = !is_whole_ && order_of(asked_) == order_of(proof_);
  if (!reply.fleet.empty()) {
    const FleetPlace behind = reply.fleet.back().place_behind();
    proof_ = is_proof ? behind : proof_;
    place_ = std::max(place_, behind, [](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
    known_ = std::max(known_, behind.change);
  } else if (is_proof) {
    is_whole_ = true;
    trouble_ = unseen_.empty() ? trouble_ : NodeTrouble::kRestored;
  }
  if (is_poll) {
    poll_ms_ = reply.fleet.empty() ? now_ms + kFleetPollMs : now_ms;  // there may be more
  }
  due_ms_ = is_whole_ ? poll_ms_ : now_ms;
}

}  // namespace gradstream
