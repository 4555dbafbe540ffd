#include "sim/timed_fleet.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "runtime/training/task_stages.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kRun = 1;
// Arena of a device where the caller names no size: so many tensors of the model's shape, and room for batches and
// small solver state. Reason: the hungriest solver with its uploads stays below a dozen tensors; pages that nobody
// writes cost nothing.
constexpr size_t kTensorCount = 48;
constexpr size_t kArenaBaseSize = size_t{1} << 20;
// Events of a device, beyond which the queue is looked through. Reason: twice what can be to come of it.
constexpr size_t kTidyCount = 16;

constexpr std::array<const EstimatorOps*, 5> kEstimators = {&kAnalyticGradientOps, &kProjectionOneSidedOps,
                                                            &kProjectionTwoSidedOps, &kTangentRetractionOps,
                                                            &kProjectionTangentOps};
constexpr std::array<const SolverOps*, 5> kSolvers = {&kSolverProjectionOps, &kSolverGradientStreamOps,
                                                      &kSolverTangentMeanOps, &kSolverSvrgOps, &kSolverCurveOps};

FleetHabits calm_habits() {
  FleetHabits habits;
  habits.latency_ms = 0;
  habits.commit_ms = 0;
  habits.is_calm = true;
  return habits;
}

RunParameters without_retries(RunParameters parameters) {
  parameters.pace->retry_min_ms = 1;
  parameters.pace->retry_max_ms = 1;
  return parameters;
}

}  // namespace

struct TimedFleet::Device {
  Device(uint32_t device_index, const DeviceHabits& device_habits, const Problem& device_problem, size_t arena_size)
      : index(device_index),
        habits(device_habits),
        problem(device_problem),
        memory_size(arena_size),
        memory(std::make_unique_for_overwrite<uint64_t[]>(arena_size / sizeof(uint64_t))) {}

  uint32_t index;
  DeviceHabits habits;
  Problem problem;
  size_t memory_size;
  std::unique_ptr<uint64_t[]> memory;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Client> client;  // null: without power
  FrameReader reader;              // of what comes down
  FrameReader server_reader;       // of what goes up
  uint32_t boot_count = 0;
  uint64_t session = 0;     // 0: none
  uint64_t poll_ms = 0;     // of the next poll
  uint64_t busy_ms = 0;     // until when a local step takes
  uint64_t last_up_ms = 0;  // frames of one session stay in order
  uint64_t last_down_ms = 0;
  bool is_silent = false;  // until its session ends
  size_t high_water_size = 0;
  std::vector<std::vector<uint8_t>> inbox;
};

TimedFleet::TimedFleet(const RunParameters& parameters, const FleetHabits& habits,
                       std::span<const DeviceHabits> devices, std::span<const Problem> problems,
                       std::span<const Real> start)
    : parameters_(parameters), habits_(habits), dice_(habits.seed, 0) {
  GS_ASSERT(devices.size() == problems.size());
  parameters_.trigger->device_count = static_cast<uint32_t>(problems.size());
  const size_t arena_size = habits.arena_size != 0
                                ? habits.arena_size
                                : kArenaBaseSize + kTensorCount *
                                                       (parameters_.model->shape.size() + parameters_.value_count()) *
                                                       sizeof(Real);
  std::vector<std::string> names;
  for (uint32_t i = 0; i < problems.size(); ++i) {
    names.push_back("d" + std::to_string(i));
    devices_.push_back(std::make_unique<Device>(i, devices[i], problems[i], arena_size));
  }
  server_ = std::make_unique<Coordinator>(kRun, parameters_, names);
  if (!start.empty()) {
    const Status status = server_->set_first_model(start);
    GS_ASSERT(status == Status::kOk);  // a finite point of the run's shape is the caller's
  }
}

