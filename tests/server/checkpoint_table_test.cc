// Checkpoints in a database, and cuts of its journal: round trips, damage, the file's size, and power cuts.
#include <cstdlib>
#include <map>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/journal_table.h"
#include "tests/support/campaign.h"
#include "tests/support/power_cut_vfs.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// Of two pieces.
Checkpoint checkpoint_of(uint64_t sequence) {
  Checkpoint out;
  out.bytes.resize(kCheckpointPieceSize + 100 + sequence % 7);
  for (size_t i = 0; i < out.bytes.size(); i += 64) {
    out.bytes[i] = static_cast<uint8_t>(sequence + i / 64);
  }
  out.head = {sequence, static_cast<uint32_t>(sequence / 10), sequence / 2, out.bytes.size()};
  return out;
}

StoreStatus write_all(SqliteStore& store, const Checkpoint& checkpoint) {
  for (uint64_t written = 0; written < checkpoint.bytes.size();) {
    GS_TRY_STORE(store.write_checkpoint(checkpoint, &written));
  }
  return StoreStatus::kOk;
}

StoreStatus cut_all(SqliteStore& store, const JournalKeep& keep) {
  for (bool has_more = true; has_more;) {
    GS_TRY_STORE(store.cut(keep, &has_more));
  }
  return StoreStatus::kOk;
}

std::vector<CheckpointHead> heads_of(SqliteStore& store) {
  std::vector<CheckpointHead> heads;
  EXPECT_EQ(store.read_heads(&heads), StoreStatus::kOk);
  return heads;
}

CheckpointHead start_of(SqliteStore& store) {
  CheckpointHead start;
  EXPECT_EQ(store.read_start(&start), StoreStatus::kOk);
  return start;
}

// The records that are kept are those of the run from `first` on, as they were written. Their number.
uint64_t expect_records(SqliteStore& store, uint64_t first) {
  uint64_t sequence = first;
  EXPECT_EQ(store.read([&](const JournalRecord& record) {
    EXPECT_TRUE(record == record_of(sequence)) << sequence;
    ++sequence;
    return true;
  }),
            StoreStatus::kOk);
  return sequence - first;
}

void execute_raw(const std::string& path, const char* sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
  sqlite3_close(connection);
}

// A run with 400 records, and a checkpoint behind every hundred.
struct Filled {
  Filled() : path(folder.file("a.db")) {
    EXPECT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
    EXPECT_EQ(value_of(database.create_run(run_row())), 1U);
    for (uint64_t sequence = 100; sequence <= 400; sequence += 100) {
      EXPECT_EQ(store.append(batch_of(sequence - 99, 100)), StoreStatus::kOk) << database.error();
      EXPECT_EQ(write_all(store, checkpoint_of(sequence)), StoreStatus::kOk) << database.error();
    }
  }
  Folder folder;
  std::string path;
  SqliteDatabase database;
  SqliteStore store{database, 1};
};

TEST(CheckpointTable, ACheckpointReadsBackAndIsNotThereBeforeItsLastPiece) {
  Filled filled;
  SqliteStore& store = filled.store;
  ASSERT_EQ(heads_of(store).size(), 4U);
  std::vector<uint8_t> bytes;
  for (const CheckpointHead& head : heads_of(store)) {
    EXPECT_EQ(head, checkpoint_of(head.sequence).head);
    EXPECT_EQ(store.read_checkpoint(head, &bytes), StoreStatus::kOk);
    EXPECT_EQ(bytes, checkpoint_of(head.sequence).bytes);
  }
  EXPECT_EQ(start_of(store).sequence, 0U);
  uint64_t written = 0;
  ASSERT_EQ(store.write_checkpoint(checkpoint_of(450), &written), StoreStatus::kOk);
  EXPECT_EQ(written, kCheckpointPieceSize);
  EXPECT_EQ(heads_of(store).size(), 4U);
}

