// The database: round trips, every fault with its name, and power cuts at every kind of call.
#include "server/store/store_sqlite.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/program/config.h"
#include "server/run/canonical_text.h"
#include "server/run/run_parameters.h"
#include "tests/support/as_nobody.h"
#include "tests/support/power_cut_vfs.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr const char* kPath = "run.db";
constexpr uid_t kOtherUser = 65534;  // nobody

JournalRecord record_of(uint64_t sequence) {
  JournalRecord r;
  r.sequence = sequence;
  r.kind = static_cast<RecordKind>(1 + sequence % 5);
  r.device = static_cast<uint32_t>(sequence % 9);
  r.task_sequence = static_cast<uint32_t>(sequence * 3);
  r.version = static_cast<uint32_t>(sequence / 9);
  r.base_version = 0xffffffffU - static_cast<uint32_t>(sequence);
  r.steps_done = 5;
  r.weight = 65535;
  r.verdict = 1;
  r.reason = 2;
  r.detail = 3;
  r.step_scale = 0.1F * static_cast<float>(sequence);
  r.loss_before = -1.5F;
  r.loss_after = 1e-30F;
  r.digest = 0xfedcba9876543210ULL ^ sequence;
  r.time_ms = 1700000000000ULL + sequence;
  std::mt19937 random(static_cast<uint32_t>(sequence));
  r.payload.resize(random() % 1500);
  for (uint8_t& byte : r.payload) {
    byte = static_cast<uint8_t>(random());
  }
  return r;
}

std::vector<JournalRecord> batch_of(uint64_t first, uint64_t count) {
  std::vector<JournalRecord> batch;
  for (uint64_t sequence = first; sequence < first + count; ++sequence) {
    batch.push_back(record_of(sequence));
  }
  return batch;
}

RunRow run_row() {
  RunRow run;
  run.name = "demo";
  run.parameters = "seed = 1\n";
  run.source = "[run]\nseed = 1\n";
  run.digest = 0x8000000000000001ULL;
  run.created_ms = 5;
  return run;
}

class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "store_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

SqliteOptions options_for(const std::string& path) {
  SqliteOptions options;
  options.path = path;
  options.check_integrity = true;
  return options;
}

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

TEST(StoreSqlite, JournalReadsBackAfterReopening) {
  const Folder folder;
  RunRow run = run_row();
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
    ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
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
  std::optional<RunRow> latest;
  ASSERT_EQ(database.current_run(&latest), StoreStatus::kOk);
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->parameters, run.parameters);
  EXPECT_EQ(latest->source, run.source);
  EXPECT_EQ(latest->digest, run.digest);
  ASSERT_EQ(database.set_run_state(run.id, StoredRunState::kFinished), StoreStatus::kOk);
  ASSERT_EQ(database.current_run(&latest), StoreStatus::kOk);
  EXPECT_EQ(latest->state, StoredRunState::kFinished);
}

TEST(StoreSqlite, TheCurrentRunIsTheActiveOneElseTheLatest) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  std::optional<RunRow> current;
  ASSERT_EQ(database.current_run(&current), StoreStatus::kOk);
  EXPECT_FALSE(current);
  RunRow run;
  for (uint32_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
    ASSERT_EQ(database.set_run_state(id, StoredRunState::kPaused), StoreStatus::kOk);
  }
  const auto current_id = [&] {
    EXPECT_EQ(database.current_run(&current), StoreStatus::kOk);
    return current->id;
  };
  EXPECT_EQ(current_id(), 3U);
  ASSERT_EQ(database.set_run_state(2, StoredRunState::kResumeRequested), StoreStatus::kOk);
  EXPECT_EQ(current_id(), 2U);
  // A state is only exchanged for one that is still there.
  bool changed = true;
  ASSERT_EQ(database.exchange_run_state(2, StoredRunState::kPauseRequested, StoredRunState::kPaused, &changed),
            StoreStatus::kOk);
  EXPECT_FALSE(changed);
  ASSERT_EQ(database.exchange_run_state(2, StoredRunState::kResumeRequested, StoredRunState::kActive, &changed),
            StoreStatus::kOk);
  EXPECT_TRUE(changed);
  EXPECT_EQ(current_id(), 2U);
  EXPECT_EQ(current->state, StoredRunState::kActive);
  ASSERT_EQ(database.set_run_state(2, StoredRunState::kStopped), StoreStatus::kOk);
  EXPECT_EQ(current_id(), 3U);
}

