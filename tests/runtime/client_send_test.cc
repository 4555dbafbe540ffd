// What the client says: its Hello and report, updates in pieces and again, and the tasks that it refuses.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"
#include "runtime/link/client.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

// ---- What it is, and what it has done ----

TEST(ClientSend, SaysWhatItIs) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.client().report().stack_high_water = 1234;
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  const gs_Hello& hello = server.last_hello;
  EXPECT_EQ(hello.protocol_version, 1U);
  EXPECT_STREQ(hello.firmware_version, "0.1.0-test");
  EXPECT_STREQ(hello.board, "a board of the workbenc");
  EXPECT_EQ(hello.capabilities.manifolds, 0b1110U);
  EXPECT_EQ(hello.capabilities.solvers, 0b11110U);
  EXPECT_EQ(hello.capabilities.estimators, 0b111110U);
  EXPECT_EQ(hello.capabilities.encodings, 0b1110U);
  EXPECT_EQ(hello.capabilities.features, 0b10100000000010000111110U);
  EXPECT_EQ(hello.capabilities.arena_size, device.memory.arena.size());
  ASSERT_EQ(hello.capabilities.problems_count, 1);
  EXPECT_STREQ(hello.capabilities.problems[0], "kpca");
  EXPECT_FALSE(hello.has_model);
  EXPECT_EQ(hello.sample_count, 10U);
  EXPECT_EQ(server.last_report.stack_high_water, 1234U);
  EXPECT_EQ(server.last_report.sessions, 1U);
  EXPECT_GT(server.last_report.arena_high_water, 0U);
  const std::vector<pb_size_t> order = {gs_DeviceMessage_hello_tag, gs_DeviceMessage_status_report_tag,
                                        gs_DeviceMessage_pull_tag};
  EXPECT_EQ(server.received, order);
}

// Updates, records and snapshots of several pieces.
TEST(ClientSend, SeveralPiecesEachWay) {
  FakeRun run;
  run.shape = {150, 3};  // 1,800 bytes
  run.local_step_count = 10;
  run.direction_count = 70;  // 2,800 bytes
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    run.stream = stream;
    run.use_correction = stream == StreamKind::kScalarStream;
    FakeDevice device(150);
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().replica().digest(), server.model().digest());
    EXPECT_EQ(server.steps_done.size(), run.round_count);
  }
}

TEST(ClientSend, TryLaterIsResentByteForByte) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.verdicts = {gs_VERDICT_TRY_LATER, gs_VERDICT_TRY_LATER};
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().updates_resent, 2U);
  EXPECT_EQ(server.conflicting_uploads, 0U);
  EXPECT_EQ(link.client().counters().updates_folded, 4U);
}

// ---- Refusals of tasks ----

TEST(ClientSend, AnswersToARefusedTaskAreTaken) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag && server.refusals.empty()) {
      message.body.task.problem[0] = 'x';
    }
  };
  server.intercept = [&](const DeviceMessage& message) {
    if (message.which_body == gs_DeviceMessage_task_refused_tag) {
      server.refusals.push_back(message.body.task_refused);
      server.send(server.make_task());
      return true;
    }
    return false;
  };
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().tasks_refused, 1U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
}

// The first task is refused, and the server says nothing to it.
void meet_silence(FakeLink& link, FakeServer& server) {
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag && server.refusals.empty()) {
      message.body.task.problem[0] = 'x';
    }
  };
  server.intercept = [&](const DeviceMessage& message) {
    const bool is_refusal = message.which_body == gs_DeviceMessage_task_refused_tag;
    if (is_refusal) {
      server.refusals.push_back(message.body.task_refused);
    }
    return is_refusal;
  };
  ASSERT_TRUE(link.run_until([&] { return server.refusals.size() == 1; }));
}

TEST(ClientSend, ALateAnswerToARefusedTaskIsTaken) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  meet_silence(link, server);
  link.now_ms += kAnswerDeadlineMs - 1000;
  link.step();  // nothing may be asked before the answer
  server.send(server.make_wait(gs_WAIT_CAUSE_NOT_CHOSEN));
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  EXPECT_EQ(link.client().counters().deadlines_missed, 0U);
  EXPECT_EQ(link.client().counters().sessions, 1U);
}

TEST(ClientSend, ARefusalThatNobodyAnswersEndsItsSession) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  meet_silence(link, server);
  const uint64_t begin_ms = link.now_ms;
  ASSERT_TRUE(link.run_until([&] { return link.client().last_reason() == gs_REASON_DEADLINE; }));
  EXPECT_EQ(link.now_ms - begin_ms, uint64_t{kAnswerDeadlineMs});
  EXPECT_EQ(link.client().counters().deadlines_missed, 1U);
  server.intercept = nullptr;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.refusals.size(), 1U);  // that one was said
  EXPECT_EQ(link.client().counters().connection_failures, 1U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  EXPECT_EQ(link.client().counters().sessions, 2U);
}

TEST(ClientSend, ARefusalOfAnotherRunIsForgotten) {
  FakeDevice device;
  device.config.has_storage = false;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return device.steps.size() == 1; }));
  link.break_connection();
  device.samples.read_status = Status::kNotFinite;
  ASSERT_TRUE(link.run_until([&] { return link.client().last_reason() == gs_REASON_NOT_FINITE; }));
  ASSERT_FALSE(link.is_connected());
  device.samples.read_status = Status::kOk;
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.run = 2;
    }
  };
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().runs_dropped, 1U);
  EXPECT_TRUE(server.refusals.empty());
}

}  // namespace
}  // namespace gradstream
