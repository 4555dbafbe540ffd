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
    EngineBatch batch = {.epoch = 1, .number = 1, .changes = {change}, .sum = {}};
    EXPECT_EQ(harness.wait(*a, a->commit(batch)).outcome, EngineOutcome::kCommitted);
    const EngineTicket under_way = a->load({1});
    harness.engine().fail_over(lost_count);
    EXPECT_EQ(harness.wait(*a, under_way).outcome, EngineOutcome::kUnknown);
    EXPECT_EQ(harness.engine().row(1).task.sequence, lost_count == 0 ? 1U : 0U);
  }
}

TEST(FakeEngine, DrawsItsFaultsFromItsSeed) {
  std::vector<uint64_t> first;
  for (int run = 0; run < 2; ++run) {
    FakeHarness harness(4);
    const std::unique_ptr<EngineNode> a = harness.connect("a");
    for (int i = 0; i < 400; ++i) {
      harness.wait(*a, a->take_lease());
    }
    const FakeEngineCounters& met = harness.engine().counters();
    const std::vector<uint64_t> counts = {met.executed, met.lost_before, met.lost_after, met.late};
    EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 10U);
    first = run == 0 ? counts : first;
    EXPECT_EQ(counts, first);
  }
}

}  // namespace
}  // namespace gradstream
