#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

void add(TestRule& f, uint32_t device, uint16_t weight) {
  const RunParameters& p = f.server.parameters;
  const std::vector<Real> values = draw_values(p.value_count(), 40 + device, 0.1F);
  ASSERT_EQ(f.rule->add({0, 2, p.local->local_step_count, weight, values, device}), Status::kOk);
}

// Weights 10, 20, 90 under a cap of a half are 10, 20, 30: the same record as from a run that weighs so, for scalars
// and for tangents, in any order, and as often as it is asked for.
TEST(AggregatorCapped, IsTheRuleOfCappedWeights) {
  for (RunParameters p : {scalar_parameters(), tangent_parameters()}) {
    TestRule plain(p);
    add(plain, 0, 10);
    add(plain, 1, 20);
    add(plain, 2, 30);
    p.fold->weight_share_max = 0.5F;
    TestRule capped(p);
    add(capped, 2, 90);
    add(capped, 0, 10);
    add(capped, 1, 20);
    EXPECT_EQ(capped.record(), plain.record());
    EXPECT_EQ(capped.record(), plain.record());
    EXPECT_EQ(capped.rule->stand_still(), plain.rule->stand_still());
  }
}

TEST(AggregatorCapped, AVersionBeginsEmptyAndBadUpdatesAreRefused) {
  RunParameters p = scalar_parameters();
  TestRule plain(p);
  add(plain, 1, 7);
  add(plain, 3, 7);
  p.fold->weight_share_max = 0.5F;
  TestRule capped(p);
  add(capped, 0, 50);
  capped.rule->begin();
  add(capped, 1, 7);
  add(capped, 3, 90);
  EXPECT_EQ(capped.record(), plain.record());
  const std::vector<Real> few(1);
  EXPECT_EQ(capped.rule->check({0, 2, 3, 5, few, 0}), Status::kInvalidArgument);
  EXPECT_EQ(capped.rule->add({0, 2, 3, 5, few, 0}), Status::kInvalidArgument);
  EXPECT_EQ(capped.record(), plain.record());
}

}  // namespace
}  // namespace gradstream
