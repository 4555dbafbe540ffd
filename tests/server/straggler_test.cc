#include "server/run/straggler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(Straggler, InverseSquareRootIsTheRoundedTable) {
  const RunParameters p = scalar_parameters();
  for (uint32_t s = 0; s <= 64; ++s) {
    EXPECT_EQ(staleness_weight(p, s), static_cast<uint32_t>(std::lround(32768.0 / std::sqrt(1.0 + s)))) << s;
  }
}

TEST(Straggler, TheOtherTables) {
  RunParameters p = scalar_parameters();
  p.staleness_table = StalenessTable::kConstant;
  EXPECT_EQ(staleness_weight(p, 9), kStalenessOne);
  p.staleness_table = StalenessTable::kPolynomial;
  p.staleness_exponent = 2;
  EXPECT_EQ(staleness_weight(p, 3), kStalenessOne / 16);
  p.staleness_exponent = 16;
  EXPECT_EQ(staleness_weight(p, 64), 1U);  // never 0
  p.staleness_table = StalenessTable::kHinge;
  p.staleness_hinge = 4;
  p.staleness_exponent = 1;
  EXPECT_EQ(staleness_weight(p, 4), kStalenessOne);
  EXPECT_EQ(staleness_weight(p, 5), kStalenessOne / 2);
  EXPECT_EQ(staleness_weight(p, 7), kStalenessOne / 4);
}

TEST(Straggler, WeightsAreCappedAndNeverZero) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(fold_weight(p, 0, 0), 1U);
  EXPECT_EQ(fold_weight(p, 200, 0), 200U);
  EXPECT_EQ(fold_weight(p, 200, 3), 100U);
  EXPECT_EQ(fold_weight(p, 1, 60), 1U);
  p.fold_weight_max = 150;
  EXPECT_EQ(fold_weight(p, 200, 0), 150U);
  p.fold_weight_max = 65535;
  EXPECT_EQ(fold_weight(p, 65535, 0), 65535U);
  p.fold_weight = FoldWeight::kUniform;
  EXPECT_EQ(fold_weight(p, 200, 0), 32768U);
  EXPECT_EQ(fold_weight(p, 5, 1), 23170U);
  EXPECT_EQ(memory_weight(p, 5), 1U);
  p.correction_form = CorrectionForm::kMemory;
  EXPECT_EQ(memory_weight(p, 5), 1U);
  p.fold_weight = FoldWeight::kSampleCount;
  p.fold_weight_max = 150;
  EXPECT_EQ(fold_weight(p, 200, 1), 23170U);
  EXPECT_EQ(memory_weight(p, 200), 150U);
  EXPECT_EQ(memory_weight(p, 0), 1U);
}

TEST(Straggler, GoalsFollowTheFleet) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(update_goal(p, 4), 4U);
  EXPECT_EQ(update_goal(p, 3), 3U);
  EXPECT_EQ(update_least(p, 3), 3U);
  p.update_goal = 3;
  p.update_min = 2;
  EXPECT_EQ(update_goal(p, 4), 3U);
  EXPECT_EQ(update_goal(p, 2), 2U);
  EXPECT_EQ(update_least(p, 1), 1U);
}

