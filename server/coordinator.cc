#include "server/coordinator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "server/intake.h"
#include "server/ledger.h"
#include "server/straggler.h"

namespace gradstream {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
// Messages held back for one session, at most. Reason: a Welcome, an Ack and the end of one answer to a Pull, with
// room; beyond it the peer floods. The chunks of a snapshot are never held: a Pull waits as itself.
constexpr uint32_t kHeldMax = 64;
// Refusals of one device in one version before it gets no more tasks in it. Reason: a device that fails three times in
// the same way would fail for ever.
constexpr uint32_t kRefusedTasksMax = 3;
// Retry window of a run that is over. Reason: nothing changes any more but by an operator.
constexpr gs_RetryWindow kOverWindow = {30'000, 60'000};

std::string hex(uint64_t value) {
  std::array<char, 16> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  const std::string digits(text.data(), end);
  return std::string(16 - digits.size(), '0') + digits;
}

std::string number(double value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6).ptr;
  return {text.data(), end};
}

// key=value pairs of a log line.
class Line {
 public:
  Line& add(const char* key, const std::string& value) {
    text_ += (text_.empty() ? "" : " ") + std::string(key) + "=" + value;
    return *this;
  }
  Line& add(const char* key, uint64_t value) { return add(key, std::to_string(value)); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Text of a peer, fit for a log line: what could end the value or the line is replaced.
std::string safe(const std::string& text) {
  std::string out = text.empty() ? "none" : text;
  for (char& c : out) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
                          c == '_' || c == '+' || c == '-';
    c = is_plain ? c : '?';
  }
  return out;
}

gs_Reason reason_of(Status status) {
  switch (status) {
    case Status::kNotFinite:
      return gs_Reason_REASON_NOT_FINITE;
    case Status::kOutOfRange:
      return gs_Reason_REASON_OUT_OF_RANGE;
    case Status::kSingular:
      return gs_Reason_REASON_TOO_STALE;
    case Status::kInvalidArgument:
      return gs_Reason_REASON_WRONG_SHAPE;
    default:
      return gs_Reason_REASON_MALFORMED;
  }
}

template <size_t N>
void copy_text(const std::string& text, char (&out)[N]) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), size);
  out[size] = '\0';
}

}  // namespace

struct Coordinator::State {
  struct Session {
    uint32_t device = 0;
    bool has_hello = false;
    Intake intake;
    std::optional<gs_Pull> waiting_pull;
    uint32_t held_count = 0;
    bool has_report = false;
  };
  // An action that waits until the journal up to `required` is durable.
  struct Held {
    Action action;
    uint64_t required;
  };

  State(uint32_t run_id, const RunParameters& run_parameters, const std::vector<std::string>& names)
      : run(run_id), parameters(run_parameters), ledger(run_parameters, names) {}

  uint32_t run;
  RunParameters parameters;
  Ledger ledger;
  CoordinatorCounters counters;
  std::vector<Action> actions;
  std::deque<Held> held;
  std::map<SessionId, Session> sessions;
  std::vector<Real> first_model;  // empty: drawn from the seed
  uint64_t durable_sequence = 0;
  uint32_t durable_version = 0;
  uint64_t version_sequence = 0;    // of the journal record of the version last decided
  uint64_t run_state_sequence = 0;  // of the last kRunState record
  uint64_t deadline_ms = kNever;    // of the open version
  uint64_t upload_bytes = 0;        // of the open version, as encoded
  bool is_started = false;
  bool is_storage_failed = false;
  bool folds_duplicates = false;

  // ---- Out ----
  void log(const char* event, const Line& line);
  void respond(SessionId id, const ServerMessage& message, uint64_t required);
  void close(SessionId id, gs_Reason reason);
  void hold_or_act(Action action, uint64_t required);
  void release_held();
  void persist(JournalRecord record, uint64_t now_ms);
  uint64_t decide(JournalRecord record, uint64_t now_ms);
  gs_RetryWindow window(uint32_t factor) const;
  void refuse(SessionId id, gs_Reason reason);
  void publish();
  void wait(SessionId id, gs_WaitCause cause, uint32_t factor, uint64_t required);

  // ---- Rounds ----
  void open_run(uint64_t now_ms);
  void judge_open_round(uint64_t now_ms);
  void close_round(Trigger trigger, uint64_t now_ms);
  void run_event(RunEvent event, uint64_t now_ms);
  bool is_version_durable() const { return durable_sequence >= version_sequence; }

  // ---- In ----
  void on_hello(SessionId id, uint32_t device, const gs_Hello& hello, uint64_t now_ms);
  void abandon(uint32_t device, uint64_t now_ms);
  void send_welcome(SessionId id, uint32_t device, bool is_abandoned, uint64_t now_ms);
  void on_pull(SessionId id, const gs_Pull& pull, uint64_t now_ms);
  void send_sync(SessionId id, uint32_t device, const gs_Pull& pull);
  void send_task_or_wait(SessionId id, uint32_t device, const gs_Pull& pull, uint64_t now_ms);
  void send_task(SessionId id, uint32_t device);
  void on_upload(SessionId id, const Upload& upload, uint64_t now_ms);
  void judge_upload(SessionId id, uint32_t device, const Upload& upload, uint64_t now_ms);
  gs_Reason find_fault(const Device& device, const Upload& upload, std::vector<Real>* values, FoldInput* input) const;
  void accept_upload(uint32_t device, const Upload& upload, const FoldInput& input, uint64_t now_ms);
  void refuse_upload(uint32_t device, uint32_t task_sequence, gs_Reason reason, uint64_t now_ms);
  void send_ack(SessionId id, uint32_t task_sequence, gs_Verdict verdict, gs_Reason reason, uint64_t required);
  void send_judged_ack(SessionId id, uint32_t device, bool is_duplicate);
  void fold_duplicate(uint32_t device, const Upload& upload);
  void on_task_refused(SessionId id, const gs_TaskRefused& refused, uint64_t now_ms);
  void on_report(SessionId id, const gs_StatusReport& report);
  void drop_session(SessionId id);
};

