// Keys of the fold: the fixed point of the sum, and what a device weighs in it.
#ifndef GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_
#define GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_

#include <cstdint>
#include <string>

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/choices.h"
#include "server/run/key.h"
#include "server/run/limits.h"

namespace gradstream {

struct RunParameters;

struct FoldKeys {
  static constexpr const char* kTitle = "Fold";

  // Fixed point of step 2^-fold_scale_log2; an update with a value beyond 2^(31 - fold_scale_log2) is refused.
  uint32_t fold_scale_log2 = 24;
  FoldWeight fold_weight = FoldWeight::kSampleCount;
  uint32_t fold_weight_max = 65535;  // cap on one device's weight, kSampleCount
  float weight_share_max = 1;        // cap on one update's share of a version's weight; 1: none

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"fold_scale_log2", "bits", from(0, kFoldScaleLog2Max),
              "The sum has this many bits behind the point, and values beyond 2^(31 - this) are refused."},
          keys.fold_scale_log2);
    visit(Key{"fold_weight", "", {}, "A device weighs as much as every other, or by its samples."}, keys.fold_weight);
    visit(Key{"fold_weight_max", "samples", from(1, kSampleCountMax), "A device weighs at most this many samples."},
          keys.fold_weight_max);
    visit(Key{"weight_share_max", "", above(0, 1),
              "One update has at most this share of the weight of a version; below 1 the server keeps updates until "
              "the version closes."},
          keys.weight_share_max);
  }
};

// Checks of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_fold(const RunParameters& run);
Objection check_weight_share(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_
