// Keys of the fold: the fixed point of the sum, and what a device weighs in it.
#ifndef GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_
#define GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

struct FoldKeys : FoldCore {
  static constexpr const char* kTitle = "Fold";

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
Objection check_weight_share(const RunParameters& run);
// That no version wants more updates than a rule may keep.
Objection check_kept_updates(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_
