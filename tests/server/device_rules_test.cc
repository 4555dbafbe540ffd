#include "server/coordinator/device_rules.h"

#include <gtest/gtest.h>

#include "server/run/pace.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint64_t kNow = 10'000'000;
constexpr uint64_t kTenMinutes = 600'000;

// A run at version 5, which trains, and a device that answered version 4 and has no task.
struct Scene {
  explicit Scene(const RunParameters& p = scalar_parameters()) : parameters(p) {
    run.has_version = true;
    run.version = 5;
    run.version_sequence = 40;
    run.durable_sequence = 50;
    run.run_state_sequence = 3;
    row.task = {.sequence = 7, .version = 4, .record_sequence = 30, .issued_ms = kNow - 60'000, .steps = 3};
    row.judged = {7, gs_Verdict_VERDICT_FOLDED, gs_Reason_REASON_NONE, 5, 1, 45};
    row.accepted = row.judged;
    row.answered_version = 4;
    session.is_heard = true;
    session.image.features = good_hello(1).capabilities.features;
  }
  WorkDecision decide(bool has_model = true) { return decide_work(run, standing, row, has_model, kNow, &session); }
  // The device's open task is one of the open version.
  void open_task() { row.task = {.sequence = 8, .version = 5, .record_sequence = 48, .steps = 3, .is_open = true}; }

  RunParameters parameters;
  RunIdentity identity = {7, 0xabc, 0xdef};
  RunView run = {parameters, identity};
  FleetStanding standing;
  DeviceRow row;
  DeviceSession session;
};

void expect_wait(const WorkDecision& decision, gs_WaitCause cause, WindowKind window, uint64_t required) {
  EXPECT_EQ(decision.kind, WorkKind::kWait);
  EXPECT_EQ(decision.cause, cause);
  EXPECT_EQ(decision.window, window);
  EXPECT_EQ(decision.required, required);
}

TEST(DeviceRules, AHelloIsJudgedByItsFirstFault) {
  Scene scene;
  scene.open_task();
  const auto judge = [&](const gs_Hello& hello, bool has_hello = false) {
    return judge_hello(scene.run, scene.row, hello, has_hello);
  };
  gs_Hello hello = good_hello(1);
  EXPECT_EQ(judge(hello).refusal, gs_Reason_REASON_NONE);
  EXPECT_EQ(judge(hello, true).refusal, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  hello.run = 7;
  EXPECT_EQ(judge(hello).refusal, gs_Reason_REASON_NONE);
  hello.run = 8;
  EXPECT_EQ(judge(hello).refusal, gs_Reason_REASON_UNKNOWN_RUN);
  hello.protocol_version = 2;
  EXPECT_EQ(judge(hello).refusal, gs_Reason_REASON_PROTOCOL_VERSION);
}

TEST(DeviceRules, ALostTaskIsTheOpenOneAndNeedsTheDisk) {
  Scene scene;
  scene.open_task();
  gs_Hello hello = good_hello(1);
  const struct {
    uint32_t lost;
    bool is_storage_failed;
    bool is_lost;
    gs_Reason refusal;
  } kCases[] = {{0, false, false, gs_Reason_REASON_NONE},  {8, false, true, gs_Reason_REASON_NONE},
                {7, false, false, gs_Reason_REASON_NONE},  {9, false, false, gs_Reason_REASON_NONE},
                {8, true, true, gs_Reason_REASON_STORAGE}, {7, true, false, gs_Reason_REASON_NONE}};
  for (const auto& one : kCases) {
    hello.lost_task_sequence = one.lost;
    scene.run.is_storage_failed = one.is_storage_failed;
    const HelloDecision decision = judge_hello(scene.run, scene.row, hello, false);
    EXPECT_EQ(decision.is_lost, one.is_lost) << one.lost;
    EXPECT_EQ(decision.refusal, one.refusal) << one.lost;
  }
}

TEST(DeviceRules, AWelcomeTellsTheRunAndWhatIsDurable) {
  Scene scene;
  scene.run.durable_version = 4;
  const gs_Welcome welcome = make_welcome(scene.run, 2, scene.session.image, true, kNow);
  EXPECT_EQ(welcome.server_time_ms, kNow);
  EXPECT_EQ(welcome.run, 7U);
  EXPECT_EQ(welcome.run_nonce, 0xabcU);
  EXPECT_EQ(welcome.parameters_digest, 0xdefU);
  EXPECT_EQ(welcome.version, 4U) << "the open version may be lost yet";
  EXPECT_EQ(welcome.rows, 16U);
  EXPECT_TRUE(welcome.abandoned);
}

// What an image does not know it takes for malformed.
TEST(DeviceRules, AWelcomeNamesNoPartThatTheImageDoesNotKnow) {
  RunParameters p = scalar_parameters();
  p.steps->step_size = 0;  // "auto"
  Scene scene(p);
  const uint32_t direction = part_bit(ModelPart::kDirection);
  const uint32_t known = make_welcome(scene.run, 0, scene.session.image, false, kNow).model_parts;
  scene.session.image.features &= ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_LINES));
  const uint32_t told = make_welcome(scene.run, 0, scene.session.image, false, kNow).model_parts;
  EXPECT_NE(known & direction, 0U);
  EXPECT_EQ(told, known & ~direction);
}

