#include "server/run/quality_keys.h"

#include "server/run/check_range.h"
#include "server/run/run_parameters.h"

namespace gradstream {

Objection check_quality(const RunParameters& p) {
  if (Objection objection = check_range(p, "holdout_share")) {
    return objection;
  }
  const QualityKeys& keys = *p.quality;
  if (keys.holdout_share > 0 && keys.holdout() == 0) {
    return "holdout_share: less than one of 65,536 samples would be held out; set it to 0 or at least 0.0001";
  }
  if (keys.holdout() > UINT16_MAX) {
    return "holdout_share: no sample would be left to train on; lower it, such as to 0.2";
  }
  if (keys.evaluation_period > 0 && keys.holdout() == 0) {
    return "evaluation_period, holdout_share: devices evaluate on the samples that they hold out, and hold none; set "
           "holdout_share, such as to 0.2, or evaluation_period to 0";
  }
  return {};
}

}  // namespace gradstream
