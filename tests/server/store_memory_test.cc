#include "server/journal/store_memory.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

JournalRecord record(uint64_t sequence) {
  JournalRecord out = JournalRecord::run_state({.event = RunEvent::kStalled, .cause = {1, 2, 3}});
  out.set_sequence(sequence);
  return out;
}

TEST(StoreMemory, ReadsBackInOrderAndStopsWhenTold) {
  StoreMemory store;
  EXPECT_EQ(store.append(std::vector{record(1), record(2)}), StoreStatus::kOk);
  EXPECT_EQ(store.append(std::vector{record(3)}), StoreStatus::kOk);
  std::vector<JournalRecord> read;
  EXPECT_EQ(store.read([&](const JournalRecord& r) {
    read.push_back(r);
    return read.size() < 2;
  }),
            StoreStatus::kOk);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[1], record(2));
  EXPECT_EQ(store.records().size(), 3U);
}

TEST(StoreMemory, TakesNoGapsAndNothingWhileItFails) {
  StoreMemory store;
  EXPECT_EQ(store.append(std::vector{record(2)}), StoreStatus::kFailed);
  EXPECT_EQ(store.append(std::vector{record(1), record(3)}), StoreStatus::kFailed);
  EXPECT_TRUE(store.records().empty());
  store.fail_with(StoreStatus::kFull);
  EXPECT_EQ(store.append(std::vector{record(1)}), StoreStatus::kFull);
  store.fail_with(StoreStatus::kOk);
  EXPECT_EQ(store.append(std::vector{record(1)}), StoreStatus::kOk);
}

}  // namespace
}  // namespace gradstream
