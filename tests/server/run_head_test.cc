// Heads of a stored run: made, and compared with whole, cut, changed and truncated journals.
#include "server/program/run_head.h"

#include <fstream>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

constexpr size_t kWalHeaderSize = 32;
constexpr size_t kFrameSize = 24 + 4096;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

void change(const std::string& path, const char* sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
  sqlite3_close(connection);
}

// A run with 30 batches of four records, a head after each, and the files as a killed server leaves them.
class RunHeads : public testing::Test {
 protected:
  RunHeads() {
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(alive_)), StoreStatus::kOk) << database.error();
    run_ = run_row();
    run_.run_nonce = 0x1234;
    run_.id = value_of(database.create_run(run_));
    run_end_ = read_file(alive_ + "-wal").size();
    SqliteStore journal(database, run_.id);
    EXPECT_FALSE(value_of(read_head(journal, run_, 1)).has_value()) << "no version yet";
    for (uint64_t batch = 0; batch < 30; ++batch) {
      before_last_ = read_file(alive_ + "-wal").size();
      EXPECT_EQ(journal.append(batch_of(1 + batch * 4, 4)), StoreStatus::kOk);
      heads_.push_back(value_of(read_head(journal, run_, batch)).value_or(JournalHead()));
    }
    database_bytes_ = read_file(alive_);
    wal_bytes_ = read_file(alive_ + "-wal");
    restore(wal_bytes_);
  }
  void restore(const std::string& wal) {
    std::filesystem::remove(path_ + "-shm");
    write_file(path_, database_bytes_);
    write_file(path_ + "-wal", wal);
  }
  // Flips a bit of the log: gradstream refuses it. Then leaves of the log what another program that recovers it leaves.
  void flip(size_t at, size_t bit) {
    std::string wal = wal_bytes_;
    wal[at] = static_cast<char>(wal[at] ^ (1 << bit));
    restore(wal);
    SqliteDatabase refused;
    EXPECT_EQ(refused.open(options_for(path_)), StoreStatus::kCorrupt) << "byte " << at;
    restore(wal_bytes_.substr(0, at - (at - kWalHeaderSize) % kFrameSize));
  }
  bool has_run() {
    SqliteDatabase database;
    return database.open(options_for(path_)) == StoreStatus::kOk && value_of(database.find_run(run_.id)).has_value();
  }
  HeadReport report(const std::vector<JournalHead>& heads, StoreStatus wanted = StoreStatus::kOk) {
    HeadReport out;
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(path_)), StoreStatus::kOk) << database.error();
    SqliteStore journal(database, run_.id);
    EXPECT_EQ(check_heads(journal, run_, heads, &out), wanted) << database.error();
    broken_ = journal.broken_sequence();
    return out;
  }

  const Folder folder_;
  const std::string alive_ = folder_.file("alive.db");
  const std::string path_ = folder_.file("killed.db");
  RunRow run_;
  std::vector<JournalHead> heads_;
  std::string database_bytes_;
  std::string wal_bytes_;
  size_t run_end_ = 0;      // bytes of the log with the run and no record
  size_t before_last_ = 0;  // before the last batch
  uint64_t broken_ = 0;
};

TEST_F(RunHeads, AHeadSaysTheLastRecordAndTheLastVersion) {
  const JournalHead& head = heads_.back();
  EXPECT_EQ(head.run, run_.id);
  EXPECT_EQ(head.run_nonce, 0x1234U);
  EXPECT_EQ(head.record.sequence, 120U);
  EXPECT_EQ(head.version, record_of(118).version()) << "its kind is that of a version";
  EXPECT_EQ(head.digest, record_of(118).digest());
  EXPECT_EQ(head.time_ms, 29U);
}

TEST_F(RunHeads, TheJournalHoldsItsOwnHeads) {
  const HeadReport all = report(heads_);
  EXPECT_EQ(all.finding, HeadFinding::kContained);
  EXPECT_EQ(all.contained, heads_.size());
  EXPECT_EQ(all.not_kept, 0U);
  EXPECT_EQ(all.same_sequence, 120U);
  EXPECT_EQ(all.end, heads_.back().record);
}

TEST_F(RunHeads, EachFieldOfAHeadCounts) {
  const JournalHead& good = heads_[20];
  std::vector<JournalHead> others(6, good);
  others[0].run += 1;
  others[1].run_nonce += 1;
  others[2].record.chain[31] ^= 1;
  others[3].version += 1;
  others[4].digest += 1;
  others[5].record.sequence += 1;
  for (const JournalHead& other : others) {
    const HeadReport found = report({heads_[3], other});
    const bool is_of_run = other.run == good.run && other.run_nonce == good.run_nonce;
    EXPECT_EQ(found.finding, is_of_run ? HeadFinding::kOther : HeadFinding::kOtherRun) << head_text(other);
    EXPECT_EQ(found.bad, 1U);
    EXPECT_EQ(found.same_sequence, heads_[3].record.sequence);
  }
}

// SQLite takes a bad frame for the end of the log: of a bit that flips before the last commit, later commits are gone.
TEST_F(RunHeads, ThirtyOfThirtyFlippedBitsOfTheLogAreNamedByAHead) {
  ASSERT_GT(run_end_, kWalHeaderSize);
  ASSERT_GT(before_last_, run_end_);
  std::mt19937 random(11);
  uint32_t named = 0;
  for (int i = 0; i < 30; ++i) {
    const size_t at = run_end_ + random() % (before_last_ - run_end_);
    flip(at, random() % 8);
    ASSERT_TRUE(has_run()) << "byte " << at;
    const HeadFinding finding = report({heads_.back()}).finding;
    EXPECT_EQ(finding, HeadFinding::kMissing) << "byte " << at;
    named += finding == HeadFinding::kMissing ? 1 : 0;
  }
  EXPECT_EQ(named, 30U);
}