TEST(CheckpointTable, ACutDropsRecordsAndWhatIsLeftReadsOn) {
  Filled filled;
  SqliteStore& store = filled.store;
  ASSERT_EQ(cut_all(store, {false, 100, 0}), StoreStatus::kOk) << filled.database.error();
  EXPECT_EQ(start_of(store), checkpoint_of(200).head);
  EXPECT_EQ(expect_records(store, 201), 200U);
  EXPECT_EQ(heads_of(store).size(), 3U);
  EXPECT_EQ(store.read_after(100, [](const JournalRecord&) { return true; }), StoreStatus::kCorrupt);
  uint64_t seen = 0;
  EXPECT_EQ(store.read_after(390, [&seen](const JournalRecord&) { return ++seen > 0; }), StoreStatus::kOk);
  EXPECT_EQ(seen, 10U);
  ASSERT_EQ(store.append(batch_of(401, 3)), StoreStatus::kOk);
  ASSERT_EQ(cut_all(store, {false, 100, 0}), StoreStatus::kOk) << "nothing more is far enough behind";
  EXPECT_EQ(expect_records(store, 201), 203U);
  ASSERT_EQ(cut_all(store, {}), StoreStatus::kOk) << "all is kept from now on, but the cut is where it was";
  EXPECT_EQ(start_of(store), checkpoint_of(200).head);
}

ChainHead chain_at(SqliteStore& store, uint64_t sequence) {
  ChainHead at;
  EXPECT_EQ(store.read_chain(sequence, &at), StoreStatus::kOk);
  return at;
}

// The chain goes on as though nothing had been dropped, and its check begins at the cut.
TEST(CheckpointTable, ACutKeepsTheChain) {
  Filled filled;
  SqliteStore& store = filled.store;
  const ChainHead before_cut = chain_at(store, 300);
  const ChainHead end = chain_at(store, 400);
  ASSERT_EQ(cut_all(store, {false, 0, 0}), StoreStatus::kOk);
  ASSERT_EQ(start_of(store).sequence, 300U);
  EXPECT_EQ(chain_at(store, 300), before_cut) << "its record is gone, and its checkpoint has it";
  EXPECT_EQ(chain_at(store, 400), end);
  ChainHead gone;
  EXPECT_EQ(store.read_chain(299, &gone), StoreStatus::kCorrupt);
  EXPECT_EQ(expect_records(store, 301), 100U);
  execute_raw(filled.path, "UPDATE journal SET chain=zeroblob(32) WHERE sequence=350");
  EXPECT_EQ(store.read([](const JournalRecord&) { return true; }), StoreStatus::kCorrupt);
  EXPECT_EQ(store.broken_sequence(), 350U);
}

// The chain that a checkpoint carries is covered by its checksum.
TEST(CheckpointTable, ACheckpointWithAnotherChainDoesNotRead) {
  Filled filled;
  ASSERT_EQ(cut_all(filled.store, {false, 0, 0}), StoreStatus::kOk);
  execute_raw(filled.path, "UPDATE checkpoints SET chain=zeroblob(32) WHERE sequence=300");
  EXPECT_EQ(heads_of(filled.store)[0].size, 0U);
  EXPECT_EQ(filled.store.read([](const JournalRecord&) { return true; }), StoreStatus::kCorrupt);
}

TEST(CheckpointTable, TheRecordOfAVersionIsReadAloneAndByTheChain) {
  Filled filled;
  SqliteStore& store = filled.store;
  std::optional<JournalRecord> record;
  ASSERT_EQ(store.read_version(298, &record), StoreStatus::kOk);
  EXPECT_TRUE(record == record_of(298));
  EXPECT_EQ(store.read_version(300, &record), StoreStatus::kCorrupt) << "it begins no version";
  EXPECT_EQ(store.broken_sequence(), 300U);
  EXPECT_EQ(store.read_version(403, &record), StoreStatus::kCorrupt) << "it is not there";
  execute_raw(filled.path, "UPDATE journal SET chain=zeroblob(32) WHERE sequence=397");
  EXPECT_EQ(store.read_version(398, &record), StoreStatus::kCorrupt) << "another history leads to it";
  execute_raw(filled.path, "UPDATE journal SET digest=1 WHERE sequence=393");
  EXPECT_EQ(store.read_version(393, &record), StoreStatus::kCorrupt) << "it is damaged";
  ASSERT_EQ(cut_all(store, {false, 0, 0}), StoreStatus::kOk);
  EXPECT_EQ(store.read_version(298, &record), StoreStatus::kOk);
  EXPECT_FALSE(record.has_value()) << "it was cut away";
}

