// Pace steering: how long devices are told to stay away, so that a fleet comes back at a rate that a server bears.
//
// The devices dial, and draw uniformly inside the window that they were given (full jitter). A fleet of n devices that
// wait W / 2 on average arrives at 2 n / W a second. The rate is the same after a server was away, because a device
// that cannot reach it draws again inside its last window (docs/wire.md).
#ifndef GRADSTREAM_SERVER_RUN_PACE_H_
#define GRADSTREAM_SERVER_RUN_PACE_H_

#include <cstdint>

#include "runtime/wire/codec.h"
#include "server/run/limits.h"

namespace gradstream {

struct PaceKeys;

// W = this times n / arrival_rate. Reason: arrivals are two thirds of the target on average. At 100 a second and more
// the worst second of half an hour, four standard deviations above that, stays below the target too.
inline constexpr uint32_t kPaceSpread = 3;

// The run's window, wide enough for device_count devices where it has an arrival_rate; times factor, at most
// kRetryMaxMs.
gs_RetryWindow retry_window(const PaceKeys& keys, uint32_t device_count, uint32_t factor);

// The window of a device that comes back in vain until somebody changes something. It is kRefusedWindowFactor times as
// wide, and does not begin before kRefusedRetryMinMs.
gs_RetryWindow refused_window(const PaceKeys& keys, uint32_t device_count);

// For so long, ms, after a run was paused or ended an operator is likely to go on: by `run resume`, or by a new run.
// Reason: scripts do it at once and people within minutes, and for so long short waits cost a device no link of a
// month.
inline constexpr uint64_t kIdleFreshMs = 15 * 60'000;
// A fleet that waits for an operator arrives at this rate at most while the pause is fresh, devices a second. Reason:
// ten thousand devices come at that rate in any case, and a core shakes hands with a thousand a second.
inline constexpr uint32_t kIdleArrivalRate = 200;
// ... and a small one waits so long, ms. Reason: the first version of the next run is there within 10 s, with the time
// of a handshake, a round and a connection that failed in between.
inline constexpr uint32_t kIdleFreshMinMs = 2'000;
inline constexpr uint32_t kIdleFreshMaxMs = 4'000;

// The window of a run that is over or paused, in which only an operator can change anything. idle_ms: since when, as a
// duration. While that is fresh the fleet comes back by kIdleArrivalRate; later each device waits 30 to 60 s. A wider
// window of the run's own holds in both cases.
gs_RetryWindow idle_window(const PaceKeys& keys, uint32_t device_count, uint64_t idle_ms = UINT64_MAX);

// The window of devices whose server goes over to its next run: it is back at once.
gs_RetryWindow handover_window(const PaceKeys& keys, uint32_t device_count);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_PACE_H_
