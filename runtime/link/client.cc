#include "runtime/link/client.h"

#include <cstring>

#include "runtime/base/config.h"
#include "runtime/base/random.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

// A server that asks for more is taken to mean this: a device must come back by itself some day.
constexpr uint32_t kRetryWindowMaxMs = 24 * 3600 * 1000;
constexpr uint32_t kBackOffDoublingMax = 3;
constexpr uint64_t kNever = UINT64_MAX;
// Mismatches of the digest within a session, none proven between them, that end it: a snapshot did not help.
constexpr uint8_t kMismatchMax = 2;

ClientAction wait_until(uint64_t wake_ms) {
  ClientAction action;
  action.wake_ms = wake_ms;
  return action;
}

gs_Reason reason_of(Status status) {
  switch (status) {
    case Status::kUnimplemented:
      return gs_REASON_TASK_UNIMPLEMENTED;
    case Status::kOutOfMemory:
      return gs_REASON_OUT_OF_MEMORY;
    case Status::kNotFinite:
      return gs_REASON_NOT_FINITE;
    case Status::kSingular:
      return gs_REASON_SINGULAR;
    case Status::kOutOfRange:
      return gs_REASON_OUT_OF_RANGE;
    default:
      return gs_REASON_MALFORMED;
  }
}

void copy_text(const char* text, char* out, size_t capacity) {
  size_t size = 0;
  while (size + 1 < capacity && text[size] != '\0') {
    out[size] = text[size];
    ++size;
  }
  out[size] = '\0';
}

gs_Capabilities capabilities_of(const Registry& registry, size_t arena_size) {
  gs_Capabilities out = {};
  for (const ManifoldOps* ops : registry.manifolds) {
    out.manifolds |= 1U << static_cast<uint32_t>(ops->id);
  }
  for (const SolverOps* ops : registry.solvers) {
    out.solvers |= 1U << static_cast<uint32_t>(ops->id);
  }
  for (const EstimatorOps* ops : registry.estimators) {
    out.estimators |= 1U << static_cast<uint32_t>(ops->id);
  }
  for (uint32_t id = 1; id <= static_cast<uint32_t>(Encoding::kF64); ++id) {
    out.encodings |= encoded_size(static_cast<Encoding>(id), 1) != 0 ? 1U << id : 0;
  }
  out.arena_size = static_cast<uint32_t>(arena_size);
  constexpr size_t kProblemCountMax = sizeof(out.problems) / sizeof(out.problems[0]);
  for (const Problem& problem : registry.problems) {
    if (out.problems_count < kProblemCountMax) {
      copy_text(problem.ops->name, out.problems[out.problems_count], sizeof(out.problems[0]));
      ++out.problems_count;
    }
  }
  return out;
}

// The fields that both kinds of update share.
template <typename Update>
void fill_update(const StoredUpload& upload, uint32_t first_value, Update& out) {
  out.task_sequence = upload.task_sequence;
  out.base_version = upload.base_version;
  out.steps_done = upload.steps_done;
  out.encoding = static_cast<gs_Encoding>(upload.encoding);
  out.first_value = first_value;
  out.value_count = upload.value_count;
  out.crc32c = upload.crc;
  out.loss_before = upload.loss_before;
  out.loss_after = upload.loss_after;
  out.step_time_us = upload.step_time_us;
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
  fill_pieces();
  await_ = Await::kSaved;
  deadline_ms_ = now_ms + kAnswerDeadlineMs;
  ClientAction action;
  action.kind = ClientActionKind::kSave;
  action.pieces = pieces_;
  return action;
}

// ---- Sending ----

ClientAction Client::send(const DeviceMessage& message, Sent sent, uint64_t now_ms) {
  const Result<size_t> size = encode_frame(message, frame_);
  GS_ASSERT(size.ok());  // every field is bounded by the codec or by config.h
  sent_ = sent;
  is_sending_ = true;
  await_ = Await::kSent;
  deadline_ms_ = now_ms + kAnswerDeadlineMs;
  counters_.frame_bytes_sent += static_cast<uint32_t>(size.value());
  ClientAction action;
  action.kind = ClientActionKind::kSend;
  action.bytes = {frame_, size.value()};
  return action;
}

