// The format of a database's file: its tables, and what brings a file of an older format to this one.
#include <iterator>
#include <string>
#include <vector>

#include "server/base/log.h"
#include "server/store/database_copy.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "server/store/row_checks.h"
#include "server/store/statement.h"

namespace gradstream {

namespace {

// "GSdb": tells our files from any other program's.
constexpr int64_t kApplicationId = 0x47536462;
constexpr int64_t kSchemaVersion = 10;
constexpr int64_t kFirstChained = 9;  // the first format whose journals have a chain

// So that what has changed, and what ends next, is found without a look at all devices.
constexpr const char* kDeviceIndexes =
    "CREATE INDEX IF NOT EXISTS devices_by_change ON devices(changed);"
    "CREATE INDEX IF NOT EXISTS devices_by_expiry ON devices(previous_until_ms) WHERE previous_until_ms<>0;"
    "CREATE INDEX IF NOT EXISTS devices_by_key_change ON devices(key_change_since_ms) WHERE key_change_since_ms<>0";
constexpr const char* kSchema[] = {
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL,"
    " crc32c INTEGER NOT NULL DEFAULT 0) STRICT",
    "CREATE TABLE devices (device_index INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL,"
    " created_ms INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 2, generation INTEGER NOT NULL DEFAULT 0,"
    " previous_key BLOB, previous_until_ms INTEGER NOT NULL DEFAULT 0, claim INTEGER NOT NULL DEFAULT 0,"
    " crc32c INTEGER NOT NULL DEFAULT 0, changed INTEGER NOT NULL DEFAULT 0, key_change_secret BLOB,"
    " key_change_since_ms INTEGER NOT NULL DEFAULT 0, key_change_window_s INTEGER NOT NULL DEFAULT 0,"
    " key_change_receipt BLOB) STRICT",
    "CREATE TABLE claims (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL,"
    " count_max INTEGER NOT NULL, count_used INTEGER NOT NULL DEFAULT 0, expires_ms INTEGER NOT NULL,"
    " device_state INTEGER NOT NULL, created_ms INTEGER NOT NULL, is_ended INTEGER NOT NULL DEFAULT 0,"
    " crc32c INTEGER NOT NULL DEFAULT 0, server_secret BLOB) STRICT",
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL, source TEXT NOT NULL,"
    " digest INTEGER NOT NULL, state INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " crc32c INTEGER NOT NULL DEFAULT 0, run_nonce INTEGER NOT NULL DEFAULT 0) STRICT",
    "CREATE TABLE journal (run INTEGER NOT NULL REFERENCES runs(id), sequence INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " device INTEGER NOT NULL, task_sequence INTEGER NOT NULL, version INTEGER NOT NULL, base_version INTEGER NOT NULL,"
    " steps_done INTEGER NOT NULL, weight INTEGER NOT NULL, verdict INTEGER NOT NULL, reason INTEGER NOT NULL,"
    " detail INTEGER NOT NULL, step_scale REAL NOT NULL, loss_before REAL NOT NULL, loss_after REAL NOT NULL,"
    " digest INTEGER NOT NULL, time_ms INTEGER NOT NULL, payload BLOB NOT NULL, crc32c INTEGER NOT NULL,"
    " notes BLOB, chain BLOB NOT NULL DEFAULT x'', PRIMARY KEY (run, sequence)) STRICT, WITHOUT ROWID",
};

// From each format to the next. Formats: 1 had `revoked` alone; 2 had no claims; in 3 and before, runs of the first
// release say `use_correction`; 4 had no checksums of rows, and a claim ended by its time alone; 5 had no notes of
// updates. 6 had no checkpoints, and kept every record. 7 did not say which change was a device's last. 8 had no nonce
// of a run, no chain of its records, and no secret of the server with a claim. 9 had no keys that devices draw.
constexpr const char* kMigrations[] = {
    "ALTER TABLE devices ADD COLUMN state INTEGER NOT NULL DEFAULT 2;"
    "UPDATE devices SET state=4 WHERE revoked<>0;"
    "ALTER TABLE devices DROP COLUMN revoked;"
    "ALTER TABLE devices ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE devices ADD COLUMN previous_key BLOB;"
    "ALTER TABLE devices ADD COLUMN previous_until_ms INTEGER NOT NULL DEFAULT 0;"
    "UPDATE meta SET value=2 WHERE key='schema_version'",
    "ALTER TABLE devices ADD COLUMN claim INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE claims (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL,"
    " count_max INTEGER NOT NULL, count_used INTEGER NOT NULL DEFAULT 0, expires_ms INTEGER NOT NULL,"
    " device_state INTEGER NOT NULL, created_ms INTEGER NOT NULL) STRICT;"
    "UPDATE meta SET value=3 WHERE key='schema_version'",
    "UPDATE runs SET"
    " parameters=replace(parameters,'\nuse_correction = true\n','\ncorrection_form = local\n'),"
    " source=replace(source,'\nuse_correction = true\n','\ncorrection_form = \"local\"\n');"
    "UPDATE runs SET"
    " parameters=replace(parameters,'\nuse_correction = false\n','\ncorrection_form = none\n'),"
    " source=replace(source,'\nuse_correction = false\n','\ncorrection_form = \"none\"\n');"
    "UPDATE meta SET value=4 WHERE key='schema_version'",
    "ALTER TABLE meta ADD COLUMN crc32c INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE devices ADD COLUMN crc32c INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE claims ADD COLUMN is_ended INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE claims ADD COLUMN crc32c INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE runs ADD COLUMN crc32c INTEGER NOT NULL DEFAULT 0;"
    "UPDATE meta SET value=5 WHERE key='schema_version'",
    "ALTER TABLE journal ADD COLUMN notes BLOB;"
    "UPDATE meta SET value=6 WHERE key='schema_version'",
    "CREATE TABLE IF NOT EXISTS checkpoints (run INTEGER NOT NULL REFERENCES runs(id), sequence INTEGER NOT NULL,"
    " version INTEGER NOT NULL, update_count INTEGER NOT NULL, size INTEGER NOT NULL, crc32c INTEGER NOT NULL,"
    " PRIMARY KEY (run, sequence)) STRICT, WITHOUT ROWID;"
    "UPDATE meta SET value=7 WHERE key='schema_version'",
    "ALTER TABLE devices ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;"
    "UPDATE meta SET value=8 WHERE key='schema_version'",
    "ALTER TABLE claims ADD COLUMN server_secret BLOB;"
    "ALTER TABLE runs ADD COLUMN run_nonce INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE journal ADD COLUMN chain BLOB NOT NULL DEFAULT x'';"
    "ALTER TABLE checkpoints ADD COLUMN chain BLOB NOT NULL DEFAULT x'';"
    "UPDATE meta SET value=9 WHERE key='schema_version'",
    "ALTER TABLE devices ADD COLUMN key_change_secret BLOB;"
    "ALTER TABLE devices ADD COLUMN key_change_since_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE devices ADD COLUMN key_change_window_s INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE devices ADD COLUMN key_change_receipt BLOB;"
    "UPDATE meta SET value=10 WHERE key='schema_version'",
};
static_assert(std::size(kMigrations) == kSchemaVersion - 1);

}  // namespace

