// The settings of the independent reference of X14: each rule with three splits of the data, two speeds, with and
// without the dominance penalty (experiments/reference/X14.txt).
//
//   settings/SPLIT/SPEEDS/PENALTY/RULE/sN   SPLIT iid, half or sorted; PENALTY plain or penalty
//
// Those of iid data without the penalty are the cases rules/..., which follow these keys' lines.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_SETTINGS_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_SETTINGS_H_

#include <string>
#include <vector>

#include "experiments/harness/experiment.h"
#include "experiments/papers/asynchronous_plan.h"

namespace gradstream {

// Seeds of each setting, the first of the request's. Reason: the reference has two.
inline constexpr uint32_t kAsyncSettingSeedCount = 2;

// Adds, in the double build, the settings that rules/... has not. The float build would take a minute more for them.
void add_async_settings(const Request& request, std::vector<Case>* cases);

// The line that a case of rules/... follows; kNoReference where the reference's rule has another form (DC-ASGD).
std::string plain_setting_key(const AsyncSpeeds& speeds, const AsyncRule& rule, uint32_t seed);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_SETTINGS_H_
