// The snapshot for HTTP readers, of a real coordinator whose devices follow a script.
#include "server/program/watch_feed.h"

#include <chrono>
#include <utility>

#include <gtest/gtest.h>

#include "server/run/pace.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

class WatchFeedTest : public testing::Test {
 protected:
  static constexpr uint32_t kDeviceCount = 4;

  void SetUp() override {
    run_.id = 7;
    run_.name = "watched";
    server_.start();
    server_.join(kDeviceCount);
    devices_.resize(kDeviceCount);
    begin_feed();
  }
  void begin_feed() { feed_.emplace(board_, *server_.coordinator, run_, server_.parameters); }
  std::shared_ptr<const WatchSnapshot> publish(const WatchedShell& shell = {}) {
    feed_->publish(server_.now_ms, devices_, shell);
    return board_.read();
  }
  // A round that makes a version.
  void make_version() {
    const uint32_t version = server_.coordinator->durable_version();
    server_.round(kDeviceCount);
    ASSERT_EQ(server_.coordinator->durable_version(), version + 1);
  }

  TestServer server_{scalar_parameters()};
  RunRow run_;
  std::vector<EnrolledDevice> devices_;
  WatchBoard board_;
  std::optional<WatchFeed> feed_;
};

TEST_F(WatchFeedTest, TellsWhatCoordinatorFleetAndShellSayNow) {
  EXPECT_EQ(board_.read(), nullptr) << "nothing before the first publish()";
  make_version();
  devices_[0].state = DeviceState::kPending;
  devices_[1].state = DeviceState::kDisabled;
  devices_[2].state = DeviceState::kRevoked;
  WatchedShell shell = {5, 2, true, {}};
  shell.counters.handshakes.wrong_keys += 11;
  const std::shared_ptr<const WatchSnapshot> snapshot = publish(shell);
  EXPECT_EQ(snapshot->taken_ms, server_.now_ms);
  EXPECT_EQ(snapshot->run, 7U);
  EXPECT_EQ(snapshot->run_name, "watched");
  EXPECT_EQ(snapshot->run_state, gs_RunState_RUN_STATE_ACTIVE);
  EXPECT_TRUE(snapshot->has_version);
  EXPECT_EQ(snapshot->version, 1U);
  EXPECT_EQ(snapshot->digest, server_.coordinator->model().digest());
  EXPECT_EQ(snapshot->round_count, server_.parameters.trigger->round_count);
  EXPECT_EQ(snapshot->parameters->local->direction_count, server_.parameters.local->direction_count);
  EXPECT_EQ(snapshot->round.asked, kDeviceCount);
  EXPECT_EQ(snapshot->enrolled.pending, 1U);
  EXPECT_EQ(snapshot->enrolled.disabled, 1U);
  EXPECT_EQ(snapshot->enrolled.revoked, 1U);
  EXPECT_EQ(snapshot->enrolled.active, 1U);
  EXPECT_EQ(snapshot->sessions, 5U);
  EXPECT_EQ(snapshot->handshakes, 2U);
  EXPECT_TRUE(snapshot->is_draining);
  EXPECT_FALSE(snapshot->place.is_storage_failed);
  EXPECT_EQ(snapshot->shell.handshakes.wrong_keys, 11U);
  EXPECT_EQ(snapshot->coordinator.updates_folded, kDeviceCount);
  ASSERT_EQ(snapshot->devices->size(), kDeviceCount);
  EXPECT_EQ(snapshot->devices->at(3).name, "d3");
}

TEST_F(WatchFeedTest, ARoundIsNotedOnceWithWhatTheWireHadCarried) {
  EXPECT_FALSE(feed_->has_new_round()) << "no round has closed";
  WatchedShell shell;
  for (const uint32_t version : {1U, 2U}) {
    make_version();
    ASSERT_TRUE(feed_->has_new_round());
    shell.counters.traffic.wire_bytes_received += 100;
    shell.counters.traffic.wire_bytes_sent += 7;
    feed_->note_round(shell.counters);
    EXPECT_FALSE(feed_->has_new_round());
    const std::shared_ptr<const WatchSnapshot> snapshot = publish(shell);
    ASSERT_EQ(snapshot->rounds.size(), version);
    EXPECT_EQ(snapshot->rounds.back().summary, server_.coordinator->last_round());
    EXPECT_EQ(snapshot->rounds.back().wire_bytes_received, 100U * version);
    EXPECT_EQ(snapshot->rounds.back().wire_bytes_sent, 7U * version);
  }
}

