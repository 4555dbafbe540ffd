#include "sim/simulation.h"

#include <algorithm>
#include <limits>

#include "server/coordinator/fleet.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "sim/end_check.h"

namespace gradstream {
namespace {

// Rounds between two checkpoints, so that a schedule of eight has several.
constexpr uint32_t kCheckpointRounds = 2;
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
// After the last fault every device stands at the last version within so much virtual time. Reason: the longest chain
// is an answer deadline, a back-off, a session and a round's slowest device.
constexpr uint64_t kCalmMaxMs = 180'000;
// Events of a schedule, and of each device for each version where these are more. Reason: a calm device needs some
// thirty, and a run that comes to no end must be found.
constexpr uint64_t kEventCountMax = 2'000'000;
constexpr uint64_t kDeviceEventCountMax = 1000;
constexpr uint32_t kRun = 7;
// A fleet of at most so many devices has its counts compared with its devices after each event. Reason: it is a look at
// all of them.
constexpr uint32_t kCountedMax = 16;

// Odds of a spontaneous fault at each event, and of those that belong to a commit or an action.
constexpr uint32_t kFaultOdds = 70;
constexpr uint32_t kCommitOdds = 40;
constexpr uint32_t kActionOdds = 500;
// The session_idle_max_ms of the simulated shell. Reason: the default is ten minutes, longer than a run here.
constexpr uint64_t kSessionIdleMaxMs = 60'000;
// As a server of that limit holds Pulls.
constexpr uint32_t kHoldLimitMs = kSessionIdleMaxMs / 2;
// One device in so many does not let its Pulls be held.
constexpr uint32_t kPollingPeriod = 4;

}  // namespace

Simulation::Simulation(const SimOptions& options, uint32_t schedule)
    : options_(options),
      run_nonce_(uint64_t{options.seed} << 1 | 1),
      parameters_(sim_parameters(options)),
      dice_(options.seed, schedule),
      faults_(options.fault_bits, dice_),
      network_(dice_, faults_, events_),
      holds_(kHoldLimitMs, options.arrival_rate, options.device_count),
      liar_(options.seed, options.trust.lie_bits),
      byzantine_(options.seed, schedule),
      oracle_(parameters_) {
  const uint32_t last_version = parameters_.version_count();
  faulty_until_version_ = static_cast<uint32_t>(dice_.between(last_version / 2, last_version));
  for (uint32_t i = 0; i < options.device_count; ++i) {
    devices_.push_back(std::make_unique<SimDevice>(i, parameters_, options.own));
    if (options.asks_needed > 0) {
      devices_[i]->measure(options.asks_needed);
    }
    const SampleSource& source = devices_[i]->source();
    oracle_.hold_samples(i, devices_[i]->samples(), source.count, source.dimension);
    devices_[i]->holds_pulls = options.holds_pulls && i % kPollingPeriod != kPollingPeriod - 1;
    devices_[i]->step_ms = static_cast<uint32_t>(dice_.between(1, 20));
    push(dice_.between(0, 100), SimEventKind::kDeviceBoot, i, 0);
  }
  push(dice_.between(0, 100), SimEventKind::kServerBoot, 0, 0);
}

// ---- Time and chance ----

void Simulation::push(uint64_t at_ms, SimEventKind kind, uint32_t device, uint64_t session,
                      std::vector<uint8_t> bytes) {
  events_.push(at_ms, kind, device, session, std::move(bytes));
}

void Simulation::broken(const std::string& sentence) {
  if (result_.fault.empty() && !sentence.empty()) {
    result_.fault = sentence;
  }
}

// Now and then one of the faults that need no occasion.
void Simulation::inject() {
  constexpr size_t kHoldKinds = 3;  // the last ones
  constexpr std::array<Fault, 10> kSpontaneous = {
      Fault::kLoss,    Fault::kDeviceCrash, Fault::kServerCrash, Fault::kBitFlip,   Fault::kSlow,
      Fault::kSilence, Fault::kPause,       Fault::kHeldCut,     Fault::kHeldTwice, Fault::kDrain};
  const size_t kinds = kSpontaneous.size() - (options_.holds_pulls ? 0 : kHoldKinds);
  const Fault fault = kSpontaneous[dice_.between(0, kinds - 1)];
  if (!faults_.may(fault, kFaultOdds)) {
    return;
  }
  const bool has_happened = inject_into(fault, static_cast<uint32_t>(dice_.between(0, devices_.size() - 1)));
  if (has_happened) {
    faults_.count(fault);
  }
}

bool Simulation::inject_into(Fault fault, uint32_t index) {
  SimDevice& device = *devices_[index];
  bool has_happened = true;
  if (fault == Fault::kLoss) {
    has_happened = drop_link(device.session);
  } else if (fault == Fault::kSilence) {
    has_happened = false;  // the network counts it when something vanishes
    if (device.session != 0) {
      network_.silence(device.session);
    }
  } else if (fault == Fault::kDeviceCrash && device.is_alive()) {
    crash_device(index);
  } else if (fault == Fault::kServerCrash && server_ != nullptr) {
    crash_server();
  } else if (fault == Fault::kPause) {
    has_happened = pause();
  } else if (fault == Fault::kBitFlip) {
    has_happened = device.flip_bit(dice_.between(0, 1U << 20));
  } else if ((kHoldFaultBits >> static_cast<uint32_t>(fault) & 1U) != 0) {
    has_happened = inject_into_held(fault, index);
  } else if (fault == Fault::kSlow) {
    device.step_ms = device.step_ms > 100 ? device.step_ms / 20 : device.step_ms * 20;
  } else {
    has_happened = false;
  }
  return has_happened;
}

uint64_t Simulation::event_count_max() const {
  return std::max(kEventCountMax, kDeviceEventCountMax * devices_.size() * parameters_.version_count());
}

// Whoever was not there at the last look is looked at first: a look at all for each event would be quadratic.
bool Simulation::is_done() {
  if (server_ == nullptr || oracle_.version() != parameters_.version_count() || !pending_.empty()) {
    return false;
  }
  const auto is_there = [this](const auto& device) {
    return device->is_alive() && device->client().run_finished() &&
           device->client().replica().version() == oracle_.version() && device->client().digest() == oracle_.digest();
  };
  if (!is_there(devices_[awaited_])) {
    return false;
  }
  const auto other = std::find_if_not(devices_.begin(), devices_.end(), is_there);
  awaited_ = other == devices_.end() ? 0 : static_cast<size_t>(other - devices_.begin());
  return other == devices_.end();
}

SimResult Simulation::run() {
  while (result_.fault.empty() && !events_.empty() && !is_done()) {
    if (options_.own != nullptr && options_.own->is_ended()) {
      broken("the caller has ended it");
      break;
    }
    const SimEvent event = events_.pop();
    now_ms_ = event.at_ms;
    if (faults_.are_on() && oracle_.version() >= faulty_until_version_) {
      faults_.end();
      calm_since_ms_ = now_ms_;
      if (options_.trust.is_byzantine) {
        drop_link(devices_.back()->session);  // what it said of itself counts as long as its session
      }
    }
    inject();
    handle(event);
    if (server_ != nullptr) {
      check_server();
      schedule_tick();
    }
    if (++result_.event_count > event_count_max() ||
        (!faults_.are_on() && now_ms_ > calm_since_ms_ + kCalmMaxMs + kCalmMaxMs * parameters_.version_count() / 10)) {
      broken("the run does not come to its end: version " + std::to_string(oracle_.version()) + " after " +
             std::to_string(now_ms_) + " ms");
    }
  }
  if (result_.fault.empty()) {
    check_end();
  }
  fill_result();
  return result_;
}

// What must hold of the server whenever it stands still.
void Simulation::check_server() {
  broken(oracle_.on_state(*server_));
  broken(holds_.check(*server_, now_ms_));
  broken(options_.device_count <= kCountedMax ? server_->fleet().find_miscount() : "");
  // One record for each device's task or verdict, a version, a run event, and the operator's: more would be a queue
  // without a bound.
  if (pending_.size() > 2 * devices_.size() + 3) {
    broken("more records wait for the disk than the fleet can cause");
  }
  const bool is_open = server_->run_state() == gs_RunState_RUN_STATE_ACTIVE && pending_.empty() && !is_disk_full_;
  if (is_open && server_->next_tick_ms() == kNever) {
    broken("the open round has no deadline");
  }
}

void Simulation::check_end() {
  if (!is_done()) {
    broken("nothing is left to happen, and the run is not at its end");
    return;
  }
  Coordinator replayed(kRun, parameters_, device_names());  // with one sum, whatever the run had
  FoldedCounts counts;
  broken(check_end_of_run(parameters_, store_.records(), *server_, waits_for_all(options_), &replayed, &counts));
  result_.late_count = counts.late;
  result_.partial_count = counts.partial;
  result_.line_count = counts.lines;
}

void Simulation::handle(const SimEvent& event) {
  SimDevice& device = *devices_[event.device];
  switch (event.kind) {
    case SimEventKind::kPoll:
      if (device.begin_poll(event.at_ms)) {
        poll(event.device);
      }
      return;
    case SimEventKind::kConnected:
    case SimEventKind::kConnectFailed:
    case SimEventKind::kCloseDown:
    case SimEventKind::kFrameDown:
      handle_down(event);
      return;
    case SimEventKind::kFrameUp:
    case SimEventKind::kCloseUp:
      if (!network_.hold_back(event, now_ms_)) {
        handle_up(event);
      }
      return;
    case SimEventKind::kRelease:
      for (const SimEvent& held : network_.release(event.session)) {
        handle_up(held);
      }
      return;
    case SimEventKind::kSessionDue:
      on_session_due(event);
      return;
    case SimEventKind::kCommit:
      commit();
      return;
    case SimEventKind::kTick:
      if (server_ != nullptr && event.at_ms == tick_ms_) {
        tick_ms_ = kNever;
        server_->on_tick(now_ms_);
        take_server_actions();
      }
      return;
    case SimEventKind::kDeviceBoot:
      if (!device.is_alive()) {
        device.boot();
        schedule_poll(device, now_ms_);
      }
      return;
    case SimEventKind::kServerBoot:
      boot_server();
      return;
    case SimEventKind::kResume:
      resume();
      return;
  }
}

// What a device learns of its session.
void Simulation::handle_down(const SimEvent& event) {
  SimDevice& device = *devices_[event.device];
  if (!device.hears(event.session) || network_.vanishes(event)) {
    return;
  }
  const SessionNews news = event.kind == SimEventKind::kConnected   ? SessionNews::kConnected
                           : event.kind == SimEventKind::kFrameDown ? SessionNews::kFrame
                                                                    : SessionNews::kEnd;
  device.learn(news, event.bytes, now_ms_);
  schedule_poll(device, now_ms_);
}

// What the server learns of a session.
void Simulation::handle_up(const SimEvent& event) {
  if (server_ == nullptr || network_.find(event.session) == nullptr || network_.vanishes(event)) {
    return;
  }
  if (event.kind == SimEventKind::kFrameUp) {
    on_frame_up(event);
  } else {
    network_.close(event.session);
    holds_.forget(event.session);
    server_->on_session_closed(event.session, now_ms_);
    take_server_actions();
  }
}

// ---- Devices ----

void Simulation::schedule_poll(SimDevice& device, uint64_t at_ms) {
  if (device.wants_poll(at_ms)) {
    push(at_ms, SimEventKind::kPoll, device.index(), 0);
  }
}

void Simulation::poll(uint32_t index) {
  SimDevice& device = *devices_[index];
  const bool was_training = device.client().state() == ClientState::kTrain;
  const ClientAction action = device.client().poll(now_ms_);
  if (faults_.may(Fault::kDeviceCrash, kActionOdds)) {
    faults_.count(Fault::kDeviceCrash);
    crash_device(index);
    return;
  }
  do_client_action(index, action, was_training ? device.step_ms : 0);
}

void Simulation::do_client_action(uint32_t index, const ClientAction& action, uint64_t cost_ms) {
  SimDevice& device = *devices_[index];
  uint64_t next_ms = now_ms_ + cost_ms;
  switch (action.kind) {
    case ClientActionKind::kWait:
      if (action.wake_ms == kNever) {
        broken("a device waits without a deadline");
      }
      next_ms = std::max(next_ms, action.wake_ms);
      break;
    case ClientActionKind::kConnect:
      device.session = next_session_++;
      device.last_up_ms = now_ms_;
      device.last_down_ms = now_ms_;
      device.reader().reset();
      if (server_ == nullptr) {
        push(now_ms_ + network_.latency_ms(), SimEventKind::kConnectFailed, index, device.session);
      } else {
        network_.open(device.session, index);
        expect_device(device.session, kHandshakeDeadlineMs + kAnswerDeadlineMs);
        push(now_ms_ + network_.latency_ms(), SimEventKind::kConnected, index, device.session);
      }
      break;
    case ClientActionKind::kSend:
      send_up(index, action.bytes);
      device.client().on_sent(now_ms_);
      break;
    case ClientActionKind::kDisconnect:
      if (device.session != 0) {
        push(std::max(device.last_up_ms, now_ms_ + 1), SimEventKind::kCloseUp, index, device.session);
        device.session = 0;
      }
      break;
    case ClientActionKind::kSave:
      device.save(action);
      device.client().on_saved(Status::kOk, now_ms_);
      break;
    case ClientActionKind::kSaveStep:
      device.save_step(action);
      break;
  }
  schedule_poll(device, next_ms);
}

void Simulation::send_up(uint32_t index, std::span<const uint8_t> bytes) {
  SimDevice& device = *devices_[index];
  const std::vector<uint8_t> frame(bytes.begin(), bytes.end());
  device.last_up_ms = std::max(device.last_up_ms, now_ms_ + network_.latency_ms());
  push(device.last_up_ms, SimEventKind::kFrameUp, index, device.session, frame);
  if (device.client().state() == ClientState::kUpload && faults_.may(Fault::kDuplicate, kFrameOdds / 2)) {
    faults_.count(Fault::kDuplicate);
    push(device.last_up_ms, SimEventKind::kFrameUp, index, device.session, frame);
  }
}

void Simulation::crash_device(uint32_t index) {
  SimDevice& device = *devices_[index];
  result_.client_deadline_count += device.client().counters().deadlines_missed;
  device.crash();
  if (device.session != 0) {
    push(now_ms_ + network_.latency_ms(), SimEventKind::kCloseUp, index, device.session);
    device.session = 0;
  }
  push(now_ms_ + dice_.between(1, 2000), SimEventKind::kDeviceBoot, index, 0);
}

// Both ends learn of it, each in its own time; frames that would come later are lost.
bool Simulation::drop_link(uint64_t session) {
  const SimLink* const link = network_.find(session);
  if (link == nullptr || network_.is_silent(session)) {
    return false;
  }
  const uint32_t index = link->device;
  network_.close(session);
  push(now_ms_ + network_.latency_ms(), SimEventKind::kCloseDown, index, session);
  if (server_ != nullptr) {
    holds_.forget(session);
    server_->on_session_closed(session, now_ms_);
    take_server_actions();
  }
  return true;
}

// ---- Server ----

std::vector<std::string> Simulation::device_names() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < options_.device_count; ++i) {
    names.push_back("d" + std::to_string(i));
  }
  return names;
}

