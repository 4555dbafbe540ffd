// Steps by themselves (step_size "auto"): the line rule. The server learns slope and curvature of the fleet's loss
// along each record that it folded. Their quotient is the step of the next version (docs/algorithms.md, "Steps by
// themselves").
//
// All of it is a pure function of numbers that the journal holds. It computes in double by + - * / and square roots, in
// the order of enrolment indices, so that every processor finds the same step.
//
//   START, TRIALS, twice   best_rung() of each draw, then first_step(): eta_0
//   each later version     StepLine::along() of each device's line, then fold_lines(): eta
#ifndef GRADSTREAM_SERVER_RULES_STEP_RULE_H_
#define GRADSTREAM_SERVER_RULES_STEP_RULE_H_

#include <array>
#include <cstdint>
#include <span>

#include "server/run/run_stages.h"

namespace gradstream {

// What decided a step.
enum class StepBound : uint8_t {
  kNone = 0,     // no lines were wanted: the version before it was a stage
  kWanted = 1,   // slope / (2 curvature)
  kGrow = 2,     // it grows by no more than a tenth
  kShrink = 3,   // it falls by no more than a third
  kWorse = 4,    // three quarters of the devices found the record worse than its start: half of its step
  kFloor = 5,    // 1e-4 of the first step
  kCeiling = 6,  // 1e3 of the first step
  kMove = 7,     // the model moves by no more than half of its own scale
  kFew = 8,      // too few devices sent a line (has_enough_lines()): it stays as it was
};
inline constexpr uint8_t kStepBoundCount = 9;
const char* step_bound_name(StepBound bound);

// A record: the model moved by `length` (eta_g eta K_eff) times the direction d, whose squared norm is `square`. reach:
// eta_g K_eff, the length for a step size of 1. All are above 0.
struct StepMove {
  double length = 0;
  double square = 0;
  double reach = 0;
  friend bool operator==(const StepMove&, const StepMove&) = default;
};

// The loss of one device along a record, in units of the direction: f(a) = f(0) + slope a |d|^2 + curvature a^2 |d|^2.
struct StepLine {
  double slope = 0;
  double curvature = 0;
  double weight = 0;      // of the device's update
  bool is_worse = false;  // its loss rose
  // From f(x) = f(0) + slope x + curvature x^2 with x = 1 at the record's end, as the wire has it.
  static StepLine along(double slope, double curvature, double weight, const StepMove& move);
};

struct StepState {
  double step = 0;   // eta, of the tasks of the open version
  double first = 0;  // eta_0; 0: the trials are not over
  // Running means of the slope and of the curvature.
  double slope = 0;
  double curvature = 0;
  uint32_t count = 0;  // of versions that went into them
  friend bool operator==(const StepState&, const StepState&) = default;
};

// Weighted mean of values and their weights (both of one length, at least 1; weights above 0). From 5 values on it
// leaves out the lowest and the highest fifth, at least one each. Of equal values the first ones count as lower.
double trimmed_mean(std::span<const double> values, std::span<const double> weights);

// The length of a model by which its moves are judged: sqrt(cols) where the manifold bounds it, else 1 + its norm.
double model_scale(bool is_bounded, uint32_t cols, double model_norm);
// R, the longest movement that is tried: twice that, or 16 times where nothing bounds the model.
double longest_move(bool is_bounded, double scale);

// A device's answer: f at the trial steps length 2^-q, less f at the model.
struct TrialAnswer {
  std::array<float, kTrialCount> changes = {};
  double weight = 0;
};
struct BestRung {
  double length = 0;    // of the trial step that lowers the loss most
  bool is_bad = false;  // none lowers it: length is that of the shortest
};
// Of at least one answer. What is no number, or above 1e30, counts as 1e30.
BestRung best_rung(double length, std::span<const TrialAnswer> answers);
// eta_0 of the draws' best trial steps (at least one): a quarter of their lower median, by `reach`.
double first_step(std::span<const double> best, double reach);
// The state that the trials lead to.
StepState begin_steps(double first);

// What lines came to: their means, and what decided the step.
struct FoldedLines {
  StepBound bound = StepBound::kFew;
  double slope = 0;
  double curvature = 0;
};
// Whether lines change the step: at least kLineCountMin of them, or as many as devices were asked where those are
// fewer, with a quarter of the weight of all updates of their version.
bool has_enough_lines(std::span<const StepLine> lines, double weight_total, uint32_t asked_count);
// Folds the lines of one version, in the order of enrolment indices, and sets the next step. newest: the record that
// made the open version; scale: of its model. Lines that are no finite numbers in their mean change nothing (kFew).
FoldedLines fold_lines(std::span<const StepLine> lines, const StepMove& newest, double scale, StepState* state);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_STEP_RULE_H_
