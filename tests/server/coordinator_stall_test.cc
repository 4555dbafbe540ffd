// What can never work: the run stalls at once, with its cause, and goes on by itself.
#include <cmath>
#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/coordinator/coordinator.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr gs_RunState kActive = gs_RunState_RUN_STATE_ACTIVE;
constexpr gs_RunState kStalled = gs_RunState_RUN_STATE_STALLED;

// Two devices that both must answer.
RunParameters pair_parameters() {
  RunParameters p = scalar_parameters();
  p.trigger->device_count = 2;
  return p;
}

void report(TestServer& server, uint32_t device, uint32_t sessions) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_status_report_tag;
  message.body.status_report.sessions = sessions;
  server.send(device, message);
}

// The device sends updates with one value too large, until it gets no more tasks. Returns how often.
uint32_t refuse_updates(TestServer& server, uint32_t device, Real value = 1000) {
  uint32_t count = 0;
  for (; count < 10; ++count) {
    const uint32_t judged = server.ack(device) == nullptr ? 0 : server.ack(device)->task_sequence;
    server.pull(device);
    if (server.task(device) == nullptr || server.task(device)->task_sequence == judged) {
      break;
    }
    TestUpload upload = server.good_upload(device);
    upload.values[3] = value;
    server.upload(device, upload);
    EXPECT_EQ(server.ack(device)->reason, gs_Reason_REASON_OUT_OF_RANGE);
  }
  return count;
}

void refuse_sample(TestServer& server, uint32_t device) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_task_refused_tag;
  message.body.task_refused = {
      server.task(device)->task_sequence, gs_Reason_REASON_OUT_OF_RANGE, 18, 2, 0, 1, gs_Floor_FLOOR_NONE};
  server.send(device, message);
}

void refuse_run(TestServer& server, uint32_t device) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_task_refused_tag;
  message.body.task_refused.reason = gs_Reason_REASON_OUT_OF_MEMORY;
  server.send(device, message);
}

gs_Hello hello_without_problem() {
  gs_Hello hello = good_hello(10);
  std::strcpy(hello.capabilities.problems[0], "logistic");
  return hello;
}

TEST(CoordinatorStall, RefusedUpdatesStallTheRunWithinARoundWithValueAndLimit) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  EXPECT_EQ(refuse_updates(server, 0), 3U);
  EXPECT_EQ(server.coordinator->run_state(), kStalled) << "one of two is enough: both must answer";
  EXPECT_EQ(server.now_ms, 1000U) << "no deadline had to pass";
  EXPECT_EQ(refuse_updates(server, 1, 4000), 3U);
  const StallCause& cause = server.coordinator->stall_cause();
  EXPECT_EQ(cause.cause, "out_of_range");
  // A value over three steps: 4000 / 3; of 31 bits 24 are behind the point.
  EXPECT_THAT(cause.text, testing::HasSubstr("2 of 2 devices (d0,d1) are refused: an update holds values up to 133"));
  EXPECT_THAT(cause.text, testing::HasSubstr("fold_scale_log2 = 24 takes values below 128"));
  EXPECT_THAT(cause.remedy, testing::HasSubstr("fold_scale_log2 = 16"));
  EXPECT_TRUE(server.has_log("run_stalled version=0 answers=0 wanted=2 missing=d0,d1 cause=out_of_range"));
  EXPECT_TRUE(server.has_log("update_refused device=d1 task=3 reason=out_of_range value=133"));
}

TEST(CoordinatorStall, TheAckSaysValueLimitAndKeys) {
  TestServer server(pair_parameters());
  server.start();
  server.join(1);
  TestUpload upload = server.good_upload(0);
  upload.values[3] = -30000;
  server.upload(0, upload);
  const gs_Ack ack = *server.ack(0);
  EXPECT_NEAR(ack.value, 10000, 5);
  EXPECT_EQ(ack.limit, 128);
  EXPECT_EQ(ack.fold_scale_log2, 13U + 1) << "10000 times 16 is below 2^18";
  EXPECT_GT(ack.step_size, 0);
  EXPECT_LT(ack.step_size, 0.05F);
  server.upload(0, upload);
  EXPECT_TRUE(server.ack(0)->duplicate);
  EXPECT_EQ(server.ack(0)->value, ack.value);
}