TimedFleet::TimedFleet(RunParameters parameters, std::span<const Problem> problems, std::span<const Real> start)
    : TimedFleet(without_retries(std::move(parameters)), calm_habits(),
                 std::vector<DeviceHabits>(problems.size(), DeviceHabits{.step_ms = 0}), problems, start) {}

TimedFleet::~TimedFleet() = default;

void TimedFleet::slow_down(uint32_t device, uint64_t step_ms) { devices_[device]->habits.step_ms = step_ms; }

size_t TimedFleet::arena_high_water_size() const {
  size_t most = 0;
  for (const auto& device : devices_) {
    most = std::max({most, device->high_water_size, device->arena ? device->arena->high_water_size() : 0});
  }
  return most;
}

void TimedFleet::fail(const std::string& sentence) {
  fault_ = fault_.empty() ? sentence : fault_;
  is_over_ = is_over_ || !fault_.empty();
}

void TimedFleet::push(uint64_t at_ms, EventKind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes) {
  if (events_.size() >= tidy_size_) {
    events_.forget([this](const Event& event) { return is_stale(event); });
    tidy_size_ = std::max(2 * events_.size(), kTidyCount * (devices_.size() + 1));
  }
  events_.push(at_ms, kind, device, session, std::move(bytes));
  counts_.queue_max = std::max<uint64_t>(counts_.queue_max, events_.size());
}

// Of deadlines that were put off.
bool TimedFleet::is_stale(const Event& event) const {
  const Device& device = *devices_[event.device];
  return event.kind == EventKind::kPoll   ? device.client == nullptr || device.poll_ms != event.at_ms
         : event.kind == EventKind::kTick ? event.at_ms != tick_ms_
                                          : false;
}

// What a device of such a fleet never causes. An update refused for its age is part of the policy.
bool TimedFleet::is_fault(const Action& action) const {
  const std::string_view name = action.event->id;
  if (habits_.is_calm &&
      (name == "update_refused" || name == "round_extended" || name == "run_stalled" || name == "task_abandoned")) {
    return true;
  }
  return name == "step_failed" || name == "task_refused" || name == "device_not_capable" || name == "digest_mismatch" ||
         (name == "update_refused" && action.text.find("reason=too_stale") == std::string::npos);
}

void TimedFleet::on_log(const Action& action) {
  if (on_log_line) {
    on_log_line(action);
  }
  // Those events speak of one device only.
  const std::string event = action.event->id;
  const bool is_refusal = event == "update_refused" || event == "task_refused" || event == "device_not_capable";
  if (tolerates_refusals_ && is_refusal) {
    refusal_ = refusal_.empty() ? event + " " + action.text : refusal_;
  } else if (is_fault(action)) {
    fail(event + " " + action.text);
  }
}

void TimedFleet::look_for_lost_sessions() {
  for (const auto& device : devices_) {
    const ClientCounters& counters = device->client->counters();
    if (counters.deadlines_missed + counters.malformed_frames + counters.connection_failures > 0) {
      fail("device " + std::to_string(device->index) +
           " lost a session: deadlines_missed=" + std::to_string(counters.deadlines_missed) +
           " malformed_frames=" + std::to_string(counters.malformed_frames) +
           " connection_failures=" + std::to_string(counters.connection_failures));
    }
  }
}

// Geometric in tenths of the mean, without libm: the same on every machine.
uint64_t TimedFleet::draw_ms(uint64_t mean_ms) {
  uint64_t tenths = 1;
  while (!dice_.one_in(10)) {
    ++tenths;
  }
  return std::max<uint64_t>(1, tenths * mean_ms / 10 + dice_.between(0, mean_ms / 10));
}

