// The folds of the stages EXPONENTS, SUMS and SQUARES: what all devices together say of the columns of their samples.
// With e the fleet's exponent of a column, n a device's samples, N all samples (docs/wire.md, section 14):
//
//   EXPONENTS  e_i = the least whole number with abs(x) < 2^e_i          e = the largest of the devices'
//   SUMS       q = x 2^(30 - e) in whole numbers, S = sum of q          mean = f32 nearest to (sum of S / N) 2^(e - 30)
//   SQUARES    r = (x - mean) 2^(22 - e) in whole numbers, sum of r^2   variance = (sum / N) 2^(2 (e - 22))
//
// All sums are whole numbers: no order of the answers changes a bit. The numbers that are left over are + - * / and
// sqrt of doubles in the order of the columns, the same on all processors.
//
// Who is beyond belief shows when all have answered. So the answers are kept until the stage closes: 8 bytes a word.
#ifndef GRADSTREAM_SERVER_RULES_UNITS_FOLD_H_
#define GRADSTREAM_SERVER_RULES_UNITS_FOLD_H_

#include <cstdint>
#include <span>

#include "server/rules/stage_fold.h"

namespace gradstream {

// A device's exponent of a column is beyond belief this far above the fleet's median. Reason: further down nothing of
// the others' values is left in 30 bits.
inline constexpr int32_t kExponentSpread = 20;
// A device's mean of a column is beyond belief so many times the fleet's median distance from the fleet's median, if it
// is also this share of 2^e away. Reason for the second: shards that are sorted by label have means far apart. An
// eighth of 2^e would leave out 3 of 9 honest devices that hold sorted digits, and a half one of 10 with MNIST's.
inline constexpr double kMeanSpread = 8;
inline constexpr double kMeanReach = 0.75;
// Answers below which nobody is left out. Reason: of fewer no majority is believed against the rest.
inline constexpr size_t kExponentAnswersMin = 3;
inline constexpr size_t kMeanAnswersMin = 5;

// f32 nearest to numerator / denominator * 2^exponent, ties to even; at most the largest f32. denominator > 0.
float nearest_quotient(int64_t numerator, uint64_t denominator, int exponent);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_UNITS_FOLD_H_
