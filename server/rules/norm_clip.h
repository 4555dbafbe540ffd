// How long an update is, and how much of it a version lets through. All numbers are whole, so that one aggregator or
// eight, before or after a crash, on any machine, clip alike.
//
//   N = ceil(sqrt(k sum x^2))               update_norm: x the fold's fixed-point values of s / k, k the steps done
//   R = lower median of N * factor256 >> 8  clip_radius: the norms in any order
//   r = floor(2^31 R / N)                   clip_scale: 2^31 where N <= R
//   x <- sign(x) (|x| r >> 31)              clip_value (runtime/training/clip.h): never longer than R
//
// The k under the root measures partial work as whole work is: the steps' sum over sqrt(k). docs/algorithms.md, "The
// clip", says which norms a median is taken of. No heap.
#ifndef GRADSTREAM_SERVER_RULES_NORM_CLIP_H_
#define GRADSTREAM_SERVER_RULES_NORM_CLIP_H_

#include <cstdint>
#include <span>

#include "runtime/training/clip.h"
#include "server/rules/wide_int.h"

namespace gradstream {

// The radius that clips nothing: a norm is below 2^63.
inline constexpr uint64_t kNoClipRadius = UINT64_MAX;

// sum x^2, for values that come one by one. |value| < 2^kFoldValueBits, less than 2^32 of them.
class SquareSum {
 public:
  void add(int64_t value) { sum_ += value * value; }
  // N, in the units of the values, below 2^63. steps_done > 0. 0: all values are 0.
  uint64_t norm(uint32_t steps_done) const;

 private:
  WideInt sum_;
};
// N of these values.
uint64_t update_norm(std::span<const int64_t> values, uint32_t steps_done);

// The element (count - 1) / 2 of the sorted norms. Their order changes. At least one norm.
uint64_t lower_median(std::span<uint64_t> norms);

// R of the norms whose lower median is `median`; factor256: in 256ths. kNoClipRadius: R does not fit 64 bits,
// or the median is 0, which says nothing of how long an update may be.
uint64_t clip_radius(uint64_t median, uint32_t factor256);

// r. norm < 2^63.
uint32_t clip_scale(uint64_t norm, uint64_t radius);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_NORM_CLIP_H_
