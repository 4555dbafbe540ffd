// The server of X14 is the product's: what it makes of updates is, bit for bit, what a coordinator makes of them, with
// all that a delayed rule weighs, shortens or remembers.
#include "experiments/papers/asynchronous_fleet.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/harness/harness.h"
#include "experiments/papers/asynchronous_formulas.h"
#include "experiments/workloads/data_network.h"
#include "runtime/base/products.h"
#include "server/rules/curve_step.h"
#include "server/run/check_parameters.h"
#include "server/run/delay_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters small_run() {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {8, 1};
  p.fold->fold_weight = FoldWeight::kUniform;
  p.trigger->buffer_size = 1;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_table = StalenessTable::kConstant;
  p.trigger->staleness_max = 8;
  p.delay->delay_rule = DelayRule::kAsgd;
  p.steps->server_step = 0.5F;
  return p;
}

// The devices answer in this order, each from the version after its last answer.
const std::vector<uint32_t> kOrder = {0, 1, 0, 0, 2, 3, 1, 0, 2, 2, 0, 3};

struct Outcome {
  AsyncValues model;  // after all updates; it was the coordinator's after each
  uint64_t steps_clamped = 0;
};

Outcome outcome_of(const RunParameters& p, const std::vector<uint32_t>& order = kOrder, Real update_scale = 1) {
  EXPECT_EQ(check_parameters(p), "");
  TestServer server(p);
  server.start();
  server.join(p.trigger->device_count);
  const auto coordinators = [&] {
    const Real* model = server.coordinator->model().model();
    return AsyncValues(model, model + p.model->shape.size());
  };
  std::vector<AsyncValues> models = {coordinators()};
  AsyncServer async(p, 0, models.front());
  for (const uint32_t device : order) {
    TestUpload upload = server.good_upload(device);
    scale(upload.values.size(), update_scale, upload.values.data());
    server.upload(device, upload);
    async.fold({device, 0, upload.base_version, models[upload.base_version]}, 1, upload.values);
    async.close();
    EXPECT_EQ(async.version(), server.coordinator->durable_version());
    EXPECT_EQ(async.model(), coordinators()) << "version " << async.version();
    models.push_back(coordinators());
    server.pull(device);
  }
  return {async.model(), server.coordinator->counters().steps_clamped};
}

TEST(AsynchronousFleet, TheServerIsThatOfTheProduct) {
  const AsyncValues plain = outcome_of(small_run()).model;
  const std::pair<const char*, std::function<void(RunParameters&)>> changes[] = {
      {"rule", [](RunParameters& p) { p.delay->delay_rule = DelayRule::kDcAdaptive; }},
      {"second rule",
       [](RunParameters& p) {
         p.delay->late_delay_rule = DelayRule::kOrthoPos;
         p.delay->delay_switch = 3;
       }},
      {"staleness weight", [](RunParameters& p) { p.trigger->staleness_table = StalenessTable::kInverseSqrt; }},
      {"dominance", [](RunParameters& p) { p.delay->dominance_penalty = true; }},
      {"momentum", [](RunParameters& p) { p.delay->server_momentum = 0.25F; }},
      {"step", [](RunParameters& p) { p.steps->server_step = 0.25F; }},
  };
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    RunParameters p = small_run();
    change(p);
    EXPECT_NE(outcome_of(p).model, plain);
  }
}

// On the sphere a step beyond half of a great circle is shortened.
TEST(AsynchronousFleet, TheServerShortensSteps) {
  RunParameters p = small_run();
  p.model->manifold = ManifoldId::kSphere;
  p.steps->server_step = 1;
  const Outcome outcome = outcome_of(p, {0, 0, 0}, 100);  // none is late: from behind the sphere there is no way back
  EXPECT_EQ(outcome.steps_clamped, 3U);
  EXPECT_NEAR(norm2(p.model->shape.size(), outcome.model.data()), 1, 1e-6);
}

TEST(AsynchronousFleet, AnUpdateThatTheServerRefusesEndsTheRun) {
  RunParameters p = small_run();
  p.trigger->staleness_max = 3;
  const AsyncValues start(p.model->shape.size(), 1);
  AsyncServer server(p, 7, start);
  const auto refused = [&](uint32_t base, const AsyncValues& update) -> std::string {
    try {
      server.fold({2, 0, base, start}, 1, update);
    } catch (const std::runtime_error& fault) {
      return fault.what();
    }
    return "";
  };
  EXPECT_EQ(refused(3, start), "the update of device 2 at version 7, 4 versions behind of at most 3: singular");
  EXPECT_THAT(refused(7, AsyncValues(p.model->shape.size(), 1e9F)), testing::EndsWith("out of range"));
  EXPECT_EQ(refused(7, start), "");
  server.close();
  EXPECT_EQ(server.version(), 8U);
}

