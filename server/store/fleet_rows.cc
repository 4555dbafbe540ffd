#include "server/store/fleet_rows.h"

#include <algorithm>
#include <charconv>

namespace gradstream {

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
