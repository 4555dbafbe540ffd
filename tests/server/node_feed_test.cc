#include "server/cluster/node_feed.h"

#include <vector>

#include <gtest/gtest.h>

#include "server/engine/followed_run.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint64_t kTimeMs = 1'700'000'000'000;

PublishedVersion version_of(uint32_t version) { return {version, std::vector<uint8_t>(version)}; }

class NodeFeedTest : public testing::Test {
 protected:
  RunParameters parameters_ = scalar_parameters();
  FollowedRun run_{parameters_, 5};
  NodeFeed feed_{"cluster", parameters_, "--config /srv/fleet.toml"};
  NodeSnapshot now_;
  ShellCounters counters_;
};

TEST_F(NodeFeedTest, ARunThatNobodyHasAnsweredStandsAtItsFirstVersion) {
  now_.run = 3;
  now_.sessions = 4;
  now_.is_connected = true;
  now_.run_state = gs_RunState_RUN_STATE_PAUSED;
  feed_.note_fleet({1, 5, 2, 0});
  const auto view = feed_.view(run_, now_, kTimeMs);
  EXPECT_EQ(view->taken_ms, kTimeMs);
  EXPECT_EQ(view->run, 3U);
  EXPECT_EQ(view->run_name, "cluster");
  EXPECT_EQ(view->run_state, gs_RunState_RUN_STATE_PAUSED);
  EXPECT_TRUE(view->has_version);
  EXPECT_EQ(view->version, 0U);
  EXPECT_EQ(view->digest, run_.ledger().digest());
  EXPECT_EQ(view->round.asked, 5U);
  EXPECT_EQ(view->enrolled.pending, 1U);
  EXPECT_EQ(view->enrolled.disabled, 2U);
  EXPECT_EQ(view->sessions, 4U);
  EXPECT_EQ(view->place.command_options, "--config /srv/fleet.toml");
  EXPECT_FALSE(view->place.is_storage_failed);
  EXPECT_TRUE(view->rounds.empty());
}

TEST_F(NodeFeedTest, WithoutAnEngineNothingBecomesDurable) {
  EXPECT_TRUE(feed_.view(run_, now_, kTimeMs)->place.is_storage_failed);
}

TEST_F(NodeFeedTest, AVersionOpensTheNextOneWhenItIsRead) {
  counters_.traffic.wire_bytes_received += 700;
  feed_.note_version(version_of(1), counters_, kTimeMs);
  feed_.note_version(version_of(2), counters_, kTimeMs + 50);
  const auto view = feed_.view(run_, now_, kTimeMs + 60);
  ASSERT_EQ(view->rounds.size(), 2U);
  EXPECT_EQ(view->rounds[0].summary.opened_ms, 0U) << "nobody knows";
  EXPECT_EQ(view->rounds[1].summary.version, 2U);
  EXPECT_EQ(view->rounds[1].summary.opened_ms, kTimeMs);
  EXPECT_EQ(view->rounds[1].summary.time_ms, kTimeMs + 50);
  EXPECT_EQ(view->rounds[1].summary.record_bytes, 2U);
  EXPECT_EQ(view->rounds[1].wire_bytes_received, 700U);
  EXPECT_FALSE(view->rounds[1].summary.has_losses) << "no version says them";
  EXPECT_EQ(view->round.opened_ms, kTimeMs + 50);
}

TEST_F(NodeFeedTest, TheLastVersionsAreKept) {
  for (uint32_t version = 1; version <= kRoundHistoryMax + 3; ++version) {
    feed_.note_version(version_of(version), counters_, kTimeMs + version);
  }
  const auto view = feed_.view(run_, now_, kTimeMs);
  ASSERT_EQ(view->rounds.size(), kRoundHistoryMax);
  EXPECT_EQ(view->rounds.front().summary.version, 4U);
}

}  // namespace
}  // namespace gradstream
