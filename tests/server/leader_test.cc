#include "server/engine/leader.h"

#include <gtest/gtest.h>

#include "tests/support/test_node.h"

namespace gradstream {
namespace {

RunParameters goal_of(uint32_t count) {
  RunParameters parameters = scalar_parameters();
  parameters.trigger->update_goal = count;
  return parameters;
}

TEST(Leader, PublishesWhatOneServerMakesOfTheSameUpdates) {
  const RunParameters parameters = scalar_parameters();
  FakeHarness engine;
  TestNode a(&engine, "a", parameters);
  TestNode b(&engine, "b", parameters);
  TestLeader leader(&engine, "l", parameters);
  TestServer server(parameters, kTestDevices);
  server.start();
  server.join(kTestDevices);
  leader.tick(1000);
  EXPECT_TRUE(leader.leader.is_leading());
  for (uint32_t device = 0; device < kTestDevices; ++device) {
    TestNode& node = device % 2 == 0 ? a : b;
    node.upload(device, node.join(device));
    node.settle();
    server.upload(device, server.good_upload(device));
    leader.tick(1100 + 100 * device);
    EXPECT_EQ(leader.leader.counters().published, device + 1 == kTestDevices ? 1U : 0U);
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(leader.leader.run().version(), 1U);
  EXPECT_EQ(leader.leader.run().ledger().digest(), server.coordinator->digest());
  a.front.on_tick(5000);
  a.settle();
  EXPECT_EQ(a.front.run().ledger().digest(), server.coordinator->digest()) << "and the nodes follow it";
}

// It proves it by the mean before it makes a version.
TEST(Leader, WhoLeadsNextReadsTheMemory) {
  RunParameters parameters = goal_of(1);
  parameters.local->correction_form = CorrectionForm::kMemory;
  parameters.fold->fold_weight = FoldWeight::kUniform;
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader first(&engine, "l", parameters);
  first.tick(1000);
  node.upload(1, node.join(1));
  node.settle();
  first.tick(1900);
  ASSERT_EQ(first.leader.counters().published, 1U);
  EXPECT_TRUE(first.leader.run().has_memory());
  first.leader.drain(2000);
  first.tick(2000);
  EXPECT_TRUE(first.leader.is_drained());

  TestLeader second(&engine, "m", parameters);
  node.pass(1000);
  ASSERT_EQ(node.front.run().version(), 1U);
  node.pull(1, true);
  node.settle();
  const ServerMessage* const task = node.last(1, gs_ServerMessage_task_tag);
  ASSERT_NE(task, nullptr);
  EXPECT_EQ(task->body.task.version, 1U);
  EXPECT_EQ(task->body.task.memory_stamp, 1U) << "its update from version 0";
  node.upload(1, task->body.task);
  node.upload(2, node.join(2));
  node.settle();
  EXPECT_FALSE(second.leader.run().has_memory());
  for (uint64_t now_ms = 2200; second.leader.counters().published == 0 && now_ms < 4000; now_ms += 100) {
    second.tick(now_ms);
  }
  ASSERT_EQ(second.leader.counters().published, 1U);
  EXPECT_TRUE(second.leader.run().has_memory());
  node.pass(1000);
  EXPECT_EQ(node.front.run().version(), 2U);
  EXPECT_EQ(node.front.run().ledger().digest(), second.leader.run().ledger().digest());
}

TEST(Leader, OnlyTheHolderOfTheLeaseLeads) {
  const RunParameters parameters = goal_of(1);
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader first(&engine, "l", parameters);
  TestLeader second(&engine, "m", parameters);
  first.tick(1000);
  second.tick(1000);
  EXPECT_TRUE(first.leader.is_leading());
  EXPECT_FALSE(second.leader.is_leading());
  node.upload(1, node.join(1));
  node.settle();
  second.tick(1900);
  EXPECT_EQ(second.leader.counters().published, 0U);
  first.tick(1900);
  EXPECT_EQ(first.leader.counters().published, 1U);
}

// A leader that was away until its term was over publishes nothing, though it does not know.
TEST(Leader, AStaleLeaderPublishesNothing) {
  const RunParameters parameters = goal_of(1);
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader old(&engine, "l", parameters);
  TestLeader next(&engine, "m", parameters);
  old.tick(1000);
  engine.pass_lease();
  next.tick(5000);
  EXPECT_TRUE(next.leader.is_leading());
  node.upload(1, node.join(1));
  node.settle();
  old.tick(1900);  // by its own clock it is not time to renew
  EXPECT_EQ(old.leader.counters().published, 0U);
  EXPECT_GT(old.leader.counters().cut, 0U);
  EXPECT_FALSE(old.leader.is_leading());
  EXPECT_EQ(engine.engine().open_version(), 0U);
  next.tick(5900);
  EXPECT_EQ(next.leader.counters().published, 1U);
  EXPECT_EQ(engine.engine().open_version(), 1U);
}

// The answer to a publication was lost: it is made once, and the leader finds it.
TEST(Leader, AnUnknownPublicationHappensOnce) {
  for (const EngineFault fault : {EngineFault::kNever, EngineFault::kAnswer, EngineFault::kLate}) {
    SCOPED_TRACE(static_cast<int>(fault));
    const RunParameters parameters = goal_of(1);
    FakeHarness engine;
    TestNode node(&engine, "a", parameters);
    TestLeader leader(&engine, "l", parameters);
    leader.tick(1000);
    node.upload(1, node.join(1));
    node.settle();
    leader.leader.on_tick(1900);
    leader.answer(3, 1900);    // looks, seals, reads the sums, and that there are no more
    engine.fault("l", fault);  // of what comes next
    leader.tick(1900);
    EXPECT_EQ(leader.leader.counters().published, 0U);
    EXPECT_EQ(leader.leader.next_tick_ms(), 1900 + kCallPauseFirstMs) << "an engine that is away is not flooded";
    leader.tick(1900 + kCallPauseFirstMs);
    EXPECT_EQ(leader.leader.counters().unknown, 1U);
    EXPECT_EQ(engine.engine().open_version(), 1U);
    EXPECT_EQ(leader.leader.run().version(), 1U);
    node.front.on_tick(5000);
    node.settle();
    EXPECT_EQ(node.front.run().ledger().digest(), leader.leader.run().ledger().digest());
  }
}

// Where the engine is silent the lease is renewed all the same, and one lost answer costs no term.
TEST(Leader, RenewsItsLeaseBesideASlowCall) {
  const RunParameters parameters = scalar_parameters();
  FakeHarness engine;
  TestLeader leader(&engine, "l", parameters);
  leader.tick(1000);
  const uint64_t term = engine.engine().lease().term;
  engine.fault("l", EngineFault::kNever);
  leader.leader.on_tick(1100);  // looks, and hears nothing
  const uint64_t until_ms = engine.engine().lease().until_ms;
  leader.leader.on_tick(2000);
  engine.engine().advance(engine.engine().next_ms());
  EXPECT_GT(engine.engine().lease().until_ms, until_ms) << "the look has no answer yet";
  engine.fault("l", EngineFault::kNever);
  leader.leader.on_tick(3000);
  leader.leader.on_tick(4000);  // the renewal before this one has no answer, and never will
  leader.tick(4000);
  EXPECT_TRUE(leader.leader.is_leading());
  EXPECT_EQ(leader.leader.counters().terms, 1U);
  EXPECT_EQ(engine.engine().lease().term, term);
}

// An engine that says nothing has few of its calls.
TEST(Leader, ItsRenewalsAreBounded) {
  const RunParameters parameters = scalar_parameters();
  FakeHarness engine;
  TestLeader leader(&engine, "l", parameters);
  engine.engine().pause("l", 60'000);
  for (uint64_t now_ms = 1000; now_ms <= 20'000; now_ms += 100) {
    leader.leader.on_tick(now_ms);
  }
  leader.tick(20'000);
  EXPECT_EQ(engine.engine().counters().executed, kLeaseCallsMax + 2) << "then the versions and the progress";
}

// A version of many batches comes in several replies, whose sums are added up as they come. One may be lost.
TEST(Leader, MergesSumsFromPlaceToPlace) {
  constexpr uint32_t kSumsBehindTheFirst = 3;
  for (const bool loses_answer : {false, true}) {
    const RunParameters parameters = scalar_parameters();
    FakeHarness engine(0, 1, 1);
    TestNode node(&engine, "a", parameters);
    TestLeader leader(&engine, "l", parameters);
    leader.tick(1000);
    for (uint32_t device = 0; device < kTestDevices; ++device) {
      node.upload(device, node.join(device));
      node.settle();
    }
    leader.leader.on_tick(1900);
    leader.answer(2, 1900);  // looks, seals; the first part is under way
    if (loses_answer) {
      engine.fault("l", EngineFault::kAnswer);
    }
    leader.answer(1, 1900);
    const uint64_t executed = engine.engine().counters().executed;
    leader.tick(1900);
    leader.tick(1900 + kCallPauseFirstMs);
    EXPECT_EQ(leader.leader.counters().published, 1U);
    EXPECT_GE(engine.engine().counters().executed - executed, kSumsBehindTheFirst + (loses_answer ? 3 : 2));
    node.front.on_tick(5000);
    node.settle();
    EXPECT_EQ(node.front.run().ledger().digest(), leader.leader.run().ledger().digest());
    EXPECT_EQ(leader.leader.counters().unfit, 0U);
  }
}

// The lease is lost and won again while a look at the progress is under way: T has not begun in the new term.
TEST(Leader, DecidesNothingByALookOfAnOlderTerm) {
  RunParameters parameters = goal_of(3);
  parameters.trigger->update_min = 1;
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  const std::unique_ptr<EngineNode> rival = engine.connect("m");
  leader.tick(1000);
  node.upload(1, node.join(1));
  node.settle();
  leader.leader.on_tick(1900);  // looks
  engine.pass_lease();
  ASSERT_EQ(engine.wait(*rival, rival->take_lease()).lease.node, "m");
  leader.leader.on_tick(2000);
  engine.settle();
  engine.pass_lease();
  leader.leader.on_tick(3000);
  engine.settle();
  leader.hear();
  ASSERT_EQ(leader.heard.size(), 3U);
  leader.heard.push_back(leader.heard.front());  // the look's answer comes last
  leader.heard.pop_front();
  leader.tick(3000);
  EXPECT_EQ(leader.leader.counters().terms, 2U);
  EXPECT_EQ(leader.leader.counters().published, 0U);
  EXPECT_FALSE(engine.wait(*rival, rival->read_progress(0)).progress.is_sealed);
  leader.tick(4100);
  EXPECT_EQ(leader.leader.counters().published, 1U) << "by its own T";
}

// The lease is lost in the midst of that: what was merged is forgotten, and the next term begins anew.
TEST(Leader, BeginsItsSumsAnewInANewTerm) {
  const RunParameters parameters = scalar_parameters();
  FakeHarness engine(0, 1, 1);
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  const std::unique_ptr<EngineNode> rival = engine.connect("m");
  leader.tick(1000);
  for (uint32_t device = 0; device < kTestDevices; ++device) {
    node.upload(device, node.join(device));
    node.settle();
  }
  leader.leader.on_tick(1900);
  leader.answer(3, 1900);  // looks, seals, and has the first of the sums
  engine.pass_lease();
  ASSERT_EQ(engine.wait(*rival, rival->take_lease()).lease.node, "m");
  leader.tick(2000);
  EXPECT_FALSE(leader.leader.is_leading());
  EXPECT_EQ(leader.leader.counters().published, 0U);
  engine.pass_lease();
  leader.tick(3000);
  leader.tick(3200);
  EXPECT_EQ(leader.leader.counters().published, 1U);
  EXPECT_EQ(engine.engine().open_version(), 1U);
  EXPECT_EQ(leader.leader.counters().terms, 2U);
}

// Updates come all the time: what comes behind the seal is cut, and the version is published at once.
TEST(Leader, PublishesUnderSteadyUploads) {
  const RunParameters parameters = goal_of(1);
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  std::vector<gs_Task> tasks;
  for (uint32_t device = 0; device < kTestDevices; ++device) {
    tasks.push_back(node.join(device));
  }
  leader.tick(1000);
  node.upload(0, tasks[0]);
  node.settle();
  leader.leader.on_tick(1900);
  for (uint32_t device = 1; device < kTestDevices; ++device) {  // a batch before the answer to each of its calls
    node.upload(device, tasks[device]);
    node.settle();
    leader.answer(1, 1900);
  }
  leader.tick(1900);
  EXPECT_EQ(leader.leader.counters().published, 1U);
  EXPECT_EQ(leader.leader.counters().cut, 0U);
  node.front.on_tick(2000);
  node.settle();
  EXPECT_EQ(node.front.run().ledger().digest(), leader.leader.run().ledger().digest());
  for (uint32_t device = 0; device < kTestDevices; ++device) {
    ASSERT_NE(node.ack(device), nullptr) << "each update is in the version, or is judged behind it";
  }
  EXPECT_GT(node.front.counters().cuts, 0U);
}

// The node that has sealed a version ends before it has published it. By its own T the next one would wait.
TEST(Leader, GoesOnWithAVersionThatAnotherOneHasSealed) {
  RunParameters parameters = goal_of(3);
  parameters.trigger->update_min = 1;
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader next(&engine, "m", parameters);
  {
    TestLeader first(&engine, "l", parameters);
    first.tick(1000);
    node.upload(1, node.join(1));
    node.settle();
    first.leader.on_tick(2100);
    first.answer(2, 2100);  // it renews its lease, and its T is over: it seals
    engine.settle();
    ASSERT_EQ(engine.engine().open_version(), 0U);
  }
  engine.pass_lease();
  next.tick(6000);
  EXPECT_EQ(next.leader.counters().published, 1U);
  EXPECT_EQ(engine.engine().open_version(), 1U);
}

// T goes by with fewer answers than k: q of them are enough then, and before that nothing is.
TEST(Leader, ClosesARoundAtItsDeadline) {
  RunParameters parameters = goal_of(3);
  parameters.trigger->update_min = 1;
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  leader.tick(1000);
  node.upload(1, node.join(1));
  node.settle();
  leader.tick(1500);
  EXPECT_EQ(leader.leader.counters().published, 0U);
  leader.tick(2100);  // renews its lease, and looks
  leader.tick(2300);
  EXPECT_EQ(leader.leader.counters().published, 1U);
}

// The version that it has published is gone, or its term is.
TEST(Leader, NoticesAnEngineThatWasRestored) {
  for (const size_t lost_count : {1U, 60U}) {
    const RunParameters parameters = goal_of(1);
    FakeHarness engine;
    TestNode node(&engine, "a", parameters);
    TestLeader first(&engine, "m", parameters);
    first.tick(1000);
    engine.pass_lease();
    TestLeader leader(&engine, "l", parameters);
    leader.tick(5000);
    node.upload(1, node.join(1));
    node.settle();
    leader.tick(5200);
    ASSERT_EQ(leader.leader.counters().published, 1U);
    engine.engine().fail_over(lost_count);
    leader.tick(5400);
    leader.tick(6100);
    EXPECT_EQ(leader.leader.trouble(), NodeTrouble::kRestored);
    EXPECT_FALSE(leader.leader.is_leading());
    EXPECT_EQ(leader.leader.next_tick_ms(), UINT64_MAX);
  }
}

// A term that only a lease held by another told of: that answer does not wait for the standby, which may lack the term.
TEST(Leader, ATermThatItNeverHeldMayBeGone) {
  FakeHarness engine;
  const std::unique_ptr<EngineNode> rival = engine.connect("m");
  TestLeader leader(&engine, "l", scalar_parameters());
  leader.tick(1000);
  engine.pass_lease();
  ASSERT_EQ(engine.wait(*rival, rival->take_lease()).lease.term, 2U);
  leader.tick(2000);
  EXPECT_FALSE(leader.leader.is_leading());
  engine.engine().fail_over(1);
  leader.tick(3000);
  EXPECT_EQ(leader.leader.trouble(), NodeTrouble::kNone);
  EXPECT_TRUE(leader.leader.is_leading());
  EXPECT_EQ(engine.engine().lease().term, 1U);
}

// The same of a version that is over by a look at the progress: the version behind it may be gone.
TEST(Leader, AVersionThatItNeverReadMayBeGone) {
  const RunParameters parameters = goal_of(1);
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  const std::unique_ptr<EngineNode> rival = engine.connect("m");
  const auto publish_by = [&](uint32_t device, uint64_t now_ms) {
    node.upload(device, node.join(device));
    node.settle();
    leader.tick(now_ms);
    node.pass(kVersionPollMs);
  };
  leader.tick(1000);
  for (const uint32_t version : {0U, 1U}) {
    ASSERT_EQ(engine.engine().open_version(), version);
    const uint64_t now_ms = 1900 + uint64_t{10'000} * version;
    leader.tick(now_ms - 500);
    engine.pass_lease();
    const uint64_t term = engine.wait(*rival, rival->take_lease()).lease.term;
    ASSERT_EQ(engine.wait(*rival, rival->seal(term, version)).outcome, EngineOutcome::kCommitted);
    ASSERT_EQ(engine.wait(*rival, rival->publish(term, 0, {version + 1, {4, 5}})).outcome, EngineOutcome::kCommitted);
    leader.leader.on_tick(now_ms);
    leader.answer(1, now_ms);  // looks; it asks for the versions then
    engine.engine().fail_over(3);
    leader.tick(now_ms);
    leader.tick(now_ms + 50);
    EXPECT_EQ(leader.leader.trouble(), NodeTrouble::kNone);
    publish_by(version, now_ms + 200);
    EXPECT_EQ(leader.leader.counters().published, version + 1) << "it goes on";
  }
}

// What it has made of the sums of an older term is not published in a later one: it reads them anew.
TEST(Leader, APublicationEndsWithItsTerm) {
  const RunParameters parameters = goal_of(1);
  FakeHarness engine, other_engine;
  TestNode a(&engine, "a", parameters);
  TestNode b(&engine, "b", parameters);
  TestNode only(&other_engine, "b", parameters);
  TestLeader leader(&engine, "l", parameters);
  TestLeader other(&other_engine, "l", parameters);
  const std::unique_ptr<EngineNode> rival = engine.connect("m");
  leader.tick(1000);
  const gs_Task one = a.join(1);
  const gs_Task two = b.join(2);
  a.upload(1, one);
  a.settle();
  leader.leader.on_tick(1900);
  leader.answer(3, 1900);
  engine.fault("l", EngineFault::kNever);  // of the publication
  leader.answer(1, 1900);
  engine.settle();
  engine.engine().fail_over(2);  // seal and update are lost
  b.upload(2, two);
  b.settle();
  engine.pass_lease();
  const uint64_t term = engine.wait(*rival, rival->take_lease()).lease.term;
  ASSERT_EQ(engine.wait(*rival, rival->seal(term, 0)).outcome, EngineOutcome::kCommitted);
  engine.pass_lease();
  leader.leader.on_tick(3000);
  engine.settle();
  leader.hear();
  ASSERT_EQ(leader.heard.size(), 2U);
  leader.heard.push_back(leader.heard.front());  // that nobody knows of the publication comes behind the new term
  leader.heard.pop_front();
  leader.tick(3000);
  leader.tick(3200);
  EXPECT_EQ(leader.leader.counters().unknown, 1U);
  EXPECT_EQ(leader.leader.counters().terms, 2U);
  EXPECT_EQ(leader.leader.counters().published, 1U);
  only.upload(2, only.join(2));
  only.settle();
  other.tick(1000);
  other.tick(1200);
  ASSERT_EQ(other.leader.run().version(), 1U);
  EXPECT_EQ(leader.leader.run().ledger().digest(), other.leader.run().ledger().digest()) << "of what is in";
}

// A node that cannot read a sum or a version lets go of its lease: a node that can leads then.
TEST(Leader, ANodeThatCannotReadLeadsNoMore) {
  for (const bool is_version : {false, true}) {
    const RunParameters parameters = goal_of(1);
    FakeHarness engine;
    const std::unique_ptr<EngineNode> node = engine.connect("a");
    const FrontRow front = engine.wait(*node, node->join()).front;
    const uint64_t term = engine.wait(*node, node->take_lease()).lease.term;
    EngineBatch batch;
    batch.epoch = front.epoch;
    batch.number = 1;
    batch.on_time_count = 1;
    batch.sum = {1, 2, 3};
    ASSERT_EQ(engine.wait(*node, node->commit(batch)).outcome, EngineOutcome::kCommitted);
    if (is_version) {
      ASSERT_EQ(engine.wait(*node, node->seal(term, 0)).outcome, EngineOutcome::kCommitted);
      ASSERT_EQ(engine.wait(*node, node->publish(term, 1, {1, {4, 5}})).outcome, EngineOutcome::kCommitted);
    }
    engine.pass_lease();
    TestLeader leader(&engine, "l", parameters);
    for (uint64_t now_ms = 5000; !leader.leader.is_broken() && now_ms < 7000; now_ms += 100) {
      leader.tick(now_ms);
    }
    EXPECT_TRUE(leader.leader.is_broken());
    EXPECT_FALSE(leader.leader.is_leading());
    EXPECT_EQ(leader.leader.counters().unfit, 1U);
    EXPECT_EQ(leader.leader.counters().published, 0U);
    EXPECT_EQ(engine.engine().lease().node, "l");
    EXPECT_EQ(leader.leader.next_tick_ms(), UINT64_MAX);
    const uint64_t executed = engine.engine().counters().executed;
    leader.tick(20'000);
    EXPECT_EQ(engine.engine().counters().executed, executed) << "it renews nothing";
    engine.pass_lease();
    EXPECT_EQ(engine.wait(*node, node->take_lease()).lease.node, "a");
  }
}

// The next node need not wait for the lease's end.
TEST(Leader, ANodeThatEndsGivesTheLeaseBack) {
  const RunParameters parameters = goal_of(1);
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader first(&engine, "l", parameters);
  TestLeader second(&engine, "m", parameters);
  first.tick(1000);
  second.tick(1000);
  EXPECT_EQ(second.leader.next_tick_ms(), 1000 + kLeaseLookMs);
  EXPECT_FALSE(first.leader.is_drained()) << "nobody has asked";
  first.leader.drain(1040);
  EXPECT_FALSE(first.leader.is_drained());
  first.tick(1040);
  EXPECT_TRUE(first.leader.is_drained());
  EXPECT_EQ(first.leader.next_tick_ms(), UINT64_MAX);
  second.tick(1000 + kLeaseLookMs);
  EXPECT_TRUE(second.leader.is_leading());
  EXPECT_EQ(engine.engine().lease().term, 2U);
  node.upload(1, node.join(1));
  node.settle();
  first.tick(1300);
  second.tick(1300);
  EXPECT_EQ(first.leader.counters().published, 0U);
  EXPECT_EQ(second.leader.counters().published, 1U);
  second.leader.drain(1400);
  second.tick(1400);
  first.tick(9000);
  EXPECT_EQ(engine.engine().lease().term, 2U) << "one that has ended takes it no more";
}

// Devices wait behind a seal, so the version comes first.
TEST(Leader, ANodeThatEndsPublishesWhatItHasSealed) {
  const RunParameters parameters = goal_of(1);
  for (const bool is_lost : {false, true}) {  // the answer to the lease's return
    FakeHarness engine;
    TestNode node(&engine, "a", parameters);
    TestLeader leader(&engine, "l", parameters);
    leader.tick(1000);
    node.upload(1, node.join(1));
    node.settle();
    leader.leader.on_tick(1100);
    leader.answer(1, 1100);  // the progress: the seal is under way
    leader.leader.drain(1100);
    EXPECT_FALSE(leader.leader.is_drained());
    leader.answer(3, 1100);  // seal, sums, and their end
    EXPECT_EQ(leader.leader.counters().published, 0U);
    if (is_lost) {
      leader.answer(1, 1100);  // the publication
      EXPECT_FALSE(leader.leader.is_drained()) << "the lease is on its way back";
      engine.engine().fail_over();
    }
    leader.tick(1200);
    EXPECT_EQ(leader.leader.counters().published, 1U);
    EXPECT_EQ(leader.leader.is_drained(), !is_lost);
    leader.tick(1200 + kCallPauseFirstMs);
    EXPECT_TRUE(leader.leader.is_drained());
    EXPECT_TRUE(engine.engine().is_lease_free());
  }
}

// The lease runs out by itself, and nobody waits for this node.
TEST(Leader, ANodeThatEndsWaitsLittleForAnEngineThatIsAway) {
  FakeHarness engine;
  TestLeader first(&engine, "l", goal_of(1));
  first.tick(1000);
  engine.engine().go_away(UINT64_MAX);
  first.leader.drain(3000);
  int calls = 0;
  for (uint64_t now_ms = 3000; now_ms < 3000 + kEndSilenceMs; now_ms = first.leader.next_tick_ms()) {
    ASSERT_FALSE(first.leader.is_drained()) << now_ms;
    first.tick(now_ms);
    ASSERT_GT(first.leader.next_tick_ms(), now_ms);
    ++calls;
  }
  EXPECT_GT(calls, 3) << "it tries again meanwhile";
  first.tick(3000 + kEndSilenceMs);
  EXPECT_TRUE(first.leader.is_drained());
  EXPECT_EQ(first.leader.next_tick_ms(), UINT64_MAX);
  EXPECT_EQ(engine.engine().lease().node, "l") << "it was not given back";
}

// The look that it had under way is of no use to anybody.
TEST(Leader, ANodeThatEndsAndDoesNotLeadWaitsLittleForItsLook) {
  FakeHarness engine;
  TestLeader first(&engine, "l", goal_of(1));
  TestLeader second(&engine, "m", goal_of(1));
  first.tick(1000);
  second.tick(1000);
  second.leader.on_tick(2000);  // nobody answers
  second.leader.drain(2000);
  EXPECT_FALSE(second.leader.is_drained());
  EXPECT_EQ(second.leader.next_tick_ms(), 2000 + kEndSilenceMs);
  second.leader.on_tick(2000 + kEndSilenceMs);
  EXPECT_TRUE(second.leader.is_drained());
}

// What it finds sealed, or over, is the next leader's.
TEST(Leader, ANodeThatEndsBeginsNoVersion) {
  const RunParameters parameters = goal_of(1);
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  leader.tick(1000);
  node.upload(1, node.join(1));
  node.settle();
  leader.leader.on_tick(1100);  // asks for the progress
  leader.leader.drain(1100);
  leader.tick(1100);
  EXPECT_TRUE(leader.leader.is_drained());
  EXPECT_EQ(leader.leader.counters().published, 0U);
  EXPECT_TRUE(engine.engine().is_lease_free());
}

TEST(Leader, AllDevicesAreThoseThatTakePart) {
  const RunParameters parameters = scalar_parameters();
  FakeHarness engine;
  TestNode node(&engine, "a", parameters);
  TestLeader leader(&engine, "l", parameters);
  leader.tick(1000);
  for (uint32_t device = 0; device + 1 < kTestDevices; ++device) {
    node.upload(device, node.join(device));
    node.settle();
  }
  leader.tick(1100);
  EXPECT_EQ(leader.leader.counters().published, 0U);
  leader.leader.on_fleet(kTestDevices - 1);
  leader.tick(1200);
  EXPECT_EQ(leader.leader.counters().published, 1U);
}

}  // namespace
}  // namespace gradstream