// A step, and the step by the formulas of other parameters. Whether these are one point.
bool is_formula(const RunParameters& p, const RunParameters& other, const AsyncStep& at) {
  AsyncServer server(p, at.step, at.model);
  server.recall(at.job.base_version, at.job.base);
  server.fold(at.job, 1, at.update);
  server.close();
  try {
    expect_formula("the step", server.model(), step_by_formula(other, at), formula_values(at.model));
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

// An update and a control point that are late: drift and displacement with a conflict, or without one.
AsyncStep late_step(bool is_conflict) {
  AsyncStep at;
  at.step = 5;
  for (int e = 0; e < 8; ++e) {
    const auto x = static_cast<Real>(e);
    at.model.push_back(1 + x / 8);
    at.job.base.push_back(at.model.back() + static_cast<Real>(0.01) * (x - 2));
    const Real way = static_cast<Real>(0.02) * (x - 3) + static_cast<Real>(0.001) * x * x;
    at.update.push_back(is_conflict ? way : -way);
  }
  for (int e = 0; e < 8; ++e) {
    at.update.push_back(at.update[static_cast<size_t>(e)] / 2 + static_cast<Real>(0.01) * static_cast<Real>(e % 3 - 1));
  }
  at.job.base_version = 3;
  return at;
}

// Planted faults: half the step, and the step of another rule.
TEST(AsynchronousFormulas, HoldEachRuleAndNoOther) {
  for (const bool is_conflict : {true, false}) {
    const AsyncStep at = late_step(is_conflict);
    uint32_t told_apart = 0;
    for (const AsyncRule& rule : kAsyncRules) {
      const RunParameters p = under_rule(small_run(), rule);
      EXPECT_TRUE(is_formula(p, p, at)) << rule.name;
      RunParameters halved = p;
      halved.steps->server_step /= 2;
      EXPECT_FALSE(is_formula(halved, p, at)) << rule.name;
      for (const AsyncRule& other : kAsyncRules) {
        told_apart += is_formula(under_rule(small_run(), other), p, at) ? 0 : 1;
      }
    }
    // In a conflict the four orthogonal rules are one; without one OrthoGrad, OrthoDyn and ASGD are, and OrthoPos is
    // FedAsync.
    EXPECT_EQ(told_apart, is_conflict ? 49U - 16U - 3U : 49U - 9U - 4U - 2U);
  }
}

// The server's control points by the formulas, and none by those of another way.
TEST(AsynchronousFormulas, HoldEachControlPointAndNoOther) {
  const AsyncStep at = late_step(true);
  const RunParameters p = under_rule(small_run(), async_rule("OrthoGrad"));
  const FormulaValues end = step_by_formula(p, at);
  const AsyncValues that(end.begin(), end.end());
  const AsyncValues displacement(at.update.begin(), at.update.begin() + 8);
  const AsyncValues control(at.update.begin() + 8, at.update.end());
  for (const auto& [word, how] : names_of<CurveControl>()) {
    AsyncValues placed;
    ASSERT_TRUE(place_control(how, {at.job.base, displacement, control, at.model, that}, &placed));
    for (const char* const other : {"none", "translate", "rotate", "line"}) {
      const FormulaValues wanted = control_by_formula(other, at, end);
      const FormulaValues from = formula_values(at.model);
      if (other == std::string(word)) {
        EXPECT_NO_THROW(expect_formula(word, placed, wanted, from));
      } else {
        EXPECT_THROW(expect_formula(word, placed, wanted, from), std::runtime_error) << word << " " << other;
      }
    }
  }
}

// What a case takes from a run that others look at too is the whole run, or its fault.
TEST(SavedAsyncRun, OfARunThatThrowsNothingIsKeptAndItIsMadeOnce) {
  int run_count = 0;
  SavedAsyncRun saved([](uint32_t) { return true; },
                      [&](const RunParameters&, const OnAsyncStep& on_step) {
                        ++run_count;
                        for (uint32_t step = 0; step < 3; ++step) {
                          on_step({step, AsyncValues(1, 0), {}, {}});
                        }
                        throw std::runtime_error("the step to version 3: out of range");
                      });
  for (int asker = 0; asker < 3; ++asker) {
    EXPECT_THROW(saved.steps(small_run()), std::runtime_error) << asker;
  }
  EXPECT_EQ(run_count, 1);
}

TEST(SavedAsyncRun, ARunIsMadeOnceForAllThatAsk) {
  int run_count = 0;
  SavedAsyncRun saved([](uint32_t step) { return step % 2 == 0; },
                      [&](const RunParameters&, const OnAsyncStep& on_step) {
                        ++run_count;
                        for (uint32_t step = 0; step < 5; ++step) {
                          on_step({step, AsyncValues(1, 0), {}, {}});
                        }
                      });
  for (int asker = 0; asker < 3; ++asker) {
    EXPECT_EQ(saved.steps(small_run()).size(), 3U) << asker;
  }
  EXPECT_EQ(run_count, 1);
}

std::vector<int> labels_of(const NetworkWorkload& network, uint32_t device) {
  const SampleSource& source = static_cast<const NetworkData*>(network.problem(device).context)->source;
  std::vector<Real> row(source.dimension);
  std::vector<int> labels;
  for (uint32_t i = 0; i < source.count; ++i) {
    EXPECT_EQ(source.read(source.context, i, row.data()), Status::kOk);
    labels.push_back(static_cast<int>(row.back()));
  }
  return labels;
}

// Every split deals the same samples, as many to each device.
TEST(DigitsSplit, ArrangesTheSameSamples) {
  const std::unique_ptr<NetworkWorkload> shuffled = make_digits_network(1);
  std::vector<int> wanted;
  for (uint32_t device = 0; device < kNetworkDeviceCount; ++device) {
    const std::vector<int> labels = labels_of(*shuffled, device);
    wanted.insert(wanted.end(), labels.begin(), labels.end());
  }
  const size_t half = wanted.size() / 2;
  std::vector<int> rest(wanted.begin() + static_cast<std::ptrdiff_t>(half), wanted.end());
  for (const DigitsSplit split : {DigitsSplit::kHalfSorted, DigitsSplit::kSorted}) {
    const std::unique_ptr<NetworkWorkload> network = make_digits_network(1, split);
    std::vector<int> found;
    for (uint32_t device = 0; device < kNetworkDeviceCount; ++device) {
      const std::vector<int> labels = labels_of(*network, device);
      EXPECT_EQ(labels.size(), shuffled->sample_count(device));
      found.insert(found.end(), labels.begin(), labels.end());
    }
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(wanted));
    const size_t eighth = half / kNetworkDeviceCount + 1;  // the first, of 718: 90
    EXPECT_TRUE(std::is_sorted(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(eighth)));
    EXPECT_EQ(std::is_sorted(found.begin(), found.end()), split == DigitsSplit::kSorted);
    if (split == DigitsSplit::kHalfSorted) {
      const auto second = found.begin() + static_cast<std::ptrdiff_t>(eighth);
      EXPECT_TRUE(std::equal(second, second + static_cast<std::ptrdiff_t>(eighth), rest.begin()))
          << "then the rest in its order";
    }
  }
}

// The floor of the reference's loss is far below the probabilities of an untrained network.
TEST(DigitsSplit, AFloorOfProbabilitiesIsOfTheMeasureAlone) {
  const std::unique_ptr<NetworkWorkload> plain = make_digits_network(1);
  const std::unique_ptr<NetworkWorkload> floored = make_digits_network(1, DigitsSplit::kShuffled, 1e-12);
  EXPECT_NEAR(floored->measure(floored->start()).excess, plain->measure(plain->start()).excess, 1e-5);
  const double low = make_digits_network(1, DigitsSplit::kShuffled, 1)->measure(plain->start()).excess;
  EXPECT_LT(low, 0) << "-log(p + 1)";
}

TEST(AsynchronousFleet, TheLorentzianTermHoldsTheEndBack) {
  const std::unique_ptr<NetworkWorkload> network = make_digits_network(1);
  const AsyncDevices::Job job{0, 0, 0, start_of(*network)};
  const size_t size = job.base.size();
  const AsyncValues free = train_async_curve(*network, 1, 5, job);
  const AsyncValues pulled = train_async_curve(*network, 1, 5, job, true);
  ASSERT_EQ(pulled.size(), 2 * size);
  EXPECT_LT(norm2(size, pulled.data()), norm2(size, free.data()));
}

TEST(AsynchronousFleet, AnAverageTakesTheModelsPlace) {
  RunParameters p = small_run();
  p.trigger->round_count = 40;
  p = with_all_terms(p);
  p.model->shape = {1, 1};
  std::vector<std::pair<uint32_t, Real>> seen;
  const OnAsyncStep on_step = average_every(p, 10, [&](uint32_t step, const Real* model) {
    seen.emplace_back(step, *model);
    return true;
  });
  for (uint32_t step = 0; step <= 40; ++step) {
    on_step({step, AsyncValues(1, static_cast<Real>(step)), {}, {}});
  }
  EXPECT_THAT(seen, testing::ElementsAre(testing::Pair(0, 0), testing::Pair(10, 10), testing::Pair(20, 20),
                                         testing::Pair(30, 25), testing::Pair(40, 30)));
}

}  // namespace
}  // namespace gradstream
