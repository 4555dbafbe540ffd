// Devices, their keys and states, and claims.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "server/store/row_checks.h"
#include "server/store/statement.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

TEST(FleetTables, DevicesHaveIndicesWithoutGapsAndNamesAreNeverUsedTwice) {
  const Folder folder;
  SqliteDatabase database;
  SqliteDatabase other;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  ASSERT_EQ(other.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  const uint64_t before = value_of(other.change_count());
  std::array<uint8_t, 32> key = {1, 2, 3};
  std::optional<uint32_t> index = value_of(database.add_device("a", key, 7));
  EXPECT_EQ(index, 0U);
  index = value_of(database.add_device("b", key, 7));
  EXPECT_EQ(index, 1U);
  index = value_of(database.add_device("a", key, 7));
  EXPECT_FALSE(index);
  const uint64_t after = value_of(other.change_count());
  EXPECT_NE(before, after);
  EXPECT_TRUE(value_of(database.revoke_device("a")));
  EXPECT_FALSE(value_of(database.revoke_device("c")));
  std::optional<EnrolledDevice> row = value_of(other.find_device("a"));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->state, DeviceState::kRevoked);
  EXPECT_EQ(row->key, DeviceKey(key));
  row = value_of(other.find_device("c"));
  EXPECT_FALSE(row);
  std::vector<EnrolledDevice> rows = value_of(other.devices());
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].name, "b");
  EXPECT_EQ(rows[0].state, DeviceState::kRevoked);
  EXPECT_EQ(rows[1].created_ms, 7U);
  EXPECT_EQ(rows[1].key, DeviceKey()) << "a list holds no keys";
}

TEST(FleetTables, ManyDevicesAreEnrolledOrNone) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  std::vector<EnrolledDevice> rows(3);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].name = std::string(1, static_cast<char>('a' + i));
    rows[i].key.fill(static_cast<uint8_t>(i + 1));
    rows[i].state = DeviceState::kPending;
  }
  std::string taken = value_of(database.add_devices(rows, 7));
  EXPECT_EQ(taken, "");
  rows[0].name = "new";
  taken = value_of(database.add_devices(rows, 8));
  EXPECT_EQ(taken, "b");
  std::vector<EnrolledDevice> listed = value_of(database.devices());
  ASSERT_EQ(listed.size(), 3U) << "new was taken back";
  EXPECT_EQ(listed[2].index, 2U);
  EXPECT_EQ(listed[2].state, DeviceState::kPending);
}

