// The stages before training: from version 0 to the first round, with everything that can come between.
#include <gtest/gtest.h>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_state.h"
#include "server/run/participation_keys.h"
#include "tests/support/units_server.h"

namespace gradstream {
namespace {

constexpr uint32_t kUnitsPart = part_bit(ModelPart::kUnits);
constexpr uint32_t kModelAndUnits = kUnitsPart | part_bit(ModelPart::kModel);

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

TEST(CoordinatorStages, TheStagesComeBeforeTheFirstRound) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  const gs_Task* task = server.task(2);
  ASSERT_NE(task, nullptr);
  EXPECT_EQ(task->stage, gs_Stage_STAGE_EXPONENTS);
  EXPECT_EQ(task->encoding, gs_Encoding_ENCODING_WORDS);
  EXPECT_EQ(task->local_step_count, 1U);
  EXPECT_EQ(server.last_parts(2), 0U) << "version 0 has no table";
  const uint64_t model_digest = server.coordinator->model().digest();
  for (uint32_t device = 0; device < 4; ++device) {
    server.answer(device);
    EXPECT_EQ(server.ack(device)->verdict, gs_Verdict_VERDICT_FOLDED);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  server.pull(1, true, 0, model_digest);
  EXPECT_EQ(server.last_parts(1), kUnitsPart) << "who holds the version before gets the table alone";
  server.stage_round(4);
  EXPECT_EQ(server.stage(), TaskStage::kSquares);
  server.stage_round(4);
  EXPECT_EQ(server.stage(), TaskStage::kTrain);
  EXPECT_EQ(server.coordinator->durable_version(), 3U);
  EXPECT_EQ(server.coordinator->model().digest(), model_digest) << "no stage moves the model";
  EXPECT_EQ(server.coordinator->digest(), digest_with_units(model_digest, server.coordinator->units()));
  EXPECT_EQ(server.log_count("stage_closed"), 3U);
  std::vector<UnitsColumn> units;
  ASSERT_EQ(decode_units(server.coordinator->units(), &units), Status::kOk);
  ASSERT_EQ(units.size(), 16U);
  for (const UnitsColumn& column : units) {
    EXPECT_GT(column.factor, 0);
  }
  server.round(4);
  EXPECT_EQ(server.task(0)->stage, gs_Stage_STAGE_TRAIN);
  EXPECT_EQ(server.task(0)->digest, digest_with_units(model_digest, server.coordinator->units()));
  EXPECT_EQ(server.task(0)->step_size, server.parameters.step_size_at(0)) << "the first round is round 0";
  EXPECT_EQ(server.coordinator->durable_version(), 4U);
  server.round(4);
  EXPECT_EQ(server.task(0)->step_size, server.parameters.step_size_at(1));
  EXPECT_EQ(server.store.records().back().step_scale(), 3 * server.parameters.step_size_at(1));
  expect_replays(server);
}

// One that lacks what the run needs gets no task, and no stage waits for it.
TEST(CoordinatorStages, NobodyWaitsForADeviceThatLacksAFeature) {
  UnitsServer server(units_run());
  server.start();
  server.join(3);
  gs_Hello hello = good_hello(50);
  hello.capabilities.features = 0;
  server.hello(3, hello);
  server.pull(3, false, 0, 0);
  for (uint32_t device = 0; device < 3; ++device) {
    server.answer(device);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  // With another image it is asked like the others.
  server.hello(3);
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  server.stage_round(4);
  EXPECT_EQ(server.stage(), TaskStage::kSquares);
  expect_replays(server);
}

// The parts that an older image does not know are not said to it: it would take the Welcome for malformed.
TEST(CoordinatorStages, AnOlderImageHearsOfNoPartsThatItDoesNotKnow) {
  UnitsServer server(units_run());
  server.start();
  server.join(3);
  gs_Hello hello = good_hello(50);
  hello.capabilities.features = 0;
  server.hello(3, hello);
  EXPECT_EQ(server.last(3, gs_ServerMessage_welcome_tag)->body.welcome.model_parts & kUnitsPart, 0U);
  EXPECT_EQ(server.last(2, gs_ServerMessage_welcome_tag)->body.welcome.model_parts & kUnitsPart, kUnitsPart);
}

// Every restart goes on where the journal is: in each stage, with each answer.
TEST(CoordinatorStages, ARestartInEachStageGoesOn) {
  UnitsServer straight(units_run(Centre::kFederated, UnitScale::kRange));
  straight.start();
  straight.join(4);
  UnitsServer broken(straight.parameters);
  broken.start();
  broken.join(4);
  for (const uint32_t count : {4U, 4U}) {
    straight.stage_round(count);
    for (uint32_t device = 0; device < count; ++device) {
      broken.restart();
      broken.join(4);
      broken.answer(device);
    }
  }
  EXPECT_EQ(broken.stage(), TaskStage::kTrain);
  EXPECT_EQ(broken.coordinator->digest(), straight.coordinator->digest());
  EXPECT_EQ(broken.coordinator->units().size(), 16 * kUnitsColumnSize);
  expect_replays(broken);
}

TEST(CoordinatorStages, ALateDeviceCountsInTheStagesThatAreOpen) {
  RunParameters p = units_run();
  p.trigger->device_count = 3;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->update_goal = 3;
  p.trigger->staleness_max = 4;
  UnitsServer server(p, 4);
  server.start();
  server.join(3);
  server.hello(3);
  server.pull(3, false, 0, 0);
  const gs_Task old_task = *server.task(3);
  const Words old_answer = server.honest(3);
  server.stage_round(3);
  EXPECT_EQ(server.stage(), TaskStage::kExponents) << "a stage waits for all who are asked";
  server.tick_at(5000);
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  server.answer(3, old_task, old_answer);
  EXPECT_EQ(server.ack(3)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(3)->reason, gs_Reason_REASON_TOO_STALE) << "also where late updates count";
  server.hello(3);
  server.pull(3, false, 0, 0);
  EXPECT_EQ(server.last_parts(3), kModelAndUnits);
  EXPECT_EQ(server.task(3)->stage, gs_Stage_STAGE_SUMS);
  server.stage_round(4);
  EXPECT_EQ(server.stage(), TaskStage::kSquares);
  server.stage_round(4);
  EXPECT_EQ(server.stage(), TaskStage::kTrain);
  expect_replays(server);
}

// The first training version's update comes late: it is of a version that trains, and counts.
TEST(CoordinatorStages, LateUpdatesCountFromTheFirstVersionThatTrains) {
  RunParameters p = units_run();
  p.trigger->update_goal = 3;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 4;
  UnitsServer server(p);
  server.start();
  server.join(4);
  for (int i = 0; i < 3; ++i) {
    server.stage_round(4);
  }
  server.pull(3);
  const TestUpload late = server.good_upload(3);
  server.round(3);
  ASSERT_EQ(server.coordinator->durable_version(), 4U);
  server.upload(3, late);
  EXPECT_EQ(server.ack(3)->verdict, gs_Verdict_VERDICT_LATE);
}

TEST(CoordinatorStages, HalfOfTheFleetMayLeaveBetweenStages) {
  RunParameters p = units_run();
  p.trigger->update_min = 2;
  UnitsServer server(p);
  server.start();
  server.join(4);
  server.stage_round(4);
  server.stage_round(2);
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  server.tick_at(5000);
  EXPECT_EQ(server.stage(), TaskStage::kSquares) << "two are enough at the deadline";
  server.stage_round(1);
  for (const uint64_t at_ms : {7000, 9000, 11000}) {
    server.tick_at(at_ms);
  }
  EXPECT_TRUE(server.has_log("run_stalled version=2 answers=1 wanted=2 missing=d1,d2,d3"));
  server.pull(3);
  server.answer(3);
  EXPECT_EQ(server.stage(), TaskStage::kTrain) << "it goes on as soon as enough have answered";
  expect_replays(server);
}

TEST(CoordinatorStages, WhoRefusesSumsTrainsAllTheSame) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  server.refuse_units(2);
  EXPECT_EQ(server.wait(2)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
  EXPECT_TRUE(server.has_log("task_refused device=d2 task=1 reason=units_refused"));
  for (const uint32_t device : {0U, 1U, 3U}) {
    server.answer(device);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSums) << "nobody waits for it";
  server.restart();
  server.join(4);
  EXPECT_NE(server.wait(2), nullptr) << "nor does a server that was restarted";
  for (int i = 0; i < 2; ++i) {
    for (const uint32_t device : {0U, 1U, 3U}) {
      server.pull(device);
      server.answer(device);
    }
  }
  EXPECT_EQ(server.stage(), TaskStage::kTrain);
  server.round(4);
  EXPECT_EQ(server.coordinator->durable_version(), 4U);
  EXPECT_EQ(server.ack(2)->verdict, gs_Verdict_VERDICT_FOLDED);
  expect_replays(server);
}

TEST(CoordinatorStages, WhereNobodyLetsSumsOutTheRunStallsByName) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  for (uint32_t device = 0; device < 4; ++device) {
    server.refuse_units(device);
  }
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  EXPECT_EQ(server.coordinator->stall_cause().cause, "units_refused");
  EXPECT_NE(server.coordinator->stall_cause().text.find("4 of 4 devices (d0,d1,d2,d3)"), std::string::npos);
  EXPECT_NE(server.coordinator->stall_cause().remedy.find("--no-sums"), std::string::npos);
  // Its owner thinks again, and starts it anew.
  server.hello(1);
  DeviceMessage report = {};
  report.which_body = gs_DeviceMessage_status_report_tag;
  report.body.status_report.sessions = 1;
  server.send(1, report);
  server.pull(1, false, 0, 0);
  server.answer(1);
  EXPECT_EQ(server.stage(), TaskStage::kSums) << "one is all that may answer";
  expect_replays(server);
}

// An owner who has thought again is asked in all further stages, also by a server that was restarted.
TEST(CoordinatorStages, WhoLetsSumsOutAfterAllIsAskedAfterARestartToo) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  server.refuse_units(2);
  server.hello(2);
  DeviceMessage report = {};
  report.which_body = gs_DeviceMessage_status_report_tag;
  report.body.status_report.sessions = 1;
  server.send(2, report);
  server.pull(2, false, 0, 0);
  for (uint32_t device = 0; device < 4; ++device) {
    server.answer(device);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  server.restart();
  server.join(4);
  ASSERT_NE(server.task(2), nullptr);
  EXPECT_EQ(server.task(2)->stage, gs_Stage_STAGE_SUMS);
  expect_replays(server);
}

// Rings that are still empty: devices refuse, the run stalls by name, and goes on by itself once they have samples.
TEST(CoordinatorStages, RingsThatFillAreAskedAgain) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  for (uint32_t device = 0; device < 4; ++device) {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_task_refused_tag;
    message.body.task_refused = {
        server.task(device)->task_sequence, gs_Reason_REASON_OUT_OF_RANGE, 0, 0, 1, 65535, gs_Floor_FLOOR_NONE};
    server.send(device, message);
  }
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  EXPECT_EQ(server.coordinator->stall_cause().cause, "no_samples");
  server.tick_at(server.now_ms + 3'600'000);
  for (uint32_t device = 0; device < 4; ++device) {
    const uint32_t before = server.task(device)->task_sequence;
    server.pull(device, false, 0, 0);
    EXPECT_EQ(server.task(device)->task_sequence, before + 1) << device;
    server.answer(device);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  expect_replays(server);
}

// Too few samples for the floor of an owner: nobody waits, also after a restart, and it is asked again once more time
// has passed.
TEST(CoordinatorStages, WhoHasTooFewSamplesForAFloorIsAskedAgain) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  server.refuse_floor(2, gs_Floor_FLOOR_UNIT_SUMS, 31, 32);
  EXPECT_EQ(server.wait(2)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
  EXPECT_TRUE(server.has_log("task_refused device=d2 task=1 reason=privacy floor=unit_sums value=31 least=32"));
  for (const uint32_t device : {0U, 1U, 3U}) {
    server.answer(device);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSums) << "nobody waits for it";
  const uint32_t refused = server.task(2)->task_sequence;
  server.pull(2);
  EXPECT_EQ(server.task(2)->task_sequence, refused) << "nor is it asked";
  server.tick_at(server.now_ms + 3'600'000);
  server.pull(2, false, 0, 0);
  EXPECT_EQ(server.task(2)->task_sequence, refused + 1);
  server.answer(2);
  for (const uint32_t device : {0U, 1U, 3U}) {
    server.pull(device);
    server.answer(device);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSquares);
  server.stage_round(4);
  server.round(4);
  EXPECT_EQ(server.coordinator->durable_version(), 4U);
  expect_replays(server);
}

TEST(CoordinatorStages, WhereNobodyHasEnoughSamplesForItsFloorTheRunStallsByName) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  for (uint32_t device = 0; device < 4; ++device) {
    server.refuse_floor(device, gs_Floor_FLOOR_UNIT_SUMS, 5 + static_cast<float>(device), 32);
  }
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  const StallCause& cause = server.coordinator->stall_cause();
  EXPECT_EQ(cause.cause, "privacy");
  EXPECT_NE(cause.text.find("4 of 4 devices (d0,d1,d2,d3) refuse sums over the columns of samples, by the floor "
                            "unit_sums of their owners: d3 has 8 samples and the least is 32"),
            std::string::npos)
      << cause.text;
  EXPECT_NE(cause.remedy.find("centre = \"none\" and scale = \"none\""), std::string::npos) << cause.remedy;
  EXPECT_NE(cause.remedy.find("--sums-samples-min"), std::string::npos);
}

// What was summed for another run, or tried from a damaged model, says so by its digest, as updates do.
TEST(CoordinatorStages, AnAnswerFromAnotherModelIsRefused) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  server.stage_round(4);
  for (uint32_t device = 0; device < 2; ++device) {
    server.pull(device);
    server.base_digest = server.coordinator->digest() ^ device;
    server.answer(device);
  }
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_WRONG_VERSION);
}