void Simulation::boot_server() {
  if (server_ != nullptr) {
    return;
  }
  RunParameters served = parameters_;
  served.steps->server_step *= options_.plants.step ? 1.25F : 1.0F;
  server_ = std::make_unique<Coordinator>(kRun, served, device_names(), options_.aggregator_count, run_nonce_);
  server_->set_limits({{}, kHoldLimitMs});
  if (options_.plants.double_fold) {
    server_->plant_double_fold_for_test();
  }
  server_->set_checkpoints(kCheckpointRounds * options_.device_count, 0);
  replay_kept();
  if (!result_.fault.empty()) {
    return;
  }
  tick_ms_ = kNever;
  note_chain();
  server_->start(now_ms_);
  take_server_actions();
  follow_operator();
}

void Simulation::crash_server() {
  server_.reset();
  holds_.forget_all();
  checkpoint_.reset();
  pending_.clear();
  is_commit_slow_ = false;
  is_commit_due_ = false;
  is_disk_full_ = false;
  for (const auto& [session, link] : network_.links()) {
    push(now_ms_ + network_.latency_ms(), SimEventKind::kCloseDown, link.device, session);
  }
  network_.close_all();
  push(now_ms_ + dice_.between(1, 3000), SimEventKind::kServerBoot, 0, 0);
}

