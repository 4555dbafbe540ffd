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
  if (has_run_ && is_same_run(welcome, model_.welcome())) {
    model_.renew(welcome);
  } else {
    counters_.runs_dropped += has_run_ ? 1 : 0;
    status = begin_run(welcome);
  }
  if (welcome.abandoned) {
    lost_task_sequence_ = 0;
  }
  is_status_due_ = true;
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
  if (is_skipping_) {
    return Status::kOk;
  }
  if (chunk.version != model_.replica().version() + 1 || snapshot_.is_open() || !model_.has_scalar_stream()) {
    return Status::kProtocolError;
  }
  const Status status = record_.take(chunk, model_, arena_);
  if (status == Status::kUnfinished) {
    return Status::kOk;
  }
  if (status == Status::kOutOfMemory && model_.lean() != nullptr) {
    // The rest of the answer is of no use: the next Pull says that there is no model, and a snapshot comes.
    record_.close(arena_);
    static_cast<void>(model_.replica().begin_snapshot());
    is_skipping_ = true;
    return Status::kOk;
  }
  GS_TRY(status);
  ++counters_.records_applied;
  const bool holds = prove_model(chunk.digest);
  if (holds && !model_.replica().has_mean()) {
    settle_correction();
  }
  record_.close(arena_);
  return holds ? Status::kOk : skip_answer();
}

// The model proved wrong: what is left of the answer is of no use.
Status Client::skip_answer() {
  is_skipping_ = true;
  return mismatches_ < kMismatchMax ? Status::kOk : Status::kDataCorrupt;
}

Status Client::handle_snapshot(const gs_SnapshotChunk& chunk) {
  if (!awaits_answer_to(Sent::kPull)) {
    return Status::kProtocolError;
  }
  if (is_skipping_) {
    return Status::kOk;
  }
  if (record_.is_open()) {
    return Status::kDataCorrupt;
  }
  const Status status = snapshot_.take(chunk, &model_.replica());
  if (status == Status::kUnfinished) {
    return Status::kOk;
  }
  GS_TRY(status);
  counters_.snapshots += snapshot_.had_model() ? 1U : 0U;
  if (!prove_model(chunk.digest)) {
    return skip_answer();
  }
  if (!model_.has_memory() && slots_.has(SlotRole::kAccepted) && slots_.accepted_record() <= snapshot_.version()) {
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
  is_refusal_due_ = false;
  await_ = Await::kNothing;
  state_ = ClientState::kSync;
  if (slots_.has(SlotRole::kPending)) {  // an upload in hand goes first, whatever the server offers
    resume(now_ms);
    return Status::kOk;
  }
  if (!prove_model(task.digest)) {
    return mismatches_ < kMismatchMax ? Status::kOk : Status::kDataCorrupt;  // pulls again, without a model
  }
  mismatches_ = 0;
  failures_ = 0;
  run_finished_ = false;
  last_wait_ = gs_WaitCause_WAIT_CAUSE_NONE;
  lost_task_sequence_ = 0;
  run_.task = to_task(task, model_.welcome());
  run_.task.shape = model_.shape();
  task_received_ms_ = now_ms;
  is_task_begun_ = false;
  state_ = ClientState::kTrain;
  if (is_draining_) {
    close_session();
  }
  return Status::kOk;
}

Status Client::handle_ack(const gs_Ack& ack, uint64_t now_ms) {
  if (state_ != ClientState::kUpload || sent_ != Sent::kPiece ||
      ack.task_sequence != slots_.upload(SlotRole::kPending).task_sequence) {
    return Status::kProtocolError;
  }
  switch (ack.verdict) {
    case gs_VERDICT_FOLDED:
      ++counters_.updates_folded;
      accept_pending(ack.version);
      break;
    case gs_VERDICT_LATE:
      ++counters_.updates_late;
      accept_pending(ack.version);
      break;
    case gs_VERDICT_TRY_LATER:
      give_reason(ack.reason);
      end_exchange(ack.retry, now_ms);
      return Status::kOk;
    default:
      ++counters_.updates_refused;
      give_reason(ack.reason);
      range_refusal_ = {static_cast<float>(ack.value), static_cast<float>(ack.limit), ack.fold_scale_log2,
                        static_cast<float>(ack.step_size)};
      feedback_.take_back();
      if (!model_.has_memory()) {
        drop_correction();
      } else if (ack.verdict == gs_VERDICT_SUPERSEDED) {
        // What became of it is not known here any more. The memory may hold it: tasks say so.
        accept_into_memory(model_.replica().version() + 1);
      }
      break;
  }
  slots_.drop(SlotRole::kPending);
  end_exchange(ack.retry, now_ms);
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
  is_refusal_due_ = false;
  mismatches_ = 0;
  last_wait_ = wait.cause;
  run_finished_ = wait.cause == gs_WAIT_CAUSE_FINISHED || wait.cause == gs_WAIT_CAUSE_STOPPED;
  end_exchange(wait.retry, now_ms);
  if (run_finished_) {
    state_ = ClientState::kFinished;
    wake_ms_ = wait.retry.max_ms == 0 ? UINT64_MAX : wake_ms_;
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
  is_draining_ = true;
  not_before_ms_ = now_ms + draw(drain.retry.min_ms, drain.retry.max_ms);
}

void Client::leave_server(const gs_RetryWindow& window, uint64_t now_ms) {
  close_session();
  not_before_ms_ = now_ms + draw(window.min_ms, window.max_ms);
  if (state_ == ClientState::kTrain || state_ == ClientState::kSave) {
    return;
  }
  if (window.max_ms == 0) {
    back_off(true, now_ms);
  }
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  wake_ms_ = wake_ms_ > not_before_ms_ ? wake_ms_ : not_before_ms_;
}

}  // namespace gradstream