ClientAction Client::send_hello(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_hello_tag;
  gs_Hello& hello = message.body.hello;
  hello.protocol_version = kProtocolVersion;
  copy_text(config_.firmware_version, hello.firmware_version, sizeof(hello.firmware_version));
  hello.has_capabilities = true;
  hello.capabilities = capabilities_of(config_.registry, arena_.size());
  hello.run = config_.run;
  hello.has_model = replica_.has_model();
  if (hello.has_model) {
    hello.version = replica_.version();
    hello.digest = replica_.digest();
  }
  hello.pending_task_sequence = pending_.task_sequence;
  hello.lost_task_sequence = lost_task_sequence_;
  hello.reset_cause = config_.reset_cause;
  if (!config_.registry.problems.empty()) {
    const Problem& problem = config_.registry.problems[0];
    const uint32_t count = problem.ops->sample_count(problem.context);
    hello.sample_count = count < kSampleCountMax ? count : kSampleCountMax;
  }
  return send(message, Sent::kHello, now_ms);
}

ClientAction Client::send_status(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_status_report_tag;
  report_.uptime_s = static_cast<uint32_t>(now_ms / 1000);
  report_.arena_high_water = static_cast<uint32_t>(arena_.high_water_size());
  report_.sessions = counters_.sessions;
  report_.digest_mismatches = counters_.digest_mismatches;
  report_.snapshots = counters_.snapshots;
  report_.tasks_done = counters_.tasks_done;
  gs_StatusReport& report = message.body.status_report;
  report = report_;
  report.bytes_sent = report.bytes_sent == 0 ? counters_.frame_bytes_sent : report.bytes_sent;
  report.bytes_received = report.bytes_received == 0 ? counters_.frame_bytes_received : report.bytes_received;
  return send(message, Sent::kStatus, now_ms);
}

ClientAction Client::send_refusal(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_task_refused_tag;
  message.body.task_refused.task_sequence = refused_sequence_;
  message.body.task_refused.reason = last_refusal_;
  is_refusal_open_ = true;
  return send(message, Sent::kRefusal, now_ms);
}

ClientAction Client::send_piece(uint64_t now_ms) {
  if (piece_next_ == 0 && is_pending_sent_) {
    ++counters_.updates_resent;
  }
  is_pending_sent_ = true;
  const size_t most = values_per_message(pending_.encoding);
  const size_t rest = pending_.value_count - piece_next_;
  const size_t count = rest < most ? rest : most;
  const size_t size = encoded_size(pending_.encoding, count);
  const uint8_t* bytes = pending_bytes() + encoded_size(pending_.encoding, piece_next_);
  DeviceMessage message = {};
  if (pending_.kind == StreamKind::kScalarStream) {
    message.which_body = gs_DeviceMessage_update_scalars_tag;
    fill_update(pending_, piece_next_, message.body.update_scalars);
    message.body.update_scalars.direction_count = pending_.direction_count;
    message.body.update_scalars.values.size = static_cast<pb_size_t>(size);
    std::memcpy(message.body.update_scalars.values.bytes, bytes, size);
  } else {
    message.which_body = gs_DeviceMessage_update_tangent_tag;
    fill_update(pending_, piece_next_, message.body.update_tangent);
    message.body.update_tangent.values.size = static_cast<pb_size_t>(size);
    std::memcpy(message.body.update_tangent.values.bytes, bytes, size);
  }
  piece_next_ += static_cast<uint32_t>(count);
  return send(message, Sent::kPiece, now_ms);
}