TEST_F(RunHeads, OfABitThatFlipsBeforeTheRunWasMadeTheRunIsGone) {
  std::mt19937 random(12);
  for (int i = 0; i < 10; ++i) {
    const size_t at = kWalHeaderSize + random() % (run_end_ - kWalHeaderSize);
    flip(at, random() % 8);
    EXPECT_FALSE(has_run()) << "byte " << at;
  }
}

TEST_F(RunHeads, ADroppedLastRecordIsFoundByAHeadAlone) {
  change(path_, "DELETE FROM journal WHERE sequence=120");
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path_)), StoreStatus::kOk);
  SqliteStore journal(database, run_.id);
  HeadReport found;
  ASSERT_EQ(check_heads(journal, run_, {}, &found), StoreStatus::kOk) << "the chain is whole";
  ASSERT_EQ(check_heads(journal, run_, heads_, &found), StoreStatus::kOk);
  EXPECT_EQ(found.finding, HeadFinding::kMissing);
  EXPECT_EQ(found.bad, heads_.size() - 1);
  EXPECT_EQ(found.end.sequence, 119U);
}

// Defect: a page that says it has one row less was called a journal that ends early, as though an older copy were
// there.
TEST_F(RunHeads, ADamagedPageIsNoTruncatedJournal) {
  constexpr size_t kPageSize = 4096;
  constexpr char kIndexLeaf = 10;   // the kind of page that a table WITHOUT ROWID has
  constexpr size_t kCellCount = 4;  // its low byte
  change(path_, "PRAGMA wal_checkpoint(TRUNCATE)");
  const std::string whole = read_file(path_);
  size_t lost_count = 0;
  for (size_t page = kPageSize; page < whole.size(); page += kPageSize) {
    if (whole[page] != kIndexLeaf || whole[page + kCellCount] <= 1) {
      continue;
    }
    std::string damaged = whole;
    --damaged[page + kCellCount];
    write_file(path_, damaged);
    SqliteOptions options = options_for(path_);
    options.check_integrity = false;  // as the verbs open it
    SqliteDatabase database;
    if (database.open(options) != StoreStatus::kOk || !value_of(database.find_run(run_.id))) {
      continue;  // a page of another table
    }
    SqliteStore journal(database, run_.id);
    HeadReport found;
    const StoreStatus status = check_heads(journal, run_, {&heads_.back(), 1}, &found);
    EXPECT_TRUE(status == StoreStatus::kCorrupt || found.finding == HeadFinding::kContained) << page;
    lost_count += status == StoreStatus::kCorrupt && found.finding == HeadFinding::kMissing ? 1 : 0;
  }
  EXPECT_EQ(lost_count, 1U) << "the last page of the journal";
}

TEST_F(RunHeads, AChangedRowIsNamedByItsSequence) {
  change(path_, "UPDATE journal SET weight=weight+1 WHERE sequence=77");
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path_)), StoreStatus::kOk);
  report(heads_, StoreStatus::kCorrupt);
  EXPECT_EQ(broken_, 77U);
}

// Who owns the file can write another history with a chain of its own. Only a head that was kept elsewhere tells.
TEST_F(RunHeads, AHistoryThatWasWrittenAnewIsFoundByAHead) {
  change(path_, "DELETE FROM journal WHERE sequence>=77");
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path_)), StoreStatus::kOk);
  SqliteStore journal(database, run_.id);
  std::vector<JournalRecord> batch = batch_of(77, 44);
  batch[0].set_time_ms(1);
  ASSERT_EQ(journal.append(batch), StoreStatus::kOk);
  HeadReport found;
  ASSERT_EQ(check_heads(journal, run_, {}, &found), StoreStatus::kOk);
  ASSERT_EQ(check_heads(journal, run_, heads_, &found), StoreStatus::kOk);
  EXPECT_EQ(found.finding, HeadFinding::kOther);
  EXPECT_EQ(found.same_sequence, 76U);
  EXPECT_EQ(heads_[found.bad].record.sequence, 80U) << "the first head behind the change";
}

TEST_F(RunHeads, HeadsBeforeACutAreNotJudged) {
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path_)), StoreStatus::kOk);
  SqliteStore journal(database, run_.id);
  for (const uint64_t sequence : {53, 83, 113}) {
    uint64_t written = 0;
    Checkpoint checkpoint = {{sequence, static_cast<uint32_t>(sequence / 9), sequence, 3}, {1, 2, 3}};
    ASSERT_EQ(journal.write_checkpoint(checkpoint, &written), StoreStatus::kOk);
  }
  bool has_more = false;
  ASSERT_EQ(journal.cut({false, 10, 0}, &has_more), StoreStatus::kOk);
  HeadReport found;
  ASSERT_EQ(check_heads(journal, run_, heads_, &found), StoreStatus::kOk) << database.error();
  EXPECT_EQ(found.finding, HeadFinding::kContained);
  EXPECT_EQ(found.start.sequence, 83U);
  EXPECT_EQ(found.not_kept, 20U) << "sequences 4 to 80";
  EXPECT_EQ(found.contained, 10U);
  ASSERT_EQ(check_heads(journal, run_, std::span(heads_).first(20), &found), StoreStatus::kOk);
  EXPECT_EQ(found.contained, 0U);
  EXPECT_EQ(found.not_kept, 20U);
}

}  // namespace
}  // namespace gradstream