// A command reads while the server cuts.
TEST(CheckpointTable, ASnapshotReadsOnWhatACutDrops) {
  Filled filled;
  SqliteDatabase reader;
  ASSERT_EQ(reader.open(options_for(filled.path)), StoreStatus::kOk);
  ASSERT_EQ(reader.hold_snapshot(), StoreStatus::kOk);
  SqliteStore journal(reader, 1);
  EXPECT_EQ(start_of(journal).sequence, 0U);
  ASSERT_EQ(cut_all(filled.store, {false, 0, 0}), StoreStatus::kOk);
  EXPECT_EQ(start_of(filled.store).sequence, 300U);
  EXPECT_EQ(start_of(journal).sequence, 0U);
  EXPECT_EQ(expect_records(journal, 1), 400U);
  EXPECT_EQ(heads_of(journal).size(), 4U);
}

// A server that ended in the middle of a cut: rows before the oldest checkpoint are there and are not read.
TEST(CheckpointTable, ACutThatWasBrokenOffGoesOn) {
  Filled filled;
  execute_raw(filled.path, "DELETE FROM journal WHERE sequence<=130; DELETE FROM checkpoints WHERE sequence=100");
  EXPECT_EQ(start_of(filled.store), checkpoint_of(200).head);
  EXPECT_EQ(expect_records(filled.store, 201), 200U);
  ASSERT_EQ(cut_all(filled.store, {false, 1000, 0}), StoreStatus::kOk);
  SqliteDatabase again;
  ASSERT_EQ(again.open(options_for(filled.path)), StoreStatus::kOk);
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(filled.path.c_str(), &raw), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(raw,
                     "SELECT (SELECT min(sequence) FROM journal),(SELECT count(*) FROM checkpoint_pieces"
                     " WHERE sequence=100)",
                     -1, &statement, nullptr);
  ASSERT_EQ(sqlite3_step(statement), SQLITE_ROW);
  EXPECT_EQ(sqlite3_column_int64(statement, 0), 201);
  EXPECT_EQ(sqlite3_column_int64(statement, 1), 0) << "pieces without a head are gone";
  sqlite3_finalize(statement);
  sqlite3_close(raw);
}

TEST(CheckpointTable, DamageIsNamed) {
  Filled filled;
  SqliteStore& store = filled.store;
  execute_raw(filled.path,
              "UPDATE checkpoint_pieces SET bytes=zeroblob(length(bytes)) WHERE sequence=400 AND piece=0;"
              "UPDATE checkpoints SET update_count=1 WHERE sequence=300");
  const std::vector<CheckpointHead> heads = heads_of(store);
  ASSERT_EQ(heads.size(), 4U);
  EXPECT_EQ(heads[2].size, 0U);
  std::vector<uint8_t> bytes;
  EXPECT_EQ(store.read_checkpoint(heads[2], &bytes), StoreStatus::kCorrupt);
  EXPECT_EQ(store.read_checkpoint(heads[3], &bytes), StoreStatus::kCorrupt);
  EXPECT_THAT(filled.database.error(), HasSubstr("checkpoint of run 1 at sequence 400 is damaged; restore"));
  EXPECT_EQ(store.read_checkpoint(heads[1], &bytes), StoreStatus::kOk);
  execute_raw(filled.path,
              "DELETE FROM journal WHERE sequence<=350; DELETE FROM checkpoints WHERE sequence<400;"
              "DELETE FROM checkpoints");
  CheckpointHead start;
  EXPECT_EQ(store.read_start(&start), StoreStatus::kCorrupt);
  EXPECT_THAT(filled.database.error(), HasSubstr("begins at sequence 351, and no checkpoint leads there"));
}

// One damaged row does not keep a journal growing, and no record goes where what takes its place does not read.
TEST(CheckpointTable, ACutPassesOverCheckpointsThatDoNotRead) {
  for (const char* const damage :
       {"UPDATE checkpoints SET update_count=1 WHERE sequence=300",
        "UPDATE checkpoint_pieces SET bytes=zeroblob(length(bytes)) WHERE sequence=300 AND piece=1"}) {
    Filled filled;
    SqliteStore& store = filled.store;
    execute_raw(filled.path, damage);
    ASSERT_EQ(cut_all(store, {false, 0, 0}), StoreStatus::kOk) << filled.database.error();
    EXPECT_EQ(start_of(store), checkpoint_of(200).head);
    EXPECT_EQ(expect_records(store, 201), 200U);
    const std::vector<CheckpointHead> left = heads_of(store);
    ASSERT_EQ(left.size(), 2U);
    EXPECT_EQ(left[1], checkpoint_of(400).head);
    // Damaged where the journal begins: it stays until a later cut has passed it.
    execute_raw(filled.path, "UPDATE checkpoints SET update_count=1 WHERE sequence=200");
    ASSERT_EQ(cut_all(store, {false, 0, 0}), StoreStatus::kOk);
    EXPECT_EQ(expect_records(store, 201), 200U);
    ASSERT_EQ(store.append(batch_of(401, 100)), StoreStatus::kOk);
    ASSERT_EQ(write_all(store, checkpoint_of(500)), StoreStatus::kOk);
    ASSERT_EQ(cut_all(store, {false, 0, 0}), StoreStatus::kOk) << filled.database.error();
    EXPECT_EQ(start_of(store), checkpoint_of(400).head);
    EXPECT_EQ(heads_of(store).size(), 2U);
  }
}

