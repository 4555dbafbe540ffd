// The database file: modes, formats, and every fault with its name and remedy.
#include "server/store/sqlite_database.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/program/config.h"
#include "server/run/canonical_text.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/store/database_copy.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "server/store/row_checks.h"
#include "tests/support/as_nobody.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// What the first release wrote (tests/server/format_1.sql says how).
void write_format_1(const std::string& path) {
  std::ifstream file(GS_SOURCE_DIR "/tests/server/format_1.sql");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
  sqlite3_close(connection);
  chmod(path.c_str(), 0600);
}

// Signs the rows of meta as they are, as a server of their own format had.
void sign_meta(const std::string& path) { edit(path, "UPDATE meta SET crc32c=gs_row_crc(key,value)"); }

// A database of devices a, b and c, and of claim d, in the last format before claims proved their server.
void write_format_8(const SqliteOptions& options) {
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options), StoreStatus::kOk) << database.error();
    for (const char* const name : {"a", "b", "c"}) {
      ASSERT_TRUE(value_of(database.add_device(name, key_of(1), 7)));
    }
    ClaimRow claim;
    claim.name = "d";
    claim.key = key_of(4);
    claim.count_max = 2;
    claim.expires_ms = 1000;
    ASSERT_TRUE(value_of(database.add_claim(claim)));
  }
  edit(options.path, std::string(kToFormat8) + "UPDATE meta SET value=8 WHERE key='schema_version'");
  sign_meta(options.path);
}

// The same in the last format before numbers of changes.
void write_format_7(const SqliteOptions& options) {
  ASSERT_NO_FATAL_FAILURE(write_format_8(options));
  edit(options.path,
       "DROP INDEX devices_by_change; DROP INDEX devices_by_expiry; ALTER TABLE devices DROP COLUMN changed;"
       "UPDATE devices SET crc32c=gs_row_crc(device_index,name,key,created_ms,state,generation,previous_key,"
       "previous_until_ms,claim);"
       "UPDATE meta SET value=7 WHERE key='schema_version'");
  sign_meta(options.path);
}

// Each row's columns as SQL literals, which keep every bit.
std::vector<std::string> rows_of(const std::string& path, const std::string& table,
                                 const std::vector<std::string>& columns) {
  std::string row;
  for (const std::string& column : columns) {
    row += (row.empty() ? "quote(" : "||','||quote(") + column + ")";
  }
  std::vector<std::string> rows;
  sqlite3* connection = nullptr;
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_prepare_v2(connection, ("SELECT " + row + " FROM " + table).c_str(), -1, &statement, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(connection);
  while (sqlite3_step(statement) == SQLITE_ROW) {
    rows.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(statement, 0)));
  }
  sqlite3_finalize(statement);
  sqlite3_close(connection);
  return rows;
}

// All that no format has changed, table by table.
std::vector<std::vector<std::string>> kept_rows(const std::string& path) {
  return {rows_of(path, "devices", {"device_index", "name", "key", "created_ms"}),
          rows_of(path, "runs", {"id", "name", "digest", "state", "created_ms"}),
          rows_of(path, "journal",
                  {"run", "sequence", "kind", "device", "task_sequence", "version", "base_version", "steps_done",
                   "weight", "verdict", "reason", "detail", "step_scale", "loss_before", "loss_after", "digest",
                   "time_ms", "payload", "crc32c"})};
}

