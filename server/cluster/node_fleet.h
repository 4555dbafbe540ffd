// The keys of TLS handshakes on a node: a copy of the engine's fleet in the node's memory.
//
//   engine --rows--> take() --> devices, by name <--lookup()-- handshakes, on any thread
//
// Reason for a copy: a storm of handshakes asks the engine nothing, no handshake waits for it, and devices get in while
// it is away. A device takes some 300 bytes. What commands change is followed (server/cluster/followed_fleet.h).
//
// Who is enrolled while a node runs is taken in as who was there at its start.
#ifndef GRADSTREAM_SERVER_CLUSTER_NODE_FLEET_H_
#define GRADSTREAM_SERVER_CLUSTER_NODE_FLEET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/objection.h"
#include "server/link/tls_stream.h"
#include "server/postgresql/engine_transfer.h"
#include "server/store/fleet_rows.h"
#include "server/watch/watch.h"

namespace gradstream {

// A change by which sessions of a device end. NONE: they are asked to begin anew, since the key that a rotation has
// replaced counts no more. Else they end for this reason.
struct KeyEnd {
  uint32_t device = 0;
  gs_Reason reason = gs_Reason_REASON_NONE;
  friend bool operator==(const KeyEnd&, const KeyEnd&) = default;
};

// Devices of a fleet, at most. Reason: a row that says more is damaged, and memory for each index below it is made. An
// engine is for a million devices or ten.
inline constexpr uint32_t kNodeDevicesMax = 50'000'000;

class NodeFleet {
 public:
  // now_ms: of the engine's clock, by which windows of keys were set: milliseconds since the epoch, never going back.
  // Called from any thread.
  explicit NodeFleet(std::function<uint64_t()> now_ms) : now_ms_(std::move(now_ms)) {}
  NodeFleet(const NodeFleet&) = delete;
  NodeFleet& operator=(const NodeFleet&) = delete;

  // The devices of the start. Objects to a row that does not read.
  Objection begin(const std::vector<EngineFleetRow>& rows);
  // Rows that have changed, each in place of the one of that name. Handshakes from now on go by them. *ends gets what
  // they end. Objects to a row that does not read; the others count all the same. Reason: a revocation must not wait
  // for the row of another device.
  Objection take(const std::vector<EngineFleetRow>& rows, std::vector<KeyEnd>* ends);
  // Devices whose key before a rotation counts no more by now, once each.
  std::vector<uint32_t> take_ended_windows();
  // For any thread; the fleet outlives it. True and *out: as of the server's (server/program/keyring.h). Claims are
  // unknown to a node.
  PskLookup lookup() const;
  // Of each device by its enrolment index: why it takes no part, NONE where it does. A device whose row does not read
  // is as one that is disabled.
  std::vector<gs_Reason> standings() const;
  // Of all devices, in any state.
  std::set<std::string> names() const;
  // Devices by state.
  const WatchedFleet& counts() const { return counts_; }
  // How often a device came or changed its state: standings() and counts() are the same while this is. Reason: each
  // walk of a million devices takes some of the node's one thread, and most rows that are read again say nothing new.
  uint64_t state_change_count() const { return state_change_count_; }
  // In any state, up to the last enrolment index.
  uint32_t device_count() const { return device_count_; }

 private:
  bool find_psk(std::string_view identity, PskEntry* out) const;
  void keep(EnrolledDevice device);
  void end(const EnrolledDevice* before, const EnrolledDevice& after, std::vector<KeyEnd>* ends);

  const std::function<uint64_t()> now_ms_;
  uint32_t device_count_ = 0;
  WatchedFleet counts_;
  uint64_t state_change_count_ = 0;
  std::multimap<uint64_t, uint32_t> windows_;  // of keys before a rotation: when each ends, and whose it is
  mutable std::shared_mutex mutex_;
  std::map<std::string, EnrolledDevice, std::less<>> devices_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_NODE_FLEET_H_
