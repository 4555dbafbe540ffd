// Asynchronous runs through the coordinator: every accepted update is a version, whatever model it was made from.
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "server/run/check_parameters.h"
#include "server/run/names.h"
#include "server/run/pace.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "server/run/step_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr size_t kSize = 8;

RunParameters asynchronous_parameters(DelayRule rule) {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {kSize, 1};
  p.fold->fold_weight = FoldWeight::kUniform;
  p.trigger->buffer_size = 1;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 3;
  p.delay->delay_rule = rule;
  p.steps->server_step = 0.5F;
  return p;
}

class AsyncFleet : public TestServer {
 public:
  explicit AsyncFleet(const RunParameters& p) : TestServer(p) {
    start();
    join(p.trigger->device_count);
    models.push_back(x());
  }
  std::vector<double> x() const {
    const Real* model = coordinator->model().model();
    return {model, model + kSize};
  }
  // The device uploads for the task that it has; then it pulls the next one.
  std::vector<Real> answer(uint32_t device) {
    const TestUpload upload = good_upload(device);
    TestServer::upload(device, upload);
    if (coordinator->durable_version() == models.size()) {
      models.push_back(x());
    }
    pull(device);
    return upload.values;
  }
  void expect_model(const std::vector<double>& expected) const {
    for (size_t e = 0; e < kSize; ++e) {
      EXPECT_NEAR(x()[e], expected[e], 2e-6) << "entry " << e;
    }
  }
  std::vector<std::vector<double>> models;  // by version
};

TEST(AggregatorDelayed, EveryUpdateIsAVersionAndWeighsByItsStaleness) {
  AsyncFleet fleet(asynchronous_parameters(DelayRule::kAsgd));
  std::vector<double> x = fleet.x();
  for (uint32_t device = 0; device < 4; ++device) {  // all from version 0, so that device d is d versions late
    const std::vector<Real> zeta = fleet.answer(device);
    ASSERT_EQ(fleet.coordinator->durable_version(), device + 1);
    EXPECT_EQ(fleet.ack(device)->verdict, device == 0 ? gs_Verdict_VERDICT_FOLDED : gs_Verdict_VERDICT_LATE);
    EXPECT_EQ(fleet.ack(device)->version, device + 1);
    for (size_t e = 0; e < kSize; ++e) {
      x[e] += 0.5 * std::round(32768 / std::sqrt(1.0 + device)) / 32768 * zeta[e];
    }
    fleet.expect_model(x);
    EXPECT_EQ(fleet.task(device)->version, device + 1) << "the next task begins at the new model";
  }
}

TEST(AggregatorDelayed, FedAsyncMixesTheDevicesPointIn) {
  AsyncFleet fleet(asynchronous_parameters(DelayRule::kFedAsync));
  fleet.answer(0);
  fleet.answer(1);
  const std::vector<double> before = fleet.x();
  const std::vector<Real> zeta = fleet.answer(2);
  const double alpha = 0.5 * std::round(32768 / std::sqrt(3.0)) / 32768;
  std::vector<double> expected(kSize);
  for (size_t e = 0; e < kSize; ++e) {
    expected[e] = (1 - alpha) * before[e] + alpha * (fleet.models[0][e] + zeta[e]);
  }
  fleet.expect_model(expected);
}

TEST(AggregatorDelayed, ABufferIsDividedByItsCountNotByItsWeights) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.trigger->buffer_size = 2;
  AsyncFleet fleet(p);
  fleet.answer(0);
  EXPECT_EQ(fleet.coordinator->durable_version(), 0U);
  fleet.answer(1);
  ASSERT_EQ(fleet.coordinator->durable_version(), 1U);
  std::vector<double> x = fleet.x();
  const std::vector<Real> late = fleet.answer(2);  // from version 0
  fleet.pull(0);
  const std::vector<Real> fresh = fleet.answer(0);
  ASSERT_EQ(fleet.coordinator->durable_version(), 2U);
  const double share = std::round(32768 / std::sqrt(2.0)) / 32768;
  for (size_t e = 0; e < kSize; ++e) {
    x[e] += 0.5 / 2 * (share * late[e] + fresh[e]);
  }
  fleet.expect_model(x);
}

