#include "server/cluster/node_watch.h"

#include <optional>

#include "server/cluster/node_status.h"
#include "server/watch/metrics.h"
#include "server/watch/status_json.h"

namespace gradstream {
namespace {

HttpResponse answer_of(uint32_t status, std::string body, const char* type = "text/plain; charset=utf-8") {
  HttpResponse response;
  response.status = status;
  response.type = type;
  response.body = std::move(body);
  return response;
}

std::string node_metrics(const NodeSnapshot& s, const HttpCounters& http) {
  Metrics metrics;
  add_process(&metrics, s.started_ms);
  metrics.gauge("gradstream_run_number", "The run that is served.", s.run);
  metrics.gauge("gradstream_model_version", "The newest version that this node has read.", s.version);
  metrics.gauge("gradstream_devices", "Enrolled devices, in any state.", static_cast<double>(s.devices));
  metrics.gauge("gradstream_sessions", "Connections of devices, with those in their handshake.",
                static_cast<double>(s.sessions));
  metrics.gauge("gradstream_handshakes", "Handshakes in progress.", static_cast<double>(s.handshakes));
  metrics.gauge("gradstream_draining", "1 after SIGTERM.", s.is_draining ? 1 : 0);
  metrics.gauge("gradstream_ready", "1 while devices get work here.", s.not_ready.empty() ? 1 : 0);
  metrics.gauge("gradstream_engine_connected", "1 while there is a connection to the engine.", s.is_connected ? 1 : 0);
  metrics.gauge("gradstream_node_leads", "1 while this node publishes the versions.", s.is_leading ? 1 : 0);
  metrics.gauge("gradstream_node_trouble", "1 where this node serves no more, until somebody has looked.",
                s.is_in_trouble ? 1 : 0);
  visit_node_counters(s, [&metrics](const std::string& key, const char* help, uint64_t value) {
    metrics.counter("gradstream_" + key + "_total", help, value);
  });
  add_http(&metrics, http);
  return metrics.take();
}

HttpResponse status_answer(const HttpTarget& target, const NodeSnapshot& snapshot, const HttpCounters& http,
                           uint64_t now_steady_ms, const ReadCluster& read_cluster) {
  const std::optional<uint32_t> after = version_after(target.query);
  if (!after) {
    return answer_of(400, "the only query is after=VERSION, a whole number\n");
  }
  if (snapshot.run_view == nullptr) {
    return answer_of(503, snapshot.not_ready + "\n");
  }
  const std::shared_ptr<const ClusterReading> cluster = read_cluster(snapshot.run);
  return answer_of(200, node_status_json(snapshot, cluster.get(), http, *after, now_steady_ms), "application/json");
}

}  // namespace

HttpResponse node_response(const HttpTarget& target, const NodeSnapshot* snapshot, const HttpCounters& http,
                           uint64_t now_steady_ms, const ReadCluster& read_cluster) {
  const bool is_stale = snapshot == nullptr || now_steady_ms > snapshot->taken_steady_ms + snapshot->stale_ms;
  if (target.path == "/healthz") {
    return is_stale ? answer_of(503, "the node has said nothing for a while: it hangs or is not up yet\n")
                    : answer_of(200, "ok\n");
  }
  if (target.path != "/readyz" && target.path != "/metrics" && target.path != "/status") {
    return {};
  }
  if (snapshot == nullptr) {
    return answer_of(503, "not up yet\n");
  }
  if (target.path == "/metrics") {
    return answer_of(200, node_metrics(*snapshot, http), "text/plain; version=0.0.4; charset=utf-8");
  }
  if (target.path == "/status") {
    return status_answer(target, *snapshot, http, now_steady_ms, read_cluster);
  }
  const std::string cause = is_stale ? "the node hangs" : snapshot->not_ready;
  return cause.empty() ? answer_of(200, "ready\n") : answer_of(503, cause + "\n");
}

}  // namespace gradstream
