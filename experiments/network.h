// A case as files that the real server and native clients take: what ./run experiment --network runs over TLS.
#ifndef GRADSTREAM_EXPERIMENTS_NETWORK_H_
#define GRADSTREAM_EXPERIMENTS_NETWORK_H_

#include <string>

#include "experiments/experiment.h"

namespace gradstream {

// Writes folder/run.toml (the section [run]), folder/start.csv (the first model) and folder/<index>.gsd (the samples of
// each device, firmware/float_shard.h). False: a file cannot be written.
bool write_network_case(const std::string& folder, const RunParameters& parameters, const Workload& workload);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_NETWORK_H_
