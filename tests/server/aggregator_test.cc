#include "server/rules/aggregator.h"

#include <cmath>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
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
  EXPECT_EQ(check_quotients(p, std::vector<Real>{3, -6}, 3), Status::kOk);
  EXPECT_EQ(check_quotients(p, std::vector<Real>{129}, 1), Status::kOutOfRange);
  EXPECT_EQ(check_quotients(p, std::vector<Real>{129}, 2), Status::kOk);
  EXPECT_EQ(check_quotients(p, std::vector<Real>{1, NAN}, 2), Status::kNotFinite);
}

// A run of every rule, and of every form whose arithmetic differs.
std::vector<std::pair<const char*, RunParameters>> runs_of_every_rule() {
  std::vector<std::pair<const char*, RunParameters>> runs;
  const auto add = [&runs](const char* name, RunParameters p, const std::function<void(RunParameters&)>& change) {
    change(p);
    EXPECT_EQ(check_parameters(p).sentence, "") << name;
    runs.emplace_back(name, p);
  };
  const auto memory = [](RunParameters& p) {
    p.local->correction_form = CorrectionForm::kMemory;
    p.fold->fold_weight = FoldWeight::kUniform;
  };
  const auto asynchronous = [](RunParameters& p) {
    p.model->manifold = ManifoldId::kEuclidean;
    p.model->shape = {8, 1};
    p.fold->fold_weight = FoldWeight::kUniform;
    p.trigger->buffer_size = 1;
    p.trigger->late = LatePolicy::kWeight;
    p.trigger->staleness_max = 3;
    p.delay->delay_rule = DelayRule::kOrthoGrad;
    p.steps->server_step = 0.5F;
  };
  add("projection", scalar_parameters(), [](RunParameters&) {});
  add("mean_gradient", scalar_parameters(), [](RunParameters& p) {
    p.local->estimator = EstimatorId::kAnalyticGradient;
    p.local->correction_form = CorrectionForm::kNone;
  });
  add("gradient_stream", tangent_parameters(), [](RunParameters&) {});
  add("svrg", tangent_parameters(), [](RunParameters& p) {
    p.local->solver = SolverId::kSvrg;
    p.local->batch_mode = BatchMode::kAll;
  });
  add("capped, scalar", scalar_parameters(), [](RunParameters& p) { p.fold->weight_share_max = 0.5F; });
  add("capped, tangent", tangent_parameters(), [](RunParameters& p) { p.fold->weight_share_max = 0.5F; });
  add("memory, scalar", scalar_parameters(), memory);
  add("memory, dense", scalar_parameters(), [&](RunParameters& p) {
    memory(p);
    p.local->estimator = EstimatorId::kAnalyticGradient;
  });
  add("memory, unbiased", scalar_parameters(), [&](RunParameters& p) {
    memory(p);
    p.local->correction_form = CorrectionForm::kUnbiased;
  });
  add("memory, samples", scalar_parameters(), [&](RunParameters& p) {
    memory(p);
    p.fold->fold_weight = FoldWeight::kSampleCount;
  });
  add("delayed", tangent_parameters(), asynchronous);
  add("delayed, momentum", tangent_parameters(), [&](RunParameters& p) {
    asynchronous(p);
    p.delay->delay_rule = DelayRule::kAsgd;
    p.delay->server_momentum = 0.25F;
  });
  add("delayed, buffer", tangent_parameters(), [&](RunParameters& p) {
    asynchronous(p);
    p.trigger->buffer_size = 3;
    p.delay->delay_rule = DelayRule::kAsgd;
  });
  add("curve", tangent_parameters(), [&](RunParameters& p) {
    asynchronous(p);
    p.local->solver = SolverId::kCurve;
    p.local->batch_mode = BatchMode::kCommon;
    p.trigger->staleness_table = StalenessTable::kConstant;
  });
  return runs;
}

// The rule over version 2, where version 1 is known too, and updates of its form.
struct RuleOfRun : TestRule {
  explicit RuleOfRun(const RunParameters& p) : TestRule(p) {
    models.push(1, {server.replica.model(), p.model->shape.size()});
  }
  std::vector<Real> values(uint32_t device) const {
    return draw_values(server.parameters.value_count(), 40 + device, 0.1F);
  }
  FoldInput input(uint32_t device, const std::vector<Real>& held) const {
    const RunParameters& p = server.parameters;
    const uint32_t base = 2 - device % 2;  // every second one is late
    return {p.owner_of(device),
            base,
            p.local->local_step_count,
            static_cast<uint16_t>(20 + device),
            held,
            device,
            1,
            static_cast<uint16_t>(7 + device)};
  }
  // Updates that a version of the run may have here.
  uint32_t update_count() const { return server.parameters.trigger->buffer_size == 1 ? 1 : 3; }
};

