// Who is awaited, by itself and through the coordinator: a run that waits for the devices that it has seen goes on
// without those that never come, and waits for those that do.
#include "server/coordinator/attendance.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/coordinator/fleet.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

Attendance four_devices(uint32_t version_count) {
  Attendance out(version_count);
  for (int i = 0; i < 4; ++i) {
    out.add();
  }
  return out;
}

std::string awaited(const Attendance& attendance) {
  std::string text;
  for (uint32_t i = 0; i < 4; ++i) {
    text += attendance.is_awaited(i) ? std::to_string(i) : "";
  }
  return text;
}

TEST(Attendance, ADeviceIsAwaitedInTheVersionsAfterItWasSeen) {
  Attendance seen = four_devices(2);
  seen.note(0);
  seen.begin_version(0);
  EXPECT_EQ(awaited(seen), "") << "there was no version to be seen in";
  seen.note(0);
  seen.note(1);
  seen.note(1);
  EXPECT_EQ(awaited(seen), "") << "not in the middle of a version";
  seen.begin_version(1);
  EXPECT_EQ(awaited(seen), "01");
  EXPECT_EQ(seen.come().size(), 2U);
  seen.note(1);
  seen.begin_version(2);
  EXPECT_EQ(awaited(seen), "01");
  seen.begin_version(3);
  EXPECT_EQ(awaited(seen), "1");
  EXPECT_EQ(seen.gone().size(), 1U);
  seen.note(3);
  seen.begin_version(4);
  EXPECT_EQ(awaited(seen), "3");
  seen.note(0);
  seen.begin_version(5);
  EXPECT_EQ(awaited(seen), "03") << "it is back";
}

// With a patience of one version a device that answers every second one comes and goes.
TEST(Attendance, OneVersionIsThePatienceOfOne) {
  Attendance seen = four_devices(1);
  seen.begin_version(0);
  for (uint32_t version = 1; version < 9; ++version) {
    seen.note(2);
    if (version % 2 == 1) {
      seen.note(3);
    }
    seen.begin_version(version);
    EXPECT_EQ(awaited(seen), version % 2 == 1 ? "23" : "2") << version;
  }
}

TEST(Attendance, NobodyIsNotedWithoutTheRule) {
  Attendance seen = four_devices(0);
  seen.begin_version(0);
  seen.note(1);
  seen.begin_version(1);
  EXPECT_EQ(awaited(seen), "");
  EXPECT_FALSE(seen.is_kept());
}

TEST(Attendance, AStateIsReadBack) {
  Attendance seen = four_devices(3);
  std::vector<Attendance> lives = {seen};
  for (uint32_t version = 0; version < 12; ++version) {
    lives.push_back(four_devices(3));
    for (Attendance& life : lives) {
      if (&life != &lives.back()) {
        life.begin_version(version);
      }
    }
    StateArchive out;
    lives.front().exchange(out, version, 4);
    const std::vector<uint8_t> bytes = out.take_bytes();
    StateArchive in(bytes);
    lives.back().exchange(in, version, 4);
    EXPECT_TRUE(in.is_sound() && in.is_at_end());
    for (Attendance& life : lives) {
      EXPECT_EQ(awaited(life), awaited(lives.front())) << version;
      for (uint32_t device = 0; device < 4; ++device) {
        if (version % (device + 2) == 0) {
          life.note(device);
        }
      }
    }
  }
}

TEST(Attendance, AStateOfALaterVersionIsRefused) {
  Attendance seen = four_devices(2);
  seen.begin_version(0);
  seen.note(1);
  seen.begin_version(1);
  StateArchive out;
  seen.exchange(out, 1, 4);
  const std::vector<uint8_t> bytes = out.take_bytes();
  Attendance other = four_devices(2);
  StateArchive in(bytes);
  other.exchange(in, 0, 4);
  EXPECT_FALSE(in.is_sound());
}

// ---- In a run ----

RunParameters seen_parameters(uint32_t versions) {
  RunParameters p = scalar_parameters();
  p.trigger.keys().seen_versions = versions;
  p.trigger->report_deadline_ms = 1000;
  p.trigger->extension_count_max = 1;
  return p;
}

// So many devices answer the open version.
void answer(TestServer& server, std::vector<uint32_t> devices) {
  for (const uint32_t device : devices) {
    server.pull(device, false, 0, 0);
    server.upload(device, server.good_upload(device));
  }
}

// The open version's deadline passes, and that of its extension.
void let_time_pass(TestServer& server) {
  server.tick_at(server.now_ms + 1000);
  server.tick_at(server.now_ms + 1000);
}

