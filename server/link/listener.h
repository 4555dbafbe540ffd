// The listening socket and its sessions, under two caps.
//
// The sessions live on the thread of the listener's io_context ("home"). After start_threads() they live on further
// threads (server/link/io_thread.h): home accepts each connection, and hands its socket to the thread with the fewest
// sessions. There is one acceptor, not one for each thread by SO_REUSEPORT, for three reasons. An accept costs a
// fiftieth of a handshake. The kernel would share out connections by their addresses and not by load. And so the caps
// and the end of a drain stay numbers of one thread. Threads or not, home calls all functions, and calls the owner.
//
// A connection begins in the lobby (server/link/lobby.h). It gets a session when its ClientHello is there and two
// places are free: one of connection_count_max, one of handshake_count_max. Devices come before claims, and these
// before who named nobody; of one kind the first that came is the first that gets in.
//
// Over connection_count_max a session that is closing makes room: nobody holds a place by not reading its last words.
// Then a handshake of lesser standing does, for a device a claim that says nothing, and then the device that has waited
// the longest, after an Ack or a Wait. It gets a Drain with the window of that. Where nobody waits so, the device whose
// Pull has been held the longest gets a Wait, and then the Drain. So a fleet of more devices than places shares them,
// and a device that trains or uploads keeps its own. Over handshake_count_max a half-open session makes
// room for a guest of its own standing or a better one. It is the oldest of the address that has most: a device
// finishes its handshake in milliseconds to seconds, so the oldest is the one that stalls. Thus peers that name nobody
// keep no device out. Who is closed for want of a place is counted and logged, at most one line a second each. At
// descriptor_count_max accepting pauses, and who comes waits in the system's own queue. After the pause all of them are
// taken at once. A device has sent its ClientHello while it waited there, and of those that say nothing only the last
// ones stay. So a flood of silent peers does not set the pace at which devices come in. When the process has no file
// descriptor left, accepting pauses too and resumes by itself.
//
// Failed handshakes have no limit, because they cost little (identity and key are judged before any curve arithmetic)
// and a whole fleet may stand behind one address. Lines of the log about them are limited (kFaultLines).
//
// A session that has lived long enough gets a Drain with a short window, after the Ack where it sends an update
// (session_ages.h). Its device comes again by a new handshake, if it may.
//
// A device has at most one established session that has not said Hello: its newest. The coordinator replaces those that
// have said it. Sessions of claims that say nothing have a limit too (silent_claims.h). What a handshake costs this end
// has one as well: kSignatureLimit, kDeviceHandshakeLimit.
#ifndef GRADSTREAM_SERVER_LINK_LISTENER_H_
#define GRADSTREAM_SERVER_LINK_LISTENER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/base/objection.h"
#include "server/link/io_thread.h"
#include "server/link/lobby.h"
#include "server/link/session_ages.h"
#include "server/link/session_pool.h"
#include "server/link/silent_claims.h"

namespace gradstream {

// Handshakes of peers without a pre-shared key, where certificates are taken: this end signs before it knows anything
// of them. Reason: a signature and its key agreement take about a millisecond, so strangers get a fifth of a core.
inline constexpr RateLimit kSignatureLimit = {200, 400};
// Completed handshakes of one device. Reason: its windows are 200 ms and more, so it needs five a second; ten take a
// hundredth of a core.
inline constexpr RateLimit kDeviceHandshakeLimit = {10, 50};

// Connections that are taken from the system's queue in one turn of the loop. Reason: some milliseconds.
inline constexpr size_t kAcceptTurnMax = 256;

struct ListenerLimits {
  SessionLimits session;
  uint32_t connection_count_max = 1024;
  uint32_t handshake_count_max = 64;
  // Of sessions and connections that wait for one, at least 2. Set by the program and not by the configuration.
  uint32_t descriptor_count_max = UINT32_MAX;
  RateLimit signatures = kSignatureLimit;
  RateLimit device_handshakes = kDeviceHandshakeLimit;
  uint32_t session_age_max_ms = kSessionAgeMaxMs;
  // Kernel memory of one connection's outgoing bytes. Reason: a peer that does not read is noticed, and costs little.
  uint32_t send_buffer_size = 65536;
  AddressRanges balancers;  // whose PROXY header is believed, and due (server/link/lobby.h)
};

// Sessions at once under both limits: some descriptors are left to connections that wait, or nobody could take turns.
size_t session_count_max(const ListenerLimits& limits);

class Listener : public SessionOwner {
 public:
  // Reports go to `owner`, for established sessions only. lookup: tells who is enrolled, on home's thread, once for
  // each connection that names somebody; a handshake that begins at once uses what it said. null: nobody is preferred.
  // Everything must outlive the listener.
  Listener(asio::io_context& io, TlsContext& context, const ListenerLimits& limits, ShellCounters& counters,
           SessionOwner& owner, PskLookup lookup = nullptr);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Before open(), at most once: a thread for each of these, which calls it. Codes of TlsContext::start().
  Status start_threads(std::vector<PskLookup> lookups, const TlsPolicy& policy, const CredentialBoard* board = nullptr);
  // An objection names the address, the cause and the remedy.
  Objection open(const Tcp::endpoint& endpoint);
  uint16_t port() const;