// ---- Out ---------------------------------------------------------------------------------------------------------

void Coordinator::State::log(const char* event, const Line& line) {
  Action action;
  action.kind = ActionKind::kLog;
  action.event = event;
  action.text = line.text();
  actions.push_back(std::move(action));
}

// Keeps the order of what one session gets: behind something held, everything is held.
void Coordinator::State::hold_or_act(Action action, uint64_t required) {
  const auto session = sessions.find(action.session);
  const bool is_behind = session != sessions.end() && session->second.held_count > 0;
  if (required <= durable_sequence && !is_behind) {
    actions.push_back(std::move(action));
    return;
  }
  if (session != sessions.end()) {
    ++session->second.held_count;
  }
  held.push_back({std::move(action), required});
}

void Coordinator::State::respond(SessionId id, const ServerMessage& message, uint64_t required) {
  const auto session = sessions.find(id);
  if (session != sessions.end() && session->second.held_count >= kHeldMax) {
    drop_session(id);
    close(id, gs_Reason_REASON_OVERLOADED);
    return;
  }
  Action action;
  action.kind = ActionKind::kSend;
  action.session = id;
  action.message = message;
  hold_or_act(std::move(action), required);
}

void Coordinator::State::close(SessionId id, gs_Reason reason) {
  Action action;
  action.kind = ActionKind::kClose;
  action.session = id;
  action.reason = reason;
  hold_or_act(std::move(action), 0);
}

void Coordinator::State::release_held() {
  while (!held.empty() && held.front().required <= durable_sequence) {
    const auto session = sessions.find(held.front().action.session);
    if (session != sessions.end()) {
      --session->second.held_count;
    }
    actions.push_back(std::move(held.front().action));
    held.pop_front();
  }
}

// The record is in the ledger already; it leaves for the disk.
void Coordinator::State::persist(JournalRecord record, uint64_t now_ms) {
  record.time_ms = now_ms;
  Action action;
  action.kind = ActionKind::kPersist;
  action.record = std::move(record);
  actions.push_back(std::move(action));
}

// Moves the ledger by a record just decided and sends it to the disk. Returns its sequence.
uint64_t Coordinator::State::decide(JournalRecord record, uint64_t now_ms) {
  record.sequence = ledger.last_sequence() + 1;
  const Status status = ledger.apply(record);
  GS_ASSERT(status == Status::kOk);  // what was decided follows from the ledger
  const uint64_t sequence = record.sequence;
  persist(std::move(record), now_ms);
  return sequence;
}

gs_RetryWindow Coordinator::State::window(uint32_t factor) const {
  return {parameters.retry_min_ms * factor, parameters.retry_max_ms * factor};
}

void Coordinator::State::refuse(SessionId id, gs_Reason reason) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_refuse_tag;
  message.body.refuse.reason = reason;
  message.body.refuse.has_retry = true;
  message.body.refuse.retry = window(kRefusedWindowFactor);
  respond(id, message, 0);
  close(id, reason);
  drop_session(id);
}

void Coordinator::State::publish() {
  Action action;
  action.kind = ActionKind::kPublish;
  action.version = durable_version;
  actions.push_back(std::move(action));
}

// required: the record that the cause depends on.
void Coordinator::State::wait(SessionId id, gs_WaitCause cause, uint32_t factor, uint64_t required) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_wait_tag;
  message.body.wait.cause = cause;
  message.body.wait.has_retry = true;
  message.body.wait.retry = ledger.is_over() ? kOverWindow : window(factor);
  respond(id, message, required);
}

// The coordinator forgets the session; what is held for it still leaves, in order.
void Coordinator::State::drop_session(SessionId id) {
  const auto session = sessions.find(id);
  if (session == sessions.end()) {
    return;
  }
  Fleet& fleet = ledger.fleet();
  if (fleet.contains(session->second.device) && fleet.at(session->second.device).session == id) {
    fleet.at(session->second.device).session = 0;
  }
  sessions.erase(session);
}

// ---- Rounds ------------------------------------------------------------------------------------------------------

void Coordinator::State::open_run(uint64_t now_ms) {
  if (!is_started || ledger.has_version() || ledger.is_over()) {
    return;
  }
  if (ledger.fleet().active_count() < parameters.device_count) {
    log("run_waiting", Line()
                           .add("enrolled", ledger.fleet().active_count())
                           .add("wanted", parameters.device_count)
                           .add("remedy", "device_add"));
    return;
  }
  JournalRecord record = ledger.open_first_version(first_model);
  version_sequence = record.sequence;
  persist(std::move(record), now_ms);
}