// Sums of a liar are refused by device, column, value and limit, and the fleet goes on without it.
TEST(CoordinatorStages, ALiarIsRefusedByNameAndHoldsNobodyUp) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  server.stage_round(4);
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device);
  }
  Words lie = server.honest(1);
  lie[3] = 1'000'000'000'000'000'000;
  server.answer(1, lie);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_OUT_OF_RANGE);
  EXPECT_TRUE(server.has_log("update_refused device=d1 task=2 reason=out_of_range column=3 value=1e+18"));
  server.pull(1);
  EXPECT_NE(server.wait(1), nullptr);
  for (const uint32_t device : {0U, 2U, 3U}) {
    server.answer(device);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSquares);
  server.stage_round(4);
  server.round(4);
  EXPECT_EQ(server.coordinator->durable_version(), 4U);
  expect_replays(server);
}

// A device that comes late, with values beyond the exponents that the others have found.
TEST(CoordinatorStages, ValuesBeyondTheExponentsHoldNobodyUp) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  server.stage_round(4);
  server.pull(3);
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_task_refused_tag;
  message.body.task_refused = {
      server.task(3)->task_sequence, gs_Reason_REASON_OUT_OF_RANGE, 1, 1e9F, -32, 32, gs_Floor_FLOOR_NONE};
  server.send(3, message);
  EXPECT_TRUE(server.has_log("task_refused device=d3 task=2 reason=out_of_range sample=1 value=1e+09"));
  server.stage_round(3);
  EXPECT_EQ(server.stage(), TaskStage::kSquares);
  server.stage_round(4);
  server.round(4);
  EXPECT_EQ(server.coordinator->durable_version(), 4U);
  expect_replays(server);
}