  // To one session; nothing happens once it has ended. What is sent leaves with flush(); has_more: see OutFrame.
  void send(SessionId session, const ServerMessage& message, bool has_more = false);
  void close(SessionId session, gs_Reason reason);
  void answer_claim(SessionId session, const ClaimVerdict& verdict);
  // Leaves with flush(); where no more may wait for that peer, it does not: the device asks again.
  void send_key_change(SessionId session, const KeyChange& change);
  void admit(SessionId session, TlsFault refusal, uint32_t device);
  // Ends what began by a key that counts no more: the device's established sessions get a Drain as those that are old.
  void renew(uint32_t device);
  void flush();
  // A device may give its place, which the listener does not see by what is sent: its Pull is held.
  void offer_places();
  void close_accepting();
  // Drain to every session, then a close of each; a session with an update that has no Ack yet gets that first.
  void drain(const gs_RetryWindow& retry);
  // Ends all sessions without a word, and the threads. The last reports of the threads' sessions are still to come.
  void abort_all();

  // Sessions whose end has not been reported; of these, those that have not been reported as established.
  size_t connection_count() const { return sessions_.size(); }
  size_t handshake_count() const { return half_open_.size(); }
  // Connections that have no session yet.
  size_t lobby_count() const { return lobby_.count(); }
  // Of these, the ones whose ClientHello is there.
  size_t waiting_count() const { return lobby_.waiting_count(); }
  // Added to *total: what the threads have counted.
  void add_thread_counters(ShellCounters* total) const;
  // Each thread shows from time to time that it runs. Returns the time of the thread that showed it the longest ago, by
  // steady_ms(), and asks all threads to show it again. Without threads now_ms.
  uint64_t beaten_ms(uint64_t now_ms);
  // The session, or null once it has ended. Without threads only.
  Session* find(SessionId session) const { return pool_.find(session); }

 private:
  struct HalfOpen {
    AddressKey address = 0;
    Standing standing = Standing::kNobody;
  };
  using Resting = std::map<uint64_t, SessionId>;
  struct Entry {
    std::shared_ptr<QueueGauge> gauge;
    uint32_t device = kNoDevice;  // once established, and no claim
    uint32_t claim = 0;           // once established, and no device
    uint16_t thread = 0;          // index
    bool half_open = true;
    bool is_closing = false;            // by this end: what its thread has read meanwhile counts no more
    bool is_leaving = false;            // ordered out at a cap; the report of its end is still to come
    bool was_late = false;              // and keeps its place for that
    bool is_stay_told = false;          // in the log
    uint64_t renewal_ms = 0;            // when it is to begin anew, once established
    uint64_t rest = 0;                  // its key in resting_; 0: it does not wait
    Resting::node_type rest_node = {};  // while it does not: the one that it had there
    gs_RetryWindow retry = {};          // of its wait
  };
  // A limit that keeps somebody out.
  struct Cap {
    const char* limit = nullptr;  // a key, or what else bounds it
    uint64_t most = 0;
    const char* remedy = nullptr;
  };
  // In accepting, until a connection ends or kAcceptRetry is over.
  struct Pause {
    SteadyTimer retry;
    bool is_on = false;
  };
  // Of certificates, which cost the processor the most.
  struct Signatures {
    RateMeter meter;           // of kSignatureLimit
    SteadyTimer retry;         // tends when there is one again
    SessionId held_guest = 0;  // the last one that had to wait for a signature
  };
  // Of established sessions that have not been asked yet to begin anew.
  struct Ages {
    SessionAges due;
    SteadyTimer timer;
    uint64_t timer_ms = 0;  // when it fires; 0: not armed
  };
  // When the log last had a line of each kind, by steady_ms().
  struct LoggedMs {
    uint64_t connection_cap = 0;
    uint64_t handshake_cap = 0;
    uint64_t accept_failure = 0;
    uint64_t handshake_rate = 0;
    uint64_t signature_rate = 0;
  };
  struct Thread {
    std::unique_ptr<IoThread> io;
    size_t session_count = 0;
  };

