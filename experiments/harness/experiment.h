// The papers' experiments: what a case is, what it is held against, and what is said about it.
//
//   Experiment --cases()--> Case: run parameters + Workload --calm TimedFleet or real TLS--> Curve
//              --judge()--> Judgement: criteria (they decide) and the works' claims (confirmed or not, with evidence)
//
// A case whose key and seed stand in experiments/reference/ is also held to that curve point by point (compare.h).
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_EXPERIMENT_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_EXPERIMENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/harness/tube.h"
#include "experiments/workloads/workload.h"
#include "server/run/run_parameters.h"

namespace gradstream {

class TimedFleet;

// Case::reference_key of a case whose own line, if there is one, is of something that it does not compute.
inline constexpr const char* kNoReference = "none";

struct Request {
  uint32_t seed = 1;
  std::string data_folder;  // of data that are not part of the checkout
};

// One published version.
struct CurvePoint {
  uint32_t round = 0;
  Measures measures;
  uint64_t bytes_up = 0;  // all devices' frames since the beginning, without TLS
  uint64_t bytes_down = 0;
  double device_seconds = 0;  // processor time of all devices until then, of Case::times_devices
};

struct Case {
  // As in the reference, e.g. CPESph/fixed/K8/AGS; its CSV is named after it, with _ for /.
  std::string key;
  // Of a curve that it follows besides the one of its own key; kNoReference: it follows none.
  std::string reference_key;
  // All but name, seed, manifold, shape and device_count, which the harness fills from the workload.
  RunParameters parameters;
  std::shared_ptr<const Workload> workload;
  double stop_below = 0;  // the run ends early at a grad_norm not above this; 0: never
  uint32_t seed = 0;      // of the case's own, whatever the request's; 0: the request's
  // A case that trains nothing: its points, as they come out. Empty: the case is trained.
  std::function<std::vector<CurvePoint>()> tabulate;
  // Devices that the run may lose: a refusal is noted in Curve::refusal and ends nothing. The parameters say how many
  // answers a round needs at its deadline.
  bool may_lose_devices = false;
  // Samples that arrive during the run: called before the version of each round is measured and its tasks are made.
  // The workload is then this case's alone. Empty: devices hold what they hold.
  std::function<void(uint32_t round)> arrive;
  // Whether the processor time of devices is measured. Reason: it takes two calls of the system for each of their
  // turns.
  bool times_devices = false;
  // Called with the calm fleet before it runs, for its hooks: so a device of it lies. --network leaves the case out.
  // Empty: devices say what they did.
  std::function<void(TimedFleet* fleet)> hook;
  // false: gradstream-client has not the workload's problem, and --network leaves the case out.
  bool has_client_problem = true;
  // Part of the fault by which its data may end the run, at any round; empty: none. What does not depend on the data
  // stands with the references (compare.h).
  std::string expected_fault;
  // What trains the case where the calm fleet cannot; empty: the calm fleet. No bytes are counted then, and --network
  // leaves the case out. Calls watch for version 0 and every version after it, until it returns false.
  using Watcher = std::function<bool(uint32_t version, const Real* model)>;
  // What it throws as std::runtime_error is the curve's fault.
  std::function<void(const RunParameters& parameters, const Workload& workload, const Watcher& watch)> train;
};

struct Curve {
  std::vector<CurvePoint> points;
  std::string fault;  // what ended the run before its last round; empty: nothing
  // The first refusal of a device that the run went on without (Case::may_lose_devices), naming it and its reason.
  std::string refusal;
  bool is_fault_expected = false;  // by Case::expected_fault
  uint64_t digest = 0;
  double seconds = 0;  // of processor: a case runs in one thread
  double optimum = 0;
  Matrix last_model;  // of the last point, as published; empty where nothing was trained
  TubeCounts tube;    // of its devices; a train() of its own may count none
  // The point of a round; the last one where the run ended before.
  const CurvePoint& at(uint32_t round) const;
  double excess_at(uint32_t round) const { return at(round).measures.excess; }
  // Of the last `count` rounds: what a run that noise keeps moving has come to.
  double mean_excess(uint32_t count) const;
  // The first round with grad_norm <= bound; UINT32_MAX: none.
  uint32_t rounds_to(double bound) const;
};

using Curves = std::map<std::string, Curve>;

// What the reference's geometric means are of: seeds 1 to 5.
inline constexpr uint32_t kMeanSeedCount = 5;

// What one seed gives to such a mean.
struct MeanPart {
  std::string what;
  double value = 0;
  double wanted = 0;  // the reference's mean; of an order the bound, 1, that the mean must be above
  bool is_order = false;
};

// What an experiment says of its curves, printed as a table.
class Judgement {
 public:
  // Decides whether the experiment passes.
  void check(const std::string& what, bool holds);
  // |value / wanted| within [1 / factor, factor].
  void check_near(const std::string& what, double value, double wanted, double factor);
  // The same where the wanted value is of the seeds 1 to seed_max and the run is of one of them; of another seed the
  // value is evidence and decides nothing.
  void check_seeds(uint32_t seed, uint32_t seed_max, const std::string& what, double value, double wanted,
                   double factor);
  // The same where the wanted value is the geometric mean of seeds 1 to kMeanSeedCount, around which `factor` is a band
  // for each of them; kept as a part of the mean.
  void check_mean(uint32_t seed, const std::string& what, double value, double wanted, double factor);
  // A quotient of two figures whose geometric mean over these seeds must be above 1. Of one seed it is evidence, and
  // decides nothing; kept as a part of the mean.
  void check_mean_order(uint32_t seed, const std::string& what, double quotient);
  // What the work says: confirmed or not, and by which figures. Decides nothing.
  void claim(const std::string& what, bool is_confirmed, const std::string& evidence);
  // The same of a claim that noise decides, with the verdict of each seed of 1 to kMeanSeedCount. Confirmed where all
  // seeds have it, which chance alone does one time in 32.
  void claim_seeds(const std::string& what, const std::vector<bool>& holds);
  // A figure that the last line has as name=value, four digits; the name is one word.
  void field(const std::string& name, double value);
  // A line of a table, to be read.
  void note(const std::string& text) { lines_.push_back(text); }
  bool passed() const { return failed_count_ == 0 && check_count_ > 0; }
  uint32_t check_count() const { return check_count_; }
  uint32_t failed_count() const { return failed_count_; }
  const std::vector<std::string>& lines() const { return lines_; }
  const std::vector<MeanPart>& mean_parts() const { return mean_parts_; }
  // Of field(): as the last line has them, each after a space.
  const std::string& fields() const { return fields_; }

