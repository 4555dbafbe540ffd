#include "bench/load_device.h"

#include <cstring>
#include <utility>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

// One of the values that a device uploads: small, and its own in each version.
float value_of(uint32_t device, uint32_t version, uint32_t entry) {
  uint32_t bits = device * 0x9e3779b9U ^ version * 0x85ebca6bU ^ entry * 0xc2b2ae35U;
  bits = (bits ^ (bits >> 15)) * 0x2c1b3c6dU;
  return 1e-6F * (static_cast<float>(bits >> 21) - 1024.0F);
}

}  // namespace

void DevicePeer::send(const DeviceMessage& message) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(message, frame);
  GS_ASSERT(size.ok());
  send_bytes({frame, size.value()});
}

void DevicePeer::forget_session() {
  reader_ = FrameReader();
  task_ = {};
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
      return leave_early() ? void() : ask();  // who says nothing more is dropped at a deadline
    case gs_ServerMessage_task_tag:
      task_ = message.body.task;
      return state() == LoadPeerState::kGreeting ? greeted() : answer();
    case gs_ServerMessage_wait_tag:
      ++statistics_.waits;
      take_window(message.body.wait.retry);
      return state() == LoadPeerState::kGreeting ? greeted() : end_exchange(false);
    case gs_ServerMessage_ack_tag: {
      const bool counts =
          message.body.ack.verdict == gs_Verdict_VERDICT_FOLDED || message.body.ack.verdict == gs_Verdict_VERDICT_LATE;
      if (!counts) {
        ++statistics_.refused;
        statistics_.last_fault = reason_name(message.body.ack.reason);
      }
      take_window(message.body.ack.retry);
      return end_exchange(counts);
    }
    case gs_ServerMessage_refuse_tag:
      return fail(reason_name(message.body.refuse.reason));
    case gs_ServerMessage_drain_tag:
      return fail("the server drains");
    default:  // a version's bytes
      return;
  }
}

void DevicePeer::answer() {
  const gs_Task task = std::exchange(task_, gs_Task{});
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
    const float value = value_of(device_, task.version, e);
    std::memcpy(update.values.bytes + e * sizeof value, &value, sizeof value);
  }
  update.crc32c = crc32c(0, update.values.bytes, update.values.size);
  update.loss_before = 1;
  update.loss_after = 1;
  start_clock();
  send(message);
}

}  // namespace gradstream
