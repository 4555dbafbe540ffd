#include "server/coordinator/device_rules.h"

#include <algorithm>
#include <utility>

#include "server/coordinator/run_messages.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger_keys.h"
#include "server/run/weights.h"
#include "server/run/work.h"

namespace gradstream {
namespace {

// A device that is barred gets one more task after this time, ms. Reason: its data may have changed without a restart,
// as where samples are pushed, and two records in ten minutes are no burden for a journal.
constexpr uint64_t kTryAgainMs = 600'000;
// Tasks in place of one that the device had in the same version. Reason: each is two records of the journal and no
// work, so a device adds ten records a minute at most, and a crash in the middle of a task costs it no wait.
constexpr RateLimit kNewTasks = {1, 4, 60};

// Parts of a model that an image knows by a feature. Reason: an older image takes a Welcome with an unknown part for
// malformed, and then neither trains nor learns what it lacks.
uint32_t unknown_parts(const DeviceImage& image) {
  constexpr std::pair<gs_Feature, ModelPart> kParts[] = {{gs_Feature_FEATURE_UNITS, ModelPart::kUnits},
                                                         {gs_Feature_FEATURE_LINES, ModelPart::kDirection}};
  uint32_t parts = 0;
  for (const auto& [feature, part] : kParts) {
    parts |= has_feature(image, feature) ? 0 : part_bit(part);
  }
  return parts;
}

// With the image and the data that the device has it would be refused again.
bool is_final(gs_Reason reason) {
  return reason == gs_Reason_REASON_TASK_UNIMPLEMENTED || reason == gs_Reason_REASON_OUT_OF_MEMORY ||
         reason == gs_Reason_REASON_WRONG_SHAPE || reason == gs_Reason_REASON_WRONG_NETWORK ||
         reason == gs_Reason_REASON_PRIVACY;
}

bool has_answered(const RunView& run, const DeviceRow& row) {
  return run.has_version && row.answered_version == run.version;
}

bool has_task(const RunView& run, const DeviceRow& row) { return row.task.is_open && row.task.version == run.version; }

}  // namespace

// ---- Hello ----

HelloDecision judge_hello(const RunView& run, const DeviceRow& row, const gs_Hello& hello, bool has_hello) {
  if (has_hello) {
    return {gs_Reason_REASON_UNEXPECTED_MESSAGE};
  }
  if (hello.protocol_version != kProtocolVersion) {
    return {gs_Reason_REASON_PROTOCOL_VERSION};
  }
  if (hello.run != 0 && hello.run != run.identity.run) {
    return {gs_Reason_REASON_UNKNOWN_RUN};
  }
  const bool is_lost =
      hello.lost_task_sequence != 0 && sequence_state(row, hello.lost_task_sequence) == SequenceState::kOpen;
  return {is_lost && run.is_storage_failed ? gs_Reason_REASON_STORAGE : gs_Reason_REASON_NONE, is_lost};
}

gs_Welcome make_welcome(const RunView& run, uint32_t device, const DeviceImage& image, bool is_abandoned,
                        uint64_t now_ms) {
  gs_Welcome welcome = {};
  welcome.server_time_ms = now_ms;
  welcome.run = run.identity.run;
  welcome.run_state = run.state;
  welcome.run_nonce = run.identity.run_nonce;
  welcome.parameters_digest = run.identity.parameters_digest;
  welcome.version = run.durable_version;
  describe_run(run.parameters, device, &welcome);
  welcome.model_parts &= ~unknown_parts(image);
  welcome.abandoned = is_abandoned;
  return welcome;
}

// ---- Pull ----

bool may_try_again(const DeviceSession& session, uint64_t now_ms) {
  return session.image.lacks.empty() && now_ms >= session.refusals.last_ms + kTryAgainMs;
}

bool is_task_barred(const RunView& run, const DeviceRow& row, const DeviceSession& session, uint64_t now_ms) {
  const DeviceRefusals& refusals = session.refusals;
  return row.refusals.version == run.version && row.refusals.count >= kRefusedTasksMax && !refusals.is_forgiven &&
         refusals.last_ms != 0 && now_ms < refusals.last_ms + kTryAgainMs;
}

bool is_refused(const DeviceRow& row, const DeviceSession& session, uint32_t version) {
  const bool was_refused = row.judged.verdict == gs_Verdict_VERDICT_REFUSED && row.refusals.version == version &&
                           !session.refusals.is_forgiven;
  return was_refused && (row.refusals.count >= kRefusedTasksMax || is_final(row.judged.reason));
}

bool is_out_of_stage(const RunView& run, const DeviceRow& row, const DeviceSession& session, uint64_t now_ms) {
  if (!run.has_version || run.stage == TaskStage::kTrain || has_answered(run, row)) {
    return false;
  }
  if (session.is_heard && !session.image.lacks.empty()) {
    return true;  // it gets no task of this run
  }
  const DeviceRefusals& refusals = session.refusals;
  if (!is_of_units(run.stage)) {
    const bool keeps_trials = refusals.keeps_trials && !may_try_again(session, now_ms);
    return session.is_heard && (!has_feature(session.image, gs_Feature_FEATURE_LINES) || keeps_trials);
  }
  const bool was_refused = row.judged.verdict == gs_Verdict_VERDICT_REFUSED &&
                           row.judged.reason == gs_Reason_REASON_OUT_OF_RANGE && row.refusals.version == run.version &&
                           refusals.last_ms != 0 && !may_try_again(session, now_ms);
  const bool keeps_sums = refusals.keeps_sums && !may_try_again(session, now_ms);
  return row.is_left_out || keeps_sums || ((row.refuses_units || was_refused) && !refusals.is_forgiven);
}

bool is_share_used(const RunView& run, const FleetStanding& standing, const DeviceRow& row) {
  if (share_versions(run.parameters) == 0 || run.stage != TaskStage::kTrain || run.extension_count > 0 ||
      run.state != gs_RunState_RUN_STATE_ACTIVE) {
    return false;
  }
  return !has_task(run, row) && standing.share_count >= share_limit(run.parameters) &&
         limits_shares(run.parameters, standing.sharing_count);
}

bool may_hold_pull(const RunView& run, const FleetStanding& standing, const DeviceRow& row,
                   const DeviceSession& session) {
  if (run.is_storage_failed || run.is_over() || run.is_paused() || !session.is_capable ||
      !has_feature(session.image, gs_Feature_FEATURE_HELD_PULL)) {
    return false;
  }
  return !run.has_version || has_answered(run, row) || !standing.is_asked || session.is_barred ||
         is_share_used(run, standing, row);
}

WorkDecision decide_work(const RunView& run, const FleetStanding& standing, const DeviceRow& row, bool has_model,
                         uint64_t now_ms, DeviceSession* session) {
  const WindowKind slow = run.is_stalled() ? WindowKind::kLong : WindowKind::kPaced;
  const uint64_t judged = row.judged.record_sequence;
  if (run.is_over()) {
    const bool is_finished = run.state == gs_RunState_RUN_STATE_FINISHED;
    return {WorkKind::kWait, is_finished ? gs_WaitCause_WAIT_CAUSE_FINISHED : gs_WaitCause_WAIT_CAUSE_STOPPED,
            WindowKind::kIdle, run.run_state_sequence};
  }
  if (run.is_paused()) {
    return {WorkKind::kWait, gs_WaitCause_WAIT_CAUSE_PAUSED, WindowKind::kIdle, run.run_state_sequence};
  }
  if (!session->is_capable && !may_try_again(*session, now_ms)) {
    return {WorkKind::kWait, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE, WindowKind::kRefused, run.version_sequence};
  }
  if (has_answered(run, row)) {
    const bool is_stalled = run.is_stalled();
    return {WorkKind::kWait, is_stalled ? gs_WaitCause_WAIT_CAUSE_STALLED : gs_WaitCause_WAIT_CAUSE_ANSWERED, slow,
            std::max(run.run_state_sequence, judged)};
  }
  if (!standing.is_asked || session->is_barred) {
    return {WorkKind::kWait, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, slow,
            std::max(run.version_sequence, session->is_barred ? judged : 0)};
  }
  if (is_share_used(run, standing, row)) {
    return {WorkKind::kWaitShared, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kPaced, run.version_sequence};
  }
  if (is_task_barred(run, row, *session, now_ms)) {
    return {WorkKind::kWait, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kRefused, judged};
  }
  const bool is_open = has_task(run, row);
  if (is_open && has_model && (!run.is_storage_failed || row.task.record_sequence <= run.durable_sequence)) {
    return {WorkKind::kSame};
  }
  if (run.is_storage_failed) {
    return {WorkKind::kRefuse};
  }
  const bool is_another = row.task.version == run.version && row.task.sequence > 0;
  if (is_another && !session->meters.new_tasks.admit(kNewTasks, now_ms)) {
    return {WorkKind::kWait, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kRefused, judged};
  }
  return {is_open ? WorkKind::kInstead : WorkKind::kNew};
}

// ---- Tasks ----

StepCount decide_steps(const RunView& run, const DeviceRow& row, uint64_t deadline_ms, uint64_t now_ms) {
  const RunParameters& parameters = run.parameters;
  if (parameters.trigger->work != Work::kTimed || run.asks_everybody) {
    return {};
  }
  const uint32_t whole_ms = parameters.trigger->task_deadline_ms > 0 ? parameters.trigger->task_deadline_ms
                                                                     : parameters.trigger->report_deadline_ms;
  // A round's deadline is the same for all who are asked, whenever they come; without rounds there is none to meet.
  const bool has_end = parameters.trigger->buffer_size == 0 && deadline_ms != UINT64_MAX;
  const uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
  const uint64_t budget_ms = has_end ? std::min<uint64_t>(whole_ms, left_ms) : whole_ms;
  const bool is_slow = uint64_t{parameters.least_steps()} * row.step_time_us > uint64_t{whole_ms} * 1000;
  return {timed_step_count(parameters, row.step_time_us, budget_ms), is_slow ? whole_ms : 0};
}

TaskIssued next_task(const RunView& run, uint32_t device, const DeviceRow& row, uint32_t sample_count,
                     uint32_t step_count) {
  const bool is_weighed = records_samples(run.parameters);
  return {.device = device,
          .task_sequence = row.task.sequence + 1,
          .version = run.version,
          .step_count = step_count,
          .sample_count = is_weighed ? memory_weight(run.parameters, sample_count) : uint32_t{0}};
}

TaskEnded refused_task(uint32_t device, const DeviceRow& row, uint32_t task_sequence, gs_Reason reason,
                       uint32_t step_time_us) {
  return {.device = device,
          .task_sequence = task_sequence,
          .version = row.task.version,
          .verdict = gs_Verdict_VERDICT_REFUSED,
          .reason = reason,
          .step_time_us = step_time_us};
}

TaskEnded abandoned_task(uint32_t device, const DeviceRow& row) {
  return {.device = device,
          .task_sequence = row.task.sequence,
          .version = row.task.version,
          .verdict = gs_Verdict_VERDICT_ABANDONED};
}

bool judge_refusal(const RunView& run, const DeviceRow& row, const gs_TaskRefused& refused, uint64_t now_ms,
                   DeviceSession* session) {
  DeviceRefusals& refusals = session->refusals;
  refusals.complaint = {.task_sequence = refused.task_sequence,
                        .sample = refused.sample,
                        .value = static_cast<float>(refused.value),
                        .least = static_cast<float>(refused.least),
                        .most = static_cast<float>(refused.most),
                        .floor = refused.floor};
  const bool is_open = sequence_state(row, refused.task_sequence) == SequenceState::kOpen;
  // A device that keeps a stage's answer to itself may train all the same. The stage may be closed by now.
  const bool is_private = refused.reason == gs_Reason_REASON_PRIVACY;
  const bool is_before_training = run.stage != TaskStage::kTrain || row.task.version < run.train_version;
  const bool is_of_open = run.stage != TaskStage::kTrain && row.task.version == run.version;
  if (is_open && is_private && is_of_open) {
    (is_of_units(run.stage) ? refusals.keeps_sums : refusals.keeps_trials) = true;
  }
  // A value beyond the fleet's exponents may train all the same.
  const bool is_of_stage = is_of_units(run.stage) && refused.reason == gs_Reason_REASON_OUT_OF_RANGE;
  // Another task of the run would be refused for the same reason until the device has another image or other data. A
  // device that cannot hold the run says so in place of a task's number.
  const bool is_final_reason =
      refused.reason == gs_Reason_REASON_TASK_UNIMPLEMENTED || refused.reason == gs_Reason_REASON_OUT_OF_MEMORY ||
      refused.reason == gs_Reason_REASON_WRONG_NETWORK || (is_private && !is_before_training) ||
      refused.reason == gs_Reason_REASON_WRONG_SHAPE || (refused.sample != 0 && !is_of_stage);
  const bool is_of_run = refused.task_sequence == 0 && refused.reason != gs_Reason_REASON_NONE;
  if (is_of_run || (is_open && is_final_reason)) {
    refusals.is_for_good = true;
    refusals.for_good = refused.reason;
    refusals.last_ms = now_ms;
    session->is_capable = false;
  }
  return is_open && !run.is_storage_failed;
}

}  // namespace gradstream
