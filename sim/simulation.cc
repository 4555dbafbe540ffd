#include "sim/simulation.h"

#include <algorithm>
#include <limits>

#include "server/run/parts.h"

namespace gradstream {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
// After the last fault every device stands at the last version within so much virtual time. Reason: the longest chain
// is an answer deadline, a back-off, a session and a round's slowest device.
constexpr uint64_t kCalmMaxMs = 180'000;
constexpr uint64_t kEventCountMax = 2'000'000;
constexpr uint32_t kRun = 7;

// Odds of a spontaneous fault at each event, and of those that belong to a frame, a commit or an action.
constexpr uint32_t kFaultOdds = 70;
constexpr uint32_t kFrameOdds = 40;
constexpr uint32_t kCommitOdds = 40;
constexpr uint32_t kActionOdds = 500;
// How long reordered frames are held back: mostly a few exchanges of others, sometimes beyond the client's deadline, so
// that the session that follows overtakes the old one.
constexpr uint64_t kHoldShortMs = 300;
constexpr uint64_t kHoldLongMs = 2 * kAnswerDeadlineMs;
constexpr uint32_t kHoldLongOdds = 4;
// The session_idle_max_ms of the simulated shell. Reason: the default is ten minutes, longer than a run here.
constexpr uint64_t kSessionIdleMaxMs = 60'000;

// How long the pause of an operator lasts. Reason: shorter and longer than report_deadline_ms with stragglers; devices
// ask all the time, and longer pauses would be most of a schedule.
constexpr uint64_t kPauseMinMs = 50;
constexpr uint64_t kPauseMaxMs = 800;

void set_participation(const SimOptions& options, RunParameters* parameters) {
  RunParameters& p = *parameters;
  p.participation = options.participation;
  if (options.participation == Participation::kSchemeOne) {
    p.cohort_size = (options.device_count + 1) / 2;
  }
  if (options.participation == Participation::kSchemeTwo) {
    p.participation_probability = "0.7 0.3 0.9 0.5";
    const bool is_biased = p.solver == SolverId::kProjection && p.correction_form != CorrectionForm::kUnbiased;
    p.participation_weights = is_biased ? ParticipationWeights::kBiased : ParticipationWeights::kCounted;
    p.fold_weight = FoldWeight::kUniform;
  }
}

void set_policy(const SimOptions& options, RunParameters* parameters) {
  RunParameters& p = *parameters;
  if (options.has_stragglers) {
    p.local_step_count = 6;
    p.steps_min = 1;
    p.task_deadline_ms = 60;
    p.work = options.is_timed ? Work::kTimed : Work::kFixed;
    p.report_deadline_ms = 300;
    const uint32_t asked = p.cohort_size > 0 ? p.cohort_size : options.device_count;
    p.update_goal = asked > 1 ? asked - 1 : 1;
    p.update_min = 1;
    p.late = p.solver == SolverId::kSvrg ? LatePolicy::kDrop : LatePolicy::kWeight;
    p.staleness_max = 3;
  }
  if (options.buffer_size > 0) {
    p.buffer_size = options.buffer_size;
    p.update_goal = p.update_min = 0;
    p.late = LatePolicy::kWeight;
    p.staleness_max = 6;
    if (p.solver == SolverId::kGradientStream) {
      p.delay_rule = DelayRule::kAsgd;
      p.fold_weight = FoldWeight::kUniform;
      p.server_step = Real{1} / 2;
    }
  }
}

}  // namespace

bool has_one_digest(const SimOptions& options) { return !options.has_stragglers && options.buffer_size == 0; }

