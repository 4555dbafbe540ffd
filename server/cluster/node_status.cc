#include "server/cluster/node_status.h"

#include <algorithm>

#include "server/watch/json_object.h"
#include "server/watch/status_json.h"

namespace gradstream {
namespace {

bool has_reading(const ClusterReading* cluster) { return cluster != nullptr && cluster->read_ms != 0; }

uint64_t age_of(const ClusterReading& cluster, uint64_t now_steady_ms) {
  return now_steady_ms - std::min(cluster.read_ms, now_steady_ms);
}

// A run that is over has nobody to lead it.
bool is_over(const NodeSnapshot& snapshot) {
  const gs_RunState state = snapshot.run_view == nullptr ? gs_RunState_RUN_STATE_NONE : snapshot.run_view->run_state;
  return state == gs_RunState_RUN_STATE_FINISHED || state == gs_RunState_RUN_STATE_STOPPED;
}

std::string node_json(const NodeSnapshot& snapshot) {
  return JsonObject()
      .add("name", snapshot.node)
      .add("release", snapshot.release)
      .add("version", snapshot.version)
      .add("leads", snapshot.is_leading)
      .add("trouble", snapshot.is_in_trouble)
      .add("not_ready", snapshot.not_ready)
      .add("engine_connected", snapshot.is_connected)
      .add("engine_trouble", snapshot.engine_trouble)
      .text();
}

// Times are of now: age_ms have gone since the engine was read. Reason: a lease that nobody renews runs out while the
// engine is away.
std::string one_of_cluster(const EngineRunReport& run, const EngineNodeReport& node, uint64_t age_ms) {
  return JsonObject()
      .add("name", node.node)
      .add("release", node.release)
      .raw("seen_ms", node.seen_ms == UINT64_MAX ? "null" : std::to_string(node.seen_ms + age_ms))
      .add("epoch", node.epoch)
      .add("batch", node.batch)
      .add("open_version", node.open_version)
      .add("leads", run.leader == node.node && run.lease_ms > age_ms)
      .text();
}

// trouble stands beside what was read before it.
std::string cluster_json(const ClusterReading* cluster, uint64_t now_steady_ms) {
  if (!has_reading(cluster)) {
    return "null";
  }
  const EngineRunReport& run = cluster->run;
  const uint64_t age_ms = age_of(*cluster, now_steady_ms);
  const auto one = [&](const EngineNodeReport& node) { return one_of_cluster(run, node, age_ms); };
  return JsonObject()
      .add("age_ms", age_ms)
      .add("took_ms", cluster->took_ms)
      .add("trouble", cluster->trouble)
      .add("leader", run.leader)
      .add("term", run.term)
      .add("lease_ms", run.lease_ms - std::min(run.lease_ms, age_ms))
      .add("open_version", run.open_version)
      .add("sealed", run.is_sealed)
      .raw("nodes", json_list(run.nodes, one))
      .text();
}

std::string counters_json(const NodeSnapshot& snapshot) {
  JsonObject counters;
  visit_node_counters(snapshot, [&](const char* key, const char*, uint64_t value) { counters.add(key, value); });
  return counters.text();
}

}  // namespace

std::vector<Attention> node_attention(const NodeSnapshot& snapshot, const ClusterReading* cluster,
                                      uint64_t now_steady_ms) {
  std::vector<Attention> all;
  if (snapshot.is_in_trouble) {
    all.push_back({"node_trouble", AttentionLevel::kStops, "This node serves the run no more.",
                   "What it has seen: " + snapshot.not_ready, "gradstream engine status"});
  }
  if (!snapshot.is_connected) {
    all.push_back({"engine_away", AttentionLevel::kStops,
                   "This node has no connection to the engine" +
                       (snapshot.engine_trouble.empty() ? "." : ": " + snapshot.engine_trouble),
                   "Look at the engine's server, and at the network to it. The node connects again by itself.",
                   "gradstream engine doctor"});
  }
  const bool is_told = has_reading(cluster) && cluster->trouble.empty() && snapshot.is_connected &&
                       age_of(*cluster, now_steady_ms) <= kLookStaleMs;
  if (is_told && cluster->run.lease_ms == 0 && !is_over(snapshot)) {  // as read: a leader renews it meanwhile
    all.push_back({"nobody_leads", AttentionLevel::kStops, "No node leads the run, so nobody publishes a version.",
                   "A node takes the lease within seconds. Where none does, look at the log of each node.",
                   "gradstream engine status"});
  }
  return all;
}

std::string node_status_json(const NodeSnapshot& snapshot, const ClusterReading* cluster, const HttpCounters& http,
                             uint32_t after, uint64_t now_steady_ms) {
  WatchSnapshot run = *snapshot.run_view;
  StatusWords words;
  words.counts_round = has_reading(cluster) && cluster->run.open_version == run.version;
  if (words.counts_round) {  // else the reading counts another version
    run.round.answers = static_cast<uint32_t>(cluster->run.on_time_count);
    run.round.late = static_cast<uint32_t>(cluster->run.late_count);
  }
  words.is_ready = snapshot.not_ready.empty();
  words.attention = attention_json(node_attention(snapshot, cluster, now_steady_ms));
  words.counters = counters_json(snapshot);
  words.more = {{"node", node_json(snapshot)}, {"cluster", cluster_json(cluster, now_steady_ms)}};
  return status_json(run, http, words, after);
}

}  // namespace gradstream
