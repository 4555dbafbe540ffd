#include "runtime/base/no_contraction.h"

#include "server/rules/step_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/base/status.h"
#include "server/run/step_keys.h"

namespace gradstream {
namespace {

// The rule's constants, with the workloads that chose them in docs/algorithms.md.
constexpr double kMemoryMax = 0.9;     // share of the running means that a version keeps
constexpr double kGrowth = 1.1;        // a step grows by at most this factor a version
constexpr double kShrink = 1.5;        // and falls by at most this one
constexpr double kWorseShare = 0.75;   // of the lines: so many rises halve the step at once
constexpr double kStartShare = 0.25;   // of the best trial step
constexpr double kCeiling = 1e3;       // of the first step
constexpr double kFloor = 1e-4;        // of the first step
constexpr double kMoveMax = 0.5;       // of the model's scale, a version
constexpr double kWeightShare = 0.25;  // of all updates of a version, that change the step
constexpr size_t kTrimFrom = 5;        // values; of fewer none is left out
constexpr size_t kTrimShare = 5;       // one of so many is left out at each end
constexpr double kBoundedFactor = 2;   // R of a bounded model, in its scale: across it
constexpr double kFreeFactor = 16;     // R of another one
constexpr float kChangeMax = 1e30F;    // of a trial step's loss

float bounded_change(float change) { return std::isfinite(change) ? std::min(change, kChangeMax) : kChangeMax; }

double wanted_length(const StepState& state) {
  if (state.curvature > 0) {
    return std::max(-state.slope, 0.0) / (2 * state.curvature);
  }
  return state.slope < 0 ? std::numeric_limits<double>::infinity() : 0;
}

}  // namespace

const char* step_bound_name(StepBound bound) {
  constexpr std::array<const char*, kStepBoundCount> kNames = {"none",  "wanted",  "grow", "shrink", "worse",
                                                               "floor", "ceiling", "move", "few"};
  return kNames[static_cast<size_t>(bound)];
}

StepLine StepLine::along(double slope, double curvature, double weight, const StepMove& move) {
  return {slope / (move.length * move.square), curvature / (move.length * move.length * move.square), weight,
          slope + curvature > 0};
}

double trimmed_mean(std::span<const double> values, std::span<const double> weights) {
  GS_ASSERT(!values.empty() && values.size() == weights.size());
  const size_t count = values.size();
  const size_t left_out = count >= kTrimFrom ? std::max<size_t>(1, count / kTrimShare) : 0;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  double sum = 0;
  double weight = 0;
  for (size_t i = left_out; i < count - left_out; ++i) {
    sum += values[order[i]] * weights[order[i]];
    weight += weights[order[i]];
  }
  return sum / weight;
}

double model_scale(bool is_bounded, uint32_t cols, double model_norm) {
  return is_bounded ? std::sqrt(static_cast<double>(cols)) : 1 + model_norm;
}

double longest_move(bool is_bounded, double scale) { return (is_bounded ? kBoundedFactor : kFreeFactor) * scale; }

BestRung best_rung(double length, std::span<const TrialAnswer> answers) {
  std::vector<double> changes(answers.size());
  std::vector<double> weights(answers.size());
  BestRung best{std::ldexp(length, 1 - static_cast<int>(kTrialCount)), true};
  double least = 0;
  for (uint32_t q = 0; q < kTrialCount; ++q) {
    for (size_t i = 0; i < answers.size(); ++i) {
      changes[i] = static_cast<double>(bounded_change(answers[i].changes[q]));
      weights[i] = answers[i].weight;
    }
    const double mean = trimmed_mean(changes, weights);
    if (mean < least) {
      least = mean;
      best = {std::ldexp(length, -static_cast<int>(q)), false};
    }
  }
  return best;
}

double first_step(std::span<const double> best, double reach) {
  GS_ASSERT(!best.empty());
  std::vector<double> sorted(best.begin(), best.end());
  std::sort(sorted.begin(), sorted.end());
  return kStartShare * sorted[(sorted.size() - 1) / 2] / reach;
}

StepState begin_steps(double first) { return {.step = first, .first = first}; }

bool has_enough_lines(std::span<const StepLine> lines, double weight_total, uint32_t asked_count) {
  double weight = 0;
  for (const StepLine& line : lines) {
    weight += line.weight;
  }
  return !lines.empty() && lines.size() >= std::min(kLineCountMin, asked_count) &&
         weight >= kWeightShare * weight_total;
}

FoldedLines fold_lines(std::span<const StepLine> lines, const StepMove& newest, double scale, StepState* state) {
  if (lines.empty()) {
    return {};
  }
  std::vector<double> slopes;
  std::vector<double> curvatures;
  std::vector<double> weights;
  size_t worse_count = 0;
  for (const StepLine& line : lines) {
    slopes.push_back(line.slope);
    curvatures.push_back(line.curvature);
    weights.push_back(line.weight);
    worse_count += line.is_worse ? 1 : 0;
  }
  const double slope = trimmed_mean(slopes, weights);
  const double curvature = trimmed_mean(curvatures, weights);
  if (!std::isfinite(slope) || !std::isfinite(curvature)) {
    return {};
  }
  ++state->count;
  const double keep = std::min(kMemoryMax, 1 - 1 / static_cast<double>(state->count));
  state->slope = keep * state->slope + (1 - keep) * slope;
  state->curvature = keep * state->curvature + (1 - keep) * curvature;
  state->curvature = std::max(state->curvature, curvature);  // a wall is believed at once, its end slowly
  double step = wanted_length(*state) / newest.reach;
  StepBound bound = StepBound::kWanted;
  const auto keep_within = [&](bool is_beyond, double limit, StepBound name) {
    if (is_beyond) {
      step = limit;
      bound = name;
    }
  };
  const double least = state->step / kShrink;
  keep_within(step < least, least, StepBound::kShrink);
  const double most = state->step * kGrowth;
  keep_within(step > most, most, StepBound::kGrow);
  const double half = newest.length / newest.reach / 2;
  const bool is_worse = static_cast<double>(worse_count) >= kWorseShare * static_cast<double>(lines.size());
  keep_within(is_worse && step > half, half, StepBound::kWorse);
  keep_within(step < state->first * kFloor, state->first * kFloor, StepBound::kFloor);
  keep_within(step > state->first * kCeiling, state->first * kCeiling, StepBound::kCeiling);
  const double longest = kMoveMax * scale / std::sqrt(newest.square) / newest.reach;
  keep_within(step > longest, longest, StepBound::kMove);
  state->step = step;
  return {bound, slope, curvature};
}

}  // namespace gradstream
