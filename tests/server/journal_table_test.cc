// The journal: round trips, a full and a damaged disk, and power cuts at every kind of call.
#include "server/store/journal_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "server/journal/store_memory.h"
#include "tests/support/campaign.h"
#include "tests/support/power_cut_vfs.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kPath = "run.db";

// Records of the run in order; fails the test when one is not as written.
uint64_t read_and_compare(Store& store) {
  uint64_t count = 0;
  EXPECT_EQ(store.read([&](const JournalRecord& record) {
    ++count;
    EXPECT_TRUE(record == record_of(count)) << "record " << count;
    return true;
  }),
            StoreStatus::kOk);
  return count;
}

TEST(JournalTable, JournalReadsBackAfterReopening) {
  const Folder folder;
  RunRow run = run_row();
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
    run.id = value_of(database.create_run(run));
    EXPECT_EQ(run.id, 1U);
    SqliteStore store(database, run.id);
    ASSERT_EQ(store.append(batch_of(1, 20)), StoreStatus::kOk) << database.error();
    ASSERT_EQ(store.append(batch_of(21, 1)), StoreStatus::kOk) << database.error();
  }
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
  SqliteStore store(database, run.id);
  EXPECT_EQ(read_and_compare(store), 21U);
  uint64_t seen = 0;
  EXPECT_EQ(store.read([&](const JournalRecord&) { return ++seen < 5; }), StoreStatus::kOk);
  EXPECT_EQ(seen, 5U);
  std::optional<RunRow> latest = value_of(database.current_run());
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->parameters, run.parameters);
  EXPECT_EQ(latest->source, run.source);
  EXPECT_EQ(latest->digest, run.digest);
  ASSERT_EQ(database.set_run_state(run.id, StoredRunState::kFinished), StoreStatus::kOk);
  latest = value_of(database.current_run());
  EXPECT_EQ(latest->state, StoredRunState::kFinished);
}

TEST(JournalTable, KindsAndDevicesOfTheFirstRecordsAreReadAlone) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  SqliteStore store(database, run.id);
  ASSERT_EQ(store.append(batch_of(1, 20)), StoreStatus::kOk);
  for (const uint32_t count_max : {5U, 100U}) {
    uint64_t count = 0;
    EXPECT_EQ(store.skim(count_max,
                         [&](RecordKind kind, uint32_t device) {
                           const JournalRow expected = record_of(++count).row();
                           EXPECT_EQ(kind, expected.kind) << count;
                           EXPECT_EQ(device, expected.device) << count;
                           return count < 10;
                         }),
              StoreStatus::kOk);
    EXPECT_EQ(count, std::min(count_max, 10U));
  }
}

TEST(JournalTable, TheEndIsReadBackwardsWithoutPayloads) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  SqliteStore store(database, run.id);
  ASSERT_EQ(store.append(batch_of(1, 20)), StoreStatus::kOk);
  uint64_t sequence = 20;
  EXPECT_EQ(store.skim_back(5,
                            [&](const JournalRecord& record) {
                              const JournalRow expected = record_of(sequence--).row();
                              EXPECT_EQ(record.row().sequence, expected.sequence);
                              EXPECT_EQ(record.kind(), expected.kind);
                              EXPECT_EQ(record.row().time_ms, expected.time_ms);
                              const bool is_update = expected.kind == RecordKind::kUpdate;
                              EXPECT_EQ(record.row().notes, is_update ? expected.notes : std::vector<uint8_t>());
                              EXPECT_TRUE(record.row().payload.empty());
                              return true;
                            }),
            StoreStatus::kOk);
  EXPECT_EQ(sequence, 15U);
}

TEST(JournalTable, ABatchIsAllOrNothing) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  SqliteStore store(database, run.id);
  std::vector<JournalRecord> batch = batch_of(1, 3);
  batch.push_back(record_of(2));  // twice the same sequence
  EXPECT_EQ(store.append(batch), StoreStatus::kFailed);
  EXPECT_EQ(read_and_compare(store), 0U);
  EXPECT_EQ(store.append(batch_of(1, 3)), StoreStatus::kOk);
  EXPECT_EQ(read_and_compare(store), 3U);
}

