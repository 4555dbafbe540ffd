#include "server/journal/checkpoint.h"

#include <gtest/gtest.h>

#include "server/journal/store_memory.h"

namespace gradstream {
namespace {

// Of a version with every ten updates and twenty records.
std::vector<CheckpointHead> heads(uint64_t first, uint64_t last) {
  std::vector<CheckpointHead> out;
  for (uint64_t i = first; i <= last; ++i) {
    out.push_back({20 * i, static_cast<uint32_t>(i), 10 * i, 100});
  }
  return out;
}

TEST(Checkpoint, ACutLeavesWhatTheKeyNames) {
  const JournalKeep keep = {false, 25, 0};
  EXPECT_EQ(choose_cut({}, 0, keep).sequence, 0U);
  EXPECT_EQ(choose_cut(heads(1, 1), 0, keep).sequence, 0U);
  EXPECT_EQ(choose_cut(heads(1, 3), 0, keep).sequence, 0U) << "20 updates behind";
  const JournalCut cut = choose_cut(heads(1, 6), 0, keep);
  EXPECT_EQ(cut.sequence, 60U);
  EXPECT_EQ(cut.version, 3U);
  EXPECT_EQ(cut.checkpoints, (std::vector<uint64_t>{20, 40})) << "the one at the cut is what its tail begins at";
  EXPECT_EQ(choose_cut(heads(3, 6), 60, keep).sequence, 0U) << "it is done";
  EXPECT_EQ(choose_cut(heads(1, 6), 0, {false, 0, 4}).sequence, 40U) << "four versions";
}

// However little is to be kept: the newest may not read.
TEST(Checkpoint, TheLastTwoStay) {
  const JournalCut cut = choose_cut(heads(1, 6), 0, {false, 0, 0});
  EXPECT_EQ(cut.sequence, 100U);
  EXPECT_EQ(cut.checkpoints, (std::vector<uint64_t>{20, 40, 60, 80}));
}

TEST(Checkpoint, WhereAllIsKeptOnlyCheckpointsGo) {
  const JournalKeep all;
  const JournalCut whole = choose_cut(heads(1, 5), 0, all);
  EXPECT_EQ(whole.sequence, 0U);
  EXPECT_EQ(whole.checkpoints, (std::vector<uint64_t>{20, 40, 60}));
  const JournalCut was_cut = choose_cut(heads(1, 5), 20, all);
  EXPECT_EQ(was_cut.checkpoints, (std::vector<uint64_t>{40, 60})) << "what is kept begins at the first";
}

TEST(Checkpoint, AStoreCutsAndReadsOn) {
  StoreMemory store;
  std::vector<JournalRecord> records(100);
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].set_sequence(i + 1);
  }
  ASSERT_EQ(store.append(records), StoreStatus::kOk);
  uint64_t written = 0;
  for (const CheckpointHead& head : heads(1, 5)) {
    ASSERT_EQ(store.write_checkpoint({head, std::vector<uint8_t>(100)}, &written), StoreStatus::kOk);
  }
  bool has_more = true;
  ASSERT_EQ(store.cut({false, 15, 0}, &has_more), StoreStatus::kOk);
  EXPECT_FALSE(has_more);
  CheckpointHead start;
  ASSERT_EQ(store.read_start(&start), StoreStatus::kOk);
  EXPECT_EQ(start.sequence, 60U);
  std::vector<uint64_t> read;
  ASSERT_EQ(store.read([&](const JournalRecord& record) {
    read.push_back(record.sequence());
    return true;
  }),
            StoreStatus::kOk);
  EXPECT_EQ(read.size(), 40U);
  EXPECT_EQ(read.front(), 61U);
  EXPECT_EQ(store.read_after(40, [](const JournalRecord&) { return true; }), StoreStatus::kCorrupt);
}

}  // namespace
}  // namespace gradstream
