#include "server/rules/aggregator.h"

#include <gtest/gtest.h>

#include "server/run/trigger_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(ModelRing, KeepsTheLastModels) {
  ModelRing ring(2);
  const std::vector<Real> models[] = {{1}, {2}, {3}};
  for (uint32_t version = 0; version < 3; ++version) {
    ring.push(version, models[version]);
  }
  EXPECT_EQ(ring.find(0), nullptr);
  ASSERT_NE(ring.find(1), nullptr);
  EXPECT_EQ(*ring.find(1), 2);
  EXPECT_EQ(*ring.find(2), 3);
  ModelRing none(0);
  none.push(0, models[0]);
  EXPECT_EQ(none.find(0), nullptr);
}

TEST(WeightSum, EffectiveStepsDoNotDependOnOrder) {
  WeightSum forward;
  WeightSum backward;
  for (uint32_t i = 0; i < 100; ++i) {
    forward.add(static_cast<uint16_t>(1 + i * 131), 1 + i % 7);
    backward.add(static_cast<uint16_t>(1 + (99 - i) * 131), 1 + (99 - i) % 7);
  }
  EXPECT_EQ(forward.effective_steps(), backward.effective_steps());
  EXPECT_EQ(forward.update_count(), 100U);
  WeightSum simple;
  simple.add(1, 2);
  simple.add(3, 4);
  EXPECT_EQ(simple.total(), 4U);
  EXPECT_EQ(simple.effective_steps(), 3.5F);
}

TEST(WeightSum, IsFullAtTheFoldsLimit) {
  WeightSum sum;
  for (uint32_t i = 0; i < 32768; ++i) {
    EXPECT_FALSE(sum.is_full());
    sum.add(65535, 256);
  }
  EXPECT_TRUE(sum.is_full());
  EXPECT_EQ(sum.total(), 65535U * 32768U);
  EXPECT_EQ(sum.effective_steps(), 256);
}

TEST(Aggregator, ARunsRuleFollowsFromItsStream) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(p.kept_model_count(), 0U);
  p = tangent_parameters();
  EXPECT_EQ(p.kept_model_count(), 0U);
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 5;
  EXPECT_EQ(p.kept_model_count(), 6U);
}

TEST(Aggregator, DividesWithinTheFoldsRange) {
  const RunParameters p = scalar_parameters();
  std::vector<Real> out;
  EXPECT_EQ(divide_checked(p, std::vector<Real>{3, -6}, 3, &out), Status::kOk);
  EXPECT_EQ(out, (std::vector<Real>{1, -2}));
  EXPECT_EQ(divide_checked(p, std::vector<Real>{129}, 1, &out), Status::kOutOfRange);
  EXPECT_EQ(divide_checked(p, std::vector<Real>{129}, 2, &out), Status::kOk);
}

}  // namespace
}  // namespace gradstream
