// Runs with step_size "auto" through the coordinator: the stages START and TRIALS, and rounds whose step follows from
// the devices' lines. The devices minimise quadratic losses whose optimum is known.
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/rules/stage_fold.h"
#include "server/rules/step_decision.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr size_t kSize = 8;
using Point = std::vector<double>;

RunParameters automatic(uint32_t device_count = 4) {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {kSize, 1};
  p.steps->step_size = 0;
  p.steps->step_decay = 0;
  p.trigger->device_count = device_count;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.fold->fold_scale_log2 = 16;
  return p;
}

// 1/2 sum_e h_e (x_e - c_e)^2, the device's c: h from 1 to 15.
double loss(uint32_t device, const Point& x) {
  double sum = 0;
  for (size_t e = 0; e < kSize; ++e) {
    const double difference = x[e] - 3 - 0.1 * device;
    sum += 0.5 * static_cast<double>(1 + 2 * e) * difference * difference;
  }
  return sum;
}
double slope(uint32_t device, const Point& x, size_t e) {
  return static_cast<double>(1 + 2 * e) * (x[e] - 3 - 0.1 * device);
}

class StepFleet : public TestServer {
 public:
  explicit StepFleet(const RunParameters& p) : TestServer(p) { begin(); }
  void begin() {
    start();
    for (uint32_t device = 0; device < parameters.trigger->device_count; ++device) {
      hello(device);
    }
    note_model();
  }
  Point model() const {
    const Real* x = coordinator->model().model();
    return {x, x + kSize};
  }
  // F less its least value.
  double excess() const {
    double sum = 0;
    const uint32_t n = parameters.trigger->device_count;
    const Point best(kSize, 3 + 0.05 * (n - 1));
    for (uint32_t device = 0; device < n; ++device) {
      sum += (loss(device, model()) - loss(device, best)) / n;
    }
    return sum;
  }
  // The device does its task, whatever it asks for.
  void answer(uint32_t device) {
    pull(device);
    const gs_Task* const issued = task(device);
    if (issued == nullptr || issued->version != coordinator->durable_version()) {
      return;
    }
    TestUpload out = good_upload(device);
    switch (issued->stage) {
      case gs_Stage_STAGE_START:
      case gs_Stage_STAGE_TRAIN:
        out.values = path(device, *issued);
        break;
      default:
        out.encoding = Encoding::kF32;
        out.kind = StreamKind::kTangentBlock;
        out.values = trials(device, static_cast<double>(issued->step_size));
        out.loss_before = out.loss_after = 0;
        break;
    }
    if (issued->stage == gs_Stage_STAGE_TRAIN && sends_lines) {
      out.notes.line = line(device, issued->version);
    }
    upload(device, out);
    note_model();
  }
  void round() {
    for (uint32_t device = 0; device < parameters.trigger->device_count; ++device) {
      answer(device);
    }
  }
  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      round();
    }
  }
  gs_Stage stage() {
    pull(0);
    return task(0)->stage;
  }

  uint32_t liar = UINT32_MAX;
  bool sends_lines = true;
  bool finds_all_bad = false;

 private:
  double told(uint32_t device, double value) const { return device == liar ? -1e6 * value - 1e3 : value; }
  void note_model() { models_[coordinator->model().version()] = model(); }

  std::vector<Real> path(uint32_t device, const gs_Task& issued) const {
    const bool sends_mean = issued.solver == gs_Solver_SOLVER_PROJECTION;
    const auto step_size = static_cast<double>(issued.step_size);
    const double share = sends_mean ? 1.0 / issued.local_step_count : -step_size;
    Point x = model();
    std::vector<Real> sum(kSize);
    for (uint32_t step = 0; step < issued.local_step_count; ++step) {
      for (size_t e = 0; e < kSize; ++e) {
        const double g = slope(device, x, e);
        sum[e] += static_cast<Real>(share * g);
        x[e] -= step_size * g;
      }
    }
    return sum;
  }
  std::vector<Real> trials(uint32_t device, double longest) const {
    const Real* d = coordinator->model().part(ModelPart::kDirection);
    GS_ASSERT(d != nullptr);
    std::vector<Real> changes(kTrialCount);
    for (size_t q = 0; q < kTrialCount; ++q) {
      Point x = model();
      for (size_t e = 0; e < kSize; ++e) {
        x[e] -= std::ldexp(longest, -static_cast<int>(q)) * static_cast<double>(d[e]);
      }
      const double change = std::min(told(device, loss(device, x) - loss(device, model())), 1e30);
      changes[q] = static_cast<Real>(finds_all_bad ? 1e30 : change);
    }
    return changes;
  }
  std::optional<UpdateLine> line(uint32_t device, uint32_t version) const {
    const auto before = models_.find(version - 1);
    const Point& after = models_.at(version);
    if (before == models_.end() || before->second == after) {
      return {};
    }
    Point half(kSize);
    for (size_t e = 0; e < kSize; ++e) {
      half[e] = (before->second[e] + after[e]) / 2;
    }
    const double f0 = loss(device, before->second);
    const double f1 = loss(device, after);
    const double curvature = 2 * (f1 - 2 * loss(device, half) + f0);
    return UpdateLine{static_cast<float>(told(device, f1 - f0 - curvature)),
                      static_cast<float>(told(device, curvature))};
  }

  std::map<uint32_t, Point> models_;  // by version
};

