#include "runtime/base/no_contraction.h"

#include "runtime/link/client_line.h"

#include <cmath>
#include <cstring>

#include "runtime/base/products.h"
#include "runtime/problem/holdout.h"
#include "runtime/problem/measurement.h"

namespace gradstream {

void LineTracker::open(const Replica& replica, size_t extra_size, Arena& arena) {
  is_open_ = false;
  is_kept_ = false;
  const size_t size = replica.shape().size();
  if (old_ == nullptr) {
    const size_t needed =
        2 * Arena::taken_size<Real>(size) + extra_size + Replica::scratch_size(replica.manifold(), replica.shape());
    if (needed > arena.free_size()) {
      return;
    }
    mark_ = arena.mark();
    old_ = arena.persistent<Real>(size).value();
    half_ = arena.persistent<Real>(size).value();
  }
  copy(size, replica.model(), old_);
  is_open_ = true;
  has_half_ = false;
}

void LineTracker::close(const Replica& replica, Arena& arena) {
  if (!is_open_) {
    return;
  }
  is_open_ = false;
  const size_t size = replica.shape().size();
  const bool has_moved = std::memcmp(old_, replica.model(), size * sizeof(Real)) != 0;
  if (!has_half_) {
    for (size_t e = 0; e < size; ++e) {
      half_[e] = static_cast<Real>(0.5) * (old_[e] + replica.model()[e]);
    }
    has_half_ = replica.manifold().project_point(replica.shape(), half_, half_, arena) == Status::kOk;
  }
  is_kept_ = has_moved && has_half_;
  version_ = replica.version();
  next_ = 0;
  progress_ = EstimateProgress{};
}

Status LineTracker::evaluate_points(const EstimateInput& given, uint32_t holdout, const Real* model, Arena& arena) {
  ScratchScope scope(arena);
  const Result<uint16_t*> indices = arena.scratch<uint16_t>(kEvaluationSampleMax);
  GS_TRY(indices.status());
  const Problem& problem = given.problem;
  const uint32_t held = problem.ops->sample_count(problem.context);
  const uint32_t count = fill_evaluation_samples(held, holdout, indices.value());
  if (count == 0) {
    return Status::kInvalidArgument;
  }
  EstimateInput input = given;
  input.progress = &progress_;
  const Real* const points[kPointCount] = {old_, half_, model};
  for (; next_ < kPointCount; ++next_) {
    Real loss = 0;
    GS_TRY(evaluate(input, points[next_], {indices.value(), count}, nullptr, &loss, arena));
    losses_[next_] = loss;
  }
  const Real curvature = 2 * (losses_[2] - 2 * losses_[1] + losses_[0]);
  line_ = {static_cast<float>(losses_[2] - losses_[0] - curvature), static_cast<float>(curvature)};
  return std::isfinite(line_.curvature) && std::isfinite(line_.slope) ? Status::kOk : Status::kNotFinite;
}

Status LineTracker::step(const EstimateInput& input, uint32_t holdout, const Real* model, uint16_t units,
                         Arena& arena) {
  if (is_step_open_) {
    arena.resume_scratch();
  }
  progress_.evaluation.units_left = units == 0 ? EvaluationProgress::kNoLimit : units;
  const Status status = evaluate_points(input, holdout, model, arena);
  is_step_open_ = status == Status::kUnfinished;
  if (is_step_open_) {
    arena.suspend_scratch();
  }
  return status;
}

void LineTracker::drop(Arena& arena) {
  if (is_step_open_) {
    if (kAwaitsMeasurements && progress_.evaluation.measurement != nullptr) {
      progress_.evaluation.measurement->drop();
    }
    arena.drop_scratch();
  }
  if (old_ != nullptr) {
    arena.release(mark_);
  }
  const uint64_t proven_digest = proven_digest_;
  *this = LineTracker();
  proven_digest_ = proven_digest;
}

}  // namespace gradstream