// SQLite keeps no sign of a zero. kpca has a loss of -0 on samples of zeros.
TEST(JournalTable, LossesOfMinusZeroReadBack) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  SqliteStore store(database, run.id);
  const std::vector<std::pair<float, float>> losses = {
      {0.0F, 0.0F}, {-0.0F, 0.0F}, {0.0F, -0.0F}, {-0.0F, -0.0F}, {-0.0F, 1}};
  std::vector<JournalRecord> batch;
  for (const auto& [before, after] : losses) {
    batch.push_back(JournalRecord::update({.device = 1, .loss_before = before, .loss_after = after}));
    batch.back().set_sequence(batch.size());
  }
  ASSERT_EQ(store.append(batch), StoreStatus::kOk);
  uint64_t count = 0;
  EXPECT_EQ(store.read([&](const JournalRecord& record) {
    EXPECT_TRUE(record == batch[count]);
    EXPECT_EQ(std::signbit(record.loss_before()), std::signbit(losses[count].first));
    EXPECT_EQ(std::signbit(record.loss_after()), std::signbit(losses[count].second));
    ++count;
    return true;
  }),
            StoreStatus::kOk)
      << database.error();
  EXPECT_EQ(count, losses.size());
}

// ---- The disk's faults ---------------------------------------------------------------------------------------------

SqliteOptions disk_options(const PowerCutDisk& disk, bool synchronous_full) {
  SqliteOptions options;
  options.path = kPath;
  options.vfs = disk.name();
  options.synchronous_full = synchronous_full;
  options.checkpoint_pages = 6;
  return options;
}

TEST(JournalTable, AFullDiskLosesNothingAndIsTriedAgain) {
  PowerCutDisk disk("full_disk");
  disk.reset(1, 0);
  SqliteDatabase database;
  ASSERT_EQ(database.open(disk_options(disk, true)), StoreStatus::kOk) << database.error();
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  SqliteStore store(database, run.id);
  ASSERT_EQ(store.append(batch_of(1, 4)), StoreStatus::kOk);
  disk.set_full(true);
  EXPECT_EQ(store.append(batch_of(5, 4)), StoreStatus::kFull);
  EXPECT_THAT(database.error(), HasSubstr("free space"));
  EXPECT_EQ(read_and_compare(store), 4U);
  disk.set_full(false);
  ASSERT_EQ(store.append(batch_of(5, 4)), StoreStatus::kOk) << database.error();
  EXPECT_EQ(read_and_compare(store), 8U);
}

TEST(JournalTable, ADamagedJournalIsNamed) {
  PowerCutDisk disk("damaged_disk");
  disk.reset(1, 0);
  std::map<StoreStatus, int> outcomes;
  // The journal has the last pages of the file: the table's own, which grow as it does.
  constexpr size_t kDamagedBytes = 36864;
  for (size_t damaged = 1; damaged < kDamagedBytes; damaged += 509) {
    disk.reset(1, 0);
    {
      SqliteDatabase database;
      ASSERT_EQ(database.open(disk_options(disk, true)), StoreStatus::kOk);
      RunRow run = run_row();
      run.id = value_of(database.create_run(run));
      SqliteStore store(database, run.id);
      ASSERT_EQ(store.append(batch_of(1, 60)), StoreStatus::kOk);
    }
    ASSERT_GT(disk.size_of(kPath), kDamagedBytes);
    const size_t offset = disk.size_of(kPath) - damaged;
    disk.flip_byte(kPath, offset);
    SqliteDatabase database;
    SqliteOptions options = disk_options(disk, true);
    options.check_integrity = true;
    StoreStatus status = database.open(options);
    if (status == StoreStatus::kOk) {
      SqliteStore store(database, 1);
      // A byte in free space harms nothing; everything else must be noticed.
      uint64_t count = 0;
      status = store.read([&](const JournalRecord& record) { return record == record_of(++count); });
      EXPECT_TRUE(status != StoreStatus::kOk || count == 60U) << "a damaged record was handed out, offset " << offset;
    }
    if (status != StoreStatus::kOk) {
      EXPECT_EQ(status, StoreStatus::kCorrupt) << database.error();
      EXPECT_THAT(database.error(), HasSubstr("restore"));
    }
    ++outcomes[status];
  }
  EXPECT_GT(outcomes[StoreStatus::kCorrupt], 20);
}

