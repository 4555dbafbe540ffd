// Sessions and tasks: Hello, Pull and what answers it, refused tasks, reports.
#include <algorithm>
#include <cstring>
#include <utility>

#include "server/base/refusal_catalogue.h"
#include "server/coordinator/coordinator_state.h"
#include "server/coordinator/run_messages.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"

namespace gradstream {
namespace {

// Lines of the log about one device that it can repeat: refusals, and notices of what it does. Reason: more of them say
// no more, and a device may not fill the disk.
constexpr RateLimit kDeviceLines = {1, 16};
// Of a model that the device was sent in this version already, by size. Reason: links that break repeat a small model
// at once, and ten thousand devices that ask for a large one again and again must not take the server's link.
constexpr uint32_t kCopyPieceSize = 65536;
constexpr RateLimit kCopies = {1, 16};
constexpr RateLimit kRateLines = {1, 1};
// Between two records of the journal that a device is told of in one session, ms. Reasons: a copy that was made so long
// before the device's last task is noticed, and twenty bytes a minute cost a radio nothing.
constexpr uint64_t kMarkPeriodMs = 60'000;

// Whether the message counts for the rate of its device: a later piece belongs to an upload that did.
bool counts_for_rate(const DeviceMessage& message) {
  switch (message.which_body) {
    case gs_DeviceMessage_update_scalars_tag:
      return message.body.update_scalars.first_value == 0;
    case gs_DeviceMessage_update_tangent_tag:
      return message.body.update_tangent.first_value == 0;
    default:
      return true;
  }
}

bool is_update(const DeviceMessage& message) {
  return message.which_body == gs_DeviceMessage_update_scalars_tag ||
         message.which_body == gs_DeviceMessage_update_tangent_tag;
}

}  // namespace

// Whether the message may be looked at. One that may not has been answered.
bool Coordinator::State::admit(SessionId id, const DeviceMessage& message, uint64_t now_ms) {
  Session& session = sessions.at(id);
  FleetDevice& device = ledger.fleet().at(session.device);
  if (!counts_for_rate(message)) {
    return true;
  }
  session.is_upload_limited = false;
  if (device.session.meters.messages.admit(limits.device_messages, now_ms)) {
    return true;
  }
  ++counters.messages_over_rate;
  if (noted.rate_lines.admit(kRateLines, now_ms)) {
    log("rate_limited"_event, Fields().add("device", device.name).add("count", counters.messages_over_rate));
  }
  const bool was_told = now_ms < device.session.limited_until_ms;
  device.session.limited_until_ms = now_ms + refused_window().min_ms;
  if (is_update(message) && session.has_hello && !was_told) {
    session.is_upload_limited = true;  // its Ack comes with its last piece
    return true;
  }
  refuse(id, gs_Reason_REASON_RATE_LIMIT);
  return false;
}

void Coordinator::State::log_refusal(const EventRow& event, uint32_t index, uint32_t task_sequence, gs_Reason reason,
                                     uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  if (!device.session.meters.refusal_lines.admit(kDeviceLines, now_ms)) {
    ++device.session.meters.lines_dropped;
    return;
  }
  Fields fields;
  fields.add("device", device.name).add("task", task_sequence).add("reason", reason_name(reason));
  const Complaint& complaint = device.session.refusals.complaint;
  const bool has_complaint = complaint.task_sequence == task_sequence && task_sequence != 0;
  if (has_complaint && complaint.sample > 0) {
    fields.add("sample", uint64_t{complaint.sample});
  }
  if (has_complaint && complaint.column > 0) {
    fields.add("column", uint64_t{complaint.column});
  }
  if (has_complaint && complaint.floor != gs_Floor_FLOOR_NONE) {
    fields.add("floor", floor_name(complaint.floor));
  }
  if (has_complaint && complaint.has_value()) {
    fields.add("value", number_text(static_cast<double>(complaint.value)))
        .add("least", number_text(static_cast<double>(complaint.least)))
        .add("most", number_text(static_cast<double>(complaint.most)));
  }
  if (has_complaint && complaint.fold_scale_log2 > 0) {
    fields.add("fold_scale_log2", uint64_t{complaint.fold_scale_log2 - 1});
  }
  if (has_complaint && complaint.step_size > 0) {
    fields.add("step_size", number_text(static_cast<double>(complaint.step_size)));
  }
  if (device.session.meters.lines_dropped > 0) {
    fields.add("more_since_the_last", std::exchange(device.session.meters.lines_dropped, 0));
  }
  if (const RefusalRow* const row = find_refusal(RefusalKind::kWork, reason_name(reason)); row != nullptr) {
    fields.add("remedy", row->remedy);
  }
  log(event, fields);
}

// Within kDeviceLines. `fields` begin with the device.
void Coordinator::State::log_of(FleetDevice& device, const EventRow& event, Fields fields, uint64_t now_ms) {
  if (!device.session.meters.notice_lines.admit(kDeviceLines, now_ms)) {
    ++device.session.meters.notices_dropped;
    return;
  }
  if (device.session.meters.notices_dropped > 0) {
    fields.add("more_since_the_last", std::exchange(device.session.meters.notices_dropped, 0));
  }
  log(event, fields);
}

// What the device's image, network or samples lack for the run's tasks.
void Coordinator::State::log_lacks(const FleetDevice& device, const gs_Hello& hello) {
  const std::string& lacks = device.session.image.lacks;
  Fields fields;
  fields.add("device", device.name).add("lacks", lacks);
  if (lacks_network_alone(lacks)) {
    fields.add("has", "network:" + hex(hello.network_digest));
  }
  if (lacks_samples_alone(lacks)) {
    fields.add("has", "samples:" + std::to_string(hello.sample_count));
  }
  fields.add("remedy", capability_remedy(lacks));
  log("device_not_capable"_event, fields);
}

void Coordinator::State::on_hello(SessionId id, uint32_t index, const gs_Hello& hello, uint64_t now_ms) {
  Session& session = sessions.at(id);
  FleetDevice& device = ledger.fleet().at(index);
  const auto [refusal, is_lost] = judge_hello(view(), device.row, hello, session.has_hello);
  if (refusal != gs_Reason_REASON_NONE) {
    counters.messages_unexpected += refusal == gs_Reason_REASON_UNEXPECTED_MESSAGE ? 1 : 0;
    refuse(id, refusal);
    return;
  }
  if (device.session.id != 0 && device.session.id != id) {
    ++counters.sessions_replaced;
    log_of(device, "session_replaced"_event,
           Fields().add("device", device.name).add("old", device.session.id).add("new", id), now_ms);
    refuse(device.session.id, gs_Reason_REASON_NEWER_SESSION);
  }
  session.has_hello = true;
  device.session.id = id;
  const std::string lacks = lacking(parameters, hello.capabilities, hello.network_digest, hello.sample_count);
  const HelloNews news = take_hello(hello, lacks, &device.session);
  if (!lacks.empty() && news.has_other_lacks) {
    log_lacks(device, hello);
  }
  compare_mark(index, hello, now_ms);
  if (is_lost) {
    abandon(index, now_ms);
  }
  send_welcome(id, index, is_lost, now_ms);
  note_barred(index, now_ms);
  if (news.is_new_image) {
    forgive(index, now_ms);
  }
  if (news.was_capable && !device.session.is_capable) {
    note_blocked(now_ms);
  } else if (!ledger.stall().empty()) {
    review_blocked(now_ms);  // it may be what the run waits for
  }
}

// What the device said fits.
void Coordinator::State::forgive_fork(FleetDevice* row, uint64_t now_ms) {
  if (row->session.forked_ms != 0 && now_ms >= row->session.forked_ms + kForkToldMs) {
    row->session.forked_ms = 0;
    --noted.forked_count;
  }
}

// What the device was told of the journal, by this server or by one before it. What this one told it last is known.
// Nothing is read while nothing can be stored: the device says it again in its next session.
void Coordinator::State::compare_mark(uint32_t index, const gs_Hello& hello, uint64_t now_ms) {
  const JournalMark said = {hello.journal_sequence, hello.journal_chain};
  const bool is_of_run = said.sequence != 0 && hello.parameters_digest == identity.parameters_digest;
  if (!noted.mark || is_storage_failed || !is_of_run) {
    return;
  }
  if (FleetDevice& row = ledger.fleet().at(index); said == row.session.mark) {
    return forgive_fork(&row, now_ms);
  }
  Action action;
  action.kind = ActionKind::kCompareMark;
  action.device = index;
  action.mark = said;
  actions.push_back(std::move(action));
}

// The newest durable record, where the session's device keeps it and is due to be told: it is told now. Else nothing.
JournalMark Coordinator::State::next_mark(SessionId id, uint64_t now_ms) {
  Session& session = sessions.at(id);
  FleetDevice& device = ledger.fleet().at(session.device);
  const bool keeps_marks = has_feature(device.session.image, gs_Feature_FEATURE_JOURNAL_HEAD);
  if (!keeps_marks || !noted.mark || noted.mark->sequence == 0 || now_ms < session.mark_due_ms) {
    return {};
  }
  session.mark_due_ms = now_ms + kMarkPeriodMs;
  device.session.mark = *noted.mark;
  return device.session.mark;
}

// The device's open task will never be answered.
void Coordinator::State::abandon(uint32_t index, uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  decide(JournalRecord::verdict(abandoned_task(index, device.row)), now_ms);
  ++counters.tasks_abandoned;
  log_of(
      device, "task_abandoned"_event,
      Fields().add("device", device.name).add("task", device.row.task.sequence).add("version", device.row.task.version),
      now_ms);
}

void Coordinator::State::send_welcome(SessionId id, uint32_t index, bool is_abandoned, uint64_t now_ms) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_welcome_tag;
  gs_Welcome& welcome = message.body.welcome;
  welcome = make_welcome(view(), index, ledger.fleet().at(index).session.image, is_abandoned, now_ms);
  const JournalMark mark = next_mark(id, now_ms);
  welcome.journal_sequence = mark.sequence;
  welcome.journal_chain = mark.chain;
  // A version opens a run, and makes a stalled one active again: the run's state depends on its record too.
  const uint64_t required = is_abandoned ? ledger.last_sequence() : std::max(run_state_sequence, version_sequence);
  if (is_storage_failed && required > durable_sequence) {
    refuse(id, gs_Reason_REASON_STORAGE);
    return;
  }
  respond(id, message, required);
}

