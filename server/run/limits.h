// Limits of a run that the exact fold sets (server/rules/fold.h): parameters are checked against them.
#ifndef GRADSTREAM_SERVER_RUN_LIMITS_H_
#define GRADSTREAM_SERVER_RUN_LIMITS_H_

#include <cstdint>

#include "runtime/base/config.h"

namespace gradstream {

// |round(value * 2^scale_log2)| is below 2^this.
inline constexpr unsigned kFoldValueBits = 31;
// Weights are unsigned 16 bits: sample counts, or staleness weights from a committed table.
inline constexpr unsigned kFoldWeightBits = 16;
// Updates in one version, at most 2^this. The coordinator keeps to it; add() refuses what would overflow.
inline constexpr unsigned kFoldUpdateCountLog2 = 15;
inline constexpr uint32_t kFoldUpdateCountMax = 1U << kFoldUpdateCountLog2;
static_assert(kFoldValueBits + kFoldWeightBits + kFoldUpdateCountLog2 <= 62, "a full version never reaches 2^62");
static_assert(kFoldWeightBits + kFoldUpdateCountLog2 <= 31, "the total weight of a version fits 32 bits");
static_assert(kSampleCountMax < 1U << kFoldWeightBits, "a sample count is a weight");

// Fractional bits of the fixed point. Reason: 2^scale and its inverse are exact floats far from their limits.
inline constexpr unsigned kFoldScaleLog2Max = 48;

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_LIMITS_H_
