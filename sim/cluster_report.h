// Runs the schedules of several nodes that a command line asks for, and says in one line what came of them.
#ifndef GRADSTREAM_SIM_CLUSTER_REPORT_H_
#define GRADSTREAM_SIM_CLUSTER_REPORT_H_

#include <string>

#include "sim/arguments.h"
#include "sim/report.h"

namespace gradstream {

// Whether all that was asked for holds: no schedule is broken, and all end in the digest of one server. Of a planted
// fault: a schedule finds it. *line: "result: ..." with the counts. say: as of run_schedules().
bool run_clusters(const Arguments& arguments, const Say& say, std::string* line);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_CLUSTER_REPORT_H_