// The tensors of a plan's snapshot, in the order of the parts' numbers.
std::vector<SnapshotPart> Coordinator::State::snapshot_parts(Shape shape, const SyncPlan& plan) const {
  std::vector<SnapshotPart> parts;
  if ((plan.snapshot_parts & part_bit(ModelPart::kModel)) != 0) {
    parts.push_back({ModelPart::kModel, model_bytes(shape, plan.snapshot)});
  }
  if (parameters.has_mean() && (plan.snapshot_parts & part_bit(ModelPart::kModel)) != 0) {
    parts.push_back({ModelPart::kMean, mean_bytes(shape, plan.snapshot_mean)});
  }
  for (const ModelPart part :
       {ModelPart::kMeanGradient, ModelPart::kPreviousModel, ModelPart::kUnits, ModelPart::kDirection}) {
    if ((plan.snapshot_parts & part_bit(part)) != 0) {
      parts.push_back({part, part == ModelPart::kUnits ? ledger.run().open_stage().units
                                                       : model_bytes(shape, ledger.run().replica().part(part))});
    }
  }
  return parts;
}

// Whether the device may have what the plan sends it. It may have it once in a version, and again within kCopies.
bool Coordinator::State::may_copy(uint32_t index, const SyncPlan& plan, uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  const bool is_first = std::exchange(device.session.asked_version, ledger.run().version()) != ledger.run().version();
  if (is_first || (plan.snapshot == nullptr && plan.records.empty())) {
    return true;
  }
  // Records are sent only where they are no longer than about a model.
  const uint64_t size = snapshot_size(parameters.model->shape, parameters.has_mean());
  return device.session.meters.copies.admit(kCopies, now_ms, size / kCopyPieceSize + 1);
}