// What a decision commits is, bit for bit, what a replay of its record adds. A prepared update that was not committed
// leaves no trace.
TEST(Aggregator, CommittingWhatWasPreparedIsTheReplayedAdd) {
  for (const auto& [name, p] : runs_of_every_rule()) {
    SCOPED_TRACE(name);
    RuleOfRun live(p);
    RuleOfRun replayed(p);
    for (uint32_t device = 0; device < live.update_count(); ++device) {
      std::vector<Real> values = live.values(device);
      std::vector<Real> others = live.values(device + 10);
      ASSERT_EQ(live.rule->prepare(live.input(device, others)), Status::kOk);
      if (device > 0) {
        EXPECT_EQ(live.record(), replayed.record());
      }
      ASSERT_EQ(live.rule->prepare(live.input(device, values)), Status::kOk);
      values.assign(values.size(), NAN);  // they need not outlive prepare()
      live.rule->commit();
      values = live.values(device);
      ASSERT_EQ(replayed.rule->add(replayed.input(device, values)), Status::kOk);
      EXPECT_EQ(live.record(), replayed.record());
      EXPECT_EQ(live.rule->stand_still(), replayed.rule->stand_still());
    }
    if (p.phase_count() > 1) {
      continue;  // the record of anchors needs a replica that holds more than a model
    }
    // Versions that follow stand on what was committed: entries of a memory, moments, velocities.
    const VersionRecord record = live.record();
    for (RuleOfRun* each : {&live, &replayed}) {
      ASSERT_EQ(apply_record(p, record, each->server.replica, each->server.arena), Status::kOk);
      each->models.push(3, {each->server.replica.model(), p.model->shape.size()});
      ASSERT_EQ(each->rule->follow(record), Status::kOk);
    }
    const std::vector<Real> values = live.values(1);
    FoldInput next = live.input(1, values);
    next.base_version = 3;
    ASSERT_EQ(live.rule->prepare(next), Status::kOk);
    live.rule->commit();
    ASSERT_EQ(replayed.rule->add(next), Status::kOk);
    EXPECT_EQ(live.record(), replayed.record());
  }
}

TEST(Aggregator, ARefusedPrepareChangesNothing) {
  for (const auto& [name, p] : runs_of_every_rule()) {
    SCOPED_TRACE(name);
    RuleOfRun tried(p);
    RuleOfRun plain(p);
    const auto try_all = [&](uint32_t device) {
      const std::vector<Real> good = tried.values(device);
      const auto refuse = [&](Status status, const std::vector<Real>& values, const auto& change) {
        FoldInput input = tried.input(device, values);
        change(input);
        EXPECT_EQ(tried.rule->check(input), status);
        EXPECT_EQ(tried.rule->prepare(input), status);
        EXPECT_EQ(tried.rule->add(input), status);
      };
      const auto as_it_is = [](FoldInput&) {};
      std::vector<Real> bad = good;
      bad.back() = NAN;
      EXPECT_EQ(tried.rule->prepare(tried.input(device, bad)), Status::kNotFinite);
      bad.back() = 1e30F;
      EXPECT_EQ(tried.rule->prepare(tried.input(device, bad)), Status::kOutOfRange);
      refuse(Status::kInvalidArgument, std::vector<Real>(good.size() - 1), as_it_is);
      refuse(Status::kInvalidArgument, good, [](FoldInput& input) { input.weight = 0; });
      refuse(Status::kInvalidArgument, good, [](FoldInput& input) { input.steps_done = 0; });
    };
    for (uint32_t device = 0; device < tried.update_count(); ++device) {
      try_all(device);
      const std::vector<Real> values = tried.values(device);
      ASSERT_EQ(tried.rule->prepare(tried.input(device, values)), Status::kOk);
      tried.rule->commit();
      ASSERT_EQ(plain.rule->add(plain.input(device, values)), Status::kOk);
      EXPECT_EQ(tried.record(), plain.record());
      if (device + 1 < tried.update_count()) {
        try_all(device + 1);
      }
      EXPECT_EQ(tried.record(), plain.record());
    }
  }
}

// Two checks of asynchronous rules came after there were journals: what they refuse now may stand there as accepted.
TEST(Aggregator, AJournalMayHoldWhatIsRefusedNow) {
  for (const auto& [name, p] : runs_of_every_rule()) {
    if (p.delay->delay_rule == DelayRule::kNone || p.trigger->buffer_size != 1) {
      continue;
    }
    SCOPED_TRACE(name);
    RuleOfRun f(p);
    std::vector<Real> values = f.values(0);
    values[2] = 1000;  // beyond the fold's range
    EXPECT_EQ(f.rule->prepare(f.input(0, values)), Status::kOutOfRange);
    EXPECT_EQ(f.rule->add(f.input(0, values)), Status::kOk);
    const std::vector<Real> second = f.values(2);
    EXPECT_EQ(f.rule->prepare(f.input(2, second)), Status::kOutOfRange);  // one update a version
    EXPECT_EQ(f.rule->add(f.input(2, second)), Status::kOk);
    EXPECT_EQ(f.record().version, 3U);
  }
}

// commit() takes nothing but what the last prepare() took.
TEST(AggregatorDeathTest, NothingIsCommittedThatIsNotPrepared) {
  const RunParameters p = scalar_parameters();
  RuleOfRun f(p);
  const std::vector<Real> values = f.values(0);
  FoldInput bad = f.input(0, values);
  bad.weight = 0;
  EXPECT_DEATH(f.rule->commit(), "assertion failed");
  ASSERT_EQ(f.rule->check(f.input(0, values)), Status::kOk);
  EXPECT_DEATH(f.rule->commit(), "assertion failed");
  ASSERT_EQ(f.rule->prepare(f.input(0, values)), Status::kOk);
  ASSERT_EQ(f.rule->prepare(bad), Status::kInvalidArgument);
  EXPECT_DEATH(f.rule->commit(), "assertion failed");
  ASSERT_EQ(f.rule->prepare(f.input(0, values)), Status::kOk);
  f.rule->begin();
  EXPECT_DEATH(f.rule->commit(), "assertion failed");
}

}  // namespace
}  // namespace gradstream
