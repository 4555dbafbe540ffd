// What commands write into the database while a server runs, and what the coordinator is told of it.
#include "server/program/fleet_follower.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/fleet_database.h"
#include "tests/support/server_peer.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A server's loop without a server: every record is durable at once.
class FleetFollowerTest : public testing::Test {
 protected:
  // Two active devices, unless the test has enrolled others.
  void start() {
    while (database_.devices().size() < 2) {
      database_.enrol(static_cast<uint8_t>(database_.devices().size() + 1));
    }
    run_ = database_.create_run("first");
    std::vector<std::string> names;
    for (const EnrolledDevice& device : database_.devices()) {
      names.push_back(device.name);
    }
    RunParameters parameters = scalar_parameters();
    parameters.trigger->device_count = 2;
    coordinator_ = std::make_unique<Coordinator>(run_, parameters, names);
    follower_ =
        std::make_unique<FleetFollower>(io_,
                                        FleetFollower::Parts{database_.fleet, alarm_, *coordinator_, run_,
                                                             [this] {
                                                               if (on_clock_ != nullptr) {
                                                                 std::exchange(on_clock_, nullptr)();
                                                               }
                                                               return now_ms_;
                                                             }},
                                        database_.devices(),
                                        FleetFollower::Reports{[this] {
                                                                 ++told_count_;
                                                                 execute();
                                                               },
                                                               [this](uint32_t run) { next_runs_.push_back(run); },
                                                               [this](uint32_t device) { over_.push_back(device); }});
    follower_->exclude_inactive();
    coordinator_->start(1000);
    execute();
    ASSERT_EQ(follower_->take_run_state(), StoredRunState::kActive);
  }
  void execute() {
    for (std::vector<Action> actions = coordinator_->take_actions(); !actions.empty();
         actions = coordinator_->take_actions()) {
      for (const Action& action : actions) {
        if (action.kind == ActionKind::kPersist) {
          coordinator_->on_persisted(action.record.sequence(), 1000);
        }
      }
    }
  }
  void wish(StoredRunState state) {
    ASSERT_EQ(database_.command.set_run_state(run_, state), StoreStatus::kOk);
    ASSERT_TRUE(follower_->refresh());
  }
  // By index: whether each device takes no part.
  std::vector<bool> excluded() const {
    std::vector<bool> out;
    for (const DeviceStatus& device : coordinator_->device_statuses()) {
      out.push_back(device.is_revoked);
    }
    return out;
  }

  LogCapture log_;
  asio::io_context io_;
  FleetDatabase database_;
  FleetAlarm alarm_;
  uint64_t now_ms_ = 1000;
  std::function<void()> on_clock_;  // once, when the clock is asked
  uint32_t run_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  uint32_t told_count_ = 0;
  std::vector<uint32_t> next_runs_;
  std::vector<uint32_t> over_;  // devices whose replaced key is over
  std::unique_ptr<FleetFollower> follower_;
};

TEST_F(FleetFollowerTest, DevicesComeGoAndComeBack) {
  start();
  EXPECT_THAT(excluded(), ElementsAre(false, false));
  database_.enrol(3);
  database_.enrol(4, DeviceState::kPending);
  database_.set_state("device-1", DeviceState::kDisabled);
  ASSERT_TRUE(follower_->refresh());
  EXPECT_EQ(told_count_, 1U);
  EXPECT_EQ(follower_->devices().size(), 4U);
  EXPECT_THAT(excluded(), ElementsAre(true, false, false, true));
  EXPECT_THAT(log_.find("device_added"), HasSubstr("device=device-3 index=2"));
  EXPECT_EQ(log_.count("device_added"), 2U);
  EXPECT_THAT(log_.find("device_state"), HasSubstr("device=device-1 state=disabled"));
  EXPECT_EQ(log_.count("device_state"), 1U) << "a new one has none to come from";
  database_.set_state("device-1", DeviceState::kActive);
  database_.set_state("device-4", DeviceState::kActive);
  EXPECT_TRUE(value_of(database_.command.revoke_device("device-2")));
  ASSERT_TRUE(follower_->refresh());
  EXPECT_THAT(excluded(), ElementsAre(false, true, false, false));
  EXPECT_EQ(log_.count("device_state"), 4U);
  ASSERT_TRUE(follower_->refresh());
  EXPECT_EQ(log_.count("device_state"), 4U) << "nothing has changed";
}

