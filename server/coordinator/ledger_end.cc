// The end of a run, in the ledger: when it comes, and why.

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

bool Ledger::is_done() const { return run_.round() >= parameters_.trigger->round_count || !end_cause().empty(); }

// An anchor phase has closed, and the version that it opened has the mean gradient beside the model.
StallCause Ledger::end_cause() const {
  const auto least = static_cast<double>(parameters_.trigger.keys().stop_gradient_norm);
  if (least <= 0 || !run_.has_anchor()) {
    return {};
  }
  const double norm = run_.gradient_norm();
  if (!(norm <= least)) {
    return {};
  }
  return {"stop_gradient_norm",
          "the mean gradient of round " + std::to_string(run_.round()) + " has the norm " + number_text(norm) +
              ", and the run stops at " + number_text(least),
          "to go on from this model begin a run with a smaller stop_gradient_norm"};
}

}  // namespace gradstream