RunParameters sim_parameters(const SimOptions& options) {
  const bool is_scalar = options.stream == StreamKind::kScalarStream;
  RunParameters p;
  p.name = "simulated";
  p.seed = options.seed;
  p.manifold = ManifoldId::kStiefel;
  p.shape = {16, 2};
  p.problem = kKpcaOps.name;
  if (options.is_product) {
    p.manifold = ManifoldId::kProduct;
    p.parts = "stiefel 8x2 polar smooth, oblique 4x3, sphere 4x1, euclidean 2x1";
    p.shape = {};
    set_parts(&p);
  }
  if (options.is_grassmann) {
    p.manifold = ManifoldId::kGrassmann;
  }
  if (options.is_fixed_rank) {
    p.manifold = ManifoldId::kFixedRank;
    p.matrix = "8x6";
    p.rank = 2;
    p.shape = {};
    p.problem = kCompletionOps.name;
    set_parts(&p);
  }
  p.solver = is_scalar || options.uploads_means ? SolverId::kProjection : options.tangent_solver;
  p.estimator = is_scalar ? EstimatorId::kProjectionOneSided : EstimatorId::kAnalyticGradient;
  p.direction_count = 4;
  p.local_step_count = 2;
  p.batch_size = 4;
  // Without a memory, a device that was not asked for some versions may get a snapshot in place of the record that its
  // correction needs. That depends on its schedule, so only a run without a correction has one digest.
  const bool is_own = options.correction_form == CorrectionForm::kLocal;
  const bool has_form = p.solver == SolverId::kProjection && (options.participation == Participation::kAll || !is_own);
  p.correction_form = has_form ? options.correction_form : CorrectionForm::kNone;
  p.step_size = 0.05F;
  p.step_decay = 0.1F;
  p.upload_encoding = options.encoding;
  p.record_encoding = p.has_memory() ? Encoding::kF32 : options.encoding;
  p.error_feedback = options.error_feedback;
  p.fold_weight = p.has_memory() && !options.memory_weighs_samples ? FoldWeight::kUniform : p.fold_weight;
  p.round_count = options.round_count;
  p.device_count = options.device_count;
  p.report_deadline_ms = 3000;
  p.extension_count_max = 2;
  p.retry_min_ms = 5;
  p.retry_max_ms = 50;
  if (p.solver == SolverId::kTangentMean) {
    p.proximal = Real{1} / 8;
  }
  if (options.proximal_form != ProximalForm::kGeodesic) {
    p.proximal_form = options.proximal_form;
    p.proximal = Real{1} / 8;
    p.proximal_sigma = options.proximal_form == ProximalForm::kLorentz ? 2 : 1;
    p.correction_form = CorrectionForm::kNone;
  }
  if (p.solver == SolverId::kSvrg) {
    p.batch_mode = BatchMode::kAll;
    p.step_rule = StepRule::kBarzilaiBorwein;
    p.step_decay = 0;
    p.barzilai_borwein = BarzilaiBorwein::kFirst;
    p.step_min = p.step_size / 8;
    p.step_max = p.step_size * 4;
  }
  set_participation(options, &p);
  set_policy(options, &p);
  p.weight_share_max = options.weight_share_max;
  return p;
}

Simulation::Simulation(const SimOptions& options, uint32_t schedule)
    : options_(options), parameters_(sim_parameters(options)), dice_(options.seed, schedule), oracle_(parameters_) {
  const uint32_t last_version = parameters_.version_count();
  faulty_until_version_ = static_cast<uint32_t>(dice_.between(last_version / 2, last_version));
  is_faulty_ = options.fault_bits != 0;
  for (uint32_t i = 0; i < options.device_count; ++i) {
    devices_.push_back(std::make_unique<SimDevice>(i, parameters_));
    devices_[i]->step_ms = static_cast<uint32_t>(dice_.between(1, 20));
    devices_[i]->poll_ms = kNever;
    push(dice_.between(0, 100), EventKind::kDeviceBoot, i, 0);
  }
  push(dice_.between(0, 100), EventKind::kServerBoot, 0, 0);
}

// ---- Time and chance ----

void Simulation::push(uint64_t at_ms, EventKind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes) {
  events_.push(at_ms, kind, device, session, std::move(bytes));
}

bool Simulation::may(Fault fault, uint32_t odds) {
  const auto index = static_cast<uint32_t>(fault);
  if (!is_faulty_ || (options_.fault_bits >> index & 1U) == 0 || !dice_.one_in(odds)) {
    return false;
  }
  return true;
}

uint64_t Simulation::latency() {
  uint64_t latency_ms = dice_.between(1, 10);
  if (may(Fault::kDelay, kFrameOdds)) {
    ++result_.faults[static_cast<size_t>(Fault::kDelay)];
    latency_ms *= 100;
  }
  return latency_ms;
}

void Simulation::broken(const std::string& sentence) {
  if (result_.fault.empty() && !sentence.empty()) {
    result_.fault = sentence;
  }
}

