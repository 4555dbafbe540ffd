// What needs attention: each sentence is provoked by a snapshot of its own.
#include "server/watch/attention.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kNowMs = 1'700'000'000'000;
constexpr uint64_t kMinuteMs = 60'000;

// A run of 12 devices that goes well: a version each second, and all devices in time.
class AttentionTest : public testing::Test {
 protected:
  AttentionTest() {
    s_.taken_ms = s_.devices_taken_ms = kNowMs;
    s_.place.served_since_ms = kNowMs - 10 * kMinuteMs;
    s_.run_state = gs_RunState_RUN_STATE_ACTIVE;
    s_.has_version = true;
    s_.version = 20;
    s_.round_count = 100;
    s_.rounds_done = 20;
    s_.round = {12, 3, 12};
    s_.silent_after_ms = kMinuteMs;
    s_.enrolled.active = 12;
    parameters_->trigger->device_count = 12;
    parameters_->trigger->round_count = 100;
    for (uint32_t i = 0; i < 12; ++i) {
      DeviceStatus device;
      device.name = "pump-" + std::to_string(i + 1);
      device.index = i;
      device.connected = device.is_asked = true;
      device.last_seen_ms = kNowMs - 100;
      device.last_verdict = gs_Verdict_VERDICT_FOLDED;
      device.firmware_version = "0.1.1";
      devices_.push_back(device);
    }
    for (uint32_t i = 0; i < 20; ++i) {
      add_round(1000, 0, {});
    }
  }

  void add_round(uint64_t time_ms, uint64_t waited_ms, const std::vector<std::string>& waited_for) {
    WatchedRound round;
    round.summary.version = static_cast<uint32_t>(s_.rounds.size()) + 1;
    round.summary.asked = 12;
    round.summary.folded = waited_for.empty() ? 12 : 11;
    round.summary.trigger = waited_for.empty() ? "goal" : "deadline";
    round.summary.loss_before = 2.0 / round.summary.version;
    round.summary.waited_ms = waited_ms;
    round.summary.waited_for = waited_for;
    for (WatchedRound& before : s_.rounds) {
      before.summary.time_ms -= time_ms;
      before.summary.opened_ms -= time_ms;
    }
    round.summary.time_ms = kNowMs;
    round.summary.opened_ms = kNowMs - time_ms;
    s_.rounds.push_back(round);
  }
  void lack(size_t count, const std::string& lacks) {
    for (size_t i = 0; i < count; ++i) {
      devices_[i].is_capable = false;
      devices_[i].image.lacks = lacks;
    }
  }
  std::vector<Attention> all() {
    s_.parameters = parameters_;
    s_.devices = std::make_shared<std::vector<DeviceStatus>>(devices_);
    std::vector<Attention> said = attention_of(s_);
    std::set<std::string> ids;
    for (const Attention& one : said) {
      EXPECT_TRUE(ids.insert(one.id).second) << one.id << " twice";
      EXPECT_TRUE(one.text.ends_with('.') && one.remedy.ends_with('.')) << one.text << " | " << one.remedy;
      const auto known = attention_ids();
      EXPECT_TRUE(std::any_of(known.begin(), known.end(), [&](const char* id) { return one.id == std::string(id); }));
    }
    return said;
  }
  // The sentence of that id; with empty texts where there is none.
  Attention said(const std::string& id) {
    for (const Attention& one : all()) {
      if (one.id == id) {
        return one;
      }
    }
    return {};
  }

  WatchSnapshot s_;
  std::shared_ptr<RunParameters> parameters_ = std::make_shared<RunParameters>();
  std::vector<DeviceStatus> devices_;
};

TEST_F(AttentionTest, ARunThatGoesWellNeedsNone) {
  EXPECT_TRUE(all().empty()) << all().front().text;
  EXPECT_TRUE(attention_of(WatchSnapshot()).empty());
}

