// What the client makes of the server's messages. Anything that does not belong here ends the session.
#include "runtime/base/no_contraction.h"

#include "runtime/base/config.h"
#include "runtime/link/client.h"
#include "runtime/link/client_fields.h"
#include "runtime/link/task_terms.h"

namespace gradstream {
namespace {

// Mismatches of the digest within a session, none proven between them, that end it: a snapshot did not help.
constexpr uint8_t kMismatchMax = 2;

}  // namespace

Status Client::handle(const ServerMessage& message, uint64_t now_ms) {
  switch (message.which_body) {
    case gs_ServerMessage_welcome_tag:
      return handle_welcome(message.body.welcome, now_ms);
    case gs_ServerMessage_task_tag:
      return handle_task(message.body.task, now_ms);
    case gs_ServerMessage_log_chunk_tag:
      return handle_log(message.body.log_chunk);
    case gs_ServerMessage_snapshot_chunk_tag:
      return handle_snapshot(message.body.snapshot_chunk);
    case gs_ServerMessage_ack_tag:
      return handle_ack(message.body.ack, now_ms);
    case gs_ServerMessage_wait_tag:
      return handle_wait(message.body.wait, now_ms);
    case gs_ServerMessage_refuse_tag:
      handle_refuse(message.body.refuse, now_ms);
      return Status::kOk;
    default:
      handle_drain(message.body.drain, now_ms);
      return Status::kOk;
  }
}

Status Client::handle_welcome(const gs_Welcome& welcome, uint64_t now_ms) {
  if (state_ != ClientState::kHello || await_ == Await::kNothing) {  // the Hello has not left yet
    return Status::kProtocolError;
  }
  Status status = Status::kOk;
  if (progress_.is_open && is_same_run(welcome, model_.welcome())) {
    model_.renew(welcome);
  } else {
    counters_.runs_dropped += progress_.is_open ? 1 : 0;
    status = begin_run(welcome);
  }
  if (welcome.abandoned) {
    progress_.lost_task_sequence = 0;
  }
  session_.is_status_due = true;
  if (status == Status::kOk) {
    resume(now_ms);
  } else {
    refuse_task(0, status, now_ms);
  }
  return Status::kOk;
}

Status Client::handle_log(const gs_LogChunk& chunk) {
  if (!awaits_answer_to(Sent::kPull)) {
    return Status::kProtocolError;
  }
  if (session_.is_skipping) {
    return Status::kOk;
  }
  if (chunk.version != model_.replica().version() + 1 || snapshot_.is_open() || !model_.has_scalar_stream()) {
    return Status::kProtocolError;
  }
  LineTracker* const line = progress_.line;
  if (kTakesUnits && line != nullptr && !record_.is_open()) {
    open_line_of_record(*line);
  }
  const Status status = record_.take(chunk, model_, arena_, line);
  if (status == Status::kUnfinished) {
    return Status::kOk;
  }
  if (status == Status::kOutOfMemory && model_.lean() != nullptr) {
    // The rest of the answer is of no use: the next Pull says that there is no model, and a snapshot comes.
    record_.close(arena_);
    static_cast<void>(model_.replica().begin_snapshot());
    drop_correction();  // it would want the same record again
    session_.is_skipping = true;
    return Status::kOk;
  }
  GS_TRY(status);
  ++counters_.records_applied;
  const bool holds = prove_model(chunk.digest);
  if (holds && !model_.replica().has_mean()) {
    settle_correction();
  }
  record_.close(arena_);
  if (kTakesUnits && line != nullptr && holds) {
    line->close(model_.replica(), arena_);
  }
  if (!holds) {
    drop_correction();  // as above: a model that is right would not make this record hold
    return skip_answer();
  }
  return Status::kOk;
}

// The model proved wrong: what is left of the answer is of no use.
Status Client::skip_answer() {
  session_.is_skipping = true;
  return session_.mismatches < kMismatchMax ? Status::kOk : Status::kDataCorrupt;
}

Status Client::handle_snapshot(const gs_SnapshotChunk& chunk) {
  if (!awaits_answer_to(Sent::kPull)) {
    return Status::kProtocolError;
  }
  if (session_.is_skipping) {
    return Status::kOk;
  }
  if (record_.is_open()) {
    return Status::kDataCorrupt;
  }
  LineTracker* const line = progress_.line;
  if (kTakesUnits && line != nullptr && !snapshot_.is_open()) {
    open_line_of_snapshot(*line, chunk);
  }
  if (kTakesUnits && chunk.part == gs_ModelPart_MODEL_PART_UNITS && chunk.offset == 0) {
    GS_TRY(prepare_units(chunk.total));
  }
  UnitsTable* const units = model_.takes_units() ? &model_.units() : nullptr;
  const Status status = snapshot_.take(chunk, &model_.replica(), units);
  if (status == Status::kUnfinished) {
    return Status::kOk;
  }
  GS_TRY(status);
  counters_.snapshots += snapshot_.had_model() ? 1U : 0U;
  if (!prove_model(chunk.digest)) {
    return skip_answer();
  }
  if (kTakesUnits && line != nullptr && snapshot_.had_model()) {
    line->close(model_.replica(), arena_);
  }
  if (!model_.has_memory() && progress_.slots.has(SlotRole::kAccepted) &&
      progress_.slots.accepted_record() <= snapshot_.version()) {
    settle_with_mean();
  }
  return Status::kOk;
}

Status Client::handle_task(const gs_Task& task, uint64_t now_ms) {
  if (!awaits_answer_to(Sent::kPull) && !awaits_answer_to(Sent::kRefusal)) {
    return Status::kProtocolError;
  }
  if (end_skipping()) {
    return Status::kOk;
  }
  if (record_.is_open() || snapshot_.is_open() || !model_.replica().has_model() ||
      task.version != model_.replica().version()) {
    return Status::kProtocolError;
  }
  model_.note_journal(task.journal_sequence, task.journal_chain);
  progress_.is_refusal_due = false;
  await_ = Await::kNothing;
  state_ = ClientState::kSync;
  if (progress_.slots.has(SlotRole::kPending)) {  // an upload in hand goes first, whatever the server offers
    resume(now_ms);
    return Status::kOk;
  }
  if (!prove_model(task.digest)) {
    return session_.mismatches < kMismatchMax ? Status::kOk : Status::kDataCorrupt;  // pulls again, without a model
  }
  session_.mismatches = 0;
  clock_.note_success();
  news_.run_finished = false;
  news_.last_wait = gs_WaitCause_WAIT_CAUSE_NONE;
  progress_.lost_task_sequence = 0;
  run_.task = to_task(task, model_.welcome());
  run_.task.shape = model_.shape();
  // A deadline does not cut a task below the floor. 0 is 1, as a floor of 0 is.
  if (run_.task.steps_min < config_.floors.local_step_count_min) {
    run_.task.steps_min = config_.floors.local_step_count_min;
  }
  task_ = TaskProgress();
  task_.received_ms = now_ms;
  state_ = ClientState::kTrain;
  if (session_.is_draining) {
    close_session();
  }
  return Status::kOk;
}

Status Client::handle_ack(const gs_Ack& ack, uint64_t now_ms) {
  if (state_ != ClientState::kUpload || sent_ != Sent::kPiece ||
      ack.task_sequence != progress_.slots.upload(SlotRole::kPending).task_sequence || ack.clip_scale > kClipScaleOne) {
    return Status::kProtocolError;
  }
  const bool is_pulled = kHoldsPulls && tells_base();
#if !defined(GS_BARE_METAL)
  if (config_.judged.tell != nullptr && ack.verdict != gs_VERDICT_TRY_LATER) {
    config_.judged.tell(config_.judged.context, model_.welcome().client_index,
                        progress_.slots.upload(SlotRole::kPending), progress_.slots.bytes(SlotRole::kPending), ack);
  }
#endif
  switch (ack.verdict) {
    case gs_VERDICT_FOLDED:
      ++counters_.updates_folded;
      accept_pending(ack);
      break;
    case gs_VERDICT_LATE:
      ++counters_.updates_late;
      accept_pending(ack);
      break;
    case gs_VERDICT_TRY_LATER:
      give_reason(ack.reason);
      end_exchange(ack.retry, now_ms);
      return Status::kOk;
    default:
      ++counters_.updates_refused;
      give_reason(ack.reason);
      progress_.range_refusal = {static_cast<float>(ack.value), static_cast<float>(ack.limit), ack.fold_scale_log2,
                                 static_cast<float>(ack.step_size)};
      if (kTakesUnits && progress_.slots.upload(SlotRole::kPending).stage != TaskStage::kTrain) {
        break;  // nothing of an answer goes on to the next one
      }
      progress_.feedback.take_back();
      if (!model_.has_memory()) {
        drop_correction();
      } else if (ack.verdict == gs_VERDICT_SUPERSEDED) {
        // What became of it is not known here any more. The memory may hold it: tasks say so.
        accept_into_memory(model_.replica().version() + 1, ack.clip_scale);
      }
      break;
  }
  progress_.slots.drop(SlotRole::kPending);
  if (kHoldsPulls && ack.hold && config_.holds_pulls && !session_.is_draining) {
    pull_again(ack, is_pulled, now_ms);
  } else {
    end_exchange(ack.retry, now_ms);
  }
  return Status::kOk;
}

Status Client::handle_wait(const gs_Wait& wait, uint64_t now_ms) {
  if (!awaits_answer_to(Sent::kPull) && !awaits_answer_to(Sent::kRefusal)) {
    return Status::kProtocolError;
  }
  if (end_skipping()) {
    return Status::kOk;
  }
  if (record_.is_open() || snapshot_.is_open()) {
    return Status::kProtocolError;
  }
  progress_.is_refusal_due = false;
  session_.mismatches = 0;
  news_.last_wait = wait.cause;
  news_.run_finished = wait.cause == gs_WAIT_CAUSE_FINISHED || wait.cause == gs_WAIT_CAUSE_STOPPED;
  end_exchange(wait.retry, now_ms);
  if (news_.run_finished) {
    state_ = ClientState::kFinished;
    if (wait.retry.max_ms == 0) {
      clock_.wake_never();
    }
    close_session();
  }
  return Status::kOk;
}

// In a local task the work goes on; the server is asked again when it is done, not before the window.
void Client::handle_refuse(const gs_Refuse& refuse, uint64_t now_ms) {
  give_reason(refuse.reason);
  leave_server(refuse.retry, now_ms);
}

void Client::handle_drain(const gs_Drain& drain, uint64_t now_ms) {
  if (state_ != ClientState::kSync && state_ != ClientState::kUpload) {
    leave_server(drain.retry, now_ms);
    return;
  }
  session_.is_draining = true;
  clock_.keep_away(drain.retry, now_ms);
}

void Client::leave_server(const gs_RetryWindow& window, uint64_t now_ms) {
  close_session();
  clock_.keep_away(window, now_ms);
  if (state_ == ClientState::kTrain || state_ == ClientState::kSave) {
    return;
  }
  if (window.max_ms == 0) {
    clock_.back_off(true, config_.min_retry_ms, now_ms);
  }
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  clock_.stay_away();
}

}  // namespace gradstream