// The file gives back what a cut has emptied.
TEST(CheckpointTable, TheFileIsNotMuchLongerThanWhatIsKept) {
  Filled filled;
  const auto file_size = [&filled] {
    sqlite3* raw = nullptr;
    EXPECT_EQ(sqlite3_open(filled.path.c_str(), &raw), SQLITE_OK);
    EXPECT_EQ(
        sqlite3_exec(raw, "SELECT count(*) FROM meta; PRAGMA wal_checkpoint(TRUNCATE)", nullptr, nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(raw);
    return std::filesystem::file_size(filled.path);
  };
  for (uint64_t sequence = 500; sequence <= 4000; sequence += 100) {
    ASSERT_EQ(filled.store.append(batch_of(sequence - 99, 100)), StoreStatus::kOk);
  }
  ASSERT_EQ(write_all(filled.store, checkpoint_of(3900)), StoreStatus::kOk);
  ASSERT_EQ(write_all(filled.store, checkpoint_of(4000)), StoreStatus::kOk);
  const uint64_t before = file_size();
  ASSERT_EQ(cut_all(filled.store, {false, 0, 0}), StoreStatus::kOk) << filled.database.error();
  EXPECT_EQ(expect_records(filled.store, 3901), 100U);
  uint64_t kept = 2 * checkpoint_of(4000).bytes.size();
  for (uint64_t sequence = 3901; sequence <= 4000; ++sequence) {
    kept += record_of(sequence).payload().size() + 190;  // docs/how-to/back_up.md
  }
  constexpr uint64_t kPage = 4096;
  EXPECT_GT(before, 5 * kept);
  // An empty table or index has a page: that of what was forgotten, and that of new keys that were asked for.
  EXPECT_LT(file_size(), kept + kept / 2 + 2 * kPage);
}

// ---- Power cuts ----------------------------------------------------------------------------------------------------

constexpr const char* kPath = "run.db";
constexpr uint64_t kBatchCount = 24;
constexpr uint64_t kBatchSize = 5;
constexpr uint64_t kBatchesOfCheckpoint = 4;
constexpr JournalKeep kKeep = {false, 15, 0};  // 30 records

// 24 in the suite; a campaign names more.
uint32_t cut_count() {
  const char* const wanted = std::getenv("GS_POWER_CUTS");
  return wanted != nullptr ? static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10)) : campaign_draws(24);
}

SqliteOptions disk_options(const PowerCutDisk& disk, bool synchronous_full) {
  SqliteOptions options;
  options.path = kPath;
  options.vfs = disk.name();
  options.synchronous_full = synchronous_full;
  options.checkpoint_pages = 40;
  return options;
}

struct Outcome {
  uint64_t records = 0;     // acknowledged
  uint64_t checkpoint = 0;  // sequence of the last one that was acknowledged
};

// A server's life on the disk, until the power goes.
Outcome live(PowerCutDisk& disk, bool synchronous_full) {
  Outcome outcome;
  SqliteDatabase database;
  if (database.open(disk_options(disk, synchronous_full)) != StoreStatus::kOk ||
      !database.create_run(run_row()).is_ok()) {
    return outcome;
  }
  SqliteStore store(database, 1);
  for (uint64_t batch = 1; batch <= kBatchCount; ++batch) {
    if (store.append(batch_of(outcome.records + 1, kBatchSize)) != StoreStatus::kOk) {
      return outcome;
    }
    outcome.records += kBatchSize;
    if (batch % kBatchesOfCheckpoint == 0) {
      if (write_all(store, checkpoint_of(outcome.records)) != StoreStatus::kOk) {
        return outcome;
      }
      outcome.checkpoint = outcome.records;
      if (cut_all(store, kKeep) != StoreStatus::kOk) {
        return outcome;
      }
    }
  }
  return outcome;
}

