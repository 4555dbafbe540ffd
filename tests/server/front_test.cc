#include "server/engine/front.h"

#include <gtest/gtest.h>

#include "tests/support/test_node.h"

namespace gradstream {
namespace {

using Fault = EngineFault;

// The open version's sums, by who does not take part.
std::vector<std::vector<uint8_t>> sums_of(FakeHarness* engine, uint32_t version) {
  const std::unique_ptr<EngineNode> reader = engine->connect("reader");
  return engine->wait(*reader, reader->read_sums(version)).sums;
}

// The next version, of the sums that are in.
void publish(FakeHarness* engine, const RunParameters& parameters) {
  TestLeader leader(engine, "leader", parameters);
  for (uint64_t now_ms = 10'000; leader.leader.counters().published == 0 && now_ms < 20'000; now_ms += 200) {
    leader.tick(now_ms);
  }
  ASSERT_EQ(leader.leader.counters().published, 1U);
}

TEST(Front, AnAckLeavesWhenItsBatchIsCommitted) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  EXPECT_EQ(task.task_sequence, 1U);
  EXPECT_TRUE(engine.engine().row(1).task.is_open) << "a Task leaves when its row is there";
  node.upload(1, task);
  EXPECT_EQ(node.ack(1), nullptr);
  node.settle();
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_FALSE(node.ack(1)->duplicate);
  EXPECT_EQ(engine.engine().row(1).accepted.task_sequence, 1U);
  EXPECT_EQ(sums_of(&engine, 0).size(), 1U);
}

// What comes while a batch is under way goes into the next one, together.
TEST(Front, OneBatchIsUnderWayAndTheNextGathers) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  std::vector<gs_Task> tasks;
  for (uint32_t device = 0; device < 3; ++device) {
    tasks.push_back(node.join(device));
  }
  const uint64_t batches = node.front.counters().batches;
  for (uint32_t device = 0; device < 3; ++device) {
    node.upload(device, tasks[device]);
  }
  node.settle();
  EXPECT_EQ(node.front.counters().batches, batches + 2) << "the first alone, then the two that had gathered";
  EXPECT_EQ(sums_of(&engine, 0).size(), 2U);
  EXPECT_EQ(node.front.counters().updates_accepted, 3U);
}

// Two nodes serve one device: the later verdict is the first one's, said once more.
TEST(Front, AConflictIsAnsweredByTheFirstVerdict) {
  FakeHarness engine;
  TestNode a(&engine, "a", scalar_parameters());
  TestNode b(&engine, "b", scalar_parameters());
  const gs_Task task = a.join(1);
  b.hello(1);
  b.settle();
  a.upload(1, task);
  a.settle();
  b.upload(1, task);
  b.settle();
  EXPECT_EQ(b.front.counters().conflicts, 1U);
  ASSERT_NE(b.ack(1), nullptr);
  EXPECT_TRUE(b.ack(1)->duplicate);
  EXPECT_EQ(b.ack(1)->verdict, a.ack(1)->verdict);
  EXPECT_EQ(b.ack(1)->version, a.ack(1)->version);
  EXPECT_EQ(sums_of(&engine, 0).size(), 1U) << "and it counts once";
}

// The version closes under a batch: its update is too late for the next one, and is refused there.
TEST(Front, ACutBatchIsJudgedAnewAgainstTheOpenVersion) {
  for (const LatePolicy late : {LatePolicy::kDrop, LatePolicy::kWeight}) {
    RunParameters parameters = scalar_parameters();
    parameters.trigger->update_goal = 1;
    parameters.trigger->late = late;
    FakeHarness engine;
    TestNode a(&engine, "a", parameters);
    TestNode b(&engine, "b", parameters);
    const gs_Task one = a.join(1);
    const gs_Task two = b.join(2);
    a.upload(1, one);
    a.settle();
    publish(&engine, parameters);
    b.upload(2, two);  // the node has not heard of the version
    b.settle();
    EXPECT_EQ(b.front.counters().cuts, 1U);
    EXPECT_EQ(b.front.run().version(), 1U);
    ASSERT_NE(b.ack(2), nullptr);
    const bool is_dropped = late == LatePolicy::kDrop;
    EXPECT_EQ(b.ack(2)->verdict, is_dropped ? gs_Verdict_VERDICT_REFUSED : gs_Verdict_VERDICT_LATE);
    EXPECT_EQ(sums_of(&engine, 1).size(), is_dropped ? 0U : 1U);
  }
}

// Whichever way the answer to a batch was lost, its update counts once, and its device hears of it.
TEST(Front, AnUnknownBatchIsAskedFor) {
  for (const Fault fault : {Fault::kNever, Fault::kAnswer, Fault::kLate, Fault::kMuchLate}) {
    for (const bool loses_answer : {false, true}) {
      SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << ", loses_answer " << loses_answer);
      FakeHarness engine;
      TestNode node(&engine, "a", scalar_parameters());
      const gs_Task task = node.join(1);
      engine.fault("a", fault);
      node.upload(1, task);
      if (loses_answer) {  // of the question as well
        while (node.front.counters().unknowns == 0) {
          engine.engine().advance(engine.engine().next_ms());
          engine.fault("a", Fault::kAnswer);
          for (const EngineReply& reply : node.node->take_replies()) {
            node.front.on_reply(reply, node.now_ms);
          }
        }
      }
      node.settle();
      EXPECT_EQ(node.front.counters().unknowns, 1U);
      ASSERT_NE(node.ack(1), nullptr);
      EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
      EXPECT_EQ(sums_of(&engine, 0).size(), 1U);
      EXPECT_EQ(node.front.counters().updates_accepted, 1U);
    }
  }
}

// Another epoch has begun under its feet: its batch is cut, and it joins anew.
TEST(Front, ANodeThatWasFencedJoinsAnew) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  node.node->join();  // as a late join of its own does
  node.settle();
  node.upload(1, task);
  node.settle();
  EXPECT_EQ(node.front.counters().cuts, 1U);
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
}

TEST(Front, EndsTheSessionOfAPeerThatFloods) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.hello(1);
  for (size_t i = 0; i <= kWaitingMessagesMax; ++i) {
    node.pull(1);  // its row is still under way
  }
  ASSERT_FALSE(node.sent.empty());
  EXPECT_TRUE(node.sent.back().is_close);
  EXPECT_EQ(node.sent.back().reason, gs_Reason_REASON_OVERLOADED);
  node.settle();
  EXPECT_EQ(node.last(1, gs_ServerMessage_welcome_tag), nullptr) << "nobody is there any more";
}

TEST(Front, ADeviceOfNobodyIsRefused) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.hello(kTestDevices);
  ASSERT_EQ(node.sent.size(), 1U);
  EXPECT_EQ(node.sent[0].reason, gs_Reason_REASON_UNKNOWN_RUN);
}

// A verdict is committed though its device has left; it hears of it when it is back.
TEST(Front, ASessionThatEndsTakesNoVerdictWithIt) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  node.upload(1, task);
  node.front.on_session_closed(TestNode::session(1));
  node.settle();
  EXPECT_EQ(node.ack(1), nullptr);
  EXPECT_EQ(engine.engine().row(1).accepted.task_sequence, task.task_sequence);
  node.hello(1);
  node.settle();
  node.upload(1, task);
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_TRUE(node.ack(1)->duplicate);
}

}  // namespace
}  // namespace gradstream