// FedBuff: one update in the buffer is ASGD's, and a buffer of updates of the model of now, taken whole, is their mean.
TEST(AggregatorDelayed, ABufferOfOneIsAsgdAndOneOfTheFleetIsItsMean) {
  for (const ManifoldId manifold : {ManifoldId::kEuclidean, ManifoldId::kSphere}) {
    RunParameters single = asynchronous_parameters(DelayRule::kAsgd);
    single.model->manifold = manifold;
    single.trigger->staleness_table = StalenessTable::kConstant;
    RunParameters buffered = single;
    buffered.trigger->buffer_size = 3;
    AsyncFleet asgd(single);
    AsyncFleet fedbuff(buffered);
    for (const uint32_t device : {0U, 1U, 0U}) {  // the second one is late
      asgd.answer(device);
      fedbuff.answer(device);
      fedbuff.tick_at(fedbuff.coordinator->next_tick_ms());  // the deadline empties the buffer
      fedbuff.pull(device);
      fedbuff.expect_model(asgd.x());
    }
    EXPECT_EQ(fedbuff.coordinator->durable_version(), 3U);
    buffered.steps->server_step = 1;
    AsyncFleet mean(buffered);
    const std::vector<double> x = mean.x();
    std::vector<double> v(kSize);
    for (uint32_t device = 0; device < 3; ++device) {
      const std::vector<Real> zeta = mean.answer(device);
      for (size_t e = 0; e < kSize; ++e) {
        v[e] += static_cast<double>(zeta[e]) / 3;
      }
    }
    std::vector<double> expected(kSize);
    double along = 0;
    for (size_t e = 0; e < kSize; ++e) {
      along += v[e] * x[e];
    }
    const bool is_sphere = manifold == ManifoldId::kSphere;
    double length = 0;
    for (size_t e = 0; e < kSize; ++e) {
      v[e] -= is_sphere ? along * x[e] : 0;  // the server's projection to the tangent space
      length += v[e] * v[e];
    }
    length = std::sqrt(length);
    for (size_t e = 0; e < kSize; ++e) {
      expected[e] = is_sphere ? std::cos(length) * x[e] + std::sin(length) / length * v[e] : x[e] + v[e];
    }
    mean.expect_model(expected);
  }
}

TEST(AggregatorDelayed, MomentumAddsTheLastDirections) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.trigger->staleness_table = StalenessTable::kConstant;
  p.delay->server_momentum = 0.5F;
  AsyncFleet fleet(p);
  std::vector<double> x = fleet.x();
  std::vector<double> v(kSize);
  for (uint32_t device = 0; device < 4; ++device) {
    const std::vector<Real> zeta = fleet.answer(device);
    for (size_t e = 0; e < kSize; ++e) {
      v[e] = 0.5 * v[e] - zeta[e];
      x[e] -= 0.5 * v[e];
    }
    fleet.expect_model(x);
  }
}

// eta_i = w_i eta ((32)): the devices have 10, 20, 30 and 40 samples, 25 in the mean.
TEST(AggregatorDelayed, AnUpdateWeighsByItsDevicesSamples) {
  for (const uint32_t buffer_size : {1U, 2U}) {
    RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
    p.fold->fold_weight = FoldWeight::kSampleCount;
    p.trigger->buffer_size = buffer_size;
    AsyncFleet fleet(p);
    std::vector<double> x = fleet.x();
    for (uint32_t device = 0; device < 4; ++device) {
      const double staleness = std::round(32768 / std::sqrt(1.0 + device / buffer_size)) / 32768;
      const std::vector<Real> zeta = fleet.answer(device);
      for (size_t e = 0; e < kSize; ++e) {
        x[e] += 0.5 * staleness * (10 * (device + 1) / 25.0) / buffer_size * zeta[e];
      }
      if (device % buffer_size == buffer_size - 1) {
        fleet.expect_model(x);
      }
    }
    ASSERT_EQ(fleet.coordinator->durable_version(), 4 / buffer_size);
    const std::string state = fleet.coordinator->state_text();
    fleet.restart();
    EXPECT_EQ(fleet.coordinator->state_text(), state);
  }
}

// 0.7 times 40 / 25 is beyond the device's point: the step ends there.
TEST(AggregatorDelayed, AStepToAPointEndsThereWhateverItsDeviceWeighs) {
  RunParameters p = asynchronous_parameters(DelayRule::kFedAsync);
  p.fold->fold_weight = FoldWeight::kSampleCount;
  p.steps->server_step = 0.7F;
  AsyncFleet fleet(p);
  std::vector<double> point = fleet.x();
  const std::vector<Real> zeta = fleet.answer(3);
  for (size_t e = 0; e < kSize; ++e) {
    point[e] += zeta[e];
  }
  fleet.expect_model(point);
  EXPECT_EQ(fleet.coordinator->counters().steps_clamped, 1U);
}

