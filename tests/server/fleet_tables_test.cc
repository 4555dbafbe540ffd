// Devices, their keys and states, and claims.
#include <gtest/gtest.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

TEST(FleetTables, DevicesHaveIndicesWithoutGapsAndNamesAreNeverUsedTwice) {
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
  EXPECT_EQ(row->key, DeviceKey(key));
  ASSERT_EQ(other.find_device("c", &row), StoreStatus::kOk);
  EXPECT_FALSE(row);
  std::vector<EnrolledDevice> rows;
  ASSERT_EQ(other.devices(&rows), StoreStatus::kOk);
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

TEST(FleetTables, StatesOfADeviceAndRevocationForGood) {
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

TEST(FleetTables, ARotationKeepsTheKeyBefore) {
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

TEST(FleetTables, TheLatestTimeIsKept) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  for (const auto& [clock_ms, latest_ms] : {std::pair<uint64_t, uint64_t>{500, 500}, {400, 500}, {501, 501}}) {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
    uint64_t now_ms = clock_ms;
    ASSERT_EQ(database.note_time(&now_ms), StoreStatus::kOk);
    EXPECT_EQ(now_ms, latest_ms);
    uint64_t read_ms = 0;
    ASSERT_EQ(database.latest_time(&read_ms), StoreStatus::kOk);
    EXPECT_EQ(read_ms, latest_ms);
  }
}

TEST(FleetTables, WhatExpiresEndsInItsOrderAndIsCountedAsAChange) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  uint64_t next_ms = 0;
  ASSERT_EQ(database.end_expired(7, &next_ms), StoreStatus::kOk);
  EXPECT_EQ(next_ms, UINT64_MAX) << "nothing is open";
  std::optional<uint32_t> index;
  std::optional<uint32_t> generation;
  ASSERT_EQ(database.add_device("a", key_of(1), 7, &index), StoreStatus::kOk);
  ASSERT_EQ(database.rotate_key("a", key_of(2), 300, &generation), StoreStatus::kOk);
  ClaimRow claim;
  claim.name = "batch";
  claim.key = key_of(3);
  claim.count_max = 9;
  claim.expires_ms = 200;
  ASSERT_EQ(database.add_claim(&claim), StoreStatus::kOk);
  uint64_t before = 0;
  uint64_t after = 0;
  ASSERT_EQ(database.change_count(&before), StoreStatus::kOk);
  ASSERT_EQ(database.end_expired(199, &next_ms), StoreStatus::kOk);
  EXPECT_EQ(next_ms, 200U);
  ASSERT_EQ(database.change_count(&after), StoreStatus::kOk);
  EXPECT_EQ(after, before) << "nothing was over";
  ASSERT_EQ(database.end_expired(200, &next_ms), StoreStatus::kOk);
  EXPECT_EQ(next_ms, 300U);
  ASSERT_EQ(database.change_count(&after), StoreStatus::kOk);
  EXPECT_NE(after, before);
  std::optional<ClaimRow> row;
  ASSERT_EQ(database.find_claim("batch", &row), StoreStatus::kOk);
  EXPECT_TRUE(row->is_ended);
  std::optional<EnrolledDevice> device;
  ASSERT_EQ(database.find_device("a", &device), StoreStatus::kOk);
  EXPECT_EQ(device->previous_key, key_of(1));
  ASSERT_EQ(database.end_expired(300, &next_ms), StoreStatus::kOk);
  EXPECT_EQ(next_ms, UINT64_MAX);
  ASSERT_EQ(database.find_device("a", &device), StoreStatus::kOk);
  EXPECT_EQ(device->previous_key, DeviceKey());
  EXPECT_EQ(device->previous_until_ms, 0U);
  EXPECT_EQ(device->key, key_of(2));
  uint64_t latest_ms = 0;
  ASSERT_EQ(database.latest_time(&latest_ms), StoreStatus::kOk);
  EXPECT_EQ(latest_ms, 300U) << "the time at which they ended is kept with them";
}

}  // namespace
}  // namespace gradstream
