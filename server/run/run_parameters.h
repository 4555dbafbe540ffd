// What a run is: the frozen parameters that every version, task and replica follow. Made from a TOML file by config.*,
// stored with the run, compared by digest at every start of the server.
//
// The keys stand in thirteen groups. The header of a group has all that is said of its keys: unit, range and a sentence
// for people. It also has their types and defaults, but for the keys that most of the server reads: these stand in
// server/run/run_core.h. The source of a group has the checks. Include the header that has the keys you read.
#ifndef GRADSTREAM_SERVER_RUN_RUN_PARAMETERS_H_
#define GRADSTREAM_SERVER_RUN_RUN_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/manifold/manifold.h"
#include "runtime/training/encoding.h"
#include "runtime/training/task.h"
#include "server/run/choices.h"
#include "server/run/key_group.h"
#include "server/run/limits.h"

namespace gradstream {

// Bases of the groups of the same name, in server/run/run_core.h.
struct ModelCore;
struct LocalCore;
struct StepCore;
struct WireCore;
struct FoldCore;
struct ParticipationCore;
struct TriggerCore;
struct DelayCore;

struct ModelKeys;
struct LocalKeys;
struct StepKeys;
struct WireKeys;
struct FoldKeys;
struct ParticipationKeys;
struct TriggerKeys;
struct DelayKeys;
struct AverageKeys;
struct ConstantKeys;
struct PaceKeys;
struct UnitsKeys;
struct QualityKeys;

// The problem that is made of a network, as runtime/problem/network.h has it.
inline constexpr const char* kNetworkProblemName = "network";

struct RunParameters {
  std::string name;
  uint32_t seed = 1;
  KeyGroup<ModelKeys, ModelCore> model;                   // server/run/model_keys.h
  KeyGroup<LocalKeys, LocalCore> local;                   // server/run/local_keys.h
  KeyGroup<StepKeys, StepCore> steps;                     // server/run/step_keys.h
  KeyGroup<WireKeys, WireCore> wire;                      // server/run/wire_keys.h
  KeyGroup<FoldKeys, FoldCore> fold;                      // server/run/fold_keys.h
  KeyGroup<ParticipationKeys, ParticipationCore> cohort;  // server/run/participation_keys.h
  KeyGroup<TriggerKeys, TriggerCore> trigger;             // server/run/trigger_keys.h
  KeyGroup<DelayKeys, DelayCore> delay;                   // server/run/delay_keys.h
  KeyGroup<AverageKeys> average;                          // server/run/average_keys.h
  KeyGroup<ConstantKeys> constants;                       // server/run/constant_keys.h
  KeyGroup<PaceKeys> pace;                                // server/run/pace_keys.h
  KeyGroup<UnitsKeys> units;                              // server/run/units_keys.h
  KeyGroup<QualityKeys> quality;                          // server/run/quality_keys.h

  StreamKind stream() const;
  // 0: the run trains no network, or the key is no digest.
  uint64_t network_digest() const;
  bool shared_directions() const;
  bool has_memory() const;
  // w_i = N_i / N instead of 1 / n.
  bool memory_weighs_samples() const;
  // Whether replicas hold a mean beside the model: h, or where no record of scalars gives it to devices, d.
  bool has_mean() const;
  // Devices that kSchemeOne draws: s times over_selection, rounded up.
  uint32_t drawn_count() const;
  // Whether a round that is not extended leaves out nobody who was asked.
  bool waits_for_all() const;
  // Whose directions a device uses: its group, or itself.
  uint32_t owner_of(uint32_t client_index) const;
  // eta_k, the step size of round k.
  Real step_size_at(uint32_t round) const;
  // Versions of one round: phases, each of which closes a version.
  uint32_t phase_count() const;
  // The version that ends the run, if no stage and no phase of a round fails.
  uint32_t version_count() const;
  // Bits of the ModelParts that versions may hold beside the model.
  uint32_t model_parts() const;
  // Least steps worth accepting, steps_min with its default put in.
  uint32_t least_steps() const;
  // Models, the current one included, that the run's rule wants kept for late updates: their base models.
  uint32_t kept_model_count() const;
  // Values of a complete upload.
  uint32_t value_count() const;
};

// The finite numbers of a text with spaces between them; empty if a word is none, or if there is no word.
std::vector<Real> parse_numbers(const std::string& text);
// batch_sizes as a Task carries them; empty for none.
std::vector<uint32_t> batch_schedule(const RunParameters& parameters);

// Whether directions of the estimator depend on nothing but the seed, so that scalars say all.
bool has_scalars(EstimatorId id);
// Whether the manifold's metric is that of the space that its entries are in.
bool is_embedded(ManifoldId id);
// Whether the rule has a meaning on this manifold: entrywise products need an embedding whose metric is Euclidean.
bool is_delay_rule_defined(DelayRule rule, ManifoldId manifold);

// The table that the run computes with; null where the manifold has no such retraction and transport.
const ManifoldOps* server_manifold(const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_RUN_PARAMETERS_H_