TEST(CoordinatorStall, TheScaleThatIsNamedTakesTheUpdateThatWasRefused) {
  TestServer server(pair_parameters());
  server.start();
  server.join(1);
  TestUpload upload = server.good_upload(0);
  for (Real& value : upload.values) value *= 1e6F;
  server.upload(0, upload);
  const uint32_t named = server.ack(0)->fold_scale_log2;
  ASSERT_GT(named, 0U);
  RunParameters p = pair_parameters();
  p.fold->fold_scale_log2 = named - 1;
  TestServer other(p);
  other.start();
  other.join(1);
  other.upload(0, upload);
  EXPECT_EQ(other.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
}

TEST(CoordinatorStall, ValuesThatGrowFromStepToStepAskForAShorterStepAlone) {
  TestServer server(pair_parameters());
  server.start();
  server.join(1);
  TestUpload upload = server.good_upload(0);
  for (size_t i = 8; i < upload.values.size(); ++i) upload.values[i] = 1e9F;
  server.upload(0, upload);
  EXPECT_EQ(server.ack(0)->fold_scale_log2, 0U);
  EXPECT_LE(server.ack(0)->step_size, 0.0051F);
  EXPECT_GT(server.ack(0)->step_size, 0);
}

// A task for one sample: both devices refuse it, and the run says which floor, which key and which option.
TEST(CoordinatorStall, AFloorOfTheOwnersIsNamedWithItsNumbersAndTheKey) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  server.refuse_floor(0, gs_Floor_FLOOR_BATCH_SIZE, 1, 8);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE) << "no other task of the run would do";
  EXPECT_TRUE(
      server.has_log("task_refused device=d0 task=1 reason=privacy floor=batch_size value=1 least=8 most=65535"));
  EXPECT_EQ(server.coordinator->device_statuses()[0].last_reason.floor, gs_Floor_FLOOR_BATCH_SIZE);
  EXPECT_EQ(refusal_text(server.coordinator->device_statuses()[0].last_reason), "privacy, floor batch_size");
  server.refuse_floor(1, gs_Floor_FLOOR_SCALARS_PER_SAMPLE, 512, 0);
  const StallCause& cause = server.coordinator->stall_cause();
  EXPECT_EQ(server.coordinator->run_state(), kStalled);
  EXPECT_EQ(cause.cause, "privacy");
  EXPECT_THAT(cause.text,
              testing::HasSubstr("1 of 2 devices (d0) refuse estimates over samples, by the floor batch_size "
                                 "of their owners: a task of d0 has 1 and the least is 8"));
  EXPECT_THAT(cause.text, testing::HasSubstr("also privacy: 1 of 2 devices (d1) refuse updates of scalars a sample"));
  EXPECT_THAT(cause.remedy, testing::HasSubstr("a larger batch_size"));
  EXPECT_THAT(cause.remedy, testing::HasSubstr("--batch-size-min"));
  EXPECT_THAT(cause.remedy, testing::HasSubstr("--scalars-per-sample-max"));
  EXPECT_EQ(server.log_count("run_stalled"), 2U) << "once for each of the causes";
  // Its owner starts it with other floors: it may answer now.
  server.hello(0);
  report(server, 0, 1);
  server.pull(0);
  ASSERT_NE(server.task(0), nullptr);
  server.upload(0, server.good_upload(0));
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
}

// A server that was restarted has not heard the numbers: it gives one more task, which tells them anew.
TEST(CoordinatorStall, AFloorIsToldAnewToAServerThatWasRestarted) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  for (uint32_t device = 0; device < 2; ++device) {
    server.refuse_floor(device, gs_Floor_FLOOR_LOCAL_STEPS, 3, 5);
  }
  const std::string cause = server.coordinator->stall_cause().text;
  EXPECT_THAT(cause, testing::HasSubstr("2 of 2 devices (d0,d1) refuse tasks of local steps"));
  server.restart();
  EXPECT_EQ(server.coordinator->stall_cause().text, cause) << "the journal has it";
  EXPECT_EQ(refusal_text(server.coordinator->device_statuses()[0].last_reason), "privacy");
}