TEST(StoreSqlite, ABatchIsAllOrNothing) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  RunRow run = run_row();
  ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
  SqliteStore store(database, run.id);
  std::vector<JournalRecord> batch = batch_of(1, 3);
  batch.push_back(record_of(2));  // twice the same sequence
  EXPECT_EQ(store.append(batch), StoreStatus::kFailed);
  EXPECT_EQ(read_and_compare(store), 0U);
  EXPECT_EQ(store.append(batch_of(1, 3)), StoreStatus::kOk);
  EXPECT_EQ(read_and_compare(store), 3U);
}

TEST(StoreSqlite, DevicesHaveIndicesWithoutGapsAndNamesAreNeverUsedTwice) {
  const Folder folder;
  SqliteDatabase database;
  SqliteDatabase other;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  ASSERT_EQ(other.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  uint64_t before = 0;
  uint64_t after = 0;
  ASSERT_EQ(other.change_count(&before), StoreStatus::kOk);
  std::array<uint8_t, 32> key = {1, 2, 3};
  std::optional<uint32_t> index;
  ASSERT_EQ(database.add_device("a", key, 7, &index), StoreStatus::kOk);
  EXPECT_EQ(index, 0U);
  ASSERT_EQ(database.add_device("b", key, 7, &index), StoreStatus::kOk);
  EXPECT_EQ(index, 1U);
  ASSERT_EQ(database.add_device("a", key, 7, &index), StoreStatus::kOk);
  EXPECT_FALSE(index);
  ASSERT_EQ(other.change_count(&after), StoreStatus::kOk);
  EXPECT_NE(before, after);
  bool found = false;
  ASSERT_EQ(database.revoke_device("a", &found), StoreStatus::kOk);
  EXPECT_TRUE(found);
  ASSERT_EQ(database.revoke_device("c", &found), StoreStatus::kOk);
  EXPECT_FALSE(found);
  std::optional<EnrolledDevice> row;
  ASSERT_EQ(other.find_device("a", &row), StoreStatus::kOk);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->state, DeviceState::kRevoked);
  EXPECT_EQ(row->key, key);
  ASSERT_EQ(other.find_device("c", &row), StoreStatus::kOk);
  EXPECT_FALSE(row);
  std::vector<EnrolledDevice> rows;
  ASSERT_EQ(other.devices(&rows), StoreStatus::kOk);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].name, "b");
  EXPECT_EQ(rows[0].state, DeviceState::kRevoked);
  EXPECT_EQ(rows[1].created_ms, 7U);
  EXPECT_EQ(rows[1].key, decltype(key){}) << "a list holds no keys";
}

TEST(StoreSqlite, ManyDevicesAreEnrolledOrNone) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  std::vector<EnrolledDevice> rows(3);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].name = std::string(1, static_cast<char>('a' + i));
    rows[i].key.fill(static_cast<uint8_t>(i + 1));
    rows[i].state = DeviceState::kPending;
  }
  std::string taken;
  ASSERT_EQ(database.add_devices(rows, 7, &taken), StoreStatus::kOk);
  EXPECT_EQ(taken, "");
  rows[0].name = "new";
  ASSERT_EQ(database.add_devices(rows, 8, &taken), StoreStatus::kOk);
  EXPECT_EQ(taken, "b");
  std::vector<EnrolledDevice> listed;
  ASSERT_EQ(database.devices(&listed), StoreStatus::kOk);
  ASSERT_EQ(listed.size(), 3U) << "new was taken back";
  EXPECT_EQ(listed[2].index, 2U);
  EXPECT_EQ(listed[2].state, DeviceState::kPending);
}

