// The keys that most of the server reads, without what is said of them. A source that reads one of them includes this
// header, `run.fold->fold_weight` is the key, and `*run.fold` is all of the group that stands here.
//
// No new key stands here. It stands in its group, in server/run/fold_keys.h and its neighbours, and is read as
// `run.fold.keys().name` by the few sources that include the group's header. Reason: a change of this header compiles
// two hundred sources anew, a change of a group fewer than forty.
#ifndef GRADSTREAM_SERVER_RUN_RUN_CORE_H_
#define GRADSTREAM_SERVER_RUN_RUN_CORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/manifold/manifold.h"
#include "runtime/manifold/proximal_form.h"
#include "runtime/training/encoding.h"
#include "runtime/training/secant.h"
#include "runtime/training/stream.h"
#include "runtime/training/task.h"
#include "server/run/choices.h"

namespace gradstream {

// server/run/model_keys.h
struct ModelCore {
  ManifoldId manifold = ManifoldId::kStiefel;
  RetractionKind retraction = RetractionKind::kDefault;
  TransportKind transport = TransportKind::kDefault;
  // Of manifold product: "stiefel 16x2, euclidean 10x1 exponential parallel", retraction and transport may be left out.
  // Whoever sets it calls set_parts() after it (server/run/parts.h).
  std::string parts;
  // Of manifold fixed_rank: "20x14", the matrix's shape; set_parts() makes the point's shape of it and of `rank`.
  std::string matrix;
  uint32_t rank = 0;
  Shape shape;
  std::string problem;
  // Of problem "network": network_digest() of the network, as 16 hexadecimal digits. In a configuration a path may
  // stand here; server/program/network_file.h puts the digest in its place before a run is made of it.
  std::string network;
  std::shared_ptr<const Parts> part_list;  // what shape.parts points to; no key
};

// server/run/local_keys.h
struct LocalCore {
  SolverId solver = SolverId::kProjection;
  EstimatorId estimator = EstimatorId::kProjectionOneSided;
  DirectionKind directions = DirectionKind::kSign;
  uint32_t direction_count = 16;  // m
  // 0: own directions, drawn by enrolment index; else shared within groups, group = client_index % group_count
  uint32_t group_count = 1;
  uint32_t local_step_count = 5;                               // K
  RetractionKind local_retraction = RetractionKind::kDefault;  // of local steps; kDefault: that of the model
  Real smoothing = static_cast<Real>(1e-2);
  BatchMode batch_mode = BatchMode::kCommon;
  uint32_t batch_size = 32;
  // Minibatch of each local step, numbers with spaces between them, at most kBatchScheduleMax; the last one holds for
  // the steps after it. Empty: batch_size for all.
  std::string batch_sizes;
  CorrectionForm correction_form = CorrectionForm::kLocal;
  uint32_t memory_age_max = 0;                           // versions after which an update is taken out of h; 0: never
  Real proximal = 0;                                     // mu of the proximal term, 0: none
  ProximalForm proximal_form = ProximalForm::kGeodesic;  // kGeodesic: RFedProx; else a term of the devices' loss
  Real proximal_sigma = 1;                               // of ProximalForm::kLorentz
  BarzilaiBorwein barzilai_borwein = BarzilaiBorwein::kNone;  // solver svrg
  Iterate iterate = Iterate::kLast;                           // solver svrg
  // Solver curve: gamma, the share of the displacement that is taken out of the control point's way.
  Real curve_orthogonality = 1;
};

// server/run/step_keys.h
struct StepCore {
  StepRule step_rule = StepRule::kInverse;
  Real step_size = static_cast<Real>(0.1);
  Real step_decay = 0;
  Real step_offset = 0;
  uint32_t step_period = 1;
  Real step_min = 0;  // kBarzilaiBorwein
  Real step_max = 0;
  Real server_step = 1;  // eta_g
};

// server/run/wire_keys.h
struct WireCore {
  // What a device uploads; kNone: scalars where they say everything, else a tangent.
  StreamKind upload_stream = StreamKind::kNone;
  Encoding upload_encoding = Encoding::kF32;
  Encoding record_encoding = Encoding::kF32;
  // Tangents: a device adds what the encoding of its last accepted upload left out to its next one.
  bool error_feedback = false;
  // A device that missed versions gets their records up to so many bytes, else a snapshot. 0: the snapshot's own size.
  uint32_t log_size_max = 0;
};

// server/run/fold_keys.h
struct FoldCore {
  // Fixed point of step 2^-fold_scale_log2; an update with a value beyond 2^(31 - fold_scale_log2) is refused.
  uint32_t fold_scale_log2 = 24;
  FoldWeight fold_weight = FoldWeight::kSampleCount;
  uint32_t fold_weight_max = 65535;  // cap on one device's weight, kSampleCount
  float weight_share_max = 1;        // cap on one update's share of a version's weight; 1: none
};

// server/run/participation_keys.h
struct ParticipationCore {
  Participation participation = Participation::kAll;
  uint32_t cohort_size = 0;  // kSchemeOne: s
  // kSchemeOne: so many times s are drawn, of whom the first s to answer close the round.
  Real over_selection = 1;
  std::string participation_probability;  // kSchemeTwo: p_j by enrolment index, with spaces; the last one holds on
  ParticipationWeights participation_weights = ParticipationWeights::kCounted;  // kSchemeTwo
};

// server/run/trigger_keys.h
struct TriggerCore {
  uint32_t round_count = 300;
  uint32_t device_count = 0;  // n: enrolled devices that the run waits for before version 0 opens
  // B: a version closes with every B accepted updates, late ones too, and k is not asked; 0: rounds of k answers
  uint32_t buffer_size = 0;
  uint32_t update_goal = 0;             // k; 0: every device that is enrolled and not revoked
  uint32_t report_deadline_ms = 60000;  // T, from the opening of the version
  uint32_t update_min = 0;              // q at T; 0: update_goal
  uint32_t extension_count_max = 3;
  LatePolicy late = LatePolicy::kDrop;
  StalenessTable staleness_table = StalenessTable::kInverseSqrt;
  float staleness_exponent = 0.5F;  // kPolynomial: (1 + s)^-a; kHinge: slope a
  uint32_t staleness_hinge = 4;     // kHinge: s0
  uint32_t staleness_max = 8;       // S: versions; buffer_size = 1 needs device_count - 1 at least
  uint32_t steps_min = 0;           // k_min; 0: partial work is refused (== K)
  uint32_t task_deadline_ms = 0;    // sent in the Task: send what is there by then; 0: none
  Work work = Work::kFixed;
  // One local step of the fleet's fastest and slowest device, where known; 0: not. No update is believed that was
  // faster; no deadline is accepted that the slowest cannot meet.
  uint32_t step_time_min_us = 0;
  uint32_t step_time_max_us = 0;
};

// server/run/delay_keys.h
struct DelayCore {
  DelayRule delay_rule = DelayRule::kNone;
  DelayRule late_delay_rule = DelayRule::kNone;  // after the switch; kNone: the same all the time
  DelaySwitchBy delay_switch_by = DelaySwitchBy::kVersion;
  uint32_t delay_switch = 0;       // kVersion: the version that switches; else the first one that may
  Real delay_switch_at = 0;        // of the statistic
  Real delay_lambda = 1;           // of the dc rules
  bool dominance_penalty = false;  // alpha / (N p_i), at most 1; p_i = share of device i in the updates accepted so far
  Real server_momentum = 0;        // beta of v <- beta T(v) + D
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_RUN_CORE_H_
