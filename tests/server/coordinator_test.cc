#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/canonical_text.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters deadline_parameters() {
  RunParameters p = scalar_parameters();
  p.update_goal = 3;
  p.update_min = 2;
  p.late = LatePolicy::kWeight;
  p.staleness_max = 2;
  p.steps_min = 1;
  return p;
}

TestUpload upload_of(const TestServer& server, uint32_t device) { return server.good_upload(device); }

// All four join and answer; the version that follows is on its way to the disk.
void close_version_on_its_way(TestServer& server) {
  server.join(4);
  server.is_auto_persist = false;
  for (uint32_t device = 0; device < 4; ++device) {
    server.upload(device, upload_of(server, device));
  }
}

// ---- Opening, sessions ----

TEST(Coordinator, OpensVersionZeroWhenEnoughDevicesAreEnrolled) {
  TestServer server(scalar_parameters(), 3);
  server.start();
  EXPECT_TRUE(server.published.empty());
  EXPECT_TRUE(server.has_log("run_waiting enrolled=3 wanted=4"));
  server.hello(0);
  server.pull(0, false, 0, 0);
  ASSERT_NE(server.wait(0), nullptr);
  EXPECT_EQ(server.task(0), nullptr);
  server.names.push_back("d3");
  server.coordinator->on_device_added("d3", server.now_ms);
  server.collect();
  EXPECT_THAT(server.published, testing::ElementsAre(0));
  server.pull(0, false, 0, 0);
  EXPECT_NE(server.task(0), nullptr);
}

TEST(Coordinator, BeginsAtTheModelThatItIsGiven) {
  const RunParameters p = scalar_parameters();
  TestServer server(p);
  std::vector<Real> model(p.shape.size());
  EXPECT_EQ(server.coordinator->set_first_model(std::span(model).first(3)), Status::kInvalidArgument);
  model[0] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(server.coordinator->set_first_model(model), Status::kNotFinite);
  model[0] = 1;
  model[3] = 1;
  EXPECT_EQ(server.coordinator->set_first_model(model), Status::kOk);
  server.start();
  ASSERT_TRUE(server.coordinator->model().has_model());
  EXPECT_TRUE(std::equal(model.begin(), model.end(), server.coordinator->model().model()));
}

TEST(Coordinator, WelcomeSaysWhatTheRunIs) {
  RunParameters p = scalar_parameters();
  p.group_count = 2;
  TestServer server(p);
  server.start();
  server.hello(3);
  const ServerMessage* message = server.last(3, gs_ServerMessage_welcome_tag);
  ASSERT_NE(message, nullptr);
  const gs_Welcome& welcome = message->body.welcome;
  EXPECT_EQ(welcome.run, 7U);
  EXPECT_EQ(welcome.parameters_digest, parameters_digest(p));
  EXPECT_EQ(welcome.rows, 16U);
  EXPECT_EQ(welcome.cols, 2U);
  EXPECT_EQ(welcome.direction_count, 4U);
  EXPECT_EQ(welcome.client_index, 3U);
  EXPECT_EQ(welcome.group, 1U);
  EXPECT_TRUE(welcome.shared_directions);
}

TEST(Coordinator, RefusesBadHellosByName) {
  TestServer server(scalar_parameters());
  server.start();
  gs_Hello hello = good_hello(1);
  hello.protocol_version = 9;
  server.hello(0, hello);
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_PROTOCOL_VERSION);
  hello = good_hello(1);
  hello.run = 8;
  server.hello(0, hello);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_UNKNOWN_RUN);
  server.hello(4);  // not enrolled
  EXPECT_EQ(server.refuse(4)->reason, gs_Reason_REASON_UNKNOWN_RUN);
  server.coordinator->on_device_revoked(1, server.now_ms);
  server.hello(1);
  EXPECT_EQ(server.refuse(1)->reason, gs_Reason_REASON_REVOKED);
  EXPECT_EQ(server.closed.size(), 4U);
  EXPECT_EQ(server.coordinator->round_progress().asked, 3U);
  server.coordinator->on_device_restored(1, server.now_ms);
  server.coordinator->on_device_restored(1, server.now_ms);
  EXPECT_EQ(server.coordinator->round_progress().asked, 4U) << "once";
  server.hello(1);
  EXPECT_EQ(server.closed.size(), 4U) << "and it is let in again";
}