TEST(StoreSqlite, StatesOfADeviceAndRevocationForGood) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  std::optional<uint32_t> index;
  ASSERT_EQ(database.add_device("a", DeviceKey{}, 7, &index, DeviceState::kPending), StoreStatus::kOk);
  std::optional<DeviceState> before;
  std::optional<EnrolledDevice> row;
  const std::pair<DeviceState, DeviceState> steps[] = {{DeviceState::kActive, DeviceState::kActive},
                                                       {DeviceState::kDisabled, DeviceState::kDisabled},
                                                       {DeviceState::kRevoked, DeviceState::kRevoked},
                                                       {DeviceState::kActive, DeviceState::kRevoked}};
  for (const auto& [asked, expected] : steps) {
    ASSERT_EQ(database.set_device_state("a", asked, &before), StoreStatus::kOk);
    EXPECT_TRUE(before);
    ASSERT_EQ(database.find_device("a", &row), StoreStatus::kOk);
    EXPECT_EQ(row->state, expected);
  }
  ASSERT_EQ(database.set_device_state("b", DeviceState::kActive, &before), StoreStatus::kOk);
  EXPECT_FALSE(before);
}

TEST(StoreSqlite, ARotationKeepsTheKeyBefore) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  DeviceKey first;
  DeviceKey second;
  first.fill(1);
  second.fill(2);
  std::optional<uint32_t> number;
  ASSERT_EQ(database.add_device("a", first, 7, &number), StoreStatus::kOk);
  ASSERT_EQ(database.rotate_key("a", second, 99, &number), StoreStatus::kOk);
  EXPECT_EQ(number, 1U);
  std::optional<EnrolledDevice> row;
  ASSERT_EQ(database.find_device("a", &row), StoreStatus::kOk);
  EXPECT_EQ(row->key, second);
  EXPECT_EQ(row->previous_key, first);
  EXPECT_EQ(row->previous_until_ms, 99U);
  EXPECT_EQ(row->generation, 1U);
  ASSERT_EQ(database.rotate_key("b", second, 99, &number), StoreStatus::kOk);
  EXPECT_FALSE(number);
}

TEST(StoreSqlite, IdentitiesSayTheGenerationOfTheirKey) {
  EXPECT_EQ(identity_of_generation("a", 0), "a");
  EXPECT_EQ(identity_of_generation("a", 12), "a~12");
  std::string name;
  uint32_t generation = 0;
  ASSERT_TRUE(split_identity("a~b~12", &name, &generation));
  EXPECT_EQ(name, "a~b");
  EXPECT_EQ(generation, 12U);
  for (const char* const wrong : {"a", "~1", "a~", "a~0", "a~01", "a~x", "a~1x", "a~-1", "a~99999999999", ""}) {
    EXPECT_FALSE(split_identity(wrong, &name, &generation)) << wrong;
  }
}

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

DeviceKey key_of(uint8_t byte) {
  DeviceKey key;
  key.fill(byte);
  return key;
}

