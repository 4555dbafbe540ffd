// Experiments from their cases to their verdicts, on several threads: beside the last cases of one experiment run the
// first ones of the next, so that no thread waits for a long case. What is printed comes experiment by experiment all
// the same, each with "result: name=..." as its last line.
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_CAMPAIGN_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_CAMPAIGN_H_

#include <span>
#include <string>
#include <vector>

#include "experiments/harness/compare.h"
#include "experiments/harness/experiment.h"
#include "experiments/harness/harness.h"

namespace gradstream {

// Whether a server and clients can train it: by a run's parameters, and nothing of the experiment's own.
inline bool has_network_run(const Case& one) {
  return !one.train && !one.tabulate && !one.arrive && !one.hook && one.has_client_problem;
}

struct CampaignOptions {
  HarnessOptions harness;
  uint32_t thread_count = 1;
  std::string case_part;       // only cases whose key contains it; an experiment is then not judged
  std::string network_folder;  // where files for a run over TLS go (network.h); empty: nowhere
  // Takes what the experiments gave to the means of several seeds, its name before each; null: nobody wants it.
  std::vector<MeanPart>* mean_parts = nullptr;
};

enum class Outcome {
  kPassed,
  kFailed,
  kSkipped,     // its data are not there
  kNoSuchCase,  // none contains case_part
};

inline constexpr const char* kPrecisionName = kIsDouble ? "double" : "float";

// The outcomes, in the order of the experiments.
std::vector<Outcome> run_experiments(std::span<const Experiment* const> experiments, const CampaignOptions& options);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_CAMPAIGN_H_
