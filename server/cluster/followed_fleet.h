// Follows what the verbs of `device` change in an engine's fleet while a node runs.
//
//   read_fleet() every kFleetPollMs --rows--> NodeFleet --> handshakes from now on
//                                                 '-------> take_ends(): sessions that count no more
//
// What is read is what has changed: each change has a number, and a row that of its last one. Where the numbers go
// back, the engine was restored to an earlier time, and all rows are read again.
#ifndef GRADSTREAM_SERVER_CLUSTER_FOLLOWED_FLEET_H_
#define GRADSTREAM_SERVER_CLUSTER_FOLLOWED_FLEET_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "server/cluster/node_fleet.h"
#include "server/engine/call_pause.h"
#include "server/engine/engine.h"

namespace gradstream {

// A node asks for changes so often, ms. Reason: as a server looks at its database. A revoked device is out a quarter of
// a second later, and four small reads a second are nothing to an engine.
inline constexpr uint64_t kFleetPollMs = 250;

class FollowedFleet {
 public:
  // Both outlive it.
  FollowedFleet(EngineNode& engine, NodeFleet& fleet) : engine_(engine), fleet_(fleet) {}

  // now_ms: of the node's own clock, which never goes back.
  void on_tick(uint64_t now_ms);
  // False: the reply is to no call of this one.
  bool on_reply(const EngineReply& reply, uint64_t now_ms);
  // UINT64_MAX: a reply is awaited.
  uint64_t next_tick_ms() const { return ticket_ == 0 ? due_ms_ : UINT64_MAX; }
  // Of all changes since the last call.
  std::vector<KeyEnd> take_ends() { return std::exchange(ends_, {}); }

 private:
  void take(const EngineReply& reply, uint64_t now_ms);

  EngineNode& engine_;
  NodeFleet& fleet_;
  FleetPlace place_;
  uint64_t change_ = 0;  // the last one that was read of
  EngineTicket ticket_ = 0;
  uint64_t due_ms_ = 0;
  CallPause pause_;
  std::vector<KeyEnd> ends_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_FOLLOWED_FLEET_H_
