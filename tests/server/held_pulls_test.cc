// Who is held, until when, and who the longest: against plain lists, whatever ends a hold.
#include "server/coordinator/held_pulls.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

gs_Pull pull_from(uint32_t version) { return {true, version, 100ULL + version, 60000}; }

TEST(HeldPulls, GiveBackThePullWhenItsTimeIsOver) {
  HeldPulls held;
  EXPECT_EQ(held.next_due_ms(), UINT64_MAX);
  EXPECT_EQ(held.longest(), 0U);
  held.hold(7, pull_from(3), 1000, 500);
  held.hold(5, {}, 1001, 100);
  EXPECT_EQ(held.next_due_ms(), 1101U);
  EXPECT_EQ(held.longest(), 7U) << "not the one that is due first";
  EXPECT_FALSE(held.take_due(1100).has_value());
  const std::optional<EndedHold> first = held.take_due(1500);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->session, 5U);
  EXPECT_FALSE(first->pull.has_model);
  const std::optional<EndedHold> second = held.take_due(1500);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->session, 7U);
  EXPECT_TRUE(second->pull.has_model);
  EXPECT_EQ(second->pull.version, 3U);
  EXPECT_EQ(second->pull.digest, 103U);
  EXPECT_EQ(second->pull.hold_max_ms, 0U) << "it is answered now";
  EXPECT_FALSE(held.take_due(UINT64_MAX - 1).has_value());
}

TEST(HeldPulls, AreWokenInTurnAndNeverAfterTheirTime) {
  HeldPulls held;
  for (const SessionId id : {1, 2, 3}) {
    held.hold(id, pull_from(0), 0, 1000);
  }
  held.wake(3, 400);
  held.wake(1, 400);
  held.wake(2, 5000);
  EXPECT_TRUE(held.sleepers().empty());
  EXPECT_EQ(held.sessions().size(), 3U);
  EXPECT_EQ(held.next_due_ms(), 400U);
  EXPECT_EQ(held.take_due(400)->session, 3U) << "woken first";
  EXPECT_EQ(held.take_due(400)->session, 1U);
  EXPECT_EQ(held.next_due_ms(), 1000U);
  EXPECT_TRUE(held.erase(2));
  EXPECT_FALSE(held.erase(2));
  EXPECT_EQ(held.next_due_ms(), UINT64_MAX);
}

// Thousands of holds that end early, as in a run of short rounds: what is due and who is first stays right.
TEST(HeldPulls, KeepTheirOrderWhateverEndsThem) {
  HeldPulls held;
  std::map<SessionId, std::pair<uint64_t, uint64_t>> known;  // begun, due
  RandomStream draw(RandomKey{});
  uint64_t now_ms = 0;
  for (int i = 0; i < 20'000; ++i) {
    now_ms += draw.next() % 3;
    const SessionId id = 1 + draw.next() % 50;
    if (known.contains(id)) {
      EXPECT_TRUE(held.erase(id));
      known.erase(id);
    } else {
      const uint32_t hold_ms = 1 + draw.next() % 100;
      held.hold(id, {}, now_ms, hold_ms);
      known[id] = {now_ms, now_ms + hold_ms};
    }
    while (const std::optional<EndedHold> ended = held.take_due(now_ms)) {
      ASSERT_LE(known.at(ended->session).second, now_ms);
      known.erase(ended->session);
    }
    uint64_t due_ms = UINT64_MAX;
    uint64_t begun_ms = UINT64_MAX;
    for (const auto& [session, times] : known) {
      due_ms = std::min(due_ms, times.second);
      begun_ms = std::min(begun_ms, times.first);
    }
    ASSERT_EQ(held.next_due_ms(), due_ms);
    ASSERT_EQ(held.size(), known.size());
    ASSERT_TRUE(known.empty() ? held.longest() == 0 : known.at(held.longest()).first == begun_ms);
  }
}

}  // namespace
}  // namespace gradstream
