// The checks of a run's parameters: every combination is valid, or is refused with one sentence. A sentence begins with
// the keys that disagree and ends with the remedy; "" means that nothing was found. Users see the sentences, and tests
// and documents quote them.
#ifndef GRADSTREAM_SERVER_RUN_CHECK_PARAMETERS_H_
#define GRADSTREAM_SERVER_RUN_CHECK_PARAMETERS_H_

#include <string>

#include "server/run/run_parameters.h"

namespace gradstream {

// Every combination is valid or refused here with a sentence that names the keys and the remedy; empty: valid.
std::string check_parameters(const RunParameters& parameters);
// The same of a run that is to begin, with what would only waste its devices' work: one that an older release began so
// goes on.
std::string check_new_run(const RunParameters& parameters);

// The parts of check_parameters(), each of many checks in a fixed order, of which the first that finds something
// speaks. The order decides which of several faults a user is told, and later checks compute with what earlier ones
// have found sound: call check_model() after check_work(), and check_policy() after both.
//
// Of what a device does: solver, estimator, batches, proximal term, steps, and what it uploads.
std::string check_work(const RunParameters& parameters);
// Of the point and what is minimised: name, manifold and its variant, parts, shape, problem.
std::string check_model(const RunParameters& parameters);
// Of what the server does with answers: fold, groups, participation, straggler policy, delay rules, averages, pace.
std::string check_policy(const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_CHECK_PARAMETERS_H_
