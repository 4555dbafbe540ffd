// Several nodes that train one run together, in one thread and virtual time: the real fronts and leaders, the real
// clients, and an engine whose calls are delayed, lost and late.
//
//   clients --frames--> [links] --> node 1..N: front, leader --calls--> [fake engine] --commits--> the oracle
//
// A device dials any node, another one each time. Everything that chance decides comes from one seed.
#ifndef GRADSTREAM_SIM_CLUSTER_H_
#define GRADSTREAM_SIM_CLUSTER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/wire/frame.h"
#include "server/engine/front.h"
#include "server/engine/leader.h"
#include "sim/cluster_oracle.h"
#include "sim/cluster_plants.h"
#include "sim/event_queue.h"
#include "sim/fake_engine.h"
#include "sim/faults.h"
#include "sim/sim_device.h"
#include "sim/sim_parameters.h"

namespace gradstream {

enum class ClusterFault : uint8_t {
  kLoss,         // a connection drops: what is on its way is lost
  kDuplicate,    // a frame of an update arrives twice
  kDelay,        // a frame takes a hundred times its usual time
  kSlow,         // a device computes twenty times slower
  kDeviceCrash,  // its storage stays
  kTwoNodes,     // a device dials again while a node still has its session, and what it sent comes later
  kNodeCrash,    // a node ends with all that it holds, and comes back
  kNodePause,    // a node stands still, with its engine's connection
  kLeaderCrash,  // the same of the node that holds the lease
  kLeaderPause,  // for longer than its lease
  kFailover,     // the engine's standby takes over: calls under way become unknown
  kLostBefore,   // a call never reaches the engine
  kLostAfter,    // a call is executed, and its answer is lost
  kLate,         // a call is executed after its node has given it up
  kMuchLate,     // the same when what its node asked then is answered
  kSkew,         // a node boots with a clock that is minutes from all others
  kDrained,      // a node is told to end, and comes back; half of them hold the lease
  kAway,         // the engine answers nothing for up to a minute
  kRunPaused,    // an operator pauses the run, and resumes it
};
inline constexpr size_t kClusterFaultCount = 19;
inline constexpr std::array<const char*, kClusterFaultCount> kClusterFaultNames = {"loss",
                                                                                   "duplicate",
                                                                                   "delay",
                                                                                   "slow",
                                                                                   "device_crash",
                                                                                   "two_nodes",
                                                                                   "node_crash",
                                                                                   "node_pause",
                                                                                   "leader_crash",
                                                                                   "leader_pause",
                                                                                   "engine_failover",
                                                                                   "engine_lost_before",
                                                                                   "engine_lost_after",
                                                                                   "engine_late",
                                                                                   "engine_much_late",
                                                                                   "node_skew",
                                                                                   "node_drained",
                                                                                   "engine_away",
                                                                                   "run_paused"};
using ClusterFaultCounts = std::array<uint64_t, kClusterFaultCount>;

// Nodes of one cluster, at most. Reason: each keeps a model for its front and one for its leader.
inline constexpr uint32_t kFrontCountMax = 16;

struct ClusterOptions {
  SimOptions sim;            // fault_bits: bit n is ClusterFault n
  uint32_t front_count = 3;  // at least 1
  ClusterPlant plant = ClusterPlant::kNone;
};
// Why several nodes cannot train the run of these options; empty: they can. For people.
std::string cluster_obstacle(const SimOptions& options);

// What the nodes did, of all their lives.
struct ClusterCounters {
  uint64_t updates = 0;  // accepted, by the engine's rows
  uint64_t duplicates = 0;
  uint64_t batches = 0;
  uint64_t cuts = 0;
  uint64_t conflicts = 0;
  uint64_t unknowns = 0;
  uint64_t judged_anew = 0;
  uint64_t terms = 0;
  uint64_t versions = 0;
  uint64_t versions_cut = 0;
};

struct ClusterResult {
  std::string fault;  // the first that was broken; empty: none
  uint64_t digest = 0;
  uint32_t version = 0;
  uint64_t event_count = 0;
  uint64_t virtual_ms = 0;
  ClusterCounters counters;
  ClusterFaultCounts faults = {};
};

class Cluster {
 public:
  // schedule: which of the seed's schedules. Asserts that cluster_obstacle() is empty.
  Cluster(const ClusterOptions& options, uint32_t schedule);
  ClusterResult run();