// Now and then one of the faults that need no occasion.
void Simulation::inject() {
  constexpr std::array<Fault, 7> kSpontaneous = {Fault::kLoss,    Fault::kDeviceCrash, Fault::kServerCrash,
                                                 Fault::kBitFlip, Fault::kSlow,        Fault::kSilence,
                                                 Fault::kPause};
  const Fault fault = kSpontaneous[dice_.between(0, kSpontaneous.size() - 1)];
  if (!may(fault, kFaultOdds)) {
    return;
  }
  const bool has_happened = inject_into(fault, static_cast<uint32_t>(dice_.between(0, devices_.size() - 1)));
  result_.faults[static_cast<size_t>(fault)] += has_happened ? 1 : 0;
}

bool Simulation::inject_into(Fault fault, uint32_t index) {
  SimDevice& device = *devices_[index];
  bool has_happened = true;
  if (fault == Fault::kLoss) {
    has_happened = drop_link(device.session);
  } else if (fault == Fault::kSilence) {
    has_happened = silence(device.session);
  } else if (fault == Fault::kDeviceCrash && device.is_alive()) {
    crash_device(index);
  } else if (fault == Fault::kServerCrash && server_ != nullptr) {
    crash_server();
  } else if (fault == Fault::kPause) {
    has_happened = pause();
  } else if (fault == Fault::kBitFlip) {
    has_happened = device.flip_bit(dice_.between(0, 1U << 20));
  } else if (fault == Fault::kSlow) {
    device.step_ms = device.step_ms > 100 ? device.step_ms / 20 : device.step_ms * 20;
  } else {
    has_happened = false;
  }
  return has_happened;
}

bool Simulation::is_done() const {
  if (server_ == nullptr || oracle_.version() != parameters_.version_count() || !pending_.empty()) {
    return false;
  }
  return std::all_of(devices_.begin(), devices_.end(), [this](const auto& device) {
    return device->is_alive() && device->client().run_finished() &&
           device->client().replica().version() == oracle_.version() &&
           device->client().replica().digest() == oracle_.digest();
  });
}

SimResult Simulation::run() {
  while (result_.fault.empty() && !events_.empty() && !is_done()) {
    const Event event = events_.pop();
    now_ms_ = event.at_ms;
    if (is_faulty_ && oracle_.version() >= faulty_until_version_) {
      is_faulty_ = false;
      calm_since_ms_ = now_ms_;
    }
    inject();
    handle(event);
    if (server_ != nullptr) {
      check_server();
      schedule_tick();
    }
    if (++result_.event_count > kEventCountMax ||
        (!is_faulty_ && now_ms_ > calm_since_ms_ + kCalmMaxMs + kCalmMaxMs * parameters_.version_count() / 10)) {
      broken("the run does not come to its end: version " + std::to_string(oracle_.version()) + " after " +
             std::to_string(now_ms_) + " ms");
    }
  }
  if (result_.fault.empty()) {
    check_end();
  }
  for (const auto& device : devices_) {
    result_.client_deadline_count += device->is_alive() ? device->client().counters().deadlines_missed : 0;
  }
  result_.digest = oracle_.digest();
  result_.virtual_ms = now_ms_;
  result_.record_count = store_.records().size();
  return result_;
}

// What must hold of the server whenever it stands still.
void Simulation::check_server() {
  broken(oracle_.on_state(*server_));
  // One record for each device's task or verdict, a version, a run event, and the operator's: more would be a queue
  // without a bound.
  if (pending_.size() > 2 * devices_.size() + 3) {
    broken("more records wait for the disk than the fleet can cause");
  }
  if (server_->counters().updates_without_time > 0) {
    broken("an update was refused for want of time, and every device here says what it did");
  }
  const bool is_open = server_->run_state() == gs_RunState_RUN_STATE_ACTIVE && pending_.empty() && !is_disk_full_;
  if (is_open && server_->next_tick_ms() == kNever) {
    broken("the open round has no deadline");
  }
}