// False: the device has had it in this version, again and again, and must wait.
bool Coordinator::State::send_sync(SessionId id, uint32_t index, const gs_Pull& pull, uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  const SyncPlan plan = ledger.run().plan_sync(pull.has_model, pull.version, pull.digest);
  if (!may_copy(index, plan, now_ms)) {
    ++counters.copies_refused;
    log_of(device, "copy_refused"_event, Fields().add("device", device.name).add("version", ledger.run().version()),
           now_ms);
    return false;
  }
  if (plan.cause == SyncCause::kMismatch) {
    ++counters.digest_mismatches;
    log_of(device, "digest_mismatch"_event,
           Fields()
               .add("device", device.name)
               .add("version", pull.version)
               .add_hex("digest", pull.digest)
               .add("current", ledger.run().version()),
           now_ms);
  }
  if (plan.cause == SyncCause::kAhead) {
    ++counters.history.devices_ahead;
    device.session.ahead_ms = std::max<uint64_t>(now_ms, 1);
    log_of(device, "device_ahead"_event,
           Fields().add("device", device.name).add("version", pull.version).add("current", ledger.run().version()),
           now_ms);
  } else if (device.session.ahead_ms != 0 && now_ms >= device.session.ahead_ms + kForkToldMs) {
    device.session.ahead_ms = 0;
  }
  if (plan.snapshot != nullptr) {
    respond_sync(
        id, snapshot_chunks(plan.snapshot_version, plan.snapshot_digest, snapshot_parts(parameters.model->shape, plan)),
        plan.records.empty());
    ++counters.snapshots_sent;
    ++device.session.snapshots_sent;
    // Where versions have no records every Pull gets one: that is no event.
    if (plan.cause != SyncCause::kShorter || parameters.stream() == StreamKind::kScalarStream) {
      log_of(device, "snapshot_sent"_event,
             Fields()
                 .add("device", device.name)
                 .add("version", plan.snapshot_version)
                 .add("cause", sync_cause_name(plan.cause)),
             now_ms);
    }
  }
  for (const VersionRecord* record : plan.records) {
    respond_sync(id, log_chunks(*record), record == plan.records.back());
    ++counters.records_sent;
  }
  device.session.version_held = ledger.run().version();
  return true;
}

