// Whether a run improves, said of real runs: the coordinator, the clients and every frame, in virtual time.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"
#include "runtime/problem/problem.h"
#include "server/run/run_core.h"
#include "sim/timed_fleet.h"

namespace gradstream {
namespace {

constexpr uint32_t kDimension = 8;
constexpr uint32_t kSamples = 40;

// Each device has a heap of its own, as where devices are sorted by a label. Columns differ in their variance.
struct Heaps {
  explicit Heaps(uint32_t device_count) : sources(device_count) {
    RandomStream stream(RandomKey{});
    for (uint32_t device = 0; device < device_count; ++device) {
      for (uint32_t i = 0; i < kSamples; ++i) {
        for (uint32_t c = 0; c < kDimension; ++c) {
          const Real heap = c == device % 4 ? static_cast<Real>(0.3) : Real{0};
          values.push_back((static_cast<Real>(stream.next_uniform()) - static_cast<Real>(0.5) + heap) /
                           static_cast<Real>(1 + c));
        }
      }
    }
    for (uint32_t device = 0; device < device_count; ++device) {
      sources[device] = {values.data() + size_t{device} * kSamples * kDimension, kSamples, kDimension, read};
      problems.push_back({&kKpcaOps, &sources[device]});
    }
  }
  static Status read(const void* context, uint32_t index, Real* out) {
    std::copy_n(static_cast<const Real*>(context) + size_t{index} * kDimension, kDimension, out);
    return Status::kOk;
  }
  std::vector<Real> values;
  std::vector<SampleSource> sources;
  std::vector<Problem> problems;
};

RunParameters run_of(Real step_size, uint32_t seed = 1) {
  RunParameters p;
  p.name = "progress";
  p.seed = seed;
  p.model->manifold = ManifoldId::kStiefel;
  p.model->shape = {kDimension, 2};
  p.model->problem = kKpcaOps.name;
  p.local->batch_size = 16;
  p.steps->step_size = step_size;
  p.trigger->round_count = 100;
  p.trigger->device_count = 6;
  p.fold->fold_weight = FoldWeight::kUniform;
  return p;
}

RunParameters gradients_of(Real step_size, uint32_t seed = 1) {
  RunParameters p = run_of(step_size, seed);
  p.local->solver = SolverId::kGradientStream;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->correction_form = CorrectionForm::kNone;
  return p;
}

struct Outcome {
  std::string fault;
  ProgressState at_60 = ProgressState::kStarting;
  ProgressState at_end = ProgressState::kStarting;
  bool was_accused = false;  // at any time
  double loss = 0;
  double first_loss = 0;
};

Outcome outcome_of(const RunParameters& parameters, uint32_t device_count) {
  const Heaps heaps(device_count);
  TimedFleet fleet(parameters, heaps.problems, {});
  Outcome outcome;
  fleet.on_state = [&](const Coordinator& server) {
    const ProgressView& view = server.progress();
    outcome.at_end = view.state;
    if (server.durable_version() <= 60) {
      outcome.at_60 = view.state;
    }
    outcome.was_accused =
        outcome.was_accused || view.state == ProgressState::kNotImproving || view.state == ProgressState::kDiverged;
    outcome.loss = view.loss;
    outcome.first_loss = view.first_loss;
    return std::string();
  };
  outcome.fault = fleet.run(TimedFleet::kNoEndMs, [](uint64_t, uint32_t, const Real*) { return true; });
  return outcome;
}

// On these data steps from 0.3 to 10 come to one loss.
constexpr Real kGoodStep = 1;
constexpr Real kLongStep = 100;
constexpr Real kShortStep = static_cast<Real>(0.03);

TEST(Progress, ALongStepIsNamedAndAGoodOneIsNot) {
  for (const bool is_gradient : {false, true}) {
    for (const uint32_t device_count : {6U, 1U}) {
      const auto parameters_of = [&](Real step) { return is_gradient ? gradients_of(step) : run_of(step); };
      const std::string name = std::string(is_gradient ? "gradients" : "scalars") + " " + std::to_string(device_count);
      const Outcome good = outcome_of(parameters_of(kGoodStep), device_count);
      EXPECT_EQ(good.fault, "") << name;
      EXPECT_FALSE(good.was_accused) << name;
      const Outcome longer = outcome_of(parameters_of(kLongStep), device_count);
      EXPECT_EQ(longer.fault, "") << name;
      EXPECT_EQ(longer.at_60, ProgressState::kNotImproving) << name;
      EXPECT_EQ(longer.at_end, ProgressState::kNotImproving) << name;
      EXPECT_GT(longer.loss, good.loss) << name;
      const Outcome shorter = outcome_of(parameters_of(kShortStep), device_count);
      EXPECT_EQ(shorter.at_60, ProgressState::kStillFalling) << name;
      EXPECT_FALSE(shorter.was_accused) << name;
    }
  }
}

struct Variant {
  const char* name;
  RunParameters parameters;
};

// Where noise, or the directions of single devices, promise more than the loss can keep.
std::vector<Variant> variants_of(Real step) {
  std::vector<Variant> all;
  all.push_back({"one step", run_of(step)});
  all.back().parameters.local->local_step_count = 1;
  all.push_back({"four directions", run_of(step)});
  all.back().parameters.local->direction_count = 4;
  all.push_back({"memory", run_of(step)});
  all.back().parameters.local->correction_form = CorrectionForm::kMemory;
  all.push_back({"two of six", run_of(step)});
  all.back().parameters.cohort->participation = Participation::kSchemeOne;
  all.back().parameters.cohort->cohort_size = 2;
  all.back().parameters.local->correction_form = CorrectionForm::kNone;
  all.push_back({"mean gradients", run_of(step)});
  all.back().parameters.local->estimator = EstimatorId::kAnalyticGradient;
  all.push_back({"no rounds", gradients_of(step)});
  all.back().parameters.trigger->buffer_size = 1;
  all.back().parameters.trigger->late = LatePolicy::kWeight;
  all.back().parameters.trigger->staleness_max = 64;
  all.back().parameters.delay->delay_rule = DelayRule::kAsgd;
  all.back().parameters.steps->server_step = static_cast<Real>(1.0 / 6);
  all.back().parameters.trigger->round_count = 600;
  return all;
}

TEST(Progress, ManyFormsOfAGoodRunAreNotAccused) {
  for (const Variant& variant : variants_of(kGoodStep)) {
    const Outcome outcome = outcome_of(variant.parameters, 6);
    EXPECT_EQ(outcome.fault, "") << variant.name;
    EXPECT_FALSE(outcome.was_accused) << variant.name;
  }
}

}  // namespace
}  // namespace gradstream
