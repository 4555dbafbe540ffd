#include "server/cluster/node_fleet.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/wire/claim.h"
#include "server/base/log.h"
#include "server/program/device_psk.h"
#include "server/store/fleet_copy.h"

namespace gradstream {
namespace {

// The rows that read. Objects to the first one that does not.
Objection read_devices(const std::vector<EngineFleetRow>& rows, std::vector<EnrolledDevice>* out) {
  Objection first;
  out->reserve(rows.size());
  for (const EngineFleetRow& row : rows) {
    EnrolledDevice device;
    Objection unread = read_device({row.number, row.name, row.content}, &device);
    if (!unread && device.index >= kNodeDevicesMax) {
      unread = "the row of " + row.name + " has the index " + std::to_string(device.index) + ", and a node knows " +
               std::to_string(kNodeDevicesMax) + " devices; restore the last good copy";
    }
    if (unread) {
      first = first ? first : unread;
    } else {
      out->push_back(std::move(device));
    }
  }
  return first;
}

uint32_t& count_of(DeviceState state, WatchedFleet* counts) {
  switch (state) {
    case DeviceState::kPending:
      return counts->pending;
    case DeviceState::kDisabled:
      return counts->disabled;
    case DeviceState::kRevoked:
      return counts->revoked;
    case DeviceState::kActive:
      break;
  }
  return counts->active;
}

}  // namespace

Objection NodeFleet::begin(const std::vector<EngineFleetRow>& rows) {
  std::vector<EnrolledDevice> read;
  if (Objection objection = read_devices(rows, &read)) {
    return objection;
  }
  const uint64_t now_ms = now_ms_();
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  for (EnrolledDevice& device : read) {
    if (now_ms < device.previous_until_ms) {  // a session may begin by the key before
      windows_.emplace(device.previous_until_ms, device.index);
    }
    keep(std::move(device));
  }
  return {};
}

Objection NodeFleet::take(const std::vector<EngineFleetRow>& rows, std::vector<KeyEnd>* ends) {
  std::vector<EnrolledDevice> read;
  Objection objection = read_devices(rows, &read);
  for (EnrolledDevice& device : read) {
    const auto known = devices_.find(device.name);  // nobody else writes
    end(known == devices_.end() ? nullptr : &known->second, device, ends);
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    keep(std::move(device));
  }
  return objection;
}

void NodeFleet::keep(EnrolledDevice device) {
  device_count_ = std::max(device_count_, device.index + 1);
  const auto [known, is_new] = devices_.try_emplace(device.name);
  if (is_new || known->second.state != device.state) {
    ++state_change_count_;
    ++count_of(device.state, &counts_);
    if (!is_new) {
      --count_of(known->second.state, &counts_);
    }
  }
  known->second = std::move(device);
}

void NodeFleet::end(const EnrolledDevice* before, const EnrolledDevice& after, std::vector<KeyEnd>* ends) {
  if (before == nullptr) {
    log_event("device_added"_event, Fields().add("device", after.name).add("index", uint64_t{after.index}));
    return;
  }
  if (after.state != before->state) {
    log_event("device_state"_event, Fields().add("device", after.name).add("state", device_state_text(after.state)));
  }
  if (before->is_active() && !after.is_active()) {
    const bool is_revoked = after.state == DeviceState::kRevoked;
    ends->push_back({after.index, is_revoked ? gs_Reason_REASON_REVOKED : gs_Reason_REASON_INACTIVE});
  } else if (after.generation != before->generation && after.previous_until_ms <= now_ms_()) {
    ends->push_back({after.index, gs_Reason_REASON_NONE});
  } else if (after.generation != before->generation) {
    windows_.emplace(after.previous_until_ms, after.index);
  }
}

std::vector<gs_Reason> NodeFleet::standings() const {
  std::vector<gs_Reason> all(device_count_, gs_Reason_REASON_INACTIVE);
  for (const auto& [name, device] : devices_) {
    all[device.index] = device.is_active()                      ? gs_Reason_REASON_NONE
                        : device.state == DeviceState::kRevoked ? gs_Reason_REASON_REVOKED
                                                                : gs_Reason_REASON_INACTIVE;
  }
  return all;
}

std::set<std::string> NodeFleet::names() const {
  std::set<std::string> all;
  for (const auto& [name, device] : devices_) {  // nobody else writes
    all.insert(all.end(), name);
  }
  return all;
}

std::vector<uint32_t> NodeFleet::take_ended_windows() {
  std::vector<uint32_t> devices;
  const uint64_t now_ms = now_ms_();
  for (; !windows_.empty() && windows_.begin()->first <= now_ms; windows_.erase(windows_.begin())) {
    devices.push_back(windows_.begin()->second);
  }
  return devices;
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
