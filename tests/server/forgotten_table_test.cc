// Bodies that were forgotten: their bytes are gone, the chain holds, and nothing replays through them.
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "server/store/journal_table.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint32_t kDevice = 6;
constexpr uint64_t kLast = 120;
constexpr uint64_t kBase = 113;  // a version's record
constexpr size_t kSoughtSize = 64;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_to_go(const JournalRecord& record) {
  return record.kind() == RecordKind::kUpdate && record.device() == kDevice && record.sequence() <= kBase;
}

class Forgotten : public testing::Test {
 protected:
  Forgotten() {
    EXPECT_EQ(database_.open(options_for(path_)), StoreStatus::kOk) << database_.error();
    RunRow run = run_row();
    run.id = value_of(database_.create_run(run));
    journal_.emplace(database_, run.id);
    EXPECT_EQ(journal_->append(batch_of(1, kLast)), StoreStatus::kOk);
    for (const uint64_t sequence : {uint64_t{33}, kBase}) {
      uint64_t written = 0;
      const Checkpoint checkpoint = {{sequence, static_cast<uint32_t>(sequence / 9), sequence, 3}, {1, 2, 3}};
      EXPECT_EQ(journal_->write_checkpoint(checkpoint, &written), StoreStatus::kOk);
    }
    EXPECT_EQ(journal_->read_chain_end(&end_), StoreStatus::kOk);
  }
  uint64_t forget() {
    uint64_t count = 0;
    EXPECT_EQ(journal_->forget(kDevice, {kBase, kBase / 9, kBase, 3}, &count), StoreStatus::kOk) << database_.error();
    return count;
  }
  // The records that are there, all of the chain proven.
  std::vector<JournalRecord> walk(StoreStatus wanted = StoreStatus::kOk) {
    std::vector<JournalRecord> records;
    ChainHead last;
    EXPECT_EQ(journal_->walk_chain([&](const JournalRecord& record, const ChainHead& with_it) {
      records.push_back(record);
      last = with_it;
      return true;
    }),
              wanted);
    if (wanted == StoreStatus::kOk) {
      EXPECT_EQ(last, end_);
    }
    return records;
  }
  // Bytes of an update's values that stand in the file or its log.
  bool is_found(const JournalRecord& record) const {
    const std::string bytes(record.payload().begin(), record.payload().begin() + kSoughtSize);
    return read_file(path_).find(bytes) != std::string::npos ||
           read_file(path_ + "-wal").find(bytes) != std::string::npos;
  }
  void change(const char* sql) {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
    sqlite3_close(connection);
  }

  const Folder folder_;
  const std::string path_ = folder_.file("fleet.db");
  SqliteDatabase database_;
  std::optional<SqliteStore> journal_;
  ChainHead end_;
};

TEST_F(Forgotten, TheBodiesGoAndTheChainHolds) {
  const std::vector<JournalRecord> before = walk();
  ASSERT_EQ(before.size(), kLast);
  const auto wanted = static_cast<uint64_t>(std::count_if(before.begin(), before.end(), is_to_go));
  ASSERT_GE(wanted, 2U);
  EXPECT_EQ(forget(), wanted);
  EXPECT_EQ(value_of(journal_->forgotten_count()), wanted);
  const std::vector<JournalRecord> after = walk();
  ASSERT_EQ(after.size(), kLast);
  for (size_t i = 0; i < kLast; ++i) {
    JournalRow row = before[i].row();
    if (is_to_go(before[i])) {
      row.payload.clear();
      row.notes.clear();
      row.loss_before = row.loss_after = 0;
    }
    EXPECT_EQ(after[i].row(), row) << "who, when and the weight stay, and all of the others";
  }
  EXPECT_EQ(forget(), 0U) << "once";
}

TEST_F(Forgotten, NothingReplaysThroughThem) {
  forget();
  CheckpointHead start;
  ASSERT_EQ(journal_->read_start(&start), StoreStatus::kOk);
  EXPECT_EQ(start.sequence, kBase);
  uint64_t first = 0;
  ASSERT_EQ(journal_->read([&](const JournalRecord& record) {
    first = record.sequence();
    return false;
  }),
            StoreStatus::kOk);
  EXPECT_EQ(first, kBase + 1);
  std::vector<CheckpointHead> heads;
  ASSERT_EQ(journal_->read_heads(&heads), StoreStatus::kOk);
  ASSERT_EQ(heads.size(), 1U) << "the one before it leads through what was forgotten";
  EXPECT_EQ(heads[0].sequence, kBase);
}

TEST_F(Forgotten, ACutThatDropsNothingLeavesTheRecords) {
  forget();
  bool has_more = false;
  ASSERT_EQ(journal_->cut({}, &has_more), StoreStatus::kOk);
  EXPECT_EQ(walk().size(), kLast);
}

TEST_F(Forgotten, ACutDropsThemAsAllOthers) {
  forget();
  ASSERT_EQ(journal_->append(batch_of(kLast + 1, 40)), StoreStatus::kOk);
  ASSERT_EQ(journal_->read_chain_end(&end_), StoreStatus::kOk);
  for (const uint64_t sequence : {uint64_t{138}, uint64_t{158}}) {
    uint64_t written = 0;
    ASSERT_EQ(
        journal_->write_checkpoint({{sequence, static_cast<uint32_t>(sequence / 9), sequence, 3}, {4, 5, 6}}, &written),
        StoreStatus::kOk);
  }
  bool has_more = true;
  while (has_more) {
    ASSERT_EQ(journal_->cut({false, 1, 0}, &has_more), StoreStatus::kOk);
  }
  EXPECT_EQ(value_of(journal_->forgotten_count()), 0U);
  EXPECT_EQ(walk().front().sequence(), 139U);
}

TEST_F(Forgotten, TheBytesAreGoneFromTheFileAndItsLog) {
  std::vector<JournalRecord> gone;
  std::vector<JournalRecord> kept;
  for (const JournalRecord& record : walk()) {
    if (record.payload().size() >= kSoughtSize) {
      (is_to_go(record) ? gone : kept).push_back(record);
    }
  }
  ASSERT_GE(gone.size(), 2U);
  for (const JournalRecord& record : gone) {
    EXPECT_TRUE(is_found(record)) << "before";
  }
  forget();
  ASSERT_EQ(journal_->scrub(), StoreStatus::kOk) << database_.error();
  for (const JournalRecord& record : gone) {
    EXPECT_FALSE(is_found(record)) << record.sequence();
  }
  for (const JournalRecord& record : kept) {
    EXPECT_TRUE(is_found(record)) << record.sequence();
  }
}

TEST_F(Forgotten, ALogThatSomebodyReadsIsNamed) {
  forget();
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM journal", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(journal_->scrub(), StoreStatus::kBusy);
  EXPECT_THAT(database_.error(), HasSubstr("another program reads it"));
  sqlite3_close(reader);
  EXPECT_EQ(journal_->scrub(), StoreStatus::kOk) << database_.error();
}

TEST_F(Forgotten, WhatStandsInTheChainForABodyIsProven) {
  forget();
  change("UPDATE forgotten SET digest=zeroblob(32) WHERE sequence=(SELECT min(sequence) FROM forgotten)");
  walk(StoreStatus::kCorrupt);
  const uint64_t first = journal_->broken_sequence();
  EXPECT_TRUE(is_to_go(record_of(first)));
  change("DELETE FROM forgotten WHERE sequence=(SELECT min(sequence) FROM forgotten)");
  walk(StoreStatus::kCorrupt);
  EXPECT_EQ(journal_->broken_sequence(), first);
}

}  // namespace
}  // namespace gradstream