TEST(AttendanceOfARun, ADeviceThatNeverComesCostsTheFirstVersionAlone) {
  TestServer server(seen_parameters(2));
  server.start();
  server.join(3);
  answer(server, {0, 1, 2});
  EXPECT_EQ(server.coordinator->durable_version(), 0U) << "d3 may yet come";
  EXPECT_EQ(server.coordinator->round_progress().awaited, 1U);
  EXPECT_TRUE(server.coordinator->device_statuses()[3].waits.is_awaited);
  EXPECT_FALSE(server.coordinator->device_statuses()[0].waits.is_awaited) << "it has answered";
  server.tick_at(2000);
  EXPECT_TRUE(server.has_log("round_extended version=0 answers=3 wanted=1 missing=d3"));
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
  server.tick_at(3000);
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->last_round().waited_for, std::vector<std::string>({"d3"}));
  for (uint32_t version = 2; version < 12; ++version) {
    answer(server, {0, 1, 2});
    EXPECT_EQ(server.coordinator->durable_version(), version) << "without a tick";
    EXPECT_FALSE(server.coordinator->device_statuses()[3].waits.is_awaited);
  }
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
  EXPECT_EQ(server.coordinator->fleet().find_miscount(), "");
}

// The exact mean stays: without the rule, and with it where all come.
TEST(AttendanceOfARun, WhereAllComeItIsTheRunWithoutTheRule) {
  std::vector<uint64_t> digests;
  for (const uint32_t versions : {0U, 1U, 3U}) {
    TestServer server(seen_parameters(versions));
    server.start();
    server.join(4);
    for (uint32_t version = 0; version < 5; ++version) {
      answer(server, {3, 1, 0});
      EXPECT_EQ(server.coordinator->durable_version(), version) << "each answer is awaited";
      answer(server, {2});
    }
    EXPECT_EQ(server.coordinator->durable_version(), 5U);
    digests.push_back(server.coordinator->digest());
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
}

TEST(AttendanceOfARun, ADeviceThatLeavesIsAwaitedForAsManyVersionsAndWhenItIsBack) {
  TestServer server(seen_parameters(2));
  server.start();
  server.join(4);
  answer(server, {0, 1, 2, 3});
  ASSERT_EQ(server.coordinator->durable_version(), 1U);
  for (uint32_t version = 2; version <= 3; ++version) {
    answer(server, {0, 1, 2});
    EXPECT_EQ(server.coordinator->durable_version(), version - 1);
    let_time_pass(server);
    EXPECT_EQ(server.coordinator->durable_version(), version);
  }
  EXPECT_TRUE(server.has_log("devices_not_awaited version=3 devices=d3 seen_versions=2"));
  answer(server, {0, 1});
  answer(server, {3});
  EXPECT_EQ(server.coordinator->durable_version(), 3U) << "an answer of who is not awaited takes nobody's place";
  answer(server, {2});
  ASSERT_EQ(server.coordinator->durable_version(), 4U);
  EXPECT_EQ(server.coordinator->last_round().folded, 4U) << "and it counts";
  answer(server, {0, 1, 2});
  EXPECT_EQ(server.coordinator->durable_version(), 4U) << "it is awaited again";
  answer(server, {3});
  EXPECT_EQ(server.coordinator->durable_version(), 5U);
}

// A device that joins and is slower than the others is awaited once the server has judged what it sent, though that was
// too late to count.
TEST(AttendanceOfARun, ASlowDeviceThatJoinsIsAwaitedAfterItsFirstUpdate) {
  RunParameters p = seen_parameters(2);
  p.trigger->device_count = 3;
  TestServer server(p, 3);
  server.start();
  server.join(3);
  answer(server, {0, 1, 2});
  server.coordinator->on_device_added("d3", server.now_ms);
  server.names.push_back("d3");
  server.connects.push_back(0);
  server.collect();
  server.hello(3);
  server.pull(3, false, 0, 0);
  const TestUpload slow = server.good_upload(3);
  answer(server, {0, 1, 2});
  ASSERT_EQ(server.coordinator->durable_version(), 2U) << "nobody waits for who was never seen";
  server.upload(3, slow);
  EXPECT_EQ(server.ack(3)->reason, gs_Reason_REASON_TOO_STALE);
  answer(server, {0, 1, 2});
  ASSERT_EQ(server.coordinator->durable_version(), 3U) << "nothing changes within a version";
  answer(server, {0, 1, 2});
  EXPECT_EQ(server.coordinator->durable_version(), 3U);
  answer(server, {3});
  EXPECT_EQ(server.coordinator->durable_version(), 4U);
}

// Nobody is there: no version without an answer is made. Who comes first gives the others the time of a round.
TEST(AttendanceOfARun, WithoutAnyAnswerItStallsByNameAndTheFirstOneGivesTheOthersTime) {
  TestServer server(seen_parameters(1));
  server.start();
  server.join(4);
  answer(server, {0, 1, 2, 3});
  let_time_pass(server);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  EXPECT_TRUE(server.has_log("run_stalled version=1 answers=0 wanted=1 missing=d0,d1,d2,d3"));
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  server.now_ms += 3'600'000;
  answer(server, {1});
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->next_tick_ms(), server.now_ms + 1000);
  server.restart();
  EXPECT_EQ(server.coordinator->next_tick_ms(), server.now_ms + 1000) << "the journal has the answer";
  server.hello(3);
  answer(server, {3});
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  server.tick_at(server.now_ms + 1000);
  EXPECT_EQ(server.coordinator->durable_version(), 2U);
  EXPECT_TRUE(server.has_log("trigger=stall_ended folded=2"));
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
}

