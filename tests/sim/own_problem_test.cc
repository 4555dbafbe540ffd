// A problem and an aggregation of the caller's in the simulator: what goes wrong changes nothing but the time.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "server/rules/aggregator_own.h"
#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "sim/oracle.h"
#include "sim/simulation.h"

namespace gradstream {
namespace {

constexpr uint32_t kAllFaults = (1U << kFaultCount) - 1;
constexpr uint32_t kDeviceCount = 3, kSampleCount = 8, kColumns = 4;

// k-PCA over samples of the caller's, on a sphere.
struct Samples {
  Samples() {
    for (uint32_t device = 0; device < kDeviceCount; ++device) {
      for (uint32_t i = 0; i < kSampleCount * kColumns; ++i) {
        const float sign = (i / kColumns + device) % 2 == 0 ? 1.0F : -1.0F;
        values[device][i] = i % kColumns == 0 ? sign : 0.125F * static_cast<float>((i * 7 + device) % 5);
      }
      sources[device] = {values[device].data(), kSampleCount, kColumns, read};
      own.contexts.push_back(&sources[device]);
    }
    own.ops = &kKpcaOps;
    own.adjust = [](RunParameters* p) { p->model->shape = {kColumns, 1}; };
  }
  static Status read(const void* context, uint32_t index, Real* out) {
    std::copy_n(static_cast<const float*>(context) + size_t{index} * kColumns, kColumns, out);
    return Status::kOk;
  }
  std::array<std::array<float, kSampleCount * kColumns>, kDeviceCount> values;
  std::array<SampleSource, kDeviceCount> sources;
  OwnProblem own;
};

SimOptions options_of(const OwnProblem& own, StreamKind stream) {
  SimOptions options;
  options.device_count = kDeviceCount;
  options.round_count = 6;
  options.stream = stream;
  options.own = &own;
  return options;
}

// Of a calm run, and of some in which everything goes wrong.
uint64_t one_digest(SimOptions options) {
  const SimResult calm = Simulation(options, 0).run();
  EXPECT_EQ(calm.fault, "");
  EXPECT_EQ(calm.version, 6U);
  EXPECT_EQ(calm.shape, (Shape{kColumns, 1}));
  EXPECT_EQ(calm.model.size(), kColumns);
  options.fault_bits = kAllFaults;
  for (uint32_t schedule = 0; schedule < 10; ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    EXPECT_EQ(result.fault, "") << "schedule " << schedule;
    EXPECT_EQ(result.digest, calm.digest) << "schedule " << schedule;
  }
  return calm.digest;
}

TEST(OwnProblem, SamplesOfTheCallerAreTrained) {
  const Samples samples;
  one_digest(options_of(samples.own, StreamKind::kScalarStream));
  one_digest(options_of(samples.own, StreamKind::kTangentBlock));
}

TEST(OwnProblem, AnAggregationOfTheCallerIsFollowedByAll) {
  Samples samples;
  const uint64_t mean = one_digest(options_of(samples.own, StreamKind::kTangentBlock));
  const OwnRule median = {[](uint32_t, const Real*, std::span<const OwnUpdate> updates, Real* out) {
    for (size_t e = 0; e < kColumns; ++e) {
      std::vector<Real> values;
      for (const OwnUpdate& update : updates) {
        values.push_back(update.values[e]);
      }
      std::sort(values.begin(), values.end());
      out[e] = values[values.size() / 2];
    }
    return true;
  }};
  samples.own.rule = &median;
  EXPECT_NE(one_digest(options_of(samples.own, StreamKind::kTangentBlock)), mean);
}

// An oracle of a fixed size would end the process.
TEST(OwnProblem, TheOracleTakesAModelAsLargeAsARunMayHave) {
  RunParameters p;
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {kDimensionMax, 3};
  const Oracle oracle(p);
  EXPECT_EQ(oracle.version(), 0U);
}

TEST(OwnProblem, TheCallerMayEndIt) {
  Samples samples;
  uint32_t asks = 0;
  samples.own.is_ended = [&asks] { return ++asks > 50; };
  const SimResult result = Simulation(options_of(samples.own, StreamKind::kScalarStream), 0).run();
  EXPECT_EQ(result.fault, "the caller has ended it");
  EXPECT_EQ(result.event_count, 50U);
}

TEST(OwnProblem, OptionsOfTheSimulatorsSamplesAreRefused) {
  const Samples samples;
  SimOptions options = options_of(samples.own, StreamKind::kScalarStream);
  EXPECT_EQ(own_problem_obstacle(options), "");
  options.device_count = 4;
  EXPECT_NE(own_problem_obstacle(options).find("samples for 3 devices, and the fleet has 4"), std::string::npos);
  options.device_count = kDeviceCount;
  const auto refusal_of = [&samples, &options](void (*adjust)(RunParameters * p)) {
    OwnProblem own = samples.own;
    own.adjust = adjust;
    SimOptions asked = options;
    asked.own = &own;
    return own_problem_obstacle(asked);
  };
  EXPECT_NE(refusal_of([](RunParameters* p) { p->units.keys().centre = Centre::kFederated; }).find("centre"),
            std::string::npos);
  EXPECT_NE(refusal_of([](RunParameters* p) { p->steps->step_size = 0; }).find("step_size"), std::string::npos);
  EXPECT_NE(refusal_of([](RunParameters* p) { p->trigger->device_count = 5; }).find("device_count is 5"),
            std::string::npos);
  EXPECT_NE(refusal_of([](RunParameters* p) { p->trigger->update_min = 1; }).find("--stragglers"), std::string::npos);
  EXPECT_NE(refusal_of([](RunParameters* p) {
              p->model->shape = {kColumns + 1, 1};
            }).find("of 5 rows"),
            std::string::npos);
  options.chooses_step = true;
  EXPECT_NE(own_problem_obstacle(options).find("auto_step"), std::string::npos);
  options.own = nullptr;
  EXPECT_EQ(own_problem_obstacle(options), "");
}

}  // namespace
}  // namespace gradstream