TEST_F(AttentionTest, NobodyCanDoTheProblem) {
  s_.run_state = gs_RunState_RUN_STATE_STALLED;
  s_.stall = {"not_capable", "12 of 12 devices lack", "start"};
  lack(12, "problem:logistic");
  const std::vector<Attention> now = all();
  ASSERT_EQ(now.size(), 1U) << "the stall has no second sentence";
  EXPECT_EQ(now[0].level, AttentionLevel::kStops);
  EXPECT_EQ(now[0].text, "None of 12 devices can do this run: they lack the problem logistic.");
  EXPECT_THAT(now[0].remedy, HasSubstr("Flash an image that links the problem logistic; they run firmware 0.1.1."));
  devices_[0].image.lacks = devices_[1].image.lacks = "manifold:sphere";
  EXPECT_EQ(said("nobody_capable").text, "None of 12 devices can do this run: 10 of them lack the problem logistic.");
  devices_[0].image.lacks = "problem:logistic";
  devices_.resize(1);
  EXPECT_THAT(said("nobody_capable").text, HasSubstr("The only device, pump-1, cannot do this run: it lacks"));
}

TEST_F(AttentionTest, SomeDevicesCannotDoTheProblem) {
  lack(5, "manifold:sphere,samples:64");
  Attention one = said("not_capable");
  EXPECT_EQ(one.level, AttentionLevel::kStops) << "a version wants 12, and 7 can";
  EXPECT_EQ(one.text,
            "5 of 12 devices (pump-1, pump-2, pump-3 and 2 others) cannot do this run: they lack the manifold sphere "
            "and 64 samples.");
  EXPECT_EQ(one.command, "gradstream device disable pump-1");
  s_.round.wanted = 7;
  EXPECT_EQ(said("not_capable").level, AttentionLevel::kSlows);
  s_.run_state = gs_RunState_RUN_STATE_FINISHED;
  EXPECT_TRUE(all().empty());
}

TEST_F(AttentionTest, EachVersionWaitsForADevice) {
  devices_[11].connected = false;
  devices_[11].last_seen_ms = kNowMs - 3 * kMinuteMs;
  add_round(6000, 5000, {"pump-12"});
  add_round(6000, 5000, {"pump-12"});
  EXPECT_EQ(said("waits_for_device").text, "") << "two rounds are chance";
  for (int i = 0; i < 6; ++i) {
    add_round(6000, 5000, {"pump-12"});
  }
  Attention one = said("waits_for_device");
  EXPECT_EQ(one.text, "Each version waits 5.0 s for pump-12, last seen 3 min ago.");
  EXPECT_EQ(one.remedy, "Switch it on, or disable it, or begin a run with update_goal below 12.");
  EXPECT_EQ(one.command, "gradstream device disable pump-12");
  EXPECT_EQ(said("silent").text, "") << "the same is told above";
  devices_[11].is_revoked = true;
  EXPECT_EQ(said("waits_for_device").text, "") << "it was disabled";
}

TEST_F(AttentionTest, TheOpenVersionWaitsForADevice) {
  devices_[11].connected = false;
  devices_[11].waits.is_awaited = true;
  devices_[11].last_seen_ms = kNowMs - 3 * kMinuteMs;
  s_.round.opened_ms = kNowMs - 2 * kMinuteMs;
  EXPECT_EQ(said("waits_for_device").text, "") << "it has its time";
  s_.round.extensions = 1;
  const Attention one = said("waits_for_device");
  EXPECT_EQ(one.text, "The open version has waited 2 min for pump-12.");
  EXPECT_EQ(one.remedy, "Switch it on, or disable it. The run stalls if too few devices answer.");
  EXPECT_EQ(one.command, "gradstream device disable pump-12");
  EXPECT_EQ(said("silent").text, "") << "the same is told above";
  parameters_->trigger.keys().seen_versions = 2;
  EXPECT_THAT(said("waits_for_device").remedy, HasSubstr("After the last extension the version closes without it."));
  devices_[10].waits.is_awaited = true;
  EXPECT_EQ(said("waits_for_device").text, "The open version has waited 2 min for pump-11 and pump-12.");
}

