// The line rule: replayed against the trajectories of the prototype in numpy (tests/golden/README.md), and its bounds.
#include "server/rules/step_rule.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> numbers(std::istringstream* line) {
  std::vector<double> out;
  for (double value = 0; *line >> value;) {
    out.push_back(value);
  }
  return out;
}

// Reads a run of the golden file line by line, and computes each of its steps again.
class Replay {
 public:
  void read(const std::string& text) {
    std::istringstream line(text);
    std::string key;
    line >> key;
    if (key == "run" || key == "#") {
      return;
    }
    const std::vector<double> values = numbers(&line);
    if (key == "weights") {
      weights_.assign(values.begin() + 1, values.end());
      ASSERT_EQ(weights_.size(), values[0]);
      best_.clear();
    } else if (key == "draw") {
      draw(values);
    } else if (key == "first") {
      reach_ = values[0];
      state_ = begin_steps(first_step(best_, reach_));
      EXPECT_NEAR(state_.step / values[1], 1, 1e-9);
    } else if (key == "version") {
      version(values);
    }
  }
  int version_count() const { return version_count_; }
  int worse_count() const { return worse_count_; }

 private:
  void draw(const std::vector<double>& values) {
    std::vector<TrialAnswer> answers(weights_.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      answers[i].weight = weights_[i];
      for (size_t q = 0; q < kTrialCount; ++q) {
        answers[i].changes[q] = static_cast<float>(values[1 + i * kTrialCount + q]);
      }
    }
    const BestRung best = best_rung(values[0], answers);
    EXPECT_FALSE(best.is_bad);
    best_.push_back(best.length);
  }
  // length, norm, scale, slope and curvature of each device, the next step
  void version(const std::vector<double>& values) {
    ASSERT_EQ(values.size(), 4 + 2 * weights_.size());
    const StepMove move{values[0], values[1] * values[1], reach_};
    std::vector<StepLine> lines(weights_.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      const double slope = values[3 + 2 * i];
      const double curvature = values[4 + 2 * i];
      lines[i] = {slope, curvature, weights_[i], slope + curvature * move.length > 0};
    }
    const StepBound bound = fold_lines(lines, move, values[2], &state_).bound;
    EXPECT_NEAR(state_.step / values.back(), 1, 1e-9) << "version " << version_count_;
    ++version_count_;
    worse_count_ += bound == StepBound::kWorse ? 1 : 0;
  }

  std::vector<double> weights_;
  std::vector<double> best_;
  double reach_ = 0;
  StepState state_;
  int version_count_ = 0;
  int worse_count_ = 0;
};

TEST(StepRule, ReplaysThePrototypesTrajectoriesHonestAndWithALiar) {
  std::ifstream file(GS_SOURCE_DIR "/tests/golden/step_trajectories.txt");
  ASSERT_TRUE(file.is_open());
  Replay replay;
  for (std::string line; std::getline(file, line);) {
    replay.read(line);
  }
  EXPECT_EQ(replay.version_count(), 160);
  EXPECT_GT(replay.worse_count(), 0);
}

TEST(StepRule, TrimmedMeanLeavesOutAFifthAtEachEndFromFiveValuesOn) {
  const std::vector<double> ones(11, 1.0);
  const auto mean = [&](std::vector<double> values) {
    return trimmed_mean(values, std::span(ones).first(values.size()));
  };
  EXPECT_EQ(mean({7}), 7);
  EXPECT_EQ(mean({1, 2, 3, 1e9}), (6 + 1e9) / 4) << "of four none is left out";
  EXPECT_EQ(mean({-1e9, 1, 2, 3, 1e9}), 2);
  EXPECT_EQ(mean({1e9, 5, 1e9, -1e9, 4, 6, -1e9, 5, 4, 6}), 5) << "two of ten at each end";
  EXPECT_EQ(trimmed_mean(std::vector<double>{1, 2, 4}, std::vector<double>{1, 2, 1}), 9.0 / 4);
}

TrialAnswer answer(std::vector<float> changes, double weight = 1) {
  TrialAnswer out;
  out.weight = weight;
  changes.resize(kTrialCount);
  std::copy(changes.begin(), changes.end(), out.changes.begin());
  return out;
}

TEST(StepRule, TheBestTrialStepIsThatOfTheLeastMean) {
  const float bad = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<TrialAnswer> answers = {answer({bad, 5, -1, -3, -2}), answer({1, infinite, -1, -1, -1}),
                                            answer({1, 1, 1, -1, -1})};
  EXPECT_EQ(best_rung(16, answers).length, 2);
  EXPECT_FALSE(best_rung(16, answers).is_bad);
  // Three honest ones of five outvote one that promises the moon for the longest and one that knows no number.
  std::vector<TrialAnswer> mixed(5, answer({4, 2, 1, -1, -2, -1}));
  mixed[1] = answer({-infinite, bad, bad, bad, bad, bad});
  mixed[3] = answer({-1e30F, -1e30F, -1e30F, 0, 0, 0});
  EXPECT_EQ(best_rung(16, mixed).length, 1);
}

TEST(StepRule, WithoutAGoodTrialStepTheShortestIsTaken) {
  const float bad = std::numeric_limits<float>::infinity();
  const BestRung rising = best_rung(8, std::vector<TrialAnswer>(3, answer(std::vector<float>(kTrialCount, bad))));
  EXPECT_TRUE(rising.is_bad);
  EXPECT_EQ(rising.length, std::ldexp(8.0, -31));
  EXPECT_TRUE(best_rung(8, std::vector<TrialAnswer>(3, answer({}))).is_bad) << "nothing changes: no step is good";
}