TEST(Coordinator, NothingComesBeforeHelloAndHelloOnce) {
  TestServer server(scalar_parameters());
  server.start();
  server.pull(0, false, 0, 0);
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  server.hello(1);
  DeviceMessage again = {};
  again.which_body = gs_DeviceMessage_hello_tag;
  again.body.hello = good_hello(1);
  server.send(1, again);
  EXPECT_EQ(server.refuse(1)->reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  EXPECT_EQ(server.coordinator->counters().messages_unexpected, 2U);
}

TEST(Coordinator, TheNewerSessionOfADeviceWins) {
  TestServer server(scalar_parameters());
  server.start();
  server.hello(0);
  const SessionId old = server.session(0);
  server.hello(0);
  ASSERT_EQ(server.closed.size(), 1U);
  EXPECT_EQ(server.closed[0].session, old);
  EXPECT_EQ(server.closed[0].reason, gs_Reason_REASON_NEWER_SESSION);
  EXPECT_EQ(server.coordinator->counters().sessions_replaced, 1U);
  server.coordinator->on_session_closed(old, server.now_ms);
  EXPECT_TRUE(server.coordinator->device_statuses()[0].connected);
}

TEST(Coordinator, AnImageWithoutTheSolverGetsNoTask) {
  TestServer server(scalar_parameters());
  server.start();
  gs_Hello hello = good_hello(1);
  hello.capabilities.solvers = 1U << gs_Solver_SOLVER_GRADIENT_STREAM;
  server.hello(0, hello);
  server.pull(0, false, 0, 0);
  ASSERT_NE(server.wait(0), nullptr);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  server.hello(1);
  server.pull(1, false, 0, 0);
  DeviceMessage refused = {};
  refused.which_body = gs_DeviceMessage_task_refused_tag;
  refused.body.task_refused = {server.task(1)->task_sequence, gs_Reason_REASON_OUT_OF_MEMORY};
  server.send(1, refused);
  EXPECT_EQ(server.wait(1)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  EXPECT_EQ(server.coordinator->counters().tasks_refused, 1U);
  EXPECT_EQ(server.coordinator->counters().updates_refused, 0U) << "no update has come";
  EXPECT_FALSE(server.has_log("update_refused"));
}

TEST(Coordinator, ARefusedDeviceStaysAwayHoweverShortTheWindowsOfTheRun) {
  RunParameters p = scalar_parameters();
  p.retry_min_ms = 5;
  p.retry_max_ms = 10;
  TestServer server(p);
  server.start();
  const auto is_long = [](const gs_RetryWindow& window) {
    return window.min_ms >= kRefusedRetryMinMs && window.max_ms >= 2 * kRefusedRetryMinMs;
  };
  gs_Hello hello = good_hello(1);
  hello.capabilities.solvers = 0;
  server.hello(0, hello);
  server.pull(0, false, 0, 0);
  ASSERT_NE(server.wait(0), nullptr);
  EXPECT_TRUE(is_long(server.wait(0)->retry)) << "an image that cannot do the run";
  hello.run = 8;
  server.hello(0, hello);
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_TRUE(is_long(server.refuse(0)->retry)) << "a run that is not here";
  server.hello(1);
  server.pull(1, false, 0, 0);
  for (int i = 0; i < 3; ++i) {
    TestUpload upload = upload_of(server, 1);
    upload.crc_error = 1;
    server.upload(1, upload);
    EXPECT_LT(server.ack(1)->retry.max_ms, kRefusedRetryMinMs) << "the next task may go well";
    server.pull(1);
  }
  ASSERT_NE(server.wait(1), nullptr);
  EXPECT_TRUE(is_long(server.wait(1)->retry)) << "three refusals in one version";
  server.hello(2);
  server.pull(2, false, 0, 0);
  server.upload(2, upload_of(server, 2));
  EXPECT_EQ(server.ack(2)->retry.max_ms, 10U) << "nobody else waits longer";
}

// ---- The output commit rule ----

TEST(Coordinator, NothingLeavesBeforeItsRecordIsDurable) {
  TestServer server(scalar_parameters());
  server.is_auto_persist = false;
  server.start();
  EXPECT_TRUE(server.published.empty());
  server.hello(0);
  server.pull(0, false, 0, 0);
  EXPECT_EQ(server.last(0, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  server.coordinator->on_persisted(server.pending.back().sequence, server.now_ms);  // version 0
  ASSERT_EQ(server.store.append(server.pending), StoreStatus::kOk);
  server.pending.clear();
  server.collect();
  EXPECT_THAT(server.published, testing::ElementsAre(0));
  EXPECT_NE(server.last(0, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  EXPECT_EQ(server.task(0), nullptr);
  ASSERT_EQ(server.pending.size(), 1U);
  EXPECT_EQ(server.pending[0].kind, RecordKind::kTaskIssued);
  server.persist();
  ASSERT_NE(server.task(0), nullptr);

  server.upload(0, upload_of(server, 0));
  EXPECT_EQ(server.ack(0), nullptr);
  server.upload(0, upload_of(server, 0));  // again, before the first is durable
  EXPECT_EQ(server.ack(0), nullptr);
  ASSERT_EQ(server.pending.size(), 1U);
  server.persist();
  ASSERT_NE(server.ack(0), nullptr);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(0)->version, 1U);
}

// What the disk does not hold up need not wait for what it does; for the last piece, a flight of its own would only
// cost.
TEST(Coordinator, OnlyTheLastPieceOfAModelMayWaitForTheTask) {
  RunParameters p = scalar_parameters();
  p.shape = {100, 40};
  TestServer server(p);
  server.start();
  server.hello(0);
  server.is_auto_persist = false;
  server.sent.clear();
  server.pull(0, false, 0, 0);
  ASSERT_GT(server.sent.size(), 2U);
  for (const Action& action : server.sent) {
    ASSERT_EQ(action.message.which_body, gs_ServerMessage_snapshot_chunk_tag);
    const gs_SnapshotChunk& chunk = action.message.body.snapshot_chunk;
    EXPECT_EQ(action.has_more, chunk.offset + chunk.values.size == chunk.total);
  }
  const size_t piece_count = server.sent.size();
  server.persist();
  ASSERT_EQ(server.sent.size(), piece_count + 1);
  EXPECT_EQ(server.sent.back().message.which_body, gs_ServerMessage_task_tag);
  EXPECT_FALSE(server.sent.back().has_more);
}

TEST(Coordinator, APullWaitsForTheVersionOnItsWayToTheDisk) {
  TestServer server(scalar_parameters());
  server.start();
  close_version_on_its_way(server);
  server.sent.clear();
  server.pull(0, true, 0, 0);
  EXPECT_TRUE(server.sent.empty());
  server.persist();
  EXPECT_NE(server.last(0, gs_ServerMessage_ack_tag), nullptr);
  ASSERT_NE(server.task(0), nullptr);
  EXPECT_EQ(server.task(0)->version, 1U);
}

// Without rounds versions may follow each other faster than the disk: the version last decided is never durable.
TEST(Coordinator, APullDoesNotWaitForVersionAfterVersion) {
  RunParameters p = scalar_parameters();
  p.solver = SolverId::kGradientStream;
  p.estimator = EstimatorId::kAnalyticGradient;
  p.correction_form = CorrectionForm::kNone;
  p.shape = {100, 40};  // a snapshot is more messages than may be held of answers
  p.fold_weight = FoldWeight::kUniform;
  p.buffer_size = 1;
  p.late = LatePolicy::kWeight;
  p.staleness_max = 8;
  p.delay_rule = DelayRule::kAsgd;
  TestServer server(p);
  server.start();
  server.join(4);
  server.is_auto_persist = false;
  server.upload(0, upload_of(server, 0));  // version 1
  server.pull(3, true, 0, 0);
  const size_t first = server.pending.size();
  server.upload(1, upload_of(server, 1));  // version 2
  const TestUpload third = upload_of(server, 2);
  server.sent.clear();
  const std::vector<JournalRecord> all = server.pending;
  ASSERT_EQ(server.store.append({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first)}), StoreStatus::kOk);
  server.pending.erase(server.pending.begin(), server.pending.begin() + static_cast<std::ptrdiff_t>(first));
  server.coordinator->on_persisted(all[first - 1].sequence, server.now_ms);
  server.collect();
  EXPECT_EQ(server.task(3), nullptr);  // version 2 is not durable yet
  server.upload(2, third);             // version 3
  const size_t second = server.pending.size() - 1;
  ASSERT_EQ(server.pending[second].kind, RecordKind::kVersion);
  const uint64_t sequence = server.pending[second - 1].sequence;  // all but version 3
  server.coordinator->on_persisted(sequence, server.now_ms);
  server.collect();
  ASSERT_NE(server.task(3), nullptr);
  EXPECT_EQ(server.task(3)->version, 2U);
  const ServerMessage* chunk = server.last(3, gs_ServerMessage_snapshot_chunk_tag);
  ASSERT_NE(chunk, nullptr);
  EXPECT_EQ(chunk->body.snapshot_chunk.version, 2U);
  EXPECT_TRUE(server.closed.empty());
}

TEST(Coordinator, AClosedSessionGetsNothingMore) {
  TestServer server(scalar_parameters());
  server.start();
  server.hello(0);
  server.is_auto_persist = false;
  server.pull(0, false, 0, 0);
  server.coordinator->on_session_closed(server.session(0), server.now_ms);
  server.sent.clear();
  server.persist();
  EXPECT_TRUE(server.sent.empty());
}

TEST(Coordinator, AFloodOfHeldAnswersEndsTheSession) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  server.is_auto_persist = false;
  const TestUpload upload = upload_of(server, 0);
  for (int i = 0; i < 200 && server.closed.empty(); ++i) {
    server.upload(0, upload);
  }
  ASSERT_EQ(server.closed.size(), 1U);
  EXPECT_EQ(server.closed[0].reason, gs_Reason_REASON_OVERLOADED);
}

// What is sent beyond the limit changes nothing of the run.
TEST(Coordinator, AFloodOfOneDeviceIsToldToComeLaterAndTheRunGoesOn) {
  TestServer calm(scalar_parameters());
  TestServer server(scalar_parameters());
  for (TestServer* const each : {&calm, &server}) {
    each->start();
    each->coordinator->set_limits({{10, 5}});
    each->join(4);
  }
  const TestUpload upload = upload_of(server, 0);
  for (int i = 0; i < 3; ++i) {  // after Hello and Pull
    server.upload(0, upload);
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED) << i;
  }
  EXPECT_EQ(server.coordinator->counters().messages_over_rate, 0U);
  const size_t records = server.store.records().size();
  server.upload(0, upload);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_TRY_LATER);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_RATE_LIMIT);
  EXPECT_GE(server.ack(0)->retry.min_ms, kRefusedRetryMinMs);
  EXPECT_TRUE(server.closed.empty());
  server.upload(0, upload);  // it does not wait
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_RATE_LIMIT);
  EXPECT_GE(server.refuse(0)->retry.min_ms, kRefusedRetryMinMs);
  EXPECT_EQ(server.closed.size(), 1U);
  for (int i = 0; i < 20; ++i) {
    server.hello(0);
    ASSERT_NE(server.refuse(0), nullptr) << "a new session is none the better for it";
    EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_RATE_LIMIT);
  }
  EXPECT_EQ(server.coordinator->counters().messages_over_rate, 22U);
  EXPECT_EQ(server.store.records().size(), records);
  EXPECT_EQ(std::count_if(server.logs.begin(), server.logs.end(),
                          [](const std::string& line) { return line.starts_with("rate_limited device=d0"); }),
            1);
  calm.upload(0, upload);
  for (uint32_t device = 1; device < 4; ++device) {
    calm.upload(device, upload_of(calm, device));
    server.upload(device, upload_of(server, device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  server.now_ms += kRefusedRetryMinMs;
  server.hello(0);
  server.pull(0, false, 0, 0);
  EXPECT_EQ(server.task(0)->version, 1U) << "who comes back in its time is served";
  EXPECT_EQ(server.coordinator->model().digest(), calm.coordinator->model().digest());
}

TEST(Coordinator, ALimitedUploadIsAnsweredAfterItsLastPiece) {
  RunParameters p = tangent_parameters();
  p.shape = {64, 8};
  TestServer server(p);
  server.start();
  server.join(1);
  server.coordinator->set_limits({{1, 1}});
  server.pull(0);  // the only message of this second
  const std::vector<DeviceMessage> pieces = upload_messages(upload_of(server, 0));
  ASSERT_EQ(pieces.size(), 3U);
  for (const DeviceMessage& piece : pieces) {
    EXPECT_EQ(server.ack(0), nullptr);
    server.send(0, piece);
  }
  ASSERT_NE(server.ack(0), nullptr);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_RATE_LIMIT);
  EXPECT_EQ(server.coordinator->counters().messages_over_rate, 1U);
  server.now_ms += kRefusedRetryMinMs;
  for (const DeviceMessage& piece : pieces) {
    server.send(0, piece);
  }
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
}

TEST(Coordinator, RefusalsOfOneDeviceDoNotFillTheLog) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  const auto lines = [&] {
    return std::count_if(server.logs.begin(), server.logs.end(),
                         [](const std::string& line) { return line.starts_with("update_refused"); });
  };
  TestUpload unknown = upload_of(server, 0);
  unknown.task_sequence = 99;
  for (int i = 0; i < 100; ++i) {
    server.upload(0, unknown);
  }
  EXPECT_EQ(lines(), 16);
  EXPECT_EQ(server.coordinator->counters().updates_refused, 100U);
  server.upload(1, unknown);
  EXPECT_EQ(lines(), 17) << "another device has lines of its own";
  server.now_ms += 1000;
  server.upload(0, unknown);
  EXPECT_TRUE(server.has_log("update_refused device=d0 task=99 reason=unknown_task more_since_the_last=84"));
}

