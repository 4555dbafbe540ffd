#include "server/engine/front.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/test_node.h"

namespace gradstream {
namespace {

using Fault = EngineFault;

// The open version's sums, by who does not take part.
std::vector<std::vector<uint8_t>> sums_of(FakeHarness* engine, uint32_t version) {
  const std::unique_ptr<EngineNode> reader = engine->connect("reader");
  return read_all_sums(*engine, *reader, version);
}

// The next version, of the sums that are in.
void publish(FakeHarness* engine, const RunParameters& parameters) {
  TestLeader leader(engine, "leader", parameters);
  for (uint64_t now_ms = 10'000; leader.leader.counters().published == 0 && now_ms < 20'000; now_ms += 200) {
    leader.tick(now_ms);
  }
  ASSERT_EQ(leader.leader.counters().published, 1U);
}

// It knows nothing, or has an open task for each device and takes each batch; the first one only when nothing else is
// to be answered.
class AwayEngine : public EngineNode {
 public:
  EngineTicket join() override {
    ++join_count;
    EngineReply reply = made();
    reply.front.epoch = ++epoch;  // also where its answer is lost
    return answer(reply);
  }
  EngineTicket load(const std::vector<uint32_t>& devices) override {
    load_max = std::max(load_max, devices.size());
    EngineReply reply = made();
    reply.rows.resize(devices.size());
    for (DeviceRow& row : reply.rows) {
      row.task = {.sequence = 1, .is_open = true};
    }
    return answer(reply);
  }
  EngineTicket commit(const EngineBatch& batch) override {
    batch_max = std::max(batch_max, batch.changes.size());
    EngineReply reply = made();
    if (is_full) {
      return answer({});
    }
    if (batch.epoch != epoch && !is_away) {
      reply.outcome = EngineOutcome::kCut;
      reply.front.epoch = epoch;
      return answer(reply);
    }
    reply.front.epoch = batch.epoch;
    reply.front.batch = batch.number;
    if (batch.number > 1) {
      return answer(reply);
    }
    first_ = reply;
    first_.ticket = ++call_count;
    return call_count;
  }
  EngineTicket resolve(uint64_t, uint64_t) override {
    EngineReply reply = made();
    reply.front.epoch = ++epoch;
    return answer(is_full ? EngineReply() : reply);
  }
  EngineTicket take_lease() override { return answer(made()); }
  EngineTicket release_lease(uint64_t) override { return answer(made()); }
  EngineTicket read_fleet(const FleetPlace&) override { return answer(made()); }
  EngineTicket read_progress(uint32_t) override { return answer(made()); }
  EngineTicket read_sums(uint32_t, const SumPlace&) override { return answer(made()); }
  EngineTicket read_updates(uint32_t, UpdatePart, const UpdatePlace&) override { return answer(made()); }
  EngineTicket seal(uint64_t, uint32_t) override { return answer(made()); }
  EngineTicket publish(uint64_t, uint64_t, const PublishedVersion&) override { return answer(made()); }
  EngineTicket read_versions(uint32_t, EngineRunState) override { return answer(made()); }
  std::vector<EngineReply> take_replies() override {
    if (replies_.empty() && first_.ticket != 0) {
      replies_.push_back(std::exchange(first_, {}));
    }
    return std::exchange(replies_, {});
  }

  bool is_away = true;
  bool is_full = false;  // its disk: it reads, and writes nothing
  uint64_t epoch = 0;    // of the node's front; whoever else joins by its name raises it
  size_t join_count = 0;
  size_t call_count = 0;
  size_t load_max = 0;
  size_t batch_max = 0;

 private:
  EngineReply made() const {
    EngineReply reply;
    reply.outcome = is_away ? EngineOutcome::kUnknown : EngineOutcome::kCommitted;
    return reply;
  }
  EngineTicket answer(EngineReply reply) {
    reply.ticket = ++call_count;
    replies_.push_back(reply);
    return reply.ticket;
  }