// ---- The chain -----------------------------------------------------------------------------------------------------

constexpr uint64_t kShortCount = 10;

RunRow run_with_nonce() {
  RunRow run = run_row();
  run.run_nonce = 0x0102030405060708ULL;
  return run;
}

// Records as record_of() has them, with few bytes.
std::vector<JournalRecord> short_batch() {
  std::vector<JournalRecord> batch;
  for (uint64_t sequence = 1; sequence <= kShortCount; ++sequence) {
    JournalRow row = record_of(sequence).row();
    row.payload.resize(sequence % 4 == 0 ? 0 : 24);
    batch.emplace_back(row);
  }
  return batch;
}

// A database with a journal of short_batch() and a connection of another program, which spoils it.
struct Chained {
  Chained() {
    EXPECT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
    EXPECT_EQ(value_of(database.create_run(run_with_nonce())), 1U);
    EXPECT_EQ(SqliteStore(database, 1).append(short_batch()), StoreStatus::kOk) << database.error();
    EXPECT_EQ(sqlite3_open(folder.file("a.db").c_str(), &other), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(other, "PRAGMA synchronous=OFF", nullptr, nullptr, nullptr), SQLITE_OK);
  }
  ~Chained() { sqlite3_close(other); }
  Chained(const Chained&) = delete;
  Chained& operator=(const Chained&) = delete;

