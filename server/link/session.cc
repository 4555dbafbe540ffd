#include "server/link/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/training/encoding.h"
#include "server/base/log.h"
#include "server/base/ports.h"
#include "server/base/secret.h"

namespace gradstream {

namespace {

Counter* counter_of(TlsFault fault, ShellCounters& counters) {
  switch (fault) {
    case TlsFault::kNotTls:
      return &counters.handshakes.plain_text_peers;
    case TlsFault::kTlsVersion:
      return &counters.handshakes.tls_version_peers;
    case TlsFault::kUnknownIdentity:
      return &counters.handshakes.unknown_identities;
    case TlsFault::kRevoked:
      return &counters.handshakes.revoked_identities;
    case TlsFault::kInactive:
      return &counters.handshakes.inactive_identities;
    case TlsFault::kExpiredKey:
      return &counters.handshakes.expired_keys;
    case TlsFault::kClaimEnded:
      return &counters.claims_refused;
    case TlsFault::kWrongKey:
      return &counters.handshakes.wrong_keys;
    case TlsFault::kHelloTooLarge:
    case TlsFault::kRecordTooLarge:
      return &counters.traffic.large_records;
    case TlsFault::kCertificateExpired:
      return &counters.certificates.expired;
    case TlsFault::kCertificateEarly:
      return &counters.certificates.early;
    case TlsFault::kCertificateForeign:
      return &counters.certificates.foreign;
    case TlsFault::kCertificateUsage:
      return &counters.certificates.misused;
    case TlsFault::kCertificateName:
      return &counters.certificates.unnamed;
    case TlsFault::kCertificateBroken:
    case TlsFault::kNoCertificate:
      return &counters.certificates.unusable;
    case TlsFault::kRegistrationLimit:
    case TlsFault::kRegistrationFailed:
      return &counters.certificates.registrations_refused;
    default:
      return &counters.handshakes.tls_other_faults;
  }
}

// A piece of an upload: where it stands.
struct Piece {
  bool is_first = false;
  bool is_last = false;
};

template <typename Update>
Piece piece_of(const Update& update) {
  const uint32_t left = update.value_count - std::min(update.first_value, update.value_count);
  return {update.first_value == 0, encoded_size(static_cast<Encoding>(update.encoding), left) <= update.values.size};
}

}  // namespace

Session::Session(SessionId id, Tcp::socket socket, Arrival arrival, std::shared_ptr<QueueGauge> gauge,
                 TlsContext& context, const SessionLimits& limits, ShellCounters& counters, FaultLines& fault_lines,
                 FramePool& pool, SessionOwner& owner)
    : id_(id),
      context_(context),
      limits_(limits),
      counters_(counters),
      fault_lines_(fault_lines),
      pool_(pool),
      owner_(&owner),
      arrival_(std::move(arrival)),
      timer_(socket.get_executor()),
      gauge_(std::move(gauge)) {
  // The stream's callback holds no reference to the session: end() silences it first.
  stream_ = std::make_shared<TlsStream>(std::move(socket), context_, [this] { pump(); });
}

Session::~Session() { stream_->close(); }

uint64_t Session::now_ms() const { return steady_ms(); }

void Session::start() {
  state_ = State::kTls;
  clock_.state_begin_ms = now_ms();  // whoever waited in the lobby has the whole time of a handshake
  const bool has_bytes = !arrival_.bytes.empty();
  if (stream_->start(std::move(arrival_.bytes), std::move(arrival_.known)) != Status::kOk) {
    log_event("session_out_of_memory"_event, Fields().add("session", id_).add("peer", text_of(arrival_.peer)));
    end();
    return;
  }
  arm_timer();
  if (has_bytes) {
    pump();
  }
}

void Session::queue(const ServerMessage& message) {
  if (!is_open()) {
    return;
  }
  OutFrame frame;
  const Status status = make_frame(message, limits_, gauge_.get(), pool_, &frame);
  if (status == Status::kOk) {
    queue(std::move(frame));
  } else if (status == Status::kOutOfMemory) {
    overload();
  } else {
    log_event("message_not_encoded"_event, Fields().add("session", id_).add("body", uint64_t{message.which_body}));
  }
}

void Session::queue(OutFrame frame) {
  if (!is_open()) {
    *gauge_ -= cost_of(frame.frame.front());
    return;
  }
  if (!frame.is_aside) {
    note_sent(frame);
  }
  queue_.splice(queue_.end(), frame.frame);
  tail_has_more_ = frame.has_more;
  if (drain_message_ && !upload_begun_) {
    drain(*std::exchange(drain_message_, nullptr));
  }
}

void Session::overload() {
  if (!is_open()) {
    return;
  }
  ++counters_.traffic.sessions_overloaded;
  log_event("session_overloaded"_event,
            Fields().add("session", id_).add("device", identity()).add("queued", uint64_t{queued_size()}));
  close(gs_Reason_REASON_OVERLOADED);
}

void Session::flush() {
  if (!pumping_ && state_ != State::kNew && state_ != State::kGone) {
    pump_output();
    arm_timer();
  }
}

void Session::queue_frame(std::span<const uint8_t> frame) {
  queue_.splice(queue_.end(), pool_.make(frame));
  *gauge_ += cost_of(queue_.back());
  tail_has_more_ = false;
}

void Session::drop_queue() {
  for (const std::vector<uint8_t>& frame : queue_) {
    *gauge_ -= cost_of(frame);
  }
  queue_.clear();
  tail_has_more_ = false;
}

// While this end owes an answer the peer is not late; where the peer owes the next frame it is due as after an answer.
void Session::note_received(const DeviceMessage& message) {
  is_resting_ = is_resting_ && !ends_rest(message);
  Piece piece;
  switch (message.which_body) {
    case gs_DeviceMessage_update_scalars_tag:
      piece = piece_of(message.body.update_scalars);
      break;
    case gs_DeviceMessage_update_tangent_tag:
      piece = piece_of(message.body.update_tangent);
      break;
    case gs_DeviceMessage_status_report_tag:
      break;
    default:
      owes_answer_ = true;
      upload_begun_ = false;  // what it had begun to send it has given up
  }
  upload_begun_ = upload_begun_ || piece.is_first;
  owes_answer_ = owes_answer_ || piece.is_last;
  if (owes_answer_) {
    clock_.peer_due_ms = now_ms() + limits_.session_idle_max_ms;
  } else if (upload_begun_ || message.which_body == gs_DeviceMessage_status_report_tag) {
    clock_.peer_due_ms = std::min(now_ms() + limits_.answer_deadline_ms, clock_.exchange_due_ms);
  }  // else a piece that crossed its Ack on the way: the device has the Ack's window
}

void Session::note_sent(const OutFrame& frame) {
  owes_answer_ = false;
  is_resting_ = frame.is_rest;
  upload_begun_ = upload_begun_ && !frame.is_ack;
  clock_.peer_due_ms = now_ms() + frame.patience_ms;
  clock_.exchange_due_ms = now_ms() + std::max<uint64_t>(frame.patience_ms, limits_.session_idle_max_ms);
}

void Session::drain(const ServerMessage& message) {
  if (claim() != 0) {  // its messages are others; it comes again by itself
    close(gs_Reason_REASON_NONE);
    return;
  }
  if (upload_begun_) {
    drain_message_ = std::make_unique<ServerMessage>(message);
    return;
  }
  send(message);
  close(gs_Reason_REASON_NONE);
}

void Session::yield(const gs_RetryWindow& retry) {
  if (!is_open()) {
    return;
  }
  const bool is_uploading = upload_begun_;
  if (is_resting_ || is_uploading) {  // else it is owed an answer, after which it may be asked again
    drain(drain_message(retry));
  }
  if (is_open()) {
    owner_->on_session_stays(id_, is_uploading);
  }
}

void Session::close(gs_Reason reason) {
  if (!is_open()) {
    return;
  }
  if (reason == gs_Reason_REASON_OVERLOADED) {
    // What it did not read it need not get: the reason is enough.
    drop_queue();
  }
  if (reason != gs_Reason_REASON_NONE) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_refusal(reason, frame);
    if (size.ok()) {
      queue_frame({frame, size.value()});
    }
  }
  begin_closing();
}