TEST(CoordinatorStall, NoDeviceIsAble) {
  TestServer server(pair_parameters());
  server.start();
  server.hello(0, hello_without_problem());
  EXPECT_EQ(server.coordinator->run_state(), kStalled);
  EXPECT_EQ(server.coordinator->stall_cause().cause, "not_capable");
  server.hello(1, hello_without_problem());
  EXPECT_THAT(server.coordinator->stall_cause().text, testing::HasSubstr("2 of 2 devices (d0,d1) lack"));
  EXPECT_THAT(server.coordinator->stall_cause().text, testing::HasSubstr("problem:kpca"));
  for (int i = 0; i < 20; ++i) server.hello(0, hello_without_problem());
  EXPECT_EQ(server.log_count("device_not_capable"), 2U) << "once a device";
  EXPECT_LE(server.log_count("run_stalled"), 2U);
}

// Devices that bring another network than the run's: told at both ends, and let in with the right one.
TEST(CoordinatorStall, DevicesWithAnotherNetworkAreNotAble) {
  RunParameters p = pair_parameters();
  p.model->problem = "network";
  p.model->network = "00c0ffee12345678";
  const auto hello_with = [](uint64_t network) {
    gs_Hello hello = good_hello(10);
    std::strcpy(hello.capabilities.problems[0], "network");
    hello.capabilities.features |= 1U << gs_Feature_FEATURE_NETWORK;
    hello.network_digest = network;
    return hello;
  };
  TestServer server(p);
  server.start();
  server.hello(0, hello_with(0x00c0ffee12345678));
  const ServerMessage* const welcome = server.last(0, gs_ServerMessage_welcome_tag);
  ASSERT_NE(welcome, nullptr);
  EXPECT_EQ(welcome->body.welcome.network_digest, 0x00c0ffee12345678U);
  EXPECT_EQ(server.coordinator->run_state(), kActive);
  server.hello(1, hello_with(7));
  EXPECT_EQ(server.coordinator->run_state(), kStalled);
  const StallCause& cause = server.coordinator->stall_cause();
  EXPECT_EQ(cause.cause, "not_capable");
  EXPECT_THAT(cause.text, testing::HasSubstr("1 of 2 devices (d1) lack"));
  EXPECT_THAT(cause.text, testing::HasSubstr("network:00c0ffee12345678"));
  EXPECT_THAT(cause.remedy, testing::HasSubstr("--network FILE"));
  EXPECT_TRUE(server.has_log("lacks=network:00c0ffee12345678 has=network:0000000000000007"));
  server.pull(1);
  EXPECT_EQ(server.wait(1)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  server.hello(1, hello_with(0x00c0ffee12345678));
  EXPECT_TRUE(server.coordinator->stall_cause().empty()) << "it goes on as answers come";
}

// What devices lack is told of each of them, and anew when it changes.
TEST(CoordinatorStall, DevicesThatLackDifferentThingsAreAllTold) {
  RunParameters p = pair_parameters();
  p.model->problem = "network";
  p.model->network = "00c0ffee12345678";
  TestServer server(p);
  server.start();
  server.hello(0, hello_without_problem());
  EXPECT_THAT(server.coordinator->stall_cause().text, testing::HasSubstr("problem:network"));
  gs_Hello other = good_hello(10);
  std::strcpy(other.capabilities.problems[0], "network");
  other.capabilities.features |= 1U << gs_Feature_FEATURE_NETWORK;
  other.network_digest = 7;
  server.hello(1, other);
  const StallCause both = server.coordinator->stall_cause();
  EXPECT_THAT(both.text, testing::HasSubstr("1 of 2 devices (d0) lack what the run's tasks need: problem:network"));
  EXPECT_THAT(both.text, testing::HasSubstr("1 of 2 devices (d1) lack what the run's tasks need: network:00c0ffee"));
  EXPECT_THAT(both.remedy, testing::HasSubstr("--problem"));
  EXPECT_THAT(both.remedy, testing::HasSubstr("--network FILE"));
  const size_t told = server.log_count("run_stalled");
  for (int i = 0; i < 20; ++i) server.hello(1, other);
  EXPECT_EQ(server.log_count("run_stalled"), told) << "nothing is new";
  server.hello(0, other);
  const StallCause& changed = server.coordinator->stall_cause();
  EXPECT_THAT(changed.text,
              testing::HasSubstr("2 of 2 devices (d0,d1) lack what the run's tasks need: network:00c0ffee"));
  EXPECT_THAT(changed.text, testing::Not(testing::HasSubstr("problem:network")));
}

TEST(CoordinatorStall, ALackThatChangesIsToldAnew) {
  RunParameters p = pair_parameters();
  p.model->problem = "network";
  p.model->network = "00c0ffee12345678";
  TestServer server(p);
  server.start();
  server.hello(0, hello_without_problem());
  gs_Hello other = good_hello(10);
  std::strcpy(other.capabilities.problems[0], "network");
  other.capabilities.features |= 1U << gs_Feature_FEATURE_NETWORK;
  other.network_digest = 7;
  server.hello(0, other);
  EXPECT_THAT(server.coordinator->stall_cause().text,
              testing::HasSubstr("1 of 2 devices (d0) lack what the run's tasks need: network:00c0ffee"));
  EXPECT_THAT(server.coordinator->stall_cause().remedy, testing::HasSubstr("--network FILE"));
}

TEST(CoordinatorStall, DevicesThatAreUnableForTwoReasonsAreAllTold) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  refuse_sample(server, 0);
  EXPECT_EQ(server.coordinator->stall_cause().cause, "out_of_range");
  server.hello(1, hello_without_problem());
  const StallCause both = server.coordinator->stall_cause();
  for (const char* const words : {"sample 18 (from 1) of d0 has 2", "1 of 2 devices (d1) lack what", "; also "}) {
    EXPECT_THAT(both.text, testing::HasSubstr(words));
  }
  EXPECT_THAT(both.remedy, testing::HasSubstr("--problem"));
  EXPECT_THAT(both.remedy, testing::HasSubstr("start their clients anew"));
  EXPECT_TRUE(server.has_log("run_stalled")) << both.text;
  const size_t told = server.log_count("run_stalled");
  for (int i = 0; i < 20; ++i) server.hello(1, hello_without_problem());
  EXPECT_EQ(server.log_count("run_stalled"), told) << "nothing is new";
  server.hello(1);  // another image: the other cause is left
  EXPECT_THAT(server.coordinator->stall_cause().text, testing::Not(testing::HasSubstr("lack what")));
  EXPECT_EQ(server.coordinator->stall_cause().cause, "out_of_range");
}

