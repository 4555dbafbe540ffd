// What the client does next, and what becomes of a session. Its other parts: client_send.cc the messages to the server,
// client_receive.cc those from it, client_task.cc runs, models and tasks, client_stage.cc
// what comes before training, client_save.cc what survives a reset.
#include "runtime/base/no_contraction.h"

#include "runtime/link/client.h"

#include "runtime/base/config.h"
#include "runtime/problem/measurement.h"

namespace gradstream {
namespace {

ClientAction wait_until(uint64_t wake_ms) {
  ClientAction action;
  action.wake_ms = wake_ms;
  return action;
}

}  // namespace

Client::Client(const ClientConfig& config, Arena& arena) : config_(config), arena_(arena), clock_(config.jitter_seed) {}

// ---- Polling ----

ClientAction Client::poll(uint64_t now_ms) {
  if (session_.is_closing) {
    return disconnect();
  }
  if (session_.is_sending || await_ != Await::kNothing) {
    return poll_deadline(now_ms);
  }
  switch (state_) {
    case ClientState::kIdle:
    case ClientState::kFinished:
      return poll_idle(now_ms);
    case ClientState::kHello:
      return send_hello(now_ms);
    case ClientState::kUpload:
    case ClientState::kSync:
      return poll_exchange(now_ms);
    case ClientState::kTrain:
      return poll_train(now_ms);
    case ClientState::kSave:
      return save(now_ms);
    default:
      GS_ASSERT(false);  // kConnect always awaits
      return {};
  }
}

ClientAction Client::poll_idle(uint64_t now_ms) {
  if (now_ms < clock_.wake_ms()) {
    return wait_until(clock_.wake_ms());
  }
  if (session_.is_connected && progress_.is_open) {
    resume(now_ms);
    return poll_exchange(now_ms);
  }
  if (session_.is_connected) {  // only a new Welcome can name a run that this image can do
    close_session();
    return disconnect();
  }
  state_ = ClientState::kConnect;
  await_ = Await::kConnection;
  clock_.expect(now_ms, kHandshakeDeadlineMs);
  ClientAction action;
  action.kind = ClientActionKind::kConnect;
  return action;
}

ClientAction Client::poll_exchange(uint64_t now_ms) {
  if (session_.is_status_due) {
    return send_status(now_ms);
  }
  if (progress_.is_refusal_due) {
    return send_refusal(now_ms);
  }
  return state_ == ClientState::kUpload ? send_piece(now_ms) : send_pull(now_ms);
}

ClientAction Client::poll_train(uint64_t now_ms) {
  if (!task_.is_begun) {
    uint64_t wake_ms = 0;
    if (kTakesUnits && progress_.line != nullptr && !step_line(now_ms, &wake_ms)) {
      return wait_until(wake_ms);
    }
    uint64_t evaluated_ms = 0;
    if (kEvaluates && progress_.evaluation != nullptr && !step_evaluation(now_ms, &evaluated_ms)) {
      return wait_until(evaluated_ms);
    }
    const Status status = begin_task(now_ms);
    if (status != Status::kOk) {
      refuse_task(run_.task.sequence, status, now_ms);
      return wait_until(0);
    }
  }
  uint64_t check_wake_ms = 0;
  if (kTakesUnits && task_.smoothing != nullptr && !step_smoothing(now_ms, &check_wake_ms)) {
    return wait_until(check_wake_ms);
  }
  const uint64_t elapsed_ms = now_ms - task_.begun_ms;
  const uint64_t expected_ms = elapsed_ms > progress_.task_duration_ms ? elapsed_ms : progress_.task_duration_ms;
  if (session_.is_connected && config_.can_dial && expected_ms > kSessionKeepMs) {
    close_session();
    return disconnect();
  }
  Status status = Status::kOk;
  if (!run_.is_step_open) {
    task_.stepped_ms = now_ms;
  }
  if (!run_.is_step_open && is_task_over(now_ms)) {
    status = finish_task(now_ms);
  } else {
    status = run_.ops->step(run_, arena_);
    if (status == Status::kOk) {
      ++counters_.local_steps;
      return keeps_steps() ? save_step() : wait_until(0);
    }
    if (status == Status::kUnfinished) {
      Measurement* const measurement = run_.estimate.evaluation.measurement;
      const uint64_t wake_ms = kAwaitsMeasurements && measurement != nullptr ? measurement->await(now_ms) : 0;
      const bool is_lost = kAwaitsMeasurements && wake_ms == Measurement::kLost;
      const bool is_late = kAwaitsMeasurements && wake_ms != 0 && is_task_late(now_ms);
      if (!is_lost && !is_late) {
        return wait_until(wake_ms);
      }
      counters_.measurements_lost += is_lost ? 1 : 0;
      status = end_without_answer(now_ms);
    }
  }
  if (status != Status::kOk) {
    refuse_task(run_.task.sequence, status, now_ms);
  }
  return wait_until(0);
}

bool Client::has_enough_steps() const { return run_.steps_done > 0 && run_.steps_done >= run_.task.steps_min; }

// The task's own deadline is over while a step waits, and the steps before it are worth sending.
bool Client::is_task_late(uint64_t now_ms) const {
  const uint32_t deadline_ms = run_.task.deadline_ms;
  return deadline_ms != 0 && now_ms >= task_.received_ms + deadline_ms && has_enough_steps();
}

// A step waited for a measurement and is given up. The steps before it are sent where they are enough; else the task is
// refused.
Status Client::end_without_answer(uint64_t now_ms) {
  drop_step(run_, arena_);
  return has_enough_steps() ? finish_task(now_ms) : Status::kDeadlineExceeded;
}

ClientAction Client::poll_deadline(uint64_t now_ms) {
  if (now_ms < clock_.deadline_ms()) {
    return wait_until(clock_.deadline_ms());
  }
  ++counters_.deadlines_missed;
  give_reason(gs_REASON_DEADLINE);
  news_.last_status = Status::kDeadlineExceeded;
  if (await_ == Await::kSaved) {
    ++counters_.save_failures;
    resume(now_ms);
    return wait_until(0);
  }
  lose_session(now_ms);
  return disconnect();
}

ClientAction Client::disconnect() {
  session_.is_closing = false;
  ClientAction action;
  action.kind = ClientActionKind::kDisconnect;
  return action;
}

ClientAction Client::save(uint64_t now_ms) {
  await_ = Await::kSaved;
  clock_.expect(now_ms, kAnswerDeadlineMs);
  ClientAction action;
  action.kind = ClientActionKind::kSave;
  action.pieces = fill_pieces();
  return action;
}

// ---- Reports of the shell ----

void Client::on_connected(uint64_t) {
  if (await_ != Await::kConnection) {
    return;
  }
  ++counters_.sessions;
  session_.is_connected = true;
  state_ = ClientState::kHello;
  await_ = Await::kNothing;
}

void Client::on_connection_lost(Status reason, uint64_t now_ms) {
  if (session_.is_connected || await_ == Await::kConnection) {
    news_.last_status = reason;
    lose_session(now_ms);
  }
}

void Client::on_sent(uint64_t now_ms) {
  if (!session_.is_sending) {
    return;
  }
  session_.is_sending = false;
  if (await_ != Await::kSent) {
    return;  // the answer was faster than this report
  }
  const bool may_hold = kHoldsPulls && sent_ == Sent::kPull && session_.hold == PullHold::kOpen;
  clock_.expect(now_ms, may_hold ? kHeldAnswerDeadlineMs : kAnswerDeadlineMs);
  await_ = Await::kAnswer;
  if (sent_ == Sent::kStatus) {
    session_.is_status_due = false;
    await_ = Await::kNothing;
  } else if (sent_ == Sent::kPiece && progress_.next_value < progress_.slots.upload(SlotRole::kPending).value_count) {
    await_ = Await::kNothing;
  } else if (sent_ == Sent::kRefusal) {
    progress_.is_refusal_due = false;
  }
}

void Client::on_saved(Status status, uint64_t now_ms) {
  if (await_ != Await::kSaved) {
    return;
  }
  if (status != Status::kOk) {
    ++counters_.save_failures;
    news_.last_status = status;
  }
  resume(now_ms);
}

void Client::on_malformed(uint64_t now_ms) {
  if (session_.is_connected) {
    end_malformed(Status::kDataCorrupt, now_ms);
  }
}

void Client::on_frame(std::span<const uint8_t> payload, uint64_t now_ms) {
  if (!session_.is_connected) {
    return;  // left over from a session that this end has given up
  }
  counters_.frame_bytes_received += static_cast<uint32_t>(kFramePrefixSize + payload.size());
  ServerMessage message;
  Status status = decode_message(payload, &message);
  if (status == Status::kOk) {
    if (await_ == Await::kAnswer) {
      clock_.expect(now_ms, kAnswerDeadlineMs);
    }
    if (kHoldsPulls && session_.hold == PullHold::kOpen) {
      session_.hold = PullHold::kKnown;
    }
    status = handle(message, now_ms);
  }
  if (status != Status::kOk) {
    end_malformed(status, now_ms);
  }
}

// ---- Sessions and time ----

// Whatever the state: on with the exchange, or to the connection that it needs.
void Client::resume(uint64_t now_ms) {
  await_ = Await::kNothing;
  progress_.next_value = 0;
  if (session_.is_connected) {
    state_ = progress_.slots.has(SlotRole::kPending) ? ClientState::kUpload : ClientState::kSync;
    return;
  }
  state_ = ClientState::kIdle;
  clock_.wake_soon(now_ms);
}

void Client::end_exchange(const gs_RetryWindow& window, uint64_t now_ms) {
  const uint32_t wait_ms = clock_.end_exchange(window, now_ms);
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  if (session_.is_draining) {
    clock_.stay_away();
    close_session();
  } else if (config_.can_dial && wait_ms > kSessionKeepMs) {
    close_session();
  }
}

// The server would keep a Pull now, so no wait comes first. The window counts all the same: for a server that goes away
// meanwhile. is_pulled: the update named the model held, so that its Ack stands for that Pull.
void Client::pull_again(const gs_Ack& ack, bool is_pulled, uint64_t now_ms) {
  static_cast<void>(clock_.end_exchange(ack.retry, now_ms));
  state_ = ClientState::kSync;
  await_ = Await::kNothing;
  if (is_pulled) {
    record_.close(arena_);
    snapshot_.close();
    session_.hold = PullHold::kOpen;
    sent_ = Sent::kPull;
    await_ = Await::kAnswer;
    clock_.expect(now_ms, kHeldAnswerDeadlineMs);
  }
}

void Client::forget_session() {
  record_.close(arena_);
  snapshot_.close();
  session_ = Session();
}

void Client::close_session() {
  forget_session();
  session_.is_closing = true;
}

// Local work goes on without a session; an exchange begins anew after a window.
void Client::lose_session(uint64_t now_ms) {
  forget_session();
  const bool in_exchange = state_ == ClientState::kConnect || state_ == ClientState::kHello ||
                           state_ == ClientState::kSync || state_ == ClientState::kUpload;
  if (!in_exchange) {
    return;
  }
  ++counters_.connection_failures;
  const bool was_reached = state_ != ClientState::kConnect;
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  clock_.back_off(was_reached, config_.min_retry_ms, now_ms);
}

void Client::end_malformed(Status status, uint64_t now_ms) {
  ++counters_.malformed_frames;
  news_.last_status = status;
  give_reason(status == Status::kProtocolError ? gs_REASON_UNEXPECTED_MESSAGE : gs_REASON_MALFORMED);
  lose_session(now_ms);
  session_.is_closing = true;
}

void Client::give_reason(gs_Reason reason) {
  news_.last_reason = reason;
  ++counters_.reasons;
}

}  // namespace gradstream