TEST(Coordinator, AReportIsLoggedOnceASessionAndSafely) {
  TestServer server(scalar_parameters());
  server.start();
  gs_Hello hello = good_hello(1);
  std::strcpy(hello.firmware_version, "1.2-a\" event=\nx");
  std::strcpy(hello.board, "pico=2\x7f");
  server.hello(0, hello);
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_status_report_tag;
  message.body.status_report.uptime_s = 5;
  message.body.status_report.stack_high_water = 900;
  message.body.status_report.tasks_done = 3;
  server.send(0, message);
  EXPECT_TRUE(
      server.has_log("device_report device=d0 board=\"pico=2\\x7f\" "
                     "firmware_version=\"1.2-a\\\" event=\\x0ax\" uptime_s=5"));
  EXPECT_TRUE(server.has_log("stack_high_water=900"));
  EXPECT_TRUE(server.has_log("tasks_done=3"));
  server.logs.clear();
  server.send(0, message);
  EXPECT_FALSE(server.has_log("device_report"));
  server.hello(0, hello);
  server.send(0, message);
  EXPECT_TRUE(server.has_log("device_report"));
}

TEST(Coordinator, AnEventSaysItsOwnLevel) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.hello(1);
  TestUpload corrupt = upload_of(server, 0);
  corrupt.crc_error = 1;
  server.upload(0, corrupt);
  for (const uint64_t at_ms : {2000, 3000, 4000}) {
    server.tick_at(at_ms);
  }
  server.coordinator->stop(server.now_ms);
  server.collect();
  for (const char* const event : {"session_replaced", "update_refused", "round_extended", "run_stalled"}) {
    ASSERT_EQ(server.levels.count(event), 1U) << event;
    EXPECT_EQ(server.levels[event], LogLevel::kWarn) << event;
  }
  for (const char* const event : {"snapshot_sent", "run_stopped"}) {
    ASSERT_EQ(server.levels.count(event), 1U) << event;
    EXPECT_EQ(server.levels[event], LogLevel::kInfo) << event;
  }
}

// ---- Exactly once ----

