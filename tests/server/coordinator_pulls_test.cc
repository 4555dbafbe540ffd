// Pulls that are held: who is, what ends it, and that nobody else notices. Acks that stand for a Pull.
#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "server/coordinator/coordinator.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kHoldMs = 30'000;

gs_Hello hello_without(gs_Feature feature) {
  gs_Hello hello = good_hello(10);
  hello.capabilities.features &= ~(1U << static_cast<uint32_t>(feature));
  return hello;
}

// Four devices, of which some have answered version 0 and pulled again.
struct HeldFleet : TestServer {
  explicit HeldFleet(const RunParameters& p) : TestServer(p) { start(); }

  size_t sent_to(uint32_t device) const {
    return static_cast<size_t>(
        std::count_if(sent.begin(), sent.end(), [&](const Action& each) { return each.session == session(device); }));
  }
  void answer(uint32_t device) { upload(device, good_upload(device)); }
  void pull_held(uint32_t device, uint32_t hold_ms = kHoldMs) {
    pull(device, true, coordinator->durable_version(), coordinator->digest(), hold_ms);
  }
  // They answer and ask again, and are told nothing.
  void hold(uint32_t count) {
    for (uint32_t device = 0; device < count; ++device) {
      answer(device);
      pull_held(device);
    }
    held_from = sent.size();
  }
  uint32_t held() const { return coordinator->round_progress().held; }
  // The bodies sent since hold(), of one device.
  std::vector<pb_size_t> told(uint32_t device) const {
    std::vector<pb_size_t> tags;
    for (size_t i = held_from; i < sent.size(); ++i) {
      if (sent[i].session == session(device)) {
        tags.push_back(sent[i].message.which_body);
      }
    }
    return tags;
  }
  size_t held_from = 0;
};

const std::vector<pb_size_t> kRecordAndTask = {gs_ServerMessage_log_chunk_tag, gs_ServerMessage_task_tag};
const std::vector<pb_size_t> kWaitAlone = {gs_ServerMessage_wait_tag};

TEST(CoordinatorPulls, AHeldPullIsAnsweredByTheNextVersion) {
  HeldFleet fleet(scalar_parameters());
  fleet.join(4);
  fleet.hold(3);
  EXPECT_EQ(fleet.held(), 3U);
  EXPECT_TRUE(fleet.told(0).empty());
  fleet.answer(3);
  EXPECT_EQ(fleet.held(), 0U);
  for (uint32_t device = 0; device < 3; ++device) {
    EXPECT_EQ(fleet.told(device), kRecordAndTask);
    EXPECT_EQ(fleet.task(device)->version, 1U);
  }
  EXPECT_EQ(fleet.coordinator->counters().messages_unexpected, 0U);
}

// What a device gets is, byte for byte, what one gets that asks when the version is there.
TEST(CoordinatorPulls, AHeldPullGetsTheBytesOfAnyOther) {
  std::vector<std::vector<uint8_t>> frames[2];
  for (const bool is_held : {false, true}) {
    HeldFleet fleet(scalar_parameters());
    fleet.join(4);
    for (uint32_t device = 0; device < 3; ++device) {
      fleet.answer(device);
    }
    if (is_held) {
      fleet.pull_held(1);
    }
    const uint64_t digest = fleet.coordinator->digest();
    fleet.held_from = fleet.sent.size();
    fleet.answer(3);
    if (!is_held) {
      fleet.pull(1, true, 0, digest);
    }
    for (size_t i = fleet.held_from; i < fleet.sent.size(); ++i) {
      if (fleet.sent[i].session == fleet.session(1)) {
        std::vector<uint8_t>& frame = frames[is_held ? 1 : 0].emplace_back(kFrameSizeMax);
        frame.resize(encode_frame(fleet.sent[i].message, frame.data()).value());
      }
    }
  }
  EXPECT_EQ(frames[0].size(), 2U);
  EXPECT_EQ(frames[0], frames[1]);
}