TEST(SqliteDatabase, TheFirstFormatIsBroughtToThisOne) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  write_format_1(path);
  auto kept = kept_rows(path);
  ASSERT_EQ(kept[0].size(), 3U);
  ASSERT_EQ(kept[2].size(), 31U);
  for (int opening = 0; opening < 2; ++opening) {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
    EXPECT_EQ(kept_rows(path), kept);
    std::vector<EnrolledDevice> rows = value_of(database.devices());
    ASSERT_EQ(rows.size(), 3U + static_cast<size_t>(opening));
    EXPECT_EQ(rows[0].state, DeviceState::kActive);
    EXPECT_EQ(rows[2].state, DeviceState::kRevoked);
    std::optional<EnrolledDevice> row = value_of(database.find_device("b"));
    EXPECT_EQ(row->key, key_of(2));
    EXPECT_EQ(row->generation, 0U);
    EXPECT_EQ(row->previous_until_ms, 0U);
    std::vector<ClaimRow> claims = value_of(database.claims());
    EXPECT_TRUE(claims.empty());
    EXPECT_TRUE(database.add_device("new", key_of(9), 7).is_ok());  // taken in the second round
    kept = kept_rows(path);
  }
}

// The last format before notes of updates: its journal reads on, with its own checksums, and takes records with notes.
TEST(SqliteDatabase, AJournalOfTheFormatWithoutNotesGoesOn) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  RunRow run = run_row();
  JournalRecord plain = record_of(1);
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
    run.id = value_of(database.create_run(run));
    SqliteStore journal(database, run.id);
    ASSERT_EQ(journal.append({&plain, 1}), StoreStatus::kOk);
  }
  edit(path, kToFormat8);
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection,
                         "DROP INDEX devices_by_change; ALTER TABLE devices DROP COLUMN changed;"
                         "ALTER TABLE journal DROP COLUMN notes;"
                         "UPDATE meta SET value=5,crc32c=0 WHERE key='schema_version'",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(connection);
  sqlite3_close(connection);
  sign_meta(path);
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
  SqliteStore journal(database, run.id);
  std::vector<JournalRecord> batch = {record_of(2), record_of(3)};
  EXPECT_FALSE(batch[1].row().notes.empty());
  ASSERT_EQ(journal.append(batch), StoreStatus::kOk) << database.error();
  uint64_t count = 0;
  EXPECT_EQ(journal.read([&count](const JournalRecord& record) {
    ++count;
    EXPECT_TRUE(record == record_of(count)) << count;
    return true;
  }),
            StoreStatus::kOk)
      << database.error();
  EXPECT_EQ(count, 3U);
}

// The last format before checkpoints. Its file gives empty pages back from now on, as a new one does.
TEST(SqliteDatabase, ADatabaseWithoutCheckpointsGetsThem) {
  const Folder folder;
  SqliteOptions options = options_for(folder.file("a.db"));
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options), StoreStatus::kOk) << database.error();
    ASSERT_TRUE(database.create_run(run_row()).is_ok());
    SqliteStore journal(database, 1);
    ASSERT_EQ(journal.append(batch_of(1, 40)), StoreStatus::kOk);
  }
  edit(options.path, kToFormat8);
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(options.path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection,
                         "DROP INDEX devices_by_change; ALTER TABLE devices DROP COLUMN changed;"
                         "DROP TABLE checkpoints; DROP TABLE checkpoint_pieces; PRAGMA auto_vacuum=NONE; VACUUM;"
                         "UPDATE meta SET value=6,crc32c=0 WHERE key='schema_version'",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(connection);
  sqlite3_close(connection);
  sign_meta(options.path);
  {
    SqliteDatabase command;  // comes before the server, and brings the file to this format
    ASSERT_EQ(command.open(options), StoreStatus::kOk) << command.error();
  }
  options.is_owner = true;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options), StoreStatus::kOk) << database.error();
  SqliteStore journal(database, 1);
  std::vector<CheckpointHead> heads;
  EXPECT_EQ(journal.read_heads(&heads), StoreStatus::kOk) << database.error();
  uint64_t count = 0;
  EXPECT_EQ(journal.read([&count](const JournalRecord& record) { return record == record_of(++count); }),
            StoreStatus::kOk);
  EXPECT_EQ(count, 40U);
  ASSERT_EQ(sqlite3_open(options.path.c_str(), &connection), SQLITE_OK);
  sqlite3_stmt* mode = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(connection, "PRAGMA auto_vacuum", -1, &mode, nullptr), SQLITE_OK);
  EXPECT_EQ(sqlite3_step(mode), SQLITE_ROW);
  EXPECT_EQ(sqlite3_column_int(mode, 0), 2);
  sqlite3_finalize(mode);
  sqlite3_close(connection);
}

