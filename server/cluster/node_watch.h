// What a node's HTTP port says: /healthz, /readyz, /metrics and /status.
//
//   node's thread: NodeSnapshot --publish()--> NodeBoard --read()--> HTTP thread <--read()-- ClusterReader
#ifndef GRADSTREAM_SERVER_CLUSTER_NODE_WATCH_H_
#define GRADSTREAM_SERVER_CLUSTER_NODE_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/cluster/cluster_reader.h"
#include "server/engine/front.h"
#include "server/engine/leader.h"
#include "server/link/shell_counters.h"
#include "server/watch/http.h"
#include "server/watch/watch.h"

namespace gradstream {

struct NodeSnapshot {
  std::string node;     // its name in the cluster
  std::string release;  // of its program
  // The run as this node has followed it (server/cluster/node_feed.h). Null: it has read none yet.
  std::shared_ptr<const WatchSnapshot> run_view;
  uint64_t taken_steady_ms = 0;
  uint32_t stale_ms = kWatchStaleMs;  // so long it says that the node lives
  uint64_t started_ms = 0;            // since the epoch
  std::string not_ready;              // why devices get no work here now; empty: they do
  uint32_t run = 0;
  gs_RunState run_state = gs_RunState_RUN_STATE_ACTIVE;  // as devices hear it from here
  uint32_t version = 0;
  uint64_t devices = 0;   // of the fleet
  uint64_t sessions = 0;  // connections that wait for one included
  uint64_t handshakes = 0;
  bool is_draining = false;
  bool is_leading = false;
  bool is_connected = false;   // to the engine
  std::string engine_trouble;  // why it is not, or was not before; empty: nothing was
  bool is_in_trouble = false;
  uint64_t connection_count = 0;  // to the engine, that were made
  ShellCounters shell;
  FrontCounters front;
  LeaderCounters leader;
};

class NodeBoard {
 public:
  void publish(std::shared_ptr<const NodeSnapshot> snapshot) {
    const std::lock_guard<std::mutex> lock(mutex_);
    snapshot_ = std::move(snapshot);
  }
  // Null before the first one.
  std::shared_ptr<const NodeSnapshot> read() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return snapshot_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const NodeSnapshot> snapshot_;
};

// visit(key, help, value): key as in the log line event=counters; the metric is gradstream_KEY_total.
template <typename Visit>
void visit_node_counters(const NodeSnapshot& s, Visit&& visit) {
  visit_shell_counters(s.shell, visit);
  visit("tasks_issued", "Tasks given.", s.front.tasks_issued);
  visit("updates_accepted", "Updates that are in a version, or in the open one.", s.front.updates_accepted);
  visit("updates_refused", "Updates refused.", s.front.updates_refused);
  visit("updates_duplicate", "Updates sent again.", s.front.updates_duplicate);
  visit("batches_committed", "Batches of verdicts that the engine has committed.", s.front.batches);
  visit("batches_cut", "Batches that came behind the end of their version.", s.front.cuts);
  visit("batches_in_conflict", "Batches with a device that another node had served.", s.front.conflicts);
  visit("batches_unknown", "Batches whose answer was lost, and that were asked for.", s.front.unknowns);
  visit("node_fences", "Times that another node has joined by the name of this one.", s.front.fences);
  visit("verdicts_anew", "Messages that were judged once more.", s.front.judged_anew);
  visit("leases_won", "Times that this node became the leader.", s.leader.terms);
  visit("versions_published", "Versions that this node has published.", s.leader.published);
  visit("publications_cut", "Versions of this node that another one had published, or none.", s.leader.cut);
  visit("publications_unknown", "Versions whose answer was lost.", s.leader.unknown);
  visit("engine_connections", "Connections to the engine that were made.", s.connection_count);
}

// Gives the last reading of the cluster, and wishes for the next one; null: there is none. Called where somebody asks
// for the status.
using ReadCluster = std::function<std::shared_ptr<const ClusterReading>(uint32_t run)>;

// snapshot may be null; now_steady_ms: of the same clock as taken_steady_ms. 404: no such path.
HttpResponse node_response(const HttpTarget& target, const NodeSnapshot* snapshot, const HttpCounters& http,
                           uint64_t now_steady_ms, const ReadCluster& read_cluster);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_NODE_WATCH_H_
