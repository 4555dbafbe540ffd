#include "runtime/base/no_contraction.h"

#include "runtime/training/evaluation.h"

#include <cmath>

#include "runtime/problem/holdout.h"
#include "runtime/problem/measurement.h"

namespace gradstream {

Status HeldOutEvaluation::step(const EstimateInput& given, const Real* model, uint16_t units, Arena& arena) {
  if (is_open_) {
    arena.resume_scratch();
  } else {
    *this = HeldOutEvaluation();
  }
  progress_.evaluation.units_left = units == 0 ? EvaluationProgress::kNoLimit : units;
  EstimateInput input = given;
  input.progress = &progress_;
  Status status = take_chunks(input, model, units != 0, arena);
  is_open_ = status == Status::kUnfinished;
  if (is_open_) {
    arena.suspend_scratch();
  } else if (status == Status::kOk) {
    status = finish(input.problem);
  }
  return status;
}

Status HeldOutEvaluation::take_chunks(const EstimateInput& input, const Real* model, bool is_sliced, Arena& arena) {
  ScratchScope scope(arena);
  const Result<uint16_t*> indices = arena.scratch<uint16_t>(kEvaluationChunk);
  GS_TRY(indices.status());
  const ProblemOps& ops = *input.problem.ops;
  const uint32_t held = ops.sample_count(input.problem.context);
  for (;;) {
    uint32_t count = 0;
    uint32_t end = next_;
    for (; end < held && count < kEvaluationChunk; ++end) {
      if (is_held_out(end, input.holdout)) {
        indices.value()[count++] = static_cast<uint16_t>(end);
      }
    }
    if (count == 0) {
      return Status::kOk;
    }
    progress_.evaluation.quality = ops.metric != nullptr ? &chunk_ : nullptr;
    Real loss = 0;
    GS_TRY(evaluate(input, model, {indices.value(), count}, nullptr, &loss, arena));
    loss_sum_ += loss * static_cast<Real>(count);
    sum_.add(chunk_.part, chunk_.whole);
    chunk_ = QualitySum();
    count_ += count;
    next_ = end;
    if (!is_sliced && next_ < held) {
      arena.hold_scratch();
      return Status::kUnfinished;
    }
  }
}

Status HeldOutEvaluation::finish(const Problem& problem) {
  if (count_ == 0) {
    return Status::kInvalidArgument;
  }
  const Real loss = loss_sum_ / static_cast<Real>(count_);
  const bool has_metric = problem.ops->metric != nullptr && sum_.whole > 0;
  quality_ = {count_, static_cast<float>(loss), static_cast<float>(has_metric ? problem.ops->metric(sum_) : loss)};
  return std::isfinite(quality_.loss) && std::isfinite(quality_.metric) ? Status::kOk : Status::kNotFinite;
}

void HeldOutEvaluation::drop(Arena& arena) {
  if (is_open_) {
    if (kAwaitsMeasurements && progress_.evaluation.measurement != nullptr) {
      progress_.evaluation.measurement->drop();
    }
    arena.drop_scratch();
  }
  *this = HeldOutEvaluation();
}

}  // namespace gradstream
