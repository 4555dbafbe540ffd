// The server of X14 is the product's: what it makes of updates is, bit for bit, what a coordinator makes of them, with
// all that a delayed rule weighs, shortens or remembers.
#include "experiments/papers/asynchronous_fleet.h"

#include <functional>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "server/run/check_parameters.h"
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

}  // namespace
}  // namespace gradstream