std::string TimedFleet::run(uint64_t end_ms, const Watcher& watch) {
  watch_ = watch;
  server_->start(now_ms_);
  take_server_actions();
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    push(devices_[i]->habits.cycle_ms == 0 ? 0 : devices_[i]->habits.phase_ms, EventKind::kBoot, i, 0);
    if (habits_.life_ms != 0) {
      push(draw_ms(habits_.life_ms), EventKind::kReset, i, 0);
    }
  }
  schedule_tick();
  while (!is_over_ && !events_.empty()) {
    if (events_.next_ms() > end_ms) {
      now_ms_ = end_ms;
      break;
    }
    Event event = events_.pop();
    now_ms_ = event.at_ms;
    ++counts_.events;
    handle(event);
    schedule_tick();
  }
  if (!is_over_ && events_.empty()) {
    fail("nothing is left to happen, and the run is not at its end");
  }
  if (habits_.is_calm) {
    look_for_lost_sessions();
  }
  return fault_;
}

void TimedFleet::handle(Event& event) {
  Device& device = *devices_[event.device];
  switch (event.kind) {
    case EventKind::kPoll:
      if (device.client != nullptr && device.poll_ms == event.at_ms) {
        device.poll_ms = kNever;
        poll(event.device);
      }
      return;
    case EventKind::kUp:
    case EventKind::kClosedUp:
      handle_up(event);
      return;
    case EventKind::kDown:
    case EventKind::kConnected:
    case EventKind::kClosedDown:
      handle_down(event);
      return;
    case EventKind::kTick:
      if (event.at_ms == tick_ms_) {
        tick_ms_ = kNever;
        server_->on_tick(now_ms_);
        take_server_actions();
      }
      return;
    case EventKind::kCommit:
      commit();
      return;
    case EventKind::kPowerOff:
      power_off(event.device);
      return;
    case EventKind::kReset:
      reset(event.device);
      return;
    case EventKind::kBoot:
      boot(event.device);
      return;
  }
}

// ---- Devices ----

bool TimedFleet::is_awake(const Device& device) const {
  const DeviceHabits& habits = device.habits;
  return habits.cycle_ms == 0 ||
         (now_ms_ + habits.cycle_ms - habits.phase_ms % habits.cycle_ms) % habits.cycle_ms < habits.awake_ms;
}

// While it sleeps a device does not come back.
void TimedFleet::boot(uint32_t index) {
  Device& device = *devices_[index];
  const DeviceHabits& habits = device.habits;
  if (device.client != nullptr || !is_awake(device)) {
    return;
  }
  ClientConfig config;
  config.registry = {manifolds_, kEstimators, kSolvers, {&device.problem, 1}, &kProximalLossOps, lean_, &kStageForm};
  config.firmware_version = "timed";
  config.floors = no_floors();
  config.jitter_seed = index * 1000 + device.boot_count++;
  device.arena = std::make_unique<Arena>(device.memory.get(), device.memory_size);
  device.client = std::make_unique<Client>(config, *device.arena);
  device.reader.reset();
  device.inbox.clear();
  device.session = 0;
  device.busy_ms = 0;
  device.poll_ms = kNever;
  device.is_silent = false;
  schedule_poll(index, now_ms_);
  if (habits.cycle_ms != 0) {
    const uint64_t into_ms = (now_ms_ + habits.cycle_ms - habits.phase_ms % habits.cycle_ms) % habits.cycle_ms;
    push(now_ms_ + habits.awake_ms - into_ms, EventKind::kPowerOff, index, 0);
    push(now_ms_ + habits.cycle_ms - into_ms, EventKind::kBoot, index, 0);
  }
}

// A device loses all, and is away for a while.
void TimedFleet::reset(uint32_t index) {
  power_off(index);
  const uint64_t back_ms = now_ms_ + draw_ms(std::max<uint64_t>(1, habits_.absence_ms));
  push(back_ms, EventKind::kBoot, index, 0);
  push(back_ms + draw_ms(habits_.life_ms), EventKind::kReset, index, 0);
}

void TimedFleet::power_off(uint32_t index) {
  Device& device = *devices_[index];
  if (device.client != nullptr) {
    ++counts_.resets;
    device.high_water_size = std::max(device.high_water_size, device.arena->high_water_size());
    if (device.session != 0) {
      push(std::max(device.last_up_ms, now_ms_ + habits_.latency_ms), EventKind::kClosedUp, index, device.session);
    }
    device.client.reset();
  }
}