TEST(CoordinatorPulls, TheShortestOfThreeTimesEndsAHold) {
  HeldFleet fleet(scalar_parameters());
  fleet.parameters.trigger->report_deadline_ms = 1;  // of the copy alone
  fleet.coordinator->set_limits({{}, 20'000});
  fleet.join(4);
  fleet.answer(0);
  fleet.pull_held(0, 500);
  fleet.answer(1);
  fleet.pull_held(1, 40'000);
  fleet.held_from = fleet.sent.size();
  EXPECT_EQ(fleet.coordinator->next_tick_ms(), 1500U);
  EXPECT_TRUE(fleet.coordinator->device_statuses()[0].waits.holds);
  EXPECT_FALSE(fleet.coordinator->device_statuses()[2].waits.holds);
  fleet.tick_at(1499);
  EXPECT_TRUE(fleet.told(0).empty());
  fleet.tick_at(1500);
  EXPECT_EQ(fleet.told(0), kWaitAlone);
  EXPECT_EQ(fleet.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_ANSWERED);
  EXPECT_EQ(fleet.wait(0)->retry.max_ms, 1000U) << "the run's own window";
  EXPECT_FALSE(fleet.coordinator->device_statuses()[0].waits.holds);
  fleet.tick_at(20'999);
  EXPECT_TRUE(fleet.told(1).empty());
  fleet.tick_at(21'000);
  EXPECT_EQ(fleet.told(1), kWaitAlone) << "the server's own limit";
  EXPECT_EQ(fleet.coordinator->device_statuses()[1].last_seen_ms, 21'000U) << "nobody calls it silent";
}

// Whoever lacks the feature, asks for no hold, or is on a server that holds nobody, sees what it saw before.
TEST(CoordinatorPulls, NobodyElseIsHeld) {
  HeldFleet fleet(scalar_parameters());
  fleet.join(4);
  fleet.hello(0, hello_without(gs_Feature_FEATURE_HELD_PULL));
  fleet.pull_held(0);
  EXPECT_NE(fleet.task(0), nullptr);
  fleet.answer(0);
  EXPECT_FALSE(fleet.ack(0)->hold);
  fleet.held_from = fleet.sent.size();
  fleet.pull_held(0);
  EXPECT_EQ(fleet.told(0), kWaitAlone);
  fleet.answer(1);
  EXPECT_FALSE(fleet.ack(1)->hold) << "it pulled, and wanted no hold";
  fleet.pull_held(1, 0);
  EXPECT_EQ(fleet.told(1).back(), gs_ServerMessage_wait_tag);
  fleet.coordinator->set_limits({{}, 0});
  fleet.pull_held(1);
  EXPECT_EQ(fleet.told(1).back(), gs_ServerMessage_wait_tag);
  EXPECT_EQ(fleet.held(), 0U);
  fleet.pull_held(2);
  fleet.answer(2);
  EXPECT_FALSE(fleet.ack(2)->hold);
}

TEST(CoordinatorPulls, AnAckSaysWhetherAPullWouldBeHeld) {
  HeldFleet fleet(deadline_parameters());
  fleet.join(4);
  for (uint32_t device = 0; device < 4; ++device) {
    fleet.pull_held(device);  // the task that it has
  }
  fleet.answer(0);
  EXPECT_TRUE(fleet.ack(0)->hold);
  EXPECT_EQ(fleet.ack(0)->retry.max_ms, 1000U) << "for those that do not hold";
  TestUpload bad = fleet.good_upload(1);
  bad.crc_error = 1;
  fleet.upload(1, bad);
  EXPECT_FALSE(fleet.ack(1)->hold) << "a refused one has a task to get";
  const TestUpload late = fleet.good_upload(3);
  fleet.pull_held(1);
  fleet.answer(1);
  fleet.answer(2);  // closes version 0
  EXPECT_TRUE(fleet.ack(2)->hold);
  fleet.upload(3, late);
  EXPECT_EQ(fleet.ack(3)->verdict, gs_Verdict_VERDICT_LATE);
  EXPECT_FALSE(fleet.ack(3)->hold) << "there is a task for it already";
  fleet.hello(0);
  fleet.pull_held(0);
  fleet.coordinator->pause(fleet.now_ms);
  fleet.answer(0);
  EXPECT_FALSE(fleet.ack(0)->hold);
}

TEST(CoordinatorPulls, WhatTheDeviceSaysEndsItsHoldUnanswered) {
  HeldFleet fleet(scalar_parameters());
  fleet.join(4);
  fleet.hold(2);
  DeviceMessage report = {};
  report.which_body = gs_DeviceMessage_status_report_tag;
  fleet.send(0, report);
  EXPECT_EQ(fleet.held(), 2U);
  EXPECT_EQ(fleet.coordinator->counters().messages_unexpected, 0U);
  fleet.pull_held(0);  // once more: one answer is owed, not two
  EXPECT_EQ(fleet.held(), 2U);
  EXPECT_EQ(fleet.coordinator->counters().messages_unexpected, 1U);
  DeviceMessage refused = {};
  refused.which_body = gs_DeviceMessage_task_refused_tag;
  refused.body.task_refused.task_sequence = 77;
  refused.body.task_refused.reason = gs_Reason_REASON_OUT_OF_MEMORY;
  fleet.send(1, refused);
  EXPECT_EQ(fleet.told(1), kWaitAlone) << "to the refusal";
  EXPECT_EQ(fleet.held(), 1U);
  fleet.answer(2);
  fleet.answer(3);
  EXPECT_EQ(fleet.told(0), kRecordAndTask);
  EXPECT_EQ(fleet.told(1), kWaitAlone);
  EXPECT_EQ(fleet.coordinator->counters().messages_unexpected, 2U);
}

TEST(CoordinatorPulls, AClosedSessionIsHeldNoMore) {
  HeldFleet fleet(scalar_parameters());
  fleet.join(4);
  fleet.hold(2);
  fleet.now_ms += 20'000;
  fleet.coordinator->on_session_closed(fleet.session(0), fleet.now_ms);
  EXPECT_EQ(fleet.held(), 1U);
  EXPECT_EQ(fleet.coordinator->device_statuses()[0].last_seen_ms, fleet.now_ms) << "it was there all the time";
  fleet.hello(1);  // another session of the same device
  EXPECT_EQ(fleet.held(), 0U);
  EXPECT_EQ(fleet.coordinator->next_tick_ms(), 2000U) << "the round's deadline alone";
}

TEST(CoordinatorPulls, PauseStopDrainAndABrokenDiskEndAllHolds) {
  for (const int how : {0, 1, 2, 3, 4}) {
    HeldFleet fleet(scalar_parameters());
    fleet.join(4);
    fleet.hold(2);
    if (how == 0) {
      fleet.coordinator->pause(fleet.now_ms);
    } else if (how == 1) {
      fleet.coordinator->stop(fleet.now_ms);
    } else if (how == 2) {
      fleet.coordinator->drain(fleet.now_ms);
    } else if (how == 3) {
      fleet.coordinator->on_storage_failed(fleet.now_ms);
    } else {
      fleet.coordinator->on_device_disabled(0, fleet.now_ms);
      fleet.coordinator->on_device_revoked(1, fleet.now_ms);
    }
    fleet.collect();
    EXPECT_EQ(fleet.held(), 0U);
    const gs_WaitCause causes[] = {gs_WaitCause_WAIT_CAUSE_PAUSED, gs_WaitCause_WAIT_CAUSE_STOPPED,
                                   gs_WaitCause_WAIT_CAUSE_ANSWERED, gs_WaitCause_WAIT_CAUSE_ANSWERED};
    for (const uint32_t device : {0U, 1U}) {
      if (how == 4) {
        EXPECT_EQ(fleet.told(device), std::vector<pb_size_t>{gs_ServerMessage_refuse_tag});
        continue;
      }
      ASSERT_EQ(fleet.told(device), kWaitAlone) << how;
      EXPECT_EQ(fleet.wait(device)->cause, causes[how]);
    }
    if (how < 4) {
      fleet.pull_held(0);
      EXPECT_EQ(fleet.told(0).size(), 2U) << "nobody is held now";
    }
  }
}

TEST(CoordinatorPulls, TheEndOfTheRunIsTold) {
  RunParameters p = scalar_parameters();
  p.trigger->round_count = 1;
  HeldFleet fleet(p);
  fleet.join(4);
  fleet.hold(3);
  fleet.answer(3);
  EXPECT_EQ(fleet.told(0), (std::vector<pb_size_t>{gs_ServerMessage_log_chunk_tag, gs_ServerMessage_wait_tag}));
  EXPECT_EQ(fleet.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_FINISHED);
}

// Before there is a version, and in a run that is stalled.
TEST(CoordinatorPulls, AreHeldUntilTheRunOpensAndWhileItIsStalled) {
  TestServer server(scalar_parameters(), 3);
  server.start();
  server.hello(0);
  server.pull(0, false, 0, 0, kHoldMs);
  EXPECT_EQ(server.wait(0), nullptr);
  EXPECT_EQ(server.coordinator->round_progress().held, 1U);
  server.coordinator->on_device_added("d3", server.now_ms);
  server.collect();
  ASSERT_NE(server.task(0), nullptr);
  server.upload(0, server.good_upload(0));
  for (int i = 0; i < 3; ++i) {
    server.tick_at(server.coordinator->next_tick_ms());
  }
  ASSERT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  server.pull(0, true, 0, server.coordinator->digest(), kHoldMs);
  EXPECT_EQ(server.wait(0), nullptr);
  server.tick_at(server.now_ms + kHoldMs);
  ASSERT_NE(server.wait(0), nullptr);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_STALLED);
}

// The device whose hold began first is the first whose place is given away.
TEST(CoordinatorPulls, ThePlaceOfTheLongestHeldIsGivenFirst) {
  HeldFleet fleet(scalar_parameters());
  fleet.join(4);
  fleet.answer(2);
  fleet.pull_held(2, 40'000);
  fleet.now_ms += 10;
  fleet.answer(0);
  fleet.pull_held(0, 1'000);
  fleet.held_from = fleet.sent.size();
  EXPECT_EQ(fleet.coordinator->end_longest_hold(fleet.now_ms), fleet.session(2));
  fleet.collect();
  EXPECT_EQ(fleet.told(2), kWaitAlone);
  EXPECT_EQ(fleet.coordinator->end_longest_hold(fleet.now_ms), fleet.session(0));
  EXPECT_EQ(fleet.coordinator->end_longest_hold(fleet.now_ms), 0U);
}

// A version that is not durable wakes nobody; a commit that has several versions wakes them once.
TEST(CoordinatorPulls, OnlyADurableVersionWakes) {
  HeldFleet fleet(scalar_parameters());
  fleet.join(4);
  fleet.hold(3);
  fleet.is_auto_persist = false;
  fleet.answer(3);
  EXPECT_EQ(fleet.held(), 3U);
  EXPECT_TRUE(fleet.told(0).empty());
  fleet.tick_at(fleet.now_ms + kHoldMs);  // its time is over meanwhile: it waits for the record
  EXPECT_EQ(fleet.held(), 0U);
  EXPECT_TRUE(fleet.told(0).empty());
  fleet.persist();
  EXPECT_EQ(fleet.told(0), kRecordAndTask);
}

// ---- Pace ----

RunParameters paced_parameters(uint32_t device_count, uint32_t rate) {
  RunParameters p = scalar_parameters();
  p.trigger->device_count = device_count;
  p.pace->arrival_rate = rate;
  return p;
}

TEST(CoordinatorPulls, AVersionWakesAtTheArrivalRateInAnOrderOfItsOwn) {
  constexpr uint32_t kCount = 20;
  std::vector<uint32_t> orders[2];
  for (uint32_t version = 0; version < 2; ++version) {
    HeldFleet fleet(paced_parameters(kCount, 10));
    fleet.join(kCount);
    if (version == 1) {
      fleet.hold(0);
      for (uint32_t device = 0; device < kCount; ++device) {
        fleet.answer(device);
      }
      for (uint32_t device = 0; device < kCount; ++device) {
        fleet.pull(device);
      }
    }
    fleet.hold(kCount - 1);
    fleet.answer(kCount - 1);
    const uint64_t begin_ms = fleet.now_ms;
    std::set<uint32_t> woken;
    while (fleet.held() > 0) {
      for (uint32_t device = 0; device + 1 < kCount; ++device) {
        if (!fleet.told(device).empty() && woken.insert(device).second) {
          EXPECT_EQ(fleet.told(device), kRecordAndTask);
          orders[version].push_back(device);
        }
      }
      EXPECT_EQ(woken.size(), (fleet.now_ms - begin_ms) / 100 + 1) << "ten a second";
      fleet.tick_at(fleet.now_ms + 100);
    }
    EXPECT_EQ(fleet.now_ms - begin_ms, 1800U);
  }
  EXPECT_NE(orders[0], orders[1]) << "nobody is always first";
}

// A cohort's version leaves alone whom it does not ask.
TEST(CoordinatorPulls, WhoIsNotAskedStaysHeld) {
  RunParameters p = scalar_parameters();
  p.local->correction_form = CorrectionForm::kNone;
  p.trigger->device_count = 8;
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = 2;
  HeldFleet fleet(p);
  for (uint32_t device = 0; device < 8; ++device) {
    fleet.hello(device);
    fleet.pull(device, false, 0, 0, kHoldMs);
  }
  for (int round = 0; round < 6; ++round) {
    fleet.held_from = fleet.sent.size();
    const uint32_t version = fleet.coordinator->durable_version();
    std::vector<uint32_t> asked;
    for (uint32_t device = 0; device < 8; ++device) {
      if (fleet.coordinator->device_statuses()[device].is_asked) {
        asked.push_back(device);
      }
    }
    ASSERT_EQ(asked.size(), 2U);
    EXPECT_EQ(fleet.held(), 6U);
    for (const uint32_t device : asked) {
      ASSERT_EQ(fleet.task(device)->version, version);
      fleet.answer(device);
      fleet.pull(device, true, version, fleet.coordinator->digest(), kHoldMs);
    }
    for (uint32_t device = 0; device < 8; ++device) {
      const bool is_asked_next = fleet.coordinator->device_statuses()[device].is_asked;
      const bool was_told = std::find(asked.begin(), asked.end(), device) != asked.end();
      EXPECT_EQ(is_asked_next || was_told, !fleet.told(device).empty()) << device;
    }
  }
}

// Of a cohort whose last member is disabled everybody else is asked, and has its task without another version.
TEST(CoordinatorPulls, WhoIsAskedInPlaceOfOthersIsWoken) {
  RunParameters p = scalar_parameters();
  p.local->correction_form = CorrectionForm::kNone;
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = 1;
  HeldFleet fleet(p);
  for (uint32_t device = 0; device < 4; ++device) {
    fleet.hello(device);
    fleet.pull(device, false, 0, 0, kHoldMs);
  }
  ASSERT_EQ(fleet.held(), 3U);
  const std::vector<DeviceStatus> devices = fleet.coordinator->device_statuses();
  const auto asked =
      std::find_if(devices.begin(), devices.end(), [](const DeviceStatus& each) { return each.is_asked; });
  fleet.coordinator->on_device_disabled(asked->index, fleet.now_ms);
  fleet.collect();
  EXPECT_EQ(fleet.held(), 0U);
  for (const DeviceStatus& device : devices) {
    EXPECT_NE(fleet.task(device.index), nullptr) << device.name;
  }
}

// ---- The Ack that stands for a Pull ----

struct FlightFleet : HeldFleet {
  explicit FlightFleet(const RunParameters& p) : HeldFleet(p) {
    for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
      hello(device);
      pull(device, false, 0, 0, kHoldMs);
    }
    held_from = sent.size();
  }
  TestUpload flying(uint32_t device) const {
    TestUpload upload = good_upload(device);
    upload.base_digest = coordinator->digest();
    return upload;
  }
};

TEST(CoordinatorPulls, AnAckStandsForTheNextPull) {
  FlightFleet fleet(scalar_parameters());
  for (uint32_t device = 0; device < 4; ++device) {
    fleet.upload(device, fleet.flying(device));
    EXPECT_TRUE(fleet.ack(device)->hold);
  }
  for (uint32_t device = 0; device < 4; ++device) {
    EXPECT_EQ(fleet.told(device), (std::vector<pb_size_t>{gs_ServerMessage_ack_tag, gs_ServerMessage_log_chunk_tag,
                                                          gs_ServerMessage_task_tag}));
  }
  EXPECT_EQ(fleet.coordinator->counters().messages_unexpected, 0U);
  fleet.upload(0, fleet.flying(0));
  EXPECT_EQ(fleet.held(), 1U);
  fleet.tick_at(fleet.now_ms + kHoldMs);
  EXPECT_EQ(fleet.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_ANSWERED) << "as long as its last Pull said";
}

// Ack, record and Task leave in the order of the journal, also where Ack and version are in one commit.
TEST(CoordinatorPulls, TheAckComesBeforeTheTask) {
  FlightFleet fleet(scalar_parameters());
  for (uint32_t device = 0; device < 3; ++device) {
    fleet.upload(device, fleet.flying(device));
  }
  fleet.is_auto_persist = false;
  fleet.upload(3, fleet.flying(3));
  EXPECT_TRUE(fleet.told(3).empty());
  fleet.persist();
  EXPECT_EQ(fleet.told(3), (std::vector<pb_size_t>{gs_ServerMessage_ack_tag, gs_ServerMessage_log_chunk_tag,
                                                   gs_ServerMessage_task_tag}));
}

TEST(CoordinatorPulls, AnAckStandsForNoPullOfOthers) {
  FlightFleet fleet(scalar_parameters());
  // Without a digest, or the feature: it may pull at once, and is not held before.
  fleet.upload(0, fleet.good_upload(0));
  EXPECT_TRUE(fleet.ack(0)->hold);
  EXPECT_EQ(fleet.held(), 0U);
  fleet.hello(1, hello_without(gs_Feature_FEATURE_SINGLE_FLIGHT));
  fleet.pull_held(1);
  fleet.upload(1, fleet.flying(1));
  EXPECT_EQ(fleet.held(), 0U);
  // In a session without a Pull nobody knows for how long.
  const TestUpload pending = fleet.flying(2);
  fleet.hello(2);
  fleet.upload(2, pending);
  EXPECT_FALSE(fleet.ack(2)->hold);
  fleet.pull_held(2);
  EXPECT_EQ(fleet.held(), 1U);
}

// The same update twice in a session: one answer to the Pull that it stood for.
TEST(CoordinatorPulls, ARepeatedUpdateIsAnsweredOnce) {
  FlightFleet fleet(scalar_parameters());
  const TestUpload upload = fleet.flying(0);
  fleet.upload(0, upload);
  fleet.upload(0, upload);
  EXPECT_TRUE(fleet.ack(0)->duplicate);
  EXPECT_TRUE(fleet.ack(0)->hold);
  EXPECT_EQ(fleet.held(), 1U);
  EXPECT_EQ(fleet.coordinator->counters().messages_unexpected, 1U);
  for (const uint32_t device : {1U, 2U, 3U}) {
    fleet.upload(device, fleet.flying(device));
  }
  EXPECT_EQ(fleet.task(0)->version, 1U);
  fleet.upload(0, upload);
  EXPECT_FALSE(fleet.ack(0)->hold) << "its Pull has been answered";
  EXPECT_EQ(fleet.held(), 0U);
}

// An update from another model does not count, and the device gets the model when it pulls.
TEST(CoordinatorPulls, AWrongDigestGetsASnapshot) {
  FlightFleet fleet(scalar_parameters());
  for (uint32_t device = 0; device < 4; ++device) {
    TestUpload upload = fleet.flying(device);
    upload.base_digest ^= device == 2 ? 1 : 0;
    fleet.upload(device, upload);
  }
  EXPECT_EQ(fleet.ack(2)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(fleet.ack(2)->reason, gs_Reason_REASON_WRONG_VERSION);
  EXPECT_FALSE(fleet.ack(2)->hold);
  fleet.pull(2, true, 0, fleet.coordinator->digest() ^ 1, kHoldMs);
  EXPECT_EQ(fleet.told(2)[1], gs_ServerMessage_snapshot_chunk_tag);
  EXPECT_EQ(fleet.coordinator->counters().digest_mismatches, 1U);
}

// Without rounds an update that makes a version is followed by the window, which paces the run.
TEST(CoordinatorPulls, WithoutRoundsTheWindowStays) {
  RunParameters p = asynchronous_parameters();
  FlightFleet single(p);
  single.upload(0, single.flying(0));
  EXPECT_FALSE(single.ack(0)->hold);
  p.delay->delay_rule = DelayRule::kAsgd;
  p.trigger->buffer_size = 2;
  FlightFleet pair(p);
  pair.upload(0, pair.flying(0));
  EXPECT_TRUE(pair.ack(0)->hold);
  EXPECT_EQ(pair.held(), 1U);
  pair.upload(1, pair.flying(1));
  EXPECT_FALSE(pair.ack(1)->hold);
  EXPECT_EQ(pair.task(0)->version, 1U) << "and the one that was held is woken";
}

}  // namespace
}  // namespace gradstream
