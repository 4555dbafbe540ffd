// The nodes of a simulated cluster: their lives, their engine's replies, what they send.
#include <algorithm>
#include <utility>

#include "sim/cluster.h"

namespace gradstream {
namespace {

// A node that has ended is back within so long, ms.
constexpr uint64_t kNodeAwayMostMs = 3000;
// The clocks of nodes are ahead of virtual time by so much, ms, and a skewed one by up to twice that, or by nothing.
constexpr uint64_t kClockAheadMs = 600'000;
// A node that is told to end has so long for it, ms. Reason: as long as an exchange of a device takes.
constexpr uint64_t kDrainMostMs = 2000;
// A lease that is free is taken within so long, ms, where no call is lost. Reason: one look, and its way there and
// back.
constexpr uint64_t kFreeLeaseMostMs = kLeaseLookMs + 50;
// The looks of all nodes are in order so long after a fault of the engine, ms: one may be lost, or executed late.
constexpr uint64_t kLostLookMs = 2 * kLeaseRenewMs;
// A node's clock is skewed at one boot of so many.
constexpr uint32_t kSkewOdds = 3;
// The pause of an operator lasts so long, ms, at one occasion of so many. Reason: below and beyond a device's wait in
// it, and each takes seconds of virtual time.
constexpr uint64_t kRunPauseLeastMs = 50;
constexpr uint64_t kRunPauseMostMs = 8000;
constexpr uint32_t kRunPauseOdds = 4;
// Nodes hear of a pause within so long, ms, where no call is lost. Reason: one poll of a front, its way there and back,
// and a batch that was under way by then.
constexpr uint64_t kPauseHeardMs = kVersionPollMs + 100;

}  // namespace

// The node that holds the lease and is up; their count: there is none.
size_t Cluster::leader_index() const {
  const auto leader = std::find_if(nodes_.begin(), nodes_.end(), [this](const Node& node) {
    return node.front != nullptr && !node.is_paused && node.name == engine_.lease().node;
  });
  return static_cast<size_t>(leader - nodes_.begin());
}

void Cluster::boot_node(size_t index) {
  Node& node = nodes_[index];
  if (node.front != nullptr) {
    return;
  }
  node.ahead_ms = kClockAheadMs;
  if (may(ClusterFault::kSkew, kSkewOdds)) {
    node.ahead_ms = dice_.between(0, 2 * kClockAheadMs);
    count(ClusterFault::kSkew);
  }
  node.engine = engine_.connect(node.name);
  node.front = std::make_unique<Front>(identity_, parameters_, options_.sim.device_count, *node.engine);
  node.leader = std::make_unique<Leader>(parameters_, options_.sim.device_count, *node.engine);
  switch (options_.plant) {
    case ClusterPlant::kAckBeforeCommit:
      node.front->plant_for_test(FrontPlant::kAckBeforeCommit);
      break;
    case ClusterPlant::kNoCutCheck:
      node.front->plant_for_test(FrontPlant::kNoCutCheck);
      break;
    case ClusterPlant::kNoResolve:
      node.front->plant_for_test(FrontPlant::kNoResolve);
      break;
    case ClusterPlant::kOtherSum:
      node.front->plant_for_test(FrontPlant::kOtherSum);
      break;
    case ClusterPlant::kOwnClock:
      node.front->plant_for_test(FrontPlant::kOwnClock);
      break;
    case ClusterPlant::kStaleTerm:
      node.leader->plant_stale_term_for_test();
      break;
    case ClusterPlant::kNone:
    case ClusterPlant::kAsyncFailover:
      break;
  }
  node.front->start(now_ms_ + node.ahead_ms);
}

// What a node has counted in this life; it is down afterwards.
void Cluster::retire(Node* node) {
  if (node->front == nullptr) {
    return;
  }
  const FrontCounters& front = node->front->counters();
  ClusterCounters& sum = result_.counters;
  sum.duplicates += front.updates_duplicate;
  sum.batches += front.batches;
  sum.cuts += front.cuts;
  sum.conflicts += front.conflicts;
  sum.unknowns += front.unknowns;
  sum.judged_anew += front.judged_anew;
  sum.terms += node->leader->counters().terms;
  sum.versions_cut += node->leader->counters().cut;
  node->leader.reset();
  node->front.reset();
  node->engine.reset();
  node->is_paused = false;
  node->resume_ms = 0;
  node->drain_end_ms = 0;
  node->inbox.clear();
  free_since_ms_ = UINT64_MAX;
}

void Cluster::crash_node(size_t index) {
  retire(&nodes_[index]);
  std::erase_if(links_, [&](const auto& entry) {
    const auto& [session, link] = entry;
    if (link.node == index) {
      push(now_ms_ + latency_ms(), Kind::kCloseDown, link.device, session);
    }
    return link.node == index;
  });
  push(now_ms_ + dice_.between(1, kNodeAwayMostMs), Kind::kNodeBoot, static_cast<uint32_t>(index), 0);
}

// Whether it was up, and stands still now.
bool Cluster::pause_node(size_t index, uint64_t for_ms) {
  if (index >= nodes_.size() || nodes_[index].front == nullptr || nodes_[index].is_paused) {
    return false;
  }
  nodes_[index].is_paused = true;
  nodes_[index].resume_ms = now_ms_ + for_ms;
  free_since_ms_ = UINT64_MAX;
  engine_.pause(nodes_[index].name, now_ms_ + for_ms);
  push(now_ms_ + for_ms, Kind::kNodeResume, static_cast<uint32_t>(index), 0);
  return true;
}

// Its devices are told to leave, as the owner of the sessions does.
bool Cluster::drain_node(size_t index) {
  if (index >= nodes_.size() || nodes_[index].front == nullptr || nodes_[index].is_paused ||
      nodes_[index].drain_end_ms != 0) {
    return false;
  }
  Node& node = nodes_[index];
  node.drain_end_ms = now_ms_ + kDrainMostMs;
  push(node.drain_end_ms, Kind::kNodeDrained, static_cast<uint32_t>(index), 0);
  node.front->drain();
  node.leader->drain(now_ms_ + node.ahead_ms);
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_drain_tag;
  message.body.drain.has_retry = true;
  message.body.drain.retry = node.front->drain_window();
  for (const auto& [session, link] : links_) {
    if (link.node == index) {
      send_down(session, message);
    }
  }
  return true;
}

// In order: nothing is under way there, and all devices have left.
void Cluster::end_drained_nodes() {
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    const bool has_links =
        std::any_of(links_.begin(), links_.end(), [&](const auto& entry) { return entry.second.node == index; });
    if (node.drain_end_ms != 0 && !node.is_paused && !has_links && node.front->is_drained() &&
        node.leader->is_drained()) {
      crash_node(index);
    }
  }
}

