// A fleet in one thread and virtual time: the real coordinator, the real clients, frames encoded and decoded, a journal
// in memory. Everything that chance decides comes from one seed, so that a schedule can be run again, step by step.
//
//   clients --frames--> [links: delay, loss, ...] --> coordinator --records--> [disk: delay, crash, full] --> journal
//                                                                                         the oracle reads here --^
#ifndef GRADSTREAM_SIM_SIMULATION_H_
#define GRADSTREAM_SIM_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/journal/store_memory.h"
#include "sim/byzantine.h"
#include "sim/faults.h"
#include "sim/hold_check.h"
#include "sim/lies.h"
#include "sim/oracle.h"
#include "sim/sim_device.h"
#include "sim/sim_network.h"
#include "sim/sim_parameters.h"

namespace gradstream {

// Odds of a commit that is slow, where devices hold their Pulls.
inline constexpr uint32_t kSlowCommitOdds = 20;

struct SimResult {
  std::string fault;  // the first invariant that was broken; empty: none
  uint64_t digest = 0;
  uint32_t version = 0;     // of the server's model at the end
  Shape shape;              // and what it is
  std::vector<Real> model;  // rows * cols
  uint64_t event_count = 0;
  uint64_t virtual_ms = 0;
  uint64_t record_count = 0;
  uint64_t dropped_count = 0;  // of these, records that cuts of the journal dropped while the run went on
  uint64_t snapshot_count = 0;
  uint64_t log_count = 0;
  uint64_t duplicate_count = 0;         // updates that came again
  uint64_t late_count = 0;              // updates of an older version, folded
  uint64_t partial_count = 0;           // updates of fewer steps, folded
  uint64_t line_count = 0;              // of the updates folded in training
  uint64_t client_deadline_count = 0;   // of the clients, that fired
  uint64_t session_deadline_count = 0;  // of the server's sessions
  uint64_t hold_count = 0;              // Pulls that were held
  FaultCounts faults = {};
  LieCounts lies = {};
  uint64_t byzantine_field_count = 0;   // fields in which the Byzantine device lied
  uint64_t byzantine_repeat_count = 0;  // its messages that were earlier ones
};

class Simulation {
 public:
  // schedule: which of the seed's schedules.
  Simulation(const SimOptions& options, uint32_t schedule);
  SimResult run();
  const StoreMemory& store() const { return store_; }

 private:
  // Time and chance.
  void push(uint64_t at_ms, SimEventKind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes = {});
  void broken(const std::string& sentence);
  void inject();
  bool inject_into(Fault fault, uint32_t index);
  bool is_done();
  uint64_t event_count_max() const;
  void fill_result();
  void check_server();
  void check_end();
  void handle(const SimEvent& event);
  void handle_up(const SimEvent& event);
  void handle_down(const SimEvent& event);

  // Devices.
  void schedule_poll(SimDevice& device, uint64_t at_ms);
  void poll(uint32_t index);
  void do_client_action(uint32_t index, const ClientAction& action, uint64_t cost_ms);
  void send_up(uint32_t index, std::span<const uint8_t> bytes);
  void crash_device(uint32_t index);
  bool is_held(const SimDevice& device) const;
  bool is_byzantine(uint32_t device) const {
    return options_.trust.is_byzantine && device + 1 == options_.device_count;
  }
  bool inject_into_held(Fault fault, uint32_t first);
  bool drop_link(uint64_t session);

  // Server.
  std::vector<std::string> device_names() const;
  void boot_server();
  void crash_server();
  void replay_kept();
  void keep_checkpoint();
  bool pause();
  void resume();
  void follow_operator();
  void take_server_actions();
  bool do_server_action(const Action& action);
  void on_frame_up(const SimEvent& event);
  void expect_device(uint64_t session, uint64_t patience_ms);
  void note_sent(uint64_t session, const ServerMessage& message);
  void on_session_due(const SimEvent& event);
  void send_down(uint64_t session, uint64_t at_ms, const ServerMessage& message);
  uint64_t arrival_down(uint64_t session);
  void commit();
  bool slow_commit();
  void note_commit();
  void note_chain();
  bool drain_server();
  void schedule_tick();

  SimOptions options_;
  uint64_t run_nonce_;  // of the seed: nothing in a schedule is drawn but by its dice
  RunParameters parameters_;
  Dice dice_;
  SimResult result_;
  SimEventQueue events_;
  FaultChances faults_;
  SimNetwork network_;
  HoldCheck holds_;
  Liar liar_;
  Byzantine byzantine_;
  uint64_t now_ms_ = 0;
  uint32_t faulty_until_version_ = 0;
  uint64_t calm_since_ms_ = 0;

  std::vector<std::unique_ptr<SimDevice>> devices_;
  size_t awaited_ = 0;  // a device that was not at the end when is_done() last looked
  uint64_t next_session_ = 1;

  StoreMemory store_;  // all records, of which the oracle and the end of the run know
  StoreMemory kept_;   // what a server finds: checkpoints, and the records that a cut has left
  std::shared_ptr<const Checkpoint> checkpoint_;  // on its way to the disk
  Oracle oracle_;
  std::unique_ptr<Coordinator> server_;
  std::vector<JournalRecord> pending_;  // on their way to the disk
  bool is_commit_due_ = false;
  bool is_commit_slow_ = false;
  bool is_disk_full_ = false;
  bool is_pause_wanted_ = false;
  uint64_t tick_ms_ = UINT64_MAX;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_SIMULATION_H_
