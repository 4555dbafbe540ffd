// Runs an experiment's case in the simulator, and writes what came out.
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_H_

#include <string>

#include "experiments/experiment.h"

namespace gradstream {

struct HarnessOptions {
  Request request;
  std::string results_folder;             // NAME/seedS/ is made below it; empty: nothing is written
  uint32_t round_count_max = UINT32_MAX;  // cases are cut to so many rounds
  // This entry of the first model, by its index, is moved by one unit in its last place: how far the curve moves then
  // is how much of it rounding decides. UINT32_MAX: none.
  uint32_t nudged_entry = UINT32_MAX;
};

// The parameters of a case as the run has them: name, seed, model and problem filled in from the workload.
RunParameters complete_parameters(const Case& one, const Request& request);
// The first model as the runtime takes it.
std::vector<Real> start_of(const Workload& workload);

// One case in the simulator. A fault, also of parameters that no server would accept, stands in Curve::fault.
Curve run_case(const Case& one, const HarnessOptions& options);

// A key as a file's name: with _ for /.
std::string case_file_name(std::string key);

// results_folder/NAME/seedS/CASE.csv: round,excess,grad_norm,bytes_up,bytes_down. False: cannot be written.
bool write_csv(const std::string& folder, const std::string& key, const Curve& curve, const char* axis = "round");
// other.csv (case,round,value) where a case has one, and picture.gp, from which gnuplot makes the picture.
bool write_picture(const std::string& folder, const Experiment& experiment, const Curves& curves);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_H_