// Every device is there, and from now on a change tells its rows.
TEST(SqliteDatabase, ADatabaseWithoutNumbersOfChangesGetsThem) {
  const Folder folder;
  const SqliteOptions options = options_for(folder.file("a.db"));
  ASSERT_NO_FATAL_FAILURE(write_format_7(options));
  SqliteDatabase database;
  ASSERT_EQ(database.open(options), StoreStatus::kOk) << database.error();
  EXPECT_EQ(value_of(database.devices()).size(), 3U);
  const uint64_t before = value_of(database.change_count());
  EXPECT_EQ(before, 4U);
  EXPECT_TRUE(value_of(database.devices_changed_after(before)).empty());
  ASSERT_TRUE(value_of(database.revoke_device("b")));
  const std::vector<EnrolledDevice> changed = value_of(database.devices_changed_after(before));
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].name, "b");
}

// A claim of an older release stays usable, and says that no server proves itself by it.
TEST(SqliteDatabase, AClaimOfAnOlderReleaseStaysUsable) {
  const Folder folder;
  const SqliteOptions options = options_for(folder.file("a.db"));
  ASSERT_NO_FATAL_FAILURE(write_format_8(options));
  SqliteDatabase database;
  ASSERT_EQ(database.open(options), StoreStatus::kOk) << database.error();
  const std::vector<ClaimRow> claims = value_of(database.claims());
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_FALSE(claims[0].is_proven);
  const std::optional<ClaimRow> claim = value_of(database.find_claim("d"));
  EXPECT_EQ(claim->key, key_of(4));
  EXPECT_EQ(value_of(database.claim_device(claim->id, "new", key_of(5), 7)), ClaimOutcome::kGranted);
}

// A row in which one bit has changed is damage in an older format too: it is named, and not signed anew.
TEST(SqliteDatabase, NoNewFormatSignsADamagedRow) {
  const Folder folder;
  const SqliteOptions options = options_for(folder.file("a.db"));
  ASSERT_NO_FATAL_FAILURE(write_format_7(options));
  const auto whole = rows_of(options.path, "devices", {"name", "state", "crc32c"});
  edit(options.path, "UPDATE devices SET state=3 WHERE name='b'");
  const auto damaged = rows_of(options.path, "devices", {"name", "state", "crc32c"});
  EXPECT_NE(damaged, whole);
  for (int opening = 0; opening < 2; ++opening) {
    SqliteDatabase database;
    EXPECT_EQ(database.open(options), StoreStatus::kCorrupt);
    EXPECT_THAT(database.error(), HasSubstr("row b of table devices does not fit its checksum; restore"));
    EXPECT_EQ(rows_of(options.path, "devices", {"name", "state", "crc32c"}), damaged);
  }
  edit(options.path, "UPDATE devices SET state=2 WHERE name='b'");
  edit(options.path, "UPDATE claims SET count_max=9");
  {
    SqliteDatabase database;
    EXPECT_EQ(database.open(options), StoreStatus::kCorrupt);
    EXPECT_THAT(database.error(), HasSubstr("row d of table claims does not fit its checksum; restore"));
  }
  edit(options.path, "UPDATE claims SET count_max=2");
  SqliteDatabase database;
  EXPECT_EQ(database.open(options), StoreStatus::kOk) << database.error();
}