void Simulation::take_server_actions() {
  if (server_ == nullptr) {
    return;
  }
  const CoordinatorCounters& counters = server_->counters();
  result_.snapshot_count = std::max(result_.snapshot_count, counters.snapshots_sent);
  result_.log_count = std::max(result_.log_count, counters.records_sent);
  result_.duplicate_count = std::max(result_.duplicate_count, counters.updates_duplicate);
  for (const Action& action : server_->take_actions()) {
    if (faults_.may(Fault::kServerCrash, kActionOdds)) {
      faults_.count(Fault::kServerCrash);
      crash_server();
      return;
    }
    if (!do_server_action(action)) {
      return;
    }
  }
}

bool Simulation::do_server_action(const Action& action) {
  const SimLink* const link = network_.find(action.session);
  switch (action.kind) {
    case ActionKind::kPersist:
      pending_.push_back(action.record);
      if (!is_commit_due_) {
        is_commit_due_ = true;
        push(now_ms_ + dice_.between(1, 10), SimEventKind::kCommit, 0, 0);
      }
      break;
    case ActionKind::kSend:
    case ActionKind::kClose: {
      if (link == nullptr) {
        break;
      }
      const uint32_t index = link->device;
      const uint64_t at_ms = arrival_down(action.session);
      if (action.kind == ActionKind::kClose) {
        push(at_ms, SimEventKind::kCloseDown, index, action.session);
        network_.close(action.session);
        holds_.forget(action.session);
        server_->on_session_closed(action.session, now_ms_);
        break;
      }
      const bool is_welcome = action.message.which_body == gs_ServerMessage_welcome_tag;
      broken(oracle_.on_message(index, action.message, is_welcome ? link->hello : link->pull));
      broken(holds_.on_sent(action.session, action.message, now_ms_));
      send_down(action.session, at_ms, action.message);
      note_sent(action.session, action.message);
      break;
    }
    case ActionKind::kCheckpoint:
      checkpoint_ = action.checkpoint;
      break;
    case ActionKind::kCompareMark: {
      // The devices of a schedule know one server, which never loses what is durable.
      const uint64_t before = server_->counters().history.journal_forked;
      server_->on_mark_compared(action.device, action.mark, find_mark(store_, action.mark), now_ms_);
      const bool is_forked = server_->counters().history.journal_forked != before;
      broken(is_forked && !is_byzantine(action.device) ? "a device was told of a record that is not there" : "");
      break;
    }
    case ActionKind::kPublish:
      broken(action.version == oracle_.version() ? "" : "a version was published before it was durable");
      break;
    case ActionKind::kLog:
      if (options_.on_log != nullptr) {
        options_.on_log(now_ms_, "server", std::string(action.event->id) + " " + action.text);
      }
      break;
  }
  return result_.fault.empty();
}

