// The shell around the coordinator: executes its actions with sockets, a disk thread, a clock and signals.
//
//   sessions --messages--> Coordinator --actions--> sessions, store thread, export folder, log
//                              ^------ on_persisted, on_tick, on_session_closed ------'
//
// One io_context thread runs everything but the disk and, where io_threads is above 1, the sessions, which have threads
// of their own then (server/link/io_thread.h): between TLS and decoded messages nothing is shared but the database, of
// which each thread has a connection to look keys up in. Lifetime: construct, start(), io.run(), then finish().
#ifndef GRADSTREAM_SERVER_PROGRAM_SERVER_H_
#define GRADSTREAM_SERVER_PROGRAM_SERVER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/asio_alias.h"
#include "server/coordinator/coordinator.h"
#include "server/link/listener.h"
#include "server/program/config.h"
#include "server/store/store_sqlite.h"
#include "server/store/store_thread.h"
#include "server/watch/watch.h"

namespace gradstream {

class Server : public SessionOwner {
 public:
  // fleet: for the io_context thread. journal: the run's, for the store thread; mark_run_state is called there too.
  struct Parts {
    SqliteDatabase& fleet;
    Store& journal;
    std::function<void(StoredRunState)> mark_run_state;
  };
  // coordinator: has replayed the journal; devices: the fleet it was made with. board: where snapshots go, null: none.
  Server(asio::io_context& io, const Config& config, const RunRow& run, Parts parts,
         std::unique_ptr<Coordinator> coordinator, std::vector<EnrolledDevice> devices, WatchBoard* board = nullptr);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens and opens the run. Empty, or a sentence with the remedy.
  std::string start();
  uint16_t port() const { return listener_.port(); }
  // SIGTERM, SIGINT: Drain to every session; io.run() returns when they have left or drain_deadline_ms is over.
  void drain();
  // SIGHUP: looks at the devices now. Sessions are not touched.
  void reload();
  // SIGHUP too: handshakes from now on see the files' certificates. A sentence: then nothing has changed.
  std::string reload_credentials();
  // After io.run(): another run is active while the one of this server is paused or over, so it has drained for that.
  bool is_left_for_next_run() const { return next_run_ != 0; }
  // After io.run(): stores what is left. False when records could not be stored (their devices were told nothing).
  bool finish();

  // Of all threads.
  ShellCounters counters() const;
  const Coordinator& coordinator() const { return *coordinator_; }

 private:
  void on_session_established(SessionId session, uint32_t device, uint32_t claim) override;
  void on_session_unregistered(SessionId session, const std::string& name) override;
  void on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) override;
  void on_session_claim(SessionId session, uint32_t claim, const Identity& identity) override;
  void on_session_ended(SessionId session) override;

  std::string start_tls();
  const CredentialBoard* credential_board() const;
  TlsFault register_device(const std::string& name, uint32_t* device);
  PskLookup lookup_in(SqliteDatabase& fleet);
  bool find_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out);
  bool find_claim_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out);
  StoreThread::Reports make_reports();
  void on_store_failed(StoreStatus status);
  void execute();
  void execute(Action& action);
  void publish(uint32_t version);
  void export_model(uint32_t version, uint64_t digest, const std::string& path, std::vector<uint8_t> npy,
                    const std::string& average);
  void mark_run_state();
  bool is_over() const;
  void follow_wish(StoredRunState wish);
  void arm_tick();
  void poll_fleet();
  // Tells the coordinator of a device that is not active.
  void exclude(const EnrolledDevice& device);
  bool refresh_fleet();
  bool refresh_runs();
  bool fleet_unreadable(const SqliteDatabase& fleet);
  void log_counters();
  void watch();
  bool has_stalled_thread();
  void publish_snapshot();
  uint64_t silent_after_ms() const;
  void note_round();
  uint64_t now_ms() const;

  asio::io_context& io_;
  const Config config_;
  const RunRow run_;
  Parts parts_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<EnrolledDevice> devices_;
  ShellCounters counters_;
  std::vector<std::unique_ptr<SqliteDatabase>> thread_fleets_;  // one for each thread with sessions
  CredentialBoard credentials_;
  TlsContext tls_;
  Listener listener_;
  std::optional<StoreThread> store_;
  SteadyTimer tick_;
  uint64_t tick_ms_ = UINT64_MAX;
  SteadyTimer fleet_poll_;
  SteadyTimer drain_timer_;
  SteadyTimer watch_timer_;
  WatchBoard* board_;
  std::shared_ptr<const std::vector<DeviceStatus>> watched_devices_;
  uint64_t watched_devices_ms_ = 0;   // when they were copied
  uint64_t watch_devices_at_ms_ = 0;  // when they are again, by the steady clock
  const std::shared_ptr<const RunParameters> watched_parameters_;
  std::deque<WatchedRound> rounds_;       // the last kRoundHistoryMax
  uint64_t epoch_offset_ms_ = 0;          // from the steady clock to the epoch, taken once: now_ms() never jumps
  std::optional<uint64_t> change_count_;  // of the database, as far as it has been read
  std::atomic<bool> is_fleet_unreadable_ = false;  // and the log says so; of all threads
  uint64_t stall_logged_ms_ = 0;
  RateMeter claim_lines_;  // of kFaultLines
  RateMeter registrations_;
  uint32_t next_run_ = 0;                       // that this server makes room for; 0: none
  std::optional<StoredRunState> marked_state_;  // none: what the database says may be a wish from before this server
  std::vector<Action> used_actions_;            // empty; an action is a kilobyte, and so is what a vector moves to grow
  bool executing_ = false;
  bool draining_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_SERVER_H_