TEST(CoordinatorStall, TheRestCloseTheRoundWhereTheyAreEnough) {
  RunParameters p = deadline_parameters();  // two of four at the deadline
  TestServer server(p);
  server.start();
  server.join(4);
  refuse_updates(server, 3);
  server.hello(2, hello_without_problem());
  EXPECT_EQ(server.coordinator->run_state(), kActive);
  server.upload(0, server.good_upload(0));
  server.upload(1, server.good_upload(1));
  server.tick_at(2000);
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
}

TEST(CoordinatorStall, OneTooFewStallsAndAnotherImageEndsIt) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  for (uint32_t device = 1; device < 4; ++device) server.hello(device, hello_without_problem());
  EXPECT_EQ(server.coordinator->run_state(), kStalled);
  EXPECT_THAT(server.coordinator->stall_cause().text, testing::HasSubstr("3 of 4 devices (d1,d2,d3)"));
  server.hello(2);
  EXPECT_TRUE(server.coordinator->stall_cause().empty()) << "two may answer, which is enough";
  EXPECT_EQ(server.log_level("stall_cause_gone"), LogLevel::kInfo);
  EXPECT_FALSE(server.has_log("cause=too_few_answers"));
  server.pull(2, false, 0, 0);
  server.upload(0, server.good_upload(0));
  server.upload(2, server.good_upload(2));
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->run_state(), kActive);
}