TEST(Coordinator, AnOpenTaskIsIssuedAgainWithItsSequence) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  EXPECT_EQ(server.task(0)->task_sequence, 1U);
  server.hello(0);
  server.pull(0);
  EXPECT_EQ(server.task(0)->task_sequence, 1U);
  EXPECT_EQ(server.coordinator->counters().tasks_issued, 1U);
}

TEST(Coordinator, ALostTaskIsAbandonedAndANewOneIssued) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  gs_Hello hello = good_hello(1);
  hello.lost_task_sequence = 1;
  server.hello(0, hello);
  EXPECT_TRUE(server.last(0, gs_ServerMessage_welcome_tag)->body.welcome.abandoned);
  server.pull(0);
  EXPECT_EQ(server.task(0)->task_sequence, 2U);
  TestUpload old = upload_of(server, 0);
  old.task_sequence = 1;
  server.upload(0, old);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_ABANDONED);
  EXPECT_TRUE(server.ack(0)->duplicate);
  server.hello(1);
  server.pull(1, false, 0, 0);  // it lost its model, and its work with it
  EXPECT_EQ(server.task(1)->task_sequence, 2U);
  EXPECT_EQ(server.coordinator->counters().tasks_abandoned, 2U);
}

// Reset before it had saved what follows from the Ack, while its next task had already been given up.
TEST(Coordinator, AnAcceptedUpdateKeepsItsVerdictWhenTheNextTaskIsAbandoned) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = upload_of(server, 0);
  for (uint32_t device = 0; device < 4; ++device) {
    server.upload(device, upload_of(server, device));
  }
  server.pull(0);
  ASSERT_NE(server.task(0), nullptr);
  ASSERT_EQ(server.task(0)->task_sequence, 2U);
  server.hello(0);
  server.pull(0, false, 0, 0);  // half a snapshot
  ASSERT_EQ(server.task(0)->task_sequence, 3U);
  server.hello(0);
  server.upload(0, first);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(0)->version, 1U);
  EXPECT_TRUE(server.ack(0)->duplicate);
}

TEST(Coordinator, DuplicatesGetTheFirstVerdict) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = upload_of(server, 0);
  server.upload(0, first);
  EXPECT_FALSE(server.ack(0)->duplicate);
  const std::string before = server.coordinator->state_text();
  server.upload(0, first);
  EXPECT_TRUE(server.ack(0)->duplicate);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(0)->version, 1U);
  EXPECT_EQ(server.coordinator->state_text(), before);
  for (uint32_t device = 1; device < 4; ++device) {
    server.upload(device, upload_of(server, device));
  }
  server.pull(0);
  server.upload(0, first);  // sequence 2 is open, 1 was judged
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_TRUE(server.ack(0)->duplicate);
  server.upload(0, upload_of(server, 0));
  server.upload(0, first);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_SUPERSEDED);
  TestUpload unknown = upload_of(server, 0);
  unknown.task_sequence = 99;
  server.upload(0, unknown);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_UNKNOWN_TASK);
}

TEST(Coordinator, AnUpdateThatChangesUnderItsTaskIsNamedAndCountsNoMore) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = upload_of(server, 0);
  server.upload(0, first);
  server.upload(0, first);
  EXPECT_EQ(server.coordinator->counters().updates_changed, 0U);
  const std::string before = server.coordinator->state_text();
  TestUpload other = first;
  other.values[0] += 1;
  server.upload(0, other);
  EXPECT_TRUE(server.ack(0)->duplicate);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.coordinator->counters().updates_changed, 1U);
  EXPECT_TRUE(server.has_log("update_changed device=d0 task=1 reason=corrupt"));
  EXPECT_EQ(server.coordinator->state_text(), before);
  // The next task has another content by right.
  for (uint32_t device = 1; device < 4; ++device) {
    server.upload(device, upload_of(server, device));
  }
  server.pull(0);
  server.upload(0, upload_of(server, 0));
  EXPECT_EQ(server.coordinator->counters().updates_changed, 1U);
}

TEST(Coordinator, ASupersededVerdictWaitsForTheRecordsThatSupersede) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = upload_of(server, 0);
  for (uint32_t device = 0; device < 4; ++device) {
    server.upload(device, upload_of(server, device));
  }
  server.pull(0);
  server.is_auto_persist = false;
  server.upload(0, upload_of(server, 0));
  server.hello(0);
  server.upload(0, first);
  EXPECT_EQ(server.ack(0), nullptr) << "the record of task 2 is not durable";
  server.persist();
  ASSERT_NE(server.ack(0), nullptr);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_SUPERSEDED);
}

TEST(Coordinator, RefusesEachBadUploadByItsName) {
  struct Case {
    gs_Reason reason;
    void (*spoil)(TestUpload*);
  };
  const Case cases[] = {
      {gs_Reason_REASON_WRONG_VERSION, [](TestUpload* u) { u->base_version = 5; }},
      {gs_Reason_REASON_WRONG_ENCODING, [](TestUpload* u) { u->encoding = Encoding::kBf16; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->direction_count = 6; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->steps_done = 4; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->values.resize(4000); }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->kind = StreamKind::kTangentBlock; }},
      {gs_Reason_REASON_TOO_FEW_STEPS,
       [](TestUpload* u) {
         u->steps_done = 1;
         u->values.resize(4);
       }},
      {gs_Reason_REASON_CORRUPT, [](TestUpload* u) { u->crc_error = 1; }},
      {gs_Reason_REASON_OUT_OF_RANGE, [](TestUpload* u) { u->values[3] = 1000; }},
  };
  for (const Case& spoilt : cases) {
    TestServer server(scalar_parameters());
    server.start();
    server.join(1);
    TestUpload upload = upload_of(server, 0);
    spoilt.spoil(&upload);
    server.upload(0, upload);
    ASSERT_NE(server.ack(0), nullptr);
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
    EXPECT_EQ(server.ack(0)->reason, spoilt.reason);
    EXPECT_TRUE(server.has_log(std::string("reason=") + reason_name(spoilt.reason)));
    server.pull(0);
    EXPECT_EQ(server.task(0)->task_sequence, 2U);
  }
}

TEST(Coordinator, AnUploadThatIsNotANumberIsRefused) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  std::vector<DeviceMessage> messages = upload_messages(upload_of(server, 0));
  gs_UpdateScalars& piece = messages[0].body.update_scalars;
  std::memset(piece.values.bytes, 0xff, 4);  // NaN
  piece.crc32c = crc32c(0, piece.values.bytes, piece.values.size);
  server.send(0, messages[0]);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_NOT_FINITE);
}

