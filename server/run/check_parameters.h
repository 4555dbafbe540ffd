// The checks of a run's parameters: every combination is valid, or is refused with one sentence. An objection begins
// with the keys that disagree and ends with the remedy. Users see the sentences, and tests
// and documents quote them. The checks themselves stand with their keys, in the source of each group.
#ifndef GRADSTREAM_SERVER_RUN_CHECK_PARAMETERS_H_
#define GRADSTREAM_SERVER_RUN_CHECK_PARAMETERS_H_

#include <string>

#include "server/base/objection.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// Every combination is valid or refused here.
Objection check_parameters(const RunParameters& parameters);
// The same of a run that is to begin, with what would only waste its devices' work: one that an older release began so
// goes on.
Objection check_new_run(const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_CHECK_PARAMETERS_H_
