// Follows what the verbs of `device` change in an engine's fleet while a node runs.
//
//   read_fleet() every kFleetPollMs --rows--> NodeFleet --> handshakes from now on
//                                                 '-------> take_ends(): sessions that count no more
//
// What is read is what has changed: each change has a number, and a row that of its last one. At each connection to the
// engine all rows are read again, between the questions for what has changed. Reason: the newest change is the last
// row, and a revocation must not wait for a million others. A fleet never loses a device, and its numbers only grow.
// Where it is otherwise, the engine was restored to an earlier time, and the node is in trouble: it would let devices
// in that were revoked.
#ifndef GRADSTREAM_SERVER_CLUSTER_FOLLOWED_FLEET_H_
#define GRADSTREAM_SERVER_CLUSTER_FOLLOWED_FLEET_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/node_fleet.h"
#include "server/engine/call_pause.h"
#include "server/engine/engine.h"
#include "server/engine/node_trouble.h"

namespace gradstream {

// A node asks for changes so often, ms. Reason: as a server looks at its database. A revoked device is out a quarter of
// a second later, and four small reads a second are nothing to an engine.
inline constexpr uint64_t kFleetPollMs = 250;

class FollowedFleet {
 public:
  // Both outlive it.
  FollowedFleet(EngineNode& engine, NodeFleet& fleet) : engine_(engine), fleet_(fleet), unseen_(fleet.names()) {}

  // now_ms: of the node's own clock, which never goes back.
  void on_tick(uint64_t now_ms);
  // False: the reply is to no call of this one.
  bool on_reply(const EngineReply& reply, uint64_t now_ms);
  // UINT64_MAX: a reply is awaited, or the engine was restored.
  uint64_t next_tick_ms() const { return ticket_ == 0 && trouble_ == NodeTrouble::kNone ? due_ms_ : UINT64_MAX; }
  // There is another connection to the engine. What has changed is asked for first, and then all rows are read again.
  // Reason: an engine that was restored since may have come to the same number by other changes.
  void on_connection();
  // kRestored: it asks nothing any more.
  NodeTrouble trouble() const { return trouble_; }
  // Of all changes since the last call.
  std::vector<KeyEnd> take_ends() { return std::exchange(ends_, {}); }

 private:
  void take(const EngineReply& reply, uint64_t now_ms);

  EngineNode& engine_;
  NodeFleet& fleet_;
  FleetPlace place_;  // behind all rows that were read: changes come there
  FleetPlace proof_;  // behind those that were read again by this connection
  FleetPlace asked_;  // from where the call under way reads: one of the two
  EngineTicket ticket_ = 0;
  bool is_old_ = false;           // what is under way was asked by the connection before
  uint64_t known_ = 0;            // the last change whose rows were read: the standby has it
  std::set<std::string> unseen_;  // devices that this reading has not come to yet; some 100 bytes each
  bool is_whole_ = false;         // it has come to its end
  NodeTrouble trouble_ = NodeTrouble::kNone;
  uint64_t due_ms_ = 0;   // of the next call
  uint64_t poll_ms_ = 0;  // from when on that one asks for changes
  CallPause pause_;
  std::vector<KeyEnd> ends_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_FOLLOWED_FLEET_H_
