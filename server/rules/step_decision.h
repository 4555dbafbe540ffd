// What the records of a run with step_size "auto" say of its step: the bytes of StageRecord::decision. They come from
// the rule in server/rules/step_rule.h. A replay reads them, and decides nothing.
#ifndef GRADSTREAM_SERVER_RULES_STEP_DECISION_H_
#define GRADSTREAM_SERVER_RULES_STEP_DECISION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "server/rules/step_rule.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// Of the version that a record leads to.
struct StepDecision {
  StepState state;
  StepMove move;                                  // of the record; all 0: the model stood still
  double trial_length = 0;                        // behind START: R / |d|, of the longest trial step
  double square = 0;                              // behind START: |d|^2
  uint32_t draw_count = 0;                        // trials that are over
  std::array<double, kStartDrawCount> best = {};  // of each, the length of the best trial step; 0: none was good
  // How state.step was found: the means of slope and curvature of line_count devices, of whom worse_count saw a rise.
  StepBound bound = StepBound::kNone;
  double slope = 0;
  double curvature = 0;
  uint32_t line_count = 0;
  uint32_t worse_count = 0;
  friend bool operator==(const StepDecision&, const StepDecision&) = default;
};

// Bytes of a decision, little-endian: step, first, slope, curvature, length, square, reach, trial_length, square of
// START, best of each draw, and the two means in f64; then count, draw_count, line_count, worse_count u32, bound u8.
inline constexpr size_t kStepDecisionSize = (11 + kStartDrawCount) * sizeof(double) + 4 * sizeof(uint32_t) + 1;
std::vector<uint8_t> encode_decision(const StepDecision& decision);
// No bytes: the decision that a run begins with. kDataCorrupt: another size, or numbers that no server decides.
Status decode_decision(std::span<const uint8_t> bytes, StepDecision* decision);

// The length of the run's model by which its moves are judged, as model_scale().
double model_scale_of(const RunParameters& parameters, std::span<const Real> model);

// The decision before, for a version in which nothing was decided and the model stood still.
StepDecision after_stage(const StepDecision& before);
// The close of START: direction is what its updates fold to, at this model.
StepDecision after_start(const RunParameters& parameters, const StepDecision& before, std::span<const Real> direction,
                         std::span<const Real> model);
// The close of TRIALS, of at least one answer. With the last draw the run has its first step. A draw in which no trial
// step is good counts only where none has a good one: the step is then the least.
StepDecision after_trials(const RunParameters& parameters, const StepDecision& before,
                          std::span<const TrialAnswer> answers);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_STEP_DECISION_H_