TEST(Coordinator, ALossThatIsNoNumberIsRefusedByName) {
  for (const RunParameters& p : {scalar_parameters(), tangent_parameters()}) {
    TestServer server(p);
    server.start();
    server.join(2);
    const uint64_t digest = server.coordinator->model().digest();
    const CoordinatorCounters& counters = server.coordinator->counters();
    TestUpload upload = upload_of(server, 0);
    upload.loss_after = NAN;
    server.upload(0, upload);
    ASSERT_NE(server.ack(0), nullptr) << "the session goes on";
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
    EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_NOT_FINITE);
    EXPECT_TRUE(server.has_log("update_refused device=d0 task=1 reason=not_finite"));
    EXPECT_EQ(counters.updates_loss_not_finite, 1U);
    EXPECT_EQ(counters.refusals[gs_Reason_REASON_NOT_FINITE], 1U);
    EXPECT_EQ(server.coordinator->answers_in(), 0U);
    EXPECT_EQ(server.coordinator->model().digest(), digest);
    server.upload(0, upload);
    EXPECT_TRUE(server.ack(0)->duplicate);
    EXPECT_EQ(counters.updates_loss_not_finite, 1U);
    server.pull(0);
    EXPECT_EQ(server.task(0)->task_sequence, 2U) << "and it gets another task";
    upload = upload_of(server, 1);
    upload.loss_before = -INFINITY;
    server.upload(1, upload);
    EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_NOT_FINITE);
    EXPECT_EQ(counters.updates_loss_not_finite, 2U);
    // Values that are no numbers count by their reason alone.
    server.pull(1);
    std::vector<DeviceMessage> messages = upload_messages(upload_of(server, 1));
    if (p.stream() == StreamKind::kScalarStream) {
      gs_UpdateScalars& piece = messages[0].body.update_scalars;
      std::memset(piece.values.bytes, 0xff, 4);
      piece.crc32c = crc32c(0, piece.values.bytes, piece.values.size);
      server.send(1, messages[0]);
      EXPECT_EQ(counters.refusals[gs_Reason_REASON_NOT_FINITE], 3U);
      EXPECT_EQ(counters.updates_loss_not_finite, 2U);
    }
  }
}

TEST(Coordinator, AfterThreeRefusalsADeviceWaitsForTheNextVersion) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  for (int i = 0; i < 3; ++i) {
    TestUpload upload = upload_of(server, 0);
    upload.crc_error = 1;
    server.upload(0, upload);
    server.pull(0);
  }
  EXPECT_EQ(server.task(0)->task_sequence, 3U);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
}

TEST(Coordinator, PiecesOutOfOrderEndTheSession) {
  TestServer server(tangent_parameters());
  server.parameters.shape = {64, 8};
  server.coordinator = std::make_unique<Coordinator>(7, server.parameters, server.names);
  server.start();
  server.join(1);
  const std::vector<DeviceMessage> messages = upload_messages(upload_of(server, 0));
  ASSERT_EQ(messages.size(), 3U);
  server.send(0, messages[0]);
  server.send(0, messages[2]);
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  server.hello(0);
  server.pull(0);
  server.upload(0, upload_of(server, 0));
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
}

// ---- Rounds ----

TEST(Coordinator, OneDigestForAnyOrderOfArrival) {
  for (const bool is_scalar : {true, false}) {
    std::vector<uint32_t> order = {0, 1, 2, 3};
    std::vector<uint64_t> digests;
    do {
      TestServer server(is_scalar ? scalar_parameters() : tangent_parameters());
      server.start();
      server.join(4);
      for (const uint32_t device : order) {
        server.upload(device, upload_of(server, device));
      }
      EXPECT_THAT(server.published, testing::ElementsAre(0, 1));
      digests.push_back(server.coordinator->model().digest());
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(digests.size(), 24U);
    EXPECT_EQ(std::count(digests.begin(), digests.end(), digests[0]), 24);
  }
}

TEST(Coordinator, AtTheDeadlineEnoughAnswersCloseTheRound) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.upload(0, upload_of(server, 0));
  server.upload(1, upload_of(server, 1));
  EXPECT_EQ(server.coordinator->next_tick_ms(), 2000U);
  server.tick_at(1999);
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
  server.tick_at(2000);
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_TRUE(server.has_log("trigger=deadline folded=2 late=0 partial=0 missing=d2,d3"));
  const RoundSummary& round = server.coordinator->last_round();
  EXPECT_EQ(round.asked, 4U);
  EXPECT_EQ(round.wanted, 2U) << "at the deadline fewer are enough";
  EXPECT_EQ(round.time_ms - round.opened_ms, 1000U);
}

TEST(Coordinator, TooFewAnswersExtendThenStallTheRoundByName) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.upload(0, upload_of(server, 0));
  server.tick_at(2000);
  EXPECT_TRUE(server.has_log("round_extended version=0 answers=1 wanted=2 missing=d1,d2,d3"));
  const RoundProgressView view = server.coordinator->round_progress();
  EXPECT_EQ(std::vector<uint64_t>({view.answers, view.wanted, view.extensions, view.opened_ms, view.deadline_ms}),
            std::vector<uint64_t>({1, 2, 1, 1000, 3000}));
  server.tick_at(3000);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
  server.tick_at(4000);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  EXPECT_TRUE(server.has_log("run_stalled version=0 answers=1 wanted=2 missing=d1,d2,d3"));
  EXPECT_EQ(server.coordinator->counters().rounds_extended, 2U);
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  server.pull(0);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_STALLED);
  server.upload(3, upload_of(server, 3));
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
  EXPECT_TRUE(server.has_log("trigger=stall_ended"));
  EXPECT_EQ(server.coordinator->last_round().extensions, 2U);
  EXPECT_EQ(server.coordinator->next_tick_ms(), 5000U);
}

TEST(Coordinator, AWelcomeWaitsForTheVersionThatEndsAStall) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.upload(0, upload_of(server, 0));
  for (const uint64_t at_ms : {2000, 3000, 4000}) {
    server.tick_at(at_ms);
  }
  ASSERT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  server.is_auto_persist = false;
  server.upload(3, upload_of(server, 3));
  ASSERT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
  server.hello(1);
  EXPECT_EQ(server.last(1, gs_ServerMessage_welcome_tag), nullptr);
  server.persist();
  ASSERT_NE(server.last(1, gs_ServerMessage_welcome_tag), nullptr);
  EXPECT_EQ(server.last(1, gs_ServerMessage_welcome_tag)->body.welcome.run_state, gs_RunState_RUN_STATE_ACTIVE);
}

