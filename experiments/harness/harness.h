// Runs an experiment's case in the simulator, and writes what came out.
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_HARNESS_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_HARNESS_H_

#include <string>
#include <vector>

#include "experiments/harness/experiment.h"

namespace gradstream {

// Of HarnessOptions::nudged_entry.
inline constexpr uint32_t kNudgeNone = UINT32_MAX;
inline constexpr uint32_t kNudgeAll = UINT32_MAX - 1;  // every entry, up and down in turn

struct HarnessOptions {
  Request request;
  std::string results_folder;             // NAME/seedS/ is made below it; empty: nothing is written
  uint32_t round_count_max = UINT32_MAX;  // cases are cut to so many rounds
  // This entry of the first model, by its index, is moved by one unit in its last place: how far the curve moves then
  // is how much of it rounding decides.
  uint32_t nudged_entry = kNudgeNone;
};

// The parameters of a case as the run has them: name, seed, model and problem filled in from the workload.
RunParameters complete_parameters(const Case& one, const Request& request);
// The first model as the runtime takes it.
std::vector<Real> start_of(const Workload& workload);

// One case in the simulator. A fault, also of parameters that no server would accept, stands in Curve::fault.
Curve run_case(const Case& one, const HarnessOptions& options);

// Of the processor, of the calling thread.
double thread_seconds();

// A key as a file's name: with _ for /.
std::string case_file_name(std::string key);

// results_folder/NAME/seedS/CASE.csv: round,excess,grad_norm,bytes_up,bytes_down. False: cannot be written.
bool write_csv(const std::string& folder, const std::string& key, const Curve& curve, const char* axis = "round");

// Curves side by side in a picture. Reason for more than one panel: more than ten curves hide each other.
struct Panel {
  std::vector<std::string> keys;
  std::string prefix;  // that all keys begin with, up to a slash; curves are named by what comes after it
};
// By Experiment::shown. A word that matches no key makes no panel; if none does, all keys are in one.
std::vector<Panel> panels_of(const Experiment& experiment, const std::vector<std::string>& keys);

// other.csv (case,round,value) where a case has one, and picture.gp, from which gnuplot makes the picture: a panel
// beside the other, and what has the same name in several of them in the same colour, dash and marker; no two names
// have the same three.
bool write_picture(const std::string& folder, const Experiment& experiment, const Curves& curves);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_HARNESS_H_
