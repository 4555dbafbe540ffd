#include "server/link/out_frame.h"

#include "server/link/session.h"

namespace gradstream {

namespace {

// When the peer is due depends on the last thing that it was told.
uint64_t patience_after(const ServerMessage& message, const SessionLimits& limits) {
  const uint64_t answer_ms = limits.answer_deadline_ms;
  switch (message.which_body) {
    case gs_ServerMessage_task_tag:
      return message.body.task.deadline_ms == 0 ? limits.session_idle_max_ms
                                                : answer_ms + message.body.task.deadline_ms;
    case gs_ServerMessage_ack_tag:
      return message.body.ack.hold ? limits.session_idle_max_ms : answer_ms + message.body.ack.retry.max_ms;
    case gs_ServerMessage_wait_tag:
      return answer_ms + message.body.wait.retry.max_ms;
    default:
      return answer_ms;
  }
}

// kOutOfMemory as make_frame() has it.
Status keep(std::span<const uint8_t> frame, const SessionLimits& limits, QueueGauge* gauge, FramePool& pool,
            OutFrame* out) {
  const size_t cost = frame.size() + kQueuedFrameOverhead;
  if (*gauge + cost > limits.queue_size_max) {
    return Status::kOutOfMemory;
  }
  *gauge += cost;
  out->frame = pool.make(frame);
  return Status::kOk;
}

}  // namespace

Status make_frame(const ServerMessage& message, const SessionLimits& limits, QueueGauge* gauge, FramePool& pool,
                  OutFrame* out) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(message, frame);
  if (!size.ok()) {
    return size.status();
  }
  GS_TRY(keep({frame, size.value()}, limits, gauge, pool, out));
  out->patience_ms = patience_after(message, limits);
  out->is_ack = message.which_body == gs_ServerMessage_ack_tag;
  out->is_rest = is_rest(message);
  return Status::kOk;
}

Status make_key_frame(const KeyChange& change, const SessionLimits& limits, QueueGauge* gauge, FramePool& pool,
                      OutFrame* out) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_key_change_of_server(change, frame);
  if (!size.ok()) {
    return size.status();
  }
  out->is_aside = true;
  return keep({frame, size.value()}, limits, gauge, pool, out);
}

}  // namespace gradstream