void TimedFleet::schedule_poll(uint32_t index, uint64_t at_ms) {
  Device& device = *devices_[index];
  at_ms = std::max({at_ms, device.busy_ms, now_ms_});  // a client that wants to go on at once may name the past
  if (at_ms < device.poll_ms) {
    device.poll_ms = at_ms;
    push(at_ms, EventKind::kPoll, index, 0);
  }
}

void TimedFleet::poll(uint32_t index) {
  Device& device = *devices_[index];
  if (device.is_silent) {
    return;
  }
  const double begin = device_clock_ != nullptr ? device_clock_() : 0;
  for (const std::vector<uint8_t>& frame : std::exchange(device.inbox, {})) {
    device.reader.feed(frame);
    device.client->on_frame(device.reader.payload(), now_ms_);
    device.reader.pop();
  }
  const uint32_t steps = device.client->counters().local_steps;
  const ClientAction action = device.client->poll(now_ms_);
  counts_.device_seconds += device_clock_ != nullptr ? device_clock_() - begin : 0;
  if (device.client->counters().local_steps != steps) {
    device.busy_ms = now_ms_ + device.habits.step_ms;
    device.is_silent = !device.habits.answers;
  }
  act(index, action);
}

void TimedFleet::act(uint32_t index, const ClientAction& action) {
  Device& device = *devices_[index];
  uint64_t next_ms = now_ms_;
  switch (action.kind) {
    case ClientActionKind::kWait:
      if (action.wake_ms == kNever) {
        fail("device " + std::to_string(index) + " waits without a deadline");
      }
      next_ms = action.wake_ms;
      break;
    case ClientActionKind::kConnect:
      device.session = next_session_++;
      device.reader.reset();
      device.server_reader.reset();
      device.last_up_ms = device.last_down_ms = now_ms_;
      ++counts_.sessions;
      links_[device.session] = index;
      push(now_ms_ + habits_.latency_ms, EventKind::kConnected, index, device.session);
      break;
    case ClientActionKind::kSend:
      counts_.bytes_up += action.bytes.size();
      device.last_up_ms = std::max(device.last_up_ms, now_ms_ + habits_.latency_ms);
      push(device.last_up_ms, EventKind::kUp, index, device.session, {action.bytes.begin(), action.bytes.end()});
      device.client->on_sent(now_ms_);
      break;
    case ClientActionKind::kDisconnect:
      push(std::max(device.last_up_ms, now_ms_ + habits_.latency_ms), EventKind::kClosedUp, index,
           std::exchange(device.session, 0));
      break;
    case ClientActionKind::kSave:
      device.client->on_saved(Status::kOk, now_ms_);
      break;
    case ClientActionKind::kSaveStep:
      break;  // what a reset takes is lost here
  }
  schedule_poll(index, next_ms);
}

void TimedFleet::handle_down(Event& event) {
  Device& device = *devices_[event.device];
  if (device.client == nullptr || device.session != event.session) {
    return;
  }
  if (event.kind == EventKind::kConnected) {
    device.client->on_connected(now_ms_);
  } else if (event.kind == EventKind::kDown) {
    device.inbox.push_back(std::move(event.bytes));
  } else {
    device.session = 0;
    device.inbox.clear();
    if (device.is_silent) {
      device.is_silent = false;
      device.busy_ms = 0;
    }
    device.client->on_connection_lost(Status::kClosed, now_ms_);
  }
  schedule_poll(event.device, now_ms_);
}

// ---- Server ----

void TimedFleet::drop(uint64_t session) {
  const auto link = links_.find(session);
  if (link != links_.end()) {
    push(now_ms_ + habits_.latency_ms, EventKind::kClosedDown, link->second, session);
    links_.erase(link);
    server_->on_session_closed(session, now_ms_);
    take_server_actions();
  }
}