TEST(StoreSqlite, AClaimLetsInAsManyAsItMayAndEachOnce) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
  ClaimRow claim;
  claim.name = "batch";
  claim.key = key_of(9);
  claim.count_max = 2;
  claim.expires_ms = 1000;
  claim.device_state = DeviceState::kPending;
  ASSERT_EQ(database.add_claim(&claim), StoreStatus::kOk) << database.error();
  EXPECT_EQ(claim.id, 1U);
  ClaimRow same = claim;
  ASSERT_EQ(database.add_claim(&same), StoreStatus::kOk);
  EXPECT_EQ(same.id, 0U) << "the name is taken";
  std::optional<ClaimRow> found;
  ASSERT_EQ(database.find_claim("batch", &found), StoreStatus::kOk);
  EXPECT_EQ(found->key, key_of(9));
  const auto outcome_of = [&](const std::string& name, uint8_t key, uint64_t now_ms, uint32_t id = 1) {
    ClaimOutcome outcome = ClaimOutcome::kEnded;
    EXPECT_EQ(database.claim_device(id, name, key_of(key), now_ms, &outcome), StoreStatus::kOk) << database.error();
    return outcome;
  };
  std::optional<uint32_t> index;
  ASSERT_EQ(database.add_device("own", key_of(7), 5, &index), StoreStatus::kOk);
  EXPECT_EQ(outcome_of("own", 7, 10), ClaimOutcome::kNameTaken) << "it did not come by this claim";
  EXPECT_EQ(outcome_of("a", 1, 10), ClaimOutcome::kGranted);
  uint64_t changes = 0;
  ASSERT_EQ(database.change_count(&changes), StoreStatus::kOk);
  EXPECT_EQ(outcome_of("a", 1, 11), ClaimOutcome::kRepeated);
  EXPECT_EQ(outcome_of("a", 2, 11), ClaimOutcome::kNameTaken);
  EXPECT_EQ(outcome_of("b", 2, 1000), ClaimOutcome::kEnded) << "expired";
  EXPECT_EQ(outcome_of("b", 2, 11, 5), ClaimOutcome::kEnded) << "no such claim";
  uint64_t changes_then = 0;
  ASSERT_EQ(database.change_count(&changes_then), StoreStatus::kOk);
  EXPECT_EQ(changes_then, changes) << "what is refused or repeated costs no transaction";
  EXPECT_EQ(outcome_of("b", 2, 999), ClaimOutcome::kGranted);
  EXPECT_EQ(outcome_of("c", 3, 12), ClaimOutcome::kEnded) << "two are in";
  EXPECT_EQ(outcome_of("b", 2, 2000), ClaimOutcome::kRepeated) << "whose answer was lost";
  std::vector<EnrolledDevice> devices;
  ASSERT_EQ(database.devices(&devices), StoreStatus::kOk);
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[2].name, "b");
  EXPECT_EQ(devices[2].state, DeviceState::kPending);
  std::optional<EnrolledDevice> device;
  ASSERT_EQ(database.find_device("b", &device), StoreStatus::kOk);
  EXPECT_EQ(device->key, key_of(2));
  std::vector<ClaimRow> claims;
  ASSERT_EQ(database.claims(&claims), StoreStatus::kOk);
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_EQ(claims[0].count_used, 2U);
  bool is_there = false;
  ASSERT_EQ(database.end_claim("batch", 500, &is_there), StoreStatus::kOk);
  EXPECT_TRUE(is_there);
  ASSERT_EQ(database.end_claim("none", 500, &is_there), StoreStatus::kOk);
  EXPECT_FALSE(is_there);
  ASSERT_EQ(database.claims(&claims), StoreStatus::kOk);
  EXPECT_EQ(claims[0].expires_ms, 500U);
}

TEST(StoreSqlite, TheFirstFormatIsBroughtToThisOne) {
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
    std::vector<EnrolledDevice> rows;
    ASSERT_EQ(database.devices(&rows), StoreStatus::kOk) << database.error();
    ASSERT_EQ(rows.size(), 3U + static_cast<size_t>(opening));
    EXPECT_EQ(rows[0].state, DeviceState::kActive);
    EXPECT_EQ(rows[2].state, DeviceState::kRevoked);
    std::optional<EnrolledDevice> row;
    ASSERT_EQ(database.find_device("b", &row), StoreStatus::kOk);
    EXPECT_EQ(row->key, key_of(2));
    EXPECT_EQ(row->generation, 0U);
    EXPECT_EQ(row->previous_until_ms, 0U);
    std::vector<ClaimRow> claims;
    EXPECT_EQ(database.claims(&claims), StoreStatus::kOk) << database.error();
    EXPECT_TRUE(claims.empty());
    std::optional<uint32_t> index;
    ASSERT_EQ(database.add_device("new", key_of(9), 7, &index), StoreStatus::kOk);
    kept = kept_rows(path);
  }
}

// What was called otherwise is brought to its name of today, in both texts, and nothing else is touched.
TEST(StoreSqlite, RunsOfTheFirstReleaseRead) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  write_format_1(path);
  const auto before = rows_of(path, "runs", {"parameters"});
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
  const auto after = rows_of(path, "runs", {"parameters"});
  std::vector<RunRow> runs;
  ASSERT_EQ(database.runs(&runs), StoreStatus::kOk);
  ASSERT_EQ(runs.size(), 2U);
  const CorrectionForm forms[] = {CorrectionForm::kNone, CorrectionForm::kLocal};
  const std::vector<std::string> changed[] = {{"correction_form", "use_correction"}, {"use_correction"}};
  const uint64_t counts[] = {12, 19};
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(differing_keys(before[i], after[i]), changed[i]);
    RunParameters parameters;
    EXPECT_EQ(parse_run_source(runs[i].source, &parameters), "");
    EXPECT_THAT(differing_keys(runs[i].parameters, canonical_text(parameters)), testing::IsEmpty());
    EXPECT_EQ(parameters.correction_form, forms[i]);
    SqliteStore journal(database, runs[i].id);
    JournalRecord last;
    ASSERT_EQ(journal.read([&last](const JournalRecord& record) {
      last = record;
      return true;
    }),
              StoreStatus::kOk)
        << database.error();
    EXPECT_EQ(last.sequence, counts[i]);
  }
}