TEST(Coordinator, LateUpdatesAreWeightedAndDoNotCount) {
  for (const bool is_scalar : {true, false}) {
    RunParameters p = deadline_parameters();
    if (!is_scalar) {
      p.solver = SolverId::kGradientStream;
      p.estimator = EstimatorId::kAnalyticGradient;
      p.correction_form = CorrectionForm::kNone;
    }
    TestServer server(p);
    server.start();
    server.join(4);
    const TestUpload late = upload_of(server, 3);
    for (uint32_t device = 0; device < 3; ++device) {
      server.upload(device, upload_of(server, device));
    }
    EXPECT_EQ(server.coordinator->durable_version(), 1U);
    server.upload(3, late);
    EXPECT_EQ(server.ack(3)->verdict, gs_Verdict_VERDICT_LATE);
    EXPECT_EQ(server.ack(3)->version, 2U);
    EXPECT_NEAR(server.ack(3)->staleness_weight, 0.70711F, 1e-4F);
    EXPECT_EQ(server.coordinator->answers_in(), 0U);
    EXPECT_EQ(server.coordinator->round_progress().late, 1U);
    const DeviceStatus status = server.coordinator->device_statuses()[3];
    EXPECT_EQ(status.last_staleness, 1U);
    EXPECT_NEAR(status.last_staleness_weight, 0.70711F, 1e-4F);
    EXPECT_FALSE(status.has_answered);
    server.pull(3);  // and now in time
    EXPECT_EQ(server.task(3)->version, 1U);
    server.round(3);
    EXPECT_EQ(server.coordinator->durable_version(), 2U);
    EXPECT_TRUE(server.has_log("version=2 digest=") && server.has_log("folded=3 late=1"));
    EXPECT_EQ(server.coordinator->counters().updates_late, 1U);
  }
}

TEST(Coordinator, TooStaleOrDroppedLateUpdatesAreRefused) {
  RunParameters p = deadline_parameters();
  p.late = LatePolicy::kDrop;
  TestServer server(p);
  server.start();
  server.join(4);
  const TestUpload late = upload_of(server, 3);
  for (uint32_t device = 0; device < 3; ++device) {
    server.upload(device, upload_of(server, device));
  }
  server.upload(3, late);
  EXPECT_EQ(server.ack(3)->reason, gs_Reason_REASON_TOO_STALE);
  EXPECT_EQ(server.coordinator->counters().refusals[gs_Reason_REASON_TOO_STALE], 1U);
  EXPECT_EQ(server.coordinator->device_statuses()[3].last_reason, gs_Reason_REASON_TOO_STALE);

  TestServer weighted(deadline_parameters());
  weighted.start();
  weighted.join(4);
  const TestUpload stale = upload_of(weighted, 3);
  for (uint32_t device = 0; device < 3; ++device) {
    weighted.upload(device, upload_of(weighted, device));
  }
  weighted.round(3);
  weighted.round(3);
  weighted.upload(3, stale);
  EXPECT_EQ(weighted.ack(3)->reason, gs_Reason_REASON_TOO_STALE);
}

TEST(Coordinator, PartialWorkCountsByItsSteps) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(3);
  for (uint32_t device = 0; device < 3; ++device) {
    TestUpload upload = upload_of(server, device);
    upload.steps_done = device + 1;
    upload.values.resize(4 * (device + 1));
    server.upload(device, upload);
    EXPECT_EQ(server.ack(device)->verdict, gs_Verdict_VERDICT_FOLDED);
  }
  EXPECT_TRUE(server.has_log("folded=3 late=0 partial=2"));
  EXPECT_EQ(server.coordinator->counters().updates_partial, 2U);
  const std::vector<DeviceStatus> statuses = server.coordinator->device_statuses();
  EXPECT_EQ(statuses[1].last_steps, 2U);
  EXPECT_EQ(statuses[1].last_steps_asked, 3U);
  EXPECT_EQ(statuses[1].updates_partial, 1U);
  EXPECT_EQ(statuses[2].updates_partial, 0U);
  // K_eff = (10 * 1 + 20 * 2 + 30 * 3) / 60
  const JournalRecord& record = server.store.records().back();
  EXPECT_EQ(record.kind, RecordKind::kVersion);
  EXPECT_FLOAT_EQ(record.step_scale, 0.05F * 140 / 60);
}

TEST(Coordinator, ARevokedDeviceIsNotWaitedFor) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  for (uint32_t device = 0; device < 3; ++device) {
    server.upload(device, upload_of(server, device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
  server.coordinator->on_device_revoked(3, server.now_ms);
  server.collect();
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.refuse(3)->reason, gs_Reason_REASON_REVOKED);
}

TEST(Coordinator, ADisabledDeviceIsToldThatItMayComeBack) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  server.coordinator->on_device_disabled(1, server.now_ms);
  server.collect();
  EXPECT_EQ(server.refuse(1)->reason, gs_Reason_REASON_INACTIVE);
  server.coordinator->on_device_revoked(1, server.now_ms);  // for good now
  server.hello(1);
  EXPECT_EQ(server.refuse(1)->reason, gs_Reason_REASON_REVOKED);
}

TEST(Coordinator, TheLastRoundFinishesTheRun) {
  RunParameters p = scalar_parameters();
  p.round_count = 2;
  TestServer server(p);
  server.start();
  server.join(4);
  server.round(4);
  server.round(4);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_FINISHED);
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  server.sent.clear();
  server.pull(0, false, 0, 0);  // still brings the last model
  EXPECT_NE(server.last(0, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_FINISHED);
  EXPECT_EQ(server.task(0), nullptr);
}

TEST(Coordinator, AStoppedRunGivesNoTasks) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  server.coordinator->stop(server.now_ms);
  server.collect();
  server.pull(0);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_STOPPED);
  server.upload(1, upload_of(server, 1));
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_TOO_STALE);
  server.restart();
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STOPPED);
}

TEST(Coordinator, UpdatesThatMakeNoStepLeaveTheModel) {
  RunParameters p = tangent_parameters();
  p.manifold = ManifoldId::kEuclidean;
  p.fold_scale_log2 = 0;
  p.server_step = 3e38F;
  TestServer server(p);
  server.start();
  server.join(4);
  const uint64_t digest = server.coordinator->model().digest();
  for (uint32_t device = 0; device < 4; ++device) {
    TestUpload upload = upload_of(server, device);
    std::fill(upload.values.begin(), upload.values.end(), 1e9F);
    server.upload(device, upload);
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->model().digest(), digest);
  EXPECT_TRUE(server.has_log("step_failed version=1"));
}

// ---- Bringing devices up to date ----

void feed(const TestServer& server, uint32_t device, TestReplica* replica) {
  for (const Action& action : server.sent) {
    if (action.session != server.session(device)) {
      continue;
    }
    if (action.message.which_body == gs_ServerMessage_snapshot_chunk_tag) {
      EXPECT_TRUE(replica->take(action.message.body.snapshot_chunk));
    } else if (action.message.which_body == gs_ServerMessage_log_chunk_tag) {
      EXPECT_TRUE(replica->take(action.message.body.log_chunk));
    }
  }
}