void Simulation::on_frame_up(const SimEvent& event) {
  SimLink* const link = network_.find(event.session);
  if (link == nullptr || server_ == nullptr) {
    return;
  }
  network_.note_arrival(event);
  link->reader.feed(event.bytes);
  DeviceMessage message;
  if (!link->reader.has_frame() || decode_message(link->reader.payload(), &message) != Status::kOk) {
    broken("a frame of a device does not decode");
    return;
  }
  link->reader.pop();
  if (link->device + 1 == options_.device_count) {
    liar_.tell(&message);
  }
  if (is_byzantine(link->device) && faults_.are_on()) {
    byzantine_.tell(&message);
  }
  if (message.which_body == gs_DeviceMessage_hello_tag) {
    link->hello = oracle_.request(message.body.hello.lost_task_sequence);
  } else if (message.which_body != gs_DeviceMessage_status_report_tag) {
    link->pull = oracle_.request(0);  // an update too: its Ack may stand for a Pull
  }
  holds_.on_message(event.session, link->device, message, *server_, now_ms_);
  expect_device(event.session, kSessionIdleMaxMs);  // until this end has answered
  const uint64_t refused_before = server_->counters().updates_without_time;
  const bool says_what_it_did = !is_byzantine(link->device);
  server_->on_message(event.session, link->device, message, now_ms_);
  const bool is_refused = server_->counters().updates_without_time != refused_before;
  broken(is_refused && says_what_it_did ? "an update was refused for want of time, and its device says what it did"
                                        : "");
  take_server_actions();
}

