// What the caller of a simulation makes of the updates of one version, by a function that no journal has. A run with
// such a rule cannot be replayed from its journal, so that no configuration has it: only code can set it.
#ifndef GRADSTREAM_SERVER_RULES_AGGREGATOR_OWN_H_
#define GRADSTREAM_SERVER_RULES_AGGREGATOR_OWN_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/config.h"

namespace gradstream {

// One update, as the rule gets it.
struct OwnUpdate {
  uint32_t device = 0;        // enrolment index
  uint32_t base_version = 0;  // of the model that it was made from
  uint32_t steps_done = 0;
  uint16_t weight = 0;       // W_i, staleness included
  std::vector<Real> values;  // zeta_i / k_i at the open version's model, rows * cols
};

struct OwnRule {
  // What takes the place of the mean of the values: rows * cols numbers to out. model: of the open version. The updates
  // are in the order of their devices, and of their base versions. False: there is none, and the version stands still.
  // It must be a function of its arguments: a server that crashed asks again.
  std::function<bool(uint32_t version, const Real* model, std::span<const OwnUpdate> updates, Real* out)> combine;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_AGGREGATOR_OWN_H_
