// A thread for sessions: TLS, frames and codec. What the coordinator's thread ("home") and this one want of each other
// goes through two boxes, each emptied as a whole:
//
//   home: begin(), order() ... deliver() --orders--> session pool --reports--> home: Reports, all that have come
//
// Home never waits for this thread. This thread waits for home while kReportCountMax reports lie in the box: that slows
// down devices that send faster than the coordinator decides, and bounds the memory. Frames on the way to a session
// count in its QueueGauge. Their memory comes back with the next delivery, and both boxes keep theirs.
#ifndef GRADSTREAM_SERVER_LINK_IO_THREAD_H_
#define GRADSTREAM_SERVER_LINK_IO_THREAD_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/base/secret.h"
#include "server/link/session_pool.h"

namespace gradstream {

// In the box of one thread. Reason: about a megabyte, and what the coordinator does in some ten milliseconds.
inline constexpr size_t kReportCountMax = 1024;

// Entries of a box that is being emptied, whose memory is kept for the next ones. Reason: 64 KB.
inline constexpr size_t kUsedReportCountMax = 64;

// One call of SessionOwner.
struct SessionReport {
  enum class Kind : uint8_t { kEstablished, kUnregistered, kMessage, kClaim, kKeyChange, kStays, kClosing, kEnded };
  Kind kind = Kind::kEnded;
  SessionId session = 0;
  uint32_t device = 0;
  uint32_t claim = 0;
  bool is_uploading = false;  // of kStays
  DeviceMessage message = {};
  std::unique_ptr<SecretValue<ClaimRequest>> request;  // of a claim
  std::unique_ptr<KeyChange> key_change;               // that a device offers
  std::string name;                                    // of who is unregistered
};

class IoThread final : public SessionOwner {
 public:
  using Reports = std::function<void(std::vector<SessionReport>& reports)>;

  // lookup: called on this thread. on_reports: on home's. board: as for TlsContext. Everything must outlive the thread.
  IoThread(asio::io_context& home, PskLookup lookup, const TlsPolicy& policy, const CredentialBoard* board,
           const SessionLimits& limits, FaultLines& fault_lines, Reports on_reports);
  ~IoThread() override;
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // Codes of TlsContext::start(). From home, once, before any other call.
  Status start();
  // All from home. What is begun or ordered is kept until deliver(). frames: home's, which get back what was sent.
  void begin(SessionId id, Tcp::socket socket, Arrival arrival, std::shared_ptr<QueueGauge> gauge);
  void order(SessionOrder order);
  void drain(const gs_RetryWindow& retry);
  void deliver(FramePool& frames);
  // Asks the thread to show that it runs; when it last did so, by steady_ms().
  void beat();
  uint64_t beaten_ms() const { return beaten_ms_; }
  // Ends all sessions without a word and joins. Reports of the ends are still to come, on home.
  void stop();

  const ShellCounters& counters() const { return counters_; }

 private:
  // A socket that belongs to no io_context.
  struct NewSession {
    NewSession(Tcp::socket socket, Arrival its_arrival, std::shared_ptr<QueueGauge> its_gauge);
    ~NewSession();
    NewSession(const NewSession&) = delete;
    NewSession& operator=(const NewSession&) = delete;
    int descriptor = -1;
    Arrival arrival;
    const std::shared_ptr<QueueGauge> gauge;
  };
  // In order: an order, a beginning or a drain.
  struct Item {
    SessionOrder order;
    std::unique_ptr<NewSession> begin;
    std::unique_ptr<gs_RetryWindow> drain;
  };

  void on_session_established(SessionId session, uint32_t device, uint32_t claim) override;
  void on_session_unregistered(SessionId session, const std::string& name) override;
  void on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) override;
  void on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) override;
  void on_session_key_change(SessionId session, uint32_t device, const KeyChange& change) override;
  void on_session_stays(SessionId session, bool is_uploading) override;
  void on_session_closing(SessionId session) override;
  void on_session_ended(SessionId session) override;
  void send(SessionReport report);
  void loop();
  void take_items();
  void take(Item& item);
  void take_reports();

  asio::io_context& home_;
  const Reports on_reports_;
  asio::io_context io_{1};
  // Neither loop ends for want of work while the other one may have some for it.
  asio::executor_work_guard<asio::io_context::executor_type> home_work_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  TlsContext tls_;
  ShellCounters counters_;
  SessionPool pool_;
  std::vector<Item> pending_;           // home's, until deliver()
  std::vector<SessionReport> handled_;  // home's: the reports that it looks at; else empty, with their memory
  std::vector<Item> followed_;          // this thread's: the same of orders
  std::atomic<uint64_t> beaten_ms_ = 0;
  std::atomic<bool> is_beat_due_ = false;  // asked for, and not shown yet

  std::mutex mutex_;
  std::condition_variable room_;
  std::vector<Item> items_;
  std::vector<SessionReport> reports_;
  FrameList sent_;  // memory of frames, on its way home
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_IO_THREAD_H_