TEST(Straggler, TimedWorkFitsTheBudgetFromTheLeastStepsToAll) {
  RunParameters p = scalar_parameters();
  p.local_step_count = 20;
  p.steps_min = 2;
  EXPECT_EQ(timed_step_count(p, 0, 1000), 2U);        // not measured yet
  EXPECT_EQ(timed_step_count(p, 100'000, 1000), 8U);  // 875 ms of 100 ms each
  EXPECT_EQ(timed_step_count(p, 100'000, 0), 2U);     // it comes late; it may do what counts
  EXPECT_EQ(timed_step_count(p, 10, 1000), 20U);
  EXPECT_EQ(timed_step_count(p, UINT32_MAX, 1000), 2U);
  EXPECT_EQ(timed_step_count(p, 1, UINT32_MAX), 20U);
}

TEST(Straggler, AStepTimeIsARunningEstimate) {
  EXPECT_EQ(next_step_time_us(0, 0), 0U);
  EXPECT_EQ(next_step_time_us(0, 800), 800U);
  EXPECT_EQ(next_step_time_us(800, 0), 800U);
  EXPECT_EQ(next_step_time_us(800, 1200), 900U);
  EXPECT_EQ(next_step_time_us(UINT32_MAX, UINT32_MAX), UINT32_MAX);
  uint32_t estimate = 1000;
  for (int i = 0; i < 30; ++i) {
    estimate = next_step_time_us(estimate, 10);
  }
  EXPECT_LE(estimate, 12U);  // it comes down too
}

TEST(Straggler, StepsNeedTime) {
  RunParameters p = scalar_parameters();
  EXPECT_TRUE(had_time_for(p, 256, 0, 0));  // nothing is known
  EXPECT_TRUE(had_time_for(p, 5, 10'000, 50));
  EXPECT_TRUE(had_time_for(p, 5, 10'000, 25));  // its clock may be fast
  EXPECT_FALSE(had_time_for(p, 5, 10'000, 23));
  EXPECT_FALSE(had_time_for(p, 256, UINT32_MAX, 1'000'000));
  p.step_time_min_us = 1000;
  EXPECT_TRUE(had_time_for(p, 5, 0, 4));
  EXPECT_FALSE(had_time_for(p, 5, 0, 3));
}

// Whatever the weights, nobody has more than the share where that can be, and the small ones keep their ratios.
TEST(Straggler, CappedWeightsKeepToTheirShare) {
  RunParameters p = scalar_parameters();
  p.weight_share_max = 0.3F;
  const auto capped = [&p](std::vector<uint16_t> weights) {
    cap_weights(p, weights);
    return weights;
  };
  EXPECT_EQ(capped({10, 10, 10, 10}), (std::vector<uint16_t>{10, 10, 10, 10}));  // nothing to cap
  EXPECT_EQ(capped({5, 90}), (std::vector<uint16_t>{1, 1}));                     // two cannot be below 0.3 each
  RandomKey key;
  RandomStream stream(key);
  for (uint32_t trial = 0; trial < 2000; ++trial) {
    p.weight_share_max = 0.05F + 0.9F * static_cast<float>(stream.next_uniform());
    std::vector<uint16_t> before(1 + trial % 40);
    for (uint16_t& weight : before) {
      weight = static_cast<uint16_t>(1 + (stream.next() >> (16 + stream.next() % 16)) % 65535);
    }
    const std::vector<uint16_t> after = capped(before);
    const double total = std::accumulate(after.begin(), after.end(), 0.0);
    const double equal = 1.0 / static_cast<double>(after.size());
    const double most = *std::max_element(after.begin(), after.end());
    EXPECT_GE(*std::min_element(after.begin(), after.end()), 1U);
    EXPECT_LE(most / total, std::max(equal, static_cast<double>(p.weight_share_max)) + 1e-12) << trial;
    for (size_t i = 0; i < after.size(); ++i) {  // the largest, or in its old ratio to the smallest
      const size_t least = static_cast<size_t>(std::min_element(before.begin(), before.end()) - before.begin());
      const double old_ratio = static_cast<double>(before[i]) / before[least];
      const double ratio = static_cast<double>(after[i]) / after[least] / old_ratio;
      EXPECT_TRUE(after[i] == most || std::abs(ratio - 1) < 1e-12) << trial;
    }
  }
}

// Of those drawn too many nobody is waited for.
TEST(Straggler, OverSelectionWantsTheCohortOnly) {
  RunParameters p = scalar_parameters();
  p.participation = Participation::kSchemeOne;
  p.cohort_size = 2;
  EXPECT_EQ(update_goal(p, 2), 2U);
  EXPECT_TRUE(p.waits_for_all());
  p.over_selection = 2;
  EXPECT_FALSE(p.waits_for_all());
  EXPECT_EQ(update_goal(p, 4), 2U);
  EXPECT_EQ(update_least(p, 4), 2U);
  EXPECT_EQ(update_goal(p, 1), 1U);  // the others were revoked
  p.update_goal = 1;
  EXPECT_EQ(update_goal(p, 4), 1U);
}

TEST(Straggler, TheWholeDecisionTable) {
  RunParameters p = scalar_parameters();
  p.update_goal = 3;
  p.update_min = 2;
  p.extension_count_max = 1;
  struct Case {
    uint32_t on_time;
    uint32_t extensions;
    bool is_stalled;
    bool is_past;
    RoundDecision decision;
    Trigger trigger;
  };
  const Case cases[] = {
      {0, 0, false, false, RoundDecision::kWait, Trigger::kNone},
      {2, 0, false, false, RoundDecision::kWait, Trigger::kNone},
      {3, 0, false, false, RoundDecision::kClose, Trigger::kGoal},
      {2, 0, false, true, RoundDecision::kClose, Trigger::kDeadline},
      {1, 0, false, true, RoundDecision::kExtend, Trigger::kNone},
      {1, 1, false, true, RoundDecision::kStall, Trigger::kNone},
      {1, 1, true, true, RoundDecision::kWait, Trigger::kNone},
      {2, 1, true, false, RoundDecision::kClose, Trigger::kStallEnded},
      {3, 1, true, false, RoundDecision::kClose, Trigger::kStallEnded},
  };
  for (const Case& c : cases) {
    const RoundVerdict verdict = judge_round(p, {4, c.on_time, c.extensions, c.is_stalled, c.is_past});
    EXPECT_EQ(verdict.decision, c.decision) << c.on_time;
    EXPECT_EQ(verdict.trigger, c.trigger) << c.on_time;
  }
  // A phase of anchors wants everybody's until the deadline.
  EXPECT_EQ(judge_round(p, {4, 3, 0, false, false, true}).decision, RoundDecision::kWait);
  EXPECT_EQ(judge_round(p, {4, 4, 0, false, false, true}).trigger, Trigger::kGoal);
  EXPECT_EQ(judge_round(p, {4, 2, 0, false, true, true}).trigger, Trigger::kDeadline);
  // Nobody left and nobody answered: no step to make.
  EXPECT_EQ(judge_round(p, {0, 0, 0, false, false}).decision, RoundDecision::kWait);
}

// A buffer counts answers to any version; at the deadline one is enough.
TEST(Straggler, ABufferClosesByItsCount) {
  RunParameters p = scalar_parameters();
  p.buffer_size = 2;
  RoundProgress progress;
  progress.asked_count = 4;
  progress.late_count = 1;
  EXPECT_EQ(judge_round(p, progress).decision, RoundDecision::kWait);
  progress.is_past_deadline = true;
  EXPECT_EQ(judge_round(p, progress).trigger, Trigger::kDeadline);
  progress.is_past_deadline = false;
  progress.on_time_count = 1;
  EXPECT_EQ(judge_round(p, progress).trigger, Trigger::kGoal);
  progress.on_time_count = progress.late_count = 0;
  progress.is_past_deadline = true;
  EXPECT_EQ(judge_round(p, progress).decision, RoundDecision::kExtend);
}

}  // namespace
}  // namespace gradstream
