#include "sim/cluster.h"

#include <algorithm>
#include <utility>

#include "server/run/canonical_text.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint64_t kEver = UINT64_MAX;
constexpr uint32_t kClusterRun = 7;
// Odds of a spontaneous fault at each event.
constexpr uint32_t kClusterFaultOdds = 150;
// A call of the engine in so many is lost, or late.
constexpr uint32_t kEngineFaultOdds = 60;
// The lease of the engine, ms.
constexpr uint32_t kLeaseMs = 3000;
// Of a node, in virtual time: it stands still for less than a client's deadline, or a leader for longer than its lease.
constexpr uint64_t kPauseMostMs = 2000;
constexpr uint64_t kLeaderPauseMostMs = 4 * kLeaseMs;
// The engine is away for so long, ms, at one occasion of so many. Reason: below and far beyond what a front waits for,
// and each takes a minute of virtual time.
constexpr uint64_t kAwayLeastMs = 1000;
constexpr uint64_t kAwayMostMs = 60'000;
constexpr uint32_t kAwayOdds = 8;
// Transactions that an asynchronous standby lacks, at most.
constexpr uint64_t kAsyncLostMax = 6;
// After the last fault every device stands at the last version within so much virtual time: a node's boot, a leader's
// lease, an answer deadline and a back-off, for each of the versions that are left.
constexpr uint64_t kClusterCalmMaxMs = 180'000;
// Events of a schedule. Reason: a calm one of eight rounds needs some ten thousand, and a run that comes to no end must
// be found.
constexpr uint64_t kClusterEventCountMax = 2'000'000;

std::vector<std::string> names_of(const char* prefix, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    names.push_back(prefix + std::to_string(i));
  }
  return names;
}

// Those of the engine's calls, as bits of FakeEngineOptions.
uint32_t call_faults(uint32_t fault_bits) {
  constexpr std::pair<ClusterFault, EngineCallFault> kOfCalls[] = {
      {ClusterFault::kLostBefore, EngineCallFault::kLostBefore},
      {ClusterFault::kLostAfter, EngineCallFault::kLostAfter},
      {ClusterFault::kLate, EngineCallFault::kLate},
      {ClusterFault::kMuchLate, EngineCallFault::kMuchLate}};
  uint32_t bits = 0;
  for (const auto& [fault, of_call] : kOfCalls) {
    bits |= (fault_bits >> static_cast<uint32_t>(fault) & 1U) != 0 ? bit_of(of_call) : 0;
  }
  return bits;
}

FakeEngineOptions engine_options(const ClusterOptions& options, uint32_t schedule) {
  FakeEngineOptions engine;
  engine.seed = options.sim.seed * 1'000'003 + schedule;
  engine.lost_odds = kEngineFaultOdds;
  engine.fault_bits = call_faults(options.sim.fault_bits);
  engine.lease_ms = kLeaseMs;
  engine.takes_again = options.plant == ClusterPlant::kNoResolve;    // a batch that is in comes once more
  engine.checks_holder = options.plant != ClusterPlant::kStaleTerm;  // else no version of that leader is taken
  return engine;
}

}  // namespace

std::string cluster_obstacle(const SimOptions& options) {
  if (options.own != nullptr) {
    return "several nodes train the simulator's own problem; leave yours out, or take one server";
  }
  if (options.trust.lie_bits != 0 || options.trust.is_byzantine || options.plants.double_fold || options.plants.step) {
    return "--fronts has faults of its own; leave --lies, --byzantine, --planted-double-fold and --planted-step out";
  }
  if (options.holds_pulls || options.aggregator_count > 1 || options.asks_needed > 0) {
    return "a front holds no Pulls and has one sum, and its devices compute; leave --hold, --aggregators and "
           "--measured "
           "out";
  }
  return check_cluster_run(sim_parameters(options)).sentence;
}

Cluster::Cluster(const ClusterOptions& options, uint32_t schedule)
    : options_(options),
      parameters_(sim_parameters(options.sim)),
      identity_{kClusterRun, uint64_t{options.sim.seed} << 1 | 1,
                parameters_digest(parameters_, uint64_t{options.sim.seed} << 1 | 1)},
      dice_(options.sim.seed, schedule),
      has_faults_(options.sim.fault_bits != 0),
      oracle_(parameters_, names_of("d", options.sim.device_count)),
      engine_(engine_options(options, schedule)) {
  GS_ASSERT(cluster_obstacle(options.sim).empty() && options.front_count >= 1);
  const uint32_t last_version = parameters_.version_count();
  faulty_until_version_ = static_cast<uint32_t>(dice_.between(last_version / 2, last_version));
  engine_.set_watch(&oracle_);
  for (uint32_t i = 0; i < options.sim.device_count; ++i) {
    devices_.push_back(std::make_unique<SimDevice>(i, parameters_));
    devices_[i]->step_ms = static_cast<uint32_t>(dice_.between(1, 20));
    push(dice_.between(0, 100), Kind::kDeviceBoot, i, 0);
  }
  for (const std::string& name : names_of("n", options.front_count)) {
    Node node;
    node.name = name;
    push(dice_.between(0, 100), Kind::kNodeBoot, static_cast<uint32_t>(nodes_.size()), 0);
    nodes_.push_back(std::move(node));
  }
}