TEST(StepRule, TheFirstStepIsAQuarterOfTheLowerMedian) {
  EXPECT_EQ(first_step(std::vector<double>{8, 2}, 5), 0.25 * 2 / 5);
  EXPECT_EQ(first_step(std::vector<double>{2, 8}, 5), 0.25 * 2 / 5);
  EXPECT_EQ(first_step(std::vector<double>{4}, 2), 0.5);
}

TEST(StepRule, ScalesOfModels) {
  EXPECT_EQ(model_scale(true, 4, 100), 2);
  EXPECT_EQ(model_scale(false, 4, 100), 101);
  EXPECT_EQ(longest_move(true, 2), 4);
  EXPECT_EQ(longest_move(false, 101), 1616);
}

// Lines of three devices with one curve, f(a) = s a + c a^2 along a record of that length.
StepBound fold(double slope, double curvature, const StepMove& move, StepState* state, double scale = 1e6) {
  const StepLine line =
      StepLine::along(slope * move.length * move.square, curvature * move.length * move.length * move.square, 1, move);
  return fold_lines(std::vector<StepLine>(3, line), move, scale, state).bound;
}

TEST(StepRule, NamesTheBoundThatHeld) {
  const StepMove move{1, 1, 1};
  StepState state = begin_steps(1);
  EXPECT_EQ(fold(-1, 0.5, move, &state), StepBound::kWanted);  // wants 1
  EXPECT_EQ(state.step, 1);
  EXPECT_EQ(state.count, 1U);
  state = begin_steps(1);
  EXPECT_EQ(fold(-1, 0.05, move, &state), StepBound::kGrow);  // wants 10
  EXPECT_EQ(state.step, 1.1);
  state = begin_steps(1);
  EXPECT_EQ(fold(-1, 0, move, &state), StepBound::kGrow) << "no curvature: without limit";
  state = begin_steps(1);
  EXPECT_EQ(fold(-1, 0.99, {0.5, 1, 0.5}, &state), StepBound::kWanted) << "reach counts";
  state = begin_steps(1);
  EXPECT_EQ(fold(-1, 0.9, {0.5, 1, 1}, &state), StepBound::kShrink);  // wants 0.56
  EXPECT_EQ(state.step, 1 / 1.5);
  state = begin_steps(1);
  EXPECT_EQ(fold(0.1, 1, move, &state), StepBound::kWorse);
  EXPECT_EQ(state.step, 0.5);
  state = begin_steps(1);
  state.step = 1e-4;
  EXPECT_EQ(fold(0.1, 1, {1e-4, 1, 1}, &state), StepBound::kFloor);
  EXPECT_EQ(state.step, 1e-4);
  state.step = 1000;
  EXPECT_EQ(fold(-1, -1, move, &state), StepBound::kCeiling);
  EXPECT_EQ(state.step, 1000);
  state.step = 1;
  EXPECT_EQ(fold(-1, -1, {1, 100, 1}, &state, 4), StepBound::kMove);
  EXPECT_EQ(state.step, 0.2);
}

TEST(StepRule, AWallIsBelievedAtOnceAndForgottenSlowly) {
  const StepMove move{1, 1, 1};
  StepState state = begin_steps(1);
  for (int version = 0; version < 20; ++version) {
    fold(-1, 0.5, move, &state);
  }
  EXPECT_NEAR(state.curvature, 0.5, 1e-12);
  fold(-1, 50, move, &state);
  EXPECT_EQ(state.curvature, 50);
  fold(-1, 0.5, move, &state);
  EXPECT_NEAR(state.curvature, 0.9 * 50 + 0.1 * 0.5, 1e-12);
}

TEST(StepRule, FewLinesOrLittleWeightChangeNothing) {
  const std::vector<StepLine> lines(3, StepLine{-1, 1, 10, false});
  EXPECT_TRUE(has_enough_lines(lines, 120, 9));
  EXPECT_FALSE(has_enough_lines(lines, 121, 9)) << "less than a quarter of the weight";
  EXPECT_FALSE(has_enough_lines(std::span(lines).first(2), 20, 9));
  EXPECT_TRUE(has_enough_lines(std::span(lines).first(2), 20, 2)) << "there are no more devices";
  EXPECT_FALSE(has_enough_lines(std::span(lines).first(1), 10, 2));
  EXPECT_FALSE(has_enough_lines({}, 0, 0));
}

TEST(StepRule, LinesWithoutANumberLeaveTheStepAsItIs) {
  const StepMove move{1, 1, 1};
  StepState state = begin_steps(1);
  const StepState before = state;
  EXPECT_EQ(fold_lines({}, move, 1, &state).bound, StepBound::kFew);
  EXPECT_EQ(fold(kInfinity, 1, move, &state), StepBound::kFew);
  EXPECT_EQ(fold(-1, std::nan(""), move, &state), StepBound::kFew);
  EXPECT_EQ(state, before);
}

TEST(StepRule, EveryBoundHasItsOwnWord) {
  EXPECT_STREQ(step_bound_name(StepBound::kNone), "none");
  EXPECT_STREQ(step_bound_name(StepBound::kFew), "few");
  EXPECT_STREQ(step_bound_name(StepBound::kMove), "move");
}

}  // namespace
}  // namespace gradstream