  // Whether the statement changed a row: a key that another row has is refused.
  bool change(const std::string& sql) {
    return sqlite3_exec(other, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK && sqlite3_changes(other) == 1;
  }
  std::string literal(const std::string& column, uint64_t sequence) {
    const std::string sql = "SELECT quote(" + column + ") FROM journal WHERE sequence=" + std::to_string(sequence);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(other, sql.c_str(), -1, &statement, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const std::string text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return text;
  }
  void expect_damage_at(uint64_t sequence, const std::string& what) {
    SqliteStore store(database, 1);
    uint64_t count = 0;
    EXPECT_EQ(store.read([&](const JournalRecord&) { return ++count < kShortCount + 1; }), StoreStatus::kCorrupt)
        << what;
    EXPECT_LT(count, sequence) << what << ": it was handed out";
    EXPECT_EQ(store.broken_sequence(), sequence) << what;
    const std::string number = std::to_string(sequence);
    EXPECT_THAT(database.error(), AnyOf(HasSubstr("is damaged at sequence " + number + "; restore"),
                                        HasSubstr("begins at sequence " + number + ", and no checkpoint leads there")));
  }

  const Folder folder;
  SqliteDatabase database;
  sqlite3* other = nullptr;
};

// The value with one bit of one byte changed, as SQL literals, one for each byte.
std::vector<std::string> spoilt_literals(const std::string& literal) {
  std::vector<std::string> out;
  if (literal == "NULL") {
    return {"x'00'"};
  }
  if (literal.starts_with("X'")) {
    for (size_t i = 2; i + 1 < literal.size(); i += 2) {
      std::string other = literal;
      other[i + 1] = other[i + 1] == '0' ? '1' : '0';
      out.push_back(other);
    }
    out.push_back(literal == "X''" ? "x'00'" : "x''");
    return out;
  }
  if (literal.find_first_of(".e") != std::string::npos) {
    for (int byte = 0; byte < 8; ++byte) {
      const double value = std::bit_cast<double>(std::bit_cast<uint64_t>(std::stod(literal)) ^ uint64_t{1} << 8 * byte);
      char text[40];
      std::snprintf(text, sizeof text, "%.17g", value);
      out.push_back(text);
    }
    return out;
  }
  for (int byte = 0; byte < 8; ++byte) {
    out.push_back(std::to_string(std::stoll(literal) ^ int64_t{1} << 8 * byte));
  }
  return out;
}

TEST(JournalTable, AChangedByteOfAnyColumnOfAnyRowIsNamedBySequence) {
  Chained journal;
  int changes = 0;
  for (uint64_t sequence = 1; sequence <= kShortCount; ++sequence) {
    const std::string row = std::to_string(sequence);
    for (const std::string column :
         {"sequence", "kind",    "device",  "task_sequence", "version",    "base_version", "steps_done",
          "weight",   "verdict", "reason",  "detail",        "step_scale", "loss_before",  "loss_after",
          "digest",   "time_ms", "payload", "crc32c",        "notes",      "chain"}) {
      const std::string literal = journal.literal(column, sequence);
      for (const std::string& spoilt : spoilt_literals(literal)) {
        if (!journal.change("UPDATE journal SET " + column + "=" + spoilt + " WHERE sequence=" + row)) {
          EXPECT_EQ(column, "sequence") << "there is a row of that sequence";
          continue;
        }
        const bool is_first = column == "sequence" && sequence == 1 && spoilt != "0";  // it begins later
        journal.expect_damage_at(is_first ? 2 : sequence, column + " of " + row + " is " + spoilt + ", was " + literal);
        const std::string at = column == "sequence" ? spoilt : row;
        ASSERT_TRUE(journal.change("UPDATE journal SET " + column + "=" + literal + " WHERE sequence=" + at));
        ++changes;
      }
    }
  }
  EXPECT_GT(changes, 1800);
  EXPECT_EQ(SqliteStore(journal.database, 1).read([](const JournalRecord&) { return true; }), StoreStatus::kOk);
}

// A row with a checksum and a chain that were right elsewhere: those of another run's record of this number.
TEST(JournalTable, ARecordOfAnotherRunDoesNotFollow) {
  Chained journal;
  RunRow other = run_with_nonce();
  ++other.run_nonce;
  ASSERT_EQ(value_of(journal.database.create_run(other)), 2U);
  ASSERT_EQ(SqliteStore(journal.database, 2).append(short_batch()), StoreStatus::kOk);
  ASSERT_TRUE(
      journal.change("UPDATE journal SET chain=(SELECT chain FROM journal WHERE run=2 AND sequence=4) "
                     "WHERE run=1 AND sequence=4"));
  journal.expect_damage_at(4, "a link of another run");
}

// What stands in the header of the chain: its end is known by a head alone that was kept elsewhere.
TEST(JournalTable, TheLastRecordsAreMissedByAHeadAlone) {
  Chained journal;
  ChainHead kept;
  ChainHead found;
  ASSERT_EQ(SqliteStore(journal.database, 1).read_chain_end(&kept), StoreStatus::kOk);
  EXPECT_EQ(kept.sequence, kShortCount);
  ASSERT_TRUE(journal.change("DELETE FROM journal WHERE sequence=" + std::to_string(kShortCount)));
  SqliteStore store(journal.database, 1);
  uint64_t count = 0;
  EXPECT_EQ(store.read([&](const JournalRecord&) { return ++count > 0; }), StoreStatus::kOk);
  EXPECT_EQ(count, kShortCount - 1);
  ASSERT_EQ(store.read_chain_end(&found), StoreStatus::kOk);
  EXPECT_EQ(found.sequence, kShortCount - 1);
  EXPECT_EQ(store.read_chain(kept.sequence, &found), StoreStatus::kCorrupt) << "the head's record is gone";
}

TEST(JournalTable, EveryStoreMakesTheSameChain) {
  Chained journal;
  const RunRow run = run_with_nonce();
  StoreMemory memory(RunIdentity{1, run.run_nonce, run.digest});
  for (const JournalRecord& record : short_batch()) {  // one by one here, all at once there
    ASSERT_EQ(memory.append({&record, 1}), StoreStatus::kOk);
  }
  SqliteStore store(journal.database, 1);
  for (uint64_t sequence = 0; sequence <= kShortCount; ++sequence) {
    ChainHead in_memory;
    ChainHead in_file;
    ASSERT_EQ(memory.read_chain(sequence, &in_memory), StoreStatus::kOk);
    ASSERT_EQ(store.read_chain(sequence, &in_file), StoreStatus::kOk);
    EXPECT_EQ(in_memory, in_file) << sequence;
  }
  ChainHead end;
  ASSERT_EQ(memory.read_chain_end(&end), StoreStatus::kOk);
  EXPECT_EQ(end.sequence, kShortCount);
  EXPECT_EQ(memory.read_chain(kShortCount + 1, &end), StoreStatus::kCorrupt);
}

// A server asks after each batch: what the store has just written it knows without a statement.
TEST(JournalTable, TheEndOfWhatItHasAppendedIsKnownWithoutARead) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
  ASSERT_EQ(value_of(database.create_run(run_row())), 1U);
  SqliteStore store(database, 1);
  ASSERT_EQ(store.append(batch_of(1, 3)), StoreStatus::kOk);
  ChainHead written;
  ASSERT_EQ(SqliteStore(database, 1).read_chain_end(&written), StoreStatus::kOk);
  edit(folder.file("a.db"), "DELETE FROM journal WHERE sequence=3");
  ChainHead end;
  EXPECT_EQ(store.read_chain_end(&end), StoreStatus::kOk);
  EXPECT_EQ(end, written);
  EXPECT_EQ(SqliteStore(database, 1).read_chain_end(&end), StoreStatus::kOk);
  EXPECT_EQ(end.sequence, 2U) << "another one reads";
}

TEST(JournalTable, ABatchThatDoesNotFollowIsRefused) {
  Chained journal;
  SqliteStore store(journal.database, 1);
  EXPECT_EQ(store.append(batch_of(kShortCount + 2, 1)), StoreStatus::kFailed);
  EXPECT_THAT(journal.database.error(), HasSubstr("record 12 of run 1 does not follow record 10"));
  EXPECT_EQ(store.append(batch_of(kShortCount + 1, 20)), StoreStatus::kOk) << journal.database.error();
  EXPECT_EQ(store.append(batch_of(kShortCount + 21, 1)), StoreStatus::kOk) << journal.database.error();
}

// ---- Power cuts ----------------------------------------------------------------------------------------------------

constexpr int kCutCount = static_cast<int>(campaign_draws(500));
constexpr uint64_t kBatchCount = 40;

uint64_t batch_size(uint64_t batch) { return 1 + batch % 5; }

struct Outcome {
  bool run_created = false;
  uint64_t acknowledged = 0;  // last sequence whose append() returned kOk
};

// A server's life on the disk, until the power goes.
Outcome live(PowerCutDisk& disk, bool synchronous_full) {
  Outcome outcome;
  uint64_t next = 1;
  for (int life = 0; life < 2; ++life) {  // an orderly end checkpoints and deletes the WAL: cuts fall there too
    SqliteDatabase database;
    if (database.open(disk_options(disk, synchronous_full)) != StoreStatus::kOk) {
      return outcome;
    }
    if (life == 0 && !database.create_run(run_row()).is_ok()) {
      return outcome;
    }
    outcome.run_created = true;
    SqliteStore store(database, 1);
    for (uint64_t batch = 0; batch < kBatchCount / 2; ++batch) {
      if (store.append(batch_of(next, batch_size(batch))) != StoreStatus::kOk) {
        return outcome;
      }
      next += batch_size(batch);
      outcome.acknowledged = next - 1;
    }
  }
  return outcome;
}

bool is_batch_boundary(uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t batch = 0; sum < count; ++batch) {
    sum += batch_size(batch % (kBatchCount / 2));
  }
  return sum == count;
}

