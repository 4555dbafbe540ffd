// The shell around the coordinator: executes its actions with sockets, a disk thread, a clock and signals.
//
//   sessions --messages--> Coordinator --actions--> sessions, store thread, Publisher, log
//                              ^------ on_persisted, on_tick, on_session_closed ------'
//   handshakes --> Keyring --> database --> FleetFollower --> Coordinator --> WatchFeed --> HTTP readers
//
// Four parts beside it know nothing of the server: the keys of handshakes (keyring.h), what commands change in the
// database (fleet_follower.h), the files of versions (publisher.h), the snapshot for HTTP readers (watch_feed.h).
//
// One io_context thread runs everything but the disk. Where io_threads is above 1, the sessions have threads of their
// own (server/link/io_thread.h). Between TLS and decoded messages the threads share nothing but the database, and each
// thread looks keys up by a connection of its own. Lifetime: construct, start(), io.run(), then finish().
#ifndef GRADSTREAM_SERVER_PROGRAM_SERVER_H_
#define GRADSTREAM_SERVER_PROGRAM_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/asio_alias.h"
#include "server/base/objection.h"
#include "server/base/ports.h"
#include "server/coordinator/coordinator.h"
#include "server/link/listener.h"
#include "server/program/config.h"
#include "server/program/fleet_alarm.h"
#include "server/program/fleet_follower.h"
#include "server/program/head_log.h"
#include "server/program/history_keeper.h"
#include "server/program/key_changer.h"
#include "server/program/keyring.h"
#include "server/program/publisher.h"
#include "server/program/served_shell.h"
#include "server/program/watch_feed.h"
#include "server/store/sqlite_database.h"
#include "server/store/store_thread.h"
#include "server/watch/watch.h"

namespace gradstream {

class Server : public SessionOwner, public ServedShell {
 public:
  // fleet: for the io_context thread. journal: the run's, for the store thread; mark_run_state is called there too.
  struct Parts {
    SqliteDatabase& fleet;
    Store& journal;
    std::function<void(StoredRunState)> mark_run_state;
    // The head at the last record that is stored, for the store thread; needed with server.head_key alone.
    std::function<Expected<std::optional<JournalHead>>(uint64_t time_ms)> read_head = {};
  };
  // coordinator: has replayed the journal; devices: the fleet it was made with. board: where snapshots go, null: none.
  Server(asio::io_context& io, const Config& config, const RunRow& run, Parts parts,
         std::unique_ptr<Coordinator> coordinator, std::vector<EnrolledDevice> devices, WatchBoard* board = nullptr);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens and opens the run. An objection has the remedy.
  Objection start();
  uint16_t port() const { return listener_.port(); }
  // SIGTERM, SIGINT: Drain to every session; io.run() returns when they have left or drain_deadline_ms is over.
  void drain() override;
  // SIGHUP: looks at the devices now. Sessions are not touched.
  void reload() override;
  // SIGHUP too: handshakes from now on see the files' certificates. After an objection nothing has changed.
  Objection reload_credentials() override;
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
  void on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) override;
  void on_session_key_change(SessionId session, uint32_t device, const KeyChange& change) override;
  void on_place_wanted() override;
  void on_session_ended(SessionId session) override;

  void ask_for_key(SessionId session, uint32_t device, const gs_Hello& hello);
  Objection start_tls();
  Objection start_heads();
  const CredentialBoard* credential_board() const;
  StoreThread::Reports make_reports();
  void on_store_failed(StoreStatus status);
  void execute();
  void execute(Action& action);
  void compare_mark(uint32_t device, const JournalMark& mark);
  void note_round();
  void mark_run_state();
  void on_told();
  void read_past_runs();
  void arm_tick();
  void make_room_for(uint32_t run);
  void log_counters();
  void watch();
  bool has_stalled_thread();
  WatchedPlace place() const;
  uint32_t active_count() const;  // devices that may take part
  uint64_t clock_ms() const { return epoch_offset_ms_ + steady_ms(); }
  // The same for the coordinator, at least every FleetFollower::kPeriodMs. A longer gap tells of a process that stood
  // still: stopped, swapped out, or its machine paused. Then deadlines move by the gap, as they do when a machine
  // sleeps.
  uint64_t now_ms();

  asio::io_context& io_;
  const uint64_t epoch_offset_ms_;  // from the steady clock to the epoch, taken once: clock_ms() never jumps
  uint64_t looked_ms_;              // by now_ms(), the last time
  const Config config_;
  const RunRow run_;
  Parts parts_;
  std::unique_ptr<Coordinator> coordinator_;
  FleetAlarm fleet_alarm_;
  Keyring keyring_;
  KeyChanger key_changer_;
  FleetFollower follower_;
  const Publisher publisher_;
  std::optional<WatchFeed> watch_feed_;  // where there is a board
  ShellCounters counters_;
  CredentialBoard credentials_;
  TlsContext tls_;
  Listener listener_;
  std::optional<StoreThread> store_;
  std::optional<HistoryKeeper> keeper_;  // as long as there is a store
  std::optional<HeadLog> heads_;         // with server.head_key
  SteadyTimer tick_;
  uint64_t tick_ms_ = UINT64_MAX;
  SteadyTimer drain_timer_;
  SteadyTimer watch_timer_;
  uint64_t stall_logged_ms_ = 0;
  uint32_t next_run_ = 0;             // that this server makes room for; 0: none
  std::vector<Action> used_actions_;  // empty; an action is a kilobyte, and so is what a vector moves to grow
  bool executing_ = false;
  bool draining_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_SERVER_H_
