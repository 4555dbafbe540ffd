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

  SqliteDatabase fleet;    // the server's
  SqliteDatabase command;  // of another process

 private:
  void execute(const char* sql) {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
    sqlite3_close(connection);
  }

  std::string folder_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FLEET_DATABASE_H_