Expected<bool> SqliteDatabase::check_format() {
  // In this order: another process may make the tables in between, and names their owner in the same transaction.
  const Expected<int64_t> object_count = query_number("SELECT count(*) FROM sqlite_schema");
  const Expected<int64_t> application_id =
      object_count.is_ok() ? query_number("PRAGMA application_id") : object_count.status();
  if (application_id.status() == StoreStatus::kCorrupt) {
    return fail_with(StoreStatus::kCorrupt, "database " + name_ +
                                                " is no SQLite database, or its beginning is damaged; " +
                                                remedy_of(StoreStatus::kCorrupt));
  }
  GS_TRY_STORE(application_id);
  const bool is_new = *application_id == 0 && *object_count == 0;
  if (is_new && is_copy_) {
    return fail_with(StoreStatus::kCorrupt, "database " + name_ + " is empty; " + kUseAnotherCopy);
  }
  if (!is_new && *application_id != kApplicationId) {
    return fail_with(StoreStatus::kCorrupt, "database " + name_ + " belongs to another program; " +
                                                (is_copy_ ? kUseAnotherCopy : "set server.database to another path"));
  }
  return is_new;
}

StoreStatus SqliteDatabase::make_schema() {
  Transaction transaction(*this);
  GS_TRY_STORE(transaction.begin());
  const Expected<bool> is_new = check_format();  // another process may have been first
  GS_TRY_STORE(is_new);
  if (*is_new) {
    for (const char* const table : kSchema) {
      GS_TRY_STORE(execute(table));
    }
    GS_TRY_STORE(execute(kDeviceIndexes));
    GS_TRY_STORE(execute(kCheckpointTables));
    const std::string finish = "PRAGMA application_id=" + std::to_string(kApplicationId) +
                               "; INSERT INTO meta (key,value) VALUES ('schema_version'," +
                               std::to_string(kSchemaVersion) + ");" + row_sign_statements();
    GS_TRY_STORE(execute(finish.c_str()));
  }
  return transaction.commit();
}

