// What the keys of a run choose among. Their words stand in server/run/names.h; values that the runtime knows too, such
// as SolverId, stand in runtime/. A new key touches its group alone, unless it brings a choice of its own.
#ifndef GRADSTREAM_SERVER_RUN_CHOICES_H_
#define GRADSTREAM_SERVER_RUN_CHOICES_H_

#include <cstdint>

namespace gradstream {

enum class LatePolicy : uint8_t { kDrop, kWeight };
enum class StalenessTable : uint8_t { kConstant, kInverseSqrt, kPolynomial, kHinge };
// How many local steps a task asks for.
enum class Work : uint8_t {
  kFixed,  // K
  kTimed,  // K_i, from steps_min to K, that the device can do until the deadline by its measured step time
};
enum class FoldWeight : uint8_t { kUniform, kSampleCount };
// How long an update may be beside the others (docs/algorithms.md, "The clip"). A longer one is scaled to the radius R.
enum class ClipNorm : uint8_t {
  kNone,      // updates count as they are
  kFixed,     // R is clip_norm_value
  kMedian,    // R is clip_factor times the median of the versions before and of the open one, whose updates are kept
  kTrailing,  // the same of the versions before alone: nothing is kept, and the first version is not clipped
};
// What steers a device's path, and what the server's step is made of (docs/algorithms.md, "Forms of the correction").
enum class CorrectionForm : uint8_t {
  kNone,      // c = 0; the step is the mean of the version's updates
  kLocal,     // c = d - Gbar_i of the version that the device's last update went into; the same step
  kMemory,    // c = h - h_i; the step is h, the mean of every device's last update, new ones put in
  kUnbiased,  // the same c and h; in the step the new ones stand for the fleet: d = h + mean of what is new in them
};
// Who is asked in a round, and what an answer weighs then: server/run/participation.h.
enum class Participation : uint8_t { kAll, kSchemeOne, kSchemeTwo };
enum class ParticipationWeights : uint8_t { kCounted, kTrue, kBiased };
// eta_k of round k, from step_size, step_decay, step_offset and step_period; 000 equations (5.2) and (4.24).
enum class StepRule : uint8_t {
  kInverse,          // step_size / (1 + step_decay k)
  kFixed,            // step_size
  kPrinted,          // (5.2) as printed: step_size for k = 0, else step_size / (step_offset + floor(k / step_period))
  kCode,             // (5.2) as its authors run it: step_size for k < step_period, else as printed
  kHarmonic,         // (4.24): step_size / (step_offset + k), with kappa = step_size and gamma = step_offset
  kBarzilaiBorwein,  // 002, RFedSVRG-2BBS: 1 / curvature within [step_min, step_max], by K; first round: step_size by K
};
// What the server makes of an update that was made at an older model: server/rules/delay_correction.h. kNone: the
// weighted mean of a version's updates, as the solver's own rule says.
enum class DelayRule : uint8_t {
  kNone,
  kAsgd,
  kFedAsync,
  kDcAsgd,
  kDcAdaptive,
  kDcRank1,
  kOrthoGrad,
  kOrthoPos,
  kOrthoStrict
};
// What an asynchronous run goes over to late_delay_rule by (OrthoDyn, 004): a version, or a statistic of its updates,
// with b and delta as server/rules/delay_correction.h has them. Both fall as the devices' steps turn from a common way
// to noise around a point: the run switches when their moving mean is down at delay_switch_at.
enum class DelaySwitchBy : uint8_t {
  kVersion,
  kCosine,      // of the angle between the displacement delta and the drift b
  kDriftRatio,  // |b| / |delta|
};
// What devices subtract from each column of their samples, and what they multiply it by, before they train
// (server/run/units_keys.h).
enum class Centre : uint8_t {
  kNone,
  kFederated,  // the mean of the column over the whole fleet
};
enum class UnitScale : uint8_t {
  kNone,
  kCommon,     // one factor for all columns: 1 / root of the total variance
  kDeviation,  // 1 / deviation of the column
  kRange,      // 1 / (largest - least value of the column)
};
// Which iterate of its local path a device sends (002, options 1 and 2).
enum class Iterate : uint8_t { kLast, kUniform };

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_CHOICES_H_
