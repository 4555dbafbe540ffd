// A database in a folder of its own, as commands of other processes change it while a server runs.
#ifndef GRADSTREAM_TESTS_SUPPORT_FLEET_DATABASE_H_
#define GRADSTREAM_TESTS_SUPPORT_FLEET_DATABASE_H_

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "server/store/sqlite_database.h"
#include "tests/support/expected_value.h"

namespace gradstream {

class FleetDatabase {
 public:
  FleetDatabase() : folder_(testing::TempDir() + "fleet_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    SqliteOptions options;
    options.path = path();
    EXPECT_EQ(fleet.open(options), StoreStatus::kOk) << fleet.error();
    EXPECT_EQ(command.open(options), StoreStatus::kOk) << command.error();
  }
  ~FleetDatabase() { std::filesystem::remove_all(folder_); }
  FleetDatabase(const FleetDatabase&) = delete;
  FleetDatabase& operator=(const FleetDatabase&) = delete;
  std::string path() const { return folder_ + "/test.db"; }

  static DeviceKey key_of(uint8_t byte) {
    DeviceKey key = {};
    key.fill(byte);
    return key;
  }
  // Named "device-N" with a key of bytes N.
  uint32_t enrol(uint8_t number, DeviceState state = DeviceState::kActive) {
    std::optional<uint32_t> index =
        value_of(command.add_device("device-" + std::to_string(number), key_of(number), 1, state));
    EXPECT_TRUE(index.has_value());
    return index.value_or(0);
  }
  void set_state(const std::string& name, DeviceState state) {
    std::optional<DeviceState> before = value_of(command.set_device_state(name, state));
    EXPECT_TRUE(before.has_value());
  }
  std::vector<EnrolledDevice> devices() {
    std::vector<EnrolledDevice> rows = value_of(command.devices());
    return rows;
  }
  uint32_t create_run(const std::string& name) {
    RunRow run;
    run.name = name;
    run.id = value_of(command.create_run(run));
    return run.id;
  }
  // The table of devices under another name: whoever reads it fails until mend().
  void break_fleet() { execute("ALTER TABLE devices RENAME TO devices_away"); }
  void mend_fleet() { execute("ALTER TABLE devices_away RENAME TO devices"); }

  // All of the database, as it is now, into another file; and back, in one transaction of the file that is there.
  void save(const std::string& copy) { copy_pages(path(), copy); }
  void restore(const std::string& copy) { copy_pages(copy, path()); }

  SqliteDatabase fleet;    // the server's
  SqliteDatabase command;  // of another process

 private:
  void execute(const char* sql) {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
    sqlite3_close(connection);
  }

  static void copy_pages(const std::string& from, const std::string& to) {
    sqlite3* source = nullptr;
    sqlite3* target = nullptr;
    ASSERT_EQ(sqlite3_open(from.c_str(), &source), SQLITE_OK);
    ASSERT_EQ(sqlite3_open(to.c_str(), &target), SQLITE_OK);
    sqlite3_backup* const backup = sqlite3_backup_init(target, "main", source, "main");
    ASSERT_NE(backup, nullptr) << sqlite3_errmsg(target);
    EXPECT_EQ(sqlite3_backup_step(backup, -1), SQLITE_DONE) << sqlite3_errmsg(target);
    sqlite3_backup_finish(backup);
    sqlite3_close(source);
    sqlite3_close(target);
  }

  std::string folder_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FLEET_DATABASE_H_
