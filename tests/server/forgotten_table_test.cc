// Bodies that were forgotten: their bytes are gone, the chain holds, and nothing replays through them.
#include <fstream>
#include <functional>
#include <iomanip>
#include <map>
#include <span>
#include <sstream>
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

std::string hex_of(std::span<const uint8_t> bytes) {
  std::ostringstream text;
  for (const uint8_t byte : bytes) {
    text << std::hex << std::setfill('0') << std::setw(2) << unsigned{byte};
  }
  return text.str();
}

void blank(JournalRow* row) {
  row->payload.clear();
  row->notes.clear();
  row->loss_before = row->loss_after = 0;
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
  // As who writes the database: the row is changed and signed anew, and said to be forgotten by the body that it had.
  // No chain is touched. The row comes of another database, which signs it.
  void forge(uint64_t sequence, const std::function<void(JournalRow*)>& change_row) {
    const std::string other = folder_.file("other" + std::to_string(sequence) + ".db");
    JournalRow row = record_of(sequence).row();
    const RecordBody body = JournalChain(ChainHead()).body_of(JournalRecord(row));
    change_row(&row);
    std::vector<JournalRecord> batch = batch_of(1, sequence);
    batch.back() = JournalRecord(row);
    {
      SqliteDatabase database;
      ASSERT_EQ(database.open(options_for(other)), StoreStatus::kOk);
      SqliteStore journal(database, value_of(database.create_run(run_row())));
      ASSERT_EQ(journal.append(batch), StoreStatus::kOk);
    }
    const std::string there = " WHERE sequence=" + std::to_string(sequence);
    edit(path_, "ATTACH '" + other + "' AS other; CREATE TEMP TABLE kept AS SELECT chain FROM main.journal" + there +
                    "; DELETE FROM main.journal" + there + "; INSERT INTO main.journal SELECT * FROM other.journal" +
                    there + "; UPDATE main.journal SET chain=(SELECT chain FROM kept)" + there +
                    "; INSERT INTO main.forgotten VALUES (1," + std::to_string(sequence) + "," +
                    std::to_string(body.length) + ",x'" + hex_of(body.digest) + "')");
  }
  // The sequence at which the chain breaks; 0: nowhere.
  uint64_t broken() {
    SqliteStore journal(database_, 1);
    const StoreStatus walked = journal.walk_chain([](const JournalRecord&, const ChainHead&) { return true; });
    EXPECT_EQ(walked == StoreStatus::kCorrupt, journal.broken_sequence() != 0);
    return journal.broken_sequence();
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
  const std::map<uint32_t, uint64_t> counts = {{kDevice, wanted}};
  EXPECT_EQ(value_of(journal_->forgotten_counts()), counts);
  const std::vector<JournalRecord> after = walk();
  ASSERT_EQ(after.size(), kLast);
  for (size_t i = 0; i < kLast; ++i) {
    JournalRow row = before[i].row();
    if (is_to_go(before[i])) {
      blank(&row);
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
  EXPECT_TRUE(value_of(journal_->forgotten_counts()).empty());
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

constexpr uint64_t kUpdateBefore = 61;  // an update before kBase
constexpr uint64_t kVersionBefore = 63;
constexpr uint64_t kUpdateBehind = 116;

TEST_F(Forgotten, AnUpdateThatIsBlankAndHasItsColumnsIsForgotten) {
  forge(kUpdateBefore, blank);
  EXPECT_EQ(broken(), 0U);
}

TEST_F(Forgotten, AColumnOfAForgottenUpdateIsInTheChain) {
  forge(kUpdateBefore, [](JournalRow* row) {
    blank(row);
    row->weight = 1;
  });
  EXPECT_EQ(broken(), kUpdateBefore);
}

TEST_F(Forgotten, ARecordOfAnotherKindIsNotForgotten) {
  ASSERT_EQ(record_of(kVersionBefore).kind(), RecordKind::kVersion);
  forge(kVersionBefore, blank);
  EXPECT_EQ(broken(), kVersionBefore);
}

TEST_F(Forgotten, AForgottenUpdateIsBlank) {
  for (const auto& change_row : std::vector<std::function<void(JournalRow*)>>{
           [](JournalRow* row) { row->payload = {1}; }, [](JournalRow* row) { row->notes = {1}; },
           [](JournalRow* row) { row->loss_before = 1; }, [](JournalRow* row) { row->loss_after = 1; }}) {
    forge(kUpdateBefore, [&change_row](JournalRow* row) {
      blank(row);
      change_row(row);
    });
    EXPECT_EQ(broken(), kUpdateBefore);
    change("DELETE FROM forgotten");
    std::filesystem::remove(folder_.file("other" + std::to_string(kUpdateBefore) + ".db"));
  }
}

TEST_F(Forgotten, ACheckpointStandsBehindWhatIsForgotten) {
  forge(kUpdateBehind, blank);
  EXPECT_EQ(broken(), kUpdateBehind);
}

}  // namespace
}  // namespace gradstream
