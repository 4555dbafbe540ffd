#include "server/run/pace.h"

#include <algorithm>

#include "server/run/pace_keys.h"

namespace gradstream {
namespace {

constexpr uint32_t kIdleMinMs = 30'000;
constexpr uint32_t kIdleMaxMs = 60'000;

uint32_t bounded(uint64_t wait_ms) { return static_cast<uint32_t>(std::min<uint64_t>(wait_ms, kRetryMaxMs)); }

}  // namespace

gs_RetryWindow retry_window(const PaceKeys& keys, uint32_t device_count, uint32_t factor) {
  const uint64_t paced_ms =
      keys.arrival_rate == 0 ? 0 : uint64_t{kPaceSpread} * 1000 * device_count / keys.arrival_rate;
  return {bounded(uint64_t{keys.retry_min_ms} * factor),
          bounded(std::max<uint64_t>(keys.retry_max_ms, paced_ms) * factor)};
}

gs_RetryWindow refused_window(const PaceKeys& keys, uint32_t device_count) {
  const gs_RetryWindow wide = retry_window(keys, device_count, kRefusedWindowFactor);
  return {std::max(wide.min_ms, kRefusedRetryMinMs), std::max(wide.max_ms, 2 * kRefusedRetryMinMs)};
}

gs_RetryWindow idle_window(const PaceKeys& keys, uint32_t device_count) {
  return {kIdleMinMs, std::max(kIdleMaxMs, retry_window(keys, device_count, 1).max_ms)};
}

}  // namespace gradstream