// However the lease came to be free: a node that is there takes it soon.
void Cluster::check_lease() {
  const FakeEngineCounters& engine = engine_.counters();
  const uint64_t faults =
      engine.lost_before + engine.lost_after + engine.late + engine.much_late + engine.failovers + engine.aways;
  if (std::exchange(engine_faults_, faults) != faults || engine_.is_away()) {
    quiet_from_ms_ = now_ms_ + kLostLookMs;
  }
  const bool has_taker = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.front != nullptr && !node.is_paused && node.drain_end_ms == 0;
  });
  if (!has_taker || !engine_.is_lease_free() || now_ms_ < quiet_from_ms_) {
    free_since_ms_ = UINT64_MAX;
    return;
  }
  free_since_ms_ = std::min(free_since_ms_, now_ms_);
  broken(now_ms_ - free_since_ms_ <= kFreeLeaseMostMs ? "" : "a lease that was free was not taken in time");
}

// Whether there was a run to pause.
bool Cluster::pause_run() {
  if (engine_.state() != EngineRunState::kActive || !dice_.one_in(kRunPauseOdds)) {
    return false;
  }
  engine_.change_state(EngineRunState::kPaused);
  pause_ = {now_ms_, engine_.open_version() + (engine_.is_sealed() ? 1 : 0)};
  push(now_ms_ + dice_.between(kRunPauseLeastMs, kRunPauseMostMs), Kind::kRunResumed, 0, 0);
  return true;
}

void Cluster::check_pause() {
  const uint32_t version = engine_.open_version() + (engine_.is_sealed() ? 1 : 0);
  if (engine_.state() == EngineRunState::kPaused && version > pause_.version_max) {
    broken("a version was sealed while the run was paused");
  }
}