ClientAction Client::send_pull(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_pull_tag;
  gs_Pull& pull = message.body.pull;
  pull.has_model = replica_.has_model();
  if (pull.has_model) {
    pull.version = replica_.version();
    pull.digest = replica_.digest();
  }
  record_.is_open = false;
  snapshot_.is_open = false;
  return send(message, Sent::kPull, now_ms);
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
  } else if (sent_ == Sent::kPiece && piece_next_ < pending_.value_count) {
    await_ = Await::kNothing;
  } else if (sent_ == Sent::kRefusal) {
    end_refusal(now_ms);
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

// ---- Receiving ----

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
  if (state_ != ClientState::kHello) {
    return Status::kProtocolError;
  }
  Status status = Status::kOk;
  if (has_run_ && is_same_run(welcome)) {
    welcome_ = welcome;
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
  if (!may_answer_pull()) {
    return Status::kProtocolError;
  }
  if (is_skipping_) {
    return Status::kOk;
  }
  if (chunk.version != replica_.version() + 1 || snapshot_.is_open || !has_scalar_stream()) {
    return Status::kProtocolError;
  }
  if (!record_.is_open) {
    GS_TRY(replica_.begin_record());
    record_ = RecordProgress{};
    record_.is_open = true;
    record_.block_count = chunk.block_count;
    record_.step_scale = chunk.step_scale;
  }
  if (chunk.block_index != record_.block_index || chunk.first_value != record_.first_value ||
      chunk.block_count != record_.block_count || chunk.step_scale != record_.step_scale) {
    return Status::kDataCorrupt;
  }
  GS_TRY(check_block(chunk));
  GS_TRY(add_values(chunk));
  if (record_.first_value < record_.value_count) {
    return Status::kOk;
  }
  record_.first_value = 0;
  ++record_.block_index;
  return record_.block_index < record_.block_count ? Status::kOk : finish_record(chunk.digest);
}

// The first piece of a block says what the block is; the others repeat it.
Status Client::check_block(const gs_LogChunk& chunk) {
  if (chunk.first_value == 0) {
    record_.value_count = chunk.value_count;
    record_.base_version = chunk.base_version;
    record_.owner = chunk.owner;
    const uint32_t m = welcome_.direction_count;
    const bool whole_steps = chunk.value_count % m == 0 && chunk.value_count / m <= kLocalStepCountMax;
    return whole_steps ? Status::kOk : Status::kDataCorrupt;
  }
  const bool same = chunk.value_count == record_.value_count && chunk.base_version == record_.base_version &&
                    chunk.owner == record_.owner;
  return same ? Status::kOk : Status::kDataCorrupt;
}

// Decodes in blocks that fit a small stack; the sum does not depend on where the values are cut.
Status Client::add_values(const gs_LogChunk& chunk) {
  const Encoding encoding = static_cast<Encoding>(chunk.encoding);
  const size_t count = piece_value_count(encoding, chunk.values.size);
  DirectionSpec directions = to_directions(welcome_, chunk.base_version);
  directions.owner = chunk.owner;
  Real values[kInt8BlockSize];
  for (size_t done = 0; done < count; done += kInt8BlockSize) {
    const size_t size = count - done < kInt8BlockSize ? count - done : kInt8BlockSize;
    GS_TRY(decode_values(encoding, size, chunk.values.bytes + encoded_size(encoding, done),
                         encoded_size(encoding, size), values));
    GS_TRY(replica_.add_to_record(directions, record_.first_value, static_cast<uint32_t>(size), values, arena_));
    record_.first_value += static_cast<uint32_t>(size);
  }
  return Status::kOk;
}

Status Client::finish_record(uint64_t digest) {
  GS_TRY(replica_.finish_record(welcome_.direction_count, record_.step_scale, arena_));
  record_.is_open = false;
  ++counters_.records_applied;
  if (!prove_model(digest)) {
    is_skipping_ = true;
    return mismatches_ < kMismatchMax ? Status::kOk : Status::kDataCorrupt;
  }
  settle_correction();
  return Status::kOk;
}

Status Client::handle_snapshot(const gs_SnapshotChunk& chunk) {
  if (!may_answer_pull()) {
    return Status::kProtocolError;
  }
  if (is_skipping_) {
    return Status::kOk;
  }
  if (record_.is_open || chunk.total != sizeof(Real) * static_cast<uint64_t>(replica_.shape().size())) {
    return Status::kDataCorrupt;
  }
  if (!snapshot_.is_open) {
    snapshot_ = SnapshotProgress{true, chunk.version, 0, chunk.digest};
  }
  if (chunk.version != snapshot_.version || chunk.digest != snapshot_.digest || chunk.offset != snapshot_.offset) {
    return Status::kDataCorrupt;
  }
  Real* model = replica_.begin_snapshot();
  const size_t count = chunk.values.size / sizeof(Real);
  GS_TRY(decode_values(kRealEncoding, count, chunk.values.bytes, chunk.values.size,
                       model + chunk.offset / sizeof(Real)));
  snapshot_.offset += chunk.values.size;
  if (snapshot_.offset < chunk.total) {
    return Status::kOk;
  }
  snapshot_.is_open = false;
  replica_.adopt_snapshot(chunk.version);
  ++counters_.snapshots;
  if (accepted_.task_sequence != 0 && accepted_record_ <= chunk.version) {
    drop_correction();  // the record that it needs will not come
  }
  if (!prove_model(chunk.digest)) {
    is_skipping_ = true;
    return mismatches_ < kMismatchMax ? Status::kOk : Status::kDataCorrupt;
  }
  return Status::kOk;
}

Status Client::handle_task(const gs_Task& task, uint64_t now_ms) {
  if (!may_answer_pull() && !is_refusal_open_) {
    return Status::kProtocolError;
  }
  if (end_skipping()) {
    return Status::kOk;
  }
  if (record_.is_open || snapshot_.is_open || !replica_.has_model() || task.version != replica_.version()) {
    return Status::kProtocolError;
  }
  is_refusal_open_ = false;
  is_refusal_due_ = false;
  await_ = Await::kNothing;
  state_ = ClientState::kSync;
  if (pending_.task_sequence != 0) {  // an upload in hand goes first, whatever the server offers
    resume(now_ms);
    return Status::kOk;
  }
  if (!prove_model(task.digest)) {
    return mismatches_ < kMismatchMax ? Status::kOk : Status::kDataCorrupt;  // pulls again, without a model
  }
  mismatches_ = 0;
  failures_ = 0;
  run_finished_ = false;
  lost_task_sequence_ = 0;
  run_.task = to_task(task, welcome_);
  task_received_ms_ = now_ms;
  is_task_begun_ = false;
  state_ = ClientState::kTrain;
  if (is_draining_) {
    close_session();
  }
  return Status::kOk;
}

Status Client::handle_ack(const gs_Ack& ack, uint64_t now_ms) {
  if (state_ != ClientState::kUpload || sent_ != Sent::kPiece || ack.task_sequence != pending_.task_sequence) {
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
      drop_correction();
      break;
  }
  pending_ = StoredUpload{};
  end_exchange(ack.retry, now_ms);
  return Status::kOk;
}

Status Client::handle_wait(const gs_Wait& wait, uint64_t now_ms) {
  if (!may_answer_pull() && !is_refusal_open_) {
    return Status::kProtocolError;
  }
  if (end_skipping()) {
    return Status::kOk;
  }
  if (record_.is_open || snapshot_.is_open) {
    return Status::kProtocolError;
  }
  is_refusal_open_ = false;
  is_refusal_due_ = false;
  mismatches_ = 0;
  run_finished_ = wait.cause == gs_WAIT_CAUSE_FINISHED || wait.cause == gs_WAIT_CAUSE_STOPPED;
  end_exchange(wait.retry, now_ms);
  if (run_finished_) {
    state_ = ClientState::kFinished;
    wake_ms_ = wait.retry.max_ms == 0 ? kNever : wake_ms_;
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
    back_off(now_ms);
  }
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  wake_ms_ = wake_ms_ > not_before_ms_ ? wake_ms_ : not_before_ms_;
}

// ---- Runs and models ----

bool Client::has_scalar_stream() const {
  return welcome_.stream == gs_STREAM_KIND_SCALAR && welcome_.direction_count > 0;
}

bool Client::is_same_run(const gs_Welcome& welcome) const {
  return welcome.run == welcome_.run && welcome.parameters_digest == welcome_.parameters_digest &&
         welcome.manifold == welcome_.manifold && welcome.rows == welcome_.rows && welcome.cols == welcome_.cols &&
         welcome.stream == welcome_.stream && welcome.directions == welcome_.directions &&
         welcome.shared_directions == welcome_.shared_directions && welcome.seed == welcome_.seed &&
         welcome.direction_count == welcome_.direction_count;
}

Status Client::begin_run(const gs_Welcome& welcome) {
  arena_.reset();
  has_run_ = false;
  replica_ = Replica();
  pending_ = StoredUpload{};
  accepted_ = StoredUpload{};
  lost_task_sequence_ = 0;
  is_refusal_due_ = false;
  refused_sequence_ = 0;
  has_correction_ = false;
  correction_ = nullptr;
  slot_count_ = 0;
  slot_size_ = 0;
  task_duration_ms_ = 0;
  welcome_ = welcome;
  const bool is_scalar = welcome.stream == gs_STREAM_KIND_SCALAR;
  if (welcome.stream == gs_STREAM_KIND_NONE ||
      (is_scalar && (welcome.direction_count == 0 || welcome.directions == gs_DIRECTIONS_NONE))) {
    return Status::kInvalidArgument;
  }
  const ManifoldOps* manifold =
      find_manifold(config_.registry.manifolds, static_cast<ManifoldId>(welcome.manifold));
  if (manifold == nullptr) {
    return Status::kUnimplemented;
  }
  const Shape shape{welcome.rows, welcome.cols};
  GS_TRY(replica_.prepare(*manifold, shape, arena_));
  if (is_scalar) {
    const Result<Real*> correction = arena_.persistent<Real>(shape.size());
    GS_TRY(correction.status());
    correction_ = correction.value();
  }
  run_mark_ = arena_.mark();
  has_run_ = true;
  return Status::kOk;
}

// Compares the model in RAM with what the server says of it; a wrong one is dropped, and a snapshot will replace it.
bool Client::prove_model(uint64_t digest) {
  if (replica_.digest() == digest) {
    return true;
  }
  ++counters_.digest_mismatches;
  ++mismatches_;
  static_cast<void>(replica_.begin_snapshot());
  return false;
}

// The frames of an answer that come after its model proved wrong are of no use; its last one makes the client ask
// again.
bool Client::end_skipping() {
  if (!is_skipping_) {
    return false;
  }
  is_skipping_ = false;
  await_ = Await::kNothing;
  return true;
}

void Client::drop_correction() {
  accepted_ = StoredUpload{};
  has_correction_ = false;
}

// The accepted upload leaves its slot to the next one, and stays until the record that it went into is applied.
void Client::accept_pending(uint32_t record_version) {
  const bool is_wanted = pending_.use_correction && pending_.kind == StreamKind::kScalarStream && slot_count_ == 2;
  if (!is_wanted || record_version <= replica_.version()) {
    drop_correction();
    return;
  }
  accepted_ = pending_;
  accepted_record_ = record_version;
  pending_slot_ ^= 1;
}

// c = d - Gbar_i, once the record that this device's update went into has been applied.
void Client::settle_correction() {
  if (accepted_.task_sequence == 0 || accepted_record_ > replica_.version()) {
    return;
  }
  const StoredUpload upload = accepted_;
  drop_correction();
  if (accepted_record_ != replica_.version()) {
    return;
  }
  const DirectionSpec directions = to_directions(welcome_, upload.base_version);
  const Status status =
      fill_correction(directions, replica_.shape(), replica_.record_sum(), upload.steps_done, upload.encoding,
                      accepted_bytes(), upload.size, correction_, arena_);
  has_correction_ = status == Status::kOk;
  counters_.corrections += has_correction_ ? 1 : 0;
}

// ---- Tasks ----

// Room for `count` uploads of `size` bytes, kept from task to task.
Status Client::prepare_slots(size_t size, uint32_t count) {
  if (size <= slot_size_ && count <= slot_count_) {
    return Status::kOk;
  }
  if (count * Arena::taken_size<uint8_t>(size) > arena_.size() - run_mark_) {
    return Status::kOutOfMemory;
  }
  if (accepted_.task_sequence != 0) {
    drop_correction();
  }
  arena_.release(run_mark_);
  slot_count_ = 0;
  slot_size_ = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Result<uint8_t*> slot = arena_.persistent<uint8_t>(size);
    GS_TRY(slot.status());
    slots_[i] = slot.value();
  }
  slot_size_ = static_cast<uint32_t>(size);
  slot_count_ = static_cast<uint8_t>(count);
  pending_slot_ = 0;
  return Status::kOk;
}