void TimedFleet::handle_up(Event& event) {
  if (!links_.contains(event.session)) {
    return;
  }
  if (event.kind == EventKind::kClosedUp) {
    links_.erase(event.session);
    server_->on_session_closed(event.session, now_ms_);
    take_server_actions();
    return;
  }
  if (habits_.loss_odds != 0 && dice_.one_in(habits_.loss_odds)) {
    ++counts_.losses;
    drop(event.session);
    return;
  }
  FrameReader& reader = devices_[event.device]->server_reader;
  reader.feed(event.bytes);
  DeviceMessage message;
  if (!reader.has_frame() || decode_message(reader.payload(), &message) != Status::kOk) {
    fail("a frame of device " + std::to_string(event.device) + " does not decode");
    return;
  }
  reader.pop();
  if (on_device_message) {
    on_device_message(event.device, &message);
  }
  server_->on_message(event.session, event.device, message, now_ms_);
  take_server_actions();
}

void TimedFleet::take_server_actions() {
  for (std::vector<Action> actions = server_->take_actions(); !actions.empty(); actions = server_->take_actions()) {
    for (const Action& action : actions) {
      do_server_action(action);
    }
  }
  if (on_state) {
    fail(on_state(*server_));
  }
}

void TimedFleet::do_server_action(const Action& action) {
  switch (action.kind) {
    case ActionKind::kSend: {
      const auto link = links_.find(action.session);
      if (link == links_.end()) {
        return;
      }
      std::array<uint8_t, kFrameSizeMax> frame = {};
      const Result<size_t> size = encode_frame(action.message, frame.data());
      GS_ASSERT(size.ok());  // what a coordinator says fits the wire
      counts_.bytes_down += size.value();
      Device& device = *devices_[link->second];
      device.last_down_ms = std::max(device.last_down_ms, now_ms_ + habits_.latency_ms);
      push(device.last_down_ms, EventKind::kDown, link->second, action.session,
           {frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size.value())});
      return;
    }
    case ActionKind::kClose: {
      const auto link = links_.find(action.session);
      if (habits_.is_calm) {
        fail("the server closed session " + std::to_string(action.session));
      }
      if (link != links_.end()) {
        push(std::max(devices_[link->second]->last_down_ms, now_ms_ + habits_.latency_ms), EventKind::kClosedDown,
             link->second, action.session);
        links_.erase(link);
      }
      return;
    }
    case ActionKind::kPersist:
      pending_.push_back(action.record);
      if (!std::exchange(is_commit_due_, true)) {
        push(now_ms_ + habits_.commit_ms, EventKind::kCommit, 0, 0);
      }
      return;
    case ActionKind::kPublish:
      is_over_ =
          is_over_ || !watch_(now_ms_, action.version, server_->model().model()) ||
          action.version == parameters_.version_count() ||
          (server_->run_state() == gs_RunState_RUN_STATE_FINISHED && action.version == server_->durable_version());
      return;
    case ActionKind::kCheckpoint:   // it asks for none
    case ActionKind::kCompareMark:  // nor tells devices of its journal
      return;
    case ActionKind::kLog:
      on_log(action);
      return;
  }
}

void TimedFleet::commit() {
  is_commit_due_ = false;
  counts_.records += pending_.size();
  for (const JournalRecord& record : pending_) {
    if (on_record) {
      fail(on_record(record));
    }
  }
  const uint64_t sequence = pending_.back().sequence();
  pending_.clear();
  server_->on_persisted(sequence, now_ms_);
  take_server_actions();
}

void TimedFleet::schedule_tick() {
  const uint64_t next_ms = server_->next_tick_ms();
  if (next_ms < tick_ms_) {
    tick_ms_ = std::max(next_ms, now_ms_);
    push(tick_ms_, EventKind::kTick, 0, 0);
  }
}

}  // namespace gradstream