void Coordinator::State::judge_open_round(uint64_t now_ms) {
  if (!is_started || !ledger.has_version() || ledger.is_over() || is_storage_failed) {
    return;
  }
  RoundProgress progress;
  progress.active_count = ledger.fleet().active_count();
  progress.on_time_count = ledger.tally().on_time_count;
  progress.extension_count = ledger.extension_count();
  progress.is_stalled = ledger.run_state() == gs_RunState_RUN_STATE_STALLED;
  progress.is_past_deadline = now_ms >= deadline_ms;
  const RoundVerdict verdict = judge_round(parameters, progress);
  switch (verdict.decision) {
    case RoundDecision::kWait:
      return;
    case RoundDecision::kClose:
      close_round(verdict.trigger, now_ms);
      return;
    case RoundDecision::kExtend:
      deadline_ms = now_ms + parameters.report_deadline_ms;
      ++counters.rounds_extended;
      run_event(RunEvent::kExtended, now_ms);
      return;
    case RoundDecision::kStall:
      deadline_ms = kNever;
      run_event(RunEvent::kStalled, now_ms);
      return;
  }
}

void Coordinator::State::close_round(Trigger trigger, uint64_t now_ms) {
  const RoundTally tally = ledger.tally();
  const std::string missing = ledger.fleet().missing(ledger.version());
  const double count = std::max(1U, tally.on_time_count + tally.late_count);
  Status step_status = Status::kOk;
  JournalRecord record = ledger.close_version(trigger, &step_status);
  version_sequence = record.sequence;
  deadline_ms = kNever;  // runs from the moment when the version is durable
  ++counters.rounds_closed;
  if (step_status != Status::kOk) {
    ++counters.steps_failed;
    log("step_failed", Line().add("version", record.version).add("status", status_text(step_status)));
  }
  log("round_closed", Line()
                          .add("version", record.version)
                          .add("digest", hex(record.digest))
                          .add("trigger", trigger_name(trigger))
                          .add("folded", tally.on_time_count)
                          .add("late", tally.late_count)
                          .add("partial", tally.partial_count)
                          .add("missing", missing)
                          .add("loss_before", number(tally.loss_before_sum / count))
                          .add("loss_after", number(tally.loss_after_sum / count))
                          .add("upload_bytes", upload_bytes)
                          .add("record_bytes", record.payload.size()));
  upload_bytes = 0;
  persist(std::move(record), now_ms);
  if (ledger.version() >= parameters.round_count) {
    run_event(RunEvent::kFinished, now_ms);
  }
}

void Coordinator::State::run_event(RunEvent event, uint64_t now_ms) {
  const char* name = event == RunEvent::kExtended   ? "round_extended"
                     : event == RunEvent::kStalled  ? "run_stalled"
                     : event == RunEvent::kFinished ? "run_finished"
                                                    : "run_stopped";
  Line line;
  line.add("version", ledger.has_version() ? ledger.version() : 0);
  if (event == RunEvent::kExtended || event == RunEvent::kStalled) {
    line.add("answers", ledger.tally().on_time_count)
        .add("wanted", update_least(parameters, ledger.fleet().active_count()))
        .add("missing", ledger.fleet().missing(ledger.version()));
  }
  JournalRecord record;
  record.kind = RecordKind::kRunState;
  record.version = ledger.has_version() ? ledger.version() : 0;
  record.detail = static_cast<uint32_t>(event);
  run_state_sequence = decide(std::move(record), now_ms);
  log(name, line);
}

// ---- Sessions and tasks ------------------------------------------------------------------------------------------

void Coordinator::State::on_hello(SessionId id, uint32_t index, const gs_Hello& hello, uint64_t now_ms) {
  Session& session = sessions.at(id);
  if (session.has_hello) {
    ++counters.messages_unexpected;
    refuse(id, gs_Reason_REASON_UNEXPECTED_MESSAGE);
    return;
  }
  if (hello.protocol_version != kProtocolVersion) {
    refuse(id, gs_Reason_REASON_PROTOCOL_VERSION);
    return;
  }
  if (hello.run != 0 && hello.run != run) {
    refuse(id, gs_Reason_REASON_UNKNOWN_RUN);
    return;
  }
  Device& device = ledger.fleet().at(index);
  const bool is_lost = hello.lost_task_sequence != 0 &&
                       ledger.fleet().sequence_state(index, hello.lost_task_sequence) == SequenceState::kOpen;
  if (is_lost && is_storage_failed) {
    refuse(id, gs_Reason_REASON_STORAGE);
    return;
  }
  if (device.session != 0 && device.session != id) {
    ++counters.sessions_replaced;
    log("session_replaced", Line().add("device", device.name).add("old", device.session).add("new", id));
    refuse(device.session, gs_Reason_REASON_NEWER_SESSION);
  }
  session.has_hello = true;
  device.session = id;
  device.is_capable = is_capable(parameters, hello.capabilities);
  device.sample_count = hello.sample_count;
  device.version_held = hello.has_model ? hello.version : 0;
  device.firmware_version = hello.firmware_version;
  if (!device.is_capable) {
    log("device_not_capable", Line().add("device", device.name).add("remedy", "link_what_the_run_names"));
  }
  if (is_lost) {
    abandon(index, now_ms);
  }
  send_welcome(id, index, is_lost, now_ms);
}

