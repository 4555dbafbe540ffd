// The keys of TLS handshakes on a node: a copy of the engine's fleet in the node's memory.
//
//   engine --rows--> take() --> devices, by name <--lookup()-- handshakes, on any thread
//
// Reason for a copy: a storm of handshakes asks the engine nothing, no handshake waits for it, and devices get in while
// it is away. A device takes some 300 bytes. What commands change is not followed yet: whoever reads the changes hands
// them to take().
#ifndef GRADSTREAM_SERVER_CLUSTER_NODE_FLEET_H_
#define GRADSTREAM_SERVER_CLUSTER_NODE_FLEET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/objection.h"
#include "server/link/tls_stream.h"
#include "server/postgresql/engine_transfer.h"
#include "server/store/fleet_rows.h"

namespace gradstream {

class NodeFleet {
 public:
  // now_ms: milliseconds since the epoch, never going back, called from any thread.
  explicit NodeFleet(std::function<uint64_t()> now_ms) : now_ms_(std::move(now_ms)) {}
  NodeFleet(const NodeFleet&) = delete;
  NodeFleet& operator=(const NodeFleet&) = delete;

  // Rows of devices, each in place of the one of that name. Handshakes from now on go by them. After an objection
  // nothing has changed.
  Objection take(const std::vector<EngineFleetRow>& rows);
  // For any thread; the fleet outlives it. True and *out: as of the server's (server/program/keyring.h). Claims are
  // unknown to a node.
  PskLookup lookup() const;
  // In any state; of one thread with take().
  uint32_t device_count() const { return static_cast<uint32_t>(devices_.size()); }

 private:
  bool find_psk(std::string_view identity, PskEntry* out) const;

  const std::function<uint64_t()> now_ms_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, EnrolledDevice, std::less<>> devices_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_NODE_FLEET_H_