// When what leaves the server now is there; the frames of one session stay in order.
uint64_t Simulation::arrival_down(uint64_t session) {
  SimDevice& device = *devices_[network_.find(session)->device];
  uint64_t at_ms = now_ms_ + network_.latency_ms();
  if (device.session == session) {
    at_ms = std::max(device.last_down_ms, at_ms);
    device.last_down_ms = at_ms;
  }
  return at_ms;
}

void Simulation::send_down(uint64_t session, uint64_t at_ms, const ServerMessage& message) {
  std::vector<uint8_t> frame(kFrameSizeMax);
  const Result<size_t> size = encode_frame(message, frame.data());
  if (!size.ok()) {
    broken("a message of the server does not fit a frame");
    return;
  }
  frame.resize(size.value());
  push(at_ms, SimEventKind::kFrameDown, network_.find(session)->device, session, std::move(frame));
}

void Simulation::expect_device(uint64_t session, uint64_t patience_ms) {
  network_.expect_device(session, now_ms_, patience_ms);
}

void Simulation::note_sent(uint64_t session, const ServerMessage& message) {
  uint64_t patience_ms = kAnswerDeadlineMs;
  if (message.which_body == gs_ServerMessage_task_tag) {
    const uint32_t deadline_ms = message.body.task.deadline_ms;
    patience_ms = deadline_ms == 0 ? kSessionIdleMaxMs : patience_ms + deadline_ms;
  } else if (message.which_body == gs_ServerMessage_ack_tag) {
    patience_ms = message.body.ack.hold ? kSessionIdleMaxMs : patience_ms + message.body.ack.retry.max_ms;
  } else if (message.which_body == gs_ServerMessage_wait_tag) {
    patience_ms += message.body.wait.retry.max_ms;
  }
  expect_device(session, patience_ms);
}

