// Devices and claims on their way to another store and back: nothing of a row is left out.
#include "server/store/fleet_copy.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/statement.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

RunRow run_of(uint32_t id) {
  RunRow run = run_row();
  run.id = id;
  return run;
}

// Devices in each state, with an old key and with a request of a new one, and a claim that has let one in.
void fill(SqliteDatabase& database) {
  for (const char* const name : {"a", "b", "c"}) {
    ASSERT_TRUE(value_of(database.add_device(name, key_of(static_cast<uint8_t>(name[0])), 7)));
  }
  ASSERT_TRUE(value_of(database.rotate_key("b", key_of(9), 4'000'000'000'000U)));
  ASSERT_TRUE(value_of(database.revoke_device("c")));
  KeyChangeRow change;
  change.since_ms = 8;
  change.window_s = 60;
  change.server_secret = key_of(5);
  ASSERT_TRUE(value_of(database.request_key_change("a", change)));
  ClaimRow claim;
  claim.name = "batch";
  claim.key = key_of(3);
  claim.count_max = 5;
  claim.expires_ms = 4'000'000'000'000U;
  claim.created_ms = 6;
  ASSERT_TRUE(value_of(database.add_claim(claim)));
  ASSERT_EQ(value_of(database.claim_device(1, "d", key_of(4), 9)), ClaimOutcome::kGranted);
}

TEST(FleetCopy, ComesBackAsItWas) {
  const Folder folder;
  SqliteDatabase from, to;
  ASSERT_EQ(from.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  ASSERT_EQ(to.open(options_for(folder.file("b.db"))), StoreStatus::kOk);
  fill(from);
  FleetCopy fleet, again;
  ASSERT_EQ(read_fleet(from, &fleet).sentence, "");
  ASSERT_EQ(fleet.devices.size(), 4U);
  EXPECT_EQ(fleet.devices[3].name, "d");
  ASSERT_EQ(fleet.claims.size(), 1U);
  ASSERT_EQ(write_fleet(to, fleet, run_of(7)).sentence, "");
  ASSERT_EQ(read_fleet(to, &again).sentence, "");
  EXPECT_EQ(again.devices, fleet.devices);
  EXPECT_EQ(again.claims, fleet.claims);
  EXPECT_EQ(value_of(to.find_device("b"))->previous_key, key_of('b'));
  EXPECT_EQ(value_of(to.find_device("c"))->state, DeviceState::kRevoked);
  EXPECT_EQ(value_of(to.find_key_change("a"))->window_s, 60U);
  EXPECT_EQ(value_of(to.claim_device(1, "d", key_of(4), 10)), ClaimOutcome::kRepeated) << "by the same claim";
  EXPECT_EQ(value_of(to.runs()).at(0).id, 7U);
}

TEST(FleetCopy, WritesAllOrNothing) {
  const Folder folder;
  SqliteDatabase from, to;
  ASSERT_EQ(from.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  ASSERT_EQ(to.open(options_for(folder.file("b.db"))), StoreStatus::kOk);
  fill(from);
  FleetCopy fleet;
  ASSERT_EQ(read_fleet(from, &fleet).sentence, "");
  FleetCopy spoilt = fleet;
  spoilt.claims[0].content[0] = 2;  // the form of another release
  EXPECT_THAT(write_fleet(to, spoilt, run_of(1)).sentence, HasSubstr("the row of batch is of another release"));
  spoilt = fleet;
  spoilt.devices[3].name = "a";
  EXPECT_THAT(write_fleet(to, spoilt, run_of(1)).sentence, HasSubstr("the row of a cannot be written"));
  EXPECT_TRUE(value_of(to.devices()).empty());
  ASSERT_EQ(write_fleet(to, fleet, run_of(1)).sentence, "");
}

// As a verb beside an engine changes a fleet: in memory, without a run, and no file has a key meanwhile.
TEST(FleetCopy, AChangeInMemoryIsFoundRowByRow) {
  const Folder folder;
  SqliteDatabase from, memory;
  ASSERT_EQ(from.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  fill(from);
  FleetCopy before, after;
  ASSERT_EQ(read_fleet(from, &before).sentence, "");
  SqliteOptions options;
  options.path = folder.file("the fleet");
  options.is_in_memory = true;
  ASSERT_EQ(memory.open(options), StoreStatus::kOk) << memory.error();
  ASSERT_EQ(write_fleet(memory, before).sentence, "");
  ASSERT_EQ(read_fleet(memory, &after).sentence, "");
  EXPECT_TRUE(changed_rows(before, after).devices.empty());
  EXPECT_TRUE(value_of(memory.runs()).empty());

  ASSERT_TRUE(value_of(memory.set_device_state("b", DeviceState::kDisabled)));
  ASSERT_EQ(value_of(memory.add_device("e", key_of(7), 9)), 4U);
  ASSERT_TRUE(value_of(memory.end_claim("batch", 10)));
  ASSERT_EQ(read_fleet(memory, &after).sentence, "");
  const FleetCopy changed = changed_rows(before, after);
  ASSERT_EQ(changed.devices.size(), 2U);
  EXPECT_EQ(changed.devices[0].name, "b");
  EXPECT_EQ(changed.devices[0], after.devices[1]);
  EXPECT_NE(changed.devices[0], before.devices[1]);
  EXPECT_EQ(changed.devices[1].name, "e");
  ASSERT_EQ(changed.claims.size(), 1U);
  EXPECT_EQ(changed.claims[0], after.claims[0]);
  EXPECT_FALSE(std::filesystem::exists(options.path));
  EXPECT_FALSE(std::filesystem::exists(":memory:"));
}

TEST(FleetCopy, ReadsNoDamagedRow) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  fill(database);
  sqlite3* raw = nullptr;  // another program
  ASSERT_EQ(sqlite3_open(folder.file("a.db").c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, "UPDATE devices SET state=2 WHERE name='c'", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(raw);
  FleetCopy fleet;
  EXPECT_THAT(read_fleet(database, &fleet).sentence, HasSubstr("the row of c is damaged"));
}

}  // namespace
}  // namespace gradstream
