#include "server/store/fleet_rows.h"

#include <algorithm>
#include <charconv>

namespace gradstream {

const char* stored_run_state_text(StoredRunState state) {
  switch (state) {
    case StoredRunState::kActive:
      return "active";
    case StoredRunState::kStopRequested:
      return "stop requested";
    case StoredRunState::kFinished:
      return "finished";
    case StoredRunState::kStopped:
      return "stopped";
    case StoredRunState::kPauseRequested:
      return "pause requested";
    case StoredRunState::kPaused:
      return "paused";
    case StoredRunState::kResumeRequested:
      return "resume requested";
  }
  return "unknown";
}

const char* device_state_text(DeviceState state) {
  switch (state) {
    case DeviceState::kPending:
      return "pending";
    case DeviceState::kActive:
      return "active";
    case DeviceState::kDisabled:
      return "disabled";
    case DeviceState::kRevoked:
      return "revoked";
  }
  return "unknown";
}

std::string identity_of_generation(const std::string& name, uint32_t generation) {
  return generation == 0 ? name : name + "~" + std::to_string(generation);
}

bool split_identity(std::string_view identity, std::string* name, uint32_t* generation) {
  const size_t tilde = identity.rfind('~');
  if (tilde == std::string_view::npos || tilde == 0 || identity[std::min(tilde + 1, identity.size() - 1)] == '0') {
    return false;
  }
  const char* const end = identity.data() + identity.size();
  const auto parsed = std::from_chars(identity.data() + tilde + 1, end, *generation);
  *name = identity.substr(0, tilde);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

bool is_active(StoredRunState state) {
  return state != StoredRunState::kFinished && state != StoredRunState::kStopped && state != StoredRunState::kPaused;
}

}  // namespace gradstream