TEST(CoordinatorStall, ASampleThatTheProblemNeverTakesIsRefusedOnceAndNamed) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  refuse_sample(server, 0);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  EXPECT_EQ(server.coordinator->stall_cause().cause, "out_of_range");
  EXPECT_THAT(server.coordinator->stall_cause().text,
              testing::HasSubstr("never takes: sample 18 (from 1) of d0 has 2, allowed are 0 to 1"));
  const uint64_t issued = server.coordinator->counters().tasks_issued;
  for (int i = 0; i < 5; ++i) {
    server.hello(0);
    server.pull(0);
  }
  EXPECT_EQ(server.coordinator->counters().tasks_issued, issued) << "the same image with the same data";
}

// A device that cannot hold the run says so in place of its first Pull, and the run waits for it no more.
TEST(CoordinatorStall, ADeviceThatRefusesTheRunIsNotAwaited) {
  TestServer server(pair_parameters());
  server.start();
  server.join(1);
  server.hello(1);
  refuse_run(server, 1);
  EXPECT_EQ(server.wait(1)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  EXPECT_FALSE(server.coordinator->device_statuses()[1].is_capable);
  EXPECT_EQ(server.coordinator->run_state(), kStalled) << "both must answer, and one never can";
  EXPECT_EQ(server.coordinator->stall_cause().cause, "out_of_memory");
  EXPECT_TRUE(server.has_log("task_refused device=d1 task=0 reason=out_of_memory"));
  server.hello(1);
  EXPECT_FALSE(server.coordinator->device_statuses()[1].is_capable) << "the same image comes again";
  // It begins anew, with an arena that holds the run.
  report(server, 1, 1);
  EXPECT_TRUE(server.coordinator->device_statuses()[1].is_capable);
  server.pull(1);
  server.upload(0, server.good_upload(0));
  server.upload(1, server.good_upload(1));
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
}

TEST(CoordinatorStall, ADeviceThatStartsAnewIsAskedAnewAndEndsTheStall) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  refuse_sample(server, 0);
  refuse_updates(server, 1);
  ASSERT_EQ(server.coordinator->run_state(), kStalled);
  for (uint32_t device = 0; device < 2; ++device) {
    server.hello(device);
    report(server, device, 1);
    server.sent.clear();
    server.pull(device);
    ASSERT_NE(server.task(device), nullptr) << device;
    server.upload(device, server.good_upload(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->run_state(), kActive);
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
}

TEST(CoordinatorStall, ALaterSessionOfTheSameDeviceIsNoStart) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  report(server, 0, 1);
  refuse_updates(server, 0);
  server.hello(0);
  report(server, 0, 2);
  server.sent.clear();
  server.pull(0);
  EXPECT_EQ(server.task(0), nullptr);
}

TEST(CoordinatorStall, ABarredDeviceGetsOneMoreTaskInAWhile) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  refuse_updates(server, 0);
  server.now_ms += 600'000;
  EXPECT_EQ(refuse_updates(server, 0), 1U);
}

TEST(CoordinatorStall, TheCauseSurvivesARestartByTheJournalAlone) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  refuse_updates(server, 0);
  refuse_updates(server, 1);
  const StallCause cause = server.coordinator->stall_cause();
  const std::string state = server.coordinator->state_text();
  ASSERT_FALSE(cause.empty());
  server.restart();
  EXPECT_EQ(server.coordinator->stall_cause(), cause);
  EXPECT_EQ(server.coordinator->state_text(), state);
  EXPECT_EQ(server.coordinator->run_state(), kStalled);
  server.hello(0);
  EXPECT_EQ(refuse_updates(server, 0), 1U) << "one more, which tells the value anew";
  EXPECT_EQ(server.coordinator->stall_cause().cause, cause.cause);
}

TEST(CoordinatorStall, WhatDevicesLackIsFoundAnewAfterARestart) {
  TestServer server(pair_parameters());
  server.start();
  server.hello(0, hello_without_problem());
  server.hello(1, hello_without_problem());
  const StallCause cause = server.coordinator->stall_cause();
  server.restart();
  EXPECT_EQ(server.coordinator->stall_cause(), cause);
  server.hello(0, hello_without_problem());
  EXPECT_EQ(server.coordinator->stall_cause(), cause);
  server.hello(1);
  server.hello(0);
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
}

