// Sessions, the limit of their messages, tasks, and how a device comes up to date.
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/coordinator/coordinator.h"
#include "server/run/canonical_text.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// ---- Hello ----

TEST(CoordinatorSessions, WelcomeSaysWhatTheRunIs) {
  RunParameters p = scalar_parameters();
  p.local->group_count = 2;
  TestServer server(p);
  server.start();
  server.hello(3);
  const ServerMessage* message = server.last(3, gs_ServerMessage_welcome_tag);
  ASSERT_NE(message, nullptr);
  const gs_Welcome& welcome = message->body.welcome;
  EXPECT_EQ(welcome.run, 7U);
  EXPECT_EQ(welcome.parameters_digest, parameters_digest(p, 0));
  EXPECT_EQ(welcome.rows, 16U);
  EXPECT_EQ(welcome.cols, 2U);
  EXPECT_EQ(welcome.direction_count, 4U);
  EXPECT_EQ(welcome.client_index, 3U);
  EXPECT_EQ(welcome.group, 1U);
  EXPECT_TRUE(welcome.shared_directions);
}

TEST(CoordinatorSessions, RefusesBadHellosByName) {
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

// ---- What devices are told of the journal, and what they say of it ----

gs_Hello hello_with(const gs_Welcome& told) {
  gs_Hello hello = good_hello(1);
  hello.journal_sequence = told.journal_sequence;
  hello.journal_chain = told.journal_chain;
  hello.parameters_digest = told.parameters_digest;
  return hello;
}

gs_Welcome welcome_of(const TestServer& server, uint32_t device) {
  const ServerMessage* const message = server.last(device, gs_ServerMessage_welcome_tag);
  GS_ASSERT(message != nullptr);
  return message->body.welcome;
}

// A fleet of four in its third version.
struct KnownJournal {
  KnownJournal() : server(scalar_parameters()) {
    server.notes_chain = true;
    server.start();
    server.join(4);
    server.round(4);
    server.round(4);
  }
  // The server of an older copy, with the first records alone.
  std::unique_ptr<TestServer> restored(size_t record_count) const {
    auto older = std::make_unique<TestServer>(server.parameters);
    const std::vector<JournalRecord>& all = server.store.records();
    GS_ASSERT(older->store.append(std::span(all).first(record_count)) == StoreStatus::kOk);
    older->notes_chain = true;
    older->now_ms = server.now_ms + 1000;  // all that it decides is another history
    older->restart();
    return older;
  }
  TestServer server;
};

TEST(CoordinatorSessions, AWelcomeNamesARecordThatIsDurable) {
  KnownJournal known;
  TestServer& server = known.server;
  server.is_auto_persist = false;
  server.pull(0);  // a task, which is on its way to the disk
  const uint64_t durable = server.store.records().back().sequence();
  ASSERT_GT(server.coordinator->last_sequence(), durable);
  server.hello(1);
  ChainHead end;
  ASSERT_EQ(server.store.read_chain_end(&end), StoreStatus::kOk);
  EXPECT_EQ(welcome_of(server, 1).journal_sequence, durable);
  EXPECT_EQ(welcome_of(server, 1).journal_chain, mark_of(end).chain);
  gs_Hello old_image = good_hello(1);
  old_image.capabilities.features &= ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_JOURNAL_HEAD));
  server.hello(2, old_image);
  EXPECT_EQ(welcome_of(server, 2).journal_sequence, 0U);
  EXPECT_EQ(welcome_of(server, 2).journal_chain, 0U);
}

TEST(CoordinatorSessions, ADeviceThatComesBackIsOfTheSameJournal) {
  KnownJournal known;
  TestServer& server = known.server;
  for (int life = 0; life < 2; ++life) {
    for (uint32_t device = 0; device < 4; ++device) {
      server.hello(device, hello_with(welcome_of(server, device)));
    }
    server.round(4);
    server.restart();
  }
  EXPECT_EQ(server.coordinator->counters().history.journal_forked, 0U);
}

TEST(CoordinatorSessions, ARestoredCopyIsNamedByTheFirstDeviceAndServesIt) {
  KnownJournal known;
  known.server.hello(2, good_hello(1));
  const gs_Welcome told = welcome_of(known.server, 2);
  for (size_t count = 1; count < told.journal_sequence; ++count) {
    const auto older = known.restored(count);
    older->hello(2, hello_with(told));
    EXPECT_EQ(older->coordinator->counters().history.journal_forked, 1U) << count;
    EXPECT_TRUE(
        older->has_log("journal_forked device=d2 sequence=" + std::to_string(told.journal_sequence) + " finding="))
        << count;
    EXPECT_EQ(older->log_level("journal_forked"), LogLevel::kWarn);
    older->pull(2, false, 0, 0);
    EXPECT_TRUE(older->task(2) != nullptr || older->wait(2) != nullptr) << "it works on";
    older->hello(2, hello_with(welcome_of(*older, 2)));
    EXPECT_EQ(older->coordinator->counters().history.journal_forked, 1U) << "of this journal it was told now";
  }
  const auto same = known.restored(told.journal_sequence);
  same->hello(2, hello_with(told));
  EXPECT_EQ(same->coordinator->counters().history.journal_forked, 0U);
}