void Coordinator::State::send_task_or_wait(SessionId id, uint32_t index, const gs_Pull& pull, uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  if (device.session.is_barred) {
    note_barred(index, now_ms);  // its time may be over
  }
  const WorkDecision work = decide_work(view(), standing(index), device.row, pull.has_model, now_ms, &device.session);
  switch (work.kind) {
    case WorkKind::kWaitShared:
      log_share(device, index);
      [[fallthrough]];
    case WorkKind::kWait:
      wait(id, work.cause, window(work.window, now_ms), work.required);
      return;
    case WorkKind::kRefuse:
      refuse(id, gs_Reason_REASON_STORAGE);
      return;
    case WorkKind::kInstead:
      abandon(index, now_ms);
      [[fallthrough]];
    case WorkKind::kNew:
      issue_task(index, now_ms);
      [[fallthrough]];
    case WorkKind::kSame:
      send_task(id, index, now_ms);
      return;
  }
}

void Coordinator::State::log_share(FleetDevice& device, uint32_t index) {
  if (!std::exchange(device.session.meters.is_told_share, true)) {
    log("share_used"_event, Fields()
                                .add("device", device.name)
                                .add("version", ledger.run().version())
                                .add("updates", ledger.fleet().shares().update_count(index))
                                .add("limit", share_limit(parameters))
                                .add("versions", share_versions(parameters)));
  }
}

