// Decisions of runs with step_size "auto": their bytes, and what the stages START and TRIALS come to.
#include "server/rules/step_decision.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

StepDecision some_decision() {
  StepDecision d;
  d.state = {0.25, 0.5, -3, 7, 9};
  d.move = {1.25, 2.5, 5};
  d.trial_length = 11;
  d.square = 13;
  d.draw_count = 2;
  d.best = {15, 17};
  d.bound = StepBound::kWorse;
  d.slope = -19;
  d.curvature = 21;
  d.line_count = 23;
  d.worse_count = 25;
  return d;
}

TEST(StepDecision, ReadsBackFromItsBytes) {
  const std::vector<uint8_t> bytes = encode_decision(some_decision());
  EXPECT_EQ(bytes.size(), kStepDecisionSize);
  StepDecision read;
  ASSERT_EQ(decode_decision(bytes, &read), Status::kOk);
  EXPECT_EQ(read, some_decision());
  ASSERT_EQ(decode_decision({}, &read), Status::kOk);
  EXPECT_EQ(read, StepDecision());
}

TEST(StepDecision, BytesThatNoServerMakesAreRefused) {
  const auto status = [](auto change) {
    StepDecision decision = some_decision();
    change(decision);
    StepDecision read;
    return decode_decision(encode_decision(decision), &read);
  };
  EXPECT_EQ(status([](StepDecision&) {}), Status::kOk);
  EXPECT_EQ(status([](StepDecision& d) { d.state.step = std::nan(""); }), Status::kDataCorrupt);
  EXPECT_EQ(status([](StepDecision& d) { d.curvature = std::numeric_limits<double>::infinity(); }),
            Status::kDataCorrupt);
  EXPECT_EQ(status([](StepDecision& d) { d.state.step = -1; }), Status::kDataCorrupt);
  EXPECT_EQ(status([](StepDecision& d) { d.move.length = -1; }), Status::kDataCorrupt);
  EXPECT_EQ(status([](StepDecision& d) { d.draw_count = 3; }), Status::kDataCorrupt);
  EXPECT_EQ(status([](StepDecision& d) { d.bound = static_cast<StepBound>(kStepBoundCount); }), Status::kDataCorrupt);
  StepDecision read;
  std::vector<uint8_t> bytes = encode_decision(some_decision());
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_decision(std::span(bytes).first(size), &read), Status::kDataCorrupt) << size;
  }
  bytes.push_back(0);
  EXPECT_EQ(decode_decision(bytes, &read), Status::kDataCorrupt);
}

TEST(StepDecision, TheLongestTrialStepCrossesABoundedModel) {
  RunParameters p = scalar_parameters();  // St(16, 2)
  std::vector<Real> direction(p.model->shape.size());
  direction[3] = 4;
  const std::vector<Real> model(p.model->shape.size(), Real{1} / 2);
  const StepDecision next = after_start(p, some_decision(), direction, model);
  EXPECT_FLOAT_EQ(static_cast<float>(next.trial_length), static_cast<float>(2 * std::sqrt(2.0) / 4));
  EXPECT_EQ(next.square, 16);
  EXPECT_EQ(next.move, StepMove());
  EXPECT_EQ(next.state, some_decision().state);
  p.model->manifold = ManifoldId::kEuclidean;
  const double norm = std::sqrt(32 * 0.25);
  EXPECT_FLOAT_EQ(static_cast<float>(after_start(p, {}, direction, model).trial_length),
                  static_cast<float>(16 * (1 + norm) / 4));
}

TEST(StepDecision, WithoutADirectionATrialStepIsStillANumber) {
  const RunParameters p = scalar_parameters();
  std::vector<Real> direction(p.model->shape.size());
  EXPECT_FLOAT_EQ(static_cast<float>(after_start(p, {}, direction, direction).trial_length),
                  static_cast<float>(2 * std::sqrt(2.0)));
  direction[0] = std::numeric_limits<Real>::denorm_min();
  EXPECT_LE(after_start(p, {}, direction, direction).trial_length, 1.001e30);
}

TrialAnswer falls_most_at(size_t rung) {
  TrialAnswer answer;
  answer.weight = 1;
  answer.changes.fill(1);
  answer.changes[rung] = -1;
  return answer;
}

TEST(StepDecision, TheSecondTrialsMakeTheFirstStep) {
  RunParameters p = scalar_parameters();  // K = 3
  p.steps->server_step = 2;
  StepDecision decision;
  decision.trial_length = 8;
  decision = after_trials(p, decision, std::vector<TrialAnswer>(3, falls_most_at(1)));
  EXPECT_EQ(decision.draw_count, 1U);
  EXPECT_EQ(decision.best[0], 4);
  EXPECT_EQ(decision.state.first, 0);
  decision.trial_length = 2;
  decision = after_trials(p, decision, std::vector<TrialAnswer>(3, falls_most_at(0)));
  EXPECT_EQ(decision.best[1], 2);
  EXPECT_EQ(decision.state, begin_steps(0.25 * 2 / (2 * 3)));
}

TEST(StepDecision, ADrawWithoutAGoodTrialStepLeavesItToTheOther) {
  const RunParameters p = scalar_parameters();
  const TrialAnswer bad = [] {
    TrialAnswer answer;
    answer.weight = 1;
    answer.changes.fill(1e30F);
    return answer;
  }();
  StepDecision decision;
  decision.trial_length = 8;
  const StepDecision once = after_trials(p, decision, std::vector<TrialAnswer>(3, bad));
  EXPECT_EQ(once.best[0], 0);
  EXPECT_EQ(after_trials(p, once, std::vector<TrialAnswer>(3, falls_most_at(3))).state.first, 0.25 * 1 / 3);
  const StepDecision never = after_trials(p, once, std::vector<TrialAnswer>(3, bad));
  EXPECT_EQ(never.state.first, 0.25 * std::ldexp(8.0, -31) / 3) << "the least step";
}

}  // namespace
}  // namespace gradstream