TEST_F(AttentionTest, EachVersionWaitsForTheSlowest) {
  for (int i = 0; i < 10; ++i) {
    add_round(4000, 2500, {"pump-7"});
    s_.rounds.back().summary.trigger = "goal";  // with fewer than all, which is enough
  }
  Attention one = said("waits_for_device");
  EXPECT_EQ(one.text, "Each version waits 2.5 s for pump-7, which answers last.");
  EXPECT_THAT(one.remedy, HasSubstr("work = \"timed\""));
  EXPECT_EQ(one.command, "");
  for (WatchedRound& round : s_.rounds) {
    round.summary.waited_ms = round.summary.waited_ms == 0 ? 0 : 900;
  }
  EXPECT_EQ(said("waits_for_device").text, "") << "below a second nobody acts";
}

TEST_F(AttentionTest, ADeviceThatHasJustGoneIsNotCalledSlow) {
  devices_[11].connected = false;
  for (int i = 0; i < 4; ++i) {
    add_round(1000, 100, {"pump-1"});
    s_.rounds.back().summary.trigger = "goal";
  }
  add_round(4000, 2500, {"pump-12"});
  s_.rounds.back().summary.trigger = "goal";
  for (int i = 0; i < 6; ++i) {
    add_round(4000, 2500, {"pump-12"});
  }
  EXPECT_EQ(said("waits_for_device").command, "gradstream device disable pump-12");
}

TEST_F(AttentionTest, SeveralDevicesThatAreWaitedForAreCounted) {
  for (int i = 0; i < 10; ++i) {
    add_round(4000, 2500, {"pump-2", "pump-3", "pump-4", "pump-5"});
  }
  EXPECT_THAT(said("waits_for_device").text, HasSubstr("for pump-2, pump-3, pump-4 and 1 other."));
  devices_[1].is_revoked = true;
  EXPECT_THAT(said("waits_for_device").text, HasSubstr("for pump-3, pump-4 and pump-5.")) << "one was disabled since";
  EXPECT_EQ(said("waits_for_device").command, "gradstream device disable pump-3");
}

TEST_F(AttentionTest, SeveralDevicesThatAreWaitedForInVainAreToldOnce) {
  for (const size_t i : {1, 2}) {
    devices_[i].connected = false;
    devices_[i].last_seen_ms = kNowMs - (2 + i) * kMinuteMs;
  }
  for (int i = 0; i < 10; ++i) {
    add_round(6000, 5000, {"pump-2", "pump-3"});
  }
  EXPECT_EQ(said("waits_for_device").text,
            "Each version waits 5.0 s for pump-2 and pump-3, the first last seen 4 min ago.");
  EXPECT_EQ(said("silent").text, "");
  devices_[4].connected = false;
  devices_[4].last_seen_ms = kNowMs - 7 * kMinuteMs;
  EXPECT_THAT(said("silent").text, HasSubstr("pump-5 was last seen 7 min ago"));
}

TEST_F(AttentionTest, OfAStalledRunOneSentenceNamesTheMissingDevice) {
  s_.run_state = gs_RunState_RUN_STATE_STALLED;
  s_.round = {12, 11, 12};
  for (DeviceStatus& device : devices_) {
    device.has_answered = true;
  }
  devices_[3].has_answered = devices_[3].connected = false;
  devices_[3].last_seen_ms = kNowMs - 3 * kMinuteMs;
  ASSERT_EQ(all().size(), 1U);
  EXPECT_THAT(all()[0].text, HasSubstr("pump-4 is missing, last seen 3 min ago."));
  devices_[3].last_seen_ms = 0;
  ASSERT_EQ(all().size(), 1U);
  EXPECT_THAT(all()[0].text, HasSubstr("pump-4 is missing."));
}

