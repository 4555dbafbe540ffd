// Format 9: a file without chains of journals and nonces of runs gets them, once. Older formats:
// sqlite_database_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"
#include "server/store/journal_table.h"
#include "tests/support/server_peer.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kCount = 2300;  // more than are chained at once

// Of format 8: a run with records and two checkpoints, of which the second is at the record in the middle. Perhaps
// another one after it, with three records.
struct Old {
  explicit Old(bool has_next = false) : path(folder.file("a.db")) {
    {
      SqliteDatabase database;
      EXPECT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
      EXPECT_EQ(value_of(database.create_run(run_row())), 1U);
      SqliteStore store(database, 1);
      EXPECT_EQ(store.append(batch_of(1, kCount)), StoreStatus::kOk);
      for (const uint64_t sequence : {uint64_t{100}, kCount / 2}) {
        uint64_t written = 0;
        EXPECT_EQ(store.write_checkpoint({{sequence, 5, 6, 3}, {1, 2, 3}}, &written), StoreStatus::kOk);
        EXPECT_EQ(store.read_chain(sequence, &chains.emplace_back()), StoreStatus::kOk);
      }
      EXPECT_EQ(store.read_chain_end(&chains.emplace_back()), StoreStatus::kOk);
      if (has_next) {
        EXPECT_TRUE(database.set_run_state(1, StoredRunState::kFinished) == StoreStatus::kOk);
        EXPECT_EQ(value_of(database.create_run(run_row())), 2U);
        EXPECT_EQ(SqliteStore(database, 2).append(batch_of(1, 3)), StoreStatus::kOk);
      }
    }
    edit(path, kToFormat8);
    for (const uint64_t sequence : {uint64_t{100}, kCount / 2}) {
      edit(path, "UPDATE checkpoints SET crc32c=" + std::to_string(old_checksum({1, sequence, 5, 6, 3})) +
                     " WHERE sequence=" + std::to_string(sequence));
    }
    edit(path, "UPDATE meta SET value=8 WHERE key='schema_version'; UPDATE meta SET crc32c=gs_row_crc(key,value)");
  }
  // What format 8 has of a checkpoint: the CRC-32C of run, sequence, version, update count and size.
  static uint32_t old_checksum(std::initializer_list<uint64_t> numbers) {
    uint32_t crc = 0;
    for (const uint64_t number : numbers) {
      for (int byte = 0; byte < 8; ++byte) {
        const auto value = static_cast<uint8_t>(number >> (8 * byte));
        crc = crc32c(crc, &value, 1);
      }
    }
    return crc;
  }

  const Folder folder;
  const std::string path;
  std::vector<ChainHead> chains;  // at the checkpoints and at the end, of the file as it was made
};

TEST(DatabaseFormat, AJournalWithoutAChainGetsThatOfItsRecords) {
  Old old;
  for (int opening = 0; opening < 2; ++opening) {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(old.path)), StoreStatus::kOk) << database.error();
    EXPECT_EQ(value_of(database.find_run(1))->run_nonce, 0U);
    SqliteStore store(database, 1);
    for (const ChainHead& chain : old.chains) {
      ChainHead found;
      EXPECT_EQ(store.read_chain(chain.sequence, &found), StoreStatus::kOk);
      EXPECT_EQ(found, chain);
    }
    std::vector<CheckpointHead> heads;
    ASSERT_EQ(store.read_heads(&heads), StoreStatus::kOk);
    ASSERT_EQ(heads.size(), 2U);
    EXPECT_EQ(heads[1].size, 3U);
    uint64_t count = 0;
    EXPECT_EQ(store.read([&](const JournalRecord& record) { return record == record_of(++count); }), StoreStatus::kOk);
    EXPECT_EQ(count, kCount + static_cast<uint64_t>(opening));
    ASSERT_EQ(store.append(batch_of(count + 1, 1)), StoreStatus::kOk) << database.error();
  }
}

