// Limits of a run: parameters are checked against them. Most are set by the exact fold (server/rules/fold.h).
#ifndef GRADSTREAM_SERVER_RUN_LIMITS_H_
#define GRADSTREAM_SERVER_RUN_LIMITS_H_

#include <cstdint>

#include "runtime/base/config.h"

namespace gradstream {

// Weights are unsigned 16 bits: sample counts, or staleness weights from a committed table.
inline constexpr unsigned kFoldWeightBits = 16;
// Updates in one version, at most 2^this, where the rule adds them up. The fold refuses one more. Reason: counts of a
// version are 32 bits, and so are enrolment indices.
inline constexpr unsigned kFoldUpdateCountLog2 = 31;
inline constexpr uint32_t kFoldUpdateCountMax = 1U << kFoldUpdateCountLog2;
// A full version's sum is below 2^this in magnitude.
inline constexpr unsigned kFoldSumBits = kFoldValueBits + kFoldWeightBits + kFoldUpdateCountLog2;
static_assert(kFoldValueBits + kFoldWeightBits <= 62, "what an update adds fits 64 bits");
static_assert(kFoldSumBits <= 126, "a full version never reaches 2^126");
static_assert(kFoldWeightBits + kFoldUpdateCountLog2 <= 63, "the total weight of a version fits 64 bits");

// Updates, or answers of a stage, in one version where the server keeps each until the version closes: the memory
// form, asynchronous rules, a capped share, units. Also the devices whose last update the memory form knows. Reason:
// memory grows with each of them, and their sums stay below 2^62 (31 bits of a value, 16 of a weight, and these 15).
inline constexpr unsigned kKeptUpdateCountLog2 = 15;
inline constexpr uint32_t kKeptUpdateCountMax = 1U << kKeptUpdateCountLog2;
static_assert(kFoldValueBits + kFoldWeightBits + kKeptUpdateCountLog2 <= 62, "a sum over kept updates is below 2^62");
static_assert(kFoldWeightBits + kKeptUpdateCountLog2 <= 31, "the total weight of kept updates fits 32 bits");

// Updates of one version that a clip by the version's own median keeps (clip_norm median), and the bytes of their
// values. Reason: larger versions have a good median in those before them, which clip_norm trailing takes, and a server
// keeps room for sessions.
inline constexpr uint32_t kClipKeptUpdateCountMax = 2048;
inline constexpr uint64_t kClipKeptBytesMax = uint64_t{64} << 20;
// Updates of one version whose norms a clip knows. Reason: each is 8 bytes in clip_window versions and the open one.
inline constexpr uint32_t kClipNormCountMax = 1U << 22;
// Versions whose norms make a radius, at most.
inline constexpr uint32_t kClipWindowMax = 16;

// Sums that one process divides a version into (AggregatorContext::aggregator_count), at most. Reason: each is as long
// as the model, and more of them than a machine has cores are of use to tests alone.
inline constexpr uint32_t kAggregatorCountMax = 64;

static_assert(kSampleCountMax < 1U << kFoldWeightBits, "a sample count is a weight");

// Fractional bits of the fixed point. Reason: 2^scale and its inverse are exact floats far from their limits.
inline constexpr unsigned kFoldScaleLog2Max = 48;

// Rounds of a run. Reason: each has up to two versions, which are 32 bits.
inline constexpr uint32_t kRoundCountMax = 1U << 30;

// Characters of a run's name. Reason: it stands in log lines and file names.
inline constexpr uint32_t kRunNameSizeMax = 63;

// A Log that one device may get at once, in bytes. Reason: the queue of its session must hold it.
inline constexpr uint32_t kLogSizeMax = 1U << 28;

// Retry windows are so much wider for a peer that was refused or that waits for a stalled run. For a refused device
// they also begin at kRefusedRetryMinMs, however narrow those of the run.
inline constexpr uint32_t kRefusedWindowFactor = 4;
// The longest wait that a device takes from a window (docs/wire.md).
inline constexpr uint32_t kRetryMaxMs = 86'400'000;

// Versions that a late update may be behind, at most: enough for 1,025 devices of one speed without rounds. Reason: the
// weight (1 + s)^-1 of an update keeps five of its 15 bits there.
inline constexpr uint32_t kStalenessMax = 1024;

// Versions that a device may be silent for and is still awaited, at most. Reason: a list of devices for each of them.
inline constexpr uint32_t kSeenVersionsMax = 1024;
// Versions and updates of the window of device_share_max, at most. Reason: each update is 4 bytes of memory and of a
// checkpoint.
inline constexpr uint32_t kShareVersionsMax = 1024;
inline constexpr uint32_t kShareUpdateCountMax = 1U << 20;
// Of new runs. Reasons: a device that misses two versions after it was heard is away, and each version has waited for
// it with all its extensions; and with a half no single device decides where the model goes.
inline constexpr uint32_t kSeenVersionsOfNewRuns = 2;
inline constexpr float kDeviceShareOfNewRuns = 0.5F;

// The latest end of a run's retry window, in milliseconds: a refused device waits kRefusedWindowFactor times as long.
inline constexpr uint32_t kRunRetryMaxMs = kRetryMaxMs / kRefusedWindowFactor;

// a of the staleness weight (1 + s)^-a, at most. Reason: beyond it an update that is one version late weighs nothing.
inline constexpr uint32_t kStalenessExponentMax = 16;

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_LIMITS_H_