Result<size_t> Session::encode_refusal(gs_Reason reason, uint8_t* frame) const {
  const gs_RetryWindow retry = {limits_.refusal_retry_min_ms, limits_.refusal_retry_max_ms};
  if (claim() != 0 && !knows_no_claims_) {
    return encode_claim_answer({reason}, retry, frame);
  }
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_refuse_tag;
  message.body.refuse.reason = reason;
  message.body.refuse.has_retry = true;
  message.body.refuse.retry = retry;
  return encode_frame(message, frame);
}

void Session::answer_claim(const ClaimVerdict& verdict) {
  if (!is_open()) {
    return;
  }
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size =
      encode_claim_answer(verdict, {limits_.refusal_retry_min_ms, limits_.refusal_retry_max_ms}, frame);
  GS_ASSERT(size.ok());  // some numbers and a confirm fit a frame
  queue_frame({frame, size.value()});
  begin_closing();
}

void Session::begin_closing() {
  state_ = State::kClosing;
  clock_.state_begin_ms = now_ms();
  clock_.frame_begin_ms = 0;
  tail_has_more_ = false;  // nothing follows any more
  owner_->on_session_closing(id_);
  if (!pumping_) {
    pump();
  }
}

void Session::end() {
  if (state_ == State::kGone) {
    return;
  }
  const auto keep = weak_from_this().lock();
  state_ = State::kGone;
  counters_.traffic.wire_bytes_sent += stream_->wire_bytes_sent() - wire_counted_sent_;
  counters_.traffic.wire_bytes_received += stream_->wire_bytes_received() - wire_counted_received_;
  wire_counted_sent_ = stream_->wire_bytes_sent();
  wire_counted_received_ = stream_->wire_bytes_received();
  stream_->close();
  timer_.cancel();
  clock_.timer_ms = 0;
  drop_queue();
  owner_->on_session_ended(id_);
}