TEST(AggregatorDelayed, TheServersStepGoesInCycles) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.trigger->staleness_table = StalenessTable::kConstant;
  p.steps->server_step = 0.75F;
  p.steps.keys().server_step_cycle = 3;
  p.steps.keys().server_step_low = 0.25F;
  AsyncFleet fleet(p);
  std::vector<double> x = fleet.x();
  for (const double alpha : {0.75, 0.5, 0.25, 0.75}) {
    const std::vector<Real> zeta = fleet.answer(1);
    for (size_t e = 0; e < kSize; ++e) {
      x[e] += alpha * zeta[e];
    }
    fleet.expect_model(x);
  }
}

// alpha / (N p_i), at most 1: who answers often counts less each time.
TEST(AggregatorDelayed, TheDominancePenaltySharesTheFleetsWeight) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.delay->dominance_penalty = true;
  AsyncFleet fleet(p);
  const uint32_t order[] = {0, 0, 0, 1};
  const double alphas[] = {0.5 / 4, 0.5 / 4, 0.5 / 4, 0.5 * std::round(32768 / 2.0) / 32768};
  std::vector<double> x = fleet.x();
  for (size_t i = 0; i < std::size(order); ++i) {
    const std::vector<Real> zeta = fleet.answer(order[i]);
    for (size_t e = 0; e < kSize; ++e) {
      x[e] += alphas[i] * zeta[e];
    }
    fleet.expect_model(x);
  }
}