// What a node says of the run, which it hears of by its look at the versions.
void Cluster::check_told(const ServerMessage& message) {
  const bool tells_of_pause =
      message.which_body == gs_ServerMessage_wait_tag && message.body.wait.cause == gs_WaitCause_WAIT_CAUSE_PAUSED;
  if (tells_of_pause && result_.faults[static_cast<size_t>(ClusterFault::kRunPaused)] == 0) {
    broken("a Wait names a pause that nobody has asked for");
  }
  const bool is_late = now_ms_ > std::max(pause_.since_ms, quiet_from_ms_) + kPauseHeardMs && !engine_.is_away();
  if (message.which_body == gs_ServerMessage_task_tag && engine_.state() == EngineRunState::kPaused && is_late) {
    broken("a node gave out a task of a run that was paused");
  }
}

void Cluster::resume_node(size_t index) {
  Node& node = nodes_[index];
  if (node.resume_ms != now_ms_) {
    return;  // the node that stood still has ended meanwhile, and this one stands still for longer, or never did
  }
  node.is_paused = false;
  pause_.since_ms = now_ms_;
  for (const Event& event : std::exchange(node.inbox, {})) {
    handle_up(event);
  }
}

// When something of it is due, in virtual time.
uint64_t Cluster::Node::next_ms() const {
  const uint64_t own_ms = std::min(front->next_tick_ms(), leader->next_tick_ms());
  return own_ms == UINT64_MAX ? own_ms : own_ms - std::min(own_ms, ahead_ms);
}

// What the engine has to say by now, and what is due.
void Cluster::step_nodes() {
  engine_.advance(now_ms_);
  for (Node& node : nodes_) {
    if (node.front == nullptr || node.is_paused) {
      continue;
    }
    const uint64_t own_ms = now_ms_ + node.ahead_ms;
    for (const EngineReply& reply : node.engine->take_replies()) {
      const bool is_known = node.front->on_reply(reply, own_ms) || node.leader->on_reply(reply, own_ms);
      broken(is_known ? "" : "a reply is to no call of its node");
    }
    if (own_ms >= node.front->next_tick_ms()) {
      node.front->on_tick(own_ms);
    }
    if (own_ms >= node.leader->next_tick_ms()) {
      node.leader->on_tick(own_ms);
    }
    broken(sentence_of(node.front->trouble()));
    broken(sentence_of(node.leader->trouble()));
    take_actions(&node);
  }
}

void Cluster::take_actions(Node* node) {
  for (const FrontAction& action : node->front->take_actions()) {
    const auto link = links_.find(action.session);
    if (link == links_.end()) {
      continue;
    }
    if (!action.is_close) {
      oracle_.on_told(link->second.device, action.message);
      check_told(action.message);
      send_down(action.session, action.message);
      continue;
    }
    ServerMessage message = {};
    message.which_body = gs_ServerMessage_refuse_tag;
    message.body.refuse.reason = action.reason;
    send_down(action.session, message);
    push(link->second.last_down_ms, Kind::kCloseDown, link->second.device, action.session);
    links_.erase(link);
  }
}

void Cluster::send_down(uint64_t session, const ServerMessage& message) {
  std::vector<uint8_t> frame(kFrameSizeMax);
  const Result<size_t> size = encode_frame(message, frame.data());
  if (!size.ok()) {
    broken("a message of a node does not fit a frame");
    return;
  }
  frame.resize(size.value());
  Link& link = links_.at(session);
  link.last_down_ms = std::max(link.last_down_ms, now_ms_ + latency_ms());
  push(link.last_down_ms, Kind::kFrameDown, link.device, session, std::move(frame));
}

void Cluster::schedule_wake() {
  uint64_t next_ms = engine_.next_ms();
  for (const Node& node : nodes_) {
    if (node.front != nullptr && !node.is_paused) {
      next_ms = std::min(next_ms, node.next_ms());
    }
  }
  next_ms = std::max(next_ms, now_ms_ + 1);
  if (next_ms < wake_ms_) {
    wake_ms_ = next_ms;
    push(next_ms, Kind::kWake, 0, 0);
  }
}

}  // namespace gradstream