TEST_F(WatchFeedTest, RoundsFromBeforeARestartComeFirst) {
  make_version();
  make_version();
  server_.restart();
  begin_feed();
  EXPECT_FALSE(feed_->has_new_round()) << "they are of another life";
  EXPECT_EQ(publish()->rounds.size(), 2U);
  server_.join(kDeviceCount);
  make_version();
  ASSERT_TRUE(feed_->has_new_round());
  WatchedShell shell;
  shell.counters.traffic.wire_bytes_sent += 9;
  feed_->note_round(shell.counters);
  const std::shared_ptr<const WatchSnapshot> snapshot = publish();
  ASSERT_EQ(snapshot->rounds.size(), 3U);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(snapshot->rounds[i].summary.version, i + 1);
    EXPECT_EQ(snapshot->rounds[i].wire_bytes_sent, i < 2 ? 0U : 9U);
  }
}

TEST_F(WatchFeedTest, TheHistoryIsBounded) {
  make_version();
  ShellCounters counters;
  for (size_t i = 0; i < kRoundHistoryMax + 3; ++i) {
    ++counters.traffic.wire_bytes_sent;
    feed_->note_round(counters);
  }
  const std::shared_ptr<const WatchSnapshot> snapshot = publish();
  ASSERT_EQ(snapshot->rounds.size(), kRoundHistoryMax);
  EXPECT_EQ(snapshot->rounds.front().wire_bytes_sent, 4U) << "the oldest have gone";
  EXPECT_EQ(snapshot->rounds.back().wire_bytes_sent, kRoundHistoryMax + 3);
}

TEST_F(WatchFeedTest, AnIdleRunsDevicesMayBeSilentForLonger) {
  const RunParameters& run = server_.parameters;
  const uint64_t active_ms = publish()->silent_after_ms;
  EXPECT_EQ(active_ms, uint64_t{run.trigger->report_deadline_ms} + refused_window(*run.pace, kDeviceCount).max_ms);
  server_.coordinator->pause(server_.now_ms);
  server_.collect();
  const uint64_t paused_ms = publish()->silent_after_ms;
  EXPECT_EQ(paused_ms, uint64_t{run.trigger->report_deadline_ms} + idle_window(*run.pace, kDeviceCount).max_ms);
  EXPECT_GE(paused_ms, active_ms);
}

// A clock that a look at it moves on: what lies between two looks has taken kCopyCost.
std::chrono::steady_clock::time_point copy_clock_now = {};
constexpr auto kCopyCost = std::chrono::milliseconds(3);
std::chrono::steady_clock::time_point copy_clock() { return std::exchange(copy_clock_now, copy_clock_now + kCopyCost); }

TEST_F(WatchFeedTest, DevicesAreCopiedLessOftenThanTheRest) {
  feed_.emplace(board_, *server_.coordinator, run_, server_.parameters, copy_clock);
  const auto begin = copy_clock_now;
  const auto first = publish();
  const auto second = publish();
  EXPECT_EQ(first->devices, second->devices) << "two snapshots share one";
  EXPECT_NE(first, second);
  copy_clock_now = begin + kCopyCost * kDeviceCopyShare - std::chrono::nanoseconds(1);
  EXPECT_EQ(publish()->devices, first->devices);
  server_.now_ms += 5;
  copy_clock_now = begin + kCopyCost * kDeviceCopyShare;
  const auto third = publish();
  EXPECT_NE(third->devices, first->devices) << "not for ever";
  EXPECT_EQ(third->devices_taken_ms, server_.now_ms);
}

}  // namespace
}  // namespace gradstream