TEST_F(AttentionTest, DevicesThatWereNeverThere) {
  devices_[3].connected = devices_[4].connected = false;
  devices_[3].last_seen_ms = devices_[4].last_seen_ms = 0;
  Attention one = said("never_connected");
  EXPECT_EQ(one.level, AttentionLevel::kSlows);
  EXPECT_EQ(one.text,
            "2 of 12 devices (pump-4 and pump-5) have not been heard of since the server began to serve the run 10 min "
            "ago, and a version wants 12 of 12 answers.");
  s_.silent_after_ms = 10'000;
  s_.place.served_since_ms = kNowMs - 30'000;
  EXPECT_TRUE(all().empty()) << "devices that waited for a run come back within a minute";
}

TEST_F(AttentionTest, DevicesThatAreGone) {
  devices_[0].name = "pump 'A'";
  devices_[0].connected = false;
  devices_[0].last_seen_ms = kNowMs - 3 * 60 * kMinuteMs;
  s_.round.wanted = 6;
  Attention one = said("silent");
  EXPECT_EQ(one.level, AttentionLevel::kAdvice);
  EXPECT_EQ(one.text, "pump 'A' was last seen 3 h ago.");
  EXPECT_EQ(one.command, "gradstream device disable 'pump '\\''A'\\'''");
}

TEST_F(AttentionTest, AStalledRunNamesWhoIsMissing) {
  s_.run_state = gs_RunState_RUN_STATE_STALLED;
  s_.round = {12, 5, 7};
  for (size_t i = 0; i < 12; ++i) {
    devices_[i].has_answered = i >= 7;
    devices_[i].connected = i >= 7;
    devices_[i].last_seen_ms = i >= 7 ? kNowMs : kNowMs - 40 * kMinuteMs;
  }
  const Attention first = all().front();
  EXPECT_STREQ(first.id, "stalled");
  EXPECT_EQ(first.text,
            "The run stands still: 5 of 12 devices have answered, and a version needs 7. pump-1, pump-2, pump-3 and 4 "
            "others are missing, the first last seen 40 min ago.");
  EXPECT_EQ(said("silent").text, "") << "of one device one sentence says that it is away";
  devices_[11].is_asked = devices_[11].connected = false;
  devices_[11].last_seen_ms = kNowMs - 3 * kMinuteMs;
  EXPECT_THAT(said("silent").text, HasSubstr("pump-12 was last seen 3 min ago")) << "nobody waits for it";
  EXPECT_THAT(first.remedy, HasSubstr("disable those that are gone for good"));
  s_.stall = {"out_of_range", "updates of 2 devices are refused", "lower fold_scale_log2"};
  EXPECT_EQ(said("stalled_by_cause").text, "The run stands still: Updates of 2 devices are refused.");
  EXPECT_EQ(said("stalled_by_cause").remedy, "Lower fold_scale_log2.");
  EXPECT_EQ(said("stalled").text, "");
}

TEST_F(AttentionTest, ANewRunWaitsForItsFleetToComeBack) {
  s_.run_state = gs_RunState_RUN_STATE_STALLED;
  s_.place.served_since_ms = kNowMs - 20'000;
  for (DeviceStatus& device : devices_) {
    device.connected = false;
    device.last_seen_ms = 0;
  }
  ASSERT_EQ(all().size(), 1U);
  EXPECT_EQ(all()[0].text,
            "12 of 12 devices (pump-1, pump-2, pump-3 and 9 others) have not been heard of since the server began to "
            "serve the run 20 s ago.");
  EXPECT_EQ(all()[0].level, AttentionLevel::kAdvice);
  EXPECT_EQ(all()[0].command, "") << "they are well, and nobody is to disable them";
  devices_[0].connected = devices_[0].has_answered = true;
  devices_[0].last_seen_ms = kNowMs;
  EXPECT_EQ(said("stalled").level, AttentionLevel::kAdvice) << "one is back";
  devices_[0].has_answered = false;
  s_.place.served_since_ms = kNowMs - 61'000;
  EXPECT_EQ(said("stalled").level, AttentionLevel::kStops);
  devices_[0].connected = false;
  devices_[0].last_seen_ms = kNowMs - 2 * kMinuteMs;
  s_.place.served_since_ms = kNowMs - 10 * kMinuteMs;
  EXPECT_THAT(said("stalled").remedy, HasSubstr("All devices are away"));
  EXPECT_EQ(said("stalled").command, "") << "a run does not go on by fewer devices that are all away";
}