// The journal alone gives the same run once more and, where all are waited for, holds every device's update once in
// every version.
void Simulation::check_end() {
  if (!is_done()) {
    broken("nothing is left to happen, and the run is not at its end");
    return;
  }
  Coordinator replayed(kRun, parameters_, device_names());
  const std::vector<uint32_t> nobody(devices_.size());
  std::vector<std::vector<uint32_t>> folded(parameters_.version_count() + 1, nobody);
  std::vector<std::vector<uint32_t>> wanted(parameters_.version_count() + 2, nobody);
  for (const JournalRecord& record : store_.records()) {
    if (replayed.replay(record) != Status::kOk) {
      broken("the journal does not replay");
      return;
    }
    if (record.kind == RecordKind::kVersion) {
      std::vector<uint32_t>& asked = wanted[record.version + 1];
      for (const DeviceStatus& device : replayed.device_statuses()) {
        asked[device.index] = device.is_asked ? 1 : 0;
      }
    }
    if (record.kind == RecordKind::kUpdate) {
      ++folded[record.version][record.device];
      result_.late_count += record.verdict == gs_Verdict_VERDICT_LATE ? 1 : 0;
      const bool is_anchor = record.version % parameters_.phase_count() == 1;
      result_.partial_count += !is_anchor && record.steps_done < parameters_.local_step_count ? 1 : 0;
    }
  }
  if (replayed.state_text() != server_->state_text()) {
    broken("the replayed journal gives another state");
  }
  for (uint32_t version = 1; version <= parameters_.version_count() && has_one_digest(options_); ++version) {
    if (folded[version] != wanted[version]) {
      broken("an asked device's update is not in version " + std::to_string(version) + " exactly once");
    }
  }
}

void Simulation::handle(const Event& event) {
  SimDevice& device = *devices_[event.device];
  switch (event.kind) {
    case EventKind::kPoll:
      if (device.is_alive() && device.poll_ms == event.at_ms) {
        device.poll_ms = kNever;
        poll(event.device);
      }
      return;
    case EventKind::kConnected:
    case EventKind::kConnectFailed:
    case EventKind::kCloseDown:
    case EventKind::kFrameDown:
      handle_down(event);
      return;
    case EventKind::kFrameUp:
    case EventKind::kCloseUp:
      if (!hold_back(event)) {
        handle_up(event);
      }
      return;
    case EventKind::kRelease:
      release(event.session);
      return;
    case EventKind::kSessionDue:
      on_session_due(event);
      return;
    case EventKind::kCommit:
      commit();
      return;
    case EventKind::kTick:
      if (server_ != nullptr && event.at_ms == tick_ms_) {
        tick_ms_ = kNever;
        server_->on_tick(now_ms_);
        take_server_actions();
      }
      return;
    case EventKind::kDeviceBoot:
      if (!device.is_alive()) {
        device.boot();
        device.poll_ms = kNever;
        schedule_poll(device, now_ms_);
      }
      return;
    case EventKind::kServerBoot:
      boot_server();
      return;
    case EventKind::kResume:
      resume();
      return;
  }
}

// What a device learns of its session.
void Simulation::handle_down(const Event& event) {
  SimDevice& device = *devices_[event.device];
  if (!device.is_alive() || device.session != event.session || vanishes(event)) {
    return;
  }
  if (event.kind == EventKind::kConnected) {
    device.client().on_connected(now_ms_);
  } else if (event.kind == EventKind::kFrameDown) {
    device.reader().feed(event.bytes);
    device.client().on_frame(device.reader().payload(), now_ms_);
    device.reader().pop();
  } else {
    device.session = 0;
    device.client().on_connection_lost(Status::kClosed, now_ms_);
  }
  schedule_poll(device, now_ms_);
}

// What the server learns of a session.
void Simulation::handle_up(const Event& event) {
  if (server_ == nullptr || !links_.contains(event.session) || vanishes(event)) {
    return;
  }
  if (event.kind == EventKind::kFrameUp) {
    on_frame_up(event);
  } else {
    links_.erase(event.session);
    server_->on_session_closed(event.session, now_ms_);
    take_server_actions();
  }
}

// ---- Devices ----

void Simulation::schedule_poll(SimDevice& device, uint64_t at_ms) {
  if (at_ms < device.poll_ms) {
    device.poll_ms = at_ms;
    const auto same = [&](const auto& other) { return other.get() == &device; };
    const auto index = std::find_if(devices_.begin(), devices_.end(), same) - devices_.begin();
    push(at_ms, EventKind::kPoll, static_cast<uint32_t>(index), 0);
  }
}

