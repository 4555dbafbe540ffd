#include "server/run/pace.h"

#include <algorithm>

#include "server/run/pace_keys.h"

namespace gradstream {
namespace {

constexpr uint32_t kIdleMinMs = 30'000;
constexpr uint32_t kIdleMaxMs = 60'000;

// A window begins at its end divided by this. Reason: nobody comes back at once, and the whole fleet does not come
// late.
constexpr uint32_t kIdleSpread = kIdleFreshMaxMs / kIdleFreshMinMs;

uint32_t bounded(uint64_t wait_ms) { return static_cast<uint32_t>(std::min<uint64_t>(wait_ms, kRetryMaxMs)); }

// The end of a window from its half on, in which so many devices arrive at kIdleArrivalRate: the mean wait is three
// quarters of it.
uint32_t spread_ms(uint32_t device_count) {
  return bounded(uint64_t{device_count} * 4 * 1000 / (3 * kIdleArrivalRate));
}

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

gs_RetryWindow idle_window(const PaceKeys& keys, uint32_t device_count, uint64_t idle_ms) {
  const gs_RetryWindow own = retry_window(keys, device_count, 1);
  const gs_RetryWindow late = {kIdleMinMs, std::max(kIdleMaxMs, own.max_ms)};
  if (idle_ms >= kIdleFreshMs) {
    return late;
  }
  const uint32_t fresh_ms = std::max(kIdleFreshMaxMs, spread_ms(device_count));
  return fresh_ms >= late.max_ms
             ? late
             : gs_RetryWindow{std::max(fresh_ms / kIdleSpread, own.min_ms), std::max(fresh_ms, own.max_ms)};
}

gs_RetryWindow handover_window(const PaceKeys& keys, uint32_t device_count) {
  const gs_RetryWindow own = retry_window(keys, device_count, 1);
  return {own.min_ms, std::max(own.max_ms, spread_ms(device_count))};
}

}  // namespace gradstream
