// What a task asks of a device, as device and server name it: solver, estimator, batches and their numbers. No problem
// and no solver is declared here, so that the server reads a task's terms without what computes them.
#ifndef GRADSTREAM_RUNTIME_TRAINING_TASK_H_
#define GRADSTREAM_RUNTIME_TRAINING_TASK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/base/config.h"
#include "runtime/manifold/manifold.h"
#include "runtime/manifold/proximal_form.h"
#include "runtime/training/encoding.h"
#include "runtime/training/secant.h"
#include "runtime/training/stream.h"

namespace gradstream {

// Values equal the wire's enums; never renumber.
enum class EstimatorId : uint8_t {
  kNone = 0,
  kAnalyticGradient = 1,    // G = Riemannian gradient at z (A10); not with BatchMode::kPerDirection
  kProjectionOneSided = 2,  // A8 / 003 eq. (7): G = (pr/m) sum_j [F(P_M(z + mu u_j)) - F(z)] / mu  u_j
  kProjectionTwoSided = 3,  // the same with [F(P_M(z + mu u_j)) - F(P_M(z - mu u_j))] / (2 mu)
  kTangentRetraction = 4,   // A7 / 003 eq. (6): G = 1/m sum_j [F(R_z(mu u_j)) - F(z)] / mu  u_j, u_j tangent normals
  kProjectionTangent = 5,   // the tangent part of kProjectionOneSided's G
};
enum class BatchMode : uint8_t {
  kNone = 0,
  kAll = 1,     // every sample, each time
  kCommon = 2,  // batch_size samples without replacement, drawn once per local step, common to its directions
  kPerDirection =
      3,  // one sample for each direction, index (word_j * n) >> 32; both evaluations use it (003 as printed)
};

struct EstimatorParameters {
  EstimatorId id = EstimatorId::kNone;
  BatchMode batch_mode = BatchMode::kAll;
  uint32_t batch_size = 0;  // kCommon: 1 .. kBatchSizeMax; more than the device holds means all
  // kCommon: the sizes of the first local steps, the last one holds on; batch_schedule_count 0: batch_size for all.
  uint32_t batch_schedule[kBatchScheduleMax] = {};
  uint32_t batch_schedule_count = 0;
  Real smoothing = 0;        // mu > 0, zeroth order only
  DirectionSpec directions;  // zeroth order only
};

// Values equal the wire's enums; never renumber.
enum class SolverId : uint8_t {
  kNone = 0,
  kProjection = 1,      // A9 / A10 (003 Alg. 1): zhat -= eta (G + c); z = P_M(zhat); uploads a ScalarStream. Where
                        // the estimator has no scalars (A10) or the run wants a dense upload, it uploads the mean of
                        // its k estimates, a TangentBlock of ambient values
  kGradientStream = 2,  // A1 RFedAGS (000 Alg. 1): uploads zeta, a TangentBlock at the base model
  kTangentMean = 3,     // A2, A3 RFedAvg, RFedProx: uploads L_X(x_K), a TangentBlock at the base model
  kSvrg = 4,            // A4 to A6 RFedSVRG, -2BB, -2BBS: the same, of the variance-reduced path
  kCurve = 5,           // A13 AsyncCurve, Euclidean: a TangentBlock of th - X, then phi - X; a step is two epochs
};

// What a task asks for. The stages before kTrain come in the order of their numbers, as far as the run wants them.
// Values equal the wire's enum; never renumber.
enum class TaskStage : uint8_t {
  kTrain = 0,
  kExponents = 1,
  kSums = 2,
  kSquares = 3,
  kStart = 4,  // step_size is 0: estimates at the model. Tangents at it are then those of a step size of 1
  kTrials = 5,
};

// One task, decoded. Fields as the wire's Task.
struct Task {
  uint32_t sequence = 0;
  uint32_t version = 0;  // the model that it starts from
  SolverId solver = SolverId::kNone;
  ManifoldId manifold = ManifoldId::kNone;
  RetractionKind retraction = RetractionKind::kDefault;
  TransportKind transport = TransportKind::kDefault;
  Shape shape;
  EstimatorParameters estimator;
  uint32_t seed = 0;          // of the run
  uint32_t client_index = 0;  // enrolment index of the device
  uint32_t local_step_count = 0;
  uint32_t steps_min = 0;  // least steps worth sending (0 as 1); == local_step_count: partial work is refused
  Real step_size = 0;
  StreamKind stream = StreamKind::kNone;  // of the upload; kNone: the solver's own
  bool use_correction = false;
  uint32_t memory_stamp = 0;  // 1 + base version of the update of this device that the mean holds; 0: none
  Real proximal = 0;          // mu of training/proximal.h
  ProximalForm proximal_form = ProximalForm::kGeodesic;  // another: the problem's loss with that term at X
  Real proximal_weight = 0;                              // mu of such a term
  Real proximal_sigma = 1;
  BarzilaiBorwein curvature_form = BarzilaiBorwein::kNone;     // kSvrg: how b_i is made
  Real curvature = 0;                                          // kSvrg: b; 0: none. kCurve: gamma, from 0 to 1
  bool draws_iterate = false;                                  // kSvrg: send x_l, l drawn from 0 .. K - 1, not x_K
  RetractionKind local_retraction = RetractionKind::kDefault;  // of local steps; kDefault: retraction
  Encoding encoding = Encoding::kNone;                         // of the upload
  uint32_t deadline_ms = 0;                                    // from receipt; 0: none
  TaskStage stage = TaskStage::kTrain;
  uint32_t holdout = 0;    // as is_held_out()
  bool evaluates = false;  // the upload says how the samples that are held out fare at `version`
  char problem[kProblemNameSizeMax + 1] = {};
};

// The wire's side of these lists is a template parameter, because a solver and its tests know no message: gs_Task and
// gs_Welcome of proto/gradstream.proto. Each side may be const. A field that a device must see stands here once: the
// server writes it by this list, the codec checks its enum or float by it, and the device reads it by it.

// Calls visit(wire field, task field) for what a Task of the wire says of a task.
template <typename Wire, typename Terms, typename Visit>
constexpr void visit_task_fields(Wire& wire, Terms& task, Visit&& visit) {
  visit(wire.task_sequence, task.sequence);
  visit(wire.version, task.version);
  visit(wire.solver, task.solver);
  visit(wire.estimator, task.estimator.id);
  visit(wire.encoding, task.encoding);
  visit(wire.local_step_count, task.local_step_count);
  visit(wire.steps_min, task.steps_min);
  visit(wire.step_size, task.step_size);
  visit(wire.smoothing, task.estimator.smoothing);
  visit(wire.batch_mode, task.estimator.batch_mode);
  visit(wire.batch_size, task.estimator.batch_size);
  visit(wire.batch_sizes_count, task.estimator.batch_schedule_count);
  visit(wire.batch_sizes, task.estimator.batch_schedule);
  visit(wire.use_correction, task.use_correction);
  visit(wire.memory_stamp, task.memory_stamp);
  visit(wire.proximal, task.proximal);
  visit(wire.proximal_form, task.proximal_form);
  visit(wire.proximal_weight, task.proximal_weight);
  visit(wire.proximal_sigma, task.proximal_sigma);
  visit(wire.curvature_form, task.curvature_form);
  visit(wire.curvature, task.curvature);
  visit(wire.draws_iterate, task.draws_iterate);
  visit(wire.local_retraction, task.local_retraction);
  visit(wire.deadline_ms, task.deadline_ms);
  visit(wire.problem, task.problem);
  visit(wire.stage, task.stage);
  visit(wire.evaluates, task.evaluates);
}

// The same for what a Welcome says of the directions of its run.
template <typename Welcome, typename Directions, typename Visit>
constexpr void visit_direction_fields(Welcome& welcome, Directions& directions, Visit&& visit) {
  visit(welcome.directions, directions.kind);
  visit(welcome.shared_directions, directions.shared);
  visit(welcome.seed, directions.seed);
  visit(welcome.direction_count, directions.direction_count);
}

// The same for what a Welcome says of every task of its run, without the directions. Parts of a product are left out:
// they are no numbers, and they stand in an arena.
template <typename Welcome, typename Terms, typename Visit>
constexpr void visit_welcome_fields(Welcome& welcome, Terms& task, Visit&& visit) {
  visit(welcome.manifold, task.manifold);
  visit(welcome.retraction, task.retraction);
  visit(welcome.transport, task.transport);
  visit(welcome.rows, task.shape.rows);
  visit(welcome.cols, task.shape.cols);
  visit(welcome.seed, task.seed);
  visit(welcome.client_index, task.client_index);
  visit(welcome.stream, task.stream);
  visit(welcome.holdout, task.holdout);
}

// to <- from, for a visit: numbers and enums by their value, arrays of the same size by their bytes.
template <typename From, typename To>
void copy_field(const From& from, To& to) {
  if constexpr (std::is_array_v<From>) {
    static_assert(std::is_array_v<To> && sizeof(from) == sizeof(to));
    std::memcpy(&to, &from, sizeof(to));
  } else {
    to = static_cast<To>(from);
  }
}

// Values of a TangentBlock that this solver uploads.
inline size_t tangent_value_count(SolverId solver, Shape shape) {
  return solver == SolverId::kCurve ? 2 * shape.size() : shape.size();
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_TASK_H_
