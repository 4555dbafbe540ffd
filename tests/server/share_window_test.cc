// What devices have given to the last versions, by itself and through the coordinator: no device makes more than its
// share of the versions of a run without rounds, and nobody waits for ever.
#include "server/coordinator/share_window.h"

#include <gtest/gtest.h>

#include "server/coordinator/fleet.h"
#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(ShareWindow, CountsTheLastVersions) {
  ShareWindow window(2);
  window.add_update(0);
  EXPECT_EQ(window.update_count(0), 0U) << "no version is open";
  window.begin_version();
  window.add_update(3);
  window.add_update(3);
  window.begin_version();
  window.add_update(1);
  window.add_update(3);
  EXPECT_EQ(window.update_count(3), 3U);
  EXPECT_EQ(window.update_count(1), 1U);
  EXPECT_EQ(window.update_count(7), 0U);
  EXPECT_EQ(window.device_count(), 2U);
  window.begin_version();
  EXPECT_EQ(window.update_count(3), 1U);
  window.begin_version();
  EXPECT_EQ(window.device_count(), 0U);
  window.add_task(5);
  window.add_task(5);
  EXPECT_EQ(window.device_count(), 1U) << "it is there";
  EXPECT_EQ(window.update_count(5), 0U);
  window.begin_version();
  window.add_update(5);
  EXPECT_EQ(window.device_count(), 1U);
  window.begin_version();
  EXPECT_EQ(window.device_count(), 1U);
  window.begin_version();
  EXPECT_EQ(window.device_count(), 0U);
}

TEST(ShareWindow, AStateIsReadBack) {
  ShareWindow window(3);
  for (uint32_t version = 0; version < 5; ++version) {
    window.begin_version();
    window.add_update(version % 2);
    window.add_task(2);
    window.add_update(4);
  }
  StateArchive out;
  window.exchange(out, 5);
  const std::vector<uint8_t> bytes = out.take_bytes();
  ShareWindow other(3);
  StateArchive in(bytes);
  other.exchange(in, 5);
  EXPECT_TRUE(in.is_sound() && in.is_at_end());
  EXPECT_EQ(other.update_count(4), 3U);
  EXPECT_EQ(other.update_count(0), window.update_count(0));
  EXPECT_EQ(other.device_count(), 4U);
  ShareWindow small(3);
  StateArchive again(bytes);
  small.exchange(again, 4);
  EXPECT_FALSE(again.is_sound()) << "a device that is not there";
}

// ---- In a run ----

// A version for every update, of which one device may give half of the last eight.
RunParameters share_parameters() {
  RunParameters p = asynchronous_parameters();
  p.trigger.keys().device_share_max = 0.5F;
  p.trigger.keys().device_share_window = 8;
  p.trigger->report_deadline_ms = 1000;
  p.trigger->extension_count_max = 2;
  return p;
}

// The device pulls, and answers if it gets a task of the open version. Whether it did.
bool work(TestServer& server, uint32_t device) {
  server.pull(device, false, 0, 0);
  const gs_Task* const task = server.task(device);
  if (task == nullptr || task->version != server.coordinator->durable_version() ||
      task->task_sequence == server.coordinator->fleet().at(device).row.judged.task_sequence) {
    return false;
  }
  server.upload(device, server.good_upload(device));
  return true;
}

TEST(ShareWindowOfARun, ADeviceThatAnswersAtOnceMakesHalfOfTheVersions) {
  TestServer server(share_parameters());
  server.start();
  server.join(4);
  std::vector<uint32_t> given(4);
  for (uint32_t turn = 0; turn < 300; ++turn) {
    const uint32_t honest = 1 + turn % 3;  // in turn, once in ten attempts of the fast one
    for (int i = 0; i < 10; ++i) {
      given[0] += work(server, 0) ? 1 : 0;
    }
    given[honest] += work(server, honest) ? 1 : 0;
  }
  const uint32_t all = given[0] + given[1] + given[2] + given[3];
  EXPECT_EQ(given[1] + given[2] + given[3], 300U) << "nobody else is held back";
  EXPECT_LE(given[0], all / 2 + 8) << "of the first versions";
  EXPECT_GT(given[0], all / 2 - 8);
  EXPECT_EQ(server.log_count("share_used device=d0"), 1U);
  EXPECT_EQ(server.log_count("share_used"), 1U);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
}

