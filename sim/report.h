// Runs the schedules that a command line asks for, and says in one line what came of them.
#ifndef GRADSTREAM_SIM_REPORT_H_
#define GRADSTREAM_SIM_REPORT_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "sim/arguments.h"
#include "sim/simulation.h"

namespace gradstream {

// Of all schedules.
struct Total {
  SimResult sum;  // version and model: of the last one
  std::set<uint64_t> digests;
  uint32_t schedules = 0;
  uint32_t broken = 0;
  uint32_t first_broken = 0;
};

// say: gets a line, without its end, for each schedule in which an invariant was broken.
using Say = std::function<void(const std::string& line)>;
Total run_schedules(const Arguments& arguments, const Say& say);

// Whether all that was asked for holds. *line: "result: ..." with the counts; say: as above.
bool report(const Arguments& arguments, const Total& total, const Say& say, std::string* line);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_REPORT_H_