bool integrity_ok(const PowerCutDisk& disk) {
  sqlite3* raw = nullptr;
  bool ok = false;
  if (sqlite3_open_v2(kPath, &raw, SQLITE_OPEN_READWRITE, disk.name()) == SQLITE_OK) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(raw, "PRAGMA integrity_check", -1, &statement, nullptr);
    ok = sqlite3_step(statement) == SQLITE_ROW &&
         std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, 0))) == "ok";
    sqlite3_finalize(statement);
  }
  sqlite3_close(raw);
  return ok;
}

// What a restarted server finds. Empty: everything acknowledged; else what is wrong.
std::string examine(PowerCutDisk& disk, const Outcome& outcome, bool synchronous_full) {
  SqliteDatabase database;
  if (database.open(disk_options(disk, synchronous_full)) != StoreStatus::kOk) {
    return "does not open: " + database.error();
  }
  const Expected<std::optional<RunRow>> run = database.current_run();
  if (!run.is_ok() || (outcome.run_created && !*run)) {
    return "the run is lost";
  }
  if (!*run) {
    return "";
  }
  SqliteStore store(database, (*run)->id);
  uint64_t count = 0;
  bool equal = true;
  const StoreStatus status = store.read([&](const JournalRecord& record) {
    equal = equal && record == record_of(++count);
    return true;
  });
  if (status != StoreStatus::kOk || !equal) {
    return "the journal is damaged: " + database.error();
  }
  if (count < outcome.acknowledged) {
    return "acknowledged " + std::to_string(outcome.acknowledged) + ", found " + std::to_string(count);
  }
  if (!is_batch_boundary(count)) {
    return "half a batch: " + std::to_string(count);
  }
  if (store.append(batch_of(count + 1, 3)) != StoreStatus::kOk) {
    return "does not go on: " + database.error();
  }
  return "";
}

