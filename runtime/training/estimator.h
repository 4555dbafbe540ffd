// Gradient estimators: from losses or gradients at z to a tensor G (and, for zeroth order, the scalars it is made of).
#ifndef GRADSTREAM_RUNTIME_TRAINING_ESTIMATOR_H_
#define GRADSTREAM_RUNTIME_TRAINING_ESTIMATOR_H_

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
  uint32_t step = 0;
  const Real* z = nullptr;
  EstimateProgress* progress = nullptr;  // null: the estimate is made in one call
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

// What the estimators share about samples. check: kInvalidArgument for no samples, more than kSampleCountMax, an
// unknown mode or a batch_size out of bounds. draw: the samples of a step for kAll and kCommon; the index list (one
// entry for each sample held) stands in scratch, inside the caller's ScratchScope, and so does what the problem keeps
// for the batch. Both live as long as the estimate, in which no sample changes.
Status check_batch(const EstimateInput& input);
size_t batch_scratch_size(const EstimateInput& input);
Result<Batch> draw_batch(const EstimateInput& input, Arena& arena);
RandomKey minibatch_key(const EstimateInput& input);

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
// The sample of direction j with BatchMode::kPerDirection: index (word_j * n) >> 32.
uint16_t sample_of_direction(const EstimateInput& input, uint32_t j);
// The member of `linked` with this id, or null.
const EstimatorOps* find_estimator(std::span<const EstimatorOps* const> linked, EstimatorId id);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_ESTIMATOR_H_
