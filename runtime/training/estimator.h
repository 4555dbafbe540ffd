// Gradient estimators: from losses or gradients at z to a tensor G (and, for zeroth order, the scalars it is made of).
#ifndef GRADSTREAM_RUNTIME_TRAINING_ESTIMATOR_H_
#define GRADSTREAM_RUNTIME_TRAINING_ESTIMATOR_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"
#include "runtime/training/task.h"

namespace gradstream {

// How far an estimate has come that is made in several calls. All zero but the work of the call: none is begun.
struct EstimateProgress {
  EvaluationProgress evaluation;  // of the loss or gradient in progress, and the work that the call may do
  Real compared;                  // what the loss at the displaced point is compared with: the one before it
  Real loss;                      // at z
  uint16_t direction;             // that comes next; beyond their number: the next one of their sum
  uint8_t stage;                  // the estimator's own: the evaluation that comes next, 0 the first
  bool is_placed;                 // the point of the evaluation in progress stands in scratch

  void restart() {
    evaluation.restart();
    compared = loss = 0;
    direction = 0;
    stage = 0;
    is_placed = false;
  }
};
// Of an estimate that is made in one call.
inline constexpr EstimateProgress kWholeEstimate = {kWholeEvaluation, 0, 0, 0, 0, false};

// One estimate at z in local step `step`. The problem's sample_count must not change during a task: memory was taken
// for it.
struct EstimateInput {
  const ManifoldOps* manifold = nullptr;
  Shape shape;
  Problem problem;
  const EstimatorParameters* parameters = nullptr;
  uint32_t seed = 0;          // of the minibatch stream
  uint32_t version = 0;       // base version: counter word 1 of the minibatch stream
  uint32_t client_index = 0;  // enrolment index: counter word 2 of the minibatch stream
  uint32_t holdout = 0;       // no batch has a sample that is_held_out() by it
  uint32_t step = 0;
  const Real* z = nullptr;
  EstimateProgress* progress = nullptr;  // null: the estimate is made in one call
  const Units* units = nullptr;          // taken out of the samples; null: none
};

struct EstimatorOps {
  EstimatorId id;
  const char* name;
  bool uses_scalars;  // G = (pr/m) sum_j scalars[j] u_j, so a ScalarStream can carry it
  // kInvalidArgument for parameters out of bounds or a device without samples; kUnimplemented when the problem has no
  // gradient and one is needed. Reads neither z nor step.
  Status (*check)(const EstimateInput& input);
  // Bytes of arena scratch that estimate takes. Reads neither z nor step.
  size_t (*scratch_size)(const EstimateInput& input);
  // scalars: direction_count values (ignored when !uses_scalars). g: shape.size() values, not z. loss: mean loss at z
  // over the same samples, or null for none (one more evaluation, except for the one-sided estimators, which have it).
  // kNotFinite ends the step; kSingular (P_M, or the metric at z); a problem's own code is passed on. On an error
  // scalars, g and loss are unspecified.
  // kUnfinished: the call's work is done, or the problem answered so. Call again with the same input, memory and z; the
  // arena holds the scratch (Arena::hold_scratch). Without input.progress only a problem answers so. The caller
  // restarts the progress after any other answer. The numbers do not depend on where the calls end.
  Status (*estimate)(const EstimateInput& input, Real* scalars, Real* g, Real* loss, Arena& arena);
};

extern const EstimatorOps kAnalyticGradientOps;
extern const EstimatorOps kProjectionOneSidedOps;
extern const EstimatorOps kProjectionTwoSidedOps;
extern const EstimatorOps kTangentRetractionOps;
extern const EstimatorOps kProjectionTangentOps;

// What the estimators share about samples. check: kInvalidArgument for no samples, none that is not held out, more than
// kSampleCountMax, an unknown mode or a batch_size out of bounds. draw: the samples of a step for kAll and kCommon; the
// index list (one entry for each sample held) stands in scratch, inside the caller's ScratchScope, and so does what the
// problem keeps for the batch. Both live as long as the estimate, in which no sample changes.
Status check_batch(const EstimateInput& input);
size_t batch_scratch_size(const EstimateInput& input);
Result<Batch> draw_batch(const EstimateInput& input, Arena& arena);
// Whether scratch of this estimate already holds something: a call before ended with kUnfinished.
bool is_begun(const EstimateInput& input);
// Samples of the largest batch of the task, for kAll and kCommon.
uint32_t batch_count_max(const EstimateInput& input);
RandomKey minibatch_key(const EstimateInput& input);
// Samples that batches are drawn from: those that are not held out. The work array of `count` of them has room for all
// samples held; drawn without replacement, or in order where all are wanted.
uint32_t trained_count(const EstimateInput& input);
void choose_trained(const EstimateInput& input, const RandomKey& key, uint32_t count, uint16_t* work);

// The problem's mean loss at x over the batch, in *loss; kNotFinite also where the problem itself does not look. With
// `gradient`, which may be null, instead the gradient of that mean, in its shape.size() values. input.progress is not
// null. kUnfinished: call again with the same arguments; the scratch of the scopes around is held.
Status evaluate(const EstimateInput& input, const Real* x, Batch batch, Real* gradient, Real* loss, Arena& arena);
// The input with `whole` as its progress where it has none.
inline EstimateInput with_progress(const EstimateInput& input, EstimateProgress* whole) {
  EstimateInput out = input;
  out.progress = input.progress != nullptr ? input.progress : whole;
  return out;
}
// The loss alone, in one call; input.progress may be null.
inline Result<Real> finite_loss(const EstimateInput& input, const Real* x, Batch batch, Arena& arena) {
  EstimateProgress whole = kWholeEstimate;
  Real loss = 0;
  GS_TRY(evaluate(with_progress(input, &whole), x, batch, nullptr, &loss, arena));
  return loss;
}
// Does an evaluation of `progress` by make() -> Status, if the call may still work. A problem that makes an evaluation
// in one call takes no unit itself: it is charged one. kUnfinished: call again; the scratch of the scopes around is
// held.
template <typename Make>
Status charge_evaluation(EvaluationProgress& progress, Arena& arena, Make make) {
  const uint32_t units = progress.units_left;
  const Status status = units > 0 ? make() : Status::kUnfinished;
  if (status == Status::kUnfinished) {
    arena.hold_scratch();
    return status;
  }
  progress.restart();
  if (progress.units_left == units) {
    --progress.units_left;
  }
  return status;
}

// The sample of direction j with BatchMode::kPerDirection: index (word_j * n) >> 32.
uint16_t sample_of_direction(const EstimateInput& input, uint32_t j);

// ---- The scalars of the projection estimators (A8), wherever their displaced points stand ----

// Of EstimateProgress: the evaluation that comes next.
enum class ProjectionStage : uint8_t { kAtZ, kPlus, kMinus };

// scalars[j] over the batch, and in progress.loss the loss at z, or the sum of those of the directions so far. points:
// Status loss_at(ProjectionStage, uint32_t j, Batch, Real* loss) evaluates at z, P_M(z + mu u_j) or P_M(z - mu u_j),
// and void take(Real scalar) is told the scalar of the direction whose losses these were.
template <typename Points>
Status fill_projection_scalar(const EstimateInput& input, bool two_sided, bool wants_loss, Points& points, uint32_t j,
                              Batch batch, bool is_sum, Real* scalar) {
  EstimateProgress& progress = *input.progress;
  const Real smoothing = input.parameters->smoothing;
  constexpr auto kAtZ = static_cast<uint8_t>(ProjectionStage::kAtZ);
  constexpr auto kPlus = static_cast<uint8_t>(ProjectionStage::kPlus);
  constexpr auto kMinus = static_cast<uint8_t>(ProjectionStage::kMinus);
  for (const uint8_t last = two_sided ? kMinus : kPlus;; ++progress.stage) {
    if (progress.stage == kAtZ && two_sided && !wants_loss) {
      continue;
    }
    Real loss = 0;
    GS_TRY(points.loss_at(static_cast<ProjectionStage>(progress.stage), j, batch, &loss));
    if (progress.stage == last) {
      *scalar = two_sided ? (progress.compared - loss) / (static_cast<Real>(2) * smoothing)
                          : (loss - progress.compared) / smoothing;
      break;
    }
    progress.compared = loss;
    if (progress.stage == kAtZ) {
      progress.loss = is_sum ? progress.loss + loss : loss;
    }
  }
  progress.stage = is_sum ? kAtZ : kPlus;
  points.take(*scalar);
  return std::isfinite(*scalar) ? Status::kOk : Status::kNotFinite;
}

// All scalars. One batch for all directions, or one sample for each, (word_j * n) >> 32 (003 as printed).
template <typename Points>
Status fill_projection_scalars(const EstimateInput& input, bool two_sided, bool wants_loss, Points& points,
                               Real* scalars, Arena& arena) {
  const bool is_per_direction = input.parameters->batch_mode == BatchMode::kPerDirection;
  Batch batch;
  if (!is_per_direction) {
    const Result<Batch> common = draw_batch(input, arena);
    GS_TRY(common.status());
    batch = common.value();
  }
  for (uint16_t& j = input.progress->direction; j < input.parameters->directions.direction_count; ++j) {
    uint16_t index = 0;
    if (is_per_direction) {
      index = sample_of_direction(input, j);
      batch = {&index, 1};
    }
    GS_TRY(fill_projection_scalar(input, two_sided, wants_loss, points, j, batch, is_per_direction, &scalars[j]));
  }
  return Status::kOk;
}

// The mean loss at z that the scalars came with.
inline Real projection_loss(const EstimateInput& input) {
  const EstimatorParameters& parameters = *input.parameters;
  const bool is_sum = parameters.batch_mode == BatchMode::kPerDirection;
  const Real loss = input.progress->loss;
  return is_sum ? loss / static_cast<Real>(parameters.directions.direction_count) : loss;
}

// The member of `linked` with this id, or null.
const EstimatorOps* find_estimator(std::span<const EstimatorOps* const> linked, EstimatorId id);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_ESTIMATOR_H_