// One of two devices was mended while the server was down, and the other one is silent.
TEST(CoordinatorStall, ACauseOfBeforeARestartEndsWhenSilentDevicesHaveHadTheirTime) {
  const RunParameters p = pair_parameters();
  TestServer server(p);
  server.start();
  server.hello(0, hello_without_problem());
  server.hello(1, hello_without_problem());
  const StallCause cause = server.coordinator->stall_cause();
  ASSERT_FALSE(cause.empty());
  server.restart();
  const uint64_t due_ms = server.now_ms + p.trigger->report_deadline_ms;
  server.hello(0);
  EXPECT_EQ(server.coordinator->next_tick_ms(), due_ms);
  server.tick_at(due_ms - 1);
  EXPECT_EQ(server.coordinator->stall_cause(), cause) << "d1 may still lack something";
  server.tick_at(due_ms);
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
  EXPECT_EQ(server.log_level("stall_cause_gone"), LogLevel::kInfo);
  EXPECT_EQ(server.coordinator->run_state(), kStalled) << "until answers come";
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  server.hello(1, hello_without_problem());
  EXPECT_THAT(server.coordinator->stall_cause().text, testing::HasSubstr("1 of 2 devices (d1) lack"));
}

TEST(CoordinatorStall, ACauseOfBeforeARestartStaysWhileItsDevicesAreBlocked) {
  const RunParameters p = pair_parameters();
  TestServer server(p);
  server.start();
  server.join(2);
  refuse_updates(server, 0);
  refuse_updates(server, 1);
  const StallCause cause = server.coordinator->stall_cause();
  server.restart();
  server.tick_at(server.now_ms + p.trigger->report_deadline_ms);
  EXPECT_EQ(server.coordinator->stall_cause(), cause) << "by the journal, with value and limit";
}

TEST(CoordinatorStall, ARunThatIsResumedSaysItAnew) {
  TestServer server(pair_parameters());
  server.start();
  server.hello(0, hello_without_problem());
  server.coordinator->pause(server.now_ms);
  server.collect();
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
  server.coordinator->resume(server.now_ms);
  server.collect();
  EXPECT_EQ(server.coordinator->stall_cause().cause, "not_capable");
}

TEST(CoordinatorStall, ADeviceThatIsDisabledIsNoCause) {
  RunParameters p = deadline_parameters();
  TestServer server(p);
  server.start();
  server.join(4);
  for (uint32_t device = 1; device < 4; ++device) server.hello(device, hello_without_problem());
  ASSERT_FALSE(server.coordinator->stall_cause().empty());
  for (uint32_t device = 1; device < 4; ++device) server.coordinator->on_device_disabled(device, server.now_ms);
  server.collect();
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
}

TEST(CoordinatorStall, TimeAloneStallsWithoutACause) {
  TestServer server(pair_parameters());
  server.start();
  server.join(2);
  for (int i = 0; i < 4; ++i) server.tick_at(server.now_ms + 1000);
  EXPECT_EQ(server.coordinator->run_state(), kStalled);
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
  EXPECT_TRUE(server.has_log("cause=too_few_answers"));
}

TEST(CoordinatorStall, ABufferWaitsForWhoeverIsAble) {
  RunParameters p = tangent_parameters();
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 100;
  p.trigger->buffer_size = 2;
  p.trigger->device_count = 3;
  TestServer server(p);
  server.start();
  server.hello(0, hello_without_problem());
  server.hello(1, hello_without_problem());
  EXPECT_EQ(server.coordinator->run_state(), kActive);
  server.hello(2, hello_without_problem());
  EXPECT_EQ(server.coordinator->run_state(), kStalled);
}

TEST(CoordinatorStall, ALargeFleetThatCanDoNothingCostsAFewRecords) {
  RunParameters p = scalar_parameters();
  p.trigger->device_count = 60;
  TestServer server(p);
  server.start();
  for (uint32_t device = 0; device < 60; ++device) server.hello(device, hello_without_problem());
  EXPECT_LE(server.log_count("run_stalled"), 8U);
  EXPECT_THAT(server.coordinator->stall_cause().text, testing::HasSubstr("60 of 60 devices"));
}

}  // namespace
}  // namespace gradstream
