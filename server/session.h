// One connection: TLS, frames in and out, a bounded queue, and one deadline in every state.
//
//   kTls ----> kHello ----> kOpen ----> kClosing -> gone
//   handshake_ answer_      idle (below) close_deadline_ms
//   deadline_ms deadline_ms
//
// Over all states: a frame (or TLS record) begun is complete within frame_deadline_ms, and a write leaves within
// write_deadline_ms. In kOpen the peer is due:
//   after a Task              within the task's own deadline plus answer_deadline_ms (session_idle_max_ms without one)
//   after Ack, Wait           within the retry window plus answer_deadline_ms
//   after anything else sent  within answer_deadline_ms
//   while this end owes it an answer: session_idle_max_ms (not after StatusReport, nor before an update's last piece:
//   then the next frame within answer_deadline_ms, and all such frames together within session_idle_max_ms)
// A deadline that fires is logged with its name, counted, answered with REASON_DEADLINE and ends in a close.
//
// Malformed bytes are answered REASON_MALFORMED; a queue over its cap ends the session with REASON_OVERLOADED.
#ifndef GRADSTREAM_SERVER_SESSION_H_
#define GRADSTREAM_SERVER_SESSION_H_

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/link/claim.h"
#include "runtime/link/codec.h"
#include "runtime/link/frame.h"
#include "server/asio_alias.h"
#include "server/rate_limit.h"
#include "server/tls_stream.h"

namespace gradstream {

using SessionId = uint64_t;  // never reused

// What keeping a frame costs beyond its bytes: its vector, its share of the queue, the heap's own bookkeeping.
inline constexpr size_t kQueuedFrameOverhead = 64;

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

// Counters of the shell. Names are stable: they are the keys of the log line event=counters.
struct ShellCounters {
  uint64_t connections_accepted = 0;
  uint64_t connections_over_cap = 0;
  uint64_t handshakes_over_cap = 0;
  uint64_t accept_failures = 0;
  uint64_t sessions_established = 0;
  uint64_t plain_text_peers = 0;
  uint64_t tls_version_peers = 0;
  uint64_t unknown_identities = 0;
  uint64_t revoked_identities = 0;
  uint64_t inactive_identities = 0;
  uint64_t expired_keys = 0;
  uint64_t wrong_keys = 0;
  uint64_t large_records = 0;
  uint64_t tls_other_faults = 0;
  uint64_t malformed_frames = 0;
  uint64_t deadline_handshake = 0;
  uint64_t deadline_hello = 0;
  uint64_t deadline_frame = 0;
  uint64_t deadline_write = 0;
  uint64_t deadline_idle = 0;
  uint64_t deadline_close = 0;
  uint64_t sessions_overloaded = 0;
  uint64_t frames_received = 0;
  uint64_t frames_sent = 0;
  uint64_t wire_bytes_received = 0;
  uint64_t wire_bytes_sent = 0;
  uint64_t store_failures = 0;
  uint64_t fault_lines_dropped = 0;  // of the log, beyond kFaultLines
  uint64_t greetings_replaced = 0;
  uint64_t claims_granted = 0;
  uint64_t claims_refused = 0;
};

// Lines of the log about handshakes that fail and bytes that are no message, of the whole server. Reason: whoever can
// reach the port could fill the disk; what is dropped is counted.
inline constexpr RateLimit kFaultLines = {10, 100};

// Who owns the sessions. All calls come from the io_context thread.
class SessionOwner {
 public:
  virtual ~SessionOwner() = default;
  virtual void on_session_established(SessionId session) = 0;
  virtual void on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) = 0;
  // Of a session of this claim; answered by answer_claim().
  virtual void on_session_claim(SessionId session, uint32_t claim, const Identity& identity) = 0;
  // The last call for this session, and the only one for a session that never was established.
  virtual void on_session_ended(SessionId session) = 0;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // socket: with TCP_NODELAY. fault_lines: of kFaultLines, shared by all sessions.
  Session(SessionId id, Tcp::socket socket, const Tcp::endpoint& peer, TlsContext& context,
          const SessionLimits& limits, ShellCounters& counters, RateMeter& fault_lines, SessionOwner& owner);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start();
  // queue() takes a message, flush() sends what is queued, so that messages of one origin leave in one write; send() is
  // both. Nothing happens when the session is closing.
  void queue(const ServerMessage& message);
  void flush();
  void send(const ServerMessage& message);
  // Sends a Drain and ends the session; where an update has begun to come, after its Ack.
  void drain(const ServerMessage& message);
  // Ends the session after what was queued. reason: sent in a Refuse unless REASON_NONE.
  void close(gs_Reason reason);
  // The answer to a claim ends its session.
  void answer_claim(gs_Reason reason);
  // Ends it at once, without a word; on_session_ended() is still called.
  void abort();

  SessionId id() const { return id_; }
  const std::string& identity() const { return stream_->identity(); }
  uint32_t device() const { return stream_->device(); }
  uint32_t claim() const { return stream_->claim(); }
  bool is_half_open() const { return state_ == State::kTls; }
  bool is_open() const { return state_ == State::kHello || state_ == State::kOpen; }
  // Established, and nothing has been heard of it yet.
  bool is_silent() const { return state_ == State::kHello; }
  size_t queued_size() const { return queued_size_; }

 private:
  enum class State : uint8_t { kNew, kTls, kHello, kOpen, kClosing, kGone };
  enum class Deadline : uint8_t { kNone, kHandshake, kHello, kFrame, kWrite, kIdle, kClose };

  void pump();
  void pump_handshake();
  void pump_input();
  void pump_output();
  void write_queued();
  void on_frame(std::span<const uint8_t> payload);
  void on_claim(std::span<const uint8_t> payload);
  Result<size_t> encode_refusal(gs_Reason reason, uint8_t* frame) const;
  void refuse_malformed(const char* what);
  void queue_frame(std::span<const uint8_t> frame);
  void note_received(const DeviceMessage& message);
  void note_sent(const ServerMessage& message);
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
  RateMeter& fault_lines_;
  SessionOwner* owner_;
  const Tcp::endpoint peer_;
  std::shared_ptr<TlsStream> stream_;
  SteadyTimer timer_;
  uint64_t timer_ms_ = 0;  // when it fires; 0: not armed
  State state_ = State::kNew;
  bool pumping_ = false;
  FrameReader reader_;
  std::list<std::vector<uint8_t>> queue_;  // an empty deque would take half a kilobyte
  size_t queued_size_ = 0;
  // Beginnings of what the deadlines measure; 0: not running.
  uint64_t state_begin_ms_ = 0;
  uint64_t frame_begin_ms_ = 0;
  uint64_t write_begin_ms_ = 0;
  uint64_t peer_due_ms_ = 0;
  uint64_t exchange_due_ms_ = 0;  // whatever it sends meanwhile; as of the last thing that this end said
  bool owes_answer_ = false;   // this end, to the last frame of the peer
  std::unique_ptr<ServerMessage> drain_message_;  // waits for the Ack of an update
  bool upload_begun_ = false;  // a first piece came, its Ack has not left
  bool knows_no_claims_ = false;  // a device that was given a claim in place of an identity
  uint64_t wire_counted_sent_ = 0;
  uint64_t wire_counted_received_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_SESSION_H_
