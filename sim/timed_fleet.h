// A fleet of unequal devices in virtual time, for experiments and for the simulator at fleet scale. It runs the real
// coordinator and the real clients in one thread; every frame is encoded, framed and decoded.
//
//   device i: step_ms, duty cycle, answers?  --frames, latency, loss--> coordinator --records, commit_ms--> journal
//
// Local steps, frames and commits take time, devices sleep, lose their connection, lose all that they hold and come
// back, or never answer. A calm fleet has nothing of that: it measures algorithms and replays references. The same code
// in float (the product) and in double. What differs from simulation.h: the run and the problem are the caller's,
// nothing is held against schedules, and nothing grows with the length of the run.
#ifndef GRADSTREAM_SIM_TIMED_FLEET_H_
#define GRADSTREAM_SIM_TIMED_FLEET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/link/client.h"
#include "runtime/training/lean.h"
#include "runtime/wire/frame.h"
#include "server/coordinator/coordinator.h"
#include "sim/event_queue.h"
#include "sim/faults.h"

namespace gradstream {

struct DeviceHabits {
  uint64_t step_ms = 1;  // of one local step
  // The device has power for awake_ms of every cycle_ms, from phase_ms on; 0: always. What it did not store is lost.
  uint64_t cycle_ms = 0;
  uint64_t awake_ms = 0;
  uint64_t phase_ms = 0;
  bool answers = true;  // false: takes a task, and is never heard of again in that session
};

struct FleetHabits {
  uint64_t latency_ms = 1;  // of a frame, one way
  uint64_t commit_ms = 1;   // of the journal
  uint32_t loss_odds = 0;   // one frame in this many takes its connection down; 0: none
  uint64_t life_ms = 0;     // mean time after which a device loses all that it holds and is away; 0: for ever
  uint64_t absence_ms = 0;  // mean time for which it is
  uint64_t arena_size = 0;  // bytes of a device; 0: enough for any run of the shape
  uint32_t seed = 1;        // of latencies, losses and lives
  bool is_calm = false;     // also a round extended, a task abandoned or a session lost is a fault
};

struct TimedCounts {
  uint64_t events = 0;
  uint64_t records = 0;
  uint64_t bytes_up = 0;  // frames, without TLS
  uint64_t bytes_down = 0;
  uint64_t sessions = 0;
  uint64_t losses = 0;        // connections that a frame took down
  uint64_t resets = 0;        // devices that lost all, or their power
  uint64_t queue_max = 0;     // most events that were to come
  double device_seconds = 0;  // that all devices have computed, by the caller's clock (use_device_clock())
};

class TimedFleet {
 public:
  // model: rows * cols values of a version that has just become durable. False ends the run.
  using Watcher = std::function<bool(uint64_t now_ms, uint32_t version, const Real* model)>;

  // One problem and habit for each device, by enrolment index; the problems' contexts outlive the fleet. start: the
  // first model, empty: drawn from the run's seed. Parameters pass check_parameters(); device_count is set here.
  TimedFleet(const RunParameters& parameters, const FleetHabits& habits, std::span<const DeviceHabits> devices,
             std::span<const Problem> problems, std::span<const Real> start);
  // A calm fleet: nothing takes virtual time, and retry_min_ms and retry_max_ms become 1, so that no device overtakes
  // another.
  TimedFleet(RunParameters parameters, std::span<const Problem> problems, std::span<const Real> start);
  ~TimedFleet();
  TimedFleet(const TimedFleet&) = delete;
  TimedFleet& operator=(const TimedFleet&) = delete;

  // Sees every record as it becomes durable, and every message as it leaves: sentences on what is wrong with them end
  // the run. Both may be empty.
  std::function<std::string(const JournalRecord& record)> on_record;
  std::function<std::string(const Coordinator& server)> on_state;
  // Before run(): sees every line of the server's log, and every message of a device as the server gets it. What it
  // changes of a message is what the device said: so a device lies. Both may be empty.
  std::function<void(const Action& line)> on_log_line;
  std::function<void(uint32_t device, DeviceMessage* message)> on_device_message;