// What was called otherwise is brought to its name of today, in both texts, and nothing else is touched.
TEST(SqliteDatabase, RunsOfTheFirstReleaseRead) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  write_format_1(path);
  const auto before = rows_of(path, "runs", {"parameters"});
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
  const auto after = rows_of(path, "runs", {"parameters"});
  std::vector<RunRow> runs = value_of(database.runs());
  ASSERT_EQ(runs.size(), 2U);
  const CorrectionForm forms[] = {CorrectionForm::kNone, CorrectionForm::kLocal};
  const std::vector<std::string> changed[] = {{"correction_form", "use_correction"}, {"use_correction"}};
  const uint64_t counts[] = {12, 19};
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(differing_keys(before[i], after[i]), changed[i]);
    RunParameters parameters;
    EXPECT_EQ(parse_run_source(runs[i].source, &parameters).sentence, "");
    EXPECT_THAT(differing_keys(runs[i].parameters, canonical_text(parameters)), testing::IsEmpty());
    EXPECT_EQ(parameters.local->correction_form, forms[i]);
    SqliteStore journal(database, runs[i].id);
    JournalRecord last;
    ASSERT_EQ(journal.read([&last](const JournalRecord& record) {
      last = record;
      return true;
    }),
              StoreStatus::kOk)
        << database.error();
    EXPECT_EQ(last.sequence(), counts[i]);
  }
}

TEST(SqliteDatabase, ADatabaseThatAnOlderServerHoldsIsNotTouched) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  write_format_1(path);
  DatabaseLock server;
  ASSERT_EQ(server.take(path).sentence, "");
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(path)), StoreStatus::kBusy);
  EXPECT_NE(database.error().find("start that one anew"), std::string::npos) << database.error();
  SqliteOptions options = options_for(path);
  options.is_owner = true;
  SqliteDatabase owner;
  EXPECT_EQ(owner.open(options), StoreStatus::kOk) << owner.error();
}

TEST(SqliteDatabase, ACommandThatHoldsTheLockIsNoOlderServer) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  write_format_1(path);
  DatabaseLock lock;
  ASSERT_EQ(lock.take(path).sentence, "");
  SqliteOptions options = options_for(path);
  options.is_locked_here = true;
  SqliteDatabase database;
  EXPECT_EQ(database.open(options), StoreStatus::kOk) << database.error();
}

TEST(SqliteDatabase, ANewerFormatIsNamed) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(register_row_crc(raw), SQLITE_OK);
  sqlite3_exec(raw, ("UPDATE meta SET value=11;" + row_sign_statements()).c_str(), nullptr, nullptr, nullptr);
  sqlite3_close(raw);
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kCorrupt);
  EXPECT_THAT(database.error(), HasSubstr("has format 11"));
}

// Whoever opens it says so, whatever it is for; the format too is a row that can be damaged.
TEST(SqliteDatabase, ADamagedNumberOfTheDatabaseIsNamed) {
  for (const char* const key : {"schema_version", "change_count", "latest_time_ms"}) {
    for (const std::string change :
         {"UPDATE meta SET value=value+1 WHERE key='", "UPDATE meta SET key='x' WHERE key='"}) {
      const Folder folder;
      {
        SqliteDatabase database;
        ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
        EXPECT_TRUE(value_of(database.add_device("a", key_of(1), 7)));
        uint64_t now_ms = 7;
        ASSERT_EQ(database.note_time(&now_ms), StoreStatus::kOk);
      }
      sqlite3* raw = nullptr;
      ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
      ASSERT_EQ(sqlite3_exec(raw, (change + key + "'").c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
      sqlite3_close(raw);
      SqliteDatabase database;
      SqliteOptions options = options_for(folder.file("a.db"));
      options.may_create = false;
      EXPECT_EQ(database.open(options), StoreStatus::kCorrupt) << change << key;
      EXPECT_THAT(database.error(), HasSubstr("of table meta does not fit its checksum; restore"));
      EXPECT_FALSE(database.is_failure_temporary());
    }
  }
}

TEST(SqliteDatabase, AFormatThatIsGoneIsDamage) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
  sqlite3_exec(raw, "DELETE FROM meta", nullptr, nullptr, nullptr);
  sqlite3_close(raw);
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kCorrupt);
  EXPECT_THAT(database.error(), HasSubstr("row schema_version of table meta is gone; restore"));
}