// The device's open task will never be answered.
void Coordinator::State::abandon(uint32_t index, uint64_t now_ms) {
  const Device& device = ledger.fleet().at(index);
  JournalRecord record;
  record.kind = RecordKind::kVerdict;
  record.device = index;
  record.task_sequence = device.task_sequence;
  record.version = device.task_version;
  record.verdict = gs_Verdict_VERDICT_ABANDONED;
  decide(std::move(record), now_ms);
  ++counters.tasks_abandoned;
  log("task_abandoned",
      Line().add("device", device.name).add("task", device.task_sequence).add("version", device.task_version));
}

void Coordinator::State::send_welcome(SessionId id, uint32_t index, bool is_abandoned, uint64_t now_ms) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_welcome_tag;
  gs_Welcome& welcome = message.body.welcome;
  welcome.server_time_ms = now_ms;
  welcome.run = run;
  welcome.run_state = ledger.run_state();
  welcome.parameters_digest = parameters_digest(parameters);
  welcome.version = durable_version;
  welcome.manifold = static_cast<gs_Manifold>(parameters.manifold);
  welcome.rows = parameters.shape.rows;
  welcome.cols = parameters.shape.cols;
  welcome.stream = static_cast<gs_StreamKind>(parameters.stream());
  welcome.directions = static_cast<gs_Directions>(parameters.directions);
  welcome.shared_directions = parameters.shared_directions();
  welcome.seed = parameters.seed;
  welcome.direction_count = parameters.direction_count;
  welcome.client_index = index;
  welcome.group = parameters.owner_of(index);
  welcome.abandoned = is_abandoned;
  respond(id, message, is_abandoned ? ledger.last_sequence() : run_state_sequence);
}

void Coordinator::State::on_pull(SessionId id, const gs_Pull& pull, uint64_t now_ms) {
  Session& session = sessions.at(id);
  const uint32_t device = session.device;
  if (!ledger.has_version()) {
    wait(id, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, kRefusedWindowFactor, 0);
    return;
  }
  if (!is_version_durable() || session.held_count > 0) {
    if (is_storage_failed) {
      refuse(id, gs_Reason_REASON_STORAGE);
    } else {
      session.waiting_pull = pull;
    }
    return;
  }
  session.waiting_pull.reset();
  send_sync(id, device, pull);
  send_task_or_wait(id, device, pull, now_ms);
}

void Coordinator::State::send_sync(SessionId id, uint32_t index, const gs_Pull& pull) {
  Device& device = ledger.fleet().at(index);
  const SyncPlan plan = ledger.plan_sync(pull.has_model, pull.version, pull.digest);
  if (plan.cause == SyncCause::kMismatch) {
    ++counters.digest_mismatches;
    log("digest_mismatch", Line()
                               .add("device", device.name)
                               .add("version", pull.version)
                               .add("digest", hex(pull.digest))
                               .add("current", ledger.version()));
  }
  if (plan.snapshot != nullptr) {
    const std::vector<uint8_t> model = model_bytes(parameters.shape, plan.snapshot);
    for (const ServerMessage& chunk : snapshot_chunks(plan.snapshot_version, plan.snapshot_digest, model)) {
      respond(id, chunk, 0);
    }
    ++counters.snapshots_sent;
    ++device.snapshots_sent;
    log("snapshot_sent", Line()
                             .add("device", device.name)
                             .add("version", plan.snapshot_version)
                             .add("cause", sync_cause_name(plan.cause)));
  }
  for (const VersionRecord* record : plan.records) {
    for (const ServerMessage& chunk : log_chunks(*record)) {
      respond(id, chunk, 0);
    }
    ++counters.records_sent;
  }
  device.version_held = ledger.version();
}

void Coordinator::State::send_task_or_wait(SessionId id, uint32_t index, const gs_Pull& pull, uint64_t now_ms) {
  const Device& device = ledger.fleet().at(index);
  const uint32_t version = ledger.version();
  const bool is_stalled = ledger.run_state() == gs_RunState_RUN_STATE_STALLED;
  if (ledger.is_over()) {
    const bool is_finished = ledger.run_state() == gs_RunState_RUN_STATE_FINISHED;
    wait(id, is_finished ? gs_WaitCause_WAIT_CAUSE_FINISHED : gs_WaitCause_WAIT_CAUSE_STOPPED, kRefusedWindowFactor,
         run_state_sequence);
  } else if (!device.is_capable) {
    wait(id, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE, kRefusedWindowFactor, 0);
  } else if (device.answered_version == version) {
    wait(id, is_stalled ? gs_WaitCause_WAIT_CAUSE_STALLED : gs_WaitCause_WAIT_CAUSE_ANSWERED,
         is_stalled ? kRefusedWindowFactor : 1, std::max(run_state_sequence, device.judged.record_sequence));
  } else if (device.refused_version == version && device.refused_count >= kRefusedTasksMax) {
    wait(id, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, kRefusedWindowFactor, device.judged.record_sequence);
  } else if (device.is_task_open && device.task_version == version && pull.has_model) {
    send_task(id, index);
  } else if (is_storage_failed) {
    refuse(id, gs_Reason_REASON_STORAGE);
  } else {
    if (device.is_task_open && device.task_version == version) {
      abandon(index, now_ms);
    }
    JournalRecord record;
    record.kind = RecordKind::kTaskIssued;
    record.device = index;
    record.task_sequence = device.task_sequence + 1;
    record.version = version;
    decide(std::move(record), now_ms);
    ++counters.tasks_issued;
    send_task(id, index);
  }
}

