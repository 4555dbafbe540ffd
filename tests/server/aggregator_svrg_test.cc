// The two phases of a variance-reduced round, through the coordinator: what each asks for, carries down and survives.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/rules/aggregator.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr size_t kSize = 8;

RunParameters svrg_parameters() {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {kSize, 1};
  p.local->solver = SolverId::kSvrg;
  p.local->batch_mode = BatchMode::kAll;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.local->barzilai_borwein = BarzilaiBorwein::kFirst;
  p.steps->step_rule = StepRule::kBarzilaiBorwein;
  p.steps->step_decay = 0;
  p.steps->step_size = 0.5F;
  p.steps->step_min = 0.001F;
  p.steps->step_max = 0.75F;
  return p;
}

class Fleet4 : public TestServer {
 public:
  explicit Fleet4(const RunParameters& p) : TestServer(p) { start(); }
  std::vector<double> x() const {
    const Real* model = coordinator->model().model();
    return {model, model + kSize};
  }
  // An upload of the device's last task: its anchor, or the end of its path.
  void answer(uint32_t device, const std::vector<Real>& values) {
    TestUpload upload = good_upload(device);
    upload.steps_done = task(device)->local_step_count;
    upload.values = values;
    TestServer::upload(device, upload);
  }
  // Minus the gradient of 1/2 sum_e h_e (x_e - device)^2.
  std::vector<Real> anchor(uint32_t device) const {
    std::vector<Real> values(kSize);
    for (size_t e = 0; e < kSize; ++e) {
      values[e] = static_cast<Real>(-curvature(e) * (x()[e] - device));
    }
    return values;
  }
  static double curvature(size_t e) { return 1 + 0.25 * static_cast<double>(e); }
  // The parts of the snapshots since `from`, in order of arrival.
  std::vector<gs_ModelPart> parts_since(size_t from) const {
    std::vector<gs_ModelPart> parts;
    for (size_t i = from; i < sent.size(); ++i) {
      if (sent[i].message.which_body == gs_ServerMessage_snapshot_chunk_tag) {
        parts.push_back(sent[i].message.body.snapshot_chunk.part);
      }
    }
    return parts;
  }
  void anchors() {
    for (uint32_t device = 0; device < 4; ++device) {
      pull(device);
      answer(device, anchor(device));
    }
  }
  void steps() {
    for (uint32_t device = 0; device < 4; ++device) {
      pull(device);
      if (task(device)->solver == gs_Solver_SOLVER_SVRG && task(device)->version == coordinator->durable_version()) {
        answer(device, std::vector<Real>(kSize, 0.125F));
      }
    }
  }
  void hello_all() {
    for (uint32_t device = 0; device < 4; ++device) {
      hello(device);
    }
  }
};

// Devices that are asked in the open version.
uint32_t asked_count(const TestServer& server) {
  uint32_t count = 0;
  for (const DeviceStatus& device : server.coordinator->device_statuses()) {
    count += device.is_asked ? 1 : 0;
  }
  return count;
}

