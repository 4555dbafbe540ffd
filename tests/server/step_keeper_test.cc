// What a server keeps of the lines of an open version, and what it decides by them.
#include "server/rules/step_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

class StepKeeperTest : public testing::Test {
 protected:
  StepKeeperTest() { p_.steps->step_size = 0; }

  // Follows a round whose record moved the model by 3 steps of the decision along a direction of square 4.
  void close_round(Real step_scale = 0) {
    const std::vector<Real> direction = {2, 0};
    FoldedMove folded;
    folded.direction = direction;
    folded.step_scale = step_scale > 0 ? step_scale : 3 * keeper_.step_size();
    folded.model_scale = 1e6;
    folded.asked_count = 4;
    ASSERT_EQ(keeper_.follow(encode_decision(keeper_.after_round(folded))), Status::kOk);
  }
  void begin(double step) {
    StepDecision decision;
    decision.state = begin_steps(step);
    ASSERT_EQ(keeper_.follow(encode_decision(decision)), Status::kOk);
  }
  // The line of f(a) = -a |d|^2 + c a^2 |d|^2 along the record into a version.
  bool add(uint32_t device, uint32_t staleness, double curvature, const StepMove& move) {
    keeper_.add_update(10);
    return keeper_.add_line(device, staleness, static_cast<float>(-move.length * move.square),
                            static_cast<float>(curvature * move.length * move.length * move.square), 10);
  }

  RunParameters p_ = scalar_parameters();
  StepKeeper keeper_{p_};
};

TEST_F(StepKeeperTest, TheStepFollowsTheLinesOfTheLastRecord) {
  begin(0.5);
  EXPECT_EQ(keeper_.step_size(), 0.5F);
  EXPECT_FALSE(add(0, 0, 1, {1, 1, 1})) << "a stage made the version: there is no record";
  close_round();
  const StepMove move = keeper_.decision().move;
  EXPECT_EQ(move, (StepMove{1.5, 4, 3}));
  EXPECT_EQ(keeper_.decision().bound, StepBound::kNone);
  for (uint32_t device = 0; device < 3; ++device) {
    EXPECT_TRUE(add(device, 0, 0.5 / 3 / 0.45, move));  // wants a step of 0.45
  }
  close_round();
  EXPECT_EQ(keeper_.decision().bound, StepBound::kWanted);
  EXPECT_NEAR(keeper_.decision().state.step, 0.45, 1e-6);
  EXPECT_EQ(keeper_.decision().line_count, 3U);
  EXPECT_EQ(keeper_.decision().worse_count, 0U);
  EXPECT_NEAR(keeper_.decision().slope, -1, 1e-6);
}

TEST_F(StepKeeperTest, FewLinesLeaveTheStep) {
  begin(0.5);
  close_round();
  const StepMove move = keeper_.decision().move;
  EXPECT_TRUE(add(0, 0, 9, move));
  EXPECT_TRUE(add(1, 0, 9, move));
  close_round();
  EXPECT_EQ(keeper_.decision().bound, StepBound::kFew);
  EXPECT_EQ(keeper_.decision().state, begin_steps(0.5));
}

TEST_F(StepKeeperTest, ALateLineCountsAlongItsOwnRecordAndAnOlderOneIsDropped) {
  begin(0.5);
  close_round();
  const StepMove older = keeper_.decision().move;
  close_round(0.75F);
  const StepMove newer = keeper_.decision().move;
  EXPECT_EQ(newer.length, 0.75);
  EXPECT_TRUE(add(0, 1, 1, older));
  EXPECT_TRUE(add(1, 0, 1, newer));
  EXPECT_TRUE(add(2, 0, 1, newer));
  EXPECT_FALSE(add(3, 2, 1, older));
  EXPECT_FALSE(add(1, 1, 7, older)) << "the device has spoken of the newer record";
  close_round();
  EXPECT_NEAR(keeper_.decision().slope, -1, 1e-6);
  EXPECT_NEAR(keeper_.decision().curvature, 1, 1e-6) << "of both records in one unit";
  EXPECT_EQ(keeper_.decision().line_count, 3U);
}

TEST_F(StepKeeperTest, WhereTheModelStoodStillThereIsNoLine) {
  begin(0.5);
  close_round();
  const StepMove move = keeper_.decision().move;
  ASSERT_EQ(keeper_.follow(encode_decision(keeper_.after_round({{}, 1, 1, 4}))), Status::kOk);
  EXPECT_EQ(keeper_.decision().move, StepMove());
  EXPECT_FALSE(add(0, 0, 1, move));
  EXPECT_TRUE(add(0, 1, 1, move));
}

TEST_F(StepKeeperTest, ATangentStreamHoldsTheStepInsideItsValues) {
  p_.local->solver = SolverId::kGradientStream;
  begin(0.5);
  close_round(3);
  EXPECT_EQ(keeper_.decision().move, (StepMove{1.5, 4, 3}));
}

TEST_F(StepKeeperTest, AVersionWithoutADecisionKeepsTheStep) {
  begin(0.5);
  close_round();
  ASSERT_EQ(keeper_.follow({}), Status::kOk);
  EXPECT_EQ(keeper_.decision().state, begin_steps(0.5));
  EXPECT_EQ(keeper_.decision().move, StepMove());
  const std::vector<uint8_t> bad(7);
  EXPECT_EQ(keeper_.follow(bad), Status::kDataCorrupt);
  EXPECT_EQ(keeper_.decision().state, begin_steps(0.5));
}

}  // namespace
}  // namespace gradstream