void Coordinator::State::send_task(SessionId id, uint32_t index) {
  const Device& device = ledger.fleet().at(index);
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_task_tag;
  gs_Task& task = message.body.task;
  task.task_sequence = device.task_sequence;
  task.version = device.task_version;
  task.digest = ledger.digest();
  task.solver = static_cast<gs_Solver>(parameters.solver);
  task.estimator = static_cast<gs_Estimator>(parameters.estimator);
  task.encoding = static_cast<gs_Encoding>(parameters.upload_encoding);
  task.local_step_count = parameters.local_step_count;
  task.steps_min = parameters.least_steps();
  task.step_size = parameters.step_size_at(device.task_version);
  task.smoothing = parameters.smoothing;
  task.batch_mode = static_cast<gs_BatchMode>(parameters.batch_mode);
  task.batch_size = parameters.batch_size;
  task.use_correction = parameters.use_correction;
  task.deadline_ms = parameters.task_deadline_ms;
  copy_text(parameters.problem, task.problem);
  respond(id, message, device.task_record_sequence);
}

void Coordinator::State::on_task_refused(SessionId id, const gs_TaskRefused& refused, uint64_t now_ms) {
  const uint32_t index = sessions.at(id).device;
  Device& device = ledger.fleet().at(index);
  ++counters.tasks_refused;
  log("task_refused",
      Line().add("device", device.name).add("task", refused.task_sequence).add("reason", reason_name(refused.reason)));
  const bool is_open = ledger.fleet().sequence_state(index, refused.task_sequence) == SequenceState::kOpen;
  if (is_open && !is_storage_failed) {
    refuse_upload(index, refused.task_sequence, refused.reason, now_ms);
  }
  // Another task of the run would be refused for the same reason; a new image says so in its Hello.
  if (refused.reason == gs_Reason_REASON_TASK_UNIMPLEMENTED || refused.reason == gs_Reason_REASON_OUT_OF_MEMORY) {
    device.is_capable = false;
  }
  wait(id, device.is_capable ? gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN : gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE,
       kRefusedWindowFactor, device.judged.record_sequence);
}

// The last one is kept; the first one of a session is logged.
void Coordinator::State::on_report(SessionId id, const gs_StatusReport& report) {
  Session& session = sessions.at(id);
  Device& device = ledger.fleet().at(session.device);
  device.report = report;
  if (std::exchange(session.has_report, true)) {
    return;
  }
  log("device_report", Line()
                           .add("device", device.name)
                           .add("firmware_version", safe(device.firmware_version))
                           .add("uptime_s", report.uptime_s)
                           .add("arena_high_water", report.arena_high_water)
                           .add("stack_high_water", report.stack_high_water)
                           .add("tls_high_water", report.tls_high_water)
                           .add("sessions", report.sessions)
                           .add("digest_mismatches", report.digest_mismatches)
                           .add("tasks_done", report.tasks_done));
}

// ---- Uploads -----------------------------------------------------------------------------------------------------

void Coordinator::State::on_upload(SessionId id, const Upload& upload, uint64_t now_ms) {
  const uint32_t index = sessions.at(id).device;
  switch (ledger.fleet().sequence_state(index, upload.task_sequence)) {
    case SequenceState::kUnknown:
      ++counters.updates_refused;
      log("update_refused", Line()
                                .add("device", ledger.fleet().at(index).name)
                                .add("task", upload.task_sequence)
                                .add("reason", reason_name(gs_Reason_REASON_UNKNOWN_TASK)));
      send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_UNKNOWN_TASK, 0);
      return;
    case SequenceState::kSuperseded: {
      // A crash before these are durable would make the older task the last one again, with a verdict of its own.
      const Device& device = ledger.fleet().at(index);
      ++counters.updates_superseded;
      send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_SUPERSEDED, gs_Reason_REASON_NONE,
               std::max(device.task_record_sequence, device.judged.record_sequence));
      return;
    }
    case SequenceState::kJudged:
      ++counters.updates_duplicate;
      if (folds_duplicates) {
        fold_duplicate(index, upload);
      }
      send_judged_ack(id, index, true);
      return;
    case SequenceState::kOpen:
      judge_upload(id, index, upload, now_ms);
      return;
  }
}

void Coordinator::State::judge_upload(SessionId id, uint32_t index, const Upload& upload, uint64_t now_ms) {
  if (is_storage_failed) {
    send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_STORAGE, 0);
    return;
  }
  std::vector<Real> values;
  FoldInput input;
  const gs_Reason fault = find_fault(ledger.fleet().at(index), upload, &values, &input);
  if (fault == gs_Reason_REASON_NONE) {
    accept_upload(index, upload, input, now_ms);
  } else {
    refuse_upload(index, upload.task_sequence, fault, now_ms);
  }
  send_judged_ack(id, index, false);
  judge_open_round(now_ms);
}

