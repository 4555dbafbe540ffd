#include "bench/load_device.h"

#include <cstring>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

uint64_t now_ms() { return static_cast<uint64_t>(1e3 * load_now_s()); }

bool is_accepted(gs_Verdict verdict) {
  return verdict == gs_Verdict_VERDICT_FOLDED || verdict == gs_Verdict_VERDICT_LATE;
}

}  // namespace

void DevicePeer::send(const DeviceMessage& message) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(message, frame);
  GS_ASSERT(size.ok());
  send_bytes({frame, size.value()});
}

// A task that was not answered yet comes again with the next Pull.
void DevicePeer::forget_session() {
  reader_ = FrameReader();
  is_draining_ = false;
  if (!is_sent_) {
    task_ = {};
  }
}

void DevicePeer::greet() {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_hello_tag;
  gs_Hello& hello = message.body.hello;
  hello.protocol_version = kProtocolVersion;
  std::strcpy(hello.firmware_version, "load");
  hello.has_capabilities = true;
  hello.capabilities = {.manifolds = ~0U,
                        .solvers = ~0U,
                        .estimators = ~0U,
                        .encodings = ~0U,
                        .arena_size = 1U << 20,
                        .problems_count = 1,
                        .problems = {"least_squares"},
                        .features = ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_NO_LOSSES))};
  hello.pending_task_sequence = task_.task_sequence;
  hello.reset_cause = gs_ResetCause_RESET_CAUSE_POWER_ON;
  hello.sample_count = 1;
  send(message);
}

void DevicePeer::ask() {
  if (task_.task_sequence != 0) {
    return answer();
  }
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_pull_tag;
  message.body.pull = {.has_model = has_model_, .version = version_, .digest = digest_, .hold_max_ms = 0};
  send(message);
}

void DevicePeer::on_bytes(std::span<const uint8_t> bytes) {
  while (!bytes.empty() && state() != LoadPeerState::kGone) {
    bytes = bytes.subspan(reader_.feed(bytes));
    if (reader_.has_frame()) {
      ServerMessage message = {};
      const Status status = decode_message(reader_.payload(), &message);
      reader_.pop();
      status == Status::kOk ? on_message(message) : fail("a message that does not decode");
    }
  }
}

void DevicePeer::on_message(const ServerMessage& message) {
  switch (message.which_body) {
    case gs_ServerMessage_welcome_tag:
      value_count_ = message.body.welcome.rows * message.body.welcome.cols;
      device_ = message.body.welcome.client_index;
      is_welcome_ = true;
      return leave_early() ? void() : ask();  // who says nothing more is dropped at a deadline
    case gs_ServerMessage_task_tag:
      note_back();
      task_ = message.body.task;
      if (state() == LoadPeerState::kGreeting) {
        greeted();
        return is_draining_ ? leave_for(drain_window_, "the server drains") : void();
      }
      return answer();
    case gs_ServerMessage_wait_tag:
      note_back();
      ++statistics_.waits;
      take_window(message.body.wait.retry);
      return end(false);
    case gs_ServerMessage_ack_tag:
      return on_ack(message.body.ack);
    case gs_ServerMessage_refuse_tag:
      return leave_for(message.body.refuse.retry, reason_name(message.body.refuse.reason));
    case gs_ServerMessage_drain_tag:
      drain_window_ = message.body.drain.retry;
      is_draining_ = true;
      return state() == LoadPeerState::kIdle ? leave_for(drain_window_, "the server drains") : void();
    default:  // a version's bytes
      return;
  }
}

void DevicePeer::on_ack(const gs_Ack& ack) {
  if (!is_sent_ || ack.task_sequence != task_.task_sequence) {
    return fail("an Ack of another update");
  }
  note_back();
  take_window(ack.retry);
  if (ack.verdict == gs_Verdict_VERDICT_TRY_LATER) {
    ++statistics_.waits;
    return end(false);
  }
  if (record_ != nullptr) {
    sent_.version = ack.version;
    sent_.verdict = ack.verdict;
    sent_.is_duplicate = ack.duplicate;
    record_->add_ack(sent_, now_ms());
  }
  if (!is_accepted(ack.verdict)) {
    ++statistics_.refused;
    statistics_.last_fault = reason_name(ack.reason);
  }
  task_ = {};
  is_sent_ = false;
  end(is_accepted(ack.verdict));
}

// The exchange is over, which may have been the greeting. Then the device leaves, where the server wants that.
void DevicePeer::end(bool is_answered) {
  if (state() == LoadPeerState::kGreeting) {
    greeted();
  }
  end_exchange(is_answered);
  if (is_draining_) {
    leave_for(drain_window_, "the server drains");
  }
}

void DevicePeer::on_lost(double wait_s) {
  if (record_ != nullptr && is_welcome_) {
    is_lost_ = true;
    record_->add_lost(device_, now_ms(), static_cast<uint64_t>(1e3 * wait_s));
  }
}

void DevicePeer::note_back() {
  if (is_lost_) {
    is_lost_ = false;
    record_->add_back(device_, now_ms());
  }
}

void DevicePeer::answer() {
  const gs_Task& task = task_;
  has_model_ = true;
  version_ = task.version;
  digest_ = task.digest;
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_update_tangent_tag;
  gs_UpdateTangent& update = message.body.update_tangent;
  update.task_sequence = task.task_sequence;
  update.base_version = task.version;
  update.steps_done = task.local_step_count;
  update.encoding = gs_Encoding_ENCODING_F32;
  update.value_count = value_count_;
  update.values.size = static_cast<pb_size_t>(value_count_ * sizeof(float));
  GS_ASSERT(update.values.size <= kPayloadSizeMax);  // the run's model is one piece
  for (uint32_t e = 0; e < value_count_; ++e) {
    const float value = load_value(device_, task.version, e);
    std::memcpy(update.values.bytes + e * sizeof value, &value, sizeof value);
  }
  update.crc32c = crc32c(0, update.values.bytes, update.values.size);
  update.loss_before = 1;
  update.loss_after = 1;
  sent_ = {.device = device_,
           .task_sequence = task.task_sequence,
           .base_version = task.version,
           .steps = update.steps_done,
           .crc32c = update.crc32c};
  is_sent_ = true;
  start_clock();
  send(message);
}

}  // namespace gradstream