// Each device once, until it fits again a day later, or takes part no more.
TEST(CoordinatorSessions, DevicesThatKnowAnotherJournalAreCounted) {
  KnownJournal known;
  known.server.hello(2, good_hello(1));
  known.server.hello(3, good_hello(1));
  const gs_Hello of_2 = hello_with(welcome_of(known.server, 2));
  const gs_Hello of_3 = hello_with(welcome_of(known.server, 3));
  const auto older = known.restored(6);
  const auto knows_other = [&older](uint32_t device) {
    return older->coordinator->device_statuses()[device].oddity.knows_other_journal;
  };
  older->hello(2, of_2);
  older->hello(2, of_2);
  EXPECT_FALSE(older->has_log("devices=2")) << "the same one twice";
  older->hello(3, of_3);
  EXPECT_TRUE(older->has_log("devices=2"));
  older->hello(3, hello_with(welcome_of(*older, 3)));
  EXPECT_TRUE(knows_other(2) && knows_other(3)) << "an operator has the time to see it";
  older->now_ms += kForkToldMs;
  older->hello(3, hello_with(welcome_of(*older, 3)));
  EXPECT_TRUE(knows_other(2));
  EXPECT_FALSE(knows_other(3));
  older->coordinator->on_device_disabled(2, older->now_ms);
  older->coordinator->on_device_restored(2, older->now_ms);
  EXPECT_FALSE(knows_other(2));
  older->hello(3, of_3);
  EXPECT_TRUE(knows_other(3)) << "a difference counts anew";
}

// Defect: a copy that was made while a session lasted was noticed by nobody, as Welcome alone named a record.
TEST(CoordinatorSessions, ACopyOfTheMiddleOfASessionIsNamed) {
  KnownJournal known;
  TestServer& server = known.server;
  const gs_Welcome welcome = welcome_of(server, 2);
  const size_t copied = server.store.records().size();
  EXPECT_EQ(server.task(2)->journal_sequence, 0U) << "its Welcome was just now";
  server.now_ms += 59'999;
  server.round(4);
  EXPECT_EQ(server.task(2)->journal_sequence, 0U) << "once a minute";
  server.now_ms += 1;
  server.pull(2);
  const gs_Task told = *server.task(2);
  EXPECT_GT(told.journal_sequence, copied);
  EXPECT_LE(told.journal_sequence, server.store.records().back().sequence());
  EXPECT_EQ(find_mark(server.store, {told.journal_sequence, told.journal_chain}), MarkFinding::kSame);
  server.now_ms += 59'999;
  server.round(4);
  server.pull(2);
  EXPECT_NE(server.task(2)->task_sequence, told.task_sequence);
  EXPECT_EQ(server.task(2)->journal_sequence, 0U) << "not a minute after the last one";

  gs_Hello hello = hello_with(welcome);
  const auto older = known.restored(copied);
  older->hello(2, hello);
  EXPECT_EQ(older->coordinator->counters().history.journal_forked, 0U) << "what the Welcome named is in the copy";
  hello.journal_sequence = told.journal_sequence;
  hello.journal_chain = told.journal_chain;
  older->hello(2, hello);
  EXPECT_TRUE(older->has_log("finding=no_such_record"));
  const auto clone = known.restored(copied);
  clone->join(4);
  while (clone->coordinator->last_sequence() <= told.journal_sequence) {
    clone->round(4);
  }
  clone->hello(2, hello);
  EXPECT_TRUE(clone->has_log("finding=another_record"));
  server.hello(2, hello);
  EXPECT_EQ(server.coordinator->counters().history.journal_forked, 0U) << "its own journal has it";
}

TEST(CoordinatorSessions, AnOldImageIsToldOfNoRecordByATask) {
  KnownJournal known;
  gs_Hello old_image = good_hello(1);
  old_image.capabilities.features &= ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_JOURNAL_HEAD));
  known.server.hello(2, old_image);
  known.server.now_ms += 3'600'000;
  known.server.pull(2);
  ASSERT_NE(known.server.task(2), nullptr);
  EXPECT_EQ(known.server.task(2)->journal_sequence, 0U);
  EXPECT_EQ(known.server.task(2)->journal_chain, 0U);
}