  std::vector<EngineReply> replies_;
  EngineReply first_;
};

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
      node.pass(kCallPauseFirstMs);  // then the question is put again
      EXPECT_EQ(node.front.counters().unknowns, 1U);
      ASSERT_NE(node.ack(1), nullptr);
      EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
      EXPECT_EQ(sums_of(&engine, 0).size(), 1U);
      EXPECT_EQ(node.front.counters().updates_accepted, 1U);
    }
  }
}

// A database that was restored lacks batches that were acknowledged, or versions that were followed.
TEST(Front, NoticesAnEngineThatWasRestored) {
  for (const bool loses_version : {false, true}) {
    RunParameters parameters = scalar_parameters();
    parameters.trigger->update_goal = 1;
    FakeHarness engine;
    TestNode node(&engine, "a", parameters);
    TestNode other(&engine, "b", parameters);
    const gs_Task one = node.join(1);
    const gs_Task two = other.join(2);
    node.upload(1, one);
    node.settle();
    if (loses_version) {
      publish(&engine, parameters);
      other.pass(kVersionPollMs);
      ASSERT_EQ(other.front.run().version(), 1U);
    }
    TestNode& asking = loses_version ? other : node;
    EXPECT_EQ(asking.front.trouble(), NodeTrouble::kNone);
    engine.engine().fail_over(loses_version ? 2 : 1);  // the seal as well
    const uint64_t batches = asking.front.counters().batches;
    asking.hello(3);
    asking.settle();
    asking.pull(3);
    asking.settle();
    EXPECT_EQ(asking.front.trouble(), NodeTrouble::kRestored);
    EXPECT_EQ(asking.last(3, gs_ServerMessage_task_tag), nullptr) << "nothing leaves that is not there";
    asking.upload(2, two);
    asking.settle();
    EXPECT_EQ(asking.front.counters().batches, batches) << "it commits nothing any more";
    EXPECT_NE(std::string(sentence_of(asking.front.trouble())).find("restored to an earlier time"), std::string::npos);
  }
}

// A version that this node cannot read: its sessions end, so that their devices dial another node, and it asks no more.
TEST(Front, InTroubleItServesNobody) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  node.join(1);
  const std::unique_ptr<EngineNode> other = engine.connect("b");
  const uint64_t term = engine.wait(*other, other->take_lease()).lease.term;
  ASSERT_EQ(engine.wait(*other, other->seal(term, 0)).outcome, EngineOutcome::kCommitted);
  ASSERT_EQ(engine.wait(*other, other->publish(term, 0, {1, {4, 5}})).outcome, EngineOutcome::kCommitted);
  engine.fault("a", Fault::kAnswer);
  node.hello(2);  // its row is lost, and is to be asked for again
  node.sent.clear();
  node.pass(kVersionPollMs);
  EXPECT_EQ(node.front.trouble(), NodeTrouble::kUnfit);
  EXPECT_EQ(node.front.next_tick_ms(), UINT64_MAX);
  const uint64_t executed = engine.engine().counters().executed;
  node.pass(60'000);
  node.hello(3);
  node.settle();
  EXPECT_EQ(engine.engine().counters().executed, executed) << "it asks the engine nothing";
  ASSERT_EQ(node.sent.size(), 3U);
  for (uint32_t i = 0; i < node.sent.size(); ++i) {
    EXPECT_TRUE(node.sent[i].is_close);
    EXPECT_EQ(node.sent[i].session, TestNode::session(i + 1));
    EXPECT_EQ(node.sent[i].reason, gs_Reason_REASON_STORAGE);
  }
}