// Without the key it is as before.
TEST(ShareWindowOfARun, WithoutTheKeyItMakesAlmostAll) {
  RunParameters p = share_parameters();
  p.trigger.keys().device_share_max = 1;
  TestServer server(p);
  server.start();
  server.join(4);
  uint32_t fast = 0;
  for (uint32_t turn = 0; turn < 30; ++turn) {
    for (int i = 0; i < 10; ++i) {
      fast += work(server, 0) ? 1 : 0;
    }
    work(server, 1 + turn % 3);
  }
  EXPECT_EQ(fast, 300U);
}

// Of two devices each would have to give just a half, and the slower one would set the pace: nobody is held back.
TEST(ShareWindowOfARun, WithTooFewDevicesItBindsNobody) {
  RunParameters p = share_parameters();
  TestServer server(p);
  server.start();
  server.join(2);
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(work(server, 0)) << i;
    if (i % 10 == 0) {
      work(server, 1);
    }
  }
}

// The others are gone: the device waits for them no longer than a round, and goes on at that pace until they are
// forgotten.
TEST(ShareWindowOfARun, WhereNobodyElseComesItGoesOn) {
  TestServer server(share_parameters());
  server.start();
  server.join(4);
  for (const uint32_t device : {1U, 2U, 3U, 0U, 0U, 0U, 0U}) {
    ASSERT_TRUE(work(server, device));
  }
  EXPECT_FALSE(work(server, 0));
  EXPECT_FALSE(work(server, 0));
  const uint32_t version = server.coordinator->durable_version();
  server.tick_at(server.now_ms + 1000);
  EXPECT_TRUE(server.has_log("round_extended"));
  EXPECT_TRUE(work(server, 0));
  EXPECT_EQ(server.coordinator->durable_version(), version + 1);
  uint32_t ticks = 0;
  while (ticks < 30 && !(work(server, 0) && work(server, 0) && work(server, 0))) {
    server.tick_at(server.now_ms + 1000);
    ++ticks;
  }
  EXPECT_GE(ticks, 1U);
  EXPECT_LE(ticks, 8U) << "the window has forgotten the others";
}

// It is in the middle of a task when its share is used up: that update counts.
TEST(ShareWindowOfARun, NoTaskIsInVain) {
  TestServer server(share_parameters());
  server.start();
  server.join(4);
  for (uint32_t i = 0; i < 60; ++i) {
    const uint32_t device = i % 5 == 0 ? 1 + i % 3 : 0;
    server.pull(device, false, 0, 0);
    const gs_Task* const task = server.task(device);
    if (task->task_sequence != server.coordinator->fleet().at(device).row.judged.task_sequence) {
      server.upload(device, server.good_upload(device));
      EXPECT_TRUE(server.ack(device)->verdict == gs_Verdict_VERDICT_FOLDED ||
                  server.ack(device)->verdict == gs_Verdict_VERDICT_LATE);
    }
    EXPECT_LE(server.coordinator->fleet().shares().update_count(0), 4U + (i < 8 ? 4U : 0U)) << i;
  }
}

TEST(ShareWindowOfARun, AReplayAndACheckpointCountTheSame) {
  TestServer server(share_parameters());
  server.coordinator->set_checkpoints(1, 0);
  server.start();
  server.join(4);
  for (uint32_t turn = 0; turn < 20; ++turn) {
    work(server, 0);
    work(server, turn % 4);
    const uint32_t count = server.coordinator->fleet().shares().update_count(0);
    const uint32_t devices = server.coordinator->fleet().shares().device_count();
    server.restart();
    server.coordinator->set_checkpoints(1, 0);
    EXPECT_EQ(server.coordinator->fleet().shares().update_count(0), count);
    EXPECT_EQ(server.coordinator->fleet().shares().device_count(), devices);
    for (uint32_t device = 0; device < 4; ++device) {
      server.hello(device);
    }
  }
  ASSERT_FALSE(server.checkpoints.empty());
  Coordinator other(7, server.parameters, server.names);
  ASSERT_EQ(other.restore(server.checkpoints.back().bytes), Status::kOk);
  for (size_t i = server.checkpoints.back().head.sequence; i < server.store.records().size(); ++i) {
    ASSERT_EQ(other.replay(server.store.records()[i]), Status::kOk);
  }
  for (uint32_t device = 0; device < 4; ++device) {
    EXPECT_EQ(other.fleet().shares().update_count(device), server.coordinator->fleet().shares().update_count(device));
  }
}

}  // namespace
}  // namespace gradstream
