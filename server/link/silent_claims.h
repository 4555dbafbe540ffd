// Sessions that proved a claim and have said nothing yet. Any number of devices hold the same claim, and whoever has
// one of them holds its key: so each claim has a limit, and so have all claims together.
#ifndef GRADSTREAM_SERVER_LINK_SILENT_CLAIMS_H_
#define GRADSTREAM_SERVER_LINK_SILENT_CLAIMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "server/base/session_id.h"

namespace gradstream {

// Silent sessions of one claim. Reason: a device sends its claim at once, so a batch that enrols at 1,000 devices a
// second over a link of 30 ms has so many.
inline constexpr size_t kSilentClaimSessionsMax = 32;
// Silent sessions of all claims have at most this share of connection_count_max. Reason: the fleet keeps the rest.
inline constexpr size_t kSilentClaimsShare = 4;

class SilentClaims {
 public:
  explicit SilentClaims(size_t connection_count_max)
      : count_max_(std::max(kSilentClaimSessionsMax, connection_count_max / kSilentClaimsShare)) {}

  // Adds a session. Returns the one that makes room for it, which is removed: the oldest of this claim or, where all
  // claims have too many, of the claim that has most. 0: there is room.
  SessionId add(uint32_t claim, SessionId session) {
    claims_[claim].insert(session);
    ++count_;
    if (claims_[claim].size() > kSilentClaimSessionsMax) {
      const SessionId oldest = *claims_[claim].begin();
      remove(claim, oldest);
      return oldest;
    }
    return count_ > count_max_ ? take_oldest() : 0;
  }

  // Nothing happens where the session is not there.
  void remove(uint32_t claim, SessionId session) {
    const auto found = claims_.find(claim);
    if (found == claims_.end() || found->second.erase(session) == 0) {
      return;
    }
    --count_;
    if (found->second.empty()) {
      claims_.erase(found);
    }
  }

  // Removes the oldest session of the claim that has most. 0: there is none.
  SessionId take_oldest() {
    const auto crowded = std::max_element(
        claims_.begin(), claims_.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (crowded == claims_.end()) {
      return 0;
    }
    const SessionId oldest = *crowded->second.begin();
    remove(crowded->first, oldest);
    return oldest;
  }

  size_t count() const { return count_; }

 private:
  const size_t count_max_;
  std::map<uint32_t, std::set<SessionId>> claims_;  // by claim, its sessions in order of age
  size_t count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_SILENT_CLAIMS_H_
