#include "sim/fake_engine.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fake_engine_harness.h"

namespace gradstream {
namespace {

TEST(FakeEngine, APausedNodeIsHeardWhenItWakes) {
  FakeHarness harness;
  const std::unique_ptr<EngineNode> a = harness.connect("a");
  const std::unique_ptr<EngineNode> b = harness.connect("b");
  harness.engine().pause("a", 5'000);
  a->join();
  const EngineTicket other = b->join();
  EXPECT_EQ(harness.wait(*b, other).outcome, EngineOutcome::kCommitted);
  EXPECT_TRUE(a->take_replies().empty());
  harness.settle();
  EXPECT_EQ(a->take_replies().size(), 1U);
}

// Whatever its calls meet, and whether they were under way when it was paused.
TEST(FakeEngine, NothingOfAPausedNodeHappens) {
  using Fault = FakeEngine::Fault;
  for (const Fault fault : {Fault::kNone, Fault::kLostBefore, Fault::kLostAfter, Fault::kLate, Fault::kMuchLate}) {
    for (const bool is_under_way : {false, true}) {
      FakeHarness harness;
      FakeEngine& engine = harness.engine();
      const std::unique_ptr<EngineNode> a = harness.connect("a");
      engine.plant("a", fault);
      if (!is_under_way) {
        engine.pause("a", 5'000);
      }
      a->join();
      engine.pause("a", 5'000);
      engine.advance(4'999);
      EXPECT_EQ(engine.counters().executed, 0U);
      EXPECT_TRUE(a->take_replies().empty());
      engine.advance(5'500);
      EXPECT_EQ(engine.counters().executed, fault == Fault::kLostBefore ? 0U : 1U);
      EXPECT_EQ(a->take_replies().size(), 1U);
    }
  }
}

TEST(FakeEngine, ItsClockGoesOnBehindAPause) {
  FakeHarness harness;
  const std::unique_ptr<EngineNode> a = harness.connect("a");
  const std::unique_ptr<EngineNode> b = harness.connect("b");
  harness.engine().pause("a", 5'000);
  a->take_lease();
  harness.settle();
  harness.pass_lease();
  EXPECT_EQ(harness.wait(*b, b->take_lease()).lease.node, "b");
}

TEST(FakeEngine, ADeadConnectionAsksNothing) {
  FakeHarness harness;
  const std::unique_ptr<EngineNode> dead = harness.connect("a");
  const std::unique_ptr<EngineNode> a = harness.connect("a");
  dead->join();
  harness.settle();
  EXPECT_EQ(harness.engine().counters().executed, 0U);
  EXPECT_TRUE(a->take_replies().empty());
}

// A node that comes back does not hear what its older connection asked.
TEST(FakeEngine, ADeadConnectionHearsNothing) {
  FakeHarness harness;
  std::unique_ptr<EngineNode> a = harness.connect("a");
  a->join();
  a = harness.connect("a");
  const EngineTicket ticket = a->join();
  EXPECT_EQ(harness.wait(*a, ticket).front.epoch, 2U) << "the older call was executed all the same";
  harness.settle();
  EXPECT_TRUE(a->take_replies().empty());
}

// A sound fail-over keeps what was committed; an asynchronous one loses the last of it, which a checker must find.
TEST(FakeEngine, AFailOverKeepsWhatWasCommitted) {
  for (const size_t lost_count : {0U, 1U}) {
    FakeHarness harness;
    const std::unique_ptr<EngineNode> a = harness.connect("a");
    harness.wait(*a, a->join());
    RowChange change = {1, 0, false, {}};
    change.row.task.sequence = 1;
    EngineBatch batch = {.epoch = 1, .number = 1, .changes = {change}, .sum = {}, .updates = {}};
    EXPECT_EQ(harness.wait(*a, a->commit(batch)).outcome, EngineOutcome::kCommitted);
    harness.wait(*a, a->load({1}));  // a read is none of the transactions that are undone
    const EngineTicket under_way = a->load({1});
    harness.engine().fail_over(lost_count);
    EXPECT_EQ(harness.wait(*a, under_way).outcome, EngineOutcome::kUnknown);
    EXPECT_EQ(harness.engine().row(1).task.sequence, lost_count == 0 ? 1U : 0U);
  }
}

TEST(FakeEngine, DrawsNoFaultThatItsMaskLeavesOut) {
  using Fault = FakeEngine::Fault;
  for (const Fault alone : {Fault::kLostBefore, Fault::kLostAfter, Fault::kLate, Fault::kMuchLate}) {
    SCOPED_TRACE(static_cast<int>(alone));
    FakeEngine engine({.lost_odds = 2, .fault_bits = bit_of(alone)});
    const std::unique_ptr<EngineNode> a = engine.connect("a");
    for (int i = 0; i < 40; ++i) {
      a->take_lease();
      while (engine.next_ms() != UINT64_MAX) {
        engine.advance(engine.next_ms());
      }
    }
    const FakeEngineCounters& met = engine.counters();
    EXPECT_EQ(met.lost_before > 0, alone == Fault::kLostBefore);
    EXPECT_EQ(met.lost_after > 0, alone == Fault::kLostAfter);
    EXPECT_EQ(met.late > 0, alone == Fault::kLate);
    EXPECT_EQ(met.much_late > 0, alone == Fault::kMuchLate);
  }
}

TEST(FakeEngine, DrawsItsFaultsFromItsSeed) {
  std::vector<uint64_t> first;
  for (const uint32_t seed : {1U, 1U, 2U}) {
    FakeHarness harness(4, seed);
    const std::unique_ptr<EngineNode> a = harness.connect("a");
    for (int i = 0; i < 400; ++i) {
      harness.wait(*a, a->take_lease());
    }
    const FakeEngineCounters& met = harness.engine().counters();
    const std::vector<uint64_t> counts = {met.executed, met.lost_before, met.lost_after, met.late, met.much_late};
    EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 10U);
    first = first.empty() ? counts : first;
    EXPECT_EQ(counts == first, seed == 1);
  }
}

// What no front may send, the simulator finds: PostgreSQL would refuse it by its key.
TEST(FakeEngine, FindsASecondUpdateFromOneVersion) {
  FakeHarness harness;
  const std::unique_ptr<EngineNode> a = harness.connect("a");
  const FrontRow joined = harness.wait(*a, a->join()).front;
  EngineBatch batch;
  batch.epoch = joined.epoch;
  batch.number = 1;
  batch.updates = {{3, 0, {1}}};
  EXPECT_EQ(harness.wait(*a, a->commit(batch)).outcome, EngineOutcome::kCommitted);
  batch.number = 2;
  const EngineTicket ticket = a->commit(batch);
  EXPECT_DEATH(static_cast<void>(harness.wait(*a, ticket)), "assertion failed");
}

}  // namespace
}  // namespace gradstream
