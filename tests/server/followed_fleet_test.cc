#include "server/cluster/followed_fleet.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/fake_engine.h"
#include "tests/support/node_fleet_support.h"

namespace gradstream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kDevices = 5;  // more than a reply of the fake engine has

class FollowedFleetTest : public testing::Test {
 protected:
  void SetUp() override {
    for (uint32_t index = 0; index < kDevices; ++index) {
      ASSERT_TRUE(rows_.database.add_device(name_of(index), fleet_key(1), 0, DeviceState::kActive).is_ok());
    }
    ASSERT_FALSE(fleet_.begin(rows_.rows()));
  }
  static std::string name_of(uint32_t index) { return "device-" + std::to_string(index); }
  // What a verb writes of this device, as the database has it.
  void change(uint32_t index) {
    const EngineFleetRow row = rows_.rows()[index];
    engine_.change_fleet({0, false, row.number, row.name, row.content});
  }
  void revoke(uint32_t index) {
    ASSERT_TRUE(rows_.database.revoke_device(name_of(index)).is_ok());
    change(index);
  }
  // Virtual time, as a shell gives it to the one under test.
  void run_for(uint64_t ms) {
    for (const uint64_t end_ms = now_ms_ + ms; now_ms_ < end_ms; ++now_ms_) {
      engine_.advance(now_ms_);
      for (const EngineReply& reply : node_->take_replies()) {
        EXPECT_TRUE(followed_.on_reply(reply, now_ms_));
      }
      if (now_ms_ >= followed_.next_tick_ms()) {
        followed_.on_tick(now_ms_);
        ++calls_;
      }
    }
  }
  PskRefusal refusal_of(uint32_t index) {
    PskEntry entry;
    EXPECT_TRUE(fleet_.lookup()(name_of(index), &entry));
    return entry.refusal;
  }

  FakeEngine engine_{FakeEngineOptions()};
  std::unique_ptr<EngineNode> node_ = engine_.connect("node");
  FleetRows rows_;
  NodeFleet fleet_{[this] { return now_ms_; }};
  FollowedFleet followed_{*node_, fleet_};
  uint64_t now_ms_ = 1;
  uint32_t calls_ = 0;
};

TEST_F(FollowedFleetTest, WhatIsTheSameIsAskedForSeldom) {
  run_for(4 * kFleetPollMs);
  EXPECT_GE(calls_, 3U);
  EXPECT_LE(calls_, 5U);
  EXPECT_THAT(followed_.take_ends(), IsEmpty());
}

TEST_F(FollowedFleetTest, AChangeIsThereAPollLater) {
  run_for(100);
  revoke(3);
  run_for(kFleetPollMs + 50);
  EXPECT_EQ(refusal_of(3), PskRefusal::kRevoked);
  EXPECT_EQ(refusal_of(2), PskRefusal::kNone);
  EXPECT_THAT(followed_.take_ends(), ElementsAre(KeyEnd{3, gs_Reason_REASON_REVOKED}));
  run_for(2 * kFleetPollMs);
  EXPECT_THAT(followed_.take_ends(), IsEmpty());
}

TEST_F(FollowedFleetTest, ManyChangesTakeSeveralReplies) {
  for (uint32_t index = 0; index < kDevices; ++index) {
    revoke(index);
  }
  run_for(100);
  EXPECT_EQ(followed_.take_ends().size(), kDevices);
}

TEST_F(FollowedFleetTest, AnAnswerThatIsLostIsAskedForAgain) {
  run_for(100);
  revoke(1);
  engine_.plant("node", FakeEngine::Fault::kLostAfter);
  run_for(2 * kFleetPollMs);
  EXPECT_EQ(refusal_of(1), PskRefusal::kRevoked);
}

// A revocation is gone, and the numbers of changes go back.
TEST_F(FollowedFleetTest, AFleetThatGoesBackIsTrouble) {
  const std::unique_ptr<EngineNode> other = engine_.connect("other");
  other->take_lease();  // the transaction behind which all is lost
  run_for(100);
  change(0);
  revoke(1);
  run_for(2 * kFleetPollMs);
  EXPECT_EQ(refusal_of(1), PskRefusal::kRevoked);
  EXPECT_EQ(followed_.trouble(), NodeTrouble::kNone);
  engine_.fail_over(1);
  run_for(2 * kFleetPollMs);
  EXPECT_EQ(followed_.trouble(), NodeTrouble::kRestored);
  EXPECT_EQ(followed_.next_tick_ms(), UINT64_MAX) << "it asks nothing any more";
  EXPECT_EQ(refusal_of(1), PskRefusal::kRevoked);
}

// Other changes have brought it to the same number since, and a device is gone.
TEST_F(FollowedFleetTest, AFleetThatLacksADeviceIsTrouble) {
  for (const bool is_lacking : {false, true}) {
    FakeEngine engine{FakeEngineOptions()};
    const std::unique_ptr<EngineNode> node = engine.connect("node");
    FollowedFleet followed(*node, fleet_);
    uint64_t now_ms = 1;
    const auto run = [&] {
      for (const uint64_t end_ms = now_ms + 4 * kFleetPollMs; now_ms < end_ms; ++now_ms) {
        engine.advance(now_ms);
        for (const EngineReply& reply : node->take_replies()) {
          EXPECT_TRUE(followed.on_reply(reply, now_ms));
        }
        followed.on_tick(now_ms);
      }
    };
    for (uint32_t index = 0; index < kDevices; ++index) {
      const EngineFleetRow row = rows_.rows()[is_lacking && index == kDevices - 1 ? 0 : index];
      engine.change_fleet({0, false, row.number, row.name, row.content});
    }
    followed.on_connection();
    run();
    EXPECT_EQ(followed.trouble(), is_lacking ? NodeTrouble::kRestored : NodeTrouble::kNone);
  }
}