TEST_F(FleetFollowerTest, WhoIsNotActiveAtTheStartTakesNoPart) {
  database_.enrol(1);
  database_.enrol(2, DeviceState::kPending);
  database_.enrol(3);
  EXPECT_TRUE(value_of(database_.command.revoke_device("device-3")));
  start();
  EXPECT_THAT(excluded(), ElementsAre(false, true, true));
  EXPECT_EQ(log_.count("device_state"), 0U);
}

TEST_F(FleetFollowerTest, ADatabaseThatIsMovedAwayIsToldOnceAndSoIsItsReturn) {
  start();
  follower_->poll();
  EXPECT_EQ(follower_->file_fault(), "");
  const std::string away = database_.path() + ".away";
  for (size_t times = 1; times <= 2; ++times) {
    std::filesystem::rename(database_.path(), away);
    follower_->poll();
    follower_->poll();
    EXPECT_THAT(follower_->file_fault(), HasSubstr("removed or moved away"));
    EXPECT_EQ(log_.count("database_moved"), times);
    EXPECT_THAT(log_.find("database_moved"), HasSubstr("put the file back"));
    std::filesystem::rename(away, database_.path());
    follower_->poll();
    EXPECT_EQ(follower_->file_fault(), "");
    EXPECT_EQ(log_.count("database_back"), times);
  }
  follower_->cancel();
}

TEST_F(FleetFollowerTest, ALogThatIsRemovedIsNeverToldToBeBack) {
  start();
  follower_->poll();
  std::filesystem::remove(database_.path() + "-wal");
  follower_->poll();
  EXPECT_THAT(follower_->file_fault(), HasSubstr("-wal was removed"));
  std::ofstream(database_.path() + "-wal").close();  // as a command makes it
  follower_->poll();
  follower_->poll();
  EXPECT_THAT(follower_->file_fault(), HasSubstr("-wal was replaced by another file"));
  EXPECT_EQ(log_.count("database_moved"), 2U) << "once by each cause";
  EXPECT_EQ(log_.count("database_back"), 0U);
  follower_->cancel();
}

TEST_F(FleetFollowerTest, TheOperatorsWishReachesTheRunAndItsStateIsTakenOnce) {
  start();
  EXPECT_EQ(follower_->take_run_state(), std::nullopt);
  wish(StoredRunState::kPauseRequested);
  EXPECT_EQ(coordinator_->run_state(), gs_RunState_RUN_STATE_PAUSED);
  EXPECT_EQ(follower_->take_run_state(), StoredRunState::kPaused);
  EXPECT_EQ(follower_->take_run_state(), std::nullopt);
  EXPECT_FALSE(follower_->is_over());
  wish(StoredRunState::kResumeRequested);
  EXPECT_NE(coordinator_->run_state(), gs_RunState_RUN_STATE_PAUSED);
  EXPECT_EQ(follower_->take_run_state(), StoredRunState::kActive);
  wish(StoredRunState::kStopRequested);
  EXPECT_THAT(log_.find("stop_requested"), HasSubstr("run=" + std::to_string(run_)));
  EXPECT_EQ(coordinator_->run_state(), gs_RunState_RUN_STATE_STOPPED);
  EXPECT_FALSE(follower_->is_over()) << "not before the state was taken";
  EXPECT_EQ(follower_->take_run_state(), StoredRunState::kStopped);
  EXPECT_TRUE(follower_->is_over());
  wish(StoredRunState::kStopRequested);
  EXPECT_EQ(log_.count("stop_requested"), 1U) << "what is over follows no wish";
}

TEST_F(FleetFollowerTest, WhatExpiresEndsAtItsTimeAndTheTimeIsKeptOnceAMinute) {
  start();
  EXPECT_TRUE(value_of(database_.command.rotate_key("device-1", FleetDatabase::key_of(9), 1500)));
  const auto latest_ms = [this] {
    uint64_t latest = value_of(database_.command.latest_time());
    return latest;
  };
  const auto has_previous_key = [this] {
    std::optional<EnrolledDevice> row = value_of(database_.command.find_device("device-1"));
    return row && row->previous_until_ms != 0;
  };
  follower_->poll();
  EXPECT_EQ(latest_ms(), 1000U);
  EXPECT_TRUE(has_previous_key());
  now_ms_ = 1499;
  follower_->poll();
  EXPECT_TRUE(has_previous_key());
  EXPECT_EQ(latest_ms(), 1000U) << "not at every poll";
  now_ms_ = 1500;
  follower_->poll();
  EXPECT_FALSE(has_previous_key());
  EXPECT_EQ(latest_ms(), 1500U);
  now_ms_ = 1000 + FleetFollower::kNotePeriodMs;
  follower_->poll();
  EXPECT_EQ(latest_ms(), now_ms_);
  EXPECT_EQ(log_.count("time_not_stored"), 0U);
  follower_->cancel();
}

