#include "sim/sim_network.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr uint64_t kSession = 3;

struct Fixture {
  explicit Fixture(uint32_t bits) : faults(bits, dice), network(dice, faults, events) { network.open(kSession, 0); }
  SimEvent frame(SimEventKind kind) {
    events.push(10, kind, 0, kSession, {});
    return events.pop();
  }
  uint64_t count(Fault fault) const { return faults.counts()[static_cast<size_t>(fault)]; }

  Dice dice{1, 0};
  FaultChances faults;
  SimEventQueue events;
  SimNetwork network;
};

uint32_t bit(Fault fault) { return 1U << static_cast<uint32_t>(fault); }

TEST(SimNetwork, WithoutFaultsNothingIsLateHeldOrLost) {
  Fixture f(0);
  for (int i = 0; i < 200; ++i) {
    EXPECT_LE(f.network.latency_ms(), 10U);
    const SimEvent frame = f.frame(SimEventKind::kFrameUp);
    EXPECT_FALSE(f.network.hold_back(frame, 10));
    EXPECT_FALSE(f.network.vanishes(frame));
  }
  EXPECT_EQ(f.faults.counts(), FaultCounts{});
}

TEST(SimNetwork, WhatFollowsAHeldFrameIsHeldTooAndStaysInOrder) {
  Fixture f(bit(Fault::kReorder));
  SimEvent first = f.frame(SimEventKind::kFrameUp);
  for (int i = 0; i < 1000 && !f.network.hold_back(first, 10); ++i) {
    first = f.frame(SimEventKind::kFrameUp);
  }
  ASSERT_FALSE(f.events.empty());
  const SimEvent release = f.events.pop();
  ASSERT_EQ(release.kind, SimEventKind::kRelease);
  EXPECT_GT(release.at_ms, 10U);
  const SimEvent close = f.frame(SimEventKind::kCloseUp);
  EXPECT_TRUE(f.network.hold_back(close, 10));
  const SimEvent other = f.frame(SimEventKind::kFrameUp);
  f.network.note_arrival(other);  // sent later, arrives earlier: this is the fault
  const std::vector<SimEvent> released = f.network.release(kSession);
  ASSERT_EQ(released.size(), 2U);
  EXPECT_EQ(released[0].order, first.order);
  EXPECT_EQ(released[1].order, close.order);
  EXPECT_EQ(f.count(Fault::kReorder), 1U);
}

TEST(SimNetwork, ASilentSessionLosesADirectionAndNeverConnects) {
  Fixture f(bit(Fault::kSilence));
  f.network.silence(kSession);
  ASSERT_TRUE(f.network.is_silent(kSession));
  EXPECT_EQ(f.count(Fault::kSilence), 0U);  // nothing has vanished yet
  EXPECT_TRUE(f.network.vanishes(f.frame(SimEventKind::kConnected)));
  const bool is_up_lost = f.network.vanishes(f.frame(SimEventKind::kFrameUp));
  const bool is_down_lost = f.network.vanishes(f.frame(SimEventKind::kFrameDown));
  EXPECT_TRUE(is_up_lost || is_down_lost);
  EXPECT_EQ(f.network.vanishes(f.frame(SimEventKind::kCloseUp)), is_up_lost);
  EXPECT_EQ(f.network.vanishes(f.frame(SimEventKind::kCloseDown)), is_down_lost);
  EXPECT_EQ(f.count(Fault::kSilence), 1U);
}

TEST(SimNetwork, ALaterDueTimeNeedsNoSecondTimer) {
  Fixture f(0);
  f.network.expect_device(kSession, 100, 50);
  f.network.expect_device(kSession, 110, 500);  // the timer of 150 looks at due_ms when it fires
  ASSERT_FALSE(f.events.empty());
  EXPECT_EQ(f.events.pop().at_ms, 150U);
  EXPECT_TRUE(f.events.empty());
  EXPECT_EQ(f.network.find(kSession)->due_ms, 610U);
  f.network.close(kSession);
  EXPECT_EQ(f.network.find(kSession), nullptr);
}

}  // namespace
}  // namespace gradstream