// What was asked by the connection before says nothing of the engine as it is now.
TEST_F(FollowedFleetTest, EachConnectionReadsAllRows) {
  for (uint32_t index = 0; index < kDevices; ++index) {
    change(index);
  }
  run_for(2 * kFleetPollMs);
  const uint32_t calls = calls_;
  EXPECT_GE(calls, kDevices / 2);
  followed_.on_tick(now_ms_ + kFleetPollMs);  // a call is under way
  followed_.on_connection();
  run_for(2 * kFleetPollMs);
  EXPECT_GE(calls_ - calls, kDevices / 2);
  EXPECT_EQ(followed_.trouble(), NodeTrouble::kNone);
  EXPECT_THAT(followed_.take_ends(), IsEmpty());
}

// A revocation around a fail-over has the highest number, and stands behind all other rows.
TEST_F(FollowedFleetTest, AChangeComesBeforeAllIsReadAgain) {
  for (uint32_t index = 0; index < kDevices; ++index) {
    change(index);
  }
  run_for(2 * kFleetPollMs);
  revoke(kDevices - 1);
  followed_.on_connection();
  calls_ = 0;
  while (refusal_of(kDevices - 1) == PskRefusal::kNone) {
    ASSERT_LT(calls_, 2 * kDevices);
    run_for(1);
  }
  EXPECT_LE(calls_, 2U) << "the second one is the next of its kind";
  run_for(2 * kFleetPollMs);
  EXPECT_GE(calls_, kDevices / 2) << "all rows are read again nevertheless";
  EXPECT_EQ(followed_.trouble(), NodeTrouble::kNone);
}

// All rows take longer than a poll: a change that comes meanwhile does not wait for their end.
TEST_F(FollowedFleetTest, AChangeComesWhileAllIsReadAgain) {
  FakeEngineOptions options;
  options.fleet_count_max = 1;
  options.delay_most_ms = kFleetPollMs / 2;
  options.deadline_ms = 4 * kFleetPollMs;
  FakeEngine engine(options);
  const std::unique_ptr<EngineNode> node = engine.connect("node");
  FollowedFleet followed(*node, fleet_);
  uint64_t now_ms = 1;
  uint32_t calls = 0;
  const auto run_until = [&](const auto& is_over) {
    for (const uint64_t end_ms = now_ms + 100 * kFleetPollMs; !is_over() && now_ms < end_ms; ++now_ms) {
      engine.advance(now_ms);
      for (const EngineReply& reply : node->take_replies()) {
        EXPECT_TRUE(followed.on_reply(reply, now_ms));
        ++calls;
      }
      followed.on_tick(now_ms);
    }
  };
  const auto tell = [&](uint32_t index) {
    const EngineFleetRow row = rows_.rows()[index];
    engine.change_fleet({0, false, row.number, row.name, row.content});
  };
  for (uint32_t round = 0; round < 4; ++round) {  // claims, which a node passes over, make the fleet longer
    for (uint32_t index = 0; index < kDevices; ++index) {
      engine.change_fleet({0, true, kDevices * round + index, "claim", {}});
    }
  }
  for (uint32_t index = 0; index < kDevices; ++index) {
    tell(index);
  }
  run_until([&] { return followed.next_tick_ms() != UINT64_MAX && followed.next_tick_ms() > now_ms; });
  EXPECT_GT(calls, 5 * kDevices) << "all were read";
  followed.on_connection();
  calls = 0;
  run_until([&] { return calls == 3; });
  ASSERT_TRUE(rows_.database.revoke_device(name_of(0)).is_ok());
  tell(0);
  run_until([&] { return refusal_of(0) != PskRefusal::kNone; });
  EXPECT_EQ(refusal_of(0), PskRefusal::kRevoked);
  EXPECT_LT(calls, 15U) << "of 26 that read all";
  EXPECT_EQ(followed.trouble(), NodeTrouble::kNone);
}

TEST_F(FollowedFleetTest, ARowOfANewerReleaseIsLeftOut) {
  run_for(100);
  EngineFleetRow row = rows_.rows()[1];
  row.content[0] = 99;
  engine_.change_fleet({0, false, row.number, row.name, row.content});
  run_for(2 * kFleetPollMs);
  revoke(2);
  run_for(2 * kFleetPollMs);
  EXPECT_EQ(refusal_of(1), PskRefusal::kNone);
  EXPECT_EQ(refusal_of(2), PskRefusal::kRevoked) << "it holds up no other device";
  revoke(1);  // by this release, over that row
  run_for(2 * kFleetPollMs);
  EXPECT_EQ(refusal_of(1), PskRefusal::kRevoked);
}

}  // namespace
}  // namespace gradstream
