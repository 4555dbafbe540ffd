// What the client does next, and what becomes of a session. Its other parts: client_send.cc the messages to the server,
// client_receive.cc those from it, client_task.cc runs, models and tasks, client_save.cc what survives a reset.
#include "runtime/base/no_contraction.h"

#include "runtime/link/client.h"

#include "runtime/base/config.h"
#include "runtime/base/random.h"

namespace gradstream {
namespace {

// A server that asks for more is taken to mean this: a device must come back by itself some day.
constexpr uint32_t kRetryWindowMaxMs = 24 * 3600 * 1000;
constexpr uint32_t kBackOffDoublingMax = 3;

ClientAction wait_until(uint64_t wake_ms) {
  ClientAction action;
  action.wake_ms = wake_ms;
  return action;
}

}  // namespace

Client::Client(const ClientConfig& config, Arena& arena) : config_(config), arena_(arena) {}

// ---- Polling ----

ClientAction Client::poll(uint64_t now_ms) {
  if (is_closing_) {
    return disconnect();
  }
  if (is_sending_ || await_ != Await::kNothing) {
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
  if (now_ms < wake_ms_) {
    return wait_until(wake_ms_);
  }
  if (is_connected_ && has_run_) {
    resume(now_ms);
    return poll_exchange(now_ms);
  }
  if (is_connected_) {  // only a new Welcome can name a run that this image can do
    close_session();
    return disconnect();
  }
  state_ = ClientState::kConnect;
  await_ = Await::kConnection;
  deadline_ms_ = now_ms + kHandshakeDeadlineMs;
  ClientAction action;
  action.kind = ClientActionKind::kConnect;
  return action;
}

ClientAction Client::poll_exchange(uint64_t now_ms) {
  if (is_status_due_) {
    return send_status(now_ms);
  }
  if (is_refusal_due_) {
    return send_refusal(now_ms);
  }
  return state_ == ClientState::kUpload ? send_piece(now_ms) : send_pull(now_ms);
}

ClientAction Client::poll_train(uint64_t now_ms) {
  if (!is_task_begun_) {
    const Status status = begin_task(now_ms);
    if (status != Status::kOk) {
      refuse_task(run_.task.sequence, status, now_ms);
      return wait_until(0);
    }
  }
  const uint64_t elapsed_ms = now_ms - task_begun_ms_;
  const uint64_t expected_ms = elapsed_ms > task_duration_ms_ ? elapsed_ms : task_duration_ms_;
  if (is_connected_ && config_.can_dial && expected_ms > kSessionKeepMs) {
    close_session();
    return disconnect();
  }
  Status status = Status::kOk;
  if (!run_.is_step_open && is_task_over(now_ms)) {
    status = finish_task(now_ms);
  } else {
    status = run_.ops->step(run_, arena_);
    if (status == Status::kUnfinished) {
      return wait_until(0);
    }
    if (status == Status::kOk) {
      ++counters_.local_steps;
      return keeps_steps() ? save_step() : wait_until(0);
    }
  }
  if (status != Status::kOk) {
    refuse_task(run_.task.sequence, status, now_ms);
  }
  return wait_until(0);
}

ClientAction Client::poll_deadline(uint64_t now_ms) {
  if (now_ms < deadline_ms_) {
    return wait_until(deadline_ms_);
  }
  ++counters_.deadlines_missed;
  give_reason(gs_REASON_DEADLINE);
  last_status_ = Status::kDeadlineExceeded;
  if (await_ == Await::kSaved) {
    ++counters_.save_failures;
    resume(now_ms);
    return wait_until(0);
  }
  lose_session(now_ms);
  return disconnect();
}

ClientAction Client::disconnect() {
  is_closing_ = false;
  ClientAction action;
  action.kind = ClientActionKind::kDisconnect;
  return action;
}

ClientAction Client::save(uint64_t now_ms) {
  await_ = Await::kSaved;
  deadline_ms_ = now_ms + kAnswerDeadlineMs;
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
  is_connected_ = true;
  state_ = ClientState::kHello;
  await_ = Await::kNothing;
}

void Client::on_connection_lost(Status reason, uint64_t now_ms) {
  if (is_connected_ || await_ == Await::kConnection) {
    last_status_ = reason;
    lose_session(now_ms);
  }
}

void Client::on_sent(uint64_t now_ms) {
  if (!is_sending_) {
    return;
  }
  is_sending_ = false;
  if (await_ != Await::kSent) {
    return;  // the answer was faster than this report
  }
  deadline_ms_ = now_ms + kAnswerDeadlineMs;
  await_ = Await::kAnswer;
  if (sent_ == Sent::kStatus) {
    is_status_due_ = false;
    await_ = Await::kNothing;
  } else if (sent_ == Sent::kPiece && piece_next_ < slots_.upload(SlotRole::kPending).value_count) {
    await_ = Await::kNothing;
  } else if (sent_ == Sent::kRefusal) {
    is_refusal_due_ = false;
  }
}

void Client::on_saved(Status status, uint64_t now_ms) {
  if (await_ != Await::kSaved) {
    return;
  }
  if (status != Status::kOk) {
    ++counters_.save_failures;
    last_status_ = status;
  }
  resume(now_ms);
}

void Client::on_malformed(uint64_t now_ms) {
  if (is_connected_) {
    end_malformed(Status::kDataCorrupt, now_ms);
  }
}

void Client::on_frame(std::span<const uint8_t> payload, uint64_t now_ms) {
  if (!is_connected_) {
    return;  // left over from a session that this end has given up
  }
  counters_.frame_bytes_received += static_cast<uint32_t>(kFramePrefixSize + payload.size());
  ServerMessage message;
  Status status = decode_message(payload, &message);
  if (status == Status::kOk) {
    if (await_ == Await::kAnswer) {
      deadline_ms_ = now_ms + kAnswerDeadlineMs;
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
  piece_next_ = 0;
  if (is_connected_) {
    state_ = slots_.has(SlotRole::kPending) ? ClientState::kUpload : ClientState::kSync;
    return;
  }
  state_ = ClientState::kIdle;
  wake_ms_ = now_ms > not_before_ms_ ? now_ms : not_before_ms_;
}

void Client::end_exchange(const gs_RetryWindow& window, uint64_t now_ms) {
  const uint32_t wait_ms = draw(window.min_ms, window.max_ms);
  retry_max_ms_ = window.max_ms;
  failures_ = 0;
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  wake_ms_ = now_ms + wait_ms;
  if (is_draining_) {
    wake_ms_ = wake_ms_ > not_before_ms_ ? wake_ms_ : not_before_ms_;
    close_session();
  } else if (config_.can_dial && wait_ms > kSessionKeepMs) {
    close_session();
  }
}

void Client::forget_session() {
  is_connected_ = false;
  is_closing_ = false;
  is_sending_ = false;
  is_draining_ = false;
  is_skipping_ = false;
  mismatches_ = 0;
  record_.close(arena_);
  snapshot_.close();
}

void Client::close_session() {
  forget_session();
  is_closing_ = true;
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
  back_off(was_reached, now_ms);
}

void Client::end_malformed(Status status, uint64_t now_ms) {
  ++counters_.malformed_frames;
  last_status_ = status;
  give_reason(status == Status::kProtocolError ? gs_REASON_UNEXPECTED_MESSAGE : gs_REASON_MALFORMED);
  lose_session(now_ms);
  is_closing_ = true;
}

void Client::give_reason(gs_Reason reason) {
  last_reason_ = reason;
  ++counters_.reasons;
}

// A server that cannot be reached is away for all its devices: they come back as spread as it wanted them last.
void Client::back_off(bool was_reached, uint64_t now_ms) {
  if (failures_ < kBackOffDoublingMax) {
    ++failures_;
  }
  const uint32_t max_ms = config_.min_retry_ms << failures_;
  wake_ms_ = now_ms + draw(config_.min_retry_ms, was_reached || retry_max_ms_ < max_ms ? max_ms : retry_max_ms_);
  wake_ms_ = wake_ms_ > not_before_ms_ ? wake_ms_ : not_before_ms_;
}

// Uniform in [min_ms, max_ms], from a random stream that is no part of the wire: only devices must differ.
uint32_t Client::draw(uint32_t min_ms, uint32_t max_ms) {
  const uint32_t max = max_ms < kRetryWindowMaxMs ? max_ms : kRetryWindowMaxMs;
  const uint32_t min = min_ms < max ? min_ms : max;
  RandomKey key;
  key.seed = config_.jitter_seed;
  uint32_t words[4];
  philox_block(key, jitter_count_++, words);
  return min + static_cast<uint32_t>((words[0] * (static_cast<uint64_t>(max - min) + 1)) >> 32);
}

}  // namespace gradstream
