// A case as files that the real server and native clients take: what ./run experiment --network runs over TLS.
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_NETWORK_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_NETWORK_H_

#include <string>

#include "experiments/harness/experiment.h"

namespace gradstream {

// Time is real over TLS: a round that waits for everybody in the simulator's virtual time must not end by its deadline
// because a process was slow. Reason: longer than a busy machine takes for a round, within a case's time.
inline constexpr uint32_t kNetworkDeadlineMs = 60000;

// Writes folder/run.toml (the section [run], with a deadline of at least kNetworkDeadlineMs), folder/start.csv (the
// first model) and folder/<index>.gsd (the samples of each device, firmware/float_shard.h). False: a file cannot be
// written.
bool write_network_case(const std::string& folder, const RunParameters& parameters, const Workload& workload);

// What clients need besides: lambda of multitask learning, 0 for any other problem.
Real network_ridge(const Workload& workload);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_NETWORK_H_