TEST(StoreSqlite, ADatabaseThatAnOlderServerHoldsIsNotTouched) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  write_format_1(path);
  DatabaseLock server;
  ASSERT_EQ(server.take(path), "");
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(path)), StoreStatus::kBusy);
  EXPECT_NE(database.error().find("start that one anew"), std::string::npos) << database.error();
  SqliteOptions options = options_for(path);
  options.is_owner = true;
  SqliteDatabase owner;
  EXPECT_EQ(owner.open(options), StoreStatus::kOk) << owner.error();
}

// As `serve` and the first `device add` may. Without repetition one in some hundred opens fails.
TEST(StoreSqlite, ManyMayBeginOneDatabaseAtOnce) {
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

TEST(StoreSqlite, ACopyOfADatabaseAtWorkIsWhole) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  std::optional<uint32_t> index;
  ASSERT_EQ(database.add_device("a", DeviceKey{}, 7, &index), StoreStatus::kOk);  // stands in the write-ahead log
  std::string error;
  ASSERT_EQ(copy_database(folder.file("a.db"), folder.file("copy.db"), &error), StoreStatus::kOk) << error;
  ASSERT_EQ(database.add_device("later", DeviceKey{}, 7, &index), StoreStatus::kOk);
  struct stat info = {};
  ASSERT_EQ(stat(folder.file("copy.db").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  SqliteOptions options = options_for(folder.file("copy.db"));
  options.check_integrity = true;
  SqliteDatabase copy;
  ASSERT_EQ(copy.open(options), StoreStatus::kOk) << copy.error();
  std::vector<EnrolledDevice> rows;
  ASSERT_EQ(copy.devices(&rows), StoreStatus::kOk);
  EXPECT_EQ(rows.size(), 1U);
  EXPECT_EQ(copy_database(folder.file("a.db"), folder.file("copy.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("remove it"));
  EXPECT_EQ(copy_database(folder.file("none.db"), folder.file("b.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("none.db cannot be read: No such file"));
  EXPECT_EQ(copy_database(folder.file(""), folder.file("b.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("is no regular file"));
  EXPECT_EQ(copy_database(folder.file("a.db"), folder.file("none/b.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("check its folder"));
}

// Copies as a user who may not write the folder of `from` (root may write everywhere). The error, or "copied"; empty
// where root cannot become another user.
std::string copy_as_another_user(const std::string& from, const std::string& to) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() != 0 || (setgid(kOtherUser) == 0 && setuid(kOtherUser) == 0)) {
      std::string error;
      const StoreStatus status = copy_database(from, to, &error);
      error = status == StoreStatus::kOk ? "copied" : error;
      [[maybe_unused]] const ssize_t size = write(ends[1], error.data(), error.size());
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said(4096, 0);
  const ssize_t size = read(ends[0], said.data(), said.size());
  said.resize(size > 0 ? static_cast<size_t>(size) : 0);
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return said;
}

constexpr const char* kNoOtherUser = "root may write every folder, and cannot become another user here";

// A folder of copies, in WAL mode as they were, that is only read, and one to copy into.
TEST(StoreSqlite, ACopyWithAWriteAheadLogIsReadWhereItsFolderIsNotWritten) {
  namespace fs = std::filesystem;
  const Folder folder;
  chmod(folder.file("").c_str(), 0755);
  const std::string copies = folder.file("100%25 of? #1");
  fs::create_directory(copies);
  fs::create_directory(folder.file("own"));
  for (const char* const name : {"whole.db", "torn.db"}) {
    const std::string path = copies + "/" + name;
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file(name))), StoreStatus::kOk) << database.error();
    std::optional<uint32_t> index;
    ASSERT_EQ(database.add_device("a", DeviceKey{}, 7, &index), StoreStatus::kOk);
    fs::copy_file(folder.file(name), path);
    fs::copy_file(folder.file(name) + "-wal", path + "-wal");
  }
  {
    SqliteDatabase database;  // its last reader folds the log into the file
    ASSERT_EQ(database.open(options_for(copies + "/whole.db")), StoreStatus::kOk) << database.error();
  }
  ASSERT_FALSE(fs::exists(copies + "/whole.db-wal"));
  if (geteuid() == 0) {
    for (const std::string& path :
         {copies + "/whole.db", copies + "/torn.db", copies + "/torn.db-wal", folder.file("own")}) {
      if (chown(path.c_str(), kOtherUser, kOtherUser) != 0) {
        GTEST_SKIP() << kNoOtherUser;
      }
    }
  }
  chmod(copies.c_str(), 0555);
  const std::string whole = copy_as_another_user(copies + "/whole.db", folder.file("own/whole.db"));
  const std::string torn = copy_as_another_user(copies + "/torn.db", folder.file("own/torn.db"));
  chmod(copies.c_str(), 0755);  // or it could not be removed
  if (whole.empty()) {
    GTEST_SKIP() << kNoOtherUser;
  }
  EXPECT_EQ(whole, "copied");
  EXPECT_THAT(torn, HasSubstr("torn.db-wal belongs to it, and needs a folder that can be written: copy both files"));
  SqliteDatabase copy;
  ASSERT_EQ(copy.open(options_for(folder.file("own/whole.db"))), StoreStatus::kOk) << copy.error();
  std::vector<EnrolledDevice> rows;
  ASSERT_EQ(copy.devices(&rows), StoreStatus::kOk);
  EXPECT_EQ(rows.size(), 1U);
}

// SQLite tells by the mode that the pragma returns, not by an error. Here each connection passes over that pragma.
TEST(StoreSqlite, ACopyThatKeepsItsWriteAheadLogIsRefused) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  const auto pass_over = [](sqlite3* connection, char**, const sqlite3_api_routines*) {
    const auto judge = [](void*, int action, const char* what, const char*, const char*, const char*) {
      return action == SQLITE_PRAGMA && std::string_view(what) == "journal_mode" ? SQLITE_IGNORE : SQLITE_OK;
    };
    return sqlite3_set_authorizer(connection, judge, nullptr);
  };
  int (*const extension)(sqlite3*, char**, const sqlite3_api_routines*) = pass_over;
  ASSERT_EQ(sqlite3_auto_extension(reinterpret_cast<void (*)()>(extension)), SQLITE_OK);
  std::string error;
  const StoreStatus status = copy_database(folder.file("a.db"), folder.file("copy.db"), &error);
  sqlite3_reset_auto_extension();
  EXPECT_EQ(status, StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("the copy's journal_mode stays unknown; name a file on a local disk"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("copy.db")));
}

TEST(StoreSqlite, ADatabaseThatOthersCanReadIsRefused) {
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

TEST(StoreSqlite, ChangesOfFleetAndRunsAreCountedAndRecordsAreNot) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  uint64_t last = 0;
  const auto is_counted = [&] {
    uint64_t count = 0;
    EXPECT_EQ(database.change_count(&count), StoreStatus::kOk);
    return std::exchange(last, count) != count;
  };
  EXPECT_FALSE(is_counted()) << "of an empty database";
  std::optional<uint32_t> index;
  ASSERT_EQ(database.add_device("a", std::array<uint8_t, 32>{}, 7, &index), StoreStatus::kOk);
  EXPECT_TRUE(is_counted());
  bool found = false;
  ASSERT_EQ(database.revoke_device("a", &found), StoreStatus::kOk);
  EXPECT_TRUE(is_counted());
  RunRow run = run_row();
  ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
  EXPECT_TRUE(is_counted());
  JournalRecord record;
  record.sequence = 1;
  SqliteStore journal(database, run.id);
  ASSERT_EQ(journal.append({&record, 1}), StoreStatus::kOk);
  EXPECT_FALSE(is_counted());
  ASSERT_EQ(database.set_run_state(run.id, StoredRunState::kStopped), StoreStatus::kOk);
  EXPECT_TRUE(is_counted());
}

TEST(StoreSqlite, OnlyTheOwnerCanReadTheFiles) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  RunRow run = run_row();
  ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
  for (const char* const name : {"a.db", "a.db-wal", "a.db-shm"}) {
    struct stat info = {};
    ASSERT_EQ(stat(folder.file(name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
}

TEST(StoreSqlite, OneServerPerDatabase) {
  const Folder folder;
  DatabaseLock first;
  EXPECT_EQ(first.take(folder.file("a.db")), "");
  DatabaseLock second;
  const std::string problem = second.take(folder.file("a.db"));
  EXPECT_THAT(problem, HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(problem, HasSubstr("stop that one"));
  std::filesystem::resize_file(folder.file("a.db.lock"), 0);
  EXPECT_THAT(second.take(folder.file("a.db")), HasSubstr("process unknown")) << "it has not named itself yet";
}

TEST(StoreSqlite, AProbeOfTheLockLeavesItFree) {
  const Folder folder;
  DatabaseOwner owner = {true, 0, 0};
  EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
  EXPECT_FALSE(owner.is_held) << "no lock file yet";
  {
    DatabaseLock server;
    ASSERT_EQ(server.take(folder.file("a.db")), "");
    EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
    EXPECT_TRUE(owner.is_held);
    EXPECT_TRUE(owner.may_serve(7)) << "it has not chosen yet";
    ASSERT_EQ(server.name_run(12), "");
    EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
    EXPECT_EQ(owner.process, static_cast<uint32_t>(getpid()));
    EXPECT_EQ(owner.run, 12U);
    EXPECT_FALSE(owner.may_serve(7));
  }
  EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
  EXPECT_FALSE(owner.is_held || owner.may_serve(12));
  DatabaseLock next;
  EXPECT_EQ(next.take(folder.file("a.db")), "");
}

TEST(StoreSqlite, WhatCannotBeOpenedIsNamedWithItsRemedy) {
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
TEST(StoreSqlite, AnotherUsersDatabaseIsNotCalledAbsent) {
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

TEST(StoreSqlite, WithoutAWriteAheadLogItDoesNotOpen) {
  const Folder folder;
  SqliteDatabase database;
  SqliteOptions options = options_for(folder.file("a.db"));
  options.vfs = "unix-none";  // no shared memory, as on some network disks
  EXPECT_EQ(database.open(options), StoreStatus::kFailed);
  EXPECT_THAT(database.error(), HasSubstr("no write-ahead log, journal_mode is delete"));
}

TEST(StoreSqlite, ANewerFormatIsNamed) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
  sqlite3_exec(raw, "UPDATE meta SET value=9", nullptr, nullptr, nullptr);
  sqlite3_close(raw);
  SqliteDatabase database;
  EXPECT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kCorrupt);
  EXPECT_THAT(database.error(), HasSubstr("has format 9"));
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

TEST(StoreSqlite, AFullDiskLosesNothingAndIsTriedAgain) {
  PowerCutDisk disk("full_disk");
  disk.reset(1, 0);
  SqliteDatabase database;
  ASSERT_EQ(database.open(disk_options(disk, true)), StoreStatus::kOk) << database.error();
  RunRow run = run_row();
  ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
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

TEST(StoreSqlite, ADamagedJournalIsNamed) {
  PowerCutDisk disk("damaged_disk");
  disk.reset(1, 0);
  std::map<StoreStatus, int> outcomes;
  for (size_t offset = 28672; offset < 65536; offset += 509) {
    disk.reset(1, 0);
    {
      SqliteDatabase database;
      ASSERT_EQ(database.open(disk_options(disk, true)), StoreStatus::kOk);
      RunRow run = run_row();
      ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
      SqliteStore store(database, run.id);
      ASSERT_EQ(store.append(batch_of(1, 60)), StoreStatus::kOk);
    }
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

constexpr int kCutCount = 500;
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
    RunRow run = run_row();
    if (life == 0 && database.create_run(&run) != StoreStatus::kOk) {
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
  std::optional<RunRow> run;
  if (database.current_run(&run) != StoreStatus::kOk || (outcome.run_created && !run)) {
    return "the run is lost";
  }
  if (!run) {
    return "";
  }
  SqliteStore store(database, run->id);
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

TEST(StoreSqlite, NoPowerCutLosesAnAcknowledgedBatch) {
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
TEST(StoreSqlite, WithoutSynchronisationPowerCutsLoseBatches) {
  PowerCutDisk disk("power_cut_off");
  const Campaign campaign = cut_everywhere(disk, false);
  EXPECT_GT(campaign.losses, 0);
  std::printf("synchronous=OFF: %d of %d cuts lost something\n", campaign.losses, kCutCount);
}

}  // namespace
}  // namespace gradstream