  // Until virtual time end_ms (calm: kNoEndMs), the last version, or until watch says so. Returns what went wrong, or
  // nothing: a task or update that is refused for another reason than age, a version without a step, a state without a
  // deadline.
  static constexpr uint64_t kNoEndMs = UINT64_MAX;
  std::string run(uint64_t end_ms, const Watcher& watch);

  // Before run(): a device that refuses a task, or whose update is refused, ends nothing; what its round waits for at
  // the deadline is the parameters' matter. The first such line stands in refusal(), naming device and reason.
  void tolerate_refusals() { tolerates_refusals_ = true; }
  const std::string& refusal() const { return refusal_; }

  // Before run(): the tables that the devices have, in place of all_manifolds(); they outlive the fleet.
  void use_manifolds(std::span<const ManifoldOps* const> manifolds) { manifolds_ = manifolds; }
  // Before run(): counts what devices compute in the seconds of this clock, read around their work. Null, as it is
  // without: nothing is counted.
  void use_device_clock(double (*seconds)()) { device_clock_ = seconds; }
  // Before run(): each local step of the device takes so long. So it answers after the others of a calm fleet, whose
  // steps take no time and who come back within a millisecond.
  void slow_down(uint32_t device, uint64_t step_ms);
  // Before run(): the devices link the lean form of zeroth-order training, as boards may.
  void use_lean_form() { lean_ = &kLeanForm; }

  uint64_t now_ms() const { return now_ms_; }
  const TimedCounts& counts() const { return counts_; }
  const Coordinator& server() const { return *server_; }
  // Most arena bytes that a device had in use.
  size_t arena_high_water_size() const;

 private:
  struct Device;
  enum class EventKind : uint8_t {
    kPoll,
    kUp,
    kDown,
    kConnected,
    kClosedUp,
    kClosedDown,
    kTick,
    kCommit,
    kPowerOff,
    kReset,
    kBoot
  };
  using Event = TimedEvent<EventKind>;

  void push(uint64_t at_ms, EventKind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes = {});
  void handle(Event& event);
  void handle_up(Event& event);
  void handle_down(Event& event);
  void schedule_poll(uint32_t index, uint64_t at_ms);
  void poll(uint32_t index);
  void act(uint32_t index, const ClientAction& action);
  void boot(uint32_t index);
  void power_off(uint32_t index);
  void reset(uint32_t index);
  uint64_t draw_ms(uint64_t mean_ms);
  bool is_awake(const Device& device) const;
  void drop(uint64_t session);
  void take_server_actions();
  void do_server_action(const Action& action);
  void commit();
  void schedule_tick();
  void fail(const std::string& sentence);
  bool is_stale(const Event& event) const;
  bool is_fault(const Action& action) const;
  void on_log(const Action& action);
  void look_for_lost_sessions();

  RunParameters parameters_;
  FleetHabits habits_;
  std::span<const ManifoldOps* const> manifolds_ = all_manifolds();
  const LeanForm* lean_ = nullptr;
  double (*device_clock_)() = nullptr;
  Dice dice_;
  std::unique_ptr<Coordinator> server_;
  std::vector<std::unique_ptr<Device>> devices_;
  EventQueue<EventKind> events_;
  std::unordered_map<uint64_t, uint32_t> links_;  // sessions that the server knows, and their devices
  std::vector<JournalRecord> pending_;
  Watcher watch_;
  TimedCounts counts_;
  std::string fault_;
  std::string refusal_;
  bool tolerates_refusals_ = false;
  bool is_over_ = false;
  bool is_commit_due_ = false;
  uint64_t now_ms_ = 0;
  uint64_t next_session_ = 1;
  uint64_t tick_ms_ = UINT64_MAX;
  size_t tidy_size_ = 0;  // of the queue, beyond which it is looked through for what became stale
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_TIMED_FLEET_H_
