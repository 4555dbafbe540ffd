// The disk's thread: batches, order, failure and recovery.
#include "server/store/store_thread.h"

#include <atomic>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// Notes batches; fails while told to.
class FakeStore : public Store {
 public:
  StoreStatus append(std::span<const JournalRecord> batch) override {
    ++tries;
    if (failing) {
      return StoreStatus::kFull;
    }
    batch_sizes.push_back(batch.size());
    for (const JournalRecord& record : batch) {
      sequences.push_back(record.sequence());
    }
    return StoreStatus::kOk;
  }
  StoreStatus read_after(uint64_t, const std::function<bool(const JournalRecord&)>&) override {
    return StoreStatus::kOk;
  }

  StoreStatus read_chain_end(ChainHead* out) override {
    *out = {has_chain && !sequences.empty() ? sequences.back() : 0, {}};
    return StoreStatus::kOk;
  }

  std::atomic<bool> failing = false;
  std::atomic<bool> has_chain = true;
  std::atomic<int> tries = 0;
  std::vector<size_t> batch_sizes;  // read only after stop()
  std::vector<uint64_t> sequences;
};

struct Fixture {
  explicit Fixture(const StoreThreadLimits& limits)
      : thread(io, store, limits,
               {[this](uint64_t sequence, const ChainHead& chain) {
                  events.push_back("persisted " + std::to_string(sequence));
                  chained = chain.sequence;
                },
                [this](StoreStatus) { events.push_back("failed"); }, [this] { events.push_back("recovered"); }}) {}
  void append(uint64_t sequence) {
    JournalRecord record;
    record.set_sequence(sequence);
    thread.append(std::move(record));
  }
  void until_event(const std::string& event) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((events.empty() || events.back() != event) && std::chrono::steady_clock::now() < limit) {
      io.run_one_for(std::chrono::milliseconds(10));
    }
    ASSERT_FALSE(events.empty());
    ASSERT_EQ(events.back(), event);
  }

  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::vector<std::string> events;
  uint64_t chained = 0;  // of the chain that came with the last report
  FakeStore store;
  StoreThread thread;
};

TEST(StoreThread, EverythingIsStoredInOrderAndInBoundedBatches) {
  Fixture f({8, 1, 1});
  for (uint64_t sequence = 1; sequence <= 100; ++sequence) {
    f.append(sequence);
  }
  f.until_event("persisted 100");
  EXPECT_EQ(f.chained, 100U);
  f.store.has_chain = false;
  f.append(101);
  f.until_event("persisted 101");
  EXPECT_EQ(f.chained, 0U);
  EXPECT_TRUE(f.thread.stop());
  ASSERT_EQ(f.store.sequences.size(), 101U);
  for (size_t i = 0; i < 101; ++i) {
    EXPECT_EQ(f.store.sequences[i], i + 1);
  }
  for (const size_t size : f.store.batch_sizes) {
    EXPECT_LE(size, 8U);
  }
}

TEST(StoreThread, AJobRunsAfterWhatCameBeforeIt) {
  Fixture f({64, 1, 1});
  std::atomic<bool> ran = false;
  f.append(1);
  f.append(2);
  f.thread.run_after([&] { ran = f.store.sequences.size() == 2; });
  f.append(3);
  EXPECT_TRUE(f.thread.stop());
  EXPECT_TRUE(ran);
  EXPECT_EQ(f.store.sequences.size(), 3U);
}

// Records in between wake nobody: the delay is longer than the test may last.
TEST(StoreThread, AFullBatchAndAJobDoNotWaitForTheDelay) {
  Fixture f({8, 1000000, 1});
  for (uint64_t sequence = 1; sequence <= 8; ++sequence) {
    f.append(sequence);
  }
  f.until_event("persisted 8");
  f.append(9);
  f.thread.run_after([] {});
  f.until_event("persisted 9");
  EXPECT_TRUE(f.thread.stop());
  EXPECT_EQ(f.store.batch_sizes.front(), 8U);
}

TEST(StoreThread, AFailingStoreIsTriedAgainAndLosesNothing) {
  Fixture f({4, 0, 1});
  f.store.failing = true;
  f.append(1);
  f.until_event("failed");
  f.append(2);
  while (f.store.tries < 3) {
  }
  f.store.failing = false;
  f.until_event("persisted 2");
  EXPECT_EQ(f.events, (std::vector<std::string>{"failed", "recovered", "persisted 1", "persisted 2"}));
  EXPECT_TRUE(f.thread.stop());
  EXPECT_EQ(f.store.sequences, (std::vector<uint64_t>{1, 2}));
}

TEST(StoreThread, StopTriesOnceMoreAndSaysWhenRecordsAreLeft) {
  Fixture f({4, 0, 1000000});
  f.store.failing = true;
  f.append(1);
  f.until_event("failed");
  EXPECT_FALSE(f.thread.stop());
}

}  // namespace
}  // namespace gradstream