// What is read after each change of the fleet, and what each enrolment asks, is found by an index.
TEST(FleetTables, NoChangeLooksAtAllDevices) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(register_row_crc(raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, row_check_statements().c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  for (const char* const sql :
       {kSelectChangedDevices, kSelectNextKeyEnd, kEndKeys, kSelectFirstKeyChange, kEndKeyChanges}) {
    sqlite3_stmt* plan = nullptr;
    ASSERT_EQ(sqlite3_prepare_v2(raw, (std::string("EXPLAIN QUERY PLAN ") + sql).c_str(), -1, &plan, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(raw);
    ASSERT_EQ(sqlite3_step(plan), SQLITE_ROW);
    const std::string step = reinterpret_cast<const char*>(sqlite3_column_text(plan, 3));
    EXPECT_NE(step.find("SEARCH"), std::string::npos) << sql << ": " << step;
    sqlite3_finalize(plan);
  }
  sqlite3_close(raw);
}

TEST(FleetTables, StatesOfADeviceAndRevocationForGood) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  EXPECT_TRUE(value_of(database.add_device("a", DeviceKey{}, 7, DeviceState::kPending)));
  const std::pair<DeviceState, DeviceState> steps[] = {{DeviceState::kActive, DeviceState::kActive},
                                                       {DeviceState::kDisabled, DeviceState::kDisabled},
                                                       {DeviceState::kRevoked, DeviceState::kRevoked},
                                                       {DeviceState::kActive, DeviceState::kRevoked}};
  for (const auto& [asked, expected] : steps) {
    EXPECT_TRUE(value_of(database.set_device_state("a", asked)));
    const std::optional<EnrolledDevice> row = value_of(database.find_device("a"));
    EXPECT_EQ(row->state, expected);
  }
  EXPECT_FALSE(value_of(database.set_device_state("b", DeviceState::kActive)));
}

TEST(FleetTables, ARotationKeepsTheKeyBefore) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  DeviceKey first;
  DeviceKey second;
  first.fill(1);
  second.fill(2);
  std::optional<uint32_t> number = value_of(database.add_device("a", first, 7));
  number = value_of(database.rotate_key("a", second, 99));
  EXPECT_EQ(number, 1U);
  std::optional<EnrolledDevice> row = value_of(database.find_device("a"));
  EXPECT_EQ(row->key, second);
  EXPECT_EQ(row->previous_key, first);
  EXPECT_EQ(row->previous_until_ms, 99U);
  EXPECT_EQ(row->generation, 1U);
  number = value_of(database.rotate_key("b", second, 99));
  EXPECT_FALSE(number);
}

TEST(FleetTables, AClaimLetsInAsManyAsItMayAndEachOnce) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
  ClaimRow claim;
  claim.name = "batch";
  claim.key = key_of(9);
  claim.count_max = 2;
  claim.expires_ms = 1000;
  claim.device_state = DeviceState::kPending;
  claim.id = value_of(database.add_claim(claim)).value_or(0);
  EXPECT_EQ(claim.id, 1U);
  ClaimRow same = claim;
  same.id = value_of(database.add_claim(same)).value_or(0);
  EXPECT_EQ(same.id, 0U) << "the name is taken";
  std::optional<ClaimRow> found = value_of(database.find_claim("batch"));
  EXPECT_EQ(found->key, key_of(9));
  const auto outcome_of = [&](const std::string& name, uint8_t key, uint64_t now_ms, uint32_t id = 1) {
    ClaimOutcome outcome = value_of(database.claim_device(id, name, key_of(key), now_ms));
    return outcome;
  };
  EXPECT_TRUE(value_of(database.add_device("own", key_of(7), 5)));
  EXPECT_EQ(outcome_of("own", 7, 10), ClaimOutcome::kNameTaken) << "it did not come by this claim";
  EXPECT_EQ(outcome_of("a", 1, 10), ClaimOutcome::kGranted);
  uint64_t changes = value_of(database.change_count());
  EXPECT_EQ(outcome_of("a", 1, 11), ClaimOutcome::kRepeated);
  EXPECT_EQ(outcome_of("a", 2, 11), ClaimOutcome::kNameTaken);
  EXPECT_EQ(outcome_of("b", 2, 1000), ClaimOutcome::kEnded) << "expired";
  EXPECT_EQ(outcome_of("b", 2, 11, 5), ClaimOutcome::kEnded) << "no such claim";
  uint64_t changes_then = value_of(database.change_count());
  EXPECT_EQ(changes_then, changes) << "what is refused or repeated costs no transaction";
  EXPECT_EQ(outcome_of("b", 2, 999), ClaimOutcome::kGranted);
  EXPECT_EQ(outcome_of("c", 3, 12), ClaimOutcome::kEnded) << "two are in";
  EXPECT_EQ(outcome_of("b", 2, 2000), ClaimOutcome::kRepeated) << "whose answer was lost";
  std::vector<EnrolledDevice> devices = value_of(database.devices());
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[2].name, "b");
  EXPECT_EQ(devices[2].state, DeviceState::kPending);
  std::optional<EnrolledDevice> device = value_of(database.find_device("b"));
  EXPECT_EQ(device->key, key_of(2));
  std::vector<ClaimRow> claims = value_of(database.claims());
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_EQ(claims[0].count_used, 2U);
  bool is_there = value_of(database.end_claim("batch", 500));
  EXPECT_TRUE(is_there);
  is_there = value_of(database.end_claim("none", 500));
  EXPECT_FALSE(is_there);
  claims = value_of(database.claims());
  EXPECT_EQ(claims[0].expires_ms, 500U);
}