TEST(DeviceRules, ADeviceWithNothingInItsWayGetsATask) {
  Scene scene;
  EXPECT_EQ(scene.decide().kind, WorkKind::kNew);
  EXPECT_EQ(scene.decide(false).kind, WorkKind::kNew);
  scene.open_task();
  EXPECT_EQ(scene.decide().kind, WorkKind::kSame);
  EXPECT_EQ(scene.decide(false).kind, WorkKind::kInstead) << "it began without a model: the task's work is lost";
  scene.row.task.version = 4;
  EXPECT_EQ(scene.decide().kind, WorkKind::kNew) << "an open task of an older version stays its own";
}

TEST(DeviceRules, AWaitNamesItsCauseItsWindowAndWhatItDependsOn) {
  const struct {
    gs_WaitCause cause;
    WindowKind window;
    uint64_t required;
    void (*set)(Scene*);
  } kCases[] = {
      {gs_WaitCause_WAIT_CAUSE_FINISHED, WindowKind::kIdle, 3,
       [](Scene* s) { s->run.state = gs_RunState_RUN_STATE_FINISHED; }},
      {gs_WaitCause_WAIT_CAUSE_STOPPED, WindowKind::kIdle, 3,
       [](Scene* s) { s->run.state = gs_RunState_RUN_STATE_STOPPED; }},
      {gs_WaitCause_WAIT_CAUSE_PAUSED, WindowKind::kIdle, 3,
       [](Scene* s) { s->run.state = gs_RunState_RUN_STATE_PAUSED; }},
      {gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE, WindowKind::kRefused, 40,
       [](Scene* s) {
         s->session.is_capable = false;
         s->session.refusals.last_ms = kNow - kTenMinutes + 1;
       }},
      {gs_WaitCause_WAIT_CAUSE_ANSWERED, WindowKind::kPaced, 45, [](Scene* s) { s->row.answered_version = 5; }},
      {gs_WaitCause_WAIT_CAUSE_STALLED, WindowKind::kLong, 45,
       [](Scene* s) {
         s->row.answered_version = 5;
         s->run.state = gs_RunState_RUN_STATE_STALLED;
       }},
      {gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kPaced, 40, [](Scene* s) { s->standing.is_asked = false; }},
      {gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kLong, 40,
       [](Scene* s) {
         s->standing.is_asked = false;
         s->run.state = gs_RunState_RUN_STATE_STALLED;
       }},
      {gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kPaced, 45, [](Scene* s) { s->session.is_barred = true; }},
      {gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kRefused, 45,
       [](Scene* s) {
         s->row.refusals = {5, kRefusedTasksMax};
         s->session.refusals.last_ms = kNow - 1;
       }},
  };
  int number = 0;
  for (const auto& one : kCases) {
    SCOPED_TRACE(number++);
    Scene scene;
    one.set(&scene);
    expect_wait(scene.decide(), one.cause, one.window, one.required);
  }
}

