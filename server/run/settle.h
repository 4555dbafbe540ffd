// Values of keys that a configuration leaves out, where the best value follows from the other keys: the solver, the
// problem and the shape of the model.
//
//   configuration -> RunParameters with the defaults of its groups -> settle_defaults() -> the run that begins
//
// It is asked where a configuration is read, and nowhere else. A run that is read back from a database has all its
// keys, and one that an older release began keeps the defaults of RunParameters.
#ifndef GRADSTREAM_SERVER_RUN_SETTLE_H_
#define GRADSTREAM_SERVER_RUN_SETTLE_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "server/run/run_parameters.h"

namespace gradstream {

// Names of keys of [run].
using KeyNames = std::set<std::string, std::less<>>;

struct SettledKey {
  std::string name;
  std::string reason;  // for people, behind "default for": "problem kpca"
};

// Gives a value to each key that is not among `given` and whose default does not fit *run. It never makes a run of
// *run that check_parameters() refuses, if it did not refuse *run before. Requires that set_parts() was called.
// Returns the keys whose value it changed.
std::vector<SettledKey> settle_defaults(RunParameters* run, const KeyNames& given);

// A sentence about a run whose upload has at least as many numbers as its model, with the keys to set; else empty.
std::string find_long_upload(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_SETTLE_H_