TEST(FleetTables, AClaimKeepsTheSecretOfItsServer) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk) << database.error();
  ClaimRow claim;
  claim.name = "proven";
  claim.key = key_of(9);
  claim.server_secret = key_of(8);
  claim.is_proven = true;
  EXPECT_TRUE(value_of(database.add_claim(claim)));
  claim.name = "old";
  claim.is_proven = false;
  EXPECT_TRUE(value_of(database.add_claim(claim)));
  std::vector<ClaimRow> claims = value_of(database.claims());
  ASSERT_EQ(claims.size(), 2U);
  EXPECT_TRUE(claims[0].is_proven);
  EXPECT_EQ(claims[0].server_secret, DeviceKey()) << "no list holds it";
  EXPECT_FALSE(claims[1].is_proven);
  std::optional<ClaimRow> found = value_of(database.find_claim("proven"));
  EXPECT_EQ(found->server_secret, key_of(8));
  found = value_of(database.find_claim(1));
  EXPECT_EQ(found->name, "proven");
  EXPECT_EQ(found->server_secret, key_of(8));
  found = value_of(database.find_claim(2));
  EXPECT_FALSE(found->is_proven);
  EXPECT_EQ(found->server_secret, DeviceKey());
  found = value_of(database.find_claim(3));
  EXPECT_FALSE(found);
}

TEST(FleetTables, TheLatestTimeIsKept) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  for (const auto& [clock_ms, latest_ms] : {std::pair<uint64_t, uint64_t>{500, 500}, {400, 500}, {501, 501}}) {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
    uint64_t now_ms = clock_ms;
    ASSERT_EQ(database.note_time(&now_ms), StoreStatus::kOk);
    EXPECT_EQ(now_ms, latest_ms);
    uint64_t read_ms = value_of(database.latest_time());
    EXPECT_EQ(read_ms, latest_ms);
  }
}

TEST(FleetTables, WhatExpiresEndsInItsOrderAndIsCountedAsAChange) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  uint64_t next_ms = value_of(database.end_expired(7));
  EXPECT_EQ(next_ms, UINT64_MAX) << "nothing is open";
  EXPECT_TRUE(value_of(database.add_device("a", key_of(1), 7)));
  EXPECT_TRUE(value_of(database.rotate_key("a", key_of(2), 300)));
  ClaimRow claim;
  claim.name = "batch";
  claim.key = key_of(3);
  claim.count_max = 9;
  claim.expires_ms = 200;
  claim.id = value_of(database.add_claim(claim)).value_or(0);
  const uint64_t before = value_of(database.change_count());
  next_ms = value_of(database.end_expired(199));
  EXPECT_EQ(next_ms, 200U);
  uint64_t after = value_of(database.change_count());
  EXPECT_EQ(after, before) << "nothing was over";
  next_ms = value_of(database.end_expired(200));
  EXPECT_EQ(next_ms, 300U);
  after = value_of(database.change_count());
  EXPECT_NE(after, before);
  std::optional<ClaimRow> row = value_of(database.find_claim("batch"));
  EXPECT_TRUE(row->is_ended);
  std::optional<EnrolledDevice> device = value_of(database.find_device("a"));
  EXPECT_EQ(device->previous_key, key_of(1));
  next_ms = value_of(database.end_expired(300));
  EXPECT_EQ(next_ms, UINT64_MAX);
  device = value_of(database.find_device("a"));
  EXPECT_EQ(device->previous_key, DeviceKey());
  EXPECT_EQ(device->previous_until_ms, 0U);
  EXPECT_EQ(device->key, key_of(2));
  uint64_t latest_ms = value_of(database.latest_time());
  EXPECT_EQ(latest_ms, 300U) << "the time at which they ended is kept with them";
}

}  // namespace
}  // namespace gradstream