// The first cause counts: a run that is over asks nobody whether it can do the run.
TEST(DeviceRules, TheRunComesBeforeTheDevice) {
  Scene scene;
  scene.session.is_capable = false;
  scene.session.refusals.last_ms = kNow;
  scene.row.answered_version = 5;
  scene.run.state = gs_RunState_RUN_STATE_PAUSED;
  EXPECT_EQ(scene.decide().cause, gs_WaitCause_WAIT_CAUSE_PAUSED);
  scene.run.state = gs_RunState_RUN_STATE_ACTIVE;
  EXPECT_EQ(scene.decide().cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
}

TEST(DeviceRules, WithoutADiskOnlyADurableTaskIsSentAgain) {
  Scene scene;
  scene.run.is_storage_failed = true;
  EXPECT_EQ(scene.decide().kind, WorkKind::kRefuse);
  scene.open_task();
  EXPECT_EQ(scene.decide().kind, WorkKind::kSame);
  EXPECT_EQ(scene.decide(false).kind, WorkKind::kRefuse);
  scene.run.durable_sequence = 47;
  EXPECT_EQ(scene.decide().kind, WorkKind::kRefuse);
}

TEST(DeviceRules, TasksInPlaceOfOneAreFew) {
  Scene scene;
  scene.open_task();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(scene.decide(false).kind, WorkKind::kInstead);
  }
  expect_wait(scene.decide(false), gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, WindowKind::kRefused, 45);
  EXPECT_EQ(decide_work(scene.run, scene.standing, scene.row, false, kNow + 60'000, &scene.session).kind,
            WorkKind::kInstead)
      << "one more a minute";
}

TEST(DeviceRules, WhoeverRefusedIsAskedAgainAfterTenMinutes) {
  Scene scene;
  scene.row.refusals = {5, kRefusedTasksMax};
  scene.session.refusals.last_ms = kNow;
  EXPECT_TRUE(is_task_barred(scene.run, scene.row, scene.session, kNow + kTenMinutes - 1));
  EXPECT_FALSE(is_task_barred(scene.run, scene.row, scene.session, kNow + kTenMinutes));
  EXPECT_FALSE(may_try_again(scene.session, kNow + kTenMinutes - 1));
  EXPECT_TRUE(may_try_again(scene.session, kNow + kTenMinutes));
  scene.session.image.lacks = "problem:kpca";
  EXPECT_FALSE(may_try_again(scene.session, kNow + kTenMinutes));
  EXPECT_FALSE(is_refused(scene.row, scene.session, 5)) << "its last verdict was none";
  scene.row.judged.verdict = gs_Verdict_VERDICT_REFUSED;
  EXPECT_TRUE(is_refused(scene.row, scene.session, 5));
  EXPECT_FALSE(is_refused(scene.row, scene.session, 6));
  scene.row.refusals.count = 1;
  EXPECT_FALSE(is_refused(scene.row, scene.session, 5));
  scene.row.judged.reason = gs_Reason_REASON_OUT_OF_MEMORY;
  EXPECT_TRUE(is_refused(scene.row, scene.session, 5)) << "for good";
  scene.session.refusals.is_forgiven = true;
  EXPECT_FALSE(is_refused(scene.row, scene.session, 5) || is_task_barred(scene.run, scene.row, scene.session, kNow));
}

TEST(DeviceRules, AStageOfUnitsIsWithoutThoseThatKeepTheirSums) {
  Scene scene;
  scene.run.stage = TaskStage::kSums;
  const auto is_out = [&scene](uint64_t now_ms = kNow) {
    return is_out_of_stage(scene.run, scene.row, scene.session, now_ms);
  };
  EXPECT_FALSE(is_out());
  scene.row.refuses_units = true;
  EXPECT_TRUE(is_out());
  scene.session.refusals.is_forgiven = true;
  EXPECT_FALSE(is_out());
  scene.row.is_left_out = true;
  EXPECT_TRUE(is_out()) << "nobody forgives what its numbers were";
  scene.row.answered_version = 5;
  EXPECT_FALSE(is_out());
  scene.row = DeviceRow();
  scene.session.refusals.keeps_sums = true;
  scene.session.refusals.last_ms = kNow;
  EXPECT_TRUE(is_out());
  EXPECT_FALSE(is_out(kNow + kTenMinutes));
  scene.session.image.lacks = "problem:kpca";
  EXPECT_TRUE(is_out(kNow + kTenMinutes));
  scene.run.stage = TaskStage::kTrain;
  EXPECT_FALSE(is_out());
}

TEST(DeviceRules, AShareThatIsUsedWaitsForOthers) {
  RunParameters p = tangent_parameters();
  p.trigger->buffer_size = 2;
  p.trigger.keys().device_share_max = 0.5;
  p.trigger.keys().device_share_window = 4;
  Scene scene(p);
  scene.standing.share_count = share_limit(p);
  scene.standing.sharing_count = 10;
  EXPECT_EQ(scene.decide().kind, WorkKind::kWaitShared);
  scene.standing.share_count -= 1;
  EXPECT_EQ(scene.decide().kind, WorkKind::kNew);
  scene.standing.share_count += 1;
  scene.standing.sharing_count = 1;
  EXPECT_EQ(scene.decide().kind, WorkKind::kNew) << "it is alone";
  scene.standing.sharing_count = 10;
  scene.run.extension_count = 1;
  EXPECT_EQ(scene.decide().kind, WorkKind::kNew) << "nobody else came";
  scene.run.extension_count = 0;
  scene.open_task();
  EXPECT_EQ(scene.decide().kind, WorkKind::kSame) << "it never trains in vain";
}

TEST(DeviceRules, APullIsHeldWhereOnlyNewsEndsItsWait) {
  Scene scene;
  const auto holds = [&scene] { return may_hold_pull(scene.run, scene.standing, scene.row, scene.session); };
  EXPECT_FALSE(holds()) << "there is a task for it";
  scene.row.answered_version = 5;
  EXPECT_TRUE(holds());
  scene.run.is_storage_failed = true;
  EXPECT_FALSE(holds());
  scene.run.is_storage_failed = false;
  for (const gs_RunState state :
       {gs_RunState_RUN_STATE_PAUSED, gs_RunState_RUN_STATE_FINISHED, gs_RunState_RUN_STATE_STOPPED}) {
    scene.run.state = state;
    EXPECT_FALSE(holds());
  }
  scene.run.state = gs_RunState_RUN_STATE_STALLED;
  EXPECT_TRUE(holds());
  scene.session.image.features = 0;
  EXPECT_FALSE(holds()) << "it does not know of that";
}

TEST(DeviceRules, StepsAreWhatTheTimeHolds) {
  RunParameters p = scalar_parameters();
  p.trigger->work = Work::kTimed;
  p.trigger->steps_min = 1;
  p.local->local_step_count = 100;
  p.trigger->report_deadline_ms = 1000;
  Scene scene(p);
  scene.row.step_time_us = 10'000;
  const auto steps = [&scene](uint64_t deadline_ms) { return decide_steps(scene.run, scene.row, deadline_ms, kNow); };
  EXPECT_EQ(steps(kNow + 1000).count, 87U) << "seven eighths of 100";
  EXPECT_EQ(steps(kNow + 500).count, 43U);
  EXPECT_EQ(steps(UINT64_MAX).count, 87U);
  EXPECT_EQ(steps(kNow - 1).count, 1U);
  EXPECT_EQ(steps(kNow + 1000).slow_deadline_ms, 0U);
  scene.row.step_time_us = 2'000'000;
  EXPECT_EQ(steps(kNow + 1000).slow_deadline_ms, 1000U);
  scene.run.asks_everybody = true;
  EXPECT_EQ(steps(kNow + 1000).count, 0U) << "a phase has no local steps";
}

TEST(DeviceRules, TheNextTaskTakesTheNextSequence) {
  Scene scene;
  const TaskIssued task = next_task(scene.run, 3, scene.row, 60, 2);
  EXPECT_EQ(task.device, 3U);
  EXPECT_EQ(task.task_sequence, 8U);
  EXPECT_EQ(task.version, 5U);
  EXPECT_EQ(task.step_count, 2U);
  EXPECT_EQ(task.sample_count, 0U) << "this run does not weigh by it";
  Scene other(asynchronous_parameters());
  other.parameters.fold->fold_weight = FoldWeight::kSampleCount;
  EXPECT_EQ(next_task(other.run, 3, other.row, 60, 2).sample_count, 60U);
}

TEST(DeviceRules, ATaskEndsAsWhoeverEndsItSays) {
  Scene scene;
  scene.open_task();
  const TaskEnded refused = refused_task(3, scene.row, 8, gs_Reason_REASON_CORRUPT, 700);
  EXPECT_EQ(refused.device, 3U);
  EXPECT_EQ(refused.task_sequence, 8U);
  EXPECT_EQ(refused.version, 5U);
  EXPECT_EQ(refused.verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(refused.reason, gs_Reason_REASON_CORRUPT);
  EXPECT_EQ(refused.step_time_us, 700U);
  const TaskEnded abandoned = abandoned_task(3, scene.row);
  EXPECT_EQ(abandoned.task_sequence, 8U);
  EXPECT_EQ(abandoned.verdict, gs_Verdict_VERDICT_ABANDONED);
  EXPECT_EQ(abandoned.reason, gs_Reason_REASON_NONE);
}

TEST(DeviceRules, ARefusalForGoodIsOneThatAnotherTaskWouldMeetToo) {
  const struct {
    gs_Reason reason;
    uint32_t sample;
    bool is_open;
    bool is_for_good;
  } kCases[] = {
      {gs_Reason_REASON_TASK_UNIMPLEMENTED, 0, true, true}, {gs_Reason_REASON_TASK_UNIMPLEMENTED, 0, false, false},
      {gs_Reason_REASON_OUT_OF_MEMORY, 0, true, true},      {gs_Reason_REASON_WRONG_NETWORK, 0, true, true},
      {gs_Reason_REASON_WRONG_SHAPE, 0, true, true},        {gs_Reason_REASON_PRIVACY, 0, true, true},
      {gs_Reason_REASON_NOT_FINITE, 0, true, false},        {gs_Reason_REASON_NOT_FINITE, 4, true, true},
      {gs_Reason_REASON_OUT_OF_RANGE, 0, true, false},
  };
  for (const auto& one : kCases) {
    Scene scene;
    scene.open_task();
    gs_TaskRefused refused = {};
    refused.task_sequence = one.is_open ? 8 : 7;
    refused.reason = one.reason;
    refused.sample = one.sample;
    refused.value = 9;
    EXPECT_EQ(judge_refusal(scene.run, scene.row, refused, kNow, &scene.session), one.is_open) << one.reason;
    EXPECT_EQ(scene.session.refusals.is_for_good, one.is_for_good) << one.reason;
    EXPECT_EQ(scene.session.is_capable, !one.is_for_good) << one.reason;
    EXPECT_EQ(scene.session.refusals.complaint.value, 9.0F);
    EXPECT_EQ(scene.session.refusals.complaint.task_sequence, refused.task_sequence);
  }
}

TEST(DeviceRules, WhoeverCannotHoldTheRunSaysSoInPlaceOfATask) {
  Scene scene;
  gs_TaskRefused refused = {};
  refused.reason = gs_Reason_REASON_NOT_FINITE;
  EXPECT_FALSE(judge_refusal(scene.run, scene.row, refused, kNow, &scene.session)) << "it ends no task";
  EXPECT_TRUE(scene.session.refusals.is_for_good);
  EXPECT_EQ(scene.session.refusals.last_ms, kNow);
}

TEST(DeviceRules, WhoeverKeepsAStagesAnswerMayTrainAllTheSame) {
  for (const TaskStage stage : {TaskStage::kSums, TaskStage::kTrials}) {
    Scene scene;
    scene.open_task();
    scene.run.stage = stage;
    scene.run.train_version = kNoVersion;
    gs_TaskRefused refused = {};
    refused.task_sequence = 8;
    refused.reason = gs_Reason_REASON_PRIVACY;
    EXPECT_TRUE(judge_refusal(scene.run, scene.row, refused, kNow, &scene.session));
    EXPECT_TRUE(scene.session.is_capable);
    EXPECT_EQ(scene.session.refusals.keeps_sums, stage == TaskStage::kSums);
    EXPECT_EQ(scene.session.refusals.keeps_trials, stage == TaskStage::kTrials);
  }
  Scene scene;
  scene.open_task();
  scene.run.is_storage_failed = true;
  gs_TaskRefused refused = {};
  refused.task_sequence = 8;
  EXPECT_FALSE(judge_refusal(scene.run, scene.row, refused, kNow, &scene.session)) << "nothing can be stored";
}

}  // namespace
}  // namespace gradstream
