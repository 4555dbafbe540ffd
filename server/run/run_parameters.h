// What a run is: the frozen parameters that every version, task and replica follow. Made from a TOML file by config.*,
// stored with the run, compared by digest at every start of the server.
#ifndef GRADSTREAM_SERVER_RUN_RUN_PARAMETERS_H_
#define GRADSTREAM_SERVER_RUN_RUN_PARAMETERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/manifold/manifold.h"
#include "runtime/training/encoding.h"
#include "runtime/training/task.h"

namespace gradstream {

enum class LatePolicy : uint8_t { kDrop, kWeight };
enum class StalenessTable : uint8_t { kConstant, kInverseSqrt, kPolynomial, kHinge };
// How many local steps a task asks for.
enum class Work : uint8_t {
  kFixed,  // K
  kTimed,  // K_i, from steps_min to K, that the device can do until the deadline by its measured step time
};
enum class FoldWeight : uint8_t { kUniform, kSampleCount };
// What steers a device's path, and what the server's step is made of (docs/algorithms.md, "Forms of the correction").
enum class CorrectionForm : uint8_t {
  kNone,      // c = 0; the step is the mean of the version's updates
  kLocal,     // c = d - Gbar_i of the version that the device's last update went into; the same step
  kMemory,    // c = h - h_i; the step is h, the mean of every device's last update, new ones put in
  kUnbiased,  // the same c and h; in the step the new ones stand for the fleet: d = h + mean of what is new in them
};
// Who is asked in a round, and what an answer weighs then: server/run/participation.h.
enum class Participation : uint8_t { kAll, kSchemeOne, kSchemeTwo };
enum class ParticipationWeights : uint8_t { kCounted, kTrue, kBiased };
// eta_k of round k, from step_size, step_decay, step_offset and step_period; 000 equations (5.2) and (4.24).
enum class StepRule : uint8_t {
  kInverse,          // step_size / (1 + step_decay k)
  kFixed,            // step_size
  kPrinted,          // (5.2) as printed: step_size for k = 0, else step_size / (step_offset + floor(k / step_period))
  kCode,             // (5.2) as its authors run it: step_size for k < step_period, else as printed
  kHarmonic,         // (4.24): step_size / (step_offset + k), with kappa = step_size and gamma = step_offset
  kBarzilaiBorwein,  // 002, RFedSVRG-2BBS: 1 / curvature within [step_min, step_max], by K; first round: step_size by K
};
// What the server makes of an update that was made at an older model: server/rules/delay_correction.h. kNone: the
// weighted mean of a version's updates, as the solver's own rule says.
enum class DelayRule : uint8_t {
  kNone,
  kAsgd,
  kFedAsync,
  kDcAsgd,
  kDcAdaptive,
  kDcRank1,
  kOrthoGrad,
  kOrthoPos,
  kOrthoStrict
};
// What an asynchronous run goes over to late_delay_rule by (OrthoDyn, 004): a version, or a statistic of its updates,
// with b and delta as server/rules/delay_correction.h has them. Both fall as the devices' steps turn from a common way
// to noise around a point: the run switches when their moving mean is down at delay_switch_at.
enum class DelaySwitchBy : uint8_t {
  kVersion,
  kCosine,      // of the angle between the displacement delta and the drift b
  kDriftRatio,  // |b| / |delta|
};
// Which iterate of its local path a device sends (002, options 1 and 2).
enum class Iterate : uint8_t { kLast, kUniform };

// A Log that one device may get at once, in bytes. Reason: the queue of its session must hold it.
inline constexpr uint32_t kLogSizeMax = 1U << 28;

// Retry windows are so much wider for a peer that was refused or that waits for a stalled run. For a refused device
// they also begin at kRefusedRetryMinMs, however narrow those of the run.
inline constexpr uint32_t kRefusedWindowFactor = 4;
// The longest wait that a device takes from a window (docs/wire.md).
inline constexpr uint32_t kRetryMaxMs = 86'400'000;

// Versions that a late update may be behind, at most: enough for 1,025 devices of one speed without rounds. Reason: the
// weight (1 + s)^-1 of an update keeps five of its 15 bits there.
inline constexpr uint32_t kStalenessMax = 1024;

// The problem that is made of a network, as runtime/problem/network.h has it.
inline constexpr const char* kNetworkProblemName = "network";

struct RunParameters {
  std::string name;
  uint32_t seed = 1;
  // Model.
  ManifoldId manifold = ManifoldId::kStiefel;
  RetractionKind retraction = RetractionKind::kDefault;
  TransportKind transport = TransportKind::kDefault;
  // Of manifold product: "stiefel 16x2, euclidean 10x1 exponential parallel", retraction and transport may be left out.
  // Whoever sets it calls set_parts() after it (server/run/parts.h).
  std::string parts;
  // Of manifold fixed_rank: "20x14", the matrix's shape; set_parts() makes the point's shape of it and of `rank`.
  std::string matrix;
  std::shared_ptr<const Parts> part_list;  // what shape.parts points to
  Shape shape;
  std::string problem;
  // Of problem "network": network_digest() of the network, as 16 hexadecimal digits. In a configuration a path may
  // stand here; server/program/network_file.h puts the digest in its place before a run is made of it.
  std::string network;
  // Local work.
  SolverId solver = SolverId::kProjection;
  EstimatorId estimator = EstimatorId::kProjectionOneSided;
  DirectionKind directions = DirectionKind::kSign;
  BatchMode batch_mode = BatchMode::kCommon;
  uint32_t direction_count = 16;  // m
  // 0: own directions, drawn by enrolment index; else shared within groups, group = client_index % group_count
  uint32_t group_count = 1;
  uint32_t local_step_count = 5;  // K
  Real smoothing = static_cast<Real>(1e-2);
  uint32_t batch_size = 32;
  // Minibatch of each local step, numbers with spaces between them, at most kBatchScheduleMax; the last one holds for
  // the steps after it. Empty: batch_size for all.
  std::string batch_sizes;
  RetractionKind local_retraction = RetractionKind::kDefault;  // of local steps; kDefault: that of the model
  CorrectionForm correction_form = CorrectionForm::kLocal;
  uint32_t memory_age_max = 0;  // versions after which a device's last update is taken out of h; 0: never
  Real proximal = 0;            // mu of the proximal term, 0: none
  Real proximal_sigma = 1;      // of ProximalForm::kLorentz
  uint32_t rank = 0;            // of manifold fixed_rank; here, where it costs no padding
  ProximalForm proximal_form = ProximalForm::kGeodesic;  // kGeodesic: RFedProx; else a term of the devices' loss
  // Solver svrg.
  BarzilaiBorwein barzilai_borwein = BarzilaiBorwein::kNone;
  Iterate iterate = Iterate::kLast;
  // Step of round k and server step eta_g.
  StepRule step_rule = StepRule::kInverse;
  Real step_size = static_cast<Real>(0.1);
  Real step_decay = 0;
  Real step_offset = 0;
  uint32_t step_period = 1;
  Real step_min = 0;  // kBarzilaiBorwein
  Real step_max = 0;
  Real server_step = 1;  // eta_g
  // Wire. What a device uploads; kNone: scalars where they say everything, else a tangent.
  StreamKind upload_stream = StreamKind::kNone;
  Encoding upload_encoding = Encoding::kF32;
  Encoding record_encoding = Encoding::kF32;
  // Tangents: a device adds what the encoding of its last accepted upload left out to its next one.
  bool error_feedback = false;
  // A device that missed versions gets their records up to so many bytes, else a snapshot. 0: the snapshot's own size.
  uint32_t log_size_max = 0;
  // Fold: fixed point of step 2^-fold_scale_log2; an update with a value beyond 2^(31 - fold_scale_log2) is refused.
  uint32_t fold_scale_log2 = 24;
  uint32_t fold_weight_max = 65535;  // cap on one device's weight, kSampleCount
  float weight_share_max = 1;        // cap on one update's share of a version's weight; 1: none
  FoldWeight fold_weight = FoldWeight::kSampleCount;
  // Participation, orthogonal to the straggler policy.
  Participation participation = Participation::kAll;
  ParticipationWeights participation_weights = ParticipationWeights::kCounted;  // kSchemeTwo
  uint32_t cohort_size = 0;                                                     // kSchemeOne: s
  std::string participation_probability;  // kSchemeTwo: p_j by enrolment index, with spaces; the last one holds on
  // kSchemeOne: so many times s are drawn, of whom the first s to answer close the round.
  Real over_selection = 1;
  // Length.
  uint32_t round_count = 300;
  // Straggler policy: four independent choices (docs/wire.md). Trigger (k, T, q).
  uint32_t device_count = 0;  // n: enrolled devices that the run waits for before version 0 opens
  // B: a version closes with every B accepted updates, late ones too, and k is not asked; 0: rounds of k answers
  uint32_t buffer_size = 0;
  uint32_t update_goal = 0;             // k; 0: every device that is enrolled and not revoked
  uint32_t report_deadline_ms = 60000;  // T, from the opening of the version
  uint32_t update_min = 0;              // q at T; 0: update_goal
  uint32_t extension_count_max = 3;
  LatePolicy late = LatePolicy::kDrop;
  Work work = Work::kFixed;
  StalenessTable staleness_table = StalenessTable::kInverseSqrt;
  float staleness_exponent = 0.5F;  // kPolynomial: (1 + s)^-a; kHinge: slope a
  uint32_t staleness_hinge = 4;     // kHinge: s0
  uint32_t staleness_max = 8;       // S: versions; buffer_size = 1 needs device_count - 1 at least
  uint32_t steps_min = 0;           // k_min; 0: partial work is refused (== K)
  uint32_t task_deadline_ms = 0;    // sent in the Task: send what is there by then; 0: none
  // One local step of the fleet's fastest and slowest device, where known; 0: not. No update is believed that was
  // faster; no deadline is accepted that the slowest cannot meet.
  uint32_t step_time_min_us = 0;
  uint32_t step_time_max_us = 0;
  // Asynchronous steps of tangents, with buffer_size. alpha = server_step by staleness.
  DelayRule delay_rule = DelayRule::kNone;
  DelayRule late_delay_rule = DelayRule::kNone;  // after the switch; kNone: the same all the time
  DelaySwitchBy delay_switch_by = DelaySwitchBy::kVersion;
  uint32_t delay_switch = 0;       // kVersion: the version that switches; else the first one that may
  Real delay_switch_at = 0;        // of the statistic
  bool dominance_penalty = false;  // alpha / (N p_i), at most 1; p_i = share of device i in the updates accepted so far
  Real delay_lambda = 1;           // of the dc rules
  Real server_momentum = 0;        // beta of v <- beta T(v) + D
  // Solver curve: gamma, the share of the displacement that is taken out of the control point's way.
  Real curve_orthogonality = 1;
  // The average of versions (server/rules/model_average.h).
  uint32_t average_period = 0;   // c: every so many versions one goes into it; 0: none
  uint32_t average_from = 0;     // the first version that may
  uint32_t average_restart = 0;  // C: every so many versions the run goes on from the average; 0: never
  // Constants of the problem, for server/run/advice.h alone; 0: not known.
  Real smoothness = 0;      // L
  Real pl_constant = 0;     // mu of the Riemannian Polyak-Lojasiewicz condition
  Real gradient_noise = 0;  // sigma
  Real initial_excess = 0;  // F(x_0) - F*
  // Pace.
  uint32_t retry_min_ms = 200;
  uint32_t retry_max_ms = 1000;
  uint32_t arrival_rate = 0;  // devices a second, at most, that windows are made wide enough for; 0: as given