// ---- Time and chance ----

void Cluster::push(uint64_t at_ms, Kind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes) {
  events_.push(at_ms, kind, device, session, std::move(bytes));
}

void Cluster::broken(const std::string& sentence) {
  if (result_.fault.empty() && !sentence.empty()) {
    result_.fault = sentence;
  }
}

bool Cluster::may(ClusterFault fault, uint32_t odds) {
  return has_faults_ && (options_.sim.fault_bits >> static_cast<uint32_t>(fault) & 1U) != 0 && dice_.one_in(odds);
}

void Cluster::inject() {
  constexpr std::array<ClusterFault, 11> kSpontaneous = {
      ClusterFault::kLoss,      ClusterFault::kSlow,        ClusterFault::kDeviceCrash, ClusterFault::kNodeCrash,
      ClusterFault::kNodePause, ClusterFault::kLeaderCrash, ClusterFault::kLeaderPause, ClusterFault::kFailover,
      ClusterFault::kDrained,   ClusterFault::kAway,        ClusterFault::kRunPaused};
  const ClusterFault fault = kSpontaneous[dice_.between(0, kSpontaneous.size() - 1)];
  if (may(fault, kClusterFaultOdds) && inject_into(fault)) {
    count(fault);
  }
}

// Whether there was an occasion.
bool Cluster::inject_into(ClusterFault fault) {
  const auto index = static_cast<uint32_t>(dice_.between(0, devices_.size() - 1));
  const size_t node = dice_.between(0, nodes_.size() - 1);
  const size_t leader = leader_index();
  switch (fault) {
    case ClusterFault::kLoss:
      if (devices_[index]->session == 0) {
        return false;
      }
      close_device_end(index, now_ms_ + 1);
      return true;
    case ClusterFault::kSlow: {
      SimDevice& device = *devices_[index];
      device.step_ms = device.step_ms > 100 ? device.step_ms / 20 : device.step_ms * 20;
      return true;
    }
    case ClusterFault::kDeviceCrash:
      if (!devices_[index]->is_alive()) {
        return false;
      }
      crash_device(index);
      return true;
    case ClusterFault::kNodeCrash:
    case ClusterFault::kLeaderCrash: {
      const size_t victim = fault == ClusterFault::kNodeCrash ? node : leader;
      if (victim >= nodes_.size() || nodes_[victim].front == nullptr) {
        return false;
      }
      crash_node(victim);
      return true;
    }
    case ClusterFault::kNodePause:
      return pause_node(node, dice_.between(1, kPauseMostMs));
    case ClusterFault::kLeaderPause:
      return pause_node(leader, dice_.between(1, kLeaderPauseMostMs));
    case ClusterFault::kAway:
      if (engine_.is_away() || !dice_.one_in(kAwayOdds)) {
        return false;
      }
      engine_.go_away(now_ms_ + dice_.between(kAwayLeastMs, kAwayMostMs));
      return true;
    case ClusterFault::kRunPaused:
      return pause_run();
    case ClusterFault::kDrained:
      return drain_node(dice_.one_in(2) ? leader : node);
    case ClusterFault::kFailover:
      // To the standby, whose clock is behind, and back. Virtual time has to be beyond that.
      standby_back_ms_ = standby_back_ms_ == 0 && now_ms_ >= 2 * kStandbyBackMs ? kStandbyBackMs : 0;
      engine_.fail_over(options_.plant == ClusterPlant::kAsyncFailover ? dice_.between(1, kAsyncLostMax) : 0,
                        standby_back_ms_);
      return true;
    default:
      return false;
  }
}

void Cluster::end_faults() {
  has_faults_ = false;
  calm_since_ms_ = now_ms_;
  engine_.end_faults();
}

bool Cluster::is_done() {
  return oracle_.version() == parameters_.version_count() &&
         std::all_of(devices_.begin(), devices_.end(), [this](const auto& device) {
           return device->is_alive() && device->client().run_finished() &&
                  device->client().replica().version() == oracle_.version() &&
                  device->client().digest() == oracle_.digest();
         });
}