// ---- The pump ------------------------------------------------------------------------------------------------------

void Session::pump() {
  if (pumping_ || state_ == State::kGone) {
    return;
  }
  const auto keep = shared_from_this();
  pumping_ = true;
  if (state_ == State::kTls) {
    pump_handshake();
  }
  if (is_open()) {
    pump_input();
  }
  if (state_ != State::kGone) {
    pump_output();
  }
  pumping_ = false;
  if (state_ == State::kClosing && stream_->shut_down_done()) {
    end();
  }
  arm_timer();
}

void Session::pump_handshake() {
  const Status status = stream_->handshake();
  if (status == Status::kWouldBlock) {
    return;
  }
  if (status != Status::kOk) {
    fail_tls();
    return;
  }
  if (stream_->is_unregistered()) {
    state_ = State::kAdmit;  // within the deadline of the handshake
    owner_->on_session_unregistered(id_, identity());
    return;
  }
  establish();
}

void Session::admit(TlsFault refusal, uint32_t device) {
  if (state_ != State::kAdmit) {
    return;
  }
  if (refusal != TlsFault::kNone) {
    stream_->refuse(refusal);
    fail_tls();
    return;
  }
  stream_->admit(device);
  establish();
  pump();
}

void Session::establish() {
  state_ = State::kHello;
  clock_.state_begin_ms = now_ms();
  clock_.exchange_due_ms = clock_.state_begin_ms + limits_.session_idle_max_ms;
  ++counters_.handshakes.sessions_established;
  if (is_logged(LogLevel::kDebug)) {
    log_event("session_established"_event,
              Fields().add("session", id_).add("peer", text_of(arrival_.peer)).add("device", identity()));
  }
  owner_->on_session_established(id_, device(), claim());
}

void Session::fail_tls() {
  const TlsFault fault = stream_->fault();
  ++*counter_of(fault, counters_);
  Fields fields;
  fields.add("session", id_).add("peer", text_of(arrival_.peer));
  if (!identity().empty()) {
    fields.add("identity", identity());
  }
  if (!stream_->fault_detail().empty()) {
    fields.add(fault == TlsFault::kNotTls ? "first_bytes" : "detail", stream_->fault_detail());
  }
  if (is_open() || may_log_fault()) {  // closed by its peer: a port scan, a health check, a board's reset
    log_event(tls_fault_event(fault), fields);
  }
  begin_closing();
}

bool Session::may_log_fault() {
  const bool may = fault_lines_.admit(now_ms());
  counters_.fault_lines_dropped += may ? 0 : 1;
  return may;
}

void Session::pump_input() {
  uint8_t buffer[kFrameSizeMax];
  while (is_open()) {
    const Result<size_t> size = stream_->read(buffer, sizeof buffer);
    if (!size.ok()) {
      if (size.status() == Status::kWouldBlock) {
        break;
      }
      if (size.status() == Status::kClosed) {
        if (is_logged(LogLevel::kDebug)) {
          log_event("session_left"_event, Fields().add("session", id_).add("device", identity()));
        }
        begin_closing();
      } else {
        fail_tls();
      }
      return;
    }
    std::span<const uint8_t> rest(buffer, size.value());
    while (!rest.empty() && is_open()) {
      rest = rest.subspan(reader_.feed(rest));
      if (reader_.discarded_size() > 0) {
        refuse_malformed("bytes that begin no frame, or a length beyond the largest frame");
        return;
      }
      if (reader_.has_frame()) {
        on_frame(reader_.payload());
        reader_.pop();
        clock_.frame_begin_ms = 0;
      }
    }
  }
  const bool in_frame = reader_.in_frame() || stream_->in_record();
  if (!in_frame || !is_open()) {
    clock_.frame_begin_ms = 0;
  } else if (clock_.frame_begin_ms == 0) {
    clock_.frame_begin_ms = now_ms();
  }
}

