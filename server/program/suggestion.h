// What a table says about a run on it: units, step sizes and the least loss that a run can reach. `gradstream run
// suggest` prints it.
//
// The losses are those of runtime/problem/: kpca -1/2 mean |X' z|^2, least_squares 1/2 mean |X' a - b|^2, and logistic
// with its mean of -ln p(label). z is a sample without its units: (x - mean) * factor, as the devices of a run compute
// it. All of it is computed in double.
#ifndef GRADSTREAM_SERVER_PROGRAM_SUGGESTION_H_
#define GRADSTREAM_SERVER_PROGRAM_SUGGESTION_H_

#include <cstdint>
#include <vector>

#include "host/table.h"
#include "server/base/objection.h"

namespace gradstream {

// What a column is divided by once units are taken out.
enum class UnitScale : uint8_t {
  kNone,
  kCommon,     // the root of the total variance, one for all columns
  kDeviation,  // the root of the column's variance
  kRange,      // its greatest value less its least one
};
// As a run takes units out of its first `column_count` values of a sample.
struct UnitPlan {
  bool is_centred = false;
  UnitScale scale = UnitScale::kNone;
  bool keeps_constants = false;  // a column that does not vary keeps its mean: problems with labels or targets
  uint32_t column_count = 0;
};

// Values of a model beyond which no Newton step is computed. Reason: the matrix of its equations has 8 MB then.
inline constexpr uint32_t kNewtonSizeMax = 1024;
// Newton steps at most. Reason: a dozen are enough where the loss has a minimum, and none is where it has not.
inline constexpr uint32_t kNewtonStepMax = 50;

struct BestLoss {
  bool is_known = false;      // false: the model is too large to compute it
  double loss = 0;            // the least of the mean loss over all samples
  double smoothness = 0;      // L: the largest curvature of the loss
  double share = 0;           // kpca: the explained share of the second moment, 0 to 1
  bool is_separated = false;  // logistic: the loss falls for ever, towards 0
  uint32_t newton_step_count = 0;
};

// Takes the units out of the table's values, in place.
void take_units_out(const UnitPlan& plan, SampleTable* table);

// Each of them is of a table whose units are out. Requires: rows, and cols or the label, are the table's.
BestLoss best_kpca(const SampleTable& table, uint32_t cols);
// The last `cols` values of a sample are targets.
BestLoss best_least_squares(const SampleTable& table, uint32_t cols);
// The last value of a sample is its label, a whole number below 2 (one column) or below cols.
BestLoss best_logistic(const SampleTable& table, uint32_t cols);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_SUGGESTION_H_