// Nothing was durable when the device came: it need not wait for a minute.
TEST(CoordinatorSessions, TheFirstTaskNamesARecordWhereTheWelcomeCouldNot) {
  TestServer server(scalar_parameters());
  server.notes_chain = true;
  server.is_auto_persist = false;
  server.start();
  server.hello(0);
  server.persist();
  EXPECT_EQ(welcome_of(server, 0).journal_sequence, 0U);
  server.pull(0, false, 0, 0);
  server.persist();
  ASSERT_NE(server.task(0), nullptr);
  EXPECT_GT(server.task(0)->journal_sequence, 0U);
}

TEST(CoordinatorSessions, AHistoryThatWentAnotherWayIsNamed) {
  KnownJournal known;
  known.server.hello(2, good_hello(1));
  const gs_Welcome told = welcome_of(known.server, 2);
  const auto older = known.restored(1);  // version 0
  older->join(4);
  older->round(4);
  older->round(4);
  older->round(4);
  ASSERT_GT(older->coordinator->last_sequence(), told.journal_sequence);
  older->hello(2, hello_with(told));
  EXPECT_TRUE(older->has_log("finding=another_record"));
}

TEST(CoordinatorSessions, OnlyAJournalOfThisRunIsJudged) {
  KnownJournal known;
  known.server.hello(2, good_hello(1));
  gs_Hello hello = hello_with(welcome_of(known.server, 2));
  hello.parameters_digest += 1;
  const auto older = known.restored(6);
  older->hello(2, hello);
  hello.parameters_digest = 0;
  older->hello(2, hello);
  hello = hello_with(welcome_of(known.server, 2));
  hello.journal_sequence = 0;
  older->hello(2, hello);
  EXPECT_EQ(older->coordinator->counters().history.journal_forked, 0U);
}

TEST(CoordinatorSessions, ADeviceThatSaysItAgainAndAgainDoesNotFillTheLog) {
  KnownJournal known;
  known.server.hello(2, good_hello(1));
  const gs_Hello hello = hello_with(welcome_of(known.server, 2));
  const auto older = known.restored(6);
  for (int i = 0; i < 200; ++i) {
    older->hello(2, hello);
  }
  EXPECT_EQ(older->coordinator->counters().history.journal_forked, 200U);
  EXPECT_LT(older->log_count("journal_forked "), 20U);
}

// ---- The first message ----

TEST(CoordinatorSessions, NothingComesBeforeHelloAndHelloOnce) {
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

TEST(CoordinatorSessions, TheNewerSessionOfADeviceWins) {
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

TEST(CoordinatorSessions, ADisabledDeviceIsToldThatItMayComeBack) {
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

TEST(CoordinatorSessions, AReportIsLoggedOnceASessionAndSafely) {
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
  server.clear_logs();
  server.send(0, message);
  EXPECT_FALSE(server.has_log("device_report"));
  server.hello(0, hello);
  server.send(0, message);
  EXPECT_TRUE(server.has_log("device_report"));
}

// ---- Tasks ----

TEST(CoordinatorSessions, AnImageWithoutTheSolverGetsNoTask) {
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
  refused.body.task_refused = {
      server.task(1)->task_sequence, gs_Reason_REASON_OUT_OF_MEMORY, 0, 0, 0, 0, gs_Floor_FLOOR_NONE};
  server.send(1, refused);
  EXPECT_EQ(server.wait(1)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  EXPECT_EQ(server.coordinator->counters().tasks_refused, 1U);
  EXPECT_EQ(server.coordinator->counters().updates_refused, 0U) << "no update has come";
  EXPECT_FALSE(server.has_log("update_refused"));
}

TEST(CoordinatorSessions, ARefusedDeviceStaysAwayHoweverShortTheWindowsOfTheRun) {
  RunParameters p = scalar_parameters();
  p.pace->retry_min_ms = 5;
  p.pace->retry_max_ms = 10;
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
    TestUpload upload = server.good_upload(1);
    upload.crc_error = 1;
    server.upload(1, upload);
    EXPECT_LT(server.ack(1)->retry.max_ms, kRefusedRetryMinMs) << "the next task may go well";
    server.pull(1);
  }
  ASSERT_NE(server.wait(1), nullptr);
  EXPECT_TRUE(is_long(server.wait(1)->retry)) << "three refusals in one version";
  server.hello(2);
  server.pull(2, false, 0, 0);
  server.upload(2, server.good_upload(2));
  EXPECT_EQ(server.ack(2)->retry.max_ms, 10U) << "nobody else waits longer";
}

TEST(CoordinatorSessions, AnOpenTaskIsIssuedAgainWithItsSequence) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  EXPECT_EQ(server.task(0)->task_sequence, 1U);
  server.hello(0);
  server.pull(0);
  EXPECT_EQ(server.task(0)->task_sequence, 1U);
  EXPECT_EQ(server.coordinator->counters().tasks_issued, 1U);
}

TEST(CoordinatorSessions, ALostTaskIsAbandonedAndANewOneIssued) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  gs_Hello hello = good_hello(1);
  hello.lost_task_sequence = 1;
  server.hello(0, hello);
  EXPECT_TRUE(server.last(0, gs_ServerMessage_welcome_tag)->body.welcome.abandoned);
  server.pull(0);
  EXPECT_EQ(server.task(0)->task_sequence, 2U);
  TestUpload old = server.good_upload(0);
  old.task_sequence = 1;
  server.upload(0, old);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_ABANDONED);
  EXPECT_TRUE(server.ack(0)->duplicate);
  server.hello(1);
  server.pull(1, false, 0, 0);  // it lost its model, and its work with it
  EXPECT_EQ(server.task(1)->task_sequence, 2U);
  EXPECT_EQ(server.coordinator->counters().tasks_abandoned, 2U);
}

