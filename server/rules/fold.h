// The exact fold: a weighted mean in fixed point, the same bits in any order of arrival.
//
//   term <- weight * round(value * 2^scale_log2)                 make_terms, once for each update
//   slot <- slot + term                                          add_terms, any number of updates, any order
//   out   = round(slot / total weight) / 2^scale_log2            finish: one integer division, one conversion
//
// Both roundings are half away from zero. Between them there are only integers, so that one aggregator or eight, before
// or after a crash, have one result. A term has 64 bits and a slot 128, so that a version takes 2^31 updates of any
// value and weight. No heap: the caller owns the slots.
//
// The double build folds by plain sums in the order of add_terms(), since fixed point holds 31 bits of a value: it
// replays references, and no product links it.
#ifndef GRADSTREAM_SERVER_RULES_FOLD_H_
#define GRADSTREAM_SERVER_RULES_FOLD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "runtime/base/config.h"
#include "runtime/base/status.h"
#include "server/rules/norm_clip.h"
#include "server/rules/wide_int.h"
#include "server/run/limits.h"

namespace gradstream {

// What an update adds to a slot, and what a slot sums in.
using FoldTerm = std::conditional_t<sizeof(Real) == sizeof(float), int64_t, double>;
using FoldSlot = std::conditional_t<sizeof(Real) == sizeof(float), WideInt, double>;

// Whether make_terms() takes a value. kNotFinite; kOutOfRange as to_fixed (never in the double build).
Status check_fold_value(Real value, unsigned scale_log2);

// The fixed-point form of a value. kNotFinite; kOutOfRange when it is not below 2^kFoldValueBits in magnitude.
Status to_fixed(Real value, unsigned scale_log2, int64_t* fixed);

// What an update adds to a fold: terms[i] <- weight * clipped(fixed(values[i] / divisor)), for all values, by
// clip_value(). Codes of to_fixed, of the first value that it refuses; kInvalidArgument when weight is 0. On an error
// terms are unspecified.
Status make_terms(std::span<const Real> values, Real divisor, uint16_t weight, unsigned scale_log2, FoldTerm* terms,
                  uint32_t clip_scale = kClipScaleOne);

// What a clip finds of an update.
struct UpdateClip {
  uint64_t norm = 0;               // N
  uint32_t scale = kClipScaleOne;  // r
  friend bool operator==(const UpdateClip&, const UpdateClip&) = default;
};
// N of fixed(values / divisor) and r within the radius. Without a radius nothing is measured. Codes of to_fixed, and on
// an error *out is unspecified.
Status measure_clip(std::span<const Real> values, Real divisor, uint32_t steps_done, unsigned scale_log2,
                    std::optional<uint64_t> radius, UpdateClip* out);

// The quotient rounded half away from zero; divisor > 0, |sum| < 2^62. server/rules/wide_int.h has that of wider sums.
int64_t divide_rounded(int64_t sum, uint64_t divisor);

class Fold {
 public:
  // The slots stay the caller's and outlive the fold; they are cleared. scale_log2 <= kFoldScaleLog2Max.
  Fold(std::span<FoldSlot> slots, unsigned scale_log2);

  // Sums to zero, for the next version.
  void clear();

  // Whether add_terms() may be called with these, from the first slot on. kInvalidArgument when the slots do not reach
  // so far; kOutOfRange when a sum would reach 2^kFoldSumBits, kNotFinite when one would be infinite in the double
  // build.
  Status check_terms(std::span<const FoldTerm> terms) const;
  // Adds what check_terms() has passed since the last sum changed.
  void add_terms(std::span<const FoldTerm> terms);
  // The same of another fold's slots, for sums that were made apart.
  Status check_sums(std::span<const FoldSlot> sums) const;
  void add_sums(std::span<const FoldSlot> sums);

  // out[i] <- the mean of slot i under total_weight, for every slot. kInvalidArgument when total_weight is 0. The sums
  // stay. total_weight < 2^63, and in magnitude each mean of a slot is too.
  Status finish(uint64_t total_weight, Real* out) const;

  // Finish for slots [first, first + count), for callers that emit a record in pieces. Codes as finish;
  // kInvalidArgument also when the slots do not reach so far.
  Status finish_part(uint64_t total_weight, size_t first, size_t count, Real* out) const;

  std::span<const FoldSlot> slots() const { return slots_; }

 private:
  std::span<FoldSlot> slots_;
  unsigned scale_log2_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_FOLD_H_
