// The shell around a node's front and leader: executes what the front wants with sessions, and brings the engine's
// replies to both.
//
//   sessions --messages--> Front --actions--> sessions, log
//   handshakes --> NodeFleet  |  ^
//                      calls  v  | replies        one tick for Front and Leader
//                      PostgresEngine <--> Leader
//
// One io_context thread runs everything. Where io_threads is above 1, the sessions have threads of their own, as those
// of a server (server/program/server.h). Lifetime: construct, start(), io.run(), then finish().
//
// A node in trouble (server/engine/node_trouble.h) ends its sessions and takes no more. It stays until a signal ends
// it. Reason: a process that is started again knows nothing of what it has seen, and would serve.
#ifndef GRADSTREAM_SERVER_CLUSTER_NODE_SERVER_H_
#define GRADSTREAM_SERVER_CLUSTER_NODE_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/base/asio_alias.h"
#include "server/base/objection.h"
#include "server/cluster/followed_fleet.h"
#include "server/cluster/node_feed.h"
#include "server/cluster/node_fleet.h"
#include "server/cluster/node_watch.h"
#include "server/engine/front.h"
#include "server/engine/leader.h"
#include "server/link/listener.h"
#include "server/postgresql/engine_postgres.h"
#include "server/program/config.h"
#include "server/program/served_shell.h"

namespace gradstream {

// The run that a node serves, as the engine has it.
struct NodeRun {
  RunIdentity identity;
  std::string name;
  std::string command_options;  // as of WatchSnapshot
};

class NodeServer : public SessionOwner, public ServedShell {
 public:
  // config.run: the run's parameters, which check_cluster_run() has taken. fleet: complete. board: where snapshots go.
  // fleet, board and io outlive the node.
  NodeServer(asio::io_context& io, const Config& config, const NodeRun& run, const PostgresOptions& engine,
             NodeFleet& fleet, NodeBoard& board);
  ~NodeServer() override;
  NodeServer(const NodeServer&) = delete;
  NodeServer& operator=(const NodeServer&) = delete;

  // Listens, and joins the run as soon as the engine is there. An objection has the remedy.
  Objection start();
  uint16_t port() const { return listener_.port(); }
  // SIGTERM, SIGINT: Drain to every session; io.run() returns when they have left or drain_deadline_ms is over.
  void drain() override;
  // SIGHUP: the fleet is followed in any case.
  void reload() override {}
  Objection reload_credentials() override;
  // After io.run(): false where the node is in trouble.
  bool finish();

 private:
  void on_session_established(SessionId session, uint32_t device, uint32_t claim) override;
  void on_session_unregistered(SessionId session, const std::string& name) override;
  void on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) override;
  void on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) override;
  void on_session_ended(SessionId session) override;

  Objection start_tls();
  const CredentialBoard* credential_board() const;
  void go_on();
  void execute(const FrontAction& action);
  void take_replies();
  void end_sessions(const KeyEnd& end);
  void follow_fleet();
  void note_versions(const std::vector<PublishedVersion>& versions);
  void note_engine();
  void note_changes();
  void note_run();
  void arm_tick();
  void end_if_drained();
  void show();
  void watch();
  bool has_stalled_thread();
  std::string why_not_ready() const;
  NodeTrouble trouble() const;
  NodeSnapshot snapshot() const;

  // What was told of last.
  struct Told {
    uint32_t version = 0;
    bool is_caught_up = false;  // the versions before this node's start have been read
    bool is_away = false;       // the engine
    bool is_leading = false;
    bool is_done = false;
    EngineRunState run_state = EngineRunState::kActive;
    uint64_t connections = 0;  // to the engine, that were made
    uint64_t fences = 0;       // of the front's counters
    uint64_t fenced_ms = 0;    // when the last line of them was
    NodeTrouble trouble = NodeTrouble::kNone;
    uint64_t fleet_changes = 0;  // the fleet's state_change_count()
    std::vector<gs_Reason> standings;
  };

  asio::io_context& io_;
  const Config config_;
  const NodeRun run_;
  const std::string node_;
  NodeFeed feed_;
  NodeFleet& fleet_;
  NodeBoard& board_;
  const uint64_t started_ms_;  // since the epoch
  PostgresEngine engine_;
  Front front_;
  Leader leader_;
  FollowedFleet followed_fleet_;
  ShellCounters counters_;
  CredentialBoard credentials_;
  TlsContext tls_;
  Listener listener_;
  SteadyTimer tick_;
  uint64_t tick_ms_ = UINT64_MAX;
  SteadyTimer drain_timer_;
  SteadyTimer watch_timer_;
  uint64_t stall_logged_ms_ = 0;
  Told told_;
  std::map<SessionId, uint32_t> device_of_;  // of established sessions
  bool is_going_on_ = false;
  bool is_draining_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_NODE_SERVER_H_