ClusterResult Cluster::run() {
  while (result_.fault.empty() && !is_done()) {
    GS_ASSERT(!events_.empty());  // a node that is up or boots has a time of its own
    const Event event = events_.pop();
    now_ms_ = event.at_ms;
    if (has_faults_ && oracle_.version() >= faulty_until_version_) {
      end_faults();
    }
    inject();
    handle(event);
    step_nodes();
    end_drained_nodes();
    check_lease();
    check_pause();
    schedule_wake();
    broken(oracle_.fault());
    const uint64_t calm_max_ms = kClusterCalmMaxMs + kClusterCalmMaxMs * parameters_.version_count() / 10;
    if (++result_.event_count > kClusterEventCountMax || (!has_faults_ && now_ms_ > calm_since_ms_ + calm_max_ms)) {
      broken("the run does not come to its end: version " + std::to_string(oracle_.version()) + " after " +
             std::to_string(now_ms_) + " ms");
    }
  }
  fill_result();
  return result_;
}

void Cluster::fill_result() {
  for (Node& node : nodes_) {
    retire(&node);
  }
  const FakeEngineCounters& engine = engine_.counters();
  result_.faults[static_cast<size_t>(ClusterFault::kLostBefore)] = engine.lost_before;
  result_.faults[static_cast<size_t>(ClusterFault::kLostAfter)] = engine.lost_after;
  result_.faults[static_cast<size_t>(ClusterFault::kLate)] = engine.late;
  result_.faults[static_cast<size_t>(ClusterFault::kMuchLate)] = engine.much_late;
  result_.digest = oracle_.digest();
  result_.version = oracle_.version();
  result_.virtual_ms = now_ms_;
  result_.counters.updates = oracle_.update_count();
  result_.counters.versions = oracle_.version();
}

// ---- Events ----

void Cluster::handle(const Event& event) {
  switch (event.kind) {
    case Kind::kPoll: {
      SimDevice& device = *devices_[event.device];
      if (device.begin_poll(event.at_ms)) {
        poll(event.device);
      }
      return;
    }
    case Kind::kConnected:
    case Kind::kConnectFailed:
    case Kind::kFrameDown:
    case Kind::kCloseDown:
      handle_down(event);
      return;
    case Kind::kFrameUp:
    case Kind::kCloseUp:
      handle_up(event);
      return;
    case Kind::kDeviceBoot:
      devices_[event.device]->boot();
      schedule_poll(*devices_[event.device], now_ms_);
      return;
    case Kind::kNodeBoot:
      boot_node(event.device);
      return;
    case Kind::kNodeResume:
      resume_node(event.device);
      return;
    case Kind::kNodeDrained:
      if (nodes_[event.device].drain_end_ms == event.at_ms) {
        crash_node(event.device);
      }
      return;
    case Kind::kRunResumed:
      engine_.change_state(EngineRunState::kActive);
      return;
    case Kind::kWake:
      wake_ms_ = wake_ms_ == event.at_ms ? kEver : wake_ms_;
      return;
  }
}

// What a device learns of its session.
void Cluster::handle_down(const Event& event) {
  SimDevice& device = *devices_[event.device];
  if (!device.hears(event.session)) {
    return;
  }
  const SessionNews news = event.kind == Kind::kConnected   ? SessionNews::kConnected
                           : event.kind == Kind::kFrameDown ? SessionNews::kFrame
                                                            : SessionNews::kEnd;
  device.learn(news, event.bytes, now_ms_);
  schedule_poll(device, now_ms_);
}

// What a node learns of a session.
void Cluster::handle_up(const Event& event) {
  const auto known = links_.find(event.session);
  if (known == links_.end()) {
    return;
  }
  Link& link = known->second;
  Node& node = nodes_[link.node];
  if (node.is_paused) {
    node.inbox.push_back(event);
    return;
  }
  if (event.kind == Kind::kCloseUp) {
    links_.erase(known);
    node.front->on_session_closed(event.session);
    take_actions(&node);
    return;
  }
  link.reader.feed(event.bytes);
  DeviceMessage message;
  if (!link.reader.has_frame() || decode_message(link.reader.payload(), &message) != Status::kOk) {
    broken("a frame of a device does not decode");
    return;
  }
  link.reader.pop();
  oracle_.on_said(event.session, link.device, message);
  node.front->on_message(event.session, link.device, message, now_ms_ + node.ahead_ms);
  take_actions(&node);
}

}  // namespace gradstream
