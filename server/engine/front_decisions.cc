// What a front makes of one message: the coordinator's rules, and the answers that leave when the row's change is
// committed, or at once where nothing changes.
#include <algorithm>
#include <utility>

#include "server/coordinator/fleet.h"
#include "server/coordinator/run_messages.h"
#include "server/engine/front.h"
#include "server/rules/record.h"
#include "server/run/pace.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

// FrontPlant::kOtherSum adds one update in so many twice.
constexpr uint64_t kPlantedSumPeriod = 5;

ServerMessage empty_message(pb_size_t tag) {
  ServerMessage message = {};
  message.which_body = tag;
  return message;
}

gs_RunState state_of(EngineRunState state) {
  switch (state) {
    case EngineRunState::kPaused:
      return gs_RunState_RUN_STATE_PAUSED;
    case EngineRunState::kStopped:
      return gs_RunState_RUN_STATE_STOPPED;
    case EngineRunState::kActive:
      break;
  }
  return gs_RunState_RUN_STATE_ACTIVE;
}

float staleness_share(const RunParameters& parameters, const JournalRecord& update) {
  return static_cast<float>(staleness_weight(*parameters.trigger, update.staleness())) /
         static_cast<float>(kStalenessOne);
}

// The update is the last one of its device now. Another late one of the same version goes before it.
void follow_memory(const JournalRecord& update, RowMemory* memory) {
  if (memory->last.version < update.version()) {
    memory->before = memory->last;
  }
  memory->last = {update.base_version(), update.version()};
}

// As one server finds by its memory. Here the row alone has what batches before this one have brought.
bool is_older_update(const RowMemory& memory, const Upload& upload) {
  return memory.last.base_version != kNoVersion && upload.base_version <= memory.last.base_version;
}

}  // namespace

// What the front knows of the run is durable: it was read from the engine. Rows have no records.
gs_RunState Front::heard_state() const {
  return run_.is_done() ? gs_RunState_RUN_STATE_FINISHED : state_of(told_.state);
}

RunView Front::view() const {
  const RunLedger& ledger = run_.ledger();
  RunView run = {run_.parameters(), identity_};
  run.state = heard_state();
  run.has_version = true;
  run.version = ledger.version();
  run.stage = ledger.stage();
  run.steps_min = ledger.steps_min();
  run.asks_everybody = ledger.asks_everybody();
  run.update_count = front_.on_time_count + front_.late_count;
  run.train_version = ledger.open_stage().train_version;
  run.durable_version = ledger.version();
  run.is_storage_failed = silence_.is_away;
  return run;
}

gs_RetryWindow Front::window(WindowKind kind, uint64_t idle_ms) const {
  const PaceKeys& keys = *run_.parameters().pace;
  switch (kind) {
    case WindowKind::kLong:
      return retry_window(keys, fleet_.active_count, kRefusedWindowFactor);
    case WindowKind::kRefused:
      return refused_window(keys, fleet_.active_count);
    case WindowKind::kIdle:
      return idle_window(keys, fleet_.active_count, idle_ms);
    case WindowKind::kPaced:
      break;
  }
  return retry_window(keys, fleet_.active_count, 1);
}

// Since when only an operator can change anything. Of a run whose rounds are done no front knows it.
uint64_t Front::idle_ms(uint64_t now_ms) const {
  const bool is_known = told_.state != EngineRunState::kActive && !run_.is_done();
  return is_known ? now_ms - std::min(now_ms, told_.state_since_ms) : UINT64_MAX;
}

// ---- Answers ----

FrontAction Front::answer(SessionId id, const ServerMessage& message) const {
  FrontAction action;
  action.session = id;
  action.message = message;
  return action;
}

FrontAction Front::wait_answer(SessionId id, gs_WaitCause cause, gs_RetryWindow retry) const {
  ServerMessage message = empty_message(gs_ServerMessage_wait_tag);
  message.body.wait.cause = cause;
  message.body.wait.has_retry = true;
  message.body.wait.retry = retry;
  return answer(id, message);
}

FrontAction Front::drain_answer(SessionId id) const {
  ServerMessage message = empty_message(gs_ServerMessage_drain_tag);
  message.body.drain.has_retry = true;
  message.body.drain.retry = drain_window();
  return answer(id, message);
}

