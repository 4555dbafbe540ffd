#include "server/cluster/node_watch.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kNowMs = 50'000;

NodeSnapshot snapshot_of_now() {
  NodeSnapshot snapshot;
  snapshot.taken_steady_ms = kNowMs;
  snapshot.run = 3;
  snapshot.version = 41;
  snapshot.is_connected = snapshot.is_leading = true;
  snapshot.front.batches = 6;
  snapshot.front.fences = 3;
  snapshot.leader.published = 2;
  ++snapshot.shell.handshakes.sessions_established;
  return snapshot;
}

HttpResponse ask(const char* path, const NodeSnapshot* snapshot, uint64_t now_ms = kNowMs) {
  return node_response({path}, snapshot, HttpCounters(), now_ms,
                       [](uint32_t) { return std::shared_ptr<const ClusterReading>(); });
}

TEST(NodeWatch, ANodeThatSaysNothingIsNotAlive) {
  const NodeSnapshot snapshot = snapshot_of_now();
  EXPECT_EQ(ask("/healthz", nullptr).status, 503U);
  EXPECT_EQ(ask("/healthz", &snapshot, kNowMs + kWatchStaleMs).status, 200U);
  EXPECT_EQ(ask("/healthz", &snapshot, kNowMs + kWatchStaleMs + 1).status, 503U);
  EXPECT_EQ(ask("/readyz", &snapshot, kNowMs + kWatchStaleMs + 1).body, "the node hangs\n");
}

TEST(NodeWatch, ReadinessNamesWhatIsMissing) {
  NodeSnapshot snapshot = snapshot_of_now();
  EXPECT_EQ(ask("/readyz", nullptr).status, 503U);
  EXPECT_EQ(ask("/readyz", &snapshot).status, 200U);
  snapshot.not_ready = "draining";
  EXPECT_EQ(ask("/readyz", &snapshot).status, 503U);
  EXPECT_EQ(ask("/readyz", &snapshot).body, "draining\n");
  EXPECT_EQ(ask("/healthz", &snapshot).status, 200U);
}

TEST(NodeWatch, MetricsHaveTheNodesCounters) {
  const NodeSnapshot snapshot = snapshot_of_now();
  const HttpResponse metrics = ask("/metrics", &snapshot);
  EXPECT_EQ(metrics.status, 200U);
  for (const char* const line :
       {"\ngradstream_run_number 3\n", "\ngradstream_model_version 41\n", "\ngradstream_ready 1\n",
        "\ngradstream_node_leads 1\n", "\ngradstream_node_trouble 0\n", "\ngradstream_batches_committed_total 6\n",
        "\ngradstream_node_fences_total 3\n", "\ngradstream_versions_published_total 2\n",
        "\ngradstream_sessions_established_total 1\n"}) {
    EXPECT_THAT(metrics.body, HasSubstr(line));
  }
  EXPECT_EQ(ask("/metrics", nullptr).status, 503U);
  EXPECT_EQ(ask("/status/devices", &snapshot).status, 404U);
}

TEST(NodeWatch, TheStatusAsksForTheClusterOfItsRun) {
  NodeSnapshot snapshot = snapshot_of_now();
  snapshot.not_ready = "without a connection to the engine: it is away";
  EXPECT_EQ(ask("/status", nullptr).status, 503U);
  EXPECT_EQ(ask("/status", &snapshot).status, 503U);
  EXPECT_EQ(ask("/status", &snapshot).body, snapshot.not_ready + "\n") << "there is no run yet";
  const auto view = std::make_shared<WatchSnapshot>();
  view->run_name = "cluster";
  snapshot.run_view = view;
  uint32_t asked = 0;
  const auto read = [&asked](uint32_t run) {
    asked = run;
    return std::shared_ptr<const ClusterReading>();
  };
  const HttpResponse status = node_response({"/status"}, &snapshot, HttpCounters(), kNowMs, read);
  EXPECT_EQ(status.status, 200U);
  EXPECT_EQ(status.type, "application/json");
  EXPECT_THAT(status.body, HasSubstr("\"name\":\"cluster\""));
  EXPECT_EQ(asked, 3U);
  EXPECT_EQ(node_response({"/status", "since=1"}, &snapshot, HttpCounters(), kNowMs, read).status, 400U);
  asked = 0;
  EXPECT_EQ(node_response({"/metrics"}, &snapshot, HttpCounters(), kNowMs, read).status, 200U);
  EXPECT_EQ(asked, 0U) << "a monitor asks the engine nothing";
}

}  // namespace
}  // namespace gradstream
