#include "sim/sim_network.h"

#include <algorithm>
#include <utility>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

// How long reordered frames are held back: mostly a few exchanges of others, sometimes beyond the client's deadline, so
// that the session that follows overtakes the old one.
constexpr uint64_t kHoldShortMs = 300;
constexpr uint64_t kHoldLongMs = 2 * kAnswerDeadlineMs;
constexpr uint32_t kHoldLongOdds = 4;

}  // namespace

uint64_t SimNetwork::latency_ms() {
  uint64_t latency_ms = dice_.between(1, 10);
  if (faults_.may(Fault::kDelay, kFrameOdds)) {
    faults_.count(Fault::kDelay);
    latency_ms *= 100;
  }
  return latency_ms;
}

SimLink* SimNetwork::find(uint64_t session) {
  const auto found = links_.find(session);
  return found == links_.end() ? nullptr : &found->second;
}

void SimNetwork::expect_device(uint64_t session, uint64_t now_ms, uint64_t patience_ms) {
  SimLink& link = links_.at(session);
  link.due_ms = now_ms + patience_ms;
  if (link.due_ms < link.timer_ms) {
    link.timer_ms = link.due_ms;
    events_.push(link.due_ms, SimEventKind::kSessionDue, link.device, session, {});
  }
}

void SimNetwork::silence(uint64_t session) {
  const uint64_t directions = dice_.between(1, 3);
  Silence& silence = silences_[session];
  silence.is_up = silence.is_up || (directions & 1U) != 0;
  silence.is_down = silence.is_down || (directions & 2U) != 0;
}

bool SimNetwork::vanishes(const SimEvent& event) {
  const auto found = silences_.find(event.session);
  if (found == silences_.end()) {
    return false;
  }
  Silence& silence = found->second;
  const bool is_up = event.kind == SimEventKind::kFrameUp || event.kind == SimEventKind::kCloseUp;
  const bool is_down = event.kind == SimEventKind::kFrameDown || event.kind == SimEventKind::kCloseDown;
  const bool has_vanished = is_up ? silence.is_up : silence.is_down || (!is_down && silence.is_up);
  if (has_vanished && !silence.is_counted) {
    silence.is_counted = true;
    faults_.count(Fault::kSilence);
  }
  return has_vanished;
}

bool SimNetwork::hold_back(const SimEvent& event, uint64_t now_ms) {
  const auto held = held_.find(event.session);
  if (held != held_.end()) {
    held->second.push_back(event);
    return true;
  }
  if (event.kind != SimEventKind::kFrameUp || !links_.contains(event.session) ||
      !faults_.may(Fault::kReorder, kFrameOdds)) {
    return false;
  }
  const uint64_t hold_ms = dice_.between(1, dice_.one_in(kHoldLongOdds) ? kHoldLongMs : kHoldShortMs);
  events_.push(now_ms + hold_ms, SimEventKind::kRelease, event.device, event.session, {});
  held_[event.session].push_back(event);
  return true;
}

std::vector<SimEvent> SimNetwork::release(uint64_t session) {
  std::vector<SimEvent> events = std::move(held_.at(session));
  held_.erase(session);
  if (delivered_order_ > events.front().order) {  // another session's: of this one nothing has arrived since
    faults_.count(Fault::kReorder);
  }
  return events;
}

void SimNetwork::note_arrival(const SimEvent& event) { delivered_order_ = std::max(delivered_order_, event.order); }

}  // namespace gradstream