  StreamKind stream() const;
  // 0: the run trains no network, or the key is no digest.
  uint64_t network_digest() const;
  bool shared_directions() const { return group_count > 0; }
  bool has_memory() const {
    return correction_form == CorrectionForm::kMemory || correction_form == CorrectionForm::kUnbiased;
  }
  // w_i = N_i / N instead of 1 / n.
  bool memory_weighs_samples() const { return has_memory() && fold_weight == FoldWeight::kSampleCount; }
  // Whether replicas hold a mean beside the model: h, or where no record of scalars gives it to devices, d.
  bool has_mean() const {
    return has_memory() || (correction_form == CorrectionForm::kLocal && stream() == StreamKind::kTangentBlock);
  }
  // Devices that kSchemeOne draws: s times over_selection, rounded up.
  uint32_t drawn_count() const;
  // Whether a round that is not extended leaves out nobody who was asked.
  bool waits_for_all() const { return buffer_size == 0 && update_goal == 0 && update_min == 0 && over_selection == 1; }
  // Whose directions a device uses: its group, or itself.
  uint32_t owner_of(uint32_t client_index) const;
  // eta_k, the step size of round k.
  Real step_size_at(uint32_t round) const;
  // Versions of one round: phases, each of which closes a version.
  uint32_t phase_count() const { return solver == SolverId::kSvrg ? 2 : 1; }
  // The version that ends the run, if no phase of a round fails.
  uint32_t version_count() const { return round_count * phase_count(); }
  // Bits of the ModelParts that versions may hold beside the model.
  uint32_t model_parts() const;
  // Least steps worth accepting, steps_min with its default put in.
  uint32_t least_steps() const { return steps_min == 0 ? local_step_count : steps_min; }
  // Models, the current one included, that the run's rule wants kept for late updates: their base models.
  uint32_t kept_model_count() const;
  // Values of a complete upload.
  uint32_t value_count() const;
};

// The last of visit_fields(): straggler policy, asynchronous steps, averages, what advice needs, pace.
template <typename Parameters, typename Visit>
void visit_policy_fields(Parameters& p, Visit& visit) {
  visit("device_count", p.device_count);
  visit("buffer_size", p.buffer_size);
  visit("update_goal", p.update_goal);
  visit("report_deadline_ms", p.report_deadline_ms);
  visit("update_min", p.update_min);
  visit("extension_count_max", p.extension_count_max);
  visit("late", p.late);
  visit("staleness_table", p.staleness_table);
  visit("staleness_exponent", p.staleness_exponent);
  visit("staleness_hinge", p.staleness_hinge);
  visit("staleness_max", p.staleness_max);
  visit("steps_min", p.steps_min);
  visit("task_deadline_ms", p.task_deadline_ms);
  visit("work", p.work);
  visit("step_time_min_us", p.step_time_min_us);
  visit("step_time_max_us", p.step_time_max_us);
  visit("delay_rule", p.delay_rule);
  visit("late_delay_rule", p.late_delay_rule);
  visit("delay_switch_by", p.delay_switch_by);
  visit("delay_switch", p.delay_switch);
  visit("delay_switch_at", p.delay_switch_at);
  visit("delay_lambda", p.delay_lambda);
  visit("dominance_penalty", p.dominance_penalty);
  visit("server_momentum", p.server_momentum);
  visit("average_period", p.average_period);
  visit("average_from", p.average_from);
  visit("average_restart", p.average_restart);
  visit("smoothness", p.smoothness);
  visit("pl_constant", p.pl_constant);
  visit("gradient_noise", p.gradient_noise);
  visit("initial_excess", p.initial_excess);
  visit("retry_min_ms", p.retry_min_ms);
  visit("retry_max_ms", p.retry_max_ms);
  visit("arrival_rate", p.arrival_rate);
}

// Calls visit(key, field) for every field in a fixed order; the keys are those of the run's file. Parameters may be
// const: then fields are.
template <typename Parameters, typename Visit>
void visit_fields(Parameters& p, Visit&& visit) {
  visit("name", p.name);
  visit("seed", p.seed);
  visit("manifold", p.manifold);
  visit("retraction", p.retraction);
  visit("transport", p.transport);
  visit("parts", p.parts);
  visit("matrix", p.matrix);
  visit("rank", p.rank);
  visit("rows", p.shape.rows);
  visit("cols", p.shape.cols);
  visit("problem", p.problem);
  visit("network", p.network);
  visit("solver", p.solver);
  visit("estimator", p.estimator);
  visit("directions", p.directions);
  visit("direction_count", p.direction_count);
  visit("group_count", p.group_count);
  visit("local_step_count", p.local_step_count);
  visit("local_retraction", p.local_retraction);
  visit("smoothing", p.smoothing);
  visit("batch_mode", p.batch_mode);
  visit("batch_size", p.batch_size);
  visit("batch_sizes", p.batch_sizes);
  visit("correction_form", p.correction_form);
  visit("memory_age_max", p.memory_age_max);
  visit("proximal", p.proximal);
  visit("proximal_form", p.proximal_form);
  visit("proximal_sigma", p.proximal_sigma);
  visit("barzilai_borwein", p.barzilai_borwein);
  visit("iterate", p.iterate);
  visit("curve_orthogonality", p.curve_orthogonality);
  visit("step_rule", p.step_rule);
  visit("step_size", p.step_size);
  visit("step_decay", p.step_decay);
  visit("step_offset", p.step_offset);
  visit("step_period", p.step_period);
  visit("step_min", p.step_min);
  visit("step_max", p.step_max);
  visit("server_step", p.server_step);
  visit("upload_stream", p.upload_stream);
  visit("upload_encoding", p.upload_encoding);
  visit("record_encoding", p.record_encoding);
  visit("error_feedback", p.error_feedback);
  visit("log_size_max", p.log_size_max);
  visit("fold_scale_log2", p.fold_scale_log2);
  visit("fold_weight", p.fold_weight);
  visit("fold_weight_max", p.fold_weight_max);
  visit("weight_share_max", p.weight_share_max);
  visit("participation", p.participation);
  visit("cohort_size", p.cohort_size);
  visit("over_selection", p.over_selection);
  visit("participation_probability", p.participation_probability);
  visit("participation_weights", p.participation_weights);
  visit("round_count", p.round_count);
  visit_policy_fields(p, visit);
}

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