// At the end of its window, or at once where it has none, and once for each rotation.
TEST_F(FleetFollowerTest, AKeyThatARotationHasReplacedIsOverOnce) {
  start();
  EXPECT_TRUE(value_of(database_.command.rotate_key("device-1", FleetDatabase::key_of(8), 1500)));
  follower_->poll();
  EXPECT_THAT(over_, ElementsAre()) << "the window is open";
  now_ms_ = 1500;
  follower_->poll();
  follower_->poll();
  EXPECT_THAT(over_, ElementsAre(0U));
  EXPECT_TRUE(value_of(database_.command.rotate_key("device-2", FleetDatabase::key_of(9), 1500)));
  follower_->poll();
  follower_->poll();
  EXPECT_THAT(over_, ElementsAre(0U, 1U)) << "a window of nothing";
  ASSERT_TRUE(value_of(database_.command.set_device_state("device-2", DeviceState::kDisabled)));
  follower_->poll();
  EXPECT_THAT(over_, ElementsAre(0U, 1U)) << "another change of its row";
  follower_->cancel();
}

TEST_F(FleetFollowerTest, AnotherRunGetsItsTurnOnceThisOneIsIdle) {
  start();
  ASSERT_EQ(database_.command.set_run_state(run_, StoredRunState::kPaused), StoreStatus::kOk);
  const uint32_t next = database_.create_run("second");
  ASSERT_TRUE(follower_->refresh());
  EXPECT_THAT(next_runs_, ElementsAre()) << "the pause is not taken yet";
  ASSERT_EQ(follower_->take_run_state(), StoredRunState::kPaused);
  ASSERT_TRUE(follower_->refresh());
  EXPECT_THAT(next_runs_, ElementsAre(next));
  ASSERT_TRUE(follower_->refresh());
  EXPECT_THAT(next_runs_, ElementsAre(next, next)) << "as long as it is so";
}

TEST_F(FleetFollowerTest, APollReadsWhatHasChangedAndNothingElse) {
  start();
  follower_->poll();
  EXPECT_EQ(told_count_, 1U) << "the first one reads in any case";
  follower_->poll();
  EXPECT_EQ(told_count_, 1U);
  database_.enrol(3);
  ASSERT_TRUE(run_until(io_, [&] { return follower_->devices().size() == 3; })) << "the timer's poll";
  EXPECT_EQ(told_count_, 2U);
  follower_->cancel();
  io_.restart();
  EXPECT_EQ(io_.run_for(std::chrono::seconds(20)), 1U) << "the handler that was cancelled, and no further poll";
  EXPECT_TRUE(io_.stopped());
}

TEST_F(FleetFollowerTest, WhatCouldNotBeReadIsLookedForAgain) {
  start();
  database_.break_fleet();
  follower_->poll();
  follower_->poll();
  EXPECT_EQ(told_count_, 0U);
  EXPECT_EQ(log_.count("fleet_unreadable"), 1U);
  database_.mend_fleet();
  follower_->poll();
  EXPECT_EQ(told_count_, 1U);
  database_.break_fleet();
  ASSERT_EQ(database_.command.set_run_state(run_, StoredRunState::kPauseRequested), StoreStatus::kOk);
  follower_->poll();
  EXPECT_EQ(log_.count("fleet_unreadable"), 2U) << "it could be read in between";
  EXPECT_NE(coordinator_->run_state(), gs_RunState_RUN_STATE_PAUSED);
  database_.mend_fleet();
  follower_->poll();
  EXPECT_EQ(coordinator_->run_state(), gs_RunState_RUN_STATE_PAUSED);
}