TEST(AggregatorDelayed, WhatIsOlderThanTheBoundIsRefused) {
  AsyncFleet fleet(asynchronous_parameters(DelayRule::kOrthoPos));
  for (int i = 0; i < 4; ++i) {
    fleet.answer(0);
  }
  const std::vector<double> x = fleet.x();
  fleet.answer(1);  // four versions late
  EXPECT_EQ(fleet.ack(1)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(fleet.ack(1)->reason, gs_Reason_REASON_TOO_STALE);
  EXPECT_EQ(fleet.coordinator->durable_version(), 4U);
  EXPECT_EQ(fleet.x(), x);
}

// What the issue of a bad update is: a verdict with a name, a counter, and the model as it was.
TEST(AggregatorDelayed, BadUpdatesHaveAVerdictACounterAndNoEffect) {
  struct Spoilt {
    gs_Reason reason;
    std::function<void(TestUpload*)> spoil;
  };
  const Spoilt cases[] = {
      {gs_Reason_REASON_NOT_FINITE, [](TestUpload* u) { u->loss_after = NAN; }},
      {gs_Reason_REASON_NO_TIME, [](TestUpload* u) { u->step_time_us = 60'000'000; }},
      {gs_Reason_REASON_OUT_OF_RANGE, [](TestUpload* u) { u->values[2] = 1000; }},
  };
  for (const Spoilt& spoilt : cases) {
    for (const DelayRule rule : {DelayRule::kAsgd, DelayRule::kFedAsync, DelayRule::kOrthoStrict}) {
      AsyncFleet fleet(asynchronous_parameters(rule));
      fleet.answer(1);
      const std::vector<double> x = fleet.x();
      TestUpload upload = fleet.good_upload(0);
      spoilt.spoil(&upload);
      fleet.upload(0, upload);
      EXPECT_EQ(fleet.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
      EXPECT_EQ(fleet.ack(0)->reason, spoilt.reason);
      EXPECT_EQ(fleet.coordinator->counters().refusals[spoilt.reason], 1U);
      EXPECT_EQ(fleet.coordinator->durable_version(), 1U);
      EXPECT_EQ(fleet.x(), x);
    }
  }
}

TEST(AggregatorDelayed, AVersionThatIsForgottenHasAStatusOfItsOwn) {
  const RunParameters p = asynchronous_parameters(DelayRule::kOrthoPos);
  const TestRule bench(p);  // knows version 2 alone
  const std::vector<Real> values(kSize, 0.1F);
  FoldInput input;
  input.base_version = 1;
  input.steps_done = 1;
  input.weight = 1;
  input.values = values;
  EXPECT_EQ(bench.rule->check(input), Status::kSingular);  // TOO_STALE in the Ack
  input.base_version = 2;
  EXPECT_EQ(bench.rule->check(input), Status::kOk);
}

// An angle with nothing is none: the update counts, and moves the model nowhere.
TEST(AggregatorDelayed, ADisplacementOfNothingIsCountedAndMovesNothing) {
  for (const auto& [name, rule] : names_of<DelayRule>()) {
    if (rule == DelayRule::kNone || rule == DelayRule::kFedAsync) {  // that one goes back to where the device stands
      continue;
    }
    AsyncFleet fleet(asynchronous_parameters(rule));
    fleet.answer(1);
    const std::vector<double> x = fleet.x();
    TestUpload upload = fleet.good_upload(0);
    std::fill(upload.values.begin(), upload.values.end(), Real{0});
    fleet.upload(0, upload);
    EXPECT_EQ(fleet.ack(0)->verdict, gs_Verdict_VERDICT_LATE) << name;
    EXPECT_EQ(fleet.coordinator->counters().updates_still, 1U) << name;
    EXPECT_TRUE(fleet.has_log("step_adjusted version=2 still=1 clamped=0 antiparallel=0")) << name;
    EXPECT_EQ(fleet.x(), x) << name;
  }
}

TEST(AggregatorDelayed, AStepBeyondTheRadiusIsShortenedAndCounted) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.model->manifold = ManifoldId::kSphere;
  p.steps->server_step = 1;
  AsyncFleet fleet(p);
  TestUpload upload = fleet.good_upload(0);
  scale(kSize, 100, upload.values.data());
  fleet.upload(0, upload);
  EXPECT_EQ(fleet.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(fleet.coordinator->counters().steps_clamped, 1U);
  EXPECT_TRUE(fleet.has_log("step_adjusted version=1 still=0 clamped=1 antiparallel=0"));
  EXPECT_NEAR(norm2(kSize, fleet.coordinator->model().model()), 1, 1e-6);
  fleet.pull(0);
  fleet.answer(0);
  EXPECT_EQ(fleet.coordinator->counters().steps_clamped, 1U);
}

TEST(AggregatorDelayed, EveryRuleSurvivesARestartOnEveryManifoldThatHasIt) {
  const std::pair<ManifoldId, Shape> manifolds[] = {{ManifoldId::kEuclidean, {kSize, 1}},
                                                    {ManifoldId::kSphere, {kSize, 1}},
                                                    {ManifoldId::kStiefel, {4, 2}},
                                                    {ManifoldId::kHyperbolic, {kSize, 1}}};
  for (const auto& [name, rule] : names_of<DelayRule>()) {
    for (const auto& [manifold, shape] : manifolds) {
      RunParameters p = asynchronous_parameters(rule);
      p.model->manifold = manifold;
      p.model->shape = shape;
      p.trigger->staleness_max = 8;
      p.delay->server_momentum = rule == DelayRule::kAsgd ? 0.25F : 0;
      p.delay->dominance_penalty = rule == DelayRule::kOrthoGrad;
      if (check_parameters(p)) {
        continue;
      }
      AsyncFleet calm(p);
      AsyncFleet stormy(p);
      const uint32_t order[] = {0, 1, 0, 2, 3, 1, 0, 2};
      for (const uint32_t device : order) {
        const TestUpload upload = calm.good_upload(device);
        calm.answer(device);
        stormy.hello(device);
        stormy.upload(device, upload);
        stormy.pull(device);
        const std::string state = stormy.coordinator->state_text();
        stormy.restart();
        ASSERT_EQ(stormy.coordinator->state_text(), state) << name;
        EXPECT_EQ(stormy.coordinator->model().digest(), calm.coordinator->model().digest()) << name;
      }
      EXPECT_EQ(calm.coordinator->durable_version(), 8U) << name;
    }
  }
}

// Devices that go the same way at first, and then each its own.
TestUpload turning_upload(const TestServer& server, uint32_t device, uint32_t version) {
  TestUpload upload = server.good_upload(device);
  for (Real& value : upload.values) {
    value += version < 30 ? 0.2F : 0;
  }
  return upload;
}

struct Statistics {
  double cosine = 0;
  double drift_ratio = 0;
};

// delta = -zeta and b = Q - C in Euclidean space.
Statistics statistics_of(const std::vector<double>& base, const std::vector<double>& current,
                         const std::vector<Real>& zeta) {
  double along = 0;
  double delta_square = 0;
  double drift_square = 0;
  for (size_t e = 0; e < kSize; ++e) {
    const double b = base[e] - current[e];
    const auto delta = -static_cast<double>(zeta[e]);
    along += delta * b;
    delta_square += delta * delta;
    drift_square += b * b;
  }
  return {along / std::sqrt(delta_square * drift_square), std::sqrt(drift_square / delta_square)};
}

RunParameters switching_parameters(DelaySwitchBy by, Real at) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.trigger->staleness_table = StalenessTable::kConstant;
  p.trigger->staleness_max = 8;
  p.delay->late_delay_rule = DelayRule::kOrthoStrict;
  p.delay->delay_switch_by = by;
  p.delay->delay_switch_at = at;
  return p;
}

// The mean of the last updates, again in double, says when; a server that comes back after every record goes on as one
// that was never away.
void expect_switch(DelaySwitchBy by, Real at) {
  const RunParameters p = switching_parameters(by, at);
  ASSERT_EQ(check_parameters(p).sentence, "");
  AsyncFleet calm(p);
  AsyncFleet stormy(p);
  bool is_switched = false;
  double mean = 0;
  uint32_t count = 0;
  const uint32_t order[] = {0, 1, 2, 3, 0, 2, 1, 3};
  for (uint32_t version = 0; version < 80; ++version) {
    const uint32_t device = order[version % std::size(order)];
    const TestUpload upload = turning_upload(calm, device, version);
    std::vector<double> expected = calm.x();
    const std::vector<double>& base = calm.models[upload.base_version];
    const bool has_drift = upload.base_version < version;
    const Statistics statistics = has_drift ? statistics_of(base, expected, upload.values) : Statistics();
    const double removed = is_switched && has_drift ? statistics.cosine / statistics.drift_ratio : 0;
    for (size_t e = 0; e < kSize; ++e) {
      const double b = base[e] - expected[e];
      expected[e] -= 0.5 * (-static_cast<double>(upload.values[e]) - removed * b);
    }
    calm.upload(device, upload);
    calm.expect_model(expected);
    calm.models.push_back(calm.x());
    calm.pull(device);
    if (has_drift) {
      ++count;
      const double statistic = by == DelaySwitchBy::kCosine ? statistics.cosine : statistics.drift_ratio;
      mean += (statistic - mean) / std::min(count, kDelayWindow);
      const bool now = is_switched || (count >= kDelayWindow && mean <= static_cast<double>(at));
      EXPECT_TRUE(!now || version >= 30) << "a common way";
      EXPECT_EQ(calm.has_log("delay_rule_switched"), now) << version;
      is_switched = now;
    }
    stormy.hello(device);
    stormy.upload(device, upload);
    stormy.pull(device);
    const std::string state = stormy.coordinator->state_text();
    stormy.restart();
    ASSERT_EQ(stormy.coordinator->state_text(), state);
    ASSERT_EQ(stormy.coordinator->model().digest(), calm.coordinator->model().digest());
  }
  EXPECT_TRUE(is_switched);
}

TEST(AggregatorDelayed, ARunSwitchesByTheMeanAngle) { expect_switch(DelaySwitchBy::kCosine, 0.2F); }

TEST(AggregatorDelayed, ARunSwitchesByTheMeanDrift) { expect_switch(DelaySwitchBy::kDriftRatio, 1.2F); }

// Recovery takes the decision from the record, where it would itself decide otherwise.
TEST(AggregatorDelayed, TheSwitchStandsInTheRecord) {
  AsyncFleet fleet(switching_parameters(DelaySwitchBy::kCosine, 0.2F));
  for (uint32_t version = 0; version < 6; ++version) {
    fleet.answer(version % 3);
  }
  ASSERT_THAT(fleet.coordinator->state_text(), testing::HasSubstr("delay_rule=early"));
  std::vector<JournalRecord> records = fleet.store.records();
  Coordinator recovered(7, fleet.parameters, fleet.names);
  VersionRecord last;
  for (JournalRecord record : records) {
    if (record.kind() == RecordKind::kVersion && record.version() == 6) {
      JournalRow row = record.row();
      last.version = row.version;
      ASSERT_EQ(decode_payload(fleet.parameters, row.payload, &last), Status::kOk);
      ASSERT_TRUE(last.delay_switch.has_value());
      EXPECT_FALSE(last.delay_switch->is_switched);
      EXPECT_GT(last.delay_switch->sample_count, 0U);
      EXPECT_LT(last.delay_switch->sample_count, kDelayWindow);
      last.delay_switch->is_switched = true;
      row.payload = encode_payload(last);
      record = JournalRecord(row);
    }
    ASSERT_EQ(recovered.replay(record), Status::kOk);
  }
  EXPECT_THAT(recovered.state_text(), testing::HasSubstr("delay_rule=late"));
}

// A paused run closes no version: an update beyond the one that it can take is not judged, counts once the run goes on,
// and takes nothing from the one before it.
TEST(AggregatorDelayed, APausedRunTakesOneUpdateAndLetsTheOthersWait) {
  const RunParameters p = asynchronous_parameters(DelayRule::kOrthoStrict);
  AsyncFleet paused(p);
  AsyncFleet straight(p);
  const TestUpload first = paused.good_upload(0);
  const TestUpload second = paused.good_upload(1);
  straight.upload(0, first);
  straight.upload(1, second);
  paused.coordinator->pause(paused.now_ms);
  paused.collect();
  paused.upload(0, first);
  EXPECT_EQ(paused.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  for (int i = 0; i < 2; ++i) {
    paused.upload(1, second);
    EXPECT_EQ(paused.ack(1)->verdict, gs_Verdict_VERDICT_TRY_LATER);
  }
  EXPECT_EQ(paused.coordinator->durable_version(), 0U);
  paused.coordinator->resume(paused.now_ms);
  paused.collect();
  EXPECT_EQ(paused.coordinator->durable_version(), 1U);
  paused.upload(1, second);
  EXPECT_EQ(paused.ack(1)->verdict, gs_Verdict_VERDICT_LATE);
  EXPECT_EQ(paused.coordinator->durable_version(), 2U);
  EXPECT_EQ(paused.coordinator->model().digest(), straight.coordinator->model().digest());
}

// Every Ack says when to come back: wide enough for the fleet's arrival rate, wider for a refused update.
TEST(AggregatorDelayed, AcksPaceTheFleet) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.pace->arrival_rate = 2;
  p.pace->retry_min_ms = 100;
  p.pace->retry_max_ms = 200;
  AsyncFleet fleet(p);
  fleet.answer(0);
  EXPECT_EQ(fleet.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(fleet.ack(0)->retry.min_ms, 100U);
  EXPECT_EQ(fleet.ack(0)->retry.max_ms, kPaceSpread * 4 * 1000 / 2) << "four devices, two a second";
  fleet.answer(1);
  EXPECT_EQ(fleet.ack(1)->verdict, gs_Verdict_VERDICT_LATE);
  EXPECT_EQ(fleet.ack(1)->retry.max_ms, fleet.ack(0)->retry.max_ms);
  TestUpload refused = fleet.good_upload(2);
  refused.loss_before = NAN;
  fleet.upload(2, refused);
  EXPECT_EQ(fleet.ack(2)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_GE(fleet.ack(2)->retry.max_ms - fleet.ack(2)->retry.min_ms,
            kRefusedWindowFactor * (fleet.ack(0)->retry.max_ms - fleet.ack(0)->retry.min_ms));
}

// A buffer that does not fill is emptied at the deadline; nobody there: extended, stalled, and on again with an update.
TEST(AggregatorDelayed, ABufferIsEmptiedAtTheDeadline) {
  RunParameters p = asynchronous_parameters(DelayRule::kAsgd);
  p.trigger->buffer_size = 3;
  AsyncFleet fleet(p);
  fleet.answer(2);
  fleet.tick_at(fleet.coordinator->next_tick_ms());
  EXPECT_EQ(fleet.coordinator->durable_version(), 1U);
  EXPECT_TRUE(fleet.has_log("trigger=deadline"));
  for (uint32_t i = 0; i <= p.trigger->extension_count_max; ++i) {
    fleet.tick_at(fleet.coordinator->next_tick_ms());
  }
  EXPECT_EQ(fleet.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  fleet.answer(0);
  EXPECT_EQ(fleet.coordinator->durable_version(), 2U);
  EXPECT_EQ(fleet.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
}

}  // namespace
}  // namespace gradstream
