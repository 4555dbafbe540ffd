#include "runtime/base/no_contraction.h"

#include "runtime/link/client_feedback.h"

#include <utility>

#include "runtime/base/products.h"
#include "runtime/training/encoding.h"

namespace gradstream {

Status ErrorFeedback::prepare(size_t size, Arena& arena) {
  for (Real*& tensor : tensors_) {
    const Result<Real*> memory = arena.persistent<Real>(size);
    GS_TRY(memory.status());
    tensor = memory.value();
  }
  return Status::kOk;
}

// Uploads are sums over steps, or means of them, that the server averages per step.
Status ErrorFeedback::encode(const SolverRun& run, const GradientStream& stream, uint8_t* out, Arena& arena,
                             FeedbackCounts* counts) {
  const size_t count = stream.value_count;
  const Encoding encoding = run.task.encoding;
  const bool is_sum = run.task.solver != SolverId::kProjection;
  const Real steps = static_cast<Real>(is_sum ? stream.steps_done : 1);
  counts->lost += move_to(run, arena) ? 0U : 1U;
  Real* const residual = tensors_[kResidual];
  copy(count, stream.values, residual);
  add_scaled(count, steps, tensors_[kBefore], residual);
  Status status = encode_values(encoding, count, residual, out);
  if (status == Status::kOk) {
    status = subtract_values(encoding, count, out, encoded_size(encoding, count), residual);
  }
  if (status == Status::kOk && is_sum) {
    status = run.manifold->project_tangent(run.task.shape, run.model, residual, residual, arena);
  }
  if (status != Status::kOk) {
    take_back();
    return status;
  }
  counts->carried += has_residual_ ? 1U : 0U;
  scale(count, 1 / steps, residual);
  has_residual_ = true;
  return Status::kOk;
}

// The one before <- the residual, transported to the model of the task, which becomes the base. Ambient uploads (solver
// projection) need no transport. false: it is lost.
bool ErrorFeedback::move_to(const SolverRun& run, Arena& arena) {
  const Shape shape = run.task.shape;
  Real* const before = tensors_[kBefore];
  Status status = Status::kOk;
  if (has_residual_ && run.task.solver != SolverId::kProjection) {
    status = run.manifold->transport(shape, tensors_[kBase], run.model, tensors_[kResidual], before, arena);
  } else if (has_residual_) {
    copy(shape.size(), tensors_[kResidual], before);
  }
  const bool is_lost = has_residual_ && (status != Status::kOk || !all_finite(shape.size(), before));
  has_residual_ = has_residual_ && !is_lost;
  if (!has_residual_) {
    fill_zero(shape.size(), before);
  }
  copy(shape.size(), run.model, tensors_[kBase]);
  return !is_lost;
}

void ErrorFeedback::take_back() { std::swap(tensors_[kResidual], tensors_[kBefore]); }

}  // namespace gradstream