// A thousand devices are enrolled, and a change of one of them costs one row.
TEST_F(FleetFollowerTest, AChangeCostsTheRowsThatItChanged) {
  std::vector<EnrolledDevice> rows(1000);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].name = "many-" + std::to_string(i);
  }
  EXPECT_EQ(value_of(database_.command.add_devices(rows, 1)), "");
  start();
  follower_->poll();
  EXPECT_EQ(follower_->row_count(), 1000U) << "the first one reads all";
  uint64_t count = follower_->row_count();
  const auto read_rows = [&] {
    follower_->poll();
    return follower_->row_count() - std::exchange(count, follower_->row_count());
  };
  EXPECT_EQ(read_rows(), 0U);
  database_.enrol(1);
  EXPECT_EQ(read_rows(), 1U);
  EXPECT_EQ(follower_->devices().back().name, "device-1");
  database_.set_state("many-500", DeviceState::kDisabled);
  EXPECT_EQ(read_rows(), 1U);
  EXPECT_TRUE(excluded()[500]);
  database_.set_state("many-500", DeviceState::kActive);
  EXPECT_TRUE(value_of(database_.command.revoke_device("many-7")));
  EXPECT_TRUE(value_of(database_.command.rotate_key("many-8", FleetDatabase::key_of(9), 1500)));
  EXPECT_EQ(read_rows(), 3U) << "of three changes";
  EXPECT_FALSE(excluded()[500]);
  EXPECT_TRUE(excluded()[7]);
  ClaimRow claim;
  claim.name = "batch";
  claim.count_max = 1;
  claim.expires_ms = 100'000;
  const std::optional<uint32_t> id = value_of(database_.command.add_claim(claim));
  EXPECT_EQ(read_rows(), 0U) << "no device has changed";
  EXPECT_EQ(value_of(database_.command.claim_device(*id, "claimed", FleetDatabase::key_of(3), 1000)),
            ClaimOutcome::kGranted);
  EXPECT_EQ(read_rows(), 1U);
  now_ms_ = 1500;
  EXPECT_EQ(read_rows(), 0U);
  EXPECT_EQ(read_rows(), 1U) << "the key that has just expired";
  ASSERT_EQ(database_.command.set_run_state(run_, StoredRunState::kPauseRequested), StoreStatus::kOk);
  EXPECT_EQ(read_rows(), 0U);
  EXPECT_EQ(coordinator_->run_state(), gs_RunState_RUN_STATE_PAUSED);
  follower_->cancel();
}

// The clock is asked after the rows are read and before their number is noted: there another change comes.
TEST_F(FleetFollowerTest, AChangeThatComesWhileReadingIsNotLost) {
  start();
  follower_->poll();
  on_clock_ = [this] {
    database_.enrol(4);
    database_.set_state("device-1", DeviceState::kDisabled);
  };
  database_.enrol(3);
  ASSERT_TRUE(follower_->refresh());
  EXPECT_EQ(on_clock_, nullptr);
  ASSERT_TRUE(follower_->refresh());
  EXPECT_EQ(follower_->devices().size(), 4U);
  EXPECT_THAT(excluded(), ElementsAre(true, false, false, false));
  EXPECT_EQ(log_.count("device_added"), 2U);
  follower_->cancel();
}

// A copy of some time ago takes the database's place: its number is lower, and nothing above ours would ever be read.
TEST_F(FleetFollowerTest, AnOlderCopyIsReadInFull) {
  start();
  const std::string copy = database_.path() + ".copy";
  database_.save(copy);
  database_.enrol(3);
  database_.set_state("device-1", DeviceState::kDisabled);
  follower_->poll();
  EXPECT_THAT(excluded(), ElementsAre(true, false, false));
  database_.restore(copy);
  database_.set_state("device-2", DeviceState::kDisabled);  // the copy goes on, with numbers that were known before
  follower_->poll();
  EXPECT_THAT(excluded(), ElementsAre(false, true, true)) << "who is in no row takes no part";
  EXPECT_EQ(follower_->devices().size(), 3U) << "the run's indices stay";
  database_.enrol(9);  // gets the index of device-3
  follower_->poll();
  EXPECT_THAT(log_.find("device_replaced"), HasSubstr("device=device-3 by=device-9 index=2"));
  EXPECT_THAT(excluded(), ElementsAre(false, true, true)) << "nobody takes part under another's index";
  follower_->cancel();
}

}  // namespace
}  // namespace gradstream