TEST(CoordinatorSessions, AfterThreeRefusalsADeviceWaitsForTheNextVersion) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  for (int i = 0; i < 3; ++i) {
    TestUpload upload = server.good_upload(0);
    upload.crc_error = 1;
    server.upload(0, upload);
    server.pull(0);
  }
  EXPECT_EQ(server.task(0)->task_sequence, 3U);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
}

// ---- The limit of messages ----

// What is sent beyond the limit changes nothing of the run.
TEST(CoordinatorSessions, AFloodOfOneDeviceIsToldToComeLaterAndTheRunGoesOn) {
  TestServer calm(scalar_parameters());
  TestServer server(scalar_parameters());
  for (TestServer* const each : {&calm, &server}) {
    each->start();
    each->coordinator->set_limits({{10, 5}});
    each->join(4);
  }
  const TestUpload upload = server.good_upload(0);
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
  EXPECT_EQ(server.log_count("rate_limited device=d0"), 1U);
  calm.upload(0, upload);
  for (uint32_t device = 1; device < 4; ++device) {
    calm.upload(device, calm.good_upload(device));
    server.upload(device, server.good_upload(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  server.now_ms += kRefusedRetryMinMs;
  server.hello(0);
  server.pull(0, false, 0, 0);
  EXPECT_EQ(server.task(0)->version, 1U) << "who comes back in its time is served";
  EXPECT_EQ(server.coordinator->model().digest(), calm.coordinator->model().digest());
}

// Below its rate limit, with Pulls that need no work: a model that it has just been sent, a task that it just got.
TEST(CoordinatorSessions, AQuietFloodMakesFewRecordsCopiesAndLines) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const size_t records = server.store.records().size();
  const size_t sent = server.sent.size();
  const uint64_t begin_ms = server.now_ms;
  constexpr uint32_t kMinutes = 3;
  uint32_t pull_count = 0;
  for (; server.now_ms < begin_ms + kMinutes * 60000; server.now_ms += 5) {
    server.pull(0, false, 0, 0);
    ++pull_count;
  }
  EXPECT_LE(server.store.records().size() - records, 10 * kMinutes);
  EXPECT_GT(server.store.records().size(), records) << "a crash in the middle of a task is no flood";
  size_t copies = 0;
  for (size_t i = sent; i < server.sent.size(); ++i) {
    copies += server.sent[i].message.which_body == gs_ServerMessage_snapshot_chunk_tag ? 1 : 0;
  }
  EXPECT_LE(copies, kMinutes * 60 + 16) << "one a second of a model that fits a message";
  EXPECT_EQ(server.coordinator->counters().copies_refused, pull_count - copies);
  for (const char* const event : {"snapshot_sent", "task_abandoned", "copy_refused"}) {
    EXPECT_LE(server.log_count(event), kMinutes * 60 + 16U) << event;
  }
  // Who waited long enough works as before, and the others never noticed.
  server.now_ms += 60000;
  server.pull(0, false, 0, 0);
  const TestUpload upload = server.good_upload(0);
  server.upload(0, upload);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  for (uint32_t device = 1; device < 4; ++device) {
    server.upload(device, server.good_upload(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
}

TEST(CoordinatorSessions, ALargeModelIsCopiedByItsSize) {
  RunParameters parameters = scalar_parameters();
  parameters.model->shape = {4096, 16};  // 256 KiB: four pieces of kCopyPieceSize
  TestServer server(parameters);
  server.start();
  server.join(4);
  const uint64_t before = server.coordinator->counters().snapshots_sent;
  for (int second = 0; second < 40; ++second, server.now_ms += 1000) {
    for (int i = 0; i < 10; ++i) {
      server.pull(0, false, 0, 0);
    }
  }
  const uint64_t copies = server.coordinator->counters().snapshots_sent - before;
  EXPECT_GE(copies, (16 + 39) / 5U);
  EXPECT_LE(copies, (16 + 40) / 4U + 1);
  const uint64_t others = server.coordinator->counters().snapshots_sent;
  server.pull(1, false, 0, 0);
  EXPECT_EQ(server.coordinator->counters().snapshots_sent, others + 1) << "each device has its own limit";
}

TEST(CoordinatorSessions, RepeatedSessionsAreLoggedWithinALimit) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  for (int i = 0; i < 500; ++i) {
    server.hello(0);
  }
  EXPECT_EQ(server.coordinator->counters().sessions_replaced, 500U);
  EXPECT_EQ(server.log_count("session_replaced"), 15U) << "and one of its first model";
  server.now_ms += 2000;
  server.hello(0);
  EXPECT_TRUE(server.has_log("more_since_the_last=485"));
}

// A task that was decided and is not on the disk must not leave. The device is told, and not left to its deadline.
TEST(CoordinatorSessions, OnAFullDiskATaskThatIsNotDurableIsRefusedByName) {
  TestServer server(scalar_parameters());
  server.start();
  for (uint32_t device = 0; device < 4; ++device) {
    server.hello(device);
  }
  server.is_auto_persist = false;
  server.pull(0, true, 0, server.coordinator->model().digest());
  EXPECT_EQ(server.task(0), nullptr) << "held for its record";
  server.coordinator->on_storage_failed(server.now_ms);
  server.collect();
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_STORAGE);
  EXPECT_EQ(server.closed.size(), 1U);
  server.hello(0);
  server.pull(0, true, 0, server.coordinator->model().digest());
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_STORAGE) << "the same task, in another session";
  EXPECT_EQ(server.task(0), nullptr);
  server.persist();
  server.coordinator->on_storage_recovered(server.now_ms);
  server.is_auto_persist = true;
  server.collect();
  server.hello(0);
  server.pull(0, true, 0, server.coordinator->model().digest());
  ASSERT_NE(server.task(0), nullptr);
  EXPECT_EQ(server.task(0)->task_sequence, 1U);
}

TEST(CoordinatorSessions, ALimitedUploadIsAnsweredAfterItsLastPiece) {
  RunParameters p = tangent_parameters();
  p.model->shape = {64, 8};
  TestServer server(p);
  server.start();
  server.join(1);
  server.coordinator->set_limits({{1, 1}});
  server.pull(0);  // the only message of this second
  const std::vector<DeviceMessage> pieces = upload_messages(server.good_upload(0));
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

TEST(CoordinatorSessions, AHundredMissedVersionsComeThroughTheLog) {
  RunParameters p = scalar_parameters();
  p.trigger->update_goal = 3;
  p.wire->log_size_max = 1 << 20;
  p.wire->record_encoding = Encoding::kInt8;
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

TEST(CoordinatorSessions, ALongerLogIsReplacedByASnapshot) {
  RunParameters p = scalar_parameters();
  p.trigger->update_goal = 3;
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

TEST(CoordinatorSessions, AWrongModelIsRepairedAtItsOwnVersionThenByRecords) {
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
  EXPECT_EQ(server.coordinator->counters().history.devices_ahead, 1U);
}

TEST(CoordinatorSessions, ADeviceThatHeldALaterVersionIsToldOfForADay) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  const auto is_told = [&server] { return server.coordinator->device_statuses()[0].oddity.holds_later_version; };
  EXPECT_FALSE(is_told());
  server.pull(0, true, 55, 1);
  EXPECT_TRUE(is_told());
  EXPECT_FALSE(server.coordinator->device_statuses()[1].oddity.holds_later_version);
  server.pull(0);
  EXPECT_TRUE(is_told()) << "an operator has the time to see it";
  server.now_ms += kForkToldMs;
  server.pull(0);
  EXPECT_FALSE(is_told());
  server.pull(0, true, 55, 1);
  EXPECT_TRUE(is_told()) << "and anew";
  server.coordinator->on_device_disabled(0, server.now_ms);
  EXPECT_FALSE(is_told());
}

}  // namespace
}  // namespace gradstream
