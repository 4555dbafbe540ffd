// The ranges of a run's keys. The line of a key in its group says the range once, and every check reads it there. A
// number must be finite besides. An objection has the key's name, what it needs and what it is.
#ifndef GRADSTREAM_SERVER_RUN_CHECK_RANGE_H_
#define GRADSTREAM_SERVER_RUN_CHECK_RANGE_H_

#include <string_view>

#include "server/base/objection.h"

namespace gradstream {

struct RunParameters;

// Of the key of this name, whatever runs its range belongs to. For the checks of a group.
Objection check_range(const RunParameters& run, std::string_view name);

// Of all keys whose range belongs to every run: the first that is out of it.
Objection check_ranges(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_CHECK_RANGE_H_