 private:
  std::vector<std::string> lines_;
  std::string fields_;
  std::vector<MeanPart> mean_parts_;
  uint32_t check_count_ = 0;
  uint32_t failed_count_ = 0;
};

struct Experiment {
  const char* name = nullptr;   // X1
  const char* title = nullptr;  // of the picture
  // Empty: the data that it needs are not in the request's folder; the harness then says `needs`.
  std::vector<Case> (*cases)(const Request& request) = nullptr;
  void (*judge)(const Curves& curves, const Request& request, Judgement* judgement) = nullptr;
  const char* needs = nullptr;  // folder under --data, or null
  // What the picture shows: excess, grad_norm or other.
  const char* measure = "excess";
  // What the picture is of: globs of the shell, also @(a|b), by spaces; each is a panel with the cases whose whole key
  // it matches. Empty: one panel of all cases.
  const char* shown = "";
  // What a curve goes along: the first column of its CSV. Only train() can make it another than the round.
  const char* axis = "round";
  bool along_bytes = false;  // the picture goes along what went up, not along the axis
  // Writes further files to the folder of the results, such as scripts for gnuplot. False: they cannot be written.
  bool (*write_more)(const std::string& folder, const Curves& curves) = nullptr;
  // The same for files that show samples from the request's data folder.
  bool (*write_samples)(const std::string& folder, const Request& request, const Curves& curves) = nullptr;
};

// Adds, for each thing that `parts` has a value of, the criterion that all seeds of the mean gave one and that their
// geometric mean is the reference's within kMeanFactor, or of an order above 1.
void check_means(const std::vector<MeanPart>& parts, Judgement* judgement);
// The means are given with two digits.
inline constexpr double kMeanFactor = 1.05;

// One line for each, in experiment.cc.
std::span<const Experiment* const> all_experiments();
const Experiment* find_experiment(const std::string& name);  // null: no such name

// Members of the registry, by file experiment_<family>.cc.
extern const Experiment kX1, kX2, kX3, kX4;   // rfedags
extern const Experiment kX5, kX6;             // multitask
extern const Experiment kX7, kX8, kX9, kX10;  // svrg
extern const Experiment kX11;                 // estimators
extern const Experiment kX12;                 // attack
extern const Experiment kZofl;                // zeroth_order
extern const Experiment kX15, kX16;           // participation
extern const Experiment kBytes;               // bytes
extern const Experiment kMemory;              // memory
extern const Experiment kStragglers;          // stragglers
extern const Experiment kX13;                 // lowrank
extern const Experiment kX14;                 // asynchronous
extern const Experiment kCompletion;          // completion
extern const Experiment kOnline;              // online
extern const Experiment kPoison;              // poison

// What the runs of a family have in common; the rest of the parameters is the case's.
RunParameters gradient_stream_parameters(uint32_t local_step_count, double step_size, uint32_t round_count);

// Text of a figure, that many significant digits.
std::string figure(double value, int digit_count = 3);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_EXPERIMENT_H_