// What is written to a file that nobody finds any more is no change, and no record.
TEST(SqliteDatabase, AFileThatWasMovedOrReplacedTakesNothing) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk);
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  SqliteStore journal(database, run.id);
  JournalRecord record;
  record.set_sequence(1);
  const auto add = [&](const std::string& name) { return database.add_device(name, key_of(1), 7).status(); };
  EXPECT_EQ(database.check_in_place(), StoreStatus::kOk);
  std::filesystem::rename(path, folder.file("away.db"));
  EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved);
  EXPECT_THAT(database.error(), HasSubstr("was removed or moved away while it was in use; put the file back"));
  EXPECT_EQ(add("a"), StoreStatus::kMoved);
  EXPECT_EQ(journal.append({&record, 1}), StoreStatus::kMoved);
  std::ofstream(path) << "another one";
  EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved);
  EXPECT_THAT(database.error(), HasSubstr("was replaced by another file"));
  std::filesystem::rename(folder.file("away.db"), path);
  EXPECT_EQ(database.check_in_place(), StoreStatus::kOk) << "it is back";
  EXPECT_EQ(add("a"), StoreStatus::kOk);
  EXPECT_EQ(journal.append({&record, 1}), StoreStatus::kOk);
  std::filesystem::rename(path + "-wal", folder.file("away-wal"));
  EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved);
  EXPECT_THAT(database.error(), HasSubstr("a.db-wal was removed"));
  std::filesystem::rename(folder.file("away-wal"), path + "-wal");
  EXPECT_EQ(database.check_in_place(), StoreStatus::kOk);
}

// Nobody can tell whether a server is at work on it: the file is left alone, and no copy of it is made.
TEST(SqliteDatabase, ADatabaseWhoseLockCannotBeReadIsNotOpened) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  write_format_1(path);
  std::filesystem::create_symlink(path + ".lock", path + ".lock");  // leads to itself
  const auto kept = kept_rows(path);
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(path)), StoreStatus::kFailed);
  EXPECT_THAT(database.error(), HasSubstr("cannot read " + path + ".lock: Too many levels of symbolic links; check"));
  EXPECT_EQ(kept_rows(path), kept) << "an older server may be at work: the format stays as it is";
  std::string error;
  EXPECT_EQ(copy_database(path, folder.file("copy.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("cannot read " + path + ".lock"));
  std::filesystem::remove(path + ".lock");
  EXPECT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
}

// A command makes a new log and a new index where there is none: a file of that name says nothing.
TEST(SqliteDatabase, ALogThatWasRemovedIsNotBackWhenAnotherOneStandsThere) {
  for (const std::string end : {"-wal", "-shm"}) {
    for (const bool is_by_command : {true, false}) {
      const Folder folder;
      const std::string path = folder.file("a.db");
      SqliteDatabase database;
      ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk);
      EXPECT_TRUE(value_of(database.add_device("a", key_of(1), 7)));
      EXPECT_EQ(database.check_in_place(), StoreStatus::kOk);
      std::filesystem::rename(path + end, folder.file("away"));
      EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved) << end;
      EXPECT_THAT(database.error(), HasSubstr("a.db" + end + " was removed while it was in use; put that very file"));
      if (is_by_command && end == "-wal") {  // in one process connections share the index
        SqliteDatabase command;
        (void)command.open(options_for(path));
        ASSERT_TRUE(std::filesystem::exists(path + end));
        EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved);
      } else {
        std::filesystem::copy_file(folder.file("away"), path + end);
        EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved) << end;
      }
      EXPECT_THAT(database.error(), HasSubstr("was replaced by another file while it was in use; stop the server"));
      EXPECT_EQ(database.add_device("b", key_of(2), 7).status(), StoreStatus::kMoved) << end;
      std::filesystem::rename(folder.file("away"), path + end);
      EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved) << "somebody may have written to the other one";
    }
  }
}