void Session::on_frame(std::span<const uint8_t> payload) {
  ++counters_.traffic.frames_received;
  if (claim() != 0) {
    on_claim(payload);
    return;
  }
  DeviceMessage message = {};
  const Status status = decode_message(payload, &message);
  if (status != Status::kOk) {
    if (!take_key_change(payload)) {
      refuse_malformed(status_text(status));
    }
    return;
  }
  if (state_ == State::kHello) {
    state_ = State::kOpen;
  }
  note_received(message);
  owner_->on_session_message(id_, device(), message);
}

// Beside the exchange: nobody owes an answer by it, and no wait ends. False: it is none, or one too many.
bool Session::take_key_change(std::span<const uint8_t> payload) {
  KeyChange change;
  if (state_ != State::kOpen || decode_key_change_of_device(payload, &change) != Status::kOk ||
      key_offer_count_ == kKeyOffersMax) {
    return false;
  }
  ++key_offer_count_;
  owner_->on_session_key_change(id_, device(), change);
  return true;
}

void Session::on_claim(std::span<const uint8_t> payload) {
  SecretValue<ClaimRequest> request;
  DeviceMessage message = {};
  if (decode_claim_request(payload, &*request) == Status::kOk) {
    has_claimed_ = true;
    owner_->on_session_claim(id_, claim(), *request);
  } else if (decode_message(payload, &message) == Status::kOk) {
    refuse_device_at_claim();
  } else {
    refuse_malformed("no claim of a name and a key");
  }
}

void Session::refuse_device_at_claim() {
  knows_no_claims_ = true;
  ++counters_.claims_refused;
  if (may_log_fault()) {
    log_event("claim_refused"_event,
              Fields()
                  .add("device", identity())
                  .add("peer", text_of(arrival_.peer))
                  .add("reason", reason_name(gs_Reason_REASON_UNEXPECTED_MESSAGE))
                  .add("remedy", "this device does not know claims: give it an identity file of its own"));
  }
  close(gs_Reason_REASON_UNEXPECTED_MESSAGE);
}

void Session::refuse_malformed(const char* what) {
  ++counters_.traffic.malformed_frames;
  if (may_log_fault()) {
    log_event(
        "malformed_frame"_event,
        Fields().add("session", id_).add("peer", text_of(arrival_.peer)).add("device", identity()).add("what", what));
  }
  close(gs_Reason_REASON_MALFORMED);
}

void Session::pump_output() {
  do {
    write_queued();
    stream_->flush();
  } while (sendable_count() > 0 && stream_->can_write());
  if (!stream_->is_writing()) {
    clock_.write_begin_ms = 0;
  } else if (clock_.write_begin_ms == 0 || stream_->wire_bytes_sent() != wire_counted_sent_) {
    clock_.write_begin_ms = now_ms();
  }
  counters_.traffic.wire_bytes_sent += stream_->wire_bytes_sent() - wire_counted_sent_;
  counters_.traffic.wire_bytes_received += stream_->wire_bytes_received() - wire_counted_received_;
  wire_counted_sent_ = stream_->wire_bytes_sent();
  wire_counted_received_ = stream_->wire_bytes_received();
  if (state_ == State::kClosing && queue_.empty()) {
    stream_->shut_down();
  }
}

size_t Session::sendable_count() const { return queue_.size() - (tail_has_more_ ? 1 : 0); }

// As much of the queue as the stream takes. Frames that fit into one TLS record share it: a record costs either end
// more than the bytes in it.
void Session::write_queued() {
  uint8_t record[kFrameSizeMax];
  while (sendable_count() > 0) {
    size_t size = 0;
    size_t count = 0;
    for (auto frame = queue_.begin(); count < sendable_count() && size + frame->size() <= sizeof record; ++frame) {
      size = static_cast<size_t>(std::copy(frame->begin(), frame->end(), record + size) - record);
      ++count;
    }
    const Status status = stream_->write({record, size});
    if (status == Status::kWouldBlock) {
      return;
    }
    if (status != Status::kOk) {
      drop_queue();
      if (is_open()) {
        begin_closing();
      }
      return;
    }
    counters_.traffic.frames_sent += count;
    for (; count > 0; --count) {
      *gauge_ -= cost_of(queue_.front());
      pool_.take_back(queue_);
    }
  }
}