// Every state that the coordinator stood in follows from the journal up to there.
void expect_replays(const TestServer& server) {
  for (const auto& [count, text] : server.states) {
    Coordinator again(7, server.parameters, server.names);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(again.replay(server.store.records()[i]), Status::kOk) << "record " << i;
    }
    ASSERT_EQ(again.state_text(), text) << count << " records";
  }
}

TEST(StartFold, FourExchangesThenTheRunTrains) {
  StepFleet fleet(automatic());
  const double begin = fleet.excess();
  const std::vector<Real> first(fleet.coordinator->model().model(), fleet.coordinator->model().model() + kSize);
  for (const gs_Stage stage :
       {gs_Stage_STAGE_START, gs_Stage_STAGE_TRIALS, gs_Stage_STAGE_START, gs_Stage_STAGE_TRIALS}) {
    EXPECT_EQ(fleet.stage(), stage);
    EXPECT_EQ(fleet.excess(), begin) << "no stage moves the model";
    fleet.round();
  }
  EXPECT_EQ(fleet.stage(), gs_Stage_STAGE_TRAIN);
  EXPECT_EQ(fleet.coordinator->durable_version(), 4U);
  // The best movement along a gradient of these losses is between 1/15 and 1; a quarter of it, by K = 3.
  const auto step = static_cast<double>(fleet.task(0)->step_size);
  EXPECT_GT(step, 0.25 / 15 / 2 / 3);
  EXPECT_LT(step, 0.25 / 3);
  fleet.rounds(2);
  EXPECT_TRUE(fleet.has_log("bound=none"));
  fleet.rounds(8);
  EXPECT_TRUE(fleet.has_log(" step="));
  EXPECT_NE(fleet.coordinator->last_round().bound, "none");
  EXPECT_GT(fleet.coordinator->last_round().step, 0);
  fleet.rounds(50);
  EXPECT_LT(fleet.excess(), 1e-5 * begin);
  EXPECT_FALSE(fleet.has_log("step_trials_bad"));
  expect_replays(fleet);
}

TEST(StartFold, EveryRuleThatFoldsTangentsFindsItsStep) {
  for (const SolverId solver : {SolverId::kProjection, SolverId::kTangentMean, SolverId::kSvrg}) {
    RunParameters p = automatic();
    p.local->solver = solver;
    p.local->batch_mode = solver == SolverId::kSvrg ? BatchMode::kAll : BatchMode::kCommon;
    p.local->correction_form = CorrectionForm::kNone;
    StepFleet fleet(p);
    const double begin = fleet.excess();
    fleet.rounds(solver == SolverId::kSvrg ? 84 : 44);  // of two phases
    EXPECT_LT(fleet.excess(), 1e-3 * begin) << static_cast<int>(solver);
    EXPECT_GT(fleet.coordinator->last_round().step, 1e-4) << static_cast<int>(solver);
    expect_replays(fleet);
  }
}

