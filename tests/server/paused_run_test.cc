// What fronts and leaders do with a run that an operator pauses, resumes or stops (server/engine/engine.h,
// EngineRunState).
#include <gtest/gtest.h>

#include "server/run/pace.h"
#include "tests/support/test_node.h"

namespace gradstream {
namespace {

RunParameters one_answer() {
  RunParameters parameters = scalar_parameters();
  parameters.trigger->update_goal = 1;
  return parameters;
}

void change(FakeHarness* engine, TestNode* node, EngineRunState state) {
  engine->change_state(state);
  node->pass(kVersionPollMs);
}

const gs_Wait& wait_of(const TestNode& node, uint32_t device) {
  const ServerMessage* const message = node.last(device, gs_ServerMessage_wait_tag);
  GS_ASSERT(message != nullptr);
  return message->body.wait;
}

TEST(PausedRun, DevicesGetNoTasksAndTheirAnswersCount) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  node.hello(2);
  node.settle();
  change(&engine, &node, EngineRunState::kPaused);
  EXPECT_EQ(node.front.run_state(), EngineRunState::kPaused);
  EXPECT_TRUE(node.front.is_serving());
  node.pull(2);
  node.settle();
  EXPECT_EQ(node.last(2, gs_ServerMessage_task_tag), nullptr);
  EXPECT_EQ(wait_of(node, 2).cause, gs_WaitCause_WAIT_CAUSE_PAUSED);
  EXPECT_LE(wait_of(node, 2).retry.max_ms, kIdleFreshMaxMs) << "somebody may resume it soon";
  node.upload(1, task);
  node.settle();
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  node.hello(3);
  node.settle();
  EXPECT_EQ(node.last(3, gs_ServerMessage_welcome_tag)->body.welcome.run_state, gs_RunState_RUN_STATE_PAUSED);

  for (uint64_t passed_ms = 0; passed_ms < kIdleFreshMs; passed_ms += 3000) {  // of the engine's clock
    engine.pass_lease();
  }
  node.pass(kIdleFreshMs + 3000);
  node.pull(2);
  node.settle();
  EXPECT_GT(wait_of(node, 2).retry.min_ms, kIdleFreshMaxMs) << "nobody does";
  change(&engine, &node, EngineRunState::kActive);
  node.pull(2);
  node.settle();
  EXPECT_NE(node.last(2, gs_ServerMessage_task_tag), nullptr);
}

TEST(PausedRun, AStoppedRunStaysSo) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.hello(1);
  node.settle();
  change(&engine, &node, EngineRunState::kStopped);
  node.pull(1);
  node.settle();
  EXPECT_EQ(wait_of(node, 1).cause, gs_WaitCause_WAIT_CAUSE_STOPPED);
  EXPECT_EQ(node.front.trouble(), NodeTrouble::kNone);
  EXPECT_TRUE(node.front.is_serving()) << "the node stays";
  change(&engine, &node, EngineRunState::kActive);
  EXPECT_EQ(node.front.trouble(), NodeTrouble::kRestored) << "no verb does that";
}

// The time of the open version runs anew from when it goes on.
TEST(PausedRun, NoVersionComesUntilItIsResumed) {
  const RunParameters parameters = one_answer();
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  leader.tick(1000);
  const gs_Task task = node.join(1);
  change(&engine, &node, EngineRunState::kPaused);
  node.upload(1, task);
  node.settle();
  for (uint64_t now_ms = 1900; now_ms < 60'000; now_ms += kProgressPollMs) {
    leader.tick(now_ms);
  }
  EXPECT_TRUE(leader.leader.is_leading());
  EXPECT_EQ(leader.leader.counters().published, 0U);
  EXPECT_EQ(leader.leader.counters().cut, 0U) << "it does not even try";
  engine.change_state(EngineRunState::kActive);
  leader.tick(60'000);
  EXPECT_EQ(leader.leader.counters().published, 1U);
}

TEST(PausedRun, ItsTimeBeginsAnew) {
  RunParameters parameters = scalar_parameters();
  parameters.trigger->update_goal = 3;
  parameters.trigger->update_min = 1;
  const uint64_t time_ms = parameters.trigger->report_deadline_ms;
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  leader.tick(1000);
  node.upload(1, node.join(1));
  node.settle();
  engine.change_state(EngineRunState::kPaused);
  const uint64_t resumed_ms = 1000 + 10 * time_ms;
  leader.tick(1000 + kProgressPollMs);
  leader.tick(resumed_ms);
  leader.tick(resumed_ms);
  EXPECT_EQ(leader.leader.counters().published, 0U);
  engine.change_state(EngineRunState::kActive);
  leader.tick(resumed_ms + kProgressPollMs);
  leader.tick(resumed_ms + kProgressPollMs + time_ms - 1);
  EXPECT_EQ(leader.leader.counters().published, 0U);
  leader.tick(resumed_ms + kProgressPollMs + time_ms + kProgressPollMs);
  EXPECT_EQ(leader.leader.counters().published, 1U);
}

// The pause comes between the look and the seal.
TEST(PausedRun, ASealComesTooLate) {
  const RunParameters parameters = one_answer();
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  leader.tick(1000);
  node.upload(1, node.join(1));
  node.settle();
  leader.leader.on_tick(1900);
  leader.answer(1, 1900);  // looks; the seal is under way then
  engine.change_state(EngineRunState::kPaused);
  leader.tick(1900);
  leader.tick(1900 + kProgressPollMs);
  EXPECT_EQ(leader.leader.counters().cut, 1U);
  EXPECT_EQ(leader.leader.counters().published, 0U);
  EXPECT_FALSE(engine.engine().is_sealed());
  EXPECT_TRUE(leader.leader.is_leading());
  engine.change_state(EngineRunState::kActive);
  leader.tick(1900 + 3 * kProgressPollMs);
  EXPECT_EQ(leader.leader.counters().published, 1U);
}

// It is sealed when the run is paused, or stopped, and its leader dies: the next one publishes it, and no other.
TEST(PausedRun, WhatIsSealedIsPublished) {
  for (const EngineRunState state : {EngineRunState::kPaused, EngineRunState::kStopped}) {
    const RunParameters parameters = one_answer();
    FakeHarness engine;
    TestNode node(&engine, "a", parameters);
    {
      TestLeader leader(&engine, "l", parameters);
      leader.tick(1000);
      node.upload(1, node.join(1));
      node.settle();
      leader.leader.on_tick(1900);
      leader.answer(2, 1900);  // looks, seals
      ASSERT_TRUE(engine.engine().is_sealed());
    }
    engine.change_state(state);
    engine.pass_lease();
    TestLeader next(&engine, "m", parameters);
    next.tick(6000);
    next.tick(6000 + kProgressPollMs);
    EXPECT_EQ(next.leader.counters().published, 1U);
    node.pass(kVersionPollMs);
    EXPECT_EQ(node.front.run().version(), 1U);
    EXPECT_EQ(engine.engine().open_version(), 1U);
  }
}

}  // namespace
}  // namespace gradstream