TEST(SqliteDatabase, TheLogIsFoundBehindALink) {
  const Folder folder;
  std::filesystem::create_symlink(folder.file("a.db"), folder.file("link.db"));
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("link.db"))), StoreStatus::kOk);
  EXPECT_EQ(database.check_in_place(), StoreStatus::kOk) << database.error();
  std::filesystem::remove(folder.file("a.db-wal"));
  EXPECT_EQ(database.check_in_place(), StoreStatus::kMoved);
}

TEST(SqliteDatabase, AFileThatWasMadeForNothingGoes) {
  const Folder folder;
  SqliteOptions options = options_for(folder.file("a.db"));
  options.keeps_unused = false;
  for (const bool is_used : {false, true}) {
    {
      SqliteDatabase database;
      ASSERT_EQ(database.open(options), StoreStatus::kOk);
      ASSERT_TRUE(!is_used || database.add_device("a", key_of(1), 7).is_ok());
    }
    EXPECT_EQ(std::filesystem::exists(folder.file("a.db")), is_used);
    EXPECT_FALSE(std::filesystem::exists(folder.file("a.db-wal")));
  }
  {
    SqliteDatabase database;  // that was there before
    ASSERT_EQ(database.open(options), StoreStatus::kOk);
  }
  EXPECT_TRUE(std::filesystem::exists(folder.file("a.db")));
}

// A change that is on its way counts: it holds the write lock, and the end of the other connection waits for it.
TEST(SqliteDatabase, AFileThatWasMadeForNothingStaysWhileSomebodyWritesToIt) {
  const Folder folder;
  SqliteOptions options = options_for(folder.file("a.db"));
  options.keeps_unused = false;
  auto database = std::make_unique<SqliteDatabase>();
  ASSERT_EQ(database->open(options), StoreStatus::kOk);
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, "BEGIN IMMEDIATE; INSERT INTO meta (key,value) VALUES ('change_count',1)", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  std::future<void> end = std::async(std::launch::async, [&database] { database.reset(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout) << "nobody has committed";
  EXPECT_EQ(sqlite3_exec(raw, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  end.get();
  EXPECT_TRUE(std::filesystem::exists(folder.file("a.db")));
  sqlite3_close(raw);
}

TEST(SqliteDatabase, AFileThatTookThePlaceOfOneMadeForNothingStays) {
  const Folder folder;
  SqliteOptions options = options_for(folder.file("a.db"));
  options.keeps_unused = false;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options), StoreStatus::kOk);
    for (const char* const end : {"", "-wal"}) {
      std::filesystem::rename(folder.file("a.db") + end, folder.file("away.db") + end);
      std::ofstream(folder.file("a.db") + end) << "another one";
    }
  }
  EXPECT_TRUE(std::filesystem::exists(folder.file("a.db")));
  EXPECT_TRUE(std::filesystem::exists(folder.file("a.db-wal")));
}

// Without its tables a file is no fleet: only who may make one puts them there.
TEST(SqliteDatabase, AStubIsNoDatabaseUnlessOneMayBeMade) {
  const Folder folder;
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, "PRAGMA journal_mode=WAL; CREATE TABLE t (a); DROP TABLE t", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(raw);
  ASSERT_GT(std::filesystem::file_size(folder.file("a.db")), 0U);
  std::filesystem::permissions(folder.file("a.db"), std::filesystem::perms(0600));
  SqliteOptions options = options_for(folder.file("a.db"));
  options.may_create = false;
  {
    SqliteDatabase database;
    EXPECT_EQ(database.open(options), StoreStatus::kFailed);
    EXPECT_THAT(database.error(), HasSubstr("is empty; if there was one"));
  }
  options.may_create = true;
  SqliteDatabase database;
  EXPECT_EQ(database.open(options), StoreStatus::kOk) << database.error();
}

// As `serve` and the first `device add` may. Without repetition one in some hundred opens fails.
TEST(SqliteDatabase, ManyMayBeginOneDatabaseAtOnce) {
  constexpr int kDatabaseCount = 60;
  constexpr int kOpenerCount = 4;
  const Folder folder;
  for (int i = 0; i < kDatabaseCount; ++i) {
    const std::string path = folder.file(std::to_string(i) + ".db");
    std::latch together(kOpenerCount);
    std::string errors[kOpenerCount];
    std::vector<std::thread> openers;
    for (std::string& error : errors) {
      openers.emplace_back([&together, &path, &error] {
        SqliteDatabase database;
        together.arrive_and_wait();
        if (database.open(options_for(path)) != StoreStatus::kOk) {
          error = database.error();
        }
      });
    }
    for (std::thread& opener : openers) {
      opener.join();
    }
    EXPECT_THAT(errors, testing::Each("")) << path;
  }
}

TEST(SqliteDatabase, AFileOfTwoHardLinksIsRefused) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  std::filesystem::create_hard_link(folder.file("a.db"), folder.file("b.db"));
  for (const char* const name : {"a.db", "b.db"}) {
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(folder.file(name))), StoreStatus::kFailed);
    EXPECT_NE(database.error().find("has 2 names (hard links)"), std::string::npos) << database.error();
  }
  std::filesystem::remove(folder.file("a.db"));
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(folder.file("b.db"))), StoreStatus::kOk) << database.error();
}

