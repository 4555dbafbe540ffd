// All keys of a run, group by group. Their order is that of the canonical text, so that it never changes: a new key
// stands behind the others of its group, and a digest takes it in only where it is not at its default.
#ifndef GRADSTREAM_SERVER_RUN_VISIT_KEYS_H_
#define GRADSTREAM_SERVER_RUN_VISIT_KEYS_H_

#include <type_traits>

#include "server/run/average_keys.h"
#include "server/run/constant_keys.h"
#include "server/run/delay_keys.h"
#include "server/run/fold_keys.h"
#include "server/run/key.h"
#include "server/run/local_keys.h"
#include "server/run/model_keys.h"
#include "server/run/pace_keys.h"
#include "server/run/participation_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/run_parameters.h"
#include "server/run/step_keys.h"
#include "server/run/trigger_keys.h"
#include "server/run/units_keys.h"
#include "server/run/wire_keys.h"

namespace gradstream {

// Calls visit(group) for every group in order.
template <typename Parameters, typename Visit>
void visit_groups(Parameters& p, Visit&& visit) {
  visit(p.model.keys());
  visit(p.local.keys());
  visit(p.steps.keys());
  visit(p.wire.keys());
  visit(p.fold.keys());
  visit(p.cohort.keys());
  visit(p.trigger.keys());
  visit(p.delay.keys());
  visit(p.average.keys());
  visit(p.constants.keys());
  visit(p.pace.keys());
  visit(p.units.keys());
  visit(p.quality.keys());
}

// Calls visit(key, field) for the two keys that stand in no group.
template <typename Parameters, typename Visit>
void visit_own_keys(Parameters& p, Visit& visit) {
  visit(Key{"name", "characters", from(1, kRunNameSizeMax), "People see this name in logs, lists and on the page."},
        p.name);
  visit(Key{"seed", "", {}, "All random directions, minibatches and the first model follow from this number."}, p.seed);
}

// Calls visit(key, field) for every key. Parameters may be const: then fields are.
template <typename Parameters, typename Visit>
void visit_keys(Parameters& p, Visit&& visit) {
  visit_own_keys(p, visit);
  visit_groups(p, [&visit](auto& group) { std::remove_cvref_t<decltype(group)>::visit(group, visit); });
}

// The same by the key's name alone.
template <typename Parameters, typename Visit>
void visit_fields(Parameters& p, Visit&& visit) {
  visit_keys(p, [&visit](const Key& key, auto& field) { visit(key.name, field); });
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_VISIT_KEYS_H_