FrontAction Front::task_answer(SessionId id, const Device& device) const {
  ServerMessage message = empty_message(gs_ServerMessage_task_tag);
  Task task = make_task(run_.parameters(), run_.ledger().task_terms());
  task.sequence = device.row.task.sequence;
  task.version = device.row.task.version;
  task.local_step_count = device.row.task.steps;
  task.evaluates = task.evaluates && device.session.image.can_evaluate;
  if (run_.keeps_updates()) {
    task.memory_stamp = run_.memory_stamp(sessions_.at(id).device, device.row.memory);
  }
  write_task(task, &message.body.task);
  message.body.task.digest = run_.ledger().digest();
  return answer(id, message);
}

FrontAction Front::ack_answer(const Item& item, const DeviceRow& row, bool is_duplicate) const {
  const uint32_t device = sessions_.at(item.session).device;
  const JudgedAck judged = judged_ack(row, devices_.at(device).session, item.upload->task_sequence, is_duplicate);
  ServerMessage message = empty_message(gs_ServerMessage_ack_tag);
  message.body.ack = judged.ack;
  message.body.ack.has_retry = true;
  message.body.ack.retry = window(judged.is_long_wait ? WindowKind::kLong : WindowKind::kPaced);
  return answer(item.session, message);
}

std::vector<FrontAction> Front::sync_answers(SessionId id, const gs_Pull& pull) const {
  std::vector<FrontAction> answers;
  const auto add = [&](const std::vector<ServerMessage>& pieces) {
    for (const ServerMessage& piece : pieces) {
      answers.push_back(answer(id, piece));
    }
  };
  const SyncPlan plan = run_.ledger().plan_sync(pull.has_model, pull.version, pull.digest);
  if (plan.snapshot != nullptr) {
    const Shape shape = run_.parameters().model->shape;
    std::vector<SnapshotPart> parts = {{ModelPart::kModel, model_bytes(shape, plan.snapshot)}};
    if (run_.parameters().has_mean()) {
      parts.push_back({ModelPart::kMean, mean_bytes(shape, plan.snapshot_mean)});
    }
    add(snapshot_chunks(plan.snapshot_version, plan.snapshot_digest, parts));
  }
  for (const VersionRecord* record : plan.records) {
    add(log_chunks(*record));
  }
  return answers;
}

void Front::refuse(SessionId id, gs_Reason reason) {
  FrontAction action;
  action.session = id;
  action.is_close = true;
  action.reason = reason;
  act(action);
  on_session_closed(id);
}

// ---- Decisions ----

Front::Decision Front::begin_decision(const Item& item) const {
  const uint32_t device = sessions_.at(item.session).device;
  const DeviceRow& row = devices_.at(device).row;
  Decision decision;
  decision.item = item;
  decision.change = {device, row.task.sequence, row.task.is_open, row};
  return decision;
}

// The decision waits for the next batch, and its device with it.
void Front::decide(Decision decision) {
  const uint32_t device = decision.change.device;
  if (plant_ == FrontPlant::kAckBeforeCommit) {
    for (FrontAction& action : std::exchange(decision.answers, {})) {
      act(action);
    }
  }
  devices_.at(device).is_busy = true;
  gathered_bytes_ += decision.update_bytes;
  gathered_.insert_or_assign(device, std::move(decision));
}