Status Client::begin_task(uint64_t now_ms) {
  const Task& task = run_.task;
  const bool is_scalar = has_scalar_stream();
  if (task.local_step_count == 0 || task.local_step_count > kLocalStepCountMax) {
    return Status::kInvalidArgument;
  }
  const size_t scalar_count = static_cast<size_t>(task.local_step_count) * welcome_.direction_count;
  if (is_scalar && scalar_count > kScalarCountMax) {
    return Status::kInvalidArgument;
  }
  const size_t size = encoded_size(task.encoding, is_scalar ? scalar_count : task.shape.size());
  if (size == 0) {
    return Status::kInvalidArgument;
  }
  GS_TRY(prepare_slots(size, is_scalar ? 2 : 1));
  task_mark_ = arena_.mark();
  GS_TRY(begin_solver(config_.registry, run_.task, replica_.model(), correction(), &run_, arena_));
  is_task_begun_ = true;
  task_begun_ms_ = now_ms;
  return run_.ops->stream(*run_.estimator) == static_cast<StreamKind>(welcome_.stream) ? Status::kOk
                                                                                      : Status::kInvalidArgument;
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
  if (is_task_over(now_ms)) {
    status = finish_task(now_ms);
  } else {
    status = run_.ops->step(run_, arena_);
    counters_.local_steps += status == Status::kOk ? 1 : 0;
  }
  if (status != Status::kOk) {
    refuse_task(run_.task.sequence, status, now_ms);
  }
  return wait_until(0);
}