// The first thing wrong with an upload of an open task, or REASON_NONE with its decoded values and what to fold.
gs_Reason Coordinator::State::find_fault(const Device& device, const Upload& upload, std::vector<Real>* values,
                                         FoldInput* input) const {
  const bool is_scalar = parameters.stream() == StreamKind::kScalarStream;
  if (upload.base_version != device.task_version) {
    return gs_Reason_REASON_WRONG_VERSION;
  }
  if (upload.encoding != parameters.upload_encoding) {
    return gs_Reason_REASON_WRONG_ENCODING;
  }
  const size_t value_count =
      is_scalar ? static_cast<size_t>(upload.steps_done) * parameters.direction_count : parameters.shape.size();
  if (upload.kind != parameters.stream() || upload.is_oversize || upload.value_count != value_count ||
      upload.steps_done > parameters.local_step_count ||
      (is_scalar && upload.direction_count != parameters.direction_count)) {
    return gs_Reason_REASON_WRONG_SHAPE;
  }
  if (upload.steps_done < parameters.least_steps()) {
    return gs_Reason_REASON_TOO_FEW_STEPS;
  }
  if (crc32c(0, upload.bytes.data(), upload.bytes.size()) != upload.crc32c) {
    return gs_Reason_REASON_CORRUPT;
  }
  const uint32_t staleness = ledger.version() - upload.base_version;
  if (ledger.is_over() ||
      (staleness > 0 && (parameters.late == LatePolicy::kDrop || staleness > parameters.staleness_max))) {
    return gs_Reason_REASON_TOO_STALE;
  }
  values->resize(upload.value_count);
  const Status decoded =
      decode_values(upload.encoding, upload.value_count, upload.bytes.data(), upload.bytes.size(), values->data());
  if (decoded != Status::kOk) {
    return reason_of(decoded);
  }
  input->base_version = upload.base_version;
  input->steps_done = upload.steps_done;
  input->weight = fold_weight(parameters, device.sample_count, staleness);
  input->values = *values;
  const Status folds = ledger.check_fold(*input);
  return folds == Status::kOk ? gs_Reason_REASON_NONE : reason_of(folds);
}

void Coordinator::State::accept_upload(uint32_t index, const Upload& upload, const FoldInput& input, uint64_t now_ms) {
  const bool is_late = upload.base_version < ledger.version();
  JournalRecord record;
  record.kind = RecordKind::kUpdate;
  record.device = index;
  record.task_sequence = upload.task_sequence;
  record.base_version = upload.base_version;
  record.version = ledger.version() + 1;
  record.steps_done = upload.steps_done;
  record.weight = input.weight;
  record.verdict = is_late ? gs_Verdict_VERDICT_LATE : gs_Verdict_VERDICT_FOLDED;
  record.loss_before = upload.loss_before;
  record.loss_after = upload.loss_after;
  record.payload.resize(encoded_size(kRealEncoding, input.values.size()));
  const Status status = encode_values(kRealEncoding, input.values.size(), input.values.data(), record.payload.data());
  GS_ASSERT(status == Status::kOk);  // find_fault() has seen that they are finite
  decide(std::move(record), now_ms);
  ledger.fleet().at(index).step_time_us = upload.step_time_us;
  upload_bytes += upload.bytes.size();
  ++(is_late ? counters.updates_late : counters.updates_folded);
  counters.updates_partial += upload.steps_done < parameters.local_step_count ? 1 : 0;
}

void Coordinator::State::refuse_upload(uint32_t index, uint32_t task_sequence, gs_Reason reason, uint64_t now_ms) {
  const Device& device = ledger.fleet().at(index);
  JournalRecord record;
  record.kind = RecordKind::kVerdict;
  record.device = index;
  record.task_sequence = task_sequence;
  record.version = device.task_version;
  record.verdict = gs_Verdict_VERDICT_REFUSED;
  record.reason = reason;
  decide(std::move(record), now_ms);
  ++counters.updates_refused;
  log("update_refused",
      Line().add("device", device.name).add("task", task_sequence).add("reason", reason_name(reason)));
}

// An answer beside the last verdict. required: the record that it depends on; 0: none.
void Coordinator::State::send_ack(SessionId id, uint32_t task_sequence, gs_Verdict verdict, gs_Reason reason,
                                  uint64_t required) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_ack_tag;
  message.body.ack.task_sequence = task_sequence;
  message.body.ack.verdict = verdict;
  message.body.ack.reason = reason;
  message.body.ack.has_retry = true;
  message.body.ack.retry = window(kRefusedWindowFactor);
  respond(id, message, required);
}

// The verdict of the device's last judged task, once its record is durable.
void Coordinator::State::send_judged_ack(SessionId id, uint32_t index, bool is_duplicate) {
  const JudgedTask& judged = ledger.fleet().at(index).judged;
  const bool is_refused = judged.verdict == gs_Verdict_VERDICT_REFUSED;
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_ack_tag;
  gs_Ack& ack = message.body.ack;
  ack.task_sequence = judged.task_sequence;
  ack.verdict = judged.verdict;
  ack.reason = judged.reason;
  ack.duplicate = is_duplicate;
  ack.version = judged.version;
  ack.staleness_weight = judged.staleness_weight;
  ack.has_retry = true;
  ack.retry = window(is_refused ? kRefusedWindowFactor : 1);
  respond(id, message, judged.record_sequence);
}

