#include "server/run/pace_keys.h"

#include "server/run/pace.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {

Objection check_retry(const RunParameters& p) {
  constexpr uint64_t kMostMs = kRunRetryMaxMs;
  const uint64_t spread_ms = uint64_t{kPaceSpread} * 1000 * p.trigger->device_count;
  if (p.pace->arrival_rate > 0 && spread_ms > kMostMs * p.pace->arrival_rate) {
    return "arrival_rate, device_count: so few arrivals a second make devices wait above " +
           std::to_string(kMostMs / 3'600'000) + " h; use at least " + std::to_string(spread_ms / kMostMs + 1);
  }
  if (p.pace->retry_min_ms > p.pace->retry_max_ms) {
    return "retry_min_ms, retry_max_ms: a window goes from retry_min_ms to retry_max_ms; raise retry_max_ms";
  }
  return {};
}

}  // namespace gradstream
