// The sessions of one thread, and the orders that they get from the coordinator's.
#ifndef GRADSTREAM_SERVER_LINK_SESSION_POOL_H_
#define GRADSTREAM_SERVER_LINK_SESSION_POOL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "server/link/session.h"

namespace gradstream {

// One thing that a session is to do. Nothing happens when it has ended meanwhile.
struct SessionOrder {
  enum class Kind : uint8_t {
    kSend,         // frame, when flush() comes
    kOverload,     // see Session
    kClose,        // with the reason
    kAnswerClaim,  // with the verdict
    kReplace,      // by a newer session of its device, if nothing has been heard of it yet
    kEvict,        // if it is in its handshake still, or closing
    kYield,        // with the window, if it waits
    kRenew,        // with the window: it has lived long enough
    kAdmit,        // the device, or refusal
  };
  Kind kind = Kind::kSend;
  gs_Reason reason = gs_Reason_REASON_NONE;
  SessionId session = 0;
  OutFrame frame = {};
  uint32_t device = 0;
  TlsFault refusal = TlsFault::kNone;
  gs_RetryWindow retry = {};
  ClaimVerdict verdict = {};
};

class SessionPool final : public SessionOwner {
 public:
  // Reports go on to `owner`. The io_context's thread makes all calls; everything must outlive the pool.
  SessionPool(asio::io_context& io, TlsContext& context, const SessionLimits& limits, ShellCounters& counters,
              FaultLines& fault_lines, SessionOwner& owner);
  ~SessionPool() override;
  SessionPool(const SessionPool&) = delete;
  SessionPool& operator=(const SessionPool&) = delete;

  void begin(SessionId id, Tcp::socket socket, Arrival arrival, std::shared_ptr<QueueGauge> gauge);
  void follow(SessionOrder order);
  // Sends what the orders since the last one have queued: messages that go to one session together leave in one write.
  void flush();
  // Drain to every session, then a close of each; a session with an update that has no Ack yet gets that first.
  void drain(const gs_RetryWindow& retry);
  void abort_all();
  // The session, or null once it has ended.
  Session* find(SessionId session) const;
  // Of this thread's frames.
  FramePool& frames() { return frames_; }

 private:
  void on_session_established(SessionId session, uint32_t device, uint32_t claim) override;
  void on_session_unregistered(SessionId session, const std::string& name) override;
  void on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) override;
  void on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) override;
  void on_session_key_change(SessionId session, uint32_t device, const KeyChange& change) override {
    owner_.on_session_key_change(session, device, change);
  }
  void on_session_stays(SessionId session, bool is_uploading) override {
    owner_.on_session_stays(session, is_uploading);
  }
  void on_session_closing(SessionId session) override { owner_.on_session_closing(session); }
  void on_session_ended(SessionId session) override;

  asio::io_context& io_;
  TlsContext& context_;
  const SessionLimits limits_;
  ShellCounters& counters_;
  FaultLines& fault_lines_;
  SessionOwner& owner_;
  FramePool frames_;
  std::map<SessionId, std::shared_ptr<Session>> sessions_;  // in order of age
  std::vector<SessionId> touched_;                          // by the orders since the last flush
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_SESSION_POOL_H_
