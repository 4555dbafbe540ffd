// Keys of quality: which samples devices hold out of training, and when they say how the model fares on them.
#ifndef GRADSTREAM_SERVER_RUN_QUALITY_KEYS_H_
#define GRADSTREAM_SERVER_RUN_QUALITY_KEYS_H_

#include <cstdint>

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/key.h"

namespace gradstream {

struct RunParameters;

struct QualityKeys {
  static constexpr const char* kTitle = "Quality";

  Real holdout_share = 0;
  uint32_t evaluation_period = 0;  // 0: never

  // holdout_share as devices get it: so many of 65,536 sample numbers are held out.
  uint32_t holdout() const { return static_cast<uint32_t>(holdout_share * 65536 + static_cast<Real>(0.5)); }

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"holdout_share", "", from_below(0, 1),
              "Devices hold this share of their samples out of training, by the samples' numbers."},
          keys.holdout_share);
    visit(Key{"evaluation_period",
              "rounds",
              {},
              "In every so many rounds, from the first on, devices evaluate the model on these samples; 0: never."},
          keys.evaluation_period);
  }
};

// A check of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_quality(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_QUALITY_KEYS_H_
