// What a device's row says of a key that a handshake offers: the same for a server with a database and for a node.
#ifndef GRADSTREAM_SERVER_PROGRAM_DEVICE_PSK_H_
#define GRADSTREAM_SERVER_PROGRAM_DEVICE_PSK_H_

#include <cstdint>

#include "server/link/tls_stream.h"
#include "server/store/fleet_rows.h"

namespace gradstream {

// The key of this generation of the device's identity, and whether it may be used at now_ms since the epoch. False: the
// device never had it. A generation whose key is gone has the key of now, with PskRefusal::kExpired.
inline bool find_key(const EnrolledDevice& device, uint32_t generation, uint64_t now_ms, PskEntry* out) {
  if (generation > device.generation) {
    return false;
  }
  const bool is_previous = generation + 1 == device.generation && now_ms < device.previous_until_ms;
  out->key = is_previous ? device.previous_key : device.key;
  out->device = device.index;
  out->refusal = device.state == DeviceState::kRevoked            ? PskRefusal::kRevoked
                 : !device.is_active()                            ? PskRefusal::kInactive
                 : generation == device.generation || is_previous ? PskRefusal::kNone
                                                                  : PskRefusal::kExpired;
  return true;
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_DEVICE_PSK_H_