  void on_session_established(SessionId session, uint32_t device, uint32_t claim) override;
  void on_session_unregistered(SessionId session, const std::string& name) override;
  void on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) override;
  void on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) override;
  void on_session_key_change(SessionId session, uint32_t device, const KeyChange& change) override;
  void on_session_stays(SessionId session, bool is_uploading) override;
  void on_session_closing(SessionId session) override;
  void on_session_ended(SessionId session) override;
  void on_reports(std::vector<SessionReport>& reports);
  void accept();
  void pause_accept();
  bool is_out_of_descriptors() const;
  bool may_accept() const;
  void accept_waiting();
  void on_accepted(const ErrorCode& error, Tcp::socket socket);
  void fail_accept(const ErrorCode& error);
  void enter(Tcp::socket socket);
  size_t lobby_count_max() const;
  void on_turned_away(const Guest& guest, Lobby::Turned why);
  Cap connection_cap() const;
  Cap handshake_cap() const;
  Cap silence_cap() const;
  void note_waited(const Guest& guest);
  void note_balancer(const Guest& guest, Lobby::Turned why);
  void note_connection_over_cap(const Cap& cap);
  void note_handshake_over_cap(const Cap& cap);
  Standing standing_of(std::string_view identity, std::unique_ptr<KnownPsk>* known) const;
  void tend_soon();
  void tend_now();
  void tend();
  void begin_session(Guest guest);
  void order(const Entry& entry, SessionOrder order);
  bool make_room_for_connection(const Guest& guest);
  bool has_resting();
  bool make_room_for_handshake(const Guest& guest);
  bool may_displace(const Guest& guest) const;
  bool may_sign_for(const Guest& guest);
  bool may_shake_hands(SessionId session, uint32_t device);
  SessionId find_half_open(Standing standing, bool is_less) const;
  void evict(SessionId session);
  void yield(SessionId session);
  void forget_replaced_claim(SessionId session);
  void stay(Entry& entry);
  void note_rest(SessionId session, Entry& entry, const ServerMessage& message);
  void end_rest(Entry& entry);
  void renew_session(SessionId session);
  void renew_old();
  void arm_renewal();
  void log_cap(const EventRow& event, uint64_t count, uint64_t* last_ms, const Cap& cap);
  void replace_silent(SessionId session, uint32_t device);
  void replace(SessionId session);

  asio::io_context& io_;
  const ListenerLimits limits_;
  ShellCounters& counters_;
  SessionOwner& owner_;
  const PskLookup lookup_;
  FaultLines fault_lines_;
  SessionPool pool_;  // without threads
  std::vector<Thread> threads_;
  Tcp::acceptor acceptor_;
  Pause pause_;
  Tcp::endpoint accepted_peer_;  // of the connection accepted last
  Lobby lobby_;
  bool is_tending_ = false;  // soon
  const bool takes_certificates_;
  Signatures signatures_;
  std::vector<RateMeter> device_handshakes_;  // by device, of kDeviceHandshakeLimit
  std::map<SessionId, Entry> sessions_;
  std::map<SessionId, HalfOpen> half_open_;  // of these, in order of age
  std::set<SessionId> closing_;              // in order of age
  size_t leaving_count_ = 0;
  Ages ages_;
  Resting resting_;  // devices that wait and owe nothing, the longest-resting one first
  uint64_t next_rest_ = 1;
  std::map<uint32_t, SessionId> silent_;  // by device: established, no Hello yet
  SilentClaims silent_claims_;
  SessionId replaced_claim_ = 0;  // for a device, and it has not said yet that it closes; one at a time
  SessionId next_id_ = 1;
  bool is_in_reports_ = false;  // flush() waits for their end
  LoggedMs logged_ms_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_LISTENER_H_