// A server has several connections. Closing any descriptor of the file would take their locks away, and the next
// command to end would then take its connection for the last one and remove the write-ahead log.
TEST(SqliteDatabase, AnotherConnectionOfTheServerLeavesItsLocks) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  DatabaseLock lock;
  ASSERT_EQ(lock.take(path).sentence, "");
  SqliteOptions options = options_for(path);
  options.is_owner = true;
  SqliteDatabase owner;
  ASSERT_EQ(owner.open(options), StoreStatus::kOk) << owner.error();
  // The second connection comes before the file, which was made just now, is held.
  SqliteDatabase second;
  ASSERT_EQ(second.open(options_for(path)), StoreStatus::kOk) << second.error();
  ASSERT_EQ(lock.hold_file().sentence, "");
  SqliteDatabase third;
  ASSERT_EQ(third.open(options_for(path)), StoreStatus::kOk) << third.error();
  const pid_t command = fork();
  if (command == 0) {
    constexpr char kReadAndClose[] =
        "import sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1])\n"
        "database.execute('SELECT * FROM meta').fetchall()\n"
        "database.close()\n";
    execl("/usr/bin/python3", "python3", "-c", kReadAndClose, path.c_str(), nullptr);
    _exit(1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(command, &status, 0), command);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(path + "-wal")) << "the server's log was removed";
}

TEST(SqliteDatabase, ADatabaseThatOthersCanReadIsRefused) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  chmod(folder.file("a.db").c_str(), 0640);
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kFailed);
  EXPECT_NE(database.error().find("chmod 600"), std::string::npos) << database.error();
}