void Simulation::poll(uint32_t index) {
  SimDevice& device = *devices_[index];
  const bool was_training = device.client().state() == ClientState::kTrain;
  const ClientAction action = device.client().poll(now_ms_);
  if (may(Fault::kDeviceCrash, kActionOdds)) {
    ++result_.faults[static_cast<size_t>(Fault::kDeviceCrash)];
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
        push(now_ms_ + latency(), EventKind::kConnectFailed, index, device.session);
      } else {
        links_[device.session].device = index;
        expect_device(device.session, kHandshakeDeadlineMs + kAnswerDeadlineMs);
        push(now_ms_ + latency(), EventKind::kConnected, index, device.session);
      }
      break;
    case ClientActionKind::kSend:
      send_up(index, action.bytes);
      device.client().on_sent(now_ms_);
      break;
    case ClientActionKind::kDisconnect:
      if (device.session != 0) {
        push(std::max(device.last_up_ms, now_ms_ + 1), EventKind::kCloseUp, index, device.session);
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
  device.last_up_ms = std::max(device.last_up_ms, now_ms_ + latency());
  push(device.last_up_ms, EventKind::kFrameUp, index, device.session, frame);
  if (device.client().state() == ClientState::kUpload && may(Fault::kDuplicate, kFrameOdds / 2)) {
    ++result_.faults[static_cast<size_t>(Fault::kDuplicate)];
    push(device.last_up_ms, EventKind::kFrameUp, index, device.session, frame);
  }
}

void Simulation::crash_device(uint32_t index) {
  SimDevice& device = *devices_[index];
  result_.client_deadline_count += device.client().counters().deadlines_missed;
  device.crash();
  if (device.session != 0) {
    push(now_ms_ + latency(), EventKind::kCloseUp, index, device.session);
    device.session = 0;
  }
  push(now_ms_ + dice_.between(1, 2000), EventKind::kDeviceBoot, index, 0);
}

// Both ends learn of it, each in its own time; frames that would come later are lost.
bool Simulation::drop_link(uint64_t session) {
  const auto link = links_.find(session);
  if (link == links_.end() || silences_.contains(session)) {
    return false;
  }
  const uint32_t index = link->second.device;
  links_.erase(link);
  push(now_ms_ + latency(), EventKind::kCloseDown, index, session);
  if (server_ != nullptr) {
    server_->on_session_closed(session, now_ms_);
    take_server_actions();
  }
  return true;
}

// Neither end learns of it: deadlines must end the session. False: nothing has happened yet, vanishes() counts it.
bool Simulation::silence(uint64_t session) {
  if (session != 0) {
    const uint64_t directions = dice_.between(1, 3);
    Silence& silence = silences_[session];
    silence.is_up = silence.is_up || (directions & 1U) != 0;
    silence.is_down = silence.is_down || (directions & 2U) != 0;
  }
  return false;
}

// Also the end of a session that one end sees does not come through to the other, and connecting takes both directions.
bool Simulation::vanishes(const Event& event) {
  const auto found = silences_.find(event.session);
  if (found == silences_.end()) {
    return false;
  }
  Silence& silence = found->second;
  const bool is_up = event.kind == EventKind::kFrameUp || event.kind == EventKind::kCloseUp;
  const bool is_down = event.kind == EventKind::kFrameDown || event.kind == EventKind::kCloseDown;
  const bool has_vanished = is_up ? silence.is_up : silence.is_down || (!is_down && silence.is_up);
  if (has_vanished && !silence.is_counted) {
    silence.is_counted = true;
    ++result_.faults[static_cast<size_t>(Fault::kSilence)];
  }
  return has_vanished;
}

// True: the frame, or the end of its session, comes later. Only the server can see an order between sessions, so only
// what goes to it is held back; one session's frames stay in order.
bool Simulation::hold_back(const Event& event) {
  const auto held = held_.find(event.session);
  if (held != held_.end()) {
    held->second.push_back(event);
    return true;
  }
  if (event.kind != EventKind::kFrameUp || !links_.contains(event.session) || !may(Fault::kReorder, kFrameOdds)) {
    return false;
  }
  const uint64_t hold_ms = dice_.between(1, dice_.one_in(kHoldLongOdds) ? kHoldLongMs : kHoldShortMs);
  push(now_ms_ + hold_ms, EventKind::kRelease, event.device, event.session);
  held_[event.session].push_back(event);
  return true;
}

void Simulation::release(uint64_t session) {
  const std::vector<Event> events = std::move(held_.at(session));
  held_.erase(session);
  if (delivered_order_ > events.front().order) {  // another session's: of this one nothing has arrived since
    ++result_.faults[static_cast<size_t>(Fault::kReorder)];
  }
  for (const Event& event : events) {
    handle_up(event);
  }
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
  served.server_step *= options_.plants_step ? 1.25F : 1.0F;
  server_ = std::make_unique<Coordinator>(kRun, served, device_names());
  if (options_.plants_double_fold) {
    server_->plant_double_fold_for_test();
  }
  for (const JournalRecord& record : store_.records()) {
    if (server_->replay(record) != Status::kOk) {
      broken("the journal does not replay after a crash");
      return;
    }
  }
  tick_ms_ = kNever;
  server_->start(now_ms_);
  take_server_actions();
  follow_operator();
}

void Simulation::crash_server() {
  server_.reset();
  pending_.clear();
  is_commit_due_ = false;
  is_disk_full_ = false;
  for (const auto& [session, link] : links_) {
    push(now_ms_ + latency(), EventKind::kCloseDown, link.device, session);
  }
  links_.clear();
  push(now_ms_ + dice_.between(1, 3000), EventKind::kServerBoot, 0, 0);
}

// False: there is nothing to pause.
bool Simulation::pause() {
  if (server_ == nullptr || is_disk_full_ || is_pause_wanted_ ||
      server_->run_state() == gs_RunState_RUN_STATE_FINISHED) {
    return false;
  }
  is_pause_wanted_ = true;
  follow_operator();
  push(now_ms_ + dice_.between(kPauseMinMs, kPauseMaxMs), EventKind::kResume, 0, 0);
  return true;
}

void Simulation::resume() {
  if (is_disk_full_) {
    push(now_ms_ + kPauseMinMs, EventKind::kResume, 0, 0);
    return;
  }
  is_pause_wanted_ = false;
  follow_operator();
}

// The wish stands in the database, the deed in the journal: a server that comes back after a crash follows the wish.
void Simulation::follow_operator() {
  if (server_ == nullptr) {
    return;
  }
  if (is_pause_wanted_) {
    server_->pause(now_ms_);
  } else {
    server_->resume(now_ms_);
  }
  take_server_actions();
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
    if (may(Fault::kServerCrash, kActionOdds)) {
      ++result_.faults[static_cast<size_t>(Fault::kServerCrash)];
      crash_server();
      return;
    }
    if (!do_server_action(action)) {
      return;
    }
  }
}