// What an older release has dropped is not known: the chain begins at the cut.
TEST(DatabaseFormat, TheChainOfACutJournalBeginsAtTheCut) {
  Old old;
  edit(old.path, "DELETE FROM journal WHERE sequence<=100");
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(old.path)), StoreStatus::kOk) << database.error();
  SqliteStore store(database, 1);
  ChainHead start;
  ASSERT_EQ(store.read_chain(100, &start), StoreStatus::kOk);
  EXPECT_EQ(start.chain, chain_start({1, 0, run_row().digest}).chain);
  uint64_t count = 100;
  EXPECT_EQ(store.read([&](const JournalRecord& record) { return record == record_of(++count); }), StoreStatus::kOk)
      << database.error();
  EXPECT_EQ(count, kCount);
}

// A damaged record must not get a chain that says it is whole.
TEST(DatabaseFormat, ADamagedRecordIsNamedAndNothingIsChained) {
  Old old;
  edit(old.path, "UPDATE journal SET weight=weight+1 WHERE sequence=1200");
  for (int opening = 0; opening < 2; ++opening) {
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(old.path)), StoreStatus::kCorrupt);
    EXPECT_THAT(database.error(), HasSubstr("is damaged at sequence 1200; restore"));
  }
  edit(old.path, "UPDATE journal SET weight=weight-1 WHERE sequence=1200");
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(old.path)), StoreStatus::kOk) << database.error();
}

// The run that is served must not wait for a copy of a run that is over.
TEST(DatabaseFormat, ADamagedRecordOfAPastRunIsNamedAndTheFileOpens) {
  Old old(true);
  edit(old.path, "UPDATE journal SET weight=weight+1 WHERE run=1 AND sequence=1200");
  for (int opening = 0; opening < 2; ++opening) {
    const LogCapture log;
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(old.path)), StoreStatus::kOk) << database.error();
    EXPECT_EQ(log.count("journal_broken"), opening == 0 ? 1U : 0U);
    if (opening == 0) {
      EXPECT_THAT(log.find("journal_broken"), HasSubstr("run=1 sequence=1200 "));
    }
    SqliteStore past(database, 1);
    uint64_t count = 0;
    EXPECT_EQ(past.read([&](const JournalRecord& record) { return record == record_of(++count); }),
              StoreStatus::kCorrupt);
    EXPECT_EQ(count, 1199U);
    EXPECT_EQ(past.broken_sequence(), 1200U);
    ChainHead end;
    EXPECT_EQ(past.read_chain(kCount / 2, &end), StoreStatus::kOk);
    EXPECT_EQ(end, old.chains[1]);
    EXPECT_EQ(SqliteStore(database, 1).read_chain_end(&end), StoreStatus::kCorrupt);
    EXPECT_THAT(database.error(), HasSubstr("damaged at sequence 1200"));
    SqliteStore current(database, 2);
    EXPECT_EQ(current.read([](const JournalRecord&) { return true; }), StoreStatus::kOk) << database.error();
    EXPECT_EQ(current.read_chain_end(&end), StoreStatus::kOk);
    EXPECT_EQ(end.sequence, 3U);
  }
}

// A later checkpoint needs no record before it.
TEST(DatabaseFormat, BehindADamagedRecordTheChainBeginsAnewAtACheckpoint) {
  Old old(true);
  edit(old.path, "UPDATE journal SET weight=weight+1 WHERE run=1 AND sequence IN (50,500)");
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(old.path)), StoreStatus::kOk) << database.error();
  SqliteStore past(database, 1);
  std::vector<CheckpointHead> heads;
  ASSERT_EQ(past.read_heads(&heads), StoreStatus::kOk);
  ASSERT_EQ(heads.size(), 2U);
  for (const CheckpointHead& head : heads) {
    EXPECT_EQ(head.size, 3U) << "it reads";
    ChainHead chain;
    ASSERT_EQ(past.read_chain(head.sequence, &chain), StoreStatus::kOk);
    EXPECT_EQ(chain.chain, chain_start({1, 0, run_row().digest}).chain);
  }
  uint64_t count = kCount / 2;
  EXPECT_EQ(past.read_after(count, [&](const JournalRecord& record) { return record == record_of(++count); }),
            StoreStatus::kOk)
      << database.error();
  EXPECT_EQ(count, kCount);
  EXPECT_EQ(past.read([](const JournalRecord&) { return true; }), StoreStatus::kCorrupt);
  EXPECT_EQ(past.broken_sequence(), 50U);
}

}  // namespace
}  // namespace gradstream
