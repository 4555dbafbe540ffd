// How fast a run goes, of the versions that a snapshot has.
#include <algorithm>
#include <cmath>

#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/watch/attention.h"

namespace gradstream {

WatchPace pace_of(const WatchSnapshot& s) {
  WatchPace pace;
  std::vector<uint64_t> times;
  for (size_t i = s.rounds.size(); i > 1 && times.size() < kPaceVersions; --i) {
    const uint64_t before_ms = s.rounds[i - 2].summary.time_ms;
    times.push_back(s.rounds[i - 1].summary.time_ms - std::min(before_ms, s.rounds[i - 1].summary.time_ms));
  }
  for (const WatchedRound& round : s.rounds) {
    const double loss = round.summary.loss_before;
    if (round.summary.has_losses && std::isfinite(loss) && (!pace.best_loss || loss < *pace.best_loss)) {
      pace.best_loss = loss;
    }
  }
  const bool is_going = s.run_state == gs_RunState_RUN_STATE_ACTIVE && !s.place.is_storage_failed;
  if (!is_going || times.empty()) {
    return pace;
  }
  // Two versions within a millisecond count as one apart by one.
  std::sort(times.begin(), times.end());
  const auto median_ms = static_cast<double>(std::max<uint64_t>(1, times[times.size() / 2]));
  pace.versions_per_minute = 60'000 / median_ms;
  if (s.round_count > 0 && s.parameters != nullptr) {
    const double rounds = s.round_count - std::min(s.rounds_done, s.round_count);
    const double whole_ms = rounds * s.parameters->phase_count() * median_ms;
    const uint64_t last_ms = s.rounds.back().summary.time_ms;
    const auto gone_ms = static_cast<double>(s.taken_ms - std::min(last_ms, s.taken_ms));
    pace.seconds_left = std::max(0.0, whole_ms - std::min(gone_ms, median_ms)) / 1000;
  }
  return pace;
}

}  // namespace gradstream
