#include "server/cluster/node_fleet.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/node_fleet_support.h"

namespace gradstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kNowMs = 1'000'000;

class NodeFleetTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(rows_.database.add_device("attic", fleet_key(1), kNowMs, DeviceState::kActive).is_ok());
    ASSERT_TRUE(rows_.database.add_device("cellar", fleet_key(2), kNowMs, DeviceState::kPending).is_ok());
    ASSERT_FALSE(fleet_.begin(rows_.rows()));
  }

  FleetRows rows_;
  uint64_t now_ms_ = kNowMs;
  NodeFleet fleet_{[this] { return now_ms_; }};
  const PskLookup lookup_ = fleet_.lookup();
  PskEntry entry_;
  std::vector<KeyEnd> ends_;
};

TEST_F(NodeFleetTest, DevicesAreFoundByTheirNames) {
  EXPECT_EQ(fleet_.device_count(), 2U);
  EXPECT_EQ(fleet_.counts().active, 1U);
  EXPECT_EQ(fleet_.counts().pending, 1U);
  EXPECT_EQ(fleet_.counts().revoked + fleet_.counts().disabled, 0U);
  ASSERT_TRUE(lookup_("attic", &entry_));
  EXPECT_EQ(entry_.device, 0U);
  EXPECT_EQ(entry_.key, fleet_key(1));
  EXPECT_EQ(entry_.refusal, PskRefusal::kNone);
  ASSERT_TRUE(lookup_("cellar", &entry_));
  EXPECT_EQ(entry_.device, 1U);
  EXPECT_EQ(entry_.refusal, PskRefusal::kInactive);
  for (const char* const stranger : {"kitchen", "", "attic~1", "attic~", "~1", "!batch"}) {
    EXPECT_FALSE(lookup_(stranger, &entry_)) << stranger;
  }
}

