// What a simulated fleet is asked to be, and the run that it trains.
#ifndef GRADSTREAM_SIM_SIM_PARAMETERS_H_
#define GRADSTREAM_SIM_SIM_PARAMETERS_H_

#include <cstdint>
#include <string>

#include "server/run/choices.h"
#include "server/run/run_parameters.h"
#include "sim/own_problem.h"

namespace gradstream {

// A device that is not to be trusted, and what the run does about it.
struct SimTrust {
  // Bit n: the last device tells Lie n (sim/lies.h), and nobody else does. The same in every schedule. Not with
  // chooses_step, centre or scale, where the oracle knows the samples that answers are of.
  uint32_t lie_bits = 0;
  // The last device lies in every field while faults last (sim/byzantine.h): another digest in every schedule.
  bool is_byzantine = false;
  ClipNorm clip_norm = ClipNorm::kNone;  // as the run's, with its factor; a fixed radius is kSimClipRadius
  uint32_t seen_versions = 0;            // as the run's: the digest may depend on the schedule
  float device_share_max = 1;            // as the run's, of the last kSimShareVersions, without rounds
};
// In the units of an update's values. Reason: half of the honest updates of most runs are longer.
inline constexpr float kSimClipRadius = 1;
// Reason: a run of some rounds has several windows.
inline constexpr uint32_t kSimShareVersions = 6;

// Faults of the simulator's own, to see that it finds them.
struct SimPlants {
  bool double_fold = false;  // repeated updates are folded twice
  bool step = false;         // the server's step is another than the run's
};

struct SimOptions {
  uint32_t device_count = 4;
  uint32_t round_count = 8;
  uint32_t seed = 1;
  uint32_t aggregator_count = 1;  // sums that a version's updates go to, by device, merged when it closes
  StreamKind stream = StreamKind::kScalarStream;
  bool uploads_means = false;  // tangents are the mean gradients of solver projection (A10), not RFedAGS's
  CorrectionForm correction_form = CorrectionForm::kLocal;  // of solver projection
  // A memory's w_i are N_i / N, not 1/n; not under scheme 2. Without rounds they are N_i by their mean, not 1.
  bool memory_weighs_samples = false;
  Encoding encoding = Encoding::kF32;  // of uploads and, but with a memory, records
  bool error_feedback = false;         // of tangents that are not in f32
  bool is_product = false;             // of several manifolds, not Stiefel alone
  bool is_grassmann = false;           // the subspaces of those Stiefel points
  bool is_fixed_rank = false;          // matrix completion at rank 2
  Real holdout_share = 0;              // with evaluations in every second round
  bool holds_pulls = false;            // most devices let the server hold their Pulls
  uint32_t arrival_rate = 0;           // as the run's
  uint32_t asks_needed = 0;            // losses are measured, with so many asks; 0: computed
  uint32_t fault_bits = 0;             // bit n: Fault n may happen
  bool has_stragglers =
      false;              // close early, weigh late updates, accept partial work: the digest depends on the schedule
  bool is_timed = false;  // with stragglers: each device's steps by its step time
  // No rounds: a version with every so many updates, tangents by rule asgd; the digest depends on the schedule. 0:
  // rounds
  uint32_t buffer_size = 0;
  bool chooses_step = false;      // step_size "auto"; without Barzilai-Borwein. Lost lines make other digests
  Centre centre = Centre::kNone;  // units of kpca's samples, as the run's
  UnitScale scale = UnitScale::kNone;
  ProximalForm proximal_form = ProximalForm::kGeodesic;  // another: a proximal term in every loss
  SolverId tangent_solver = SolverId::kGradientStream;   // of tangent streams
  Participation participation = Participation::kAll;
  float weight_share_max = 1;  // as the run's; below 1 not with a memory, nor solver svrg
  SimTrust trust = {};
  SimPlants plants = {};
  const OwnProblem* own = nullptr;  // what is trained, by whom, in place of the simulator's own; outlives the fleet
  void (*on_log)(uint64_t now_ms, const char* who, const std::string& text) = nullptr;
};

// The run that every schedule of these options trains: trigger all and fixed K, so that its last digest is one, unless
// the options ask for stragglers, or for a run that finds its step. There a line that is lost leads to another step.
RunParameters sim_parameters(const SimOptions& options);
bool has_one_digest(const SimOptions& options);
// Whether every version waits for all that are asked.
bool waits_for_all(const SimOptions& options);
// Why these options do not go with what is the caller's; empty: they do, or nothing is. For people.
std::string own_problem_obstacle(const SimOptions& options);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_SIM_PARAMETERS_H_