void Coordinator::State::fold_duplicate(uint32_t index, const Upload& upload) {
  std::vector<Real> values;
  FoldInput input;
  if (ledger.fleet().at(index).answered_version == ledger.version() &&
      find_fault(ledger.fleet().at(index), upload, &values, &input) == gs_Reason_REASON_NONE) {
    input.owner = parameters.owner_of(index);
    ledger.fold_again_for_test(input);
  }
}

const char* reason_name(gs_Reason reason) {
  static constexpr std::array<const char*, 22> kNames = {
      "none",          "protocol_version", "unknown_run",    "malformed",    "unexpected_message",
      "wrong_shape",   "wrong_version",    "wrong_encoding", "not_finite",   "out_of_range",
      "too_few_steps", "too_stale",        "corrupt",        "unknown_task", "task_unimplemented",
      "newer_session", "revoked",          "deadline",       "overloaded",   "out_of_memory",
      "storage",       "singular"};
  const auto index = static_cast<size_t>(reason);
  return index < kNames.size() ? kNames[index] : "unknown";
}

// ---- The interface -----------------------------------------------------------------------------------------------

Coordinator::Coordinator(uint32_t run, const RunParameters& parameters, const std::vector<std::string>& devices) {
  GS_ASSERT(check_parameters(parameters).empty());
  state_ = std::make_unique<State>(run, parameters, devices);
}

Coordinator::~Coordinator() = default;

Status Coordinator::replay(const JournalRecord& record) {
  State& state = *state_;
  GS_ASSERT(!state.is_started);
  GS_TRY(state.ledger.apply(record));
  state.durable_sequence = record.sequence;
  if (record.kind == RecordKind::kVersion) {
    state.version_sequence = record.sequence;
    state.durable_version = record.version;
  }
  return Status::kOk;
}

Status Coordinator::set_first_model(std::span<const Real> model) {
  GS_ASSERT(!state_->is_started);
  if (model.size() != state_->parameters.shape.size()) {
    return Status::kInvalidArgument;
  }
  if (!all_finite(model.size(), model.data())) {
    return Status::kNotFinite;
  }
  state_->first_model.assign(model.begin(), model.end());
  return Status::kOk;
}

void Coordinator::start(uint64_t now_ms) {
  State& state = *state_;
  GS_ASSERT(!state.is_started);
  state.is_started = true;
  if (!state.ledger.has_version()) {
    state.open_run(now_ms);
    return;
  }
  state.log("run_recovered", Line()
                                 .add("version", state.ledger.version())
                                 .add("digest", hex(state.ledger.digest()))
                                 .add("records", state.ledger.last_sequence())
                                 .add("answers", state.ledger.tally().on_time_count));
  state.publish();  // once more: the process may have ended between the record and the export
  const bool is_active = state.ledger.run_state() == gs_RunState_RUN_STATE_ACTIVE;
  if (is_active && state.ledger.version() >= state.parameters.round_count) {
    state.run_event(RunEvent::kFinished, now_ms);  // the crash came between the last version and this
    return;
  }
  state.deadline_ms = is_active ? now_ms + state.parameters.report_deadline_ms : kNever;
  state.judge_open_round(now_ms);
}