// What a restarted server finds. Empty: everything acknowledged; else what is wrong.
std::string examine(PowerCutDisk& disk, const Outcome& outcome, bool synchronous_full) {
  SqliteDatabase database;
  if (database.open(disk_options(disk, synchronous_full)) != StoreStatus::kOk) {
    return "does not open: " + database.error();
  }
  const Expected<std::optional<RunRow>> run = database.current_run();
  if (!run.is_ok() || !*run) {
    return outcome.records > 0 ? "the run is lost" : "";
  }
  SqliteStore store(database, 1);
  CheckpointHead start;
  std::vector<CheckpointHead> heads;
  if (store.read_start(&start) != StoreStatus::kOk || store.read_heads(&heads) != StoreStatus::kOk) {
    return "it does not begin: " + database.error();
  }
  for (const CheckpointHead& head : heads) {
    std::vector<uint8_t> bytes;
    if (store.read_checkpoint(head, &bytes) != StoreStatus::kOk || bytes != checkpoint_of(head.sequence).bytes) {
      return "a checkpoint does not read: " + database.error();
    }
  }
  if ((heads.empty() ? 0 : heads.back().sequence) < outcome.checkpoint) {
    return "checkpoint " + std::to_string(outcome.checkpoint) + " is lost";
  }
  uint64_t last = start.sequence;
  bool is_equal = true;
  const StoreStatus status = store.read([&](const JournalRecord& record) {
    is_equal = is_equal && record == record_of(++last);
    return true;
  });
  if (status != StoreStatus::kOk || !is_equal) {
    return "the journal is damaged: " + database.error();
  }
  if (last < outcome.records || last % kBatchSize != 0) {
    return "acknowledged " + std::to_string(outcome.records) + ", found " + std::to_string(last);
  }
  const bool goes_on =
      store.append(batch_of(last + 1, kBatchSize)) == StoreStatus::kOk && cut_all(store, kKeep) == StoreStatus::kOk;
  return goes_on ? "" : "does not go on: " + database.error();
}

struct Campaign {
  int losses = 0;
  std::string first_loss;
};

Campaign cut_everywhere(PowerCutDisk& disk, bool synchronous_full) {
  disk.reset(1, 0);
  const Outcome whole = live(disk, synchronous_full);
  EXPECT_EQ(whole.checkpoint, kBatchCount * kBatchSize);
  std::map<DiskCall, std::vector<uint64_t>> numbers;
  for (size_t i = 0; i < disk.calls().size(); ++i) {
    numbers[disk.calls()[i]].push_back(i + 1);
  }
  std::vector<DiskCall> kinds;
  for (const auto& [kind, all] : numbers) {
    kinds.push_back(kind);
  }
  Campaign campaign;
  std::mt19937_64 random(20261126);
  for (uint32_t i = 0; i < cut_count(); ++i) {
    const DiskCall kind = kinds[i % kinds.size()];
    const uint64_t at = numbers[kind][random() % numbers[kind].size()];
    disk.reset(random(), at);
    const Outcome outcome = live(disk, synchronous_full);
    disk.restart();
    const std::string wrong = examine(disk, outcome, synchronous_full);
    if (!wrong.empty() && campaign.losses++ == 0) {
      campaign.first_loss = "cut at call " + std::to_string(at) + " (" + disk_call_name(kind) + "): " + wrong;
    }
  }
  return campaign;
}

TEST(CheckpointTable, NoPowerCutLosesARecordOrACheckpoint) {
  PowerCutDisk disk("checkpoint_cut_full");
  const Campaign campaign = cut_everywhere(disk, true);
  EXPECT_EQ(campaign.losses, 0) << campaign.first_loss;
}

// The test of the test: without synchronisation the same cuts do lose something.
TEST(CheckpointTable, WithoutSynchronisationPowerCutsLoseSomething) {
  PowerCutDisk disk("checkpoint_cut_off");
  const Campaign campaign = cut_everywhere(disk, false);
  EXPECT_GT(campaign.losses, 0);
}

}  // namespace
}  // namespace gradstream