TEST(AggregatorSvrg, ARoundAsksForAnchorsAndThenForSteps) {
  Fleet4 server(svrg_parameters());
  server.join(4);
  const gs_Task first = *server.task(0);
  EXPECT_EQ(first.solver, gs_Solver_SOLVER_GRADIENT_STREAM);
  EXPECT_EQ(first.local_step_count, 1U);
  EXPECT_EQ(first.step_size, 1);
  EXPECT_EQ(first.batch_mode, gs_BatchMode_BATCH_MODE_ALL);
  const std::vector<double> start = server.x();
  const uint64_t digest = server.coordinator->model().digest();
  server.anchors();
  ASSERT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.x(), start) << "a phase without a step";
  EXPECT_NE(server.coordinator->model().digest(), digest) << "the version has a mean gradient beside the model";
  const Real* g = server.coordinator->model().part(ModelPart::kMeanGradient);
  ASSERT_NE(g, nullptr);
  for (size_t e = 0; e < kSize; ++e) {
    EXPECT_NEAR(g[e], Fleet4::curvature(e) * (start[e] - 1.5), 1e-5);
  }
  size_t from = server.sent.size();
  server.pull(0, true, 0, digest);  // holds the model: gets the gradient alone
  EXPECT_THAT(server.parts_since(from), testing::ElementsAre(gs_ModelPart_MODEL_PART_MEAN_GRADIENT));
  const gs_Task second = *server.task(0);
  EXPECT_EQ(second.solver, gs_Solver_SOLVER_SVRG);
  EXPECT_EQ(second.local_step_count, 3U);
  EXPECT_EQ(second.digest, server.coordinator->model().digest());
  EXPECT_EQ(second.curvature, 0) << "the first round has no secant";
  EXPECT_FLOAT_EQ(second.step_size, 0.5F / 3);
  from = server.sent.size();
  server.pull(1, false, 0, 0);  // a device that joins between the phases
  EXPECT_THAT(server.parts_since(from),
              testing::ElementsAre(gs_ModelPart_MODEL_PART_MODEL, gs_ModelPart_MODEL_PART_MEAN_GRADIENT));
  server.steps();
  ASSERT_EQ(server.coordinator->durable_version(), 2U);
  EXPECT_EQ(server.coordinator->model().parts(), 0U);
  for (size_t e = 0; e < kSize; ++e) {
    EXPECT_NEAR(server.x()[e], start[e] + 0.125, 1e-6);
  }
}

// s = x_1 - x_0 and y the difference of the mean gradients; b = <s, y> / <s, s> by the first form and <y, y> / <s, y>
// by the second; the step is 1 / b by K.
class AggregatorSvrgForm : public testing::TestWithParam<BarzilaiBorwein> {};