TEST_F(NodeFleetTest, ADeviceThatIsBarredLosesItsSessions) {
  ASSERT_TRUE(rows_.database.set_device_state("cellar", DeviceState::kActive).is_ok());
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_THAT(ends_, IsEmpty());
  ASSERT_TRUE(rows_.database.revoke_device("attic").is_ok());
  ASSERT_TRUE(rows_.database.set_device_state("cellar", DeviceState::kDisabled).is_ok());
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_THAT(ends_, ElementsAre(KeyEnd{0, gs_Reason_REASON_REVOKED}, KeyEnd{1, gs_Reason_REASON_INACTIVE}));
  EXPECT_THAT(fleet_.standings(), ElementsAre(gs_Reason_REASON_REVOKED, gs_Reason_REASON_INACTIVE));
  EXPECT_EQ(fleet_.counts().revoked, 1U);
  EXPECT_EQ(fleet_.counts().disabled, 1U);
  ASSERT_TRUE(lookup_("attic", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kRevoked);
  ASSERT_TRUE(lookup_("cellar", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kInactive);
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_EQ(ends_.size(), 2U) << "a row that is the same ends nothing";
}

// Walks of a million devices follow a change of state alone.
TEST_F(NodeFleetTest, RowsThatSayNothingNewChangeNoState) {
  const uint64_t before = fleet_.state_change_count();
  ASSERT_TRUE(rows_.database.rotate_key("attic", fleet_key(3), kNowMs + 100).is_ok());
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_EQ(fleet_.state_change_count(), before) << "a key is no state";
  ASSERT_TRUE(rows_.database.set_device_state("cellar", DeviceState::kActive).is_ok());
  ASSERT_TRUE(rows_.database.add_device("kitchen", fleet_key(4), kNowMs, DeviceState::kPending).is_ok());
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_EQ(fleet_.state_change_count(), before + 2);
  EXPECT_EQ(fleet_.counts().active, 2U);
  EXPECT_EQ(fleet_.counts().pending, 1U);
}

TEST_F(NodeFleetTest, AReplacedKeyCountsForItsWindow) {
  ASSERT_TRUE(rows_.database.rotate_key("attic", fleet_key(3), kNowMs + 100).is_ok());
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_THAT(ends_, IsEmpty());
  ASSERT_TRUE(lookup_("attic~1", &entry_));
  EXPECT_EQ(entry_.key, fleet_key(3));
  ASSERT_TRUE(lookup_("attic", &entry_));
  EXPECT_EQ(entry_.key, fleet_key(1));
  now_ms_ = kNowMs + 99;
  EXPECT_THAT(fleet_.take_ended_windows(), IsEmpty());
  now_ms_ = kNowMs + 100;
  EXPECT_THAT(fleet_.take_ended_windows(), ElementsAre(0U));
  EXPECT_THAT(fleet_.take_ended_windows(), IsEmpty());
  ASSERT_TRUE(lookup_("attic", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kExpired);
}

// A session may have begun by that key since the start.
TEST_F(NodeFleetTest, AWindowThatIsOpenAtTheStartEndsToo) {
  ASSERT_TRUE(rows_.database.rotate_key("attic", fleet_key(3), kNowMs + 100).is_ok());
  uint64_t now_ms = kNowMs;
  NodeFleet again([&now_ms] { return now_ms; });
  ASSERT_FALSE(again.begin(rows_.rows()));
  ASSERT_FALSE(again.take(rows_.rows(), &ends_));  // as each node reads all of it once more
  ASSERT_TRUE(again.lookup()("attic", &entry_));
  EXPECT_EQ(entry_.key, fleet_key(1));
  EXPECT_THAT(again.take_ended_windows(), IsEmpty());
  now_ms = kNowMs + 100;
  EXPECT_THAT(again.take_ended_windows(), ElementsAre(0U));
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(NodeFleetTest, AKeyWithoutAWindowEndsAtOnce) {
  ASSERT_TRUE(rows_.database.rotate_key("attic", fleet_key(3), 0).is_ok());
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_THAT(ends_, ElementsAre(KeyEnd{0, gs_Reason_REASON_NONE}));
}

TEST_F(NodeFleetTest, ADeviceThatComesLaterTakesPart) {
  ASSERT_TRUE(rows_.database.add_device("kitchen", fleet_key(4), kNowMs, DeviceState::kActive).is_ok());
  ASSERT_FALSE(fleet_.take(rows_.rows(), &ends_));
  EXPECT_EQ(fleet_.device_count(), 3U);
  EXPECT_THAT(fleet_.standings(), ElementsAre(gs_Reason_REASON_NONE, gs_Reason_REASON_INACTIVE, gs_Reason_REASON_NONE));
  ASSERT_TRUE(lookup_("kitchen", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kNone);
  EXPECT_TRUE(ends_.empty());
}

// Else one row of a newer release would keep every later revocation from this node.
TEST_F(NodeFleetTest, ARowThatDoesNotReadHoldsUpNoOther) {
  ASSERT_TRUE(rows_.database.revoke_device("cellar").is_ok());
  std::vector<EngineFleetRow> rows = rows_.rows();
  rows[0].content[0] = 99;  // the form
  EXPECT_THAT(fleet_.take(rows, &ends_).sentence, HasSubstr("the row of attic is of another release"));
  ASSERT_TRUE(lookup_("attic", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kNone);
  ASSERT_TRUE(lookup_("cellar", &entry_));
  EXPECT_EQ(entry_.refusal, PskRefusal::kRevoked);
  NodeFleet again([] { return kNowMs; });
  EXPECT_THAT(again.begin(rows).sentence, HasSubstr("the row of attic is of another release"));
}

// Memory for each index below it would be made.
TEST_F(NodeFleetTest, AnIndexThatNoFleetHasIsDamage) {
  std::vector<EngineFleetRow> rows = rows_.rows();
  rows[0].number = UINT32_MAX;
  EXPECT_THAT(fleet_.take(rows, &ends_).sentence, HasSubstr("the row of attic has the index 4294967295"));
  EXPECT_EQ(fleet_.standings().size(), 2U);
}

}  // namespace
}  // namespace gradstream
