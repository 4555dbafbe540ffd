#include <gtest/gtest.h>

#include "server/aggregator.h"
#include "server/straggler.h"
#include "tests/server_support.h"

namespace gradstream {
namespace {

struct Fixture {
  explicit Fixture(const RunParameters& p)
      : server(p), models(8), rule(make_aggregator({&server.parameters, &server.replica, &models, &server.arena})) {
    Real* model = server.replica.begin_snapshot();
    std::fill(model, model + p.shape.size(), Real{0});
    for (uint32_t i = 0; i < p.shape.cols; ++i) {
      model[i * p.shape.cols + i] = 1;
    }
    server.replica.adopt_snapshot(2);
    models.push(2, {server.replica.model(), p.shape.size()});
    rule->begin();
  }
  void add(uint32_t device, uint16_t weight) {
    const RunParameters& p = server.parameters;
    const std::vector<Real> values = draw_values(p.value_count(), 40 + device, 0.1F);
    ASSERT_EQ(rule->add({0, 2, p.local_step_count, weight, values, device}), Status::kOk);
  }
  VersionRecord record() const {
    VersionRecord out;
    EXPECT_EQ(rule->finish(&out), Status::kOk);
    return out;
  }
  TestReplica server;
  ModelRing models;
  std::unique_ptr<Aggregator> rule;
};

// Weights 10, 20, 90 under a cap of a half are 10, 20, 30: the same record as from a run that weighs so, for scalars
// and for tangents, in any order, and as often as it is asked for.
TEST(AggregatorCapped, IsTheRuleOfCappedWeights) {
  for (RunParameters p : {scalar_parameters(), tangent_parameters()}) {
    Fixture plain(p);
    plain.add(0, 10);
    plain.add(1, 20);
    plain.add(2, 30);
    p.weight_share_max = 0.5F;
    Fixture capped(p);
    capped.add(2, 90);
    capped.add(0, 10);
    capped.add(1, 20);
    EXPECT_EQ(capped.record(), plain.record());
    EXPECT_EQ(capped.record(), plain.record());
    EXPECT_EQ(capped.rule->stand_still(), plain.rule->stand_still());
  }
}

TEST(AggregatorCapped, AVersionBeginsEmptyAndBadUpdatesAreRefused) {
  RunParameters p = scalar_parameters();
  Fixture plain(p);
  plain.add(1, 7);
  plain.add(3, 7);
  p.weight_share_max = 0.5F;
  Fixture capped(p);
  capped.add(0, 50);
  capped.rule->begin();
  capped.add(1, 7);
  capped.add(3, 90);
  EXPECT_EQ(capped.record(), plain.record());
  const std::vector<Real> few(1);
  EXPECT_EQ(capped.rule->check({0, 2, 3, 5, few, 0}), Status::kInvalidArgument);
  EXPECT_EQ(capped.rule->add({0, 2, 3, 5, few, 0}), Status::kInvalidArgument);
  EXPECT_EQ(capped.record(), plain.record());
}

}  // namespace
}  // namespace gradstream
