// What the tests of the database share: a folder of their own, records whose bytes follow from their number, and rows.
#ifndef GRADSTREAM_TESTS_SUPPORT_STORE_SUPPORT_H_
#define GRADSTREAM_TESTS_SUPPORT_STORE_SUPPORT_H_

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "server/store/row_checks.h"
#include "server/store/sqlite_database.h"
#include "tests/support/expected_value.h"

namespace gradstream {

inline JournalRecord record_of(uint64_t sequence) {
  JournalRow r;
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
  if (sequence % 3 == 0) {
    r.notes = {9, static_cast<uint8_t>(sequence), 7};  // a store takes them as they are
  }
  return JournalRecord(r);
}

inline std::vector<JournalRecord> batch_of(uint64_t first, uint64_t count) {
  std::vector<JournalRecord> batch;
  for (uint64_t sequence = first; sequence < first + count; ++sequence) {
    batch.push_back(record_of(sequence));
  }
  return batch;
}

inline RunRow run_row() {
  RunRow run;
  run.name = "demo";
  run.parameters = "seed = 1\n";
  run.source = "[run]\nseed = 1\n";
  run.digest = 0x8000000000000001ULL;
  run.created_ms = 5;
  return run;
}

// With a connection of its own, as another program has.
inline void edit(const std::string& path, const std::string& sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  ASSERT_EQ(register_row_crc(connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
  sqlite3_close(connection);
}

// Makes the tables of a file those of format 8: no nonces of runs, no chains, no secrets with claims. meta is left to
// the caller, and so are the checksums of checkpoints.
inline constexpr const char* kToFormat8 =
    "ALTER TABLE runs DROP COLUMN run_nonce; ALTER TABLE journal DROP COLUMN chain;"
    "ALTER TABLE checkpoints DROP COLUMN chain; ALTER TABLE claims DROP COLUMN server_secret;"
    "DROP INDEX devices_by_key_change; ALTER TABLE devices DROP COLUMN key_change_secret;"
    "ALTER TABLE devices DROP COLUMN key_change_since_ms; ALTER TABLE devices DROP COLUMN key_change_window_s;"
    "ALTER TABLE devices DROP COLUMN key_change_receipt;"
    "UPDATE devices SET crc32c=gs_row_crc(device_index,name,key,created_ms,state,generation,previous_key,"
    "previous_until_ms,claim,changed);"
    "UPDATE runs SET crc32c=gs_row_crc(id,name,parameters,source,digest,state,created_ms);"
    "UPDATE claims SET "
    "crc32c=gs_row_crc(id,name,key,count_max,count_used,expires_ms,device_state,created_ms,is_ended);";

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

inline SqliteOptions options_for(const std::string& path) {
  SqliteOptions options;
  options.path = path;
  options.check_integrity = true;
  return options;
}

inline DeviceKey key_of(uint8_t byte) {
  DeviceKey key;
  key.fill(byte);
  return key;
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_STORE_SUPPORT_H_
