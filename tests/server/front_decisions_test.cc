// What a front makes of single messages; front_test.cc has the batches.
#include <gtest/gtest.h>

#include "tests/support/test_node.h"

namespace gradstream {
namespace {

TEST(FrontDecisions, AWelcomeNamesTheRunAndItsVersion) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.hello(1);
  EXPECT_TRUE(node.sent.empty()) << "its row is not there yet";
  node.settle();
  const ServerMessage* const message = node.last(1, gs_ServerMessage_welcome_tag);
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->body.welcome.run, 7U);
  EXPECT_EQ(message->body.welcome.run_state, gs_RunState_RUN_STATE_ACTIVE);
  EXPECT_EQ(message->body.welcome.parameters_digest, parameters_digest(node.parameters, 0));
  EXPECT_FALSE(message->body.welcome.abandoned);
}

TEST(FrontDecisions, NothingComesBeforeAHello) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.pull(1);
  ASSERT_EQ(node.sent.size(), 1U);
  EXPECT_TRUE(node.sent[0].is_close);
  EXPECT_EQ(node.sent[0].reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
}

TEST(FrontDecisions, ANewerSessionEndsTheOlderOne) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.hello(1);
  node.settle();
  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  hello.body.hello = good_hello(20);
  node.front.on_message(99, 1, hello, node.now_ms);
  node.settle();
  bool is_closed = false;
  for (const FrontAction& action : node.sent) {
    is_closed = is_closed || (action.is_close && action.session == TestNode::session(1) &&
                              action.reason == gs_Reason_REASON_NEWER_SESSION);
  }
  EXPECT_TRUE(is_closed);
  EXPECT_EQ(node.sent.back().session, 99U);
}

// A task that its device has lost ends before the Welcome says so.
TEST(FrontDecisions, ALostTaskIsGivenUp) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  node.front.on_session_closed(TestNode::session(1));
  node.sent.clear();
  node.hello(1, task.task_sequence);
  node.settle();
  EXPECT_TRUE(node.last(1, gs_ServerMessage_welcome_tag)->body.welcome.abandoned);
  EXPECT_EQ(engine.engine().row(1).judged.verdict, gs_Verdict_VERDICT_ABANDONED);
  node.pull(1);
  node.settle();
  EXPECT_EQ(node.last(1, gs_ServerMessage_task_tag)->body.task.task_sequence, task.task_sequence + 1);
}

// Asked once more, a device has its open task; without a model it has a snapshot too, and another task.
TEST(FrontDecisions, APullHasModelAndTask) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  EXPECT_NE(node.last(1, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  EXPECT_EQ(task.digest, node.front.run().ledger().digest());
  node.sent.clear();
  node.pull(1, true);
  EXPECT_EQ(node.last(1, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  EXPECT_EQ(node.last(1, gs_ServerMessage_task_tag)->body.task.task_sequence, task.task_sequence);
  node.pull(1);
  node.settle();
  EXPECT_EQ(node.last(1, gs_ServerMessage_task_tag)->body.task.task_sequence, task.task_sequence + 1);
  EXPECT_EQ(engine.engine().row(1).judged.verdict, gs_Verdict_VERDICT_ABANDONED) << "of the task before";
}

TEST(FrontDecisions, WhoHasAnsweredWaits) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.upload(1, node.join(1));
  node.settle();
  node.pull(1, true);
  const ServerMessage* const wait = node.last(1, gs_ServerMessage_wait_tag);
  ASSERT_NE(wait, nullptr);
  EXPECT_EQ(wait->body.wait.cause, gs_WaitCause_WAIT_CAUSE_ANSWERED);
}

TEST(FrontDecisions, ARefusedTaskEndsAndItsDeviceWaits) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_task_refused_tag;
  message.body.task_refused.task_sequence = task.task_sequence;
  message.body.task_refused.reason = gs_Reason_REASON_OUT_OF_MEMORY;
  node.say(1, message);
  EXPECT_EQ(node.last(1, gs_ServerMessage_wait_tag), nullptr) << "its verdict is not committed yet";
  node.settle();
  EXPECT_EQ(node.last(1, gs_ServerMessage_wait_tag)->body.wait.cause, gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE);
  EXPECT_EQ(engine.engine().row(1).judged.reason, gs_Reason_REASON_OUT_OF_MEMORY);
}

// The engine fails over to a server whose clock is behind. What had time by the clock before has a good verdict, and
// what had none has none still.
TEST(FrontDecisions, AnEnginesClockThatIsSetBackRefusesNoHonestUpdate) {
  constexpr uint64_t kStartMs = 1'000'000;
  constexpr uint64_t kWorkMs = 100'000;
  FakeHarness engine;
  RunParameters parameters = scalar_parameters();
  parameters.trigger->step_time_min_us = static_cast<uint32_t>(kWorkMs * 1000 / parameters.local->local_step_count);
  engine.engine().advance(kStartMs);
  TestNode node(&engine, "a", parameters);
  const gs_Task honest = node.join(1);
  engine.engine().advance(kStartMs + kWorkMs + 1000);
  node.pass(kWorkMs + 1000);
  const gs_Task hasty = node.join(2);
  engine.engine().fail_over(0, kWorkMs / 2);
  engine.settle();
  node.pass(kVersionPollMs);
  node.upload(1, honest);
  node.upload(2, hasty);
  node.settle();
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  ASSERT_NE(node.ack(2), nullptr);
  EXPECT_EQ(node.ack(2)->reason, gs_Reason_REASON_NO_TIME);
}

// A memory has one update of a device from each version, as one server's has. The row says so, whoever has judged it.
TEST(FrontDecisions, ASecondUpdateFromOneVersionIsRefused) {
  FakeHarness engine;
  RunParameters parameters = scalar_parameters();
  parameters.local->correction_form = CorrectionForm::kMemory;
  TestNode node(&engine, "a", parameters);
  const std::unique_ptr<EngineNode> other = engine.connect("b");
  const FrontRow joined = engine.wait(*other, other->join()).front;
  EngineBatch batch;
  batch.epoch = joined.epoch;
  batch.open_version = joined.open_version;
  batch.number = joined.batch + 1;
  batch.changes = {{1, 0, false, DeviceRow()}};
  batch.changes[0].row.memory.last = {0, 1};
  ASSERT_EQ(engine.wait(*other, other->commit(batch)).outcome, EngineOutcome::kCommitted);
  for (uint32_t device = 1; device <= 2; ++device) {
    node.upload(device, node.join(device));
    node.settle();
    ASSERT_NE(node.ack(device), nullptr);
  }
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(node.ack(1)->reason, gs_Reason_REASON_OLDER_UPDATE);
  EXPECT_EQ(node.ack(2)->verdict, gs_Verdict_VERDICT_FOLDED) << "nothing is known of it";
}

// An update that the run cannot take has a verdict too, and adds nothing.
TEST(FrontDecisions, ABadUpdateIsRefusedByName) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  gs_Task task = node.join(1);
  gs_Task other = task;
  other.version = 5;
  node.upload(1, other);
  node.settle();
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(node.ack(1)->reason, gs_Reason_REASON_WRONG_VERSION);
  task.task_sequence = 9;
  node.upload(1, task);
  node.settle();
  EXPECT_EQ(node.ack(1)->reason, gs_Reason_REASON_UNKNOWN_TASK);
  EXPECT_EQ(node.front.counters().updates_accepted, 0U);
}

}  // namespace
}  // namespace gradstream
