// A node's /status: the run in the words of a single server's (server/watch/watch.h), and what only a node has.
//
// The same keys mean the same, so that a page and monitors read both. What a node does not know is empty: losses,
// quality and progress, since no version says them, and each device by itself. Behind all others stand `node`, this
// one, and `cluster`, as the engine had it when it was read last; null: it was not read yet.
#ifndef GRADSTREAM_SERVER_CLUSTER_NODE_STATUS_H_
#define GRADSTREAM_SERVER_CLUSTER_NODE_STATUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/cluster/cluster_reader.h"
#include "server/cluster/node_watch.h"
#include "server/watch/attention.h"
#include "server/watch/http.h"

namespace gradstream {

// What needs attention, the worst first: node_trouble, engine_away, nobody_leads. cluster may be null, and one that is
// older than kLookStaleMs says nothing of now. now_steady_ms: by the clock of both.
std::vector<Attention> node_attention(const NodeSnapshot& snapshot, const ClusterReading* cluster,
                                      uint64_t now_steady_ms);

// snapshot.run_view is there; cluster may be null. after: rounds above this version. now_steady_ms: by the clock of
// both.
std::string node_status_json(const NodeSnapshot& snapshot, const ClusterReading* cluster, const HttpCounters& http,
                             uint32_t after, uint64_t now_steady_ms);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_NODE_STATUS_H_
