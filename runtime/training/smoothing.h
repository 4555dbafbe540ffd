// Whether the smoothing of a zeroth-order run suits the device's data: estimates at the model with the run's smoothing
// mu, a quarter of it and four times it, from the same samples along the same directions. Where it is too large the
// first two differ (curvature), where it is too small the first and the third (rounding). Asked once, in the stage
// START: near a solution slopes are small, and the question would find curvature alone.
#ifndef GRADSTREAM_RUNTIME_TRAINING_SMOOTHING_H_
#define GRADSTREAM_RUNTIME_TRAINING_SMOOTHING_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/training/solver.h"

namespace gradstream {

class SmoothingCheck {
 public:
  // Whether the run's estimator makes its estimates of scalars, by a smoothing.
  static bool applies(const SolverRun& run) { return run.estimator->uses_scalars; }

  // Makes the estimates of the run's first local step, or a slice of them: `units` of work at most, 0 for all. run:
  // begun, and of no open step. kUnfinished: call again. kOk: to_quarter() and to_fourfold() tell. kOutOfMemory, and
  // codes of the estimator: nothing can be told.
  Status step(const SolverRun& run, uint16_t units, Arena& arena);
  // The last step() ended with kUnfinished: samples must not change.
  bool is_step_open() const { return is_step_open_; }
  // The question of a measured loss that step() waits for; null: none.
  Measurement* measurement() const { return progress_.evaluation.measurement; }
  // Gives up what is open.
  void drop(Arena& arena);

  // |s - s'| / max(|s|, |s'|) of the scalars s at mu and s' at mu / 4, and the same of those at 4 mu; 0 where both are
  // 0.
  float to_quarter() const { return distances_[0]; }
  float to_fourfold() const { return distances_[1]; }

 private:
  static constexpr uint32_t kEstimateCount = 3;
  Status make_estimates(const SolverRun& run, Arena& arena);

  EstimateProgress progress_ = {};
  float distances_[kEstimateCount - 1] = {};
  uint8_t next_ = 0;  // estimate that comes next
  bool is_step_open_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_SMOOTHING_H_