// ---- Deadlines -----------------------------------------------------------------------------------------------------

Session::Deadline Session::next_deadline(uint64_t* when_ms) const {
  Deadline deadline = Deadline::kNone;
  *when_ms = UINT64_MAX;
  const auto consider = [&](Deadline candidate, uint64_t when) {
    if (when < *when_ms) {
      *when_ms = when;
      deadline = candidate;
    }
  };
  switch (state_) {
    case State::kTls:
    case State::kAdmit:
      consider(Deadline::kHandshake, clock_.state_begin_ms + limits_.handshake_deadline_ms);
      break;
    case State::kHello:
      consider(Deadline::kHello, clock_.state_begin_ms + limits_.answer_deadline_ms);
      break;
    case State::kOpen:
      consider(Deadline::kIdle, clock_.peer_due_ms);
      break;
    case State::kClosing:
      consider(Deadline::kClose, clock_.state_begin_ms + limits_.close_deadline_ms);
      break;
    default:
      return Deadline::kNone;
  }
  if (is_open() && clock_.frame_begin_ms != 0) {
    consider(Deadline::kFrame, clock_.frame_begin_ms + limits_.frame_deadline_ms);
  }
  if (is_open() && clock_.write_begin_ms != 0) {
    consider(Deadline::kWrite, clock_.write_begin_ms + limits_.write_deadline_ms);
  }
  return deadline;
}

// The timer is a watchdog: it is moved only when the next deadline comes before the time it is set to.
void Session::arm_timer() {
  uint64_t when_ms = 0;
  if (next_deadline(&when_ms) == Deadline::kNone) {
    return;
  }
  when_ms = std::max(when_ms, clock_.wake_end_ms);
  if (clock_.timer_ms != 0 && clock_.timer_ms <= when_ms) {
    return;
  }
  const uint64_t now = now_ms();
  clock_.timer_ms = when_ms;
  timer_.expires_after(std::chrono::milliseconds(when_ms > now ? when_ms - now : 0));
  timer_.async_wait([weak = weak_from_this()](const ErrorCode& error) {
    const auto self = weak.lock();
    if (error || !self || self->state_ == State::kGone) {
      return;
    }
    self->clock_.timer_ms = 0;
    const uint64_t fired_ms = self->now_ms();
    uint64_t due_ms = 0;
    const Deadline deadline = self->next_deadline(&due_ms);
    if (deadline != Deadline::kNone && due_ms + kStandstillMs < fired_ms && self->clock_.wake_end_ms < due_ms) {
      self->clock_.wake_end_ms = fired_ms + kWakeMs;  // first what has come while the process stood still
    } else if (due_ms <= fired_ms) {
      self->on_deadline(deadline);
    }
    self->arm_timer();
  });
}

void Session::on_deadline(Deadline deadline) {
  struct Row {
    const char* name;
    const char* state;
    Counter* counter;
    const char* remedy;
  };
  Row row = {};
  switch (deadline) {
    case Deadline::kNone:
      return;
    case Deadline::kClose:
      row = {"close_deadline_ms", "close", &counters_.deadlines.close, "none: the peer keeps its end open, or is gone"};
      break;
    case Deadline::kHandshake:
      row = {"handshake_deadline_ms", "tls", &counters_.deadlines.handshake, "check the link: the handshake stalled"};
      break;
    case Deadline::kHello:
      row = {"answer_deadline_ms", "hello", &counters_.deadlines.hello, "the device sends no Hello: see its console"};
      break;
    case Deadline::kFrame:
      row = {"frame_deadline_ms", "receive", &counters_.deadlines.frame, "check the link: a frame stalled half-way"};
      break;
    case Deadline::kWrite:
      row = {"write_deadline_ms", "send", &counters_.deadlines.write, "the device does not read: see its console"};
      break;
    case Deadline::kIdle:
      row = {"session_idle", "open", &counters_.deadlines.idle, "none if the device was switched off; it dials again"};
      break;
  }
  ++*row.counter;
  if (!is_half_open() || may_log_fault()) {
    log_event("deadline"_event, Fields()
                                    .add("limit", row.name)
                                    .add("state", row.state)
                                    .add("session", id_)
                                    .add("peer", text_of(arrival_.peer))
                                    .add("device", identity())
                                    .add("remedy", row.remedy));
  }
  if (deadline == Deadline::kHandshake || deadline == Deadline::kWrite || deadline == Deadline::kClose) {
    end();  // nothing that could be said would arrive
  } else {
    close(gs_Reason_REASON_DEADLINE);
  }
}

}  // namespace gradstream
