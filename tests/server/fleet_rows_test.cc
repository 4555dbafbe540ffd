// The words of rows: identities by generation, and states.
#include "server/store/fleet_rows.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(FleetRows, IdentitiesSayTheGenerationOfTheirKey) {
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

TEST(FleetRows, EveryStateHasItsOwnWords) {
  std::set<std::string> words;
  for (const DeviceState state :
       {DeviceState::kPending, DeviceState::kActive, DeviceState::kDisabled, DeviceState::kRevoked}) {
    EXPECT_TRUE(words.insert(device_state_text(state)).second) << device_state_text(state);
  }
  EXPECT_STREQ(device_state_text(DeviceState{9}), "unknown");
  words.clear();
  int active_count = 0;
  for (uint8_t number = 1; number <= 7; ++number) {
    const auto state = static_cast<StoredRunState>(number);
    EXPECT_TRUE(words.insert(stored_run_state_text(state)).second) << stored_run_state_text(state);
    active_count += is_active(state) ? 1 : 0;
  }
  EXPECT_FALSE(words.contains("unknown"));
  EXPECT_STREQ(stored_run_state_text(StoredRunState{8}), "unknown");
  EXPECT_EQ(active_count, 4) << "wishes do not end a run, only what it has come to does";
  EXPECT_FALSE(is_active(StoredRunState::kPaused) || is_active(StoredRunState::kFinished) ||
               is_active(StoredRunState::kStopped));
}

}  // namespace
}  // namespace gradstream