 private:
  enum class Kind : uint8_t {
    kPoll,
    kConnected,
    kConnectFailed,
    kFrameUp,
    kFrameDown,
    kCloseUp,
    kCloseDown,
    kDeviceBoot,
    kNodeBoot,  // device: the node's number, as of the next one
    kNodeResume,
    kNodeDrained,  // its time to end in order is over
    kRunResumed,   // by the operator
    kWake          // the engine, or a node's own time
  };
  using Event = TimedEvent<Kind>;
  struct Node {
    std::string name;
    std::unique_ptr<EngineNode> engine;
    std::unique_ptr<Front> front;  // null: the node is down
    std::unique_ptr<Leader> leader;
    bool is_paused = false;
    uint64_t resume_ms = 0;     // when that ends; 0: it does not stand still
    uint64_t drain_end_ms = 0;  // by then it ends, drained or not; 0: it is not told to
    std::deque<Event> inbox;    // what came meanwhile
    uint64_t ahead_ms = 0;      // of virtual time, by its own clock
    uint64_t next_ms() const;
  };
  // The last pause of the run.
  struct Pause {
    uint64_t since_ms = 0;     // or since a node stood still in it, which has to hear of it first
    uint32_t version_max = 0;  // that may be open in it: one that was sealed before is published
  };
  // A node's end of a session.
  struct Link {
    uint32_t device = 0;
    size_t node = 0;
    FrameReader reader;
    uint64_t last_up_ms = 0;  // the frames of one session stay in order
    uint64_t last_down_ms = 0;
  };

  void push(uint64_t at_ms, Kind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes = {});
  void broken(const std::string& sentence);
  bool may(ClusterFault fault, uint32_t odds);
  void count(ClusterFault fault) { ++result_.faults[static_cast<size_t>(fault)]; }
  void inject();
  bool inject_into(ClusterFault fault);
  void end_faults();
  bool is_done();
  void handle(const Event& event);
  void handle_up(const Event& event);
  void handle_down(const Event& event);
  void fill_result();

  void schedule_poll(SimDevice& device, uint64_t at_ms);
  void poll(uint32_t index);
  void do_client_action(uint32_t index, const ClientAction& action, uint64_t cost_ms);
  void send_up(uint32_t index, std::span<const uint8_t> bytes);
  void crash_device(uint32_t index);
  void close_device_end(uint32_t index, uint64_t node_learns_ms);
  uint64_t latency_ms();

  size_t leader_index() const;
  void boot_node(size_t index);
  void crash_node(size_t index);
  bool pause_node(size_t index, uint64_t for_ms);
  bool drain_node(size_t index);
  void end_drained_nodes();
  void check_lease();
  bool pause_run();
  void check_pause();
  void check_told(const ServerMessage& message);
  void resume_node(size_t index);
  void retire(Node* node);
  void step_nodes();
  void take_actions(Node* node);
  void schedule_wake();
  void send_down(uint64_t session, const ServerMessage& message);

  ClusterOptions options_;
  RunParameters parameters_;
  RunIdentity identity_;
  Dice dice_;
  bool has_faults_;
  uint32_t faulty_until_version_ = 0;
  uint64_t calm_since_ms_ = 0;
  ClusterResult result_;
  EventQueue<Kind> events_;
  uint64_t now_ms_ = 0;
  uint64_t wake_ms_ = UINT64_MAX;
  uint64_t standby_back_ms_ = 0;  // of the engine's clock, as the last fail-over has left it
  uint64_t next_session_ = 1;
  uint64_t free_since_ms_ = UINT64_MAX;  // the lease is, and a node could take it; UINT64_MAX: not so
  uint64_t engine_faults_ = 0;           // that the engine has counted by then
  uint64_t quiet_from_ms_ = 0;           // the answer to a look at the lease may be lost until then
  Pause pause_;
  ClusterOracle oracle_;
  FakeEngine engine_;
  std::vector<Node> nodes_;  // end before the engine
  std::vector<std::unique_ptr<SimDevice>> devices_;
  std::map<uint64_t, Link> links_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_CLUSTER_H_
