#include "server/run/work.h"

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(Work, TimedWorkFitsTheBudgetFromTheLeastStepsToAll) {
  RunParameters p = scalar_parameters();
  p.local->local_step_count = 20;
  p.trigger->steps_min = 2;
  EXPECT_EQ(timed_step_count(p, 0, 1000), 2U);        // not measured yet
  EXPECT_EQ(timed_step_count(p, 100'000, 1000), 8U);  // 875 ms of 100 ms each
  EXPECT_EQ(timed_step_count(p, 100'000, 0), 2U);     // it comes late; it may do what counts
  EXPECT_EQ(timed_step_count(p, 10, 1000), 20U);
  EXPECT_EQ(timed_step_count(p, UINT32_MAX, 1000), 2U);
  EXPECT_EQ(timed_step_count(p, 1, UINT32_MAX), 20U);
}

TEST(Work, AStepTimeIsARunningEstimate) {
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

TEST(Work, StepsNeedTime) {
  RunParameters p = scalar_parameters();
  EXPECT_TRUE(had_time_for(*p.trigger, 256, 0, 0));  // nothing is known
  EXPECT_TRUE(had_time_for(*p.trigger, 5, 10'000, 50));
  EXPECT_TRUE(had_time_for(*p.trigger, 5, 10'000, 25));  // its clock may be fast
  EXPECT_FALSE(had_time_for(*p.trigger, 5, 10'000, 23));
  EXPECT_FALSE(had_time_for(*p.trigger, 256, UINT32_MAX, 1'000'000));
  p.trigger->step_time_min_us = 1000;
  EXPECT_TRUE(had_time_for(*p.trigger, 5, 0, 4));
  EXPECT_FALSE(had_time_for(*p.trigger, 5, 0, 3));
}

}  // namespace
}  // namespace gradstream