TEST_F(AttentionTest, ARunThatHasNotBegunOrIsPaused) {
  s_.has_version = false;
  s_.enrolled.active = 9;
  for (const gs_RunState state : {gs_RunState_RUN_STATE_NONE, gs_RunState_RUN_STATE_ACTIVE}) {
    s_.run_state = state;
    EXPECT_EQ(said("waits_for_fleet").text, "The run begins with 12 active devices (device_count), and there are 9.");
  }
  s_.enrolled.pending = 2;
  EXPECT_THAT(said("waits_for_fleet").text, HasSubstr("2 more are pending."));
  s_.run_state = gs_RunState_RUN_STATE_PAUSED;
  EXPECT_EQ(said("paused").command, "gradstream run resume");
}

TEST_F(AttentionTest, HowTheRunGoes) {
  s_.progress.state = ProgressState::kNotImproving;
  s_.progress.ratio = 12;
  EXPECT_THAT(said("not_improving").text, HasSubstr("The run does not improve: The last 10 rounds promised 12 times"));
  EXPECT_THAT(said("not_improving").remedy, HasSubstr("Begin a run with step_size = "));
  s_.progress.state = ProgressState::kDiverged;
  s_.progress.diverged_by = DivergedBy::kStep;
  EXPECT_EQ(said("diverged").level, AttentionLevel::kStops);
  s_.progress.state = ProgressState::kSettled;
  EXPECT_EQ(said("settled").level, AttentionLevel::kAdvice);
  EXPECT_EQ(said("settled").command, "") << "to end a run is no repair";
  EXPECT_THAT(said("settled").remedy, HasSubstr("shorter step"));
  parameters_->steps->step_size = 0;
  EXPECT_EQ(said("settled").remedy, "Where it is good enough, stop the run or let it end.") << "it has its own step";
  parameters_->steps->step_size = 0.1F;
  s_.progress.state = ProgressState::kStillFalling;
  EXPECT_EQ(said("still_falling").text, "") << "it is to fall";
  s_.rounds_done = 90;
  EXPECT_THAT(said("still_falling").remedy, HasSubstr("Give it more rounds"));
}

TEST_F(AttentionTest, WorkThatIsRefused) {
  devices_[1].last_verdict = devices_[2].last_verdict = gs_Verdict_VERDICT_REFUSED;
  devices_[1].last_reason.reason = devices_[2].last_reason.reason = gs_Reason_REASON_OUT_OF_RANGE;
  EXPECT_EQ(said("updates_refused").text,
            "The last work of 2 of 12 devices (pump-2 and pump-3) was refused: out_of_range.");
  for (size_t i = 0; i < 3; ++i) {
    devices_[i].is_capable = false;
    devices_[i].last_reason = {gs_Reason_REASON_PRIVACY, gs_Floor_FLOOR_BATCH_SIZE};
  }
  EXPECT_THAT(said("updates_refused").text, HasSubstr("pump-3) was refused: privacy, floor batch_size."));
}

TEST_F(AttentionTest, ARunWhoseLossesNobodyTells) {
  for (size_t i = 1; i < s_.rounds.size(); ++i) {
    s_.rounds[i].summary.has_losses = false;
  }
  EXPECT_EQ(said("no_loss").text, "") << "19 rounds";
  s_.rounds[0].summary.has_losses = false;
  EXPECT_EQ(said("no_loss").level, AttentionLevel::kAdvice);
  EXPECT_THAT(said("no_loss").remedy, HasSubstr("holdout_share = 0.1 and evaluation_period = 1"));
  parameters_->quality->evaluation_period = 1;
  EXPECT_EQ(said("no_loss").text, "") << "the evaluation tells";
  parameters_->quality->evaluation_period = 0;
  s_.rounds.back().summary.has_losses = true;
  EXPECT_EQ(said("no_loss").text, "") << "one device is enough";
}