// Two nodes whose clocks are hours apart serve one device: its row has the engine's times.
TEST(Front, WritesTheEnginesTimeIntoRows) {
  constexpr uint64_t kHourMs = 3'600'000;
  FakeHarness engine;
  engine.engine().advance(50'000);
  TestNode ahead(&engine, "a", scalar_parameters());
  TestNode behind(&engine, "b", scalar_parameters());
  ahead.now_ms = kHourMs;
  ahead.front.on_tick(ahead.now_ms);  // an hour in which it heard nothing, and then the time
  ahead.settle();
  ahead.join(1);
  const uint64_t of_one = engine.engine().row(1).task.issued_ms;
  behind.join(2);
  const uint64_t of_two = engine.engine().row(2).task.issued_ms;
  for (const uint64_t issued_ms : {of_one, of_two}) {
    EXPECT_GE(issued_ms, 50'000U);
    EXPECT_LE(issued_ms, 50'000U + kClockErrorMaxMs);
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

// The answer to its join comes behind the versions that were published since.
TEST(Front, AJoinThatIsAnsweredLateDoesNotTakeItBack) {
  RunParameters parameters = scalar_parameters();
  parameters.trigger->update_goal = 1;
  FakeHarness engine;
  TestNode other(&engine, "a", parameters);
  const std::unique_ptr<EngineNode> node = engine.connect("b");
  Front front({7, 0, parameters_digest(parameters, 0)}, parameters, kTestDevices, *node);
  front.start(1000);
  engine.settle();
  EngineReply joined;
  for (const EngineReply& reply : node->take_replies()) {
    if (reply.front.epoch > 0) {
      joined = reply;  // held back
    } else {
      EXPECT_TRUE(front.on_reply(reply, 1000));
    }
  }
  ASSERT_EQ(joined.front.open_version, 0U);
  other.upload(1, other.join(1));
  other.settle();
  publish(&engine, parameters);
  front.on_tick(2000);
  const auto answer = [&] {
    engine.settle();
    for (const EngineReply& reply : node->take_replies()) {
      EXPECT_TRUE(front.on_reply(reply, 2000));
    }
  };
  answer();
  ASSERT_EQ(front.run().version(), 1U);
  EXPECT_TRUE(front.on_reply(joined, 2000));
  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  hello.body.hello = good_hello(20);
  front.on_message(9, 2, hello, 2000);
  answer();
  const std::vector<FrontAction> actions = front.take_actions();
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].message.body.welcome.version, 1U);
}

// Its calls are made again after pauses that grow to a second.
TEST(Front, AnEngineThatIsAwayIsNotFlooded) {
  const RunParameters parameters = scalar_parameters();
  AwayEngine node;
  Front front({7, 0, parameters_digest(parameters, 0)}, parameters, kTestDevices, node);
  front.start(1000);
  std::vector<uint64_t> joins_ms;
  size_t join_count = 0;
  for (uint64_t now_ms = 1000; now_ms < 6000; ++now_ms) {
    if (node.join_count > join_count) {
      joins_ms.push_back(now_ms - 1000);
      join_count = node.join_count;
    }
    for (const EngineReply& reply : node.take_replies()) {
      EXPECT_TRUE(front.on_reply(reply, now_ms));
    }
    if (now_ms >= front.next_tick_ms()) {
      front.on_tick(now_ms);
    }
  }
  // A join is seen, and answered, in the millisecond behind its call.
  EXPECT_EQ(joins_ms, (std::vector<uint64_t>{0, 51, 152, 353, 754, 1555, 2556, 3557, 4558}));
  EXPECT_LT(node.call_count, 40U);
}

// A session that ends while the front is behind leaves nothing that waits.
TEST(Front, AClosedSessionWaitsForNothing) {
  const RunParameters parameters = scalar_parameters();
  AwayEngine node;
  Front front({7, 0, parameters_digest(parameters, 0)}, parameters, kTestDevices, node);
  front.start(1000);
  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  hello.body.hello = good_hello(20);
  for (SessionId session = 1; session <= 100; ++session) {
    front.on_message(session, 1, hello, 1000);
    front.on_message(session, 1, hello, 1000);
    EXPECT_EQ(front.ready_count(), 1U);
    front.on_session_closed(session);
    EXPECT_EQ(front.ready_count(), 0U);
  }
}

// More devices dial at once than one load has, and all of them have lost a task: no batch is larger than it may be.
TEST(Front, LoadsAndBatchesAreBounded) {
  const RunParameters parameters = scalar_parameters();
  constexpr uint32_t kMany = 700;
  AwayEngine node;
  node.is_away = false;
  Front front({7, 0, parameters_digest(parameters, 0)}, parameters, kMany, node);
  front.start(1000);
  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  hello.body.hello = good_hello(20);
  hello.body.hello.lost_task_sequence = 1;
  for (uint32_t device = 0; device < kMany; ++device) {
    front.on_message(device + 1, device, hello, 1000);
  }
  for (int i = 0; i < 100; ++i) {
    for (const EngineReply& reply : node.take_replies()) {
      EXPECT_TRUE(front.on_reply(reply, 1000));
    }
  }
  EXPECT_EQ(node.load_max, kLoadDevicesMax);
  EXPECT_EQ(node.batch_max, kBatchChangesMax) << "the first batch is held back, and the next one gathers";
  EXPECT_EQ(front.take_actions().size(), kMany) << "each has its Welcome";
}

// What each batch has stored, as it was committed.
struct BatchWatch : EngineWatch {
  void on_batch(const std::string&, const EngineBatch& batch, uint64_t) override {
    uint64_t bytes = 0;
    for (const StoredUpdate& update : batch.updates) {
      bytes += update.bytes.size();
    }
    bytes_max = std::max(bytes_max, bytes);
    if (!batch.updates.empty()) {
      update_counts.push_back(batch.updates.size());
    }
  }
  void on_published(const std::string&, const LeaseRow&, const PublishedVersion&) override {}
  std::vector<size_t> update_counts;  // of batches that have any
  uint64_t bytes_max = 0;
};

// Updates of a large model: what is too much for one batch goes into the next one.
TEST(Front, ABatchIsBoundedInBytes) {
  constexpr uint32_t kMany = 70;
  RunParameters parameters = tangent_parameters();
  parameters.model->shape = {4096, 8};
  parameters.local->solver = SolverId::kProjection;
  parameters.local->correction_form = CorrectionForm::kMemory;
  parameters.fold->fold_weight = FoldWeight::kUniform;
  parameters.trigger->device_count = kMany;
  BatchWatch watch;
  FakeHarness engine;
  engine.engine().set_watch(&watch);
  TestNode node(&engine, "a", parameters, kMany);
  std::vector<gs_Task> tasks;
  for (uint32_t device = 0; device < kMany; ++device) {
    tasks.push_back(node.join(device));
  }
  for (uint32_t device = 0; device < kMany; ++device) {
    node.upload(device, tasks[device]);
  }
  node.settle();
  EXPECT_EQ(node.front.counters().updates_accepted, kMany);
  EXPECT_EQ(watch.update_counts, (std::vector<size_t>{1, 63, 6})) << "of 128 KiB and a head each";
  EXPECT_LE(watch.bytes_max, kBatchUpdateBytesMax);
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

// What its devices have begun comes to its end, and a device that dials is sent elsewhere.
TEST(Front, ANodeThatEndsJudgesWhatItHas) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  EXPECT_FALSE(node.front.is_drained()) << "nobody has asked";
  node.front.drain();
  EXPECT_TRUE(node.front.is_drained());
  node.upload(1, task);
  EXPECT_FALSE(node.front.is_drained());
  node.hello(2);
  ASSERT_NE(node.last(2, gs_ServerMessage_drain_tag), nullptr) << "at once";
  EXPECT_GT(node.last(2, gs_ServerMessage_drain_tag)->body.drain.retry.max_ms, 0U);
  node.settle();
  EXPECT_TRUE(node.front.is_drained());
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(engine.engine().row(1).accepted.task_sequence, 1U);
  EXPECT_EQ(node.last(2, gs_ServerMessage_welcome_tag), nullptr);
}

// Whoever waits is told to come later, and loses nothing: what is in comes again, and is judged then.
TEST(Front, DevicesAreAnsweredWhileTheEngineIsAway) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  node.join(3);
  engine.engine().go_away(UINT64_MAX);
  node.hello(2);
  node.pass(kEngineAwayMs);
  EXPECT_FALSE(node.front.is_engine_away()) << "a fail-over may take so long";
  EXPECT_TRUE(node.sent.back().session != TestNode::session(2)) << "the Hello waits";
  node.pass(1);
  EXPECT_TRUE(node.front.is_engine_away());
  EXPECT_EQ(node.sent.back().session, TestNode::session(2));
  EXPECT_TRUE(node.sent.back().is_close);
  EXPECT_EQ(node.sent.back().reason, gs_Reason_REASON_STORAGE);

  node.upload(1, task);
  ASSERT_NE(node.ack(1), nullptr) << "at once";
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_TRY_LATER);
  EXPECT_EQ(node.ack(1)->reason, gs_Reason_REASON_STORAGE);
  EXPECT_GT(node.ack(1)->retry.max_ms, 0U);
  const size_t told = node.sent.size();
  node.pull(3, true);
  EXPECT_GT(node.sent.size(), told);
  EXPECT_EQ(node.sent.back().message.which_body, gs_ServerMessage_task_tag) << "its task is durable";
  node.hello(0);
  EXPECT_TRUE(node.sent.back().is_close);

  engine.engine().end_faults();
  node.pass(kCallPauseLastMs);
  EXPECT_FALSE(node.front.is_engine_away());
  node.upload(1, task);
  node.settle();
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(engine.engine().row(1).accepted.task_sequence, 1U);
}

// Its reads are answered all the time, and a device waits for what is written.
TEST(Front, AnEngineThatWritesNothingIsAwayHoweverItReads) {
  const RunParameters parameters = scalar_parameters();
  AwayEngine node;
  node.is_away = false;
  Front front({7, 0, parameters_digest(parameters, 0)}, parameters, kTestDevices, node);
  uint64_t now_ms = 1000;
  const auto run_until = [&](uint64_t end_ms) {
    for (; now_ms < end_ms; now_ms += 10) {
      for (const EngineReply& reply : node.take_replies()) {
        EXPECT_TRUE(front.on_reply(reply, now_ms));
      }
      front.on_tick(now_ms);
    }
  };
  front.start(now_ms);
  run_until(now_ms + 2 * kEngineAwayMs);
  EXPECT_FALSE(front.is_engine_away()) << "nothing is to be written";
  node.is_full = true;
  DeviceMessage hello = {};
  hello.which_body = gs_DeviceMessage_hello_tag;
  hello.body.hello = good_hello(20);
  hello.body.hello.lost_task_sequence = 1;  // its row changes
  front.on_message(1, 1, hello, now_ms);
  const uint64_t full_ms = now_ms;
  run_until(full_ms + kEngineAwayMs);
  EXPECT_EQ(front.counters().unknowns, 1U);
  EXPECT_FALSE(front.is_engine_away());
  EXPECT_TRUE(front.take_actions().empty());
  run_until(full_ms + kEngineAwayMs + 100);
  EXPECT_TRUE(front.is_engine_away());
  front.on_message(2, 2, hello, now_ms);
  const std::vector<FrontAction> told = front.take_actions();
  ASSERT_EQ(told.size(), 1U) << "at once";
  EXPECT_EQ(told[0].reason, gs_Reason_REASON_STORAGE);
  node.is_full = false;
  run_until(now_ms + 2 * kCallPauseLastMs);
  EXPECT_FALSE(front.is_engine_away());
}

// Two nodes of one name fence each other. The epochs that a node has begun itself are no fence, though it may not know
// of them.
TEST(Front, CountsTheJoinsOfAnotherNodeByItsName) {
  const RunParameters parameters = scalar_parameters();
  AwayEngine node;
  Front front({7, 0, parameters_digest(parameters, 0)}, parameters, kTestDevices, node);
  uint64_t now_ms = 1000;
  const auto run_for = [&](uint64_t ms) {
    for (const uint64_t end_ms = now_ms + ms; now_ms < end_ms; now_ms += 10) {
      for (const EngineReply& reply : node.take_replies()) {
        EXPECT_TRUE(front.on_reply(reply, now_ms));
      }
      front.on_tick(now_ms);
    }
  };
  const auto say = [&](uint32_t device) {
    DeviceMessage hello = {};
    hello.which_body = gs_DeviceMessage_hello_tag;
    hello.body.hello = good_hello(20);
    hello.body.hello.lost_task_sequence = 1;  // its row changes
    front.on_message(device + 1, device, hello, now_ms);
    run_for(100);
  };
  front.start(now_ms);
  run_for(10'000);
  ASSERT_GT(node.join_count, 5U) << "each of them has begun an epoch";
  node.is_away = false;
  run_for(2 * kCallPauseLastMs);
  say(0);
  EXPECT_EQ(front.counters().batches, 1U);
  EXPECT_EQ(front.counters().fences, 0U);
  node.epoch += kLateJoinsMax;  // they come late
  say(1);
  EXPECT_EQ(front.counters().fences, 0U);
  ++node.epoch;
  say(2);
  EXPECT_EQ(front.counters().fences, 1U);
  EXPECT_EQ(front.counters().batches, 3U) << "it has joined again";
  node.is_full = true;
  say(3);
  node.is_full = false;
  run_for(2 * kCallPauseLastMs);
  EXPECT_EQ(front.counters().batches, 4U);
  EXPECT_EQ(front.counters().fences, 1U) << "a batch of unknown outcome was asked for";
}

// A batch that has left waits for its outcome: to say anything of it would be a guess.
TEST(Front, AnUpdateThatIsUnderWayWaitsForTheEngine) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task task = node.join(1);
  node.upload(1, task);
  engine.engine().go_away(UINT64_MAX);
  node.pass(kEngineAwayMs + 1);
  EXPECT_TRUE(node.front.is_engine_away());
  EXPECT_EQ(node.ack(1), nullptr);
  engine.engine().end_faults();
  node.pass(kCallPauseLastMs);
  node.pass(kCallPauseLastMs);
  ASSERT_NE(node.ack(1), nullptr);
  EXPECT_EQ(node.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
}

// A device that was revoked is refused, and what it has said is not judged. One that was enrolled since takes part.
TEST(Front, FollowsAFleetThatChanges) {
  FakeHarness engine;
  TestNode node(&engine, "a", scalar_parameters());
  const gs_Task first = node.join(1);
  const gs_Task second = node.join(2);
  node.hello(kTestDevices);
  EXPECT_EQ(node.sent.back().reason, gs_Reason_REASON_UNKNOWN_RUN);
  node.upload(3, node.join(3));  // its batch is under way
  node.upload(1, first);
  node.upload(2, second);
  std::vector<gs_Reason> standings(kTestDevices + 1, gs_Reason_REASON_NONE);
  standings[1] = gs_Reason_REASON_REVOKED;
  node.front.on_fleet(standings, node.now_ms);
  node.settle();
  EXPECT_EQ(node.ack(1), nullptr);
  EXPECT_TRUE(engine.engine().row(1).task.is_open);
  ASSERT_NE(node.ack(2), nullptr);
  EXPECT_EQ(node.ack(2)->verdict, gs_Verdict_VERDICT_FOLDED) << "judged again without the other one";
  EXPECT_EQ(node.front.counters().updates_accepted, 2U);
  const auto told = std::find_if(node.sent.begin(), node.sent.end(), [](const FrontAction& action) {
    return action.session == TestNode::session(1) && action.is_close;
  });
  ASSERT_NE(told, node.sent.end());
  EXPECT_EQ(told->reason, gs_Reason_REASON_REVOKED);
  node.hello(1);
  EXPECT_TRUE(node.sent.back().is_close) << "also when it dials again";
  EXPECT_EQ(node.join(kTestDevices).task_sequence, 1U);
}

}  // namespace
}  // namespace gradstream
