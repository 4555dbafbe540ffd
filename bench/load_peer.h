// One simulated device of gradstream-load: its connection, its TLS session and its deadlines, driven by epoll. What
// goes through the session is for the derived classes: load_device.h, load_mqtt.h and load_nats.h.
#ifndef GRADSTREAM_BENCH_LOAD_PEER_H_
#define GRADSTREAM_BENCH_LOAD_PEER_H_

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/types.h>

#include "runtime/base/status.h"
#include "runtime/link/tls.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/identity.h"

namespace gradstream {

// Seconds of the monotonic clock.
double load_now_s();

// What all peers of one load saw since it began.
struct LoadStatistics {
  std::vector<double> handshake_s;
  std::vector<double> latency_s;
  uint64_t exchanges = 0;
  uint64_t waits = 0;    // answered without a task, or told to send an update again later
  uint64_t refused = 0;  // updates that are in no version, and never will be
  uint64_t lost = 0;     // sessions
  uint64_t dials = 0;
  uint64_t unreached = 0;  // dials that ended before their handshake did
  uint64_t timeouts = 0;   // handshakes and answers that did not come within the device's deadlines
  std::string last_fault;
};

// Of a device: windows and back-off are drawn from it. One for the whole process.
using LoadRandom = std::mt19937;

enum class LoadPeerState : uint8_t { kNew, kConnecting, kGreeting, kIdle, kBusy, kGone };

// One device's connection. The derived classes say what goes through it.
class LoadPeer {
 public:
  // is_storm: leaves as soon as it is welcome. The identity, the statistics and the random numbers must outlive it.
  LoadPeer(const Identity& identity, TlsKeyExchange exchange, bool is_storm, LoadStatistics& statistics,
           LoadRandom& random)
      : statistics_(statistics), random_(random), identity_(identity), exchange_(exchange), is_storm_(is_storm) {}
  // In place of the identity's key; must outlive the peer.
  void use(const Credentials* credentials) { credentials_ = credentials; }
  virtual ~LoadPeer() { leave(); }
  LoadPeer(const LoadPeer&) = delete;
  LoadPeer& operator=(const LoadPeer&) = delete;

  // Begins a new session. poll: an epoll descriptor; its events carry this peer, which then wants on_event().
  void connect(const sockaddr_in& address, int poll);
  void on_event();
  // The peer must be idle.
  void begin_exchange();
  LoadPeerState state() const { return state_; }
  double begin_s() const { return begin_s_; }  // of the handshake, the greeting or the exchange, by load_now_s()
  uint64_t exchange_count() const { return exchange_count_; }
  uint32_t session_count() const { return session_count_; }  // greeted
  // When its window or its back-off is over.
  double due_s() const { return due_s_; }
  // Whether something was sent that the server has not answered for good: it is sent again, by another session too.
  virtual bool is_pending() const { return false; }

  // Ends what its device would have given up by now.
  void give_up_late(double now);
  void leave();

 protected:
  // What a protocol does: after the handshake, before a new session, when an exchange begins, and with what arrives.
  virtual void greet() = 0;
  virtual void forget_session() {}
  virtual void ask() = 0;
  virtual void on_bytes(std::span<const uint8_t> bytes) = 0;

  void send_bytes(std::span<const uint8_t> bytes);
  // Ends the session; the next one is due after a back-off.
  void fail(const char* reason);
  // The same at the server's word: the next one is due within the window, or after a back-off where there is none.
  void leave_for(const gs_RetryWindow& window, const char* reason);
  // A session or a dial has ended, and the next one is due after so long.
  virtual void on_lost(double /*wait_s*/) {}
  // The peer is welcome, and idle.
  void greeted();
  // What the server said last of when to come again.
  void take_window(const gs_RetryWindow& window);
  // In a storm: leaves, and returns true.
  bool leave_early();
  // The latency of an exchange is from here to its end.
  void start_clock();
  void end_exchange(bool is_answered);

  LoadStatistics& statistics_;

 private:
  double draw(double least, double most);
  static Result<size_t> outcome(ssize_t count);
  static Result<size_t> read(void* context, uint8_t* out, size_t size);
  static Result<size_t> write(void* context, const uint8_t* bytes, size_t size);
  static const TransportOps kOps;

  LoadRandom& random_;
  const Identity& identity_;
  TlsKeyExchange exchange_;
  const Credentials* credentials_ = nullptr;
  bool is_storm_;
  TlsSession session_;
  LoadPeerState state_ = LoadPeerState::kNew;
  int socket_ = -1;
  int poll_ = -1;
  double begin_s_ = 0;
  double sent_s_ = 0;
  double due_s_ = 0;
  double window_max_s_ = 0;
  uint32_t failures_ = 0;
  uint32_t session_count_ = 0;
  uint64_t exchange_count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LOAD_PEER_H_
