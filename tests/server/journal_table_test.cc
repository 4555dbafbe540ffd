// The journal: round trips, a full and a damaged disk, and power cuts at every kind of call.
#include "server/store/journal_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/campaign.h"
#include "tests/support/power_cut_vfs.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

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

Campaign cut_everywhere(PowerCutDisk& disk, bool synchronous_full) {
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
  for (int i = 0; i < kCutCount; ++i) {
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

}  // namespace
}  // namespace gradstream