bool Simulation::do_server_action(const Action& action) {
  const auto link = links_.find(action.session);
  switch (action.kind) {
    case ActionKind::kPersist:
      pending_.push_back(action.record);
      if (!is_commit_due_) {
        is_commit_due_ = true;
        push(now_ms_ + dice_.between(1, 10), EventKind::kCommit, 0, 0);
      }
      break;
    case ActionKind::kSend:
    case ActionKind::kClose: {
      if (link == links_.end()) {
        break;
      }
      const uint32_t index = link->second.device;
      const uint64_t at_ms = arrival_down(action.session);
      if (action.kind == ActionKind::kClose) {
        push(at_ms, EventKind::kCloseDown, index, action.session);
        links_.erase(link);
        server_->on_session_closed(action.session, now_ms_);
        break;
      }
      const bool is_welcome = action.message.which_body == gs_ServerMessage_welcome_tag;
      broken(oracle_.on_message(index, action.message, is_welcome ? link->second.hello : link->second.pull));
      send_down(action.session, at_ms, action.message);
      note_sent(action.session, action.message);
      break;
    }
    case ActionKind::kPublish:
      broken(action.version == oracle_.version() ? "" : "a version was published before it was durable");
      break;
    case ActionKind::kLog:
      if (options_.on_log != nullptr) {
        options_.on_log(now_ms_, "server", action.event + " " + action.text);
      }
      break;
  }
  return result_.fault.empty();
}

