// The end of a run, in the ledger: when it comes, and why.
#include <cmath>
#include <limits>
#include <vector>

#include "server/coordinator/ledger.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"

namespace gradstream {

bool Ledger::is_over() const {
  return run_state_ == gs_RunState_RUN_STATE_FINISHED || run_state_ == gs_RunState_RUN_STATE_STOPPED;
}

const StallCause& Ledger::stall() const {
  static const StallCause kNone;
  return is_over() ? kNone : stall_;
}

const StallCause& Ledger::end() const {
  static const StallCause kNone;
  return is_over() ? stall_ : kNone;
}

bool Ledger::is_done() const { return round() >= parameters_.trigger->round_count || !end_cause().empty(); }

// An anchor phase has closed, and the version that it opened has the mean gradient beside the model.
StallCause Ledger::end_cause() const {
  const auto least = static_cast<double>(parameters_.trigger.keys().stop_gradient_norm);
  if (least <= 0 || !has_anchor_) {
    return {};
  }
  const double norm = gradient_norm();
  if (!(norm <= least)) {
    return {};
  }
  return {"stop_gradient_norm",
          "the mean gradient of round " + std::to_string(round()) + " has the norm " + number_text(norm) +
              ", and the run stops at " + number_text(least),
          "to go on from this model begin a run with a smaller stop_gradient_norm"};
}

double Ledger::gradient_norm() const {
  const ManifoldOps& manifold = replica_.manifold();
  const Shape shape = parameters_.model->shape;
  std::vector<uint64_t> memory((manifold.scratch_size(shape) + kArenaAlignment) / sizeof(uint64_t) + 1);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  const Real* const g = replica_.part(ModelPart::kMeanGradient);
  const Result<Real> square = manifold.inner(shape, replica_.model(), g, g, arena);
  return square.ok() ? std::sqrt(static_cast<double>(square.value())) : std::numeric_limits<double>::infinity();
}

}  // namespace gradstream