TEST_P(AggregatorSvrgForm, TheSecondRoundHasTheBarzilaiBorweinNumbersOfBothModels) {
  RunParameters p = svrg_parameters();
  p.local->barzilai_borwein = GetParam();
  Fleet4 server(p);
  server.join(4);
  const std::vector<double> before = server.x();
  server.anchors();
  server.steps();
  const std::vector<double> after = server.x();
  server.anchors();
  ASSERT_EQ(server.coordinator->durable_version(), 3U);
  double ss = 0, sy = 0, yy = 0;
  for (size_t e = 0; e < kSize; ++e) {
    const double s = after[e] - before[e];
    const double y = Fleet4::curvature(e) * s;
    ss += s * s;
    sy += s * y;
    yy += y * y;
  }
  const size_t from = server.sent.size();
  server.pull(2, false, 0, 0);
  EXPECT_THAT(server.parts_since(from),
              testing::ElementsAre(gs_ModelPart_MODEL_PART_MODEL, gs_ModelPart_MODEL_PART_MEAN_GRADIENT,
                                   gs_ModelPart_MODEL_PART_PREVIOUS_MODEL));
  const bool is_first = GetParam() == BarzilaiBorwein::kFirst;
  const double b = is_first ? sy / ss : yy / sy;
  EXPECT_GT(yy / sy, sy / ss + 0.1) << "the forms could not be told apart";
  EXPECT_EQ(server.task(2)->curvature_form,
            is_first ? gs_BarzilaiBorwein_BARZILAI_BORWEIN_FIRST : gs_BarzilaiBorwein_BARZILAI_BORWEIN_SECOND);
  EXPECT_NEAR(server.task(2)->curvature, b, 1e-4);
  EXPECT_NEAR(server.task(2)->step_size, 1 / b / 3, 1e-4);
  for (size_t e = 0; e < kSize; ++e) {
    EXPECT_NEAR(server.coordinator->model().part(ModelPart::kPreviousModel)[e], before[e], 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, AggregatorSvrgForm, testing::Values(BarzilaiBorwein::kFirst, BarzilaiBorwein::kSecond),
                         [](const auto& form) { return form.param == BarzilaiBorwein::kFirst ? "First" : "Second"; });

// Minus the gradient of -1/2 |x|^2: <s, y> = -<s, s>. The step is the largest, and no device gets a previous model.
TEST(AggregatorSvrg, WithoutPositiveCurvatureTheStepIsTheLargest) {
  Fleet4 server(svrg_parameters());
  server.join(4);
  for (int round = 0; round < 2; ++round) {
    for (uint32_t device = 0; device < 4; ++device) {
      server.pull(device);
      const std::vector<double> x = server.x();
      server.answer(device, std::vector<Real>(x.begin(), x.end()));
    }
    ASSERT_EQ(server.coordinator->durable_version(), 2U * static_cast<uint32_t>(round) + 1);
    const size_t from = server.sent.size();
    server.pull(2, false, 0, 0);
    EXPECT_THAT(server.parts_since(from),
                testing::ElementsAre(gs_ModelPart_MODEL_PART_MODEL, gs_ModelPart_MODEL_PART_MEAN_GRADIENT));
    EXPECT_EQ(server.task(2)->curvature, 0);
    EXPECT_FLOAT_EQ(server.task(2)->step_size, (round == 0 ? 0.5F : 0.75F) / 3);
    server.steps();
  }
}

// Two models on opposite sides of the sphere have no secant: the inverse retraction of one at the other is undefined.
TEST(AggregatorSvrg, WithoutASecantTheStepIsTheLargest) {
  RunParameters p = svrg_parameters();
  p.model->manifold = ManifoldId::kSphere;
  TestReplica holder(p);
  ModelRing models(2);
  const std::unique_ptr<Aggregator> rule = make_aggregator({&p, &holder.replica, &models, &holder.arena});
  const auto anchor_at = [&](Real x0, uint32_t version) {
    std::vector<Real> x(kSize, 0);
    x[0] = x0;
    std::copy(x.begin(), x.end(), holder.replica.begin_snapshot());
    holder.replica.adopt_snapshot(version);
    std::vector<Real> anchor(kSize, 0);
    anchor[1] = x0 * 0.5F;
    FoldInput input;
    input.base_version = version;
    input.steps_done = 1;
    input.weight = 20;
    input.values = anchor;
    EXPECT_EQ(rule->add(input), Status::kOk);
    VersionRecord record;
    EXPECT_EQ(rule->finish(&record), Status::kOk);
    return record;
  };
  rule->begin();
  VersionRecord record = anchor_at(1, 0);
  EXPECT_FLOAT_EQ(record.local_step, 0.5F / 3);
  ASSERT_EQ(rule->follow(record), Status::kOk);
  ASSERT_EQ(rule->follow(rule->stand_still()), Status::kOk);  // anchors again
  record = anchor_at(-1, 2);
  EXPECT_EQ(record.curvature, 0);
  EXPECT_TRUE(record.previous_model.empty());
  EXPECT_FLOAT_EQ(record.local_step, 0.75F / 3);
}

// The norm of the mean gradient at a model: every device's part of it is h_e (x_e - device).
double gradient_norm_at(const std::vector<double>& x) {
  double square = 0;
  for (size_t e = 0; e < kSize; ++e) {
    square += std::pow(Fleet4::curvature(e) * (x[e] - 1.5), 2);
  }
  return std::sqrt(square);
}

TEST(AggregatorSvrg, ARunStopsAtTheGradientNormThatItsKeyNames) {
  for (const bool is_small : {false, true}) {
    RunParameters p = svrg_parameters();
    Fleet4 look(p);
    look.join(4);
    const double norm = gradient_norm_at(look.x());
    p.trigger.keys().stop_gradient_norm = static_cast<Real>(norm * (is_small ? 1.001 : 0.999));
    Fleet4 server(p);
    server.join(4);
    server.anchors();
    ASSERT_EQ(server.coordinator->durable_version(), 1U);
    EXPECT_EQ(server.x(), look.x()) << "it ends with the model that the gradient is of";
    EXPECT_EQ(server.coordinator->run_state(),
              is_small ? gs_RunState_RUN_STATE_FINISHED : gs_RunState_RUN_STATE_ACTIVE);
    EXPECT_EQ(server.coordinator->end_cause().cause, is_small ? "stop_gradient_norm" : "");
    EXPECT_EQ(
        server.log_count("run_finished version=1 cause=stop_gradient_norm text=\"the mean gradient of round 0 has"),
        is_small ? 1U : 0U);
    EXPECT_TRUE(server.coordinator->stall_cause().empty());
    if (!is_small) {
      continue;
    }
    server.pull(0);
    EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_FINISHED);
    const std::string state = server.coordinator->state_text();
    server.restart();
    EXPECT_EQ(server.coordinator->state_text(), state);
    EXPECT_EQ(server.coordinator->end_cause().cause, "stop_gradient_norm");
  }
}

TEST(AggregatorSvrg, ACrashBetweenAnyTwoRecordsOfThePhasesIsNotSeen) {
  Fleet4 calm(svrg_parameters());
  calm.join(4);
  for (int round = 0; round < 3; ++round) {
    calm.anchors();
    calm.steps();
  }
  Fleet4 server(svrg_parameters());
  server.join(4);
  for (int round = 0; round < 3; ++round) {
    for (const bool is_anchors : {true, false}) {
      for (uint32_t device = 0; device < 4; ++device) {
        server.pull(device);
        server.answer(device, is_anchors ? server.anchor(device) : std::vector<Real>(kSize, 0.125F));
        const std::string state = server.coordinator->state_text();
        server.restart();
        ASSERT_EQ(server.coordinator->state_text(), state);
        server.hello_all();
      }
    }
  }
  EXPECT_EQ(server.coordinator->durable_version(), 6U);
  EXPECT_EQ(server.coordinator->model().digest(), calm.coordinator->model().digest());
}

TEST(AggregatorSvrg, TheTriggerAppliesToEachPhaseAndTheCohortToTheStepsAlone) {
  RunParameters p = svrg_parameters();
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = 2;
  p.trigger->update_min = 1;
  Fleet4 server(p);
  server.join(4);
  EXPECT_EQ(asked_count(server), 4U) << "everyone is asked for an anchor";
  server.answer(3, server.anchor(3));
  server.tick_at(server.now_ms + p.trigger->report_deadline_ms);
  ASSERT_EQ(server.coordinator->durable_version(), 1U) << "closed by its deadline with the one that is there";
  EXPECT_EQ(asked_count(server), 2U);
  server.answer(2, std::vector<Real>(kSize, 0));  // its anchor, too late
  EXPECT_EQ(server.ack(2)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(2)->reason, gs_Reason_REASON_TOO_STALE);
  uint32_t tasks = 0;
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device);
    tasks += server.task(device)->version == 1 ? 1 : 0;
  }
  EXPECT_EQ(tasks, 2U);
}

// Values beyond the fold are refused one by one; a phase whose step fails leaves no anchor, and the next asks anew.
TEST(AggregatorSvrg, AnchorsThatMakeNoMeanAreAskedForAnew) {
  RunParameters p = svrg_parameters();
  TestReplica holder(p);
  ModelRing models(2);
  const std::unique_ptr<Aggregator> rule = make_aggregator({&p, &holder.replica, &models, &holder.arena});
  std::fill_n(holder.replica.begin_snapshot(), kSize, Real{1});
  holder.replica.adopt_snapshot(0);
  rule->begin();
  const VersionRecord still = rule->stand_still();
  EXPECT_EQ(still.version, 1U);
  EXPECT_FALSE(still.has_anchor());
  ASSERT_EQ(rule->follow(still), Status::kOk);
  const std::vector<Real> anchor(kSize, 0.5F);
  FoldInput input;
  input.steps_done = 1;
  input.weight = 20;
  input.values = anchor;
  ASSERT_EQ(rule->add(input), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(rule->finish(&record), Status::kOk);
  EXPECT_TRUE(record.has_anchor());
  EXPECT_EQ(record.step_scale, 0);
  EXPECT_EQ(record.model, still.model);
}

}  // namespace
}  // namespace gradstream
