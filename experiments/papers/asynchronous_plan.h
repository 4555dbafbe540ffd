// What X14 compares: the speeds of devices, the rules of the server, the plan of each workload, and the keys of cases.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_PLAN_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_PLAN_H_

#include <array>
#include <cstdint>
#include <string>

#include "experiments/harness/experiment.h"
#include "experiments/workloads/data_network.h"
#include "server/run/run_parameters.h"

namespace gradstream {

inline constexpr uint32_t kAsyncStepCount = 400;         // server steps of the rules
inline constexpr uint32_t kAsyncEarly = 50;              // where the rules are compared first
inline constexpr uint32_t kAsyncStride = 10;             // steps of the rules from one measure to the next
inline constexpr uint32_t kAsyncSeedCount = 6;           // of every rule
inline constexpr uint32_t kAsyncReferenceSeedCount = 3;  // the first of them, of seed 1, are the reference's
inline constexpr double kAsyncServerStep = 0.6;
inline constexpr double kAsyncLocalStep = 0.1;
// Of the Lorentzian term (004, equation (24)), which the report prescribes without a figure: mu and sigma.
inline constexpr double kAsyncProximal = 0.1;
inline constexpr double kAsyncSigma = 1;
// staleness_max of these runs, in versions. Reason: more than the slowest of kAsyncSpeeds is behind, so that nothing of
// it is refused.
inline constexpr uint32_t kAsyncStalenessMax = 256;

// How fast the devices are: a minibatch takes 1 / speed.
struct AsyncSpeeds {
  const char* name;
  std::array<double, kNetworkDeviceCount> speeds;
};
inline constexpr AsyncSpeeds kAsyncSpeeds[] = {{"equal", {1, 1, 1, 1, 1, 1, 1, 1}},
                                               {"mixed", {1, 1, 1, 1, 0.5, 0.5, 0.25, 0.1}}};

// What stepwise, curve and connection do with a workload.
struct AsyncPlan {
  const char* prefix;         // of their keys
  uint32_t step_count;        // of the server
  uint32_t epoch_count;       // pairs of epochs in a device's curve task
  uint32_t stride;            // steps from one measure of a method to the next
  uint32_t stepwise_every;    // from one saved version to the next
  uint32_t connection_every;  // from one connection to the next
  uint32_t part_count;        // of a connection
  uint32_t control_every;     // from one curve that is corrected in all ways to the next; 0: none is
  bool is_curve_cheap;        // that the curve costs nothing is a criterion of seed 1; else a claim
  bool has_run;               // on the real data: that every method learns is a criterion; else a claim
};
inline constexpr AsyncPlan kDigitsPlan = {"", 400, 5, 10, 10, 40, 10, 20, true, true};
// Few steps: one takes a device through all its images, 250 to 2,000 of them, twice.
inline constexpr AsyncPlan kMnistPlan = {"mnist/", 32, 1, 4, 3, 8, 4, 0, false, true};
inline constexpr AsyncPlan kFemnistPlan = {"femnist/", 32, 1, 4, 3, 8, 4, 0, false, false};

// A rule of the server.
struct AsyncRule {
  const char* name;
  DelayRule early;
  DelayRule late;  // from the middle of the run on
};
inline constexpr AsyncRule kAsyncRules[] = {{"FedAsync", DelayRule::kFedAsync, DelayRule::kFedAsync},
                                            {"ASGD", DelayRule::kAsgd, DelayRule::kAsgd},
                                            {"OrthoGrad", DelayRule::kOrthoGrad, DelayRule::kOrthoGrad},
                                            {"OrthoPos", DelayRule::kOrthoPos, DelayRule::kOrthoPos},
                                            {"OrthoStrict", DelayRule::kOrthoStrict, DelayRule::kOrthoStrict},
                                            {"OrthoDyn", DelayRule::kOrthoGrad, DelayRule::kOrthoPos},
                                            {"DC-ASGD", DelayRule::kDcAdaptive, DelayRule::kDcAdaptive}};

// OrthoDyn that switches by a statistic of its updates, not at the middle of the run; of `rules` alone.
struct AsyncSwitch {
  const char* name;
  DelaySwitchBy by;
  double at;
};
inline constexpr AsyncSwitch kAsyncSwitches[] = {{"OrthoDyn-cosine.2", DelaySwitchBy::kCosine, 0.2},
                                                 {"OrthoDyn-cosine.4", DelaySwitchBy::kCosine, 0.4},
                                                 {"OrthoDyn-drift3", DelaySwitchBy::kDriftRatio, 3}};

// By its name, one of kAsyncRules.
const AsyncRule& async_rule(const std::string& name);

// A run of X14: every update is a version, whatever its age, and weighs the same. The harness fills the rest.
RunParameters async_parameters(uint32_t step_count);
// The same under a rule; the rule's second half begins in the middle of the run's versions.
RunParameters under_rule(RunParameters parameters, const AsyncRule& rule);
RunParameters under_switch(RunParameters parameters, const AsyncSwitch& rule);
// The same with the Lorentzian term in devices' losses, the dominance penalty and an average of versions (SWA).
RunParameters with_all_terms(RunParameters parameters);
// The same of the curve solver, which works that many pairs of epochs.
RunParameters along_curve(RunParameters parameters, uint32_t epoch_count);
// FedAvg: rounds of all devices, which weigh by their samples; the mean of their displacements is the step.
RunParameters in_rounds(RunParameters parameters);

// The first of the seeds that a request covers, kAsyncSeedCount of them.
uint32_t first_async_seed(const Request& request);

// Keys of cases. A rule is named alike in rules/ and stepwise/, so that it looks the same in both pictures.
std::string async_rule_key(const AsyncSpeeds& speeds, const std::string& rule, uint32_t seed);
// base: the method whose run is looked at.
std::string async_stepwise_key(const AsyncPlan& plan, const AsyncSpeeds& speeds, const std::string& base,
                               const std::string& rule, uint32_t seed);
std::string async_method_key(const AsyncPlan& plan, const AsyncSpeeds& speeds, const std::string& method);
std::string async_connection_key(const AsyncPlan& plan, bool by_curve);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_PLAN_H_