// All steps are done, or the deadline would probably pass within the next one and what is there is worth sending.
bool Client::is_task_over(uint64_t now_ms) const {
  const Task& task = run_.task;
  if (run_.steps_done >= task.local_step_count) {
    return true;
  }
  if (task.deadline_ms == 0 || run_.steps_done == 0 || run_.steps_done < task.steps_min) {
    return false;
  }
  const uint64_t mean_ms = (now_ms - task_begun_ms_) / run_.steps_done;
  return now_ms + mean_ms > task_received_ms_ + task.deadline_ms;
}

Status Client::finish_task(uint64_t now_ms) {
  const Task& task = run_.task;
  GradientStream stream;
  GS_TRY(run_.ops->finish(run_, &stream));
  StoredUpload upload;
  upload.task_sequence = task.sequence;
  upload.base_version = task.version;
  upload.steps_done = stream.steps_done;
  upload.direction_count = welcome_.direction_count;
  upload.value_count = stream.value_count;
  upload.size = static_cast<uint32_t>(encoded_size(task.encoding, stream.value_count));
  upload.encoding = task.encoding;
  upload.kind = stream.kind;
  upload.use_correction = task.use_correction;
  upload.loss_before = static_cast<float>(stream.loss_before);
  upload.loss_after = static_cast<float>(stream.loss_after);
  const uint64_t duration_ms = now_ms - task_begun_ms_;
  const uint64_t step_time_us = duration_ms * 1000 / stream.steps_done;
  upload.step_time_us = static_cast<uint32_t>(step_time_us < UINT32_MAX ? step_time_us : UINT32_MAX);
  GS_ASSERT(upload.size <= slot_size_);
  GS_TRY(encode_values(task.encoding, stream.value_count, stream.values, pending_bytes()));
  upload.crc = crc32c(0, pending_bytes(), upload.size);
  arena_.release(task_mark_);
  is_task_begun_ = false;
  task_duration_ms_ = duration_ms * task.local_step_count / stream.steps_done;
  pending_ = upload;
  is_pending_sent_ = false;
  ++counters_.tasks_done;
  if (config_.has_storage) {
    state_ = ClientState::kSave;
  } else {
    resume(now_ms);
  }
  return Status::kOk;
}

