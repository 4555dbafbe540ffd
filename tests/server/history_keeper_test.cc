#include "server/program/history_keeper.h"

#include <future>

#include <gtest/gtest.h>

#include "server/journal/store_memory.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// A store that takes a checkpoint in three pieces, and drops in two steps.
class PiecedStore : public StoreMemory {
 public:
  StoreStatus write_checkpoint(const Checkpoint& checkpoint, uint64_t* written) override {
    ++pieces;
    const uint64_t third = checkpoint.bytes.size() / 3;
    if (is_full) {
      return StoreStatus::kFull;
    }
    if (*written < 2 * third) {
      *written += third;
      return StoreStatus::kOk;
    }
    return StoreMemory::write_checkpoint(checkpoint, written);
  }
  StoreStatus cut(const JournalKeep& keep, bool* has_more) override {
    *has_more = ++cuts % 2 == 1;
    bool ignored = false;
    return *has_more ? StoreStatus::kOk : StoreMemory::cut(keep, &ignored);
  }
  int pieces = 0;
  int cuts = 0;
  bool is_full = false;
};

struct Fixture {
  // Behind every job that a job has made.
  void wait() {
    for (int i = 0; i < 12; ++i) {
      std::promise<void> done;
      thread.run_after([&done] { done.set_value(); });
      done.get_future().wait();
    }
  }
  void take(uint64_t version) {
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->bytes.resize(300);
    checkpoint->head = {10 * version, static_cast<uint32_t>(version), 5 * version, 300};
    keeper.take(checkpoint);
  }
  asio::io_context io;
  PiecedStore store;
  StoreThread thread{io, store, {}, {[](uint64_t, const ChainHead&) {}, [](StoreStatus) {}, [] {}}};
  HistoryKeeper keeper{1, {false, 5, 0}, store, thread};
};

TEST(HistoryKeeper, WritesPieceByPieceAndThenCuts) {
  Fixture f;
  for (uint64_t version = 1; version <= 3; ++version) {
    f.take(version);
    f.wait();
  }
  EXPECT_TRUE(f.thread.stop());
  EXPECT_EQ(f.store.pieces, 9);
  EXPECT_EQ(f.store.cuts, 6);
  std::vector<CheckpointHead> heads;
  ASSERT_EQ(f.store.read_heads(&heads), StoreStatus::kOk);
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(heads[0].version, 2U);
}

TEST(HistoryKeeper, AFullDiskCostsACheckpointAndNothingElse) {
  Fixture f;
  f.store.is_full = true;
  f.take(1);
  f.wait();
  EXPECT_EQ(f.store.cuts, 0);
  f.store.is_full = false;
  f.take(2);
  f.wait();
  f.keeper.end();
  f.take(3);
  EXPECT_TRUE(f.thread.stop());
  std::vector<CheckpointHead> heads;
  ASSERT_EQ(f.store.read_heads(&heads), StoreStatus::kOk);
  ASSERT_EQ(heads.size(), 1U) << "what comes behind the end is left";
  EXPECT_EQ(heads[0].version, 2U);
}

TEST(HistoryKeeper, TheNumberOfUpdatesFollowsFromWhatIsKept) {
  RunParameters p = scalar_parameters();  // four devices
  EXPECT_EQ(checkpoint_update_count(p, {}), kCheckpointUpdatesMax);
  EXPECT_EQ(checkpoint_update_count(p, {false, 100'000, 0}), 10'000U);
  EXPECT_EQ(checkpoint_update_count(p, {false, 40'000, 0}), 5'000U);
  EXPECT_EQ(checkpoint_update_count(p, {false, 0, 0}), kCheckpointUpdatesMin);
  EXPECT_EQ(checkpoint_update_count(p, {false, 0, 1000}), 500U);
  EXPECT_EQ(checkpoint_update_count(p, {false, UINT64_MAX / 8, 0}), kCheckpointUpdatesMax);
}

TEST(HistoryKeeper, TheKeySaysWhatIsKept) {
  JournalKeep keep;
  EXPECT_TRUE(parse_journal_keep("all", &keep));
  EXPECT_TRUE(keep.is_all);
  EXPECT_TRUE(parse_journal_keep("500 versions", &keep));
  EXPECT_EQ(keep, (JournalKeep{false, 0, 500}));
  EXPECT_TRUE(parse_journal_keep("0 updates", &keep));
  EXPECT_EQ(keep, (JournalKeep{false, 0, 0}));
  for (const char* const wrong :
       {"", "5", "updates", "-1 updates", "5 days", "5  updates", "99999999999999999999 updates"}) {
    EXPECT_FALSE(parse_journal_keep(wrong, &keep)) << wrong;
  }
}

}  // namespace
}  // namespace gradstream
