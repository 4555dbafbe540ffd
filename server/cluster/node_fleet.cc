#include "server/cluster/node_fleet.h"

#include <mutex>
#include <utility>

#include "runtime/wire/claim.h"
#include "server/program/device_psk.h"
#include "server/store/fleet_copy.h"

namespace gradstream {

Objection NodeFleet::take(const std::vector<EngineFleetRow>& rows) {
  std::vector<EnrolledDevice> read(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (Objection objection = read_device({rows[i].number, rows[i].name, rows[i].content}, &read[i])) {
      return objection;
    }
  }
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  for (EnrolledDevice& device : read) {
    std::string name = device.name;
    devices_.insert_or_assign(std::move(name), std::move(device));
  }
  return {};
}

PskLookup NodeFleet::lookup() const {
  return [this](std::string_view identity, PskEntry* out) { return find_psk(identity, out); };
}

bool NodeFleet::find_psk(std::string_view identity, PskEntry* out) const {
  if (is_claim_identity(identity)) {
    return false;
  }
  std::string name;
  uint32_t generation = 0;
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  auto found = devices_.find(identity);
  if (found == devices_.end() && split_identity(identity, &name, &generation)) {
    found = devices_.find(name);
  }
  return found != devices_.end() && find_key(found->second, generation, now_ms_(), out);
}

}  // namespace gradstream
