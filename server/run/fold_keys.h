// Keys of the fold: the fixed point of the sum, and what a device weighs in it.
#ifndef GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_
#define GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_

#include <cstdint>
#include <string>

#include "runtime/base/config.h"
#include "server/base/enum_names.h"
#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"

namespace gradstream {

struct OwnRule;
struct RunParameters;

// clip_factor counts in parts of this: 64 to 65,535 of them.
inline constexpr uint32_t kClipFactorOne = 256;

struct FoldKeys : FoldCore {
  static constexpr const char* kTitle = "Fold";

  ClipNorm clip_norm = ClipNorm::kNone;
  float clip_factor = 4;
  float clip_norm_value = 0;  // kFixed, in the units of an update's values
  uint32_t clip_window = 3;
  // No key: a simulation's own aggregation (server/rules/aggregator_own.h), which outlives the run. Null: there is
  // none.
  const OwnRule* own_rule = nullptr;

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
    visit(Key{"clip_norm",
              "",
              {},
              "An update that is longer than the radius is scaled to it: a fixed one, or one by the median of the "
              "updates' norms (`docs/algorithms.md`)."},
          keys.clip_norm);
    visit(Key{"clip_factor", "", from(0.25, 65535.0 / kClipFactorOne),
              "The radius is so many times the median; it counts in 256ths."},
          keys.clip_factor);
    visit(Key{"clip_norm_value", "", from(0), "The radius of `clip_norm` `fixed`."}, keys.clip_norm_value);
    visit(Key{"clip_window", "versions", from(1, kClipWindowMax),
              "The median is over the norms of so many closed versions; `median` adds those of the open one."},
          keys.clip_window);
  }
};

// clip_factor in 256ths.
uint32_t clip_factor256(const FoldKeys& keys);
// R of clip_norm fixed in units of the fold's fixed point.
uint64_t fixed_clip_radius(const FoldKeys& keys);
// Updates that a version may have for its clip: those that it keeps, or whose norms it knows.
uint32_t clip_update_count_max(const RunParameters& run);
// Updates of a version whose values a clip keeps at most.
uint32_t clip_kept_count_max(const RunParameters& run);
// Why the clip of a version's updates by its own median does not hold for the run; empty: it does. For people.
std::string median_clip_obstacle(const RunParameters& run);

// Checks of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_weight_share(const RunParameters& run);
Objection check_clip(const RunParameters& run);
Objection check_own_rule(const RunParameters& run);
// That no version wants more updates than a rule may keep.
Objection check_kept_updates(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_FOLD_KEYS_H_