void Coordinator::State::issue_task(uint32_t index, uint64_t now_ms) {
  const RunView run = view();
  FleetDevice& device = ledger.fleet().at(index);
  const StepCount steps = decide_steps(run, device.row, deadline_ms, now_ms);
  if (steps.slow_deadline_ms > 0 && !std::exchange(device.session.meters.is_told_slow, true)) {
    log("device_too_slow"_event, Fields()
                                     .add("device", device.name)
                                     .add("step_time_us", device.row.step_time_us)
                                     .add("steps_min", parameters.least_steps())
                                     .add("deadline_ms", steps.slow_deadline_ms));
  }
  decide(JournalRecord::task(next_task(run, index, device.row, device.session.sample_count, steps.count)), now_ms);
  ++counters.tasks_issued;
}

void Coordinator::State::send_task(SessionId id, uint32_t index, uint64_t now_ms) {
  const FleetDevice& device = ledger.fleet().at(index);
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_task_tag;
  Task task = make_task(parameters, ledger.run().task_terms());
  task.sequence = device.row.task.sequence;
  task.version = device.row.task.version;
  task.local_step_count = device.row.task.steps;
  const std::optional<uint32_t> stamp = ledger.run().memory_stamp(index);
  task.memory_stamp = stamp.has_value() ? *stamp + 1 : 0;
  task.evaluates = task.evaluates && device.session.image.can_evaluate;
  write_task(task, &message.body.task);
  message.body.task.digest = ledger.run().digest();
  const JournalMark mark = next_mark(id, now_ms);
  message.body.task.journal_sequence = mark.sequence;
  message.body.task.journal_chain = mark.chain;
  respond(id, message, device.row.task.record_sequence);
}

void Coordinator::State::on_task_refused(SessionId id, const gs_TaskRefused& refused, uint64_t now_ms) {
  const uint32_t index = sessions.at(id).device;
  FleetDevice& device = ledger.fleet().at(index);
  ++counters.tasks_refused;
  count_refusal(refused.reason);
  const bool ends_task = judge_refusal(view(), device.row, refused, now_ms, &device.session);
  log_refusal("task_refused"_event, index, refused.task_sequence, refused.reason, now_ms);
  if (ends_task) {
    end_task_refused(index, refused.task_sequence, refused.reason, 0, now_ms);
  }
  note_barred(index, now_ms);
  wait(id, device.session.is_capable ? gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN : gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE,
       device.session.is_capable ? window(kRefusedWindowFactor) : refused_window(), device.row.judged.record_sequence);
  note_blocked(now_ms);
}

// The last one is kept; the first one of a session is logged.
void Coordinator::State::on_report(SessionId id, const gs_StatusReport& report, uint64_t now_ms) {
  Session& session = sessions.at(id);
  FleetDevice& device = ledger.fleet().at(session.device);
  // A device counts its sessions since it started: it may have come back with other data.
  const bool is_restarted = report.sessions == 1 || report.sessions < device.session.report.sessions;
  device.session.report = report;
  if (is_restarted && !session.has_report) {
    forgive(session.device, now_ms);
  }
  if (std::exchange(session.has_report, true)) {
    return;
  }
  log_of(device, "device_report"_event,
         Fields()
             .add("device", device.name)
             .add("board", device.session.image.board)
             .add("firmware_version", device.session.image.firmware_version)
             .add("uptime_s", report.uptime_s)
             .add("arena_high_water", report.arena_high_water)
             .add("stack_high_water", report.stack_high_water)
             .add("tls_high_water", report.tls_high_water)
             .add("sessions", report.sessions)
             .add("digest_mismatches", report.digest_mismatches)
             .add("tasks_done", report.tasks_done),
         now_ms);
}

}  // namespace gradstream
