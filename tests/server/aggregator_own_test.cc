#include "server/rules/aggregator_own.h"

#include <gtest/gtest.h>

#include "server/rules/aggregator.h"
#include "server/run/check_parameters.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters parameters(const OwnRule* rule) {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kSphere;
  p.model->shape = {8, 1};
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->update_goal = 2;
  p.fold.keys().own_rule = rule;
  return p;
}

// Version 3 is open; the model of version 2 is still in the ring.
struct Fixture {
  explicit Fixture(const OwnRule* own) : server(parameters(own)), models(2) {
    rule = make_aggregator({&server.parameters, &server.replica, &models, &server.arena});
    base = {1, 0, 0, 0, 0, 0, 0, 0};
    current = {0.8F, 0.6F, 0, 0, 0, 0, 0, 0};
    std::copy(current.begin(), current.end(), server.replica.begin_snapshot());
    server.replica.adopt_snapshot(3);
    models.push(2, base);
    models.push(3, current);
    rule->begin();
  }
  FoldInput input(uint32_t device, uint32_t base_version, uint16_t weight, const std::vector<Real>& values) const {
    FoldInput made{device, base_version, 2, weight, values};
    made.device = device;
    return made;
  }
  TestReplica server;
  ModelRing models;
  std::unique_ptr<Aggregator> rule;
  std::vector<Real> base;
  std::vector<Real> current;
};

// What a rule saw, and a direction that it makes of it.
struct Seen {
  OwnRule rule = {[this](uint32_t version, const Real* model, std::span<const OwnUpdate> updates, Real* out) {
    seen_version = version;
    seen_model.assign(model, model + 8);
    seen.assign(updates.begin(), updates.end());
    std::copy_n(updates.back().values.data(), 8, out);
    return is_there;
  }};
  bool is_there = true;
  uint32_t seen_version = 0;
  std::vector<Real> seen_model;
  std::vector<OwnUpdate> seen;
};

TEST(AggregatorOwn, GetsTheUpdatesByDeviceAtTheOpenModel) {
  Seen own;
  Fixture f(&own.rule);
  const std::vector<Real> on_time = draw_values(8, 1, 0.3F);
  const std::vector<Real> late = draw_values(8, 2, 0.3F);
  ASSERT_EQ(f.rule->add(f.input(5, 3, 20, on_time)), Status::kOk);
  ASSERT_EQ(f.rule->add(f.input(1, 2, 10, late)), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(f.rule->finish(&record), Status::kOk);
  EXPECT_EQ(own.seen_version, 3U);
  EXPECT_EQ(own.seen_model, f.current);
  ASSERT_EQ(own.seen.size(), 2U);
  EXPECT_EQ(own.seen[0].device, 1U);
  EXPECT_EQ(own.seen[0].base_version, 2U);
  EXPECT_EQ(own.seen[0].weight, 10U);
  EXPECT_EQ(own.seen[1].steps_done, 2U);
  std::vector<Real> moved(8);
  ASSERT_EQ(f.server.replica.manifold().transport({8, 1}, f.base.data(), f.current.data(), late.data(), moved.data(),
                                                  f.server.arena),
            Status::kOk);
  for (size_t e = 0; e < 8; ++e) {
    EXPECT_EQ(own.seen[0].values[e], moved[e] / 2);
    EXPECT_EQ(own.seen[1].values[e], on_time[e] / 2);
  }
}

TEST(AggregatorOwn, StepsByWhatTheRuleMakes) {
  Seen own;
  Fixture f(&own.rule);
  const std::vector<Real> only = draw_values(8, 1, 0.3F);
  ASSERT_EQ(f.rule->add(f.input(0, 3, 20, only)), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(f.rule->finish(&record), Status::kOk);
  EXPECT_EQ(record.version, 4U);
  EXPECT_EQ(record.step_scale, 2);  // eta_g K_eff
  std::vector<Real> next(8);
  ASSERT_EQ(f.server.replica.tangent_step(own.seen[0].values.data(), 2, next.data(), f.server.arena), Status::kOk);
  EXPECT_EQ(record.model, model_bytes({8, 1}, next.data()));
}

TEST(AggregatorOwn, OrderOfArrivalChangesNothing) {
  Seen own;
  Fixture f(&own.rule);
  const std::vector<Real> a = draw_values(8, 1, 0.3F), b = draw_values(8, 2, 0.3F);
  VersionRecord first, second;
  ASSERT_EQ(f.rule->add(f.input(0, 3, 20, a)), Status::kOk);
  ASSERT_EQ(f.rule->add(f.input(1, 3, 20, b)), Status::kOk);
  ASSERT_EQ(f.rule->finish(&first), Status::kOk);
  f.rule->begin();
  ASSERT_EQ(f.rule->add(f.input(1, 3, 20, b)), Status::kOk);
  ASSERT_EQ(f.rule->add(f.input(0, 3, 20, a)), Status::kOk);
  ASSERT_EQ(f.rule->finish(&second), Status::kOk);
  EXPECT_EQ(first, second);
}

TEST(AggregatorOwn, RefusesWhatDoesNotFit) {
  Seen own;
  Fixture f(&own.rule);
  const std::vector<Real> good(8, 0.1F);
  EXPECT_EQ(f.rule->check(f.input(0, 3, 1, good)), Status::kOk);
  EXPECT_EQ(f.rule->check(f.input(0, 1, 1, good)), Status::kSingular);  // its model is forgotten
  EXPECT_EQ(f.rule->check(f.input(0, 3, 1, std::vector<Real>(7, 0.1F))), Status::kInvalidArgument);
  EXPECT_EQ(f.rule->check(f.input(0, 3, 0, good)), Status::kInvalidArgument);
  ASSERT_EQ(f.rule->add(f.input(0, 3, 1, good)), Status::kOk);
  own.is_there = false;
  VersionRecord record;
  EXPECT_EQ(f.rule->finish(&record), Status::kNotFinite);
  EXPECT_EQ(f.rule->stand_still().model, model_bytes({8, 1}, f.current.data()));
}

TEST(AggregatorOwn, RunsThatItDoesNotFitAreRefused) {
  const OwnRule rule;
  RunParameters p = parameters(&rule);
  p.local->correction_form = CorrectionForm::kNone;
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_NE(check_aggregator_count(p, 2).sentence, "");
  RunParameters scalars = scalar_parameters();
  scalars.fold.keys().own_rule = &rule;
  EXPECT_NE(check_parameters(scalars).sentence.find("own aggregation, solver"), std::string::npos);
  p.fold.keys().clip_norm = ClipNorm::kTrailing;
  EXPECT_NE(check_parameters(p).sentence.find("clip_norm to none"), std::string::npos);
  p = parameters(&rule);
  p.steps->step_size = 0;
  EXPECT_NE(check_parameters(p).sentence.find("step_size to a number"), std::string::npos);
}

}  // namespace
}  // namespace gradstream