TEST_F(AttentionTest, UpdatesThatAreLongAgainAndAgain) {
  devices_[2].oddity = {false, 9, 1, true};
  devices_[3].oddity = {false, 1, 0, false};
  EXPECT_EQ(said("update_outlier").text, "Half of the last updates of pump-3 were longer than twice the median.");
  EXPECT_THAT(said("update_outlier").remedy, HasSubstr("raise clip_factor"));
}

TEST_F(AttentionTest, DevicesThatKnowAnotherJournal) {
  devices_[2].oddity.knows_other_journal = true;
  const Attention one = said("journal_forked");
  EXPECT_EQ(one.text,
            "pump-3 knows records of this run that the database does not have, or says so: one device alone may lie.");
  EXPECT_EQ(one.level, AttentionLevel::kAdvice);
  devices_[4].oddity.knows_other_journal = true;
  const Attention two = said("journal_forked");
  EXPECT_EQ(two.text,
            "2 of 12 devices (pump-3 and pump-5) know records of this run that the database does not have: it is an "
            "older copy, or was changed.");
  EXPECT_EQ(two.level, AttentionLevel::kSlows);
  EXPECT_THAT(two.command, HasSubstr("run verify"));
  devices_[2].is_revoked = devices_[4].is_revoked = true;
  EXPECT_EQ(said("journal_forked").text, "");
}

TEST_F(AttentionTest, DevicesThatHeldALaterVersion) {
  devices_[2].oddity.holds_later_version = true;
  const Attention one = said("device_ahead");
  EXPECT_EQ(one.text,
            "pump-3 held a later version of this run that the database does not have, or says so: one device alone may "
            "lie.");
  EXPECT_EQ(one.level, AttentionLevel::kAdvice);
  devices_[4].oddity.holds_later_version = true;
  const Attention two = said("device_ahead");
  EXPECT_EQ(two.text,
            "2 of 12 devices (pump-3 and pump-5) held later versions of this run that the database does not have: it "
            "is an older copy.");
  EXPECT_EQ(two.level, AttentionLevel::kSlows);
  EXPECT_THAT(two.remedy, HasSubstr("restore on purpose"));
  devices_[4].oddity.knows_other_journal = true;
  EXPECT_THAT(said("journal_forked").text, HasSubstr("pump-5"));
  EXPECT_THAT(said("device_ahead").text, testing::Not(HasSubstr("pump-5"))) << "of one device one sentence says so";
  devices_[2].is_revoked = true;
  EXPECT_EQ(said("device_ahead").text, "");
}

TEST_F(AttentionTest, UnitsEvaluationsAndFirmware) {
  s_.outliers = {{"pump-4", 7, 100, 3.25}};
  EXPECT_EQ(said("units_outlier").text,
            "The sums of pump-4 do not count for the units of the fleet's columns. pump-4 has in column 7 100, and the "
            "others allow 3.25.");
  s_.outliers.clear();
  devices_[4].oddity.is_left_out = true;
  EXPECT_THAT(said("units_outlier").text, HasSubstr("The sums of pump-5 do not count"));
  parameters_->quality->evaluation_period = 1;
  for (size_t i = 0; i < 11; ++i) {
    devices_[i].image.features = 1U << static_cast<uint32_t>(gs_Feature_FEATURE_EVALUATION);
  }
  EXPECT_THAT(said("cannot_evaluate").text, HasSubstr("pump-12 cannot evaluate"));
  devices_[0].firmware_version = "0.1.0";
  devices_[1].firmware_version = "0.12.0";
  devices_[2].firmware_version = "own-build";
  devices_[3].firmware_version = "0.12.0";
  Attention one = said("old_firmware");
  EXPECT_THAT(one.text, HasSubstr("9 of 12 devices (pump-1, pump-5, pump-6 and 6 others) run old firmware, such as "
                                  "0.1.0; the newest in the fleet is 0.12.0."));
  for (size_t i = 0; i < 12; ++i) {
    devices_[i].firmware_version = i < 6 ? "2.3.1" : "0.1.0";
    devices_[i].board = i < 6 ? "pump-board" : "linux-x86_64";
  }
  EXPECT_EQ(said("old_firmware").text, "") << "images of two boards have numbers of their own";
  devices_[0].firmware_version = "2.3.0";
  EXPECT_EQ(said("old_firmware").text, "pump-1 runs old firmware, such as 2.3.0; the newest on pump-board is 2.3.1.");
}