TEST(CoordinatorStages, AnOutlierIsNamedAndLeftOutFromThenOn) {
  RunParameters p = units_run();
  p.trigger->device_count = 5;
  UnitsServer server(p);
  for (auto& row : server.tables[4]) {
    row[6] = 1e30F;
  }
  server.start();
  server.join(5);
  server.stage_round(5);
  EXPECT_TRUE(server.has_log("units_outlier device=d4 stage=exponents column=7 value=100 limit="));
  EXPECT_EQ(server.stage(), TaskStage::kSums);
  server.restart();
  server.join(5);
  EXPECT_EQ(server.wait(4)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
  for (int i = 0; i < 2; ++i) {
    server.stage_round(4);
  }
  EXPECT_EQ(server.stage(), TaskStage::kTrain);
  server.round(5);
  EXPECT_EQ(server.ack(4)->verdict, gs_Verdict_VERDICT_FOLDED);
  expect_replays(server);
}

TEST(CoordinatorStages, ADeviceWithTooFewSamplesWaitsUntilItHasMore) {
  RunParameters p = units_run();
  p.units.keys().samples_min = 30;
  UnitsServer server(p);
  server.start();
  for (uint32_t device = 0; device < 4; ++device) {
    server.hello(device, good_hello(29));
    server.pull(device, false, 0, 0);
    EXPECT_EQ(server.wait(device)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  }
  EXPECT_TRUE(server.has_log("device_not_capable device=d0 lacks=samples:30 has=samples:29"));
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  EXPECT_NE(server.coordinator->stall_cause().text.find("samples:30"), std::string::npos);
  EXPECT_NE(server.coordinator->stall_cause().remedy.find("samples_min"), std::string::npos);
  for (uint32_t device = 0; device < 4; ++device) {
    server.hello(device, good_hello(30));
    server.pull(device, false, 0, 0);
    ASSERT_NE(server.task(device), nullptr);
    Words words = server.honest(device);
    words[0] = 30;
    server.answer(device, words);
  }
  EXPECT_EQ(server.stage(), TaskStage::kSums);
}

TEST(CoordinatorStages, AnswersOfAnotherFormAreRefused) {
  UnitsServer server(units_run());
  server.start();
  server.join(4);
  Words words = server.honest(0);
  words.push_back(1);
  server.answer(0, words);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_WRONG_SHAPE) << "another number of columns";
  TestUpload upload;  // of a device that trains in place of answering
  upload.task_sequence = server.task(1)->task_sequence;
  upload.values = draw_values(12, 1, 1);
  server.upload(1, upload);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_WRONG_ENCODING);
  gs_Hello old = good_hello(20);
  old.capabilities.features = 0;
  server.hello(2, old);
  EXPECT_TRUE(server.has_log("device_not_capable device=d2 lacks=feature:units"));
  server.pull(2, false, 0, 0);
  EXPECT_EQ(server.wait(2)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
}

// Rounds by cohorts, tangents, a memory and no rounds at all: the stages ask everybody, then the run goes on as it
// does.
TEST(CoordinatorStages, AnyKindOfRunMayHaveThem) {
  RunParameters cohorts = units_run();
  cohorts.local->correction_form = CorrectionForm::kNone;
  cohorts.cohort->participation = Participation::kSchemeOne;
  cohorts.cohort->cohort_size = 2;
  RunParameters memory = units_run();
  memory.local->correction_form = CorrectionForm::kMemory;
  RunParameters svrg = tangent_parameters();
  svrg.local->solver = SolverId::kSvrg;
  svrg.local->batch_mode = BatchMode::kAll;
  RunParameters tangents = tangent_parameters();
  RunParameters buffer = asynchronous_parameters();
  for (RunParameters* p : {&cohorts, &memory, &svrg, &tangents, &buffer}) {
    p->units.keys().scale = UnitScale::kCommon;
    UnitsServer server(*p);
    server.start();
    server.join(4);
    for (int i = 0; i < 3; ++i) {
      ASSERT_NE(server.stage(), TaskStage::kTrain);
      server.stage_round(4);
    }
    ASSERT_EQ(server.stage(), TaskStage::kTrain);
    for (int i = 0; i < 2; ++i) {
      for (uint32_t device = 0; device < 4; ++device) {
        server.pull(device);
        const gs_Task* task = server.task(device);
        if (task->stage == gs_Stage_STAGE_TRAIN && task->version == server.coordinator->durable_version()) {
          server.upload(device, server.good_upload(device));
        }
      }
    }
    EXPECT_GE(server.coordinator->durable_version(), 5U);
    expect_replays(server);
  }
}

}  // namespace
}  // namespace gradstream