TEST(Coordinator, AHundredMissedVersionsComeThroughTheLog) {
  RunParameters p = scalar_parameters();
  p.update_goal = 3;
  p.log_size_max = 1 << 20;
  p.record_encoding = Encoding::kInt8;
  TestServer server(p);
  server.start();
  server.join(4);
  TestReplica replica(p);
  feed(server, 3, &replica);
  EXPECT_EQ(replica.replica.version(), 0U);
  for (int i = 0; i < 100; ++i) {
    server.round(3);
  }
  ASSERT_EQ(server.coordinator->durable_version(), 100U);
  server.sent.clear();
  server.pull(3, true, 0, replica.replica.digest());
  feed(server, 3, &replica);
  EXPECT_EQ(replica.records, 100U);
  EXPECT_EQ(replica.snapshots, 1U);
  EXPECT_EQ(replica.replica.version(), 100U);
  EXPECT_EQ(replica.replica.digest(), server.coordinator->model().digest());
}

TEST(Coordinator, ALongerLogIsReplacedByASnapshot) {
  RunParameters p = scalar_parameters();
  p.update_goal = 3;
  TestServer server(p);
  server.start();
  server.join(4);
  TestReplica replica(p);
  feed(server, 3, &replica);
  const uint64_t digest = replica.replica.digest();
  server.round(3);
  server.sent.clear();
  server.pull(3, true, 0, digest);  // 48 bytes against 128
  EXPECT_NE(server.last(3, gs_ServerMessage_log_chunk_tag), nullptr);
  EXPECT_EQ(server.last(3, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  for (int i = 0; i < 3; ++i) {
    server.round(3);
  }
  server.sent.clear();
  server.pull(3, true, 0, digest);
  EXPECT_EQ(server.last(3, gs_ServerMessage_log_chunk_tag), nullptr);
  EXPECT_NE(server.last(3, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  EXPECT_TRUE(server.has_log("cause=shorter"));
}

TEST(Coordinator, AWrongModelIsRepairedAtItsOwnVersionThenByRecords) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  TestReplica replica(server.parameters);
  feed(server, 0, &replica);
  server.round(4);
  replica.replica.flip_bit_for_test(17);
  server.sent.clear();
  server.pull(0, true, 0, replica.replica.digest());
  feed(server, 0, &replica);
  EXPECT_EQ(replica.snapshots, 2U);
  EXPECT_EQ(replica.records, 1U);
  EXPECT_EQ(replica.replica.digest(), server.coordinator->model().digest());
  EXPECT_EQ(server.coordinator->counters().digest_mismatches, 1U);
  EXPECT_TRUE(server.has_log("digest_mismatch device=d0 version=0"));
  server.sent.clear();
  server.pull(0, true, 55, 1);  // a version that never was
  feed(server, 0, &replica);
  EXPECT_EQ(replica.snapshots, 3U);
  EXPECT_EQ(server.coordinator->counters().digest_mismatches, 1U) << "no fault of its memory";
  EXPECT_EQ(server.coordinator->counters().devices_ahead, 1U);
}

// ---- Storage ----

TEST(Coordinator, WithoutStorageUpdatesAreToTryLater) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  server.is_auto_persist = false;
  server.upload(0, upload_of(server, 0));
  server.coordinator->on_storage_failed(server.now_ms);
  server.collect();
  EXPECT_TRUE(server.has_log("storage_failed"));
  server.upload(1, upload_of(server, 1));
  ASSERT_NE(server.ack(1), nullptr);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_TRY_LATER);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_STORAGE);
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  EXPECT_EQ(server.pending.size(), 1U);
  EXPECT_EQ(server.ack(0), nullptr);
  server.persist();
  server.coordinator->on_storage_recovered(server.now_ms);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  server.upload(1, upload_of(server, 1));
  server.persist();
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
}

TEST(Coordinator, WithoutStorageAWelcomeThatWouldHaveToWaitIsRefused) {
  TestServer server(scalar_parameters());
  server.start();
  close_version_on_its_way(server);
  server.coordinator->on_storage_failed(server.now_ms);
  server.hello(0);
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_STORAGE);
  EXPECT_EQ(server.last(0, gs_ServerMessage_welcome_tag), nullptr);
}

// ---- Recovery ----

// A run with everything in it: late, partial, refused, abandoned, extended, stalled, revived.
void live(TestServer* server, uint32_t rounds) {
  server->start();
  server->join(4);
  RandomStream dice({});
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t device = 0; device < 4; ++device) {
      const uint32_t luck = dice.next() % 10;
      if (luck == 0) {
        gs_Hello hello = good_hello(10 * (device + 1));
        hello.lost_task_sequence = server->task(device) == nullptr ? 0 : server->task(device)->task_sequence;
        server->hello(device, hello);
      }
      if (luck != 1 || server->task(device) == nullptr) {
        server->pull(device);
      }
      if (luck == 2 || server->task(device) == nullptr) {
        continue;
      }
      TestUpload upload = upload_of(*server, device);
      if (luck == 3) {
        upload.crc_error = 1;
      } else if (luck == 4 && upload.kind == StreamKind::kScalarStream) {
        upload.steps_done = 2;
        upload.values.resize(8);
      }
      server->upload(device, upload);
    }
    server->tick_at(server->now_ms + 1 + dice.next() % 1500);
  }
}

// Of rounds before its start a recovered server tells what the live one told, but what the journal does not know.
TEST(Coordinator, RecoveryRemembersTheRounds) {
  const RunParameters parameters = deadline_parameters();
  TestServer alive(parameters);
  live(&alive, 40);
  const std::vector<RoundSummary> told(alive.rounds.begin() + 1, alive.rounds.end());  // no round made version 0
  Coordinator recovered(7, parameters, alive.names);
  EXPECT_TRUE(recovered.replayed_rounds().empty());
  for (const JournalRecord& record : alive.store.records()) {
    ASSERT_EQ(recovered.replay(record), Status::kOk);
  }
  ASSERT_GT(told.size(), 10U);
  ASSERT_EQ(recovered.replayed_rounds().size(), told.size());
  for (size_t i = 0; i < told.size(); ++i) {
    RoundSummary wanted = told[i];
    wanted.asked = wanted.wanted = 0;
    wanted.missing.clear();
    EXPECT_EQ(recovered.replayed_rounds()[i], wanted) << i;
  }
}

// The server comes back after every single record: as the undisturbed one stood there, or, where that one went on at
// once, deciding by itself what that one decided.
void recover_after_every_record(const RunParameters& parameters) {
  TestServer alive(parameters);
  live(&alive, 40);
  const std::vector<JournalRecord>& records = alive.store.records();
  ASSERT_GT(records.size(), 200U);
  size_t compared = 0;
  size_t decided = 0;
  for (size_t count = 1; count <= records.size(); ++count) {
    Coordinator recovered(7, parameters, alive.names);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(recovered.replay(records[i]), Status::kOk) << i;
    }
    const auto state = alive.states.find(count);
    if (state != alive.states.end()) {
      ASSERT_EQ(recovered.state_text(), state->second) << count;
      ++compared;
    }
    recovered.start(0);
    for (const Action& action : recovered.take_actions()) {
      if (action.kind == ActionKind::kPersist) {
        JournalRecord next = records[action.record.sequence - 1];
        next.time_ms = action.record.time_ms;
        EXPECT_EQ(action.record, next) << count;
        ++decided;
      }
    }
  }
  EXPECT_GT(compared, 100U);
  EXPECT_GT(decided, 5U);
  EXPECT_EQ(compared + decided, records.size());
}