TEST_F(AttentionTest, DiskAndDatabase) {
  s_.place.disk_size_bytes = 20ULL << 30;
  s_.place.disk_free_bytes = 1100ULL << 20;
  EXPECT_TRUE(all().empty());
  s_.place.disk_free_bytes = 500ULL << 20;
  EXPECT_EQ(said("disk_low").text,
            "The file system of the database has 500 MiB free of 20 GiB, and less than 1.0 GiB is little.");
  EXPECT_EQ(said("disk_low").level, AttentionLevel::kAdvice);
  s_.place.disk_free_bytes = 10ULL << 20;
  EXPECT_EQ(said("disk_low").level, AttentionLevel::kSlows);
  s_.place.is_storage_failed = true;
  EXPECT_STREQ(all().front().id, "storage_failed");
  EXPECT_EQ(said("disk_low").text, "") << "one sentence";
  s_.place.database_fault = "database a.db was removed; put it back";
  EXPECT_EQ(said("database_moved").text, "Database a.db was removed.");
  EXPECT_EQ(said("database_moved").remedy, "Put it back.");
}

TEST_F(AttentionTest, ConnectionsCertificatesAndClock) {
  s_.place.refusals = {4, "wrong_keys"};
  EXPECT_TRUE(all().empty());
  s_.place.refusals = {34, "wrong_keys"};
  EXPECT_EQ(said("connections_refused").text, "34 connections were refused within 60 s, most of them as wrong_keys.");
  EXPECT_THAT(said("connections_refused").remedy, HasSubstr("identity file"));
  s_.place.refusals = {34, "inactive_identities"};
  EXPECT_EQ(said("connections_refused").text, "") << "somebody has disabled them";
  s_.enrolled.pending = 1;
  EXPECT_THAT(said("connections_refused").remedy, HasSubstr("Enable the devices"));
  s_.place.places = 10;
  EXPECT_THAT(said("places_short").text, HasSubstr("12 devices are active, and the server has places for 10"));
  s_.place.clock_behind_ms = 3 * 60 * kMinuteMs;
  EXPECT_THAT(said("clock_behind").text, HasSubstr("3 h behind"));
  s_.place.certificate = "/etc/server.pem";
  s_.place.certificate_ends_ms = kNowMs + kCertificateToldMs;
  EXPECT_EQ(said("certificate_ends").text, "");
  s_.place.certificate_ends_ms = kNowMs + 10 * 24 * 60 * kMinuteMs;
  EXPECT_EQ(said("certificate_ends").text, "The certificate /etc/server.pem ends in 10 days.");
  s_.place.certificate_ends_ms = kNowMs - 5 * kMinuteMs;
  EXPECT_EQ(said("certificate_ends").level, AttentionLevel::kStops);
}

TEST_F(AttentionTest, TheWorstComesFirst) {
  devices_[0].firmware_version = "0.1.0";
  s_.place.clock_behind_ms = 2 * kMinuteMs;
  s_.place.is_storage_failed = true;
  const std::vector<Attention> now = all();
  ASSERT_EQ(now.size(), 3U);
  EXPECT_STREQ(now[0].id, "storage_failed");
  EXPECT_STREQ(now[1].id, "clock_behind");
  EXPECT_STREQ(now[2].id, "old_firmware");
}

TEST_F(AttentionTest, ThePageOfTheSentencesListsThemAll) {
  std::ifstream file(GS_SOURCE_DIR "/docs/how-to/attention.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const char* const id : attention_ids()) {
    EXPECT_THAT(page, HasSubstr("`" + std::string(id) + "`"));
  }
}

}  // namespace
}  // namespace gradstream