TEST(SqliteDatabase, OnlyTheOwnerCanReadTheFiles) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  for (const char* const name : {"a.db", "a.db-wal", "a.db-shm"}) {
    struct stat info = {};
    ASSERT_EQ(stat(folder.file(name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
}

TEST(SqliteDatabase, ChangesOfFleetAndRunsAreCountedAndRecordsAreNot) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  uint64_t last = 0;
  const auto is_counted = [&] {
    uint64_t count = value_of(database.change_count());
    return std::exchange(last, count) != count;
  };
  EXPECT_FALSE(is_counted()) << "of an empty database";
  EXPECT_TRUE(value_of(database.add_device("a", std::array<uint8_t, 32>{}, 7)));
  EXPECT_TRUE(is_counted());
  EXPECT_TRUE(value_of(database.revoke_device("a")));
  EXPECT_TRUE(is_counted());
  RunRow run = run_row();
  run.id = value_of(database.create_run(run));
  EXPECT_TRUE(is_counted());
  JournalRecord record;
  record.set_sequence(1);
  SqliteStore journal(database, run.id);
  ASSERT_EQ(journal.append({&record, 1}), StoreStatus::kOk);
  EXPECT_FALSE(is_counted());
  ASSERT_EQ(database.set_run_state(run.id, StoredRunState::kStopped), StoreStatus::kOk);
  EXPECT_TRUE(is_counted());
}

TEST(SqliteDatabase, WhatCannotBeOpenedIsNamedWithItsRemedy) {
  const Folder folder;
  {
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(folder.file("none/a.db"))), StoreStatus::kFailed);
    EXPECT_THAT(database.error(), HasSubstr("mkdir -p"));
  }
  {
    SqliteDatabase database;
    SqliteOptions options = options_for(folder.file("absent.db"));
    options.may_create = false;
    EXPECT_EQ(database.open(options), StoreStatus::kFailed);
    EXPECT_THAT(database.error(), HasSubstr("does not exist"));
    std::ofstream(folder.file("absent.db")).flush();
    chmod(folder.file("absent.db").c_str(), 0600);
    EXPECT_EQ(database.open(options), StoreStatus::kFailed) << "who only reads must not make tables";
    EXPECT_THAT(database.error(), HasSubstr("is an empty file"));
    EXPECT_EQ(std::filesystem::file_size(folder.file("absent.db")), 0U);
  }
  {
    std::ofstream(folder.file("text.db")) << std::string(5000, 'x');
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(folder.file("text.db"))), StoreStatus::kCorrupt);
    EXPECT_THAT(database.error(), HasSubstr("text.db is no SQLite database"));
  }
  {
    sqlite3* foreign = nullptr;
    ASSERT_EQ(sqlite3_open(folder.file("foreign.db").c_str(), &foreign), SQLITE_OK);
    sqlite3_exec(foreign, "CREATE TABLE songs (name TEXT)", nullptr, nullptr, nullptr);
    sqlite3_close(foreign);
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(folder.file("foreign.db"))), StoreStatus::kCorrupt);
    EXPECT_THAT(database.error(), HasSubstr("belongs to another program"));
  }
}

// As somebody at the server's machine who forgot sudo: the file, or the folder around it, is there.
TEST(SqliteDatabase, AnotherUsersDatabaseIsNotCalledAbsent) {
  if (!AsNobody::is_possible()) {
    GTEST_SKIP() << "needs root";
  }
  const Folder folder;
  const std::string path = folder.file("a.db");
  ASSERT_EQ(SqliteDatabase().open(options_for(path)), StoreStatus::kOk);
  SqliteOptions options = options_for(path);
  options.may_create = false;
  for (const mode_t folder_mode : {0755, 0700}) {
    chmod(folder.file("").c_str(), folder_mode);
    SqliteDatabase database;
    const AsNobody as_nobody;
    EXPECT_EQ(database.open(options), StoreStatus::kFailed);
    EXPECT_THAT(database.error(), HasSubstr("a.db cannot be read: Permission denied; it is user root's"));
  }
}

TEST(SqliteDatabase, WithoutAWriteAheadLogItDoesNotOpen) {
  const Folder folder;
  SqliteDatabase database;
  SqliteOptions options = options_for(folder.file("a.db"));
  options.vfs = "unix-none";  // no shared memory, as on some network disks
  EXPECT_EQ(database.open(options), StoreStatus::kFailed);
  EXPECT_THAT(database.error(), HasSubstr("no write-ahead log, journal_mode is delete"));
}

}  // namespace
}  // namespace gradstream
