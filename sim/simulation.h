// A fleet in one thread and virtual time: the real coordinator, the real clients, frames encoded and decoded, a journal
// in memory. Everything that chance decides comes from one seed, so that a schedule can be run again, step by step.
//
//   clients --frames--> [links: delay, loss, ...] --> coordinator --records--> [disk: delay, crash, full] --> journal
//                                                                                         the oracle reads here --^
#ifndef GRADSTREAM_SIM_SIMULATION_H_
#define GRADSTREAM_SIM_SIMULATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/journal/store_memory.h"
#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/oracle.h"
#include "sim/sim_device.h"

namespace gradstream {

struct SimOptions {
  uint32_t device_count = 4;
  uint32_t round_count = 8;
  uint32_t seed = 1;
  StreamKind stream = StreamKind::kScalarStream;
  bool uploads_means = false;  // tangents are the mean gradients of solver projection (A10), not RFedAGS's
  CorrectionForm correction_form = CorrectionForm::kLocal;  // of solver projection
  bool memory_weighs_samples = false;                       // a memory's w_i are N_i / N, not 1/n; not under scheme 2
  Encoding encoding = Encoding::kF32;                       // of uploads and, but with a memory, records
  bool error_feedback = false;                              // of tangents that are not in f32
  bool is_product = false;                                  // of several manifolds, not Stiefel alone
  bool is_grassmann = false;                                // the subspaces of those Stiefel points
  bool is_fixed_rank = false;                               // matrix completion at rank 2
  uint32_t fault_bits = 0;                                  // bit n: Fault n may happen
  bool has_stragglers =
      false;              // close early, weigh late updates, accept partial work: the digest depends on the schedule
  bool is_timed = false;  // with stragglers: each device's steps by its step time
  // No rounds: a version with every so many updates, tangents by rule asgd; the digest depends on the schedule. 0:
  // rounds
  uint32_t buffer_size = 0;
  ProximalForm proximal_form = ProximalForm::kGeodesic;  // another: a proximal term in every loss
  SolverId tangent_solver = SolverId::kGradientStream;   // of tangent streams
  Participation participation = Participation::kAll;
  float weight_share_max = 1;  // as the run's; below 1 not with a memory, nor solver svrg
  bool plants_double_fold = false;
  bool plants_step = false;  // the server's step is another than the run's
  void (*on_log)(uint64_t now_ms, const char* who, const std::string& text) = nullptr;
};

// The run that every schedule of these options trains: trigger all and fixed K, so that its last digest is one, unless
// the options ask for stragglers.
RunParameters sim_parameters(const SimOptions& options);
bool has_one_digest(const SimOptions& options);

struct SimResult {
  std::string fault;  // the first invariant that was broken; empty: none
  uint64_t digest = 0;
  uint64_t event_count = 0;
  uint64_t virtual_ms = 0;
  uint64_t record_count = 0;
  uint64_t snapshot_count = 0;
  uint64_t log_count = 0;
  uint64_t duplicate_count = 0;         // updates that came again
  uint64_t late_count = 0;              // updates of an older version, folded
  uint64_t partial_count = 0;           // updates of fewer steps, folded
  uint64_t client_deadline_count = 0;   // of the clients, that fired
  uint64_t session_deadline_count = 0;  // of the server's sessions
  FaultCounts faults = {};
};

class Simulation {
 public:
  // schedule: which of the seed's schedules.
  Simulation(const SimOptions& options, uint32_t schedule);
  SimResult run();
  const StoreMemory& store() const { return store_; }

 private:
  enum class EventKind : uint8_t {
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
  using Event = TimedEvent<EventKind>;
  struct Link {
    uint32_t device = 0;
    FrameReader reader;              // the server's
    Oracle::Request hello;           // of which a Welcome comes
    Oracle::Request pull;            // of which a Wait comes
    uint64_t due_ms = 0;             // when the device must have said something, as in server/link/session.h
    uint64_t timer_ms = UINT64_MAX;  // of the next kSessionDue
  };

  struct Silence {
    bool is_up = false;
    bool is_down = false;
    bool is_counted = false;  // something has vanished
  };

  // Time and chance.
  void push(uint64_t at_ms, EventKind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes = {});
  bool may(Fault fault, uint32_t odds);
  uint64_t latency();
  void broken(const std::string& sentence);
  void inject();
  bool inject_into(Fault fault, uint32_t index);
  bool is_done() const;
  void check_server();
  void check_end();
  void handle(const Event& event);
  void handle_up(const Event& event);
  void handle_down(const Event& event);

  // Devices.
  void schedule_poll(SimDevice& device, uint64_t at_ms);
  void poll(uint32_t index);
  void do_client_action(uint32_t index, const ClientAction& action, uint64_t cost_ms);
  void send_up(uint32_t index, std::span<const uint8_t> bytes);
  void crash_device(uint32_t index);
  bool drop_link(uint64_t session);
  bool silence(uint64_t session);
  bool vanishes(const Event& event);
  bool hold_back(const Event& event);
  void release(uint64_t session);

  // Server.
  std::vector<std::string> device_names() const;
  void boot_server();
  void crash_server();
  bool pause();
  void resume();
  void follow_operator();
  void take_server_actions();
  bool do_server_action(const Action& action);
  void on_frame_up(const Event& event);
  void expect_device(uint64_t session, uint64_t patience_ms);
  void note_sent(uint64_t session, const ServerMessage& message);
  void on_session_due(const Event& event);
  void send_down(uint64_t session, uint64_t at_ms, const ServerMessage& message);
  uint64_t arrival_down(uint64_t session);
  void commit();
  void schedule_tick();

  SimOptions options_;
  RunParameters parameters_;
  Dice dice_;
  SimResult result_;
  EventQueue<EventKind> events_;
  uint64_t now_ms_ = 0;
  uint64_t delivered_order_ = 0;  // highest of the frames that have arrived at the server
  bool is_faulty_ = true;
  uint32_t faulty_until_version_ = 0;
  uint64_t calm_since_ms_ = 0;

  std::vector<std::unique_ptr<SimDevice>> devices_;
  std::map<uint64_t, Link> links_;
  std::map<uint64_t, std::vector<Event>> held_;  // by session: what comes to the server later than what was sent later
  std::map<uint64_t, Silence> silences_;         // by session
  uint64_t next_session_ = 1;

  StoreMemory store_;
  Oracle oracle_;
  std::unique_ptr<Coordinator> server_;
  std::vector<JournalRecord> pending_;  // on their way to the disk
  bool is_commit_due_ = false;
  bool is_disk_full_ = false;
  bool is_pause_wanted_ = false;
  uint64_t tick_ms_ = UINT64_MAX;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_SIMULATION_H_