void Simulation::on_session_due(const SimEvent& event) {
  SimLink* const link = network_.find(event.session);
  if (link == nullptr || server_ == nullptr || link->timer_ms != event.at_ms) {
    return;
  }
  link->timer_ms = kNever;
  if (now_ms_ < link->due_ms) {
    expect_device(event.session, link->due_ms - now_ms_);
    return;
  }
  ++result_.session_deadline_count;
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_refuse_tag;
  message.body.refuse.reason = gs_Reason_REASON_DEADLINE;
  const uint64_t at_ms = arrival_down(event.session);
  send_down(event.session, at_ms, message);
  push(at_ms, SimEventKind::kCloseDown, event.device, event.session);
  network_.close(event.session);
  holds_.forget(event.session);
  server_->on_session_closed(event.session, now_ms_);
  take_server_actions();
}

void Simulation::commit() {
  if (server_ == nullptr || !is_commit_due_) {
    return;
  }
  if (pending_.empty()) {
    is_commit_due_ = false;
    return;
  }
  if (slow_commit()) {
    return;
  }
  if (faults_.may(Fault::kCrashBeforeCommit, kCommitOdds)) {
    faults_.count(Fault::kCrashBeforeCommit);
    crash_server();
    return;
  }
  if (faults_.may(Fault::kStorageFull, kCommitOdds)) {
    faults_.count(Fault::kStorageFull);
    is_disk_full_ = true;
    push(now_ms_ + dice_.between(1, 2000), SimEventKind::kCommit, 0, 0);
    server_->on_storage_failed(now_ms_);
    take_server_actions();
    return;
  }
  GS_ASSERT(store_.append(pending_) == StoreStatus::kOk);
  GS_ASSERT(kept_.append(pending_) == StoreStatus::kOk);
  for (const JournalRecord& record : pending_) {
    broken(oracle_.on_record(record));
  }
  const uint64_t sequence = pending_.back().sequence();
  note_commit();
  pending_.clear();
  is_commit_due_ = false;
  if (faults_.may(Fault::kCrashAfterCommit, kCommitOdds)) {
    faults_.count(Fault::kCrashAfterCommit);
    crash_server();
    return;
  }
  keep_checkpoint();
  note_chain();
  server_->on_persisted(sequence, now_ms_);
  if (is_disk_full_) {
    is_disk_full_ = false;
    server_->on_storage_recovered(now_ms_);
  }
  // By the server's own counts: records of tasks may still be on their way to the disk.
  const auto has_used_share = [this](uint32_t device) {
    const ShareWindow& shares = server_->fleet().shares();
    return share_versions(parameters_) > 0 && server_->round_progress().extensions == 0 &&
           server_->run_state() == gs_RunState_RUN_STATE_ACTIVE && limits_shares(parameters_, shares.device_count()) &&
           shares.update_count(device) >= share_limit(parameters_);
  };
  broken(holds_.check_woken(*server_, has_used_share, now_ms_));
  take_server_actions();
}

void Simulation::schedule_tick() {
  const uint64_t next_ms = server_->next_tick_ms();
  if (next_ms < tick_ms_) {
    tick_ms_ = std::max(next_ms, now_ms_);
    push(tick_ms_, SimEventKind::kTick, 0, 0);
  }
}

}  // namespace gradstream