void Client::refuse_task(uint32_t task_sequence, Status status, uint64_t now_ms) {
  if (is_task_begun_) {
    arena_.release(task_mark_);
    is_task_begun_ = false;
  }
  ++counters_.tasks_refused;
  last_status_ = status;
  give_reason(reason_of(status));
  last_refusal_ = last_reason_;
  refused_sequence_ = task_sequence;
  is_refusal_due_ = true;
  resume(now_ms);
}

// The server may answer with a Task or Wait; if it does not, the device asks again by itself.
void Client::end_refusal(uint64_t now_ms) {
  is_refusal_due_ = false;
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  wake_ms_ = now_ms + draw(config_.min_retry_ms, config_.min_retry_ms << kBackOffDoublingMax);
}

// ---- Sessions and time ----

// Whatever the state: on with the exchange, or to the connection that it needs.
void Client::resume(uint64_t now_ms) {
  await_ = Await::kNothing;
  piece_next_ = 0;
  if (is_connected_) {
    is_refusal_open_ = false;
    state_ = pending_.task_sequence != 0 ? ClientState::kUpload : ClientState::kSync;
    return;
  }
  state_ = ClientState::kIdle;
  wake_ms_ = now_ms > not_before_ms_ ? now_ms : not_before_ms_;
}

void Client::end_exchange(const gs_RetryWindow& window, uint64_t now_ms) {
  const uint32_t wait_ms = draw(window.min_ms, window.max_ms);
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
  is_refusal_open_ = false;
  is_skipping_ = false;
  mismatches_ = 0;
  record_.is_open = false;
  snapshot_.is_open = false;
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
  state_ = ClientState::kIdle;
  await_ = Await::kNothing;
  back_off(now_ms);
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

void Client::back_off(uint64_t now_ms) {
  if (failures_ < kBackOffDoublingMax) {
    ++failures_;
  }
  wake_ms_ = now_ms + draw(config_.min_retry_ms, config_.min_retry_ms << failures_);
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
