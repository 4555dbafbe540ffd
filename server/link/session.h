// One connection: TLS, frames in and out, a bounded queue, and one deadline in every state.
//
//   kTls -(kAdmit)-> kHello ----> kOpen ----> kClosing -> gone
//   handshake_       answer_      idle (below) close_deadline_ms
//   deadline_ms      deadline_ms
//
// kAdmit: by its certificate the peer is a device that the owner has to register first. In all states a frame (or TLS
// record) that has begun must be complete within frame_deadline_ms, and a write must leave within write_deadline_ms. In
// kOpen the peer is due:
//   after a Task              within the task's own deadline plus answer_deadline_ms (session_idle_max_ms without one)
//   after Ack, Wait           within the retry window plus answer_deadline_ms
//   after an Ack with hold    within session_idle_max_ms: it may stand for a Pull, whose answer this end then owes
//   after anything else sent  within answer_deadline_ms
//   while this end owes it an answer  within session_idle_max_ms
//   after StatusReport, or before an update's last piece  within answer_deadline_ms for the next frame, and within
//                                                         session_idle_max_ms for all such frames together
// A deadline that fires is logged with its name, counted, answered with REASON_DEADLINE and ends in a close.
//
// Malformed bytes are answered REASON_MALFORMED; a queue over its cap ends the session with REASON_OVERLOADED.
#ifndef GRADSTREAM_SERVER_LINK_SESSION_H_
#define GRADSTREAM_SERVER_LINK_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/wire/claim.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "server/base/asio_alias.h"
#include "server/base/rate_limit.h"
#include "server/base/session_id.h"
#include "server/link/frame_pool.h"
#include "server/link/out_frame.h"
#include "server/link/shell_counters.h"
#include "server/link/tls_stream.h"

namespace gradstream {

// All in milliseconds unless the name says otherwise. Set from the configuration file.
struct SessionLimits {
  uint32_t handshake_deadline_ms = kHandshakeDeadlineMs;
  uint32_t answer_deadline_ms = kAnswerDeadlineMs;
  uint32_t frame_deadline_ms = kFrameDeadlineMs;
  uint32_t write_deadline_ms = kAnswerDeadlineMs;
  uint32_t close_deadline_ms = kFrameDeadlineMs;
  uint32_t session_idle_max_ms = 600000;
  // Frames that wait for one peer, in bytes of memory. Reason: two snapshots of a model of 64 K values.
  uint32_t queue_size_max = 1U << 20;
  // Window sent with a refusal: wider than the ordinary one.
  uint32_t refusal_retry_min_ms = kRefusedRetryMinMs;
  uint32_t refusal_retry_max_ms = 10000;
};

// Offers of a new key that one session takes. Reason: an honest device makes one, and again where it is asked anew;
// each costs a key agreement.
inline constexpr uint8_t kKeyOffersMax = 3;

// Lines of the log about handshakes that fail and bytes that are no message, of the whole server. Reason: whoever can
// reach the port could fill the disk; what is dropped is counted.
inline constexpr RateLimit kFaultLines = {10, 100};

// Shared by the sessions of all threads.
class FaultLines {
 public:
  bool admit(uint64_t now_ms) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return meter_.admit(kFaultLines, now_ms);
  }

 private:
  std::mutex mutex_;
  RateMeter meter_;
};

// A connection before its session.
struct Arrival {
  Tcp::endpoint peer;
  std::vector<uint8_t> bytes;       // read of it so far
  uint64_t accepted_ms = 0;         // by steady_ms(), where its time in the lobby begins
  std::unique_ptr<KnownPsk> known;  // of the identity in the bytes; null: it was not looked up just now
};

