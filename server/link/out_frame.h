// Messages on their way to a session: encoded, counted against what may wait for one peer, and with what the session
// knows of each when it sends it.
#ifndef GRADSTREAM_SERVER_LINK_OUT_FRAME_H_
#define GRADSTREAM_SERVER_LINK_OUT_FRAME_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/wire/codec.h"
#include "runtime/wire/key_change.h"
#include "server/link/frame_pool.h"

namespace gradstream {

struct SessionLimits;  // server/link/session.h

// What keeping a frame costs beyond its bytes: its vector, its share of the queue, the heap's own bookkeeping.
inline constexpr size_t kQueuedFrameOverhead = 64;

// What waits for one peer, in bytes of memory (kQueuedFrameOverhead for each frame included), on its way to the session
// and in its queue. make_frame() adds the frame's cost to the gauge; the session subtracts it when the frame has been
// sent or dropped.
using QueueGauge = std::atomic<size_t>;

// A message as its session sends it.
struct OutFrame {
  FrameList frame;  // of one
  size_t size() const { return frame.front().size(); }
  uint64_t patience_ms = 0;  // the peer is due so long after it
  bool is_ack = false;
  bool is_rest = false;   // whoever gets it owes nothing until its window is over
  bool is_aside = false;  // no answer of the exchange: what the session waits for stays as it is
  bool has_more = false;  // its session keeps it until something is queued behind it, or the session closes
};
// Whether the device that gets it waits then, and owes nothing. After an Ack with hold it waits for an answer.
inline bool is_rest(const ServerMessage& message) {
  return message.which_body == gs_ServerMessage_wait_tag ||
         (message.which_body == gs_ServerMessage_ack_tag && !message.body.ack.hold);
}
// Whether this of the device ends its rest.
inline bool ends_rest(const DeviceMessage& message) { return message.which_body != gs_DeviceMessage_status_report_tag; }

inline ServerMessage drain_message(const gs_RetryWindow& retry) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_drain_tag;
  message.body.drain.has_retry = true;
  message.body.drain.retry = retry;
  return message;
}

// From any thread. kOk: *gauge counts it; kOutOfMemory: it would be more than queue_size_max; else it cannot be
// encoded. The pool is the calling thread's.
Status make_frame(const ServerMessage& message, const SessionLimits& limits, QueueGauge* gauge, FramePool& pool,
                  OutFrame* out);
// The same of a KeyChange, which stands beside the exchange.
Status make_key_frame(const KeyChange& change, const SessionLimits& limits, QueueGauge* gauge, FramePool& pool,
                      OutFrame* out);

// What a frame costs while it waits.
inline size_t cost_of(const std::vector<uint8_t>& frame) { return frame.size() + kQueuedFrameOverhead; }

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_OUT_FRAME_H_