// A device whose owner keeps trial losses is waited for by nobody in these stages, trains, and is asked again in time.
TEST(StartFold, WhoKeepsItsTrialsTrainsAllTheSame) {
  StepFleet fleet(automatic());
  fleet.round();
  ASSERT_EQ(fleet.stage(), gs_Stage_STAGE_TRIALS);
  fleet.pull(3);
  fleet.refuse_floor(3, gs_Floor_FLOOR_TRIAL_STEPS, 31, 32);
  EXPECT_EQ(fleet.wait(3)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
  EXPECT_TRUE(fleet.has_log("task_refused device=d3 task=2 reason=privacy floor=trial_steps value=31 least=32"));
  for (const uint32_t device : {0U, 1U, 2U}) {
    fleet.answer(device);
  }
  EXPECT_EQ(fleet.stage(), gs_Stage_STAGE_START) << "nobody waits for it";
  for (const uint32_t device : {0U, 1U, 2U}) {
    fleet.answer(device);
  }
  EXPECT_EQ(fleet.stage(), gs_Stage_STAGE_TRIALS) << "nor in the next one";
  for (const uint32_t device : {0U, 1U, 2U}) {
    fleet.answer(device);
  }
  EXPECT_EQ(fleet.stage(), gs_Stage_STAGE_TRAIN);
  fleet.round();
  EXPECT_EQ(fleet.ack(3)->verdict, gs_Verdict_VERDICT_FOLDED);
  expect_replays(fleet);
}

TEST(StartFold, WhereAllKeepTheirTrialsTheRunStallsByNameAndAsksAgain) {
  StepFleet fleet(automatic());
  fleet.round();
  for (uint32_t device = 0; device < 4; ++device) {
    fleet.pull(device);
    fleet.refuse_floor(device, gs_Floor_FLOOR_TRIAL_STEPS, 20 + static_cast<float>(device), 32);
  }
  EXPECT_EQ(fleet.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  EXPECT_EQ(fleet.coordinator->stall_cause().cause, "privacy");
  EXPECT_THAT(
      fleet.coordinator->stall_cause().text,
      testing::HasSubstr("4 of 4 devices (d0,d1,d2,d3) refuse trial losses of samples, by the floor trial_steps"));
  EXPECT_THAT(fleet.coordinator->stall_cause().remedy, testing::HasSubstr("a number as step_size in place of auto"));
  fleet.tick_at(fleet.now_ms + 3'600'000);
  fleet.round();
  EXPECT_EQ(fleet.stage(), gs_Stage_STAGE_START) << "their rings have filled";
}

// d goes down beside the model; a stage leaves both as they are.
TEST(StartFold, ARunOfMeansKeepsItsCorrectionThroughTheStages) {
  RunParameters p = automatic();
  p.local->solver = SolverId::kProjection;
  p.local->correction_form = CorrectionForm::kLocal;
  StepFleet fleet(p);
  const double begin = fleet.excess();
  fleet.rounds(44);
  EXPECT_LT(fleet.excess(), 1e-3 * begin);
  expect_replays(fleet);
}

TEST(StartFold, ALiarAmongFiveDoesNotSteer) {
  StepFleet fleet(automatic(5));
  fleet.liar = 3;
  const double begin = fleet.excess();
  fleet.rounds(64);
  EXPECT_LT(fleet.excess(), 1e-3 * begin);
}

TEST(StartFold, ARestartInEachStageGoesOnAndEndsAtTheSameModel) {
  StepFleet straight(automatic());
  straight.rounds(12);
  StepFleet broken(automatic());
  for (int i = 0; i < 12; ++i) {
    for (uint32_t device = 0; device < 4; ++device) {
      broken.answer(device);
      broken.coordinator = std::make_unique<Coordinator>(7, broken.parameters, broken.names);
      for (const JournalRecord& record : broken.store.records()) {
        ASSERT_EQ(broken.coordinator->replay(record), Status::kOk);
      }
      broken.pending.clear();
      broken.begin();
    }
  }
  EXPECT_EQ(broken.coordinator->digest(), straight.coordinator->digest());
  EXPECT_EQ(broken.coordinator->model().version(), straight.coordinator->model().version());
}

TEST(StartFold, WithoutAGoodTrialStepTheLogSaysSoAndTheRunGoesOn) {
  StepFleet fleet(automatic());
  fleet.finds_all_bad = true;
  fleet.rounds(4);
  EXPECT_TRUE(fleet.has_log("step_trials_bad"));
  EXPECT_EQ(fleet.stage(), gs_Stage_STAGE_TRAIN);
  EXPECT_GT(fleet.task(0)->step_size, 0);
  EXPECT_LT(fleet.task(0)->step_size, 1e-6);
}

TEST(StartFold, DevicesWithoutLinesLeaveTheStepAsItIs) {
  StepFleet fleet(automatic());
  fleet.sends_lines = false;
  fleet.rounds(4);
  fleet.pull(0);
  const float step = fleet.task(0)->step_size;
  fleet.rounds(5);
  fleet.pull(0);
  EXPECT_EQ(fleet.task(0)->step_size, step);
  EXPECT_EQ(fleet.coordinator->last_round().bound, "few");
  expect_replays(fleet);
}

TEST(StartFold, ScalarsOfStartAreFoldedWithoutAMove) {
  RunParameters p = scalar_parameters();
  p.steps->step_size = 0;
  p.steps->step_decay = 0;
  TestServer server(p);
  server.start();
  for (uint32_t device = 0; device < 4; ++device) {
    server.hello(device);
    server.pull(device);
    EXPECT_EQ(server.task(device)->stage, gs_Stage_STAGE_START);
    EXPECT_EQ(server.task(device)->step_size, 0);
    EXPECT_EQ(server.task(device)->local_step_count, p.local->local_step_count);
    server.upload(device, server.good_upload(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  const Real* const d = server.coordinator->model().part(ModelPart::kDirection);
  ASSERT_NE(d, nullptr);
  EXPECT_GT(std::inner_product(d, d + p.model->shape.size(), d, Real{0}), 0);
  server.pull(1);
  EXPECT_EQ(server.task(1)->stage, gs_Stage_STAGE_TRIALS);
  double square = 0;
  for (size_t e = 0; e < p.model->shape.size(); ++e) {
    square += static_cast<double>(d[e]) * static_cast<double>(d[e]);
  }
  EXPECT_NEAR(static_cast<double>(server.task(1)->step_size), 2 * std::sqrt(2.0) / std::sqrt(square), 1e-5);
}

// Devices have the line of a record only if they apply it: the model whole would do for everything else.
TEST(StartFold, TheLastRecordIsSentThoughItIsLongerThanTheModel) {
  RunParameters p = scalar_parameters();
  p.steps->step_size = 0;
  p.steps->step_decay = 0;
  p.local->direction_count = 32;  // K m = 96 coefficients of a model of 32 numbers
  TestServer server(p);
  server.start();
  const auto play = [&] {
    for (uint32_t device = 0; device < 4; ++device) {
      server.pull(device);
      TestUpload out = server.good_upload(device);
      if (server.task(device)->stage == gs_Stage_STAGE_TRIALS) {
        out.kind = StreamKind::kTangentBlock;
        out.values.assign(kTrialCount, 1);
        out.values[5] = -1;
        out.loss_before = out.loss_after = 0;
      }
      server.upload(device, out);
    }
  };
  for (uint32_t device = 0; device < 4; ++device) {
    server.hello(device);
  }
  for (int version = 0; version < 4; ++version) {
    play();
  }
  const uint64_t digest = server.coordinator->digest();
  play();
  ASSERT_EQ(server.coordinator->durable_version(), 5U);
  server.sent.clear();
  server.pull(0, true, 4, digest);
  ASSERT_NE(server.last(0, gs_ServerMessage_log_chunk_tag), nullptr);
  EXPECT_EQ(server.last(0, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  server.sent.clear();
  server.pull(1, true, 3, digest);
  EXPECT_NE(server.last(1, gs_ServerMessage_snapshot_chunk_tag), nullptr) << "an older one is forgotten";
}

TEST(StartFold, ATrialAnswerOfAnotherSizeIsRefused) {
  const RunParameters p = automatic();
  const TestReplica server(p);
  StepDecision decision;
  decision.trial_length = 1;
  const std::vector<uint8_t> bytes = encode_decision(decision);
  const auto fold = make_stage_fold(
      {.parameters = &p, .replica = &server.replica, .step = {TaskStage::kTrials, 0}, .decision = bytes});
  std::vector<uint8_t> values(kTrialCount * sizeof(float));
  EXPECT_EQ(fold->check({0, 1, values}).reason, gs_Reason_REASON_NONE);
  values.pop_back();
  EXPECT_EQ(fold->check({0, 1, values}).reason, gs_Reason_REASON_WRONG_SHAPE);
}

}  // namespace
}  // namespace gradstream