StoreStatus SqliteDatabase::check_schema(const SqliteOptions& options) {
  const Expected<int64_t> found =
      query_number("SELECT coalesce((SELECT value FROM meta WHERE key='schema_version'),0)");
  GS_TRY_STORE(found);
  const int64_t version = *found;
  if (version == kSchemaVersion) {
    return StoreStatus::kOk;
  }
  if (version == 0) {
    return fail_with(StoreStatus::kCorrupt, "database " + name_ +
                                                " is damaged: row schema_version of table meta is gone; " +
                                                remedy_of(StoreStatus::kCorrupt));
  }
  const std::string format = "database " + name_ + " has format " + std::to_string(version);
  if (version < 1 || version > kSchemaVersion) {
    return fail_with(StoreStatus::kCorrupt, format + ", this release reads formats up to " +
                                                std::to_string(kSchemaVersion) + "; use the release that wrote it");
  }
  DatabaseOwner owner;
  if (!options.is_owner && !options.is_locked_here && options.vfs == nullptr) {
    GS_TRY_STORE(find_owner(&owner));
  }
  if (owner.is_held) {
    return fail_with(StoreStatus::kBusy, format + ", and an older server, process " + std::to_string(owner.process) +
                                             ", is at work on it; start that one anew with this release first");
  }
  return migrate();
}

StoreStatus SqliteDatabase::migrate() {
  Transaction transaction(*this);
  GS_TRY_STORE(transaction.begin());
  // Another process may have been first.
  const Expected<int64_t> found = query_number("SELECT value FROM meta WHERE key='schema_version'");
  GS_TRY_STORE(found);
  if (*found < kSchemaVersion) {
    GS_TRY_STORE(check_rows(old_damage_query(*found)));
    for (int64_t version = *found; version < kSchemaVersion; ++version) {
      GS_TRY_STORE(execute(kMigrations[version - 1]));
    }
    GS_TRY_STORE(execute(kDeviceIndexes));
    GS_TRY_STORE(execute(kCheckpointTables));
    if (*found < kFirstChained) {
      GS_TRY_STORE(make_chains());
    }
    GS_TRY_STORE(execute(row_sign_statements().c_str()));
  }
  return transaction.commit();
}

StoreStatus SqliteDatabase::make_chains() {
  std::vector<uint32_t> runs;
  uint32_t current = 0;  // as current_run() has it, whose rows have no checksum yet
  bool is_current_active = false;
  {
    Use use(*this, "SELECT id,state FROM runs ORDER BY id");
    int code = use.step();
    for (; code == SQLITE_ROW; code = use.step()) {
      runs.push_back(use.number32(0));
      const bool is_run_active = is_active(static_cast<StoredRunState>(use.number(1)));
      current = is_run_active || !is_current_active ? runs.back() : current;
      is_current_active = is_current_active || is_run_active;
    }
    if (code != SQLITE_DONE) {
      return fail(code, "read the runs");
    }
  }
  for (const uint32_t run : runs) {
    std::vector<uint64_t> damaged;
    GS_TRY_STORE(SqliteStore(*this, run).make_chain(run == current ? nullptr : &damaged));
    for (const uint64_t sequence : damaged) {
      log_milder("journal_broken"_event, LogLevel::kWarn,
                 Fields()
                     .add("run", uint64_t{run})
                     .add("sequence", sequence)
                     .add("remedy", "none needed: that run is over; a copy from before may have the record"));
    }
  }
  return StoreStatus::kOk;
}

}  // namespace gradstream