TEST(Coordinator, RecoversAfterEveryRecordOfAScalarRun) { recover_after_every_record(deadline_parameters()); }

TEST(Coordinator, RecoversAfterEveryRecordOfATangentRun) {
  RunParameters p = deadline_parameters();
  p.solver = SolverId::kGradientStream;
  p.estimator = EstimatorId::kAnalyticGradient;
  p.correction_form = CorrectionForm::kNone;
  recover_after_every_record(p);
}

TEST(Coordinator, RecoversAfterEveryRecordOfTimedWorkUnderACap) {
  RunParameters p = deadline_parameters();
  p.work = Work::kTimed;
  p.steps_min = 1;
  p.weight_share_max = 0.4F;
  recover_after_every_record(p);
}

TEST(Coordinator, AWrongJournalIsNoticed) {
  TestServer alive(scalar_parameters());
  alive.start();
  alive.join(4);
  alive.round(4);
  const std::vector<JournalRecord> good = alive.store.records();
  for (size_t spoilt = 0; spoilt < good.size(); ++spoilt) {
    for (int how = 0; how < 3; ++how) {
      JournalRecord bad = good[spoilt];
      if (how == 0) {
        bad.sequence += 1;
      } else if (how == 1) {
        bad.device = 77;
        bad.digest ^= 1;
      } else {
        bad.task_sequence += 5;
        bad.version += 1;
      }
      Coordinator recovered(7, alive.parameters, alive.names);
      Status status = Status::kOk;
      for (size_t i = 0; i < spoilt; ++i) {
        status = recovered.replay(good[i]);
      }
      ASSERT_EQ(status, Status::kOk);
      EXPECT_EQ(recovered.replay(bad), Status::kDataCorrupt) << spoilt << " " << how;
    }
  }
}

// The database as it was in the middle of the round of version 2, devices as they are at version 5: every answer since
// counts once more or not at all, never twice, and with the same answers the run comes to the same model.
TEST(Coordinator, ARestoredJournalThatIsOlderThanTheDevices) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  server.round(4);
  server.round(4);
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device);
  }
  server.upload(0, upload_of(server, 0));
  const std::vector<JournalRecord> copy = server.store.records();  // tasks of all are out, one answer is in
  const TestUpload issued_before = upload_of(server, 1);
  for (uint32_t device = 1; device < 4; ++device) {
    server.upload(device, upload_of(server, device));
  }
  server.round(4);
  server.round(4);
  ASSERT_EQ(server.coordinator->durable_version(), 5U);
  const uint64_t digest_of_5 = server.coordinator->model().digest();
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device);
  }
  const TestUpload issued_after = upload_of(server, 2);
  ASSERT_GT(issued_after.task_sequence, issued_before.task_sequence);

  server.store = StoreMemory();
  ASSERT_EQ(server.store.append(copy), StoreStatus::kOk);
  server.restart();
  ASSERT_EQ(server.coordinator->durable_version(), 2U);
  for (uint32_t device = 0; device < 4; ++device) {
    gs_Hello hello = good_hello(10 * (device + 1));
    hello.has_model = true;
    hello.version = 5;
    hello.digest = digest_of_5;
    server.hello(device, hello);
    EXPECT_EQ(server.refuse(device), nullptr);
  }
  server.upload(2, issued_after);
  EXPECT_EQ(server.ack(2)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(2)->reason, gs_Reason_REASON_UNKNOWN_TASK) << "its task was issued after the copy";
  server.upload(1, issued_before);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED) << "its task was issued before, and is open";
  EXPECT_FALSE(server.ack(1)->duplicate);
  server.upload(1, issued_before);
  EXPECT_TRUE(server.ack(1)->duplicate);
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device, true, 5, digest_of_5);
    EXPECT_NE(server.last(device, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  }
  EXPECT_EQ(server.coordinator->counters().devices_ahead, 4U);
  EXPECT_EQ(server.coordinator->counters().digest_mismatches, 0U);
  EXPECT_TRUE(server.has_log("device_ahead device=d0 version=5 current=2"));
  ASSERT_NE(server.wait(0), nullptr);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_ANSWERED) << "its answer is in the copy";
  for (const uint32_t device : {2U, 3U}) {
    server.upload(device, server.good_upload(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 3U);
  server.round(4);
  server.round(4);
  EXPECT_EQ(server.coordinator->durable_version(), 5U);
  EXPECT_EQ(server.coordinator->model().digest(), digest_of_5);
}

// Between two lives of the server the clock jumps by a day: deadlines begin anew, and tasks that are out are answered.
TEST(Coordinator, ASystemClockThatJumpsBetweenTwoLivesEndsNothing) {
  constexpr uint64_t kDayMs = 86'400'000;
  for (const bool is_forward : {false, true}) {
    RunParameters p = deadline_parameters();
    p.step_time_min_us = 1000;
    TestServer server(p);
    server.now_ms = 10 * kDayMs;
    server.start();
    server.join(4);
    server.now_ms += 100;  // time for its steps
    server.upload(0, upload_of(server, 0));
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
    const TestUpload task_is_out = upload_of(server, 1);
    server.now_ms = is_forward ? server.now_ms + kDayMs : server.now_ms - kDayMs;
    server.restart();
    EXPECT_EQ(server.coordinator->next_tick_ms(), server.now_ms + p.report_deadline_ms);
    server.coordinator->on_tick(server.now_ms);
    EXPECT_EQ(server.coordinator->durable_version(), 0U) << "no deadline has passed";
    server.hello(1);
    server.upload(1, task_is_out);
    EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
    server.tick_at(server.now_ms + p.report_deadline_ms);
    EXPECT_EQ(server.coordinator->durable_version(), 1U) << "by two answers, after T";
  }
}

TEST(Coordinator, GoesOnAfterARestartInTheMiddleOfARound) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  server.upload(0, upload_of(server, 0));
  const TestUpload second = upload_of(server, 1);
  server.restart();
  EXPECT_EQ(server.coordinator->answers_in(), 1U);
  server.hello(1);
  server.upload(1, second);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  for (uint32_t device = 2; device < 4; ++device) {
    server.hello(device);
    server.pull(device);
    server.upload(device, upload_of(server, device));
  }
  TestServer undisturbed(scalar_parameters());
  undisturbed.start();
  undisturbed.join(4);
  undisturbed.round(4);
  EXPECT_EQ(server.coordinator->model().digest(), undisturbed.coordinator->model().digest());
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
}

}  // namespace
}  // namespace gradstream
