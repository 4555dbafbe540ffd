// The analytic gradient: first-order counterpart of the projection estimator (A10), and what RFedAGS uses (A1).
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/training/estimator.h"

namespace gradstream {
namespace {

// Of EstimateProgress: what comes next.
enum Stage : uint8_t { kLoss, kGradient };

Status check(const EstimateInput& input) {
  if (!has_gradient(input.problem)) {
    return Status::kUnimplemented;
  }
  GS_TRY(check_batch(input));
  return input.parameters->batch_mode == BatchMode::kPerDirection ? Status::kInvalidArgument : Status::kOk;
}

size_t scratch_size(const EstimateInput& input) {
  const size_t manifold_size = input.manifold->scratch_size(input.shape);
  const size_t problem_size = input.problem.ops->scratch_size(input.problem.context, input.shape);
  return batch_scratch_size(input) + (manifold_size > problem_size ? manifold_size : problem_size);
}

Status estimate(const EstimateInput& given, Real*, Real* g, Real* loss, Arena& arena) {
  EstimateProgress whole = kWholeEstimate;
  const EstimateInput input = with_progress(given, &whole);
  ScratchScope scope(arena);
  EstimateProgress& progress = *input.progress;
  const Result<Batch> batch = draw_batch(input, arena);
  GS_TRY(batch.status());
  if (loss != nullptr && progress.stage == kLoss) {
    GS_TRY(evaluate(input, input.z, batch.value(), nullptr, &progress.loss, arena));
  }
  progress.stage = kGradient;
  GS_TRY(evaluate(input, input.z, batch.value(), g, nullptr, arena));
  GS_TRY(input.manifold->riemannian_gradient(input.shape, input.z, g, g, arena));
  if (loss != nullptr) {
    *loss = progress.loss;
  }
  return all_finite(input.shape.size(), g) ? Status::kOk : Status::kNotFinite;
}

}  // namespace

const EstimatorOps kAnalyticGradientOps = {
    EstimatorId::kAnalyticGradient, "analytic gradient", false, check, scratch_size, estimate};

}  // namespace gradstream