void Front::judge(const Item& item, uint64_t now_ms) {
  const Session& session = sessions_.at(item.session);
  if (item.message.which_body == gs_DeviceMessage_hello_tag && silence_.is_away) {
    refuse(item.session, gs_Reason_REASON_STORAGE);
    return;
  }
  if (item.message.which_body == gs_DeviceMessage_hello_tag) {
    devices_.at(session.device).is_busy = true;
    loads_.wanted.insert_or_assign(session.device, item);
    return;
  }
  if (!session.has_hello) {
    refuse(item.session, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  } else if (item.upload) {
    judge_upload(item, now_ms);
  } else if (item.message.which_body == gs_DeviceMessage_pull_tag) {
    judge_pull(item, now_ms);
  } else {
    judge_task_refusal(item, now_ms);
  }
}

// Its device's row has just been loaded.
void Front::judge_hello_of(const Item& item, uint64_t now_ms) {
  Session& session = sessions_.at(item.session);
  Device& device = devices_.at(session.device);
  const gs_Hello& hello = item.message.body.hello;
  const RunView run = view();
  const auto [refusal, is_lost] = judge_hello(run, device.row, hello, session.has_hello);
  if (refusal != gs_Reason_REASON_NONE) {
    refuse(item.session, refusal);
    return;
  }
  if (device.session.id != 0 && device.session.id != item.session && sessions_.contains(device.session.id)) {
    refuse(device.session.id, gs_Reason_REASON_NEWER_SESSION);
  }
  session.has_hello = true;
  device.session.id = item.session;
  const std::string lacks = lacking(run_.parameters(), hello.capabilities, hello.network_digest, hello.sample_count);
  if (take_hello(hello, lacks, &device.session).is_new_image) {
    forgive_refusals(&device.session);
  }
  ServerMessage message = empty_message(gs_ServerMessage_welcome_tag);
  message.body.welcome = make_welcome(run, session.device, device.session.image, is_lost, now_ms);
  if (!is_lost) {
    act(answer(item.session, message));
    return;
  }
  Decision decision = begin_decision(item);
  follow_verdict(JournalRecord::verdict(abandoned_task(session.device, device.row)), &decision.change.row);
  decision.answers.push_back(answer(item.session, message));
  decide(std::move(decision));
}

void Front::judge_pull(const Item& item, uint64_t now_ms) {
  const uint32_t index = sessions_.at(item.session).device;
  Device& device = devices_.at(index);
  const gs_Pull& pull = item.message.body.pull;
  const RunView run = view();
  std::vector<FrontAction> answers = sync_answers(item.session, pull);
  device.session.version_held = run.version;
  const WorkDecision work = decide_work(run, {}, device.row, pull.has_model, now_ms, &device.session);
  Decision decision = begin_decision(item);
  switch (work.kind) {
    case WorkKind::kWaitShared:
    case WorkKind::kWait:
      answers.push_back(wait_answer(item.session, work.cause, window(work.window, idle_ms(now_ms))));
      break;
    case WorkKind::kRefuse:
      refuse(item.session, gs_Reason_REASON_STORAGE);
      return;
    case WorkKind::kSame:
      answers.push_back(task_answer(item.session, device));
      break;
    case WorkKind::kInstead:
      follow_verdict(JournalRecord::verdict(abandoned_task(index, device.row)), &decision.change.row);
      [[fallthrough]];
    case WorkKind::kNew: {
      const StepCount steps = decide_steps(run, device.row, UINT64_MAX, now_ms);
      JournalRecord record =
          JournalRecord::task(next_task(run, index, decision.change.row, device.session.sample_count, steps.count));
      record.set_time_ms(now_ms);
      const uint32_t asked = steps.count == 0 ? run_.ledger().task_terms().local_step_count : steps.count;
      follow_task(record, asked, memory_weight(run_.parameters(), record.task_sample_count()), &decision.change.row);
      Device next = {decision.change.row, device.session, {}, false};
      answers.push_back(task_answer(item.session, next));
      decision.answers = std::move(answers);
      ++counters_.tasks_issued;
      decide(std::move(decision));
      return;
    }
  }
  for (FrontAction& action : answers) {
    act(action);
  }
}

// ---- Uploads ----

void Front::judge_upload(const Item& item, uint64_t now_ms) {
  const uint32_t index = sessions_.at(item.session).device;
  const Device& device = devices_.at(index);
  const Upload& upload = *item.upload;
  const UploadStart start = begin_upload(view(), device.row, upload.task_sequence, false);
  if (start.course == UploadCourse::kJudge) {
    judge_open_upload(item, now_ms);
    return;
  }
  if (start.course == UploadCourse::kKnown) {
    ++counters_.updates_duplicate;
    act(ack_answer(item, device.row, true));
    return;
  }
  ServerMessage message = empty_message(gs_ServerMessage_ack_tag);
  message.body.ack.task_sequence = upload.task_sequence;
  message.body.ack.verdict = start.verdict;
  message.body.ack.reason = start.reason;
  message.body.ack.has_retry = true;
  message.body.ack.retry = window(WindowKind::kLong);
  act(answer(item.session, message));
}

void Front::judge_open_upload(const Item& item, uint64_t now_ms) {
  const uint32_t index = sessions_.at(item.session).device;
  Device& device = devices_.at(index);
  const Upload& upload = *item.upload;
  Decision decision = begin_decision(item);
  const gs_Reason fault = accept(upload, now_ms, &decision);
  if (fault != gs_Reason_REASON_NONE) {
    ++counters_.updates_refused;
    device.session.refusals.is_forgiven = false;
    device.session.refusals.last_ms = now_ms;
    const uint32_t step_us = refused_step_us(view(), device.row, upload, fault, now_ms);
    follow_verdict(JournalRecord::verdict(refused_task(index, device.row, upload.task_sequence, fault, step_us)),
                   &decision.change.row);
  }
  decision.answers.push_back(ack_answer(item, decision.change.row, false));
  decide(std::move(decision));
}

// Folds the upload into the sum of the next batch, or says what is wrong with it.
gs_Reason Front::accept(const Upload& upload, uint64_t now_ms, Decision* decision) {
  const RunView run = view();
  RunLedger& ledger = run_.ledger();
  Device& device = devices_.at(decision->change.device);
  // The task may be of a node whose clock is ahead of the engine's, and this one's may be behind it. It may also be of
  // the engine's clock before a fail-over.
  const uint64_t latest_ms = now_ms + 2 * kClockErrorMaxMs + clock_.set_back_ms(device.row.task.issued_ms);
  if (run_.keeps_updates() && decision->change.device >= kClusterMemoryDevicesMax) {
    return gs_Reason_REASON_OUT_OF_RANGE;  // the memory is full
  }
  gs_Reason fault = find_head_fault(run, device.row, upload, ledger.digest_of(upload.base_version), latest_ms);
  if (fault == gs_Reason_REASON_NONE) {
    fault = decode_upload(upload, &values_);
  }
  if (fault != gs_Reason_REASON_NONE) {
    return fault;
  }
  if (run_.keeps_updates() && is_older_update(device.row.memory, upload)) {
    return gs_Reason_REASON_OLDER_UPDATE;
  }
  FoldInput input = fold_input(run, decision->change.device, device.row, device.session.sample_count, upload, values_);
  input.inverse_participation = ledger.inverse_participation(decision->change.device, device.row.tally.rounds_joined);
  fault = reason_of(ledger.prepare_fold(input));
  if (fault != gs_Reason_REASON_NONE) {
    return fault;
  }
  const UpdateNotes notes =
      keep_notes(upload.notes, quality_metric(run.parameters.model->problem), device.session.image).notes;
  const JournalRecord record = JournalRecord::update(accepted_update(run, device.row, upload, input, notes, now_ms));
  ledger.commit_fold(input);
  if (plant_ == FrontPlant::kOtherSum && (counters_.updates_accepted + 1) % kPlantedSumPeriod == 0) {
    ledger.fold_again_for_test(input);
  }
  follow_update(record, {staleness_share(run.parameters, record), !run.asks_everybody, false}, &decision->change.row);
  if (run_.keeps_updates()) {
    follow_memory(record, &decision->change.row.memory);
    decision->update_bytes = kept_bytes(values_.size());
  }
  decision->is_late = upload.base_version < run.version;
  decision->is_on_time = !decision->is_late;
  note_answer(&device.session);
  return gs_Reason_REASON_NONE;
}

// ---- Tasks that are refused ----

void Front::judge_task_refusal(const Item& item, uint64_t now_ms) {
  const uint32_t index = sessions_.at(item.session).device;
  Device& device = devices_.at(index);
  const gs_TaskRefused& refused = item.message.body.task_refused;
  const bool ends_task = judge_refusal(view(), device.row, refused, now_ms, &device.session);
  const bool is_capable = device.session.is_capable;
  FrontAction wait =
      wait_answer(item.session, is_capable ? gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN : gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE,
                  window(is_capable ? WindowKind::kLong : WindowKind::kRefused));
  if (!ends_task) {
    act(wait);
    return;
  }
  device.session.refusals.is_forgiven = false;
  device.session.refusals.last_ms = now_ms;
  Decision decision = begin_decision(item);
  follow_verdict(JournalRecord::verdict(refused_task(index, device.row, refused.task_sequence, refused.reason, 0)),
                 &decision.change.row);
  decision.answers.push_back(wait);
  decide(std::move(decision));
}

}  // namespace gradstream