void Simulation::on_frame_up(const Event& event) {
  const auto link = links_.find(event.session);
  if (link == links_.end() || server_ == nullptr) {
    return;
  }
  delivered_order_ = std::max(delivered_order_, event.order);
  link->second.reader.feed(event.bytes);
  DeviceMessage message;
  if (!link->second.reader.has_frame() || decode_message(link->second.reader.payload(), &message) != Status::kOk) {
    broken("a frame of a device does not decode");
    return;
  }
  link->second.reader.pop();
  if (message.which_body == gs_DeviceMessage_hello_tag) {
    link->second.hello = oracle_.request(message.body.hello.lost_task_sequence);
  } else if (message.which_body == gs_DeviceMessage_pull_tag) {
    link->second.pull = oracle_.request(0);
  }
  expect_device(event.session, kSessionIdleMaxMs);  // until this end has answered
  server_->on_message(event.session, link->second.device, message, now_ms_);
  take_server_actions();
}

// When what leaves the server now is there; the frames of one session stay in order.
uint64_t Simulation::arrival_down(uint64_t session) {
  SimDevice& device = *devices_[links_.at(session).device];
  uint64_t at_ms = now_ms_ + latency();
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
  push(at_ms, EventKind::kFrameDown, links_.at(session).device, session, std::move(frame));
}

// The bounds of the server's shell: see server/link/session.h.
void Simulation::expect_device(uint64_t session, uint64_t patience_ms) {
  Link& link = links_.at(session);
  link.due_ms = now_ms_ + patience_ms;
  if (link.due_ms < link.timer_ms) {
    link.timer_ms = link.due_ms;
    push(link.due_ms, EventKind::kSessionDue, link.device, session);
  }
}

void Simulation::note_sent(uint64_t session, const ServerMessage& message) {
  uint64_t patience_ms = kAnswerDeadlineMs;
  if (message.which_body == gs_ServerMessage_task_tag) {
    const uint32_t deadline_ms = message.body.task.deadline_ms;
    patience_ms = deadline_ms == 0 ? kSessionIdleMaxMs : patience_ms + deadline_ms;
  } else if (message.which_body == gs_ServerMessage_ack_tag) {
    patience_ms += message.body.ack.retry.max_ms;
  } else if (message.which_body == gs_ServerMessage_wait_tag) {
    patience_ms += message.body.wait.retry.max_ms;
  }
  expect_device(session, patience_ms);
}

void Simulation::on_session_due(const Event& event) {
  const auto link = links_.find(event.session);
  if (link == links_.end() || server_ == nullptr || link->second.timer_ms != event.at_ms) {
    return;
  }
  link->second.timer_ms = kNever;
  if (now_ms_ < link->second.due_ms) {
    expect_device(event.session, link->second.due_ms - now_ms_);
    return;
  }
  ++result_.session_deadline_count;
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_refuse_tag;
  message.body.refuse.reason = gs_Reason_REASON_DEADLINE;
  const uint64_t at_ms = arrival_down(event.session);
  send_down(event.session, at_ms, message);
  push(at_ms, EventKind::kCloseDown, event.device, event.session);
  links_.erase(link);
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
  if (may(Fault::kCrashBeforeCommit, kCommitOdds)) {
    ++result_.faults[static_cast<size_t>(Fault::kCrashBeforeCommit)];
    crash_server();
    return;
  }
  if (may(Fault::kStorageFull, kCommitOdds)) {
    ++result_.faults[static_cast<size_t>(Fault::kStorageFull)];
    is_disk_full_ = true;
    push(now_ms_ + dice_.between(1, 2000), EventKind::kCommit, 0, 0);
    server_->on_storage_failed(now_ms_);
    take_server_actions();
    return;
  }
  GS_ASSERT(store_.append(pending_) == StoreStatus::kOk);
  for (const JournalRecord& record : pending_) {
    broken(oracle_.on_record(record));
  }
  const uint64_t sequence = pending_.back().sequence;
  pending_.clear();
  is_commit_due_ = false;
  if (may(Fault::kCrashAfterCommit, kCommitOdds)) {
    ++result_.faults[static_cast<size_t>(Fault::kCrashAfterCommit)];
    crash_server();
    return;
  }
  server_->on_persisted(sequence, now_ms_);
  if (is_disk_full_) {
    is_disk_full_ = false;
    server_->on_storage_recovered(now_ms_);
  }
  take_server_actions();
}

void Simulation::schedule_tick() {
  const uint64_t next_ms = server_->next_tick_ms();
  if (next_ms < tick_ms_) {
    tick_ms_ = std::max(next_ms, now_ms_);
    push(tick_ms_, EventKind::kTick, 0, 0);
  }
}

}  // namespace gradstream
