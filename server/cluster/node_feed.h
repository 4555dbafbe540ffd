// Makes the view of a run that a node's /status shows, out of the versions that the node has followed.
//
//   node's thread: versions, fleet, NodeSnapshot --> NodeFeed --view()--> WatchSnapshot --> NodeBoard
//
// A version says neither its losses nor when it was made: its time here is when this node has read it. Versions before
// the node's start are not listed.
#ifndef GRADSTREAM_SERVER_CLUSTER_NODE_FEED_H_
#define GRADSTREAM_SERVER_CLUSTER_NODE_FEED_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/cluster/node_watch.h"
#include "server/engine/followed_run.h"
#include "server/watch/watch.h"

namespace gradstream {

class NodeFeed {
 public:
  // name: of the run. command_options: as of WatchSnapshot.
  NodeFeed(std::string name, const RunParameters& parameters, std::string command_options);

  // A version that the node has followed, one above the last one. time_ms: of now, since the epoch.
  void note_version(const PublishedVersion& published, const ShellCounters& counters, uint64_t time_ms);
  // Devices by state.
  void note_fleet(const WatchedFleet& fleet) { fleet_ = fleet; }
  // now: complete but for run_view. time_ms: of now, since the epoch.
  std::shared_ptr<const WatchSnapshot> view(const FollowedRun& run, const NodeSnapshot& now, uint64_t time_ms) const;

 private:
  const std::string name_;
  const std::shared_ptr<const RunParameters> parameters_;
  const std::string command_options_;
  WatchedFleet fleet_;
  std::deque<WatchedRound> rounds_;  // the last kRoundHistoryMax, oldest first
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_NODE_FEED_H_