void Coordinator::on_message(SessionId session, uint32_t device, const DeviceMessage& message, uint64_t now_ms) {
  State& state = *state_;
  const auto [entry, is_new] =
      state.sessions.try_emplace(session, State::Session{device, false, Intake(state.parameters.value_count()), {}, 0,
                                                         false});
  if (!state.ledger.fleet().contains(device)) {
    state.refuse(session, gs_Reason_REASON_UNKNOWN_RUN);
    return;
  }
  Device& known = state.ledger.fleet().at(device);
  if (known.is_revoked) {
    state.refuse(session, gs_Reason_REASON_REVOKED);
    return;
  }
  known.last_seen_ms = now_ms;
  if (!entry->second.has_hello && message.which_body != gs_DeviceMessage_hello_tag) {
    ++state.counters.messages_unexpected;
    state.refuse(session, gs_Reason_REASON_UNEXPECTED_MESSAGE);
    return;
  }
  Intake& intake = entry->second.intake;
  IntakeResult taken = IntakeResult::kMore;
  switch (message.which_body) {
    case gs_DeviceMessage_hello_tag:
      state.on_hello(session, device, message.body.hello, now_ms);
      return;
    case gs_DeviceMessage_pull_tag:
      state.on_pull(session, message.body.pull, now_ms);
      return;
    case gs_DeviceMessage_update_scalars_tag:
      taken = intake.take(message.body.update_scalars);
      break;
    case gs_DeviceMessage_update_tangent_tag:
      taken = intake.take(message.body.update_tangent);
      break;
    case gs_DeviceMessage_task_refused_tag:
      state.on_task_refused(session, message.body.task_refused, now_ms);
      return;
    case gs_DeviceMessage_status_report_tag:
      state.on_report(session, message.body.status_report);
      return;
    default:
      taken = IntakeResult::kBroken;
      break;
  }
  if (taken == IntakeResult::kBroken) {
    ++state.counters.messages_unexpected;
    state.refuse(session, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  } else if (taken == IntakeResult::kComplete) {
    state.on_upload(session, intake.upload(), now_ms);
  }
}

void Coordinator::on_session_closed(SessionId session, uint64_t) {
  State& state = *state_;
  state.drop_session(session);
  std::erase_if(state.held, [session](const State::Held& entry) { return entry.action.session == session; });
}

void Coordinator::on_tick(uint64_t now_ms) {
  if (now_ms >= state_->deadline_ms) {
    state_->judge_open_round(now_ms);
  }
}

uint64_t Coordinator::next_tick_ms() const { return state_->is_storage_failed ? kNever : state_->deadline_ms; }

void Coordinator::on_persisted(uint64_t sequence, uint64_t now_ms) {
  State& state = *state_;
  GS_ASSERT(sequence > state.durable_sequence && sequence <= state.ledger.last_sequence());
  const bool was_durable = state.is_version_durable();
  state.durable_sequence = sequence;
  if (!was_durable && state.is_version_durable()) {
    state.durable_version = state.ledger.version();
    state.publish();
    state.deadline_ms = state.ledger.is_over() ? kNever : now_ms + state.parameters.report_deadline_ms;
  }
  state.release_held();
  // Pulls that waited for what is durable now; answering one may hold others back again, but not close sessions.
  std::vector<std::pair<SessionId, gs_Pull>> pulls;
  for (const auto& [id, session] : state.sessions) {
    if (session.waiting_pull.has_value() && session.held_count == 0) {
      pulls.emplace_back(id, *session.waiting_pull);
    }
  }
  for (const auto& [id, pull] : pulls) {
    if (state.sessions.contains(id)) {
      state.on_pull(id, pull, now_ms);
    }
  }
}

void Coordinator::on_storage_failed(uint64_t) {
  State& state = *state_;
  if (!std::exchange(state.is_storage_failed, true)) {
    state.log("storage_failed", Line().add("durable", state.durable_sequence).add("remedy", "free_disk_space"));
  }
  std::vector<SessionId> waiting;
  for (const auto& [id, session] : state.sessions) {
    if (session.waiting_pull.has_value()) {
      waiting.push_back(id);
    }
  }
  for (const SessionId id : waiting) {
    state.refuse(id, gs_Reason_REASON_STORAGE);
  }
}

void Coordinator::on_storage_recovered(uint64_t now_ms) {
  if (std::exchange(state_->is_storage_failed, false)) {
    state_->log("storage_recovered", Line().add("durable", state_->durable_sequence));
    state_->judge_open_round(now_ms);
  }
}

void Coordinator::on_device_added(const std::string& name, uint64_t now_ms) {
  state_->ledger.fleet().add(name);
  state_->open_run(now_ms);
}

void Coordinator::on_device_revoked(uint32_t device, uint64_t now_ms) {
  State& state = *state_;
  Device& revoked = state.ledger.fleet().at(device);
  if (revoked.is_revoked) {
    return;
  }
  revoked.is_revoked = true;
  state.log("device_revoked", Line().add("device", revoked.name));
  if (revoked.session != 0) {
    state.refuse(revoked.session, gs_Reason_REASON_REVOKED);
  }
  state.judge_open_round(now_ms);
}

void Coordinator::stop(uint64_t now_ms) {
  if (!state_->ledger.is_over()) {
    state_->deadline_ms = kNever;
    state_->run_event(RunEvent::kStopped, now_ms);
  }
}

std::vector<Action> Coordinator::take_actions() { return std::exchange(state_->actions, {}); }

const Replica& Coordinator::model() const { return state_->ledger.replica(); }
gs_RunState Coordinator::run_state() const { return state_->ledger.run_state(); }
uint32_t Coordinator::durable_version() const { return state_->durable_version; }
const CoordinatorCounters& Coordinator::counters() const { return state_->counters; }

std::vector<DeviceStatus> Coordinator::device_statuses() const {
  const Fleet& fleet = state_->ledger.fleet();
  std::vector<DeviceStatus> statuses;
  for (uint32_t index = 0; index < fleet.size(); ++index) {
    const Device& device = fleet.at(index);
    DeviceStatus& status = statuses.emplace_back();
    status.name = device.name;
    status.index = index;
    status.connected = device.session != 0;
    status.has_task = device.is_task_open;
    status.task_sequence = device.task_sequence;
    status.task_version = device.task_version;
    status.version_held = device.version_held;
    status.last_seen_ms = device.last_seen_ms;
    status.updates_folded = device.updates_folded;
    status.updates_late = device.updates_late;
    status.snapshots_sent = device.snapshots_sent;
    status.step_time_us = device.step_time_us;
    status.last_verdict = device.judged.verdict;
    status.firmware_version = device.firmware_version;
    status.report = device.report;
  }
  return statuses;
}

uint32_t Coordinator::answers_in() const { return state_->ledger.tally().on_time_count; }

uint32_t Coordinator::answers_wanted() const {
  return update_goal(state_->parameters, state_->ledger.fleet().active_count());
}

std::string Coordinator::state_text() const { return state_->ledger.state_text(); }
void Coordinator::plant_double_fold_for_test() { state_->folds_duplicates = true; }

}  // namespace gradstream