// Who owns the sessions. All calls come from the thread of the session's io_context.
class SessionOwner {
 public:
  virtual ~SessionOwner() = default;
  // device: enrolment index, proven; claim: not 0, it has proven that one, and is no device yet.
  virtual void on_session_established(SessionId session, uint32_t device, uint32_t claim) = 0;
  // Before it: a peer has proven a certificate of this device, and nobody has enrolled that. Answered by admit().
  virtual void on_session_unregistered(SessionId session, const std::string& name) = 0;
  virtual void on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) = 0;
  // A session of this claim wants to become a device; answered by answer_claim().
  virtual void on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) = 0;
  // A device offers a new key; answered by a frame of make_key_frame(), or by nothing.
  virtual void on_session_key_change(SessionId, uint32_t /*device*/, const KeyChange&) {}
  // It does not follow yield(): what came of its device meanwhile, or has begun to come, is answered first.
  // is_uploading: an update, after whose Ack it does.
  virtual void on_session_stays(SessionId, bool /*is_uploading*/) {}
  // Nothing more is read of it, and what is left is its last words: handshakes that failed too.
  virtual void on_session_closing(SessionId) {}
  // A device waits for a place, and nobody rests: a device whose Pull is held is to be answered, so that it rests.
  virtual void on_place_wanted() {}
  // The last call for this session. One that never was established has no other call but on_session_closing().
  virtual void on_session_ended(SessionId session) = 0;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // socket: with TCP_NODELAY; its io_context's thread makes all calls. gauge: of this session. pool: of its thread.
  Session(SessionId id, Tcp::socket socket, Arrival arrival, std::shared_ptr<QueueGauge> gauge, TlsContext& context,
          const SessionLimits& limits, ShellCounters& counters, FaultLines& fault_lines, FramePool& pool,
          SessionOwner& owner);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start();
  // queue() takes a message, flush() sends what is queued, so that messages of one origin leave in one write, and short
  // ones in one TLS record; send() is both. Nothing happens when the session is closing.
  void queue(const ServerMessage& message);
  void queue(OutFrame frame);
  void flush();
  void send(const ServerMessage& message) {
    queue(message);
    flush();
  }
  // Sends a Drain and ends the session; where an update has begun to come, after its Ack.
  void drain(const ServerMessage& message);
  // Ends the session after what was queued. reason: sent in a Refuse unless REASON_NONE.
  void close(gs_Reason reason);
  // A message that make_frame() has no room for ends it.
  void overload();
  // The answer to on_session_unregistered(): kNone, and the device is this one; else why it may not come in.
  void admit(TlsFault refusal, uint32_t device);
  // Sends a Drain and ends the session where the device waits for its window to be over; where it has begun to send an
  // update meanwhile, after the Ack. Unless it ends at once, on_session_stays() says so.
  void yield(const gs_RetryWindow& retry);
  // The answer to a claim ends its session.
  void answer_claim(const ClaimVerdict& verdict);
  // Ends it at once, without a word; on_session_ended() is still called.
  void abort() { end(); }

  SessionId id() const { return id_; }
  const std::string& identity() const { return stream_->identity(); }
  uint32_t device() const { return stream_->device(); }
  uint32_t claim() const { return stream_->claim(); }
  bool is_half_open() const { return state_ == State::kTls || state_ == State::kAdmit; }
  bool is_open() const { return state_ == State::kHello || state_ == State::kOpen; }
  bool is_closing() const { return state_ == State::kClosing; }
  // Established, and nothing has been heard of it yet.
  bool is_silent() const { return state_ == State::kHello && !has_claimed_; }
  size_t queued_size() const { return *gauge_; }

 private:
  enum class State : uint8_t { kNew, kTls, kAdmit, kHello, kOpen, kClosing, kGone };
  enum class Deadline : uint8_t { kNone, kHandshake, kHello, kFrame, kWrite, kIdle, kClose };
  // Beginnings of what the deadlines measure, and when the peer is due; 0: not running.
  struct Clock {
    uint64_t state_begin_ms = 0;
    uint64_t frame_begin_ms = 0;
    uint64_t write_begin_ms = 0;
    uint64_t peer_due_ms = 0;
    uint64_t exchange_due_ms = 0;  // whatever it sends meanwhile; as of the last thing that this end said
    uint64_t timer_ms = 0;         // when the timer fires; 0: not armed
    uint64_t wake_end_ms = 0;      // after a standstill: no deadline is judged before
  };

  void pump();
  void pump_handshake();
  void establish();
  void pump_input();
  void pump_output();
  size_t sendable_count() const;
  void write_queued();
  void on_frame(std::span<const uint8_t> payload);
  void on_claim(std::span<const uint8_t> payload);
  bool take_key_change(std::span<const uint8_t> payload);
  Result<size_t> encode_refusal(gs_Reason reason, uint8_t* frame) const;
  void refuse_malformed(const char* what);
  void queue_frame(std::span<const uint8_t> frame);
  void note_received(const DeviceMessage& message);
  void note_sent(const OutFrame& frame);
  void drop_queue();
  void fail_tls();
  bool may_log_fault();
  void refuse_device_at_claim();
  void begin_closing();
  void end();
  uint64_t now_ms() const;
  Deadline next_deadline(uint64_t* when_ms) const;
  void arm_timer();
  void on_deadline(Deadline deadline);

  const SessionId id_;
  TlsContext& context_;
  const SessionLimits& limits_;
  ShellCounters& counters_;
  FaultLines& fault_lines_;
  FramePool& pool_;
  SessionOwner* owner_;
  Arrival arrival_;  // all but the peer until start()
  std::shared_ptr<TlsStream> stream_;
  SteadyTimer timer_;
  Clock clock_;
  State state_ = State::kNew;
  bool pumping_ = false;
  FrameReader reader_;
  FrameList queue_;
  bool tail_has_more_ = false;  // of the queue's last frame
  const std::shared_ptr<QueueGauge> gauge_;
  bool owes_answer_ = false;  // this end, to the last frame of the peer
  bool is_resting_ = false;   // the last thing said was an Ack or a Wait; see also Listener::note_rest()
  std::unique_ptr<ServerMessage> drain_message_;  // waits for the Ack of an update
  bool upload_begun_ = false;                     // a first piece came, its Ack has not left
  bool has_claimed_ = false;                      // its claim was read, and the answer is on its way
  uint8_t key_offer_count_ = 0;
  bool knows_no_claims_ = false;  // a device that was given a claim in place of an identity
  uint64_t wire_counted_sent_ = 0;
  uint64_t wire_counted_received_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_SESSION_H_