// What cannot work is not awaited, and the run says nothing of a stall.
TEST(AttendanceOfARun, ADeviceThatCanDoNothingIsNotAwaited) {
  TestServer server(seen_parameters(2));
  server.start();
  server.join(3);
  answer(server, {0, 1, 2});
  gs_Hello unable = good_hello(10);
  unable.capabilities.problems_count = 0;
  server.hello(3, unable);
  EXPECT_EQ(server.coordinator->durable_version(), 1U) << "it was the last that the version waited for";
  EXPECT_EQ(server.log_count("run_stalled"), 0U);
}

TEST(AttendanceOfARun, ADeviceThatIsRevokedIsNotAwaited) {
  TestServer server(seen_parameters(2));
  server.start();
  server.join(4);
  answer(server, {0, 1, 2, 3});
  answer(server, {0, 1, 2});
  server.coordinator->on_device_disabled(3, server.now_ms);
  server.collect();
  EXPECT_EQ(server.coordinator->durable_version(), 2U);
  for (const uint32_t device : {0U, 1U, 2U}) {
    server.coordinator->on_device_disabled(device, server.now_ms);
  }
  server.coordinator->on_device_restored(3, server.now_ms);
  server.collect();
  EXPECT_EQ(server.coordinator->round_progress().awaited, 1U);
  server.hello(3);
  answer(server, {3});
  EXPECT_EQ(server.coordinator->durable_version(), 3U);
  EXPECT_EQ(server.coordinator->fleet().find_miscount(), "");
}

// Every state of a life is that of a replay, and that of a checkpoint and what follows it: restart() compares them.
TEST(AttendanceOfARun, AReplayAndACheckpointAwaitTheSame) {
  TestServer server(seen_parameters(2));
  server.coordinator->set_checkpoints(1, 0);
  server.start();
  server.join(4);
  for (uint32_t version = 0; version < 7; ++version) {
    const uint32_t away = version % 3;
    for (uint32_t device = 0; device < 4; ++device) {
      if (device != away && server.coordinator->durable_version() == version) {
        answer(server, {device});
      }
    }
    for (int i = 0; i < 2 && server.coordinator->durable_version() == version; ++i) {
      server.tick_at(server.now_ms + 1000);
    }
    ASSERT_EQ(server.coordinator->durable_version(), version + 1);
    const std::string before = server.coordinator->state_text();
    EXPECT_NE(before.find(" seen"), std::string::npos);
    server.restart();
    server.coordinator->set_checkpoints(1, 0);
    EXPECT_EQ(server.coordinator->state_text(), before);
    for (uint32_t device = 0; device < 4; ++device) {
      server.hello(device);
    }
  }
  EXPECT_GT(server.checkpoints.size(), 4U);
}

// What a version visits does not grow with the devices that are enrolled and never come.
TEST(AttendanceOfARun, AVersionCostsThoseWhoComeAndNotTheFleet) {
  std::vector<uint64_t> visits;
  for (const uint32_t enrolled : {100U, 10'000U}) {
    TestServer server(seen_parameters(2), enrolled);
    server.start();
    server.join(3);
    answer(server, {0, 1, 2});
    let_time_pass(server);
    ASSERT_EQ(server.coordinator->durable_version(), 1U);
    server.is_auto_persist = false;  // without the text of each state, which names all devices
    const uint64_t before = server.coordinator->fleet().visit_count();
    for (uint32_t version = 2; version < 6; ++version) {
      for (const uint32_t device : {0U, 1U, 2U}) {
        server.pull(device, false, 0, 0);
        server.persist();
        server.upload(device, server.good_upload(device));
        server.persist();
      }
      EXPECT_EQ(server.coordinator->durable_version(), version);
    }
    visits.push_back(server.coordinator->fleet().visit_count() - before);
  }
  EXPECT_EQ(visits[0], visits[1]);
}

}  // namespace
}  // namespace gradstream
