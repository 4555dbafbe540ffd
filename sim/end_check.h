// What must hold of a simulated run that has come to its end: the journal alone tells all of it.
#ifndef GRADSTREAM_SIM_END_CHECK_H_
#define GRADSTREAM_SIM_END_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/journal/store.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// Updates of the journal that were folded.
struct FoldedCounts {
  uint64_t late = 0;     // of an older version
  uint64_t partial = 0;  // of fewer steps than the run's
  uint64_t lines = 0;    // with a line, in training
};

// Empty, or a sentence on the first thing that does not hold: the journal replays, and then `replayed` has the state of
// `live`; where all_are_waited_for, every version holds the update of every asked device exactly once.
// replayed: a coordinator of the same run and devices that has seen nothing yet.
std::string check_end_of_run(const RunParameters& parameters, const std::vector<JournalRecord>& journal,
                             const Coordinator& live, bool all_are_waited_for, Coordinator* replayed,
                             FoldedCounts* counts);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_END_CHECK_H_
