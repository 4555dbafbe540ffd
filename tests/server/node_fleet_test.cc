#include "server/cluster/node_fleet.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/fleet_copy.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kNowMs = 1'000'000;

DeviceKey key_of(uint8_t byte) {
  DeviceKey key;
  key.fill(byte);
  return key;
}

// What an import would bring of this database.
std::vector<EngineFleetRow> rows_in(SqliteDatabase& database) {
  FleetCopy copy;
  EXPECT_FALSE(read_fleet(database, &copy));
  std::vector<EngineFleetRow> rows;
  for (const FleetCopy::Row& row : copy.devices) {
    rows.push_back({row.number, row.name, row.content});
  }
  return rows;
}

class NodeFleetTest : public testing::Test {
 protected:
  void SetUp() override {
    SqliteOptions options;
    options.path = folder_.file("fleet.db");
    ASSERT_EQ(database_.open(options), StoreStatus::kOk);
    ASSERT_TRUE(database_.add_device("attic", key_of(1), kNowMs, DeviceState::kActive).is_ok());
    ASSERT_TRUE(database_.add_device("cellar", key_of(2), kNowMs, DeviceState::kPending).is_ok());
    ASSERT_FALSE(fleet_.take(rows_in(database_)));
  }

  const Folder folder_;
  SqliteDatabase database_;
  NodeFleet fleet_{[] { return kNowMs; }};
  const PskLookup lookup_ = fleet_.lookup();
  PskEntry entry_;
};

TEST_F(NodeFleetTest, DevicesAreFoundByTheirNames) {
  EXPECT_EQ(fleet_.device_count(), 2U);
  ASSERT_TRUE(lookup_("attic", &entry_));
  EXPECT_EQ(entry_.device, 0U);
  EXPECT_EQ(entry_.key, key_of(1));
  EXPECT_EQ(entry_.refusal, PskRefusal::kNone);
  ASSERT_TRUE(lookup_("cellar", &entry_));
  EXPECT_EQ(entry_.device, 1U);
  EXPECT_EQ(entry_.refusal, PskRefusal::kInactive);
  for (const char* const stranger : {"kitchen", "", "attic~1", "attic~", "~1", "!batch"}) {
    EXPECT_FALSE(lookup_(stranger, &entry_)) << stranger;
  }
}

TEST_F(NodeFleetTest, ARowTakesThePlaceOfTheOneBefore) {
  ASSERT_TRUE(database_.set_device_state("cellar", DeviceState::kActive).is_ok());
  ASSERT_TRUE(database_.revoke_device("attic").is_ok());
  ASSERT_FALSE(fleet_.take(rows_in(database_)));
  EXPECT_EQ(fleet_.device_count(), 2U);
  ASSERT_TRUE(lookup_("attic", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kRevoked);
  ASSERT_TRUE(lookup_("cellar", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kNone);
}

TEST_F(NodeFleetTest, ARowThatDoesNotReadChangesNothing) {
  std::vector<EngineFleetRow> rows = rows_in(database_);
  rows[0].content[0] = 99;  // the form
  rows[1].name = "kitchen";
  EXPECT_THAT(fleet_.take(rows).sentence, HasSubstr("the row of attic is of another release"));
  EXPECT_FALSE(lookup_("kitchen", &entry_));
  EXPECT_TRUE(lookup_("attic", &entry_));
}

}  // namespace
}  // namespace gradstream