struct Campaign {
  int losses = 0;
  std::string first_loss;
  std::map<DiskCall, int> cuts;
  uint64_t bytes_dropped = 0;
};

// stops_at_loss: the first one is enough.
Campaign cut_everywhere(PowerCutDisk& disk, bool synchronous_full, bool stops_at_loss = false) {
  disk.reset(1, 0);
  live(disk, synchronous_full);
  std::map<DiskCall, std::vector<uint64_t>> numbers;
  for (size_t i = 0; i < disk.calls().size(); ++i) {
    numbers[disk.calls()[i]].push_back(i + 1);
  }
  std::vector<DiskCall> kinds;
  for (const auto& [kind, all] : numbers) {
    kinds.push_back(kind);
  }
  Campaign campaign;
  std::mt19937_64 random(20260101);
  for (int i = 0; i < kCutCount && !(stops_at_loss && campaign.losses > 0); ++i) {
    const DiskCall kind = kinds[static_cast<size_t>(i) % kinds.size()];
    const uint64_t at = numbers[kind][random() % numbers[kind].size()];
    disk.reset(random(), at);
    const Outcome outcome = live(disk, synchronous_full);
    EXPECT_TRUE(disk.is_cut());
    disk.restart();
    ++campaign.cuts[kind];
    std::string wrong = examine(disk, outcome, synchronous_full);
    if (wrong.empty() && !integrity_ok(disk)) {
      wrong = "integrity_check fails";
    }
    if (!wrong.empty() && campaign.losses++ == 0) {
      campaign.first_loss = "cut at call " + std::to_string(at) + " (" + disk_call_name(kind) + "): " + wrong;
    }
  }
  campaign.bytes_dropped = disk.bytes_dropped();
  return campaign;
}

TEST(JournalTable, NoPowerCutLosesAnAcknowledgedBatch) {
  PowerCutDisk disk("power_cut_full");
  const Campaign campaign = cut_everywhere(disk, true);
  EXPECT_EQ(campaign.losses, 0) << campaign.first_loss;
  for (const DiskCall kind : {DiskCall::kOpen, DiskCall::kWriteDatabase, DiskCall::kWriteWal, DiskCall::kSyncDatabase,
                              DiskCall::kSyncWal, DiskCall::kTruncate, DiskCall::kDelete, DiskCall::kShmMap}) {
    EXPECT_GT(campaign.cuts.count(kind), 0U) << disk_call_name(kind);
  }
  EXPECT_GT(campaign.bytes_dropped, 0U);
  for (const auto& [kind, count] : campaign.cuts) {
    std::printf("power cuts at %s: %d\n", disk_call_name(kind), count);
  }
}

// The test of the test: without synchronisation the same cuts do lose something.
TEST(JournalTable, WithoutSynchronisationPowerCutsLoseBatches) {
  PowerCutDisk disk("power_cut_off");
  const Campaign campaign = cut_everywhere(disk, false);
  EXPECT_GT(campaign.losses, 0);
  std::printf("synchronous=OFF: %d of %d cuts lost something\n", campaign.losses, kCutCount);
}

// A disk that acknowledges what it did not keep, or one sync that somebody left out: each kind of file needs its own.
TEST(JournalTable, WithoutTheSyncsOfOneFilePowerCutsLoseBatches) {
  for (const DiskCall kind : {DiskCall::kSyncWal, DiskCall::kSyncDatabase}) {
    PowerCutDisk disk("power_cut_lying");
    disk.skip_syncs(kind);
    const Campaign campaign = cut_everywhere(disk, true, true);
    EXPECT_EQ(campaign.losses, 1) << disk_call_name(kind);
    EXPECT_NE(campaign.first_loss, "");
  }
}

}  // namespace
}  // namespace gradstream
