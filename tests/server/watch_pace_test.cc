// How fast a run goes.
#include <memory>

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "server/watch/attention.h"

namespace gradstream {
namespace {

constexpr uint64_t kNowMs = 1'700'000'000'000;

// 22 versions a second apart, the newest now; one of them took 100 s.
WatchSnapshot snapshot_of_a_run() {
  WatchSnapshot s;
  const auto parameters = std::make_shared<RunParameters>();
  s.parameters = parameters;
  s.taken_ms = kNowMs + 400;
  s.run_state = gs_RunState_RUN_STATE_ACTIVE;
  s.round_count = 100;
  s.rounds_done = 20;
  for (uint32_t i = 1; i <= 22; ++i) {
    WatchedRound round;
    round.summary.version = i;
    round.summary.loss_before = 2.0 / i;
    round.summary.time_ms = kNowMs - (22 - i) * 1000 - (i < 21 ? 99'000 : 0);
    s.rounds.push_back(round);
  }
  return s;
}

TEST(WatchPace, IsThatOfTheLastVersions) {
  WatchSnapshot s = snapshot_of_a_run();
  const WatchPace pace = pace_of(s);
  EXPECT_DOUBLE_EQ(*pace.versions_per_minute, 60) << "one slow version changes no median";
  EXPECT_DOUBLE_EQ(*pace.seconds_left, 79.6) << "80 rounds, of which the open one is 0.4 s old";
  EXPECT_DOUBLE_EQ(*pace.best_loss, 2.0 / 22);
  s.place.is_storage_failed = true;
  EXPECT_FALSE(pace_of(s).seconds_left) << "no version is made";
  s.place.is_storage_failed = false;
  s.run_state = gs_RunState_RUN_STATE_STALLED;
  EXPECT_FALSE(pace_of(s).versions_per_minute);
  EXPECT_FALSE(pace_of(s).seconds_left);
  EXPECT_TRUE(pace_of(s).best_loss);
  EXPECT_FALSE(pace_of(WatchSnapshot()).best_loss);
}

}  // namespace
}  // namespace gradstream
