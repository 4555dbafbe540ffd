// When a session begins and ends: deadlines, windows, a server that is away, Refuse and Drain, noise.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"
#include "runtime/link/client.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

// ---- Time ----

TEST(ClientSession, EveryStateHasADeadline) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.server_is_silent = true;
  ASSERT_TRUE(link.run_to(ClientState::kHello));
  const uint64_t begin_ms = link.now_ms;
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.now_ms - begin_ms, kAnswerDeadlineMs);
  EXPECT_EQ(link.client().counters().deadlines_missed, 1U);
  EXPECT_EQ(link.client().last_reason(), gs_REASON_DEADLINE);
  link.server_is_silent = false;
  ASSERT_TRUE(link.run_to(ClientState::kSync));
  link.server_is_silent = true;  // Pull is not answered
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.client().counters().deadlines_missed, 2U);
  link.server_is_silent = false;
  ASSERT_TRUE(link.run_to(ClientState::kUpload));
  link.server_is_silent = true;  // nor is the update
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.client().counters().deadlines_missed, 3U);
  link.server_is_silent = false;
  link.never_reports_sent = true;  // the peer takes no bytes
  ASSERT_TRUE(link.run_to(ClientState::kHello));
  ASSERT_TRUE(link.run_until([&] { return !link.is_connected(); }));
  EXPECT_GE(link.client().counters().deadlines_missed, 4U);
  link.never_reports_sent = false;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.conflicting_uploads, 0U);
}

TEST(ClientSession, AConnectionThatNeverComesHasADeadline) {
  FakeDevice device;
  device.boot();
  Client& client = *device.client;
  EXPECT_EQ(client.poll(5).kind, ClientActionKind::kConnect);
  ClientAction action = client.poll(6);
  EXPECT_EQ(action.kind, ClientActionKind::kWait);
  EXPECT_EQ(action.wake_ms, 5 + uint64_t{kHandshakeDeadlineMs});
  EXPECT_EQ(client.poll(action.wake_ms).kind, ClientActionKind::kDisconnect);
  client.on_connected(action.wake_ms);  // too late: ignored
  EXPECT_EQ(client.state(), ClientState::kIdle);
  action = client.poll(action.wake_ms);
  EXPECT_EQ(action.kind, ClientActionKind::kWait);
  EXPECT_GE(action.wake_ms, 5 + uint64_t{kHandshakeDeadlineMs} + 1000);
}

TEST(ClientSession, BacksOffWithJitterUpToEightTimes) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.refused_connections = 50;
  ASSERT_TRUE(link.run_to_end());
  ASSERT_EQ(link.connect_times.size(), 51U);
  uint64_t longest = 0;
  for (size_t i = 1; i < link.connect_times.size(); ++i) {
    const uint64_t wait = link.connect_times[i] - link.connect_times[i - 1];
    EXPECT_GE(wait, 1000U);
    EXPECT_LE(wait, i == 1 ? 2000U : i == 2 ? 4000U : 8000U);
    longest = std::max(longest, wait);
  }
  EXPECT_GT(longest, 6000U);
}

// Three days without a server, with an upload that waits, while the clock passes 2^32 ms. `restarts`: the power fails
// on the way.
void expect_to_outlast_the_server(gs_RetryWindow window, bool restarts) {
  constexpr uint64_t kDayMs = 24 * 3600 * 1000;
  constexpr uint32_t kStepsMax = 200000;  // two for each dial, and one in 3 days of 1 to 8 s is 57,600
  FakeRun run;
  run.retry = window;
  FakeDevice reference;
  FakeServer undisturbed(run);
  FakeLink without_fault(reference, undisturbed);
  ASSERT_TRUE(without_fault.run_to_end());

  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  link.now_ms = (uint64_t{1} << 32) - kDayMs;
  ASSERT_TRUE(link.run_past_upload(1));
  ASSERT_TRUE(link.run_to(ClientState::kUpload));
  link.break_connection();
  const uint64_t away_since_ms = link.now_ms;
  const size_t dials = link.connect_times.size(), saves = link.saves.size();
  const Bytes storage = device.storage;
  link.refused_connections = UINT32_MAX;
  for (int day = 1; day <= 3; ++day) {
    ASSERT_TRUE(link.run_until([&] { return link.now_ms >= away_since_ms + day * kDayMs; }, kStepsMax));
    if (restarts && day == 2) {
      link.restart();
      EXPECT_EQ(device.restore_status, Status::kOk);
    }
  }
  EXPECT_GT(link.now_ms, uint64_t{1} << 32);
  const uint64_t longest_ms = std::max<uint64_t>(8000, window.max_ms);
  for (size_t i = dials + 1; i < link.connect_times.size(); ++i) {
    const uint64_t gap_ms = link.connect_times[i] - link.connect_times[i - 1];
    ASSERT_LE(gap_ms, longest_ms);
    ASSERT_TRUE(gap_ms >= 1000 || restarts);  // a device that starts dials at once
  }
  EXPECT_GT(link.connect_times.size() - dials, 3 * kDayMs / longest_ms);
  EXPECT_EQ(link.saves.size(), saves);  // waiting wears no flash
  EXPECT_EQ(device.storage, storage);

  link.refused_connections = 0;
  ASSERT_TRUE(link.run_to_end());
  expect_same_end(server, link.client(), undisturbed);
}

TEST(ClientSession, OutlastsAServerThatIsAwayForDays) {
  for (const gs_RetryWindow window : {gs_RetryWindow{10, 50}, gs_RetryWindow{60000, 3600000}}) {
    for (const bool restarts : {false, true}) {
      SCOPED_TRACE(testing::Message() << window.max_ms << " ms, restarts " << restarts);
      expect_to_outlast_the_server(window, restarts);
    }
  }
}

TEST(ClientSession, DevicesDrawDifferentWaits) {
  std::vector<uint64_t> times;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    FakeDevice device;
    device.config.jitter_seed = seed;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    link.refused_connections = 1;
    ASSERT_TRUE(link.run_to(ClientState::kTrain));
    times.push_back(link.connect_times[1]);
  }
  std::sort(times.begin(), times.end());
  EXPECT_GE(std::unique(times.begin(), times.end()) - times.begin(), 18);
}

TEST(ClientSession, LongWaitsAndLongTasksCloseTheSessionOfADeviceThatCanDial) {
  for (const bool can_dial : {true, false}) {
    FakeRun run;
    run.retry = {kSessionKeepMs + 1, kSessionKeepMs + 500};
    FakeDevice device;
    device.config.can_dial = can_dial;
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().sessions, can_dial ? run.round_count + 1 : 1);
    FakeServer quick{FakeRun{}};
    device.storage.clear();
    FakeLink slow_link(device, quick);
    slow_link.step_ms = kSessionKeepMs + 1;
    ASSERT_TRUE(slow_link.run_to_end());
    EXPECT_EQ(slow_link.client().counters().sessions, can_dial ? run.round_count + 1 : 1);
    EXPECT_EQ(slow_link.client().counters().connection_failures, 0U);
  }
}

TEST(ClientSession, AFinishedRunIsAskedForAgainAfterItsWindowOnly) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().state(), ClientState::kFinished);
  link.step();
  EXPECT_FALSE(link.is_connected());
  server.run.retry = {0, 0};
  ASSERT_TRUE(link.run_until([&] { return server.hello_count() == 2; }));
  ASSERT_TRUE(link.run_to(ClientState::kFinished));
  EXPECT_EQ(link.client().poll(link.now_ms).kind, ClientActionKind::kDisconnect);
  EXPECT_EQ(link.client().poll(link.now_ms).wake_ms, UINT64_MAX);  // no window: it stays
}

// ---- Refuse and Drain ----

ServerMessage make_refuse(gs_Reason reason, gs_RetryWindow window) {
  ServerMessage message = FakeServer::make(gs_ServerMessage_refuse_tag);
  message.body.refuse = {reason, true, window};
  return message;
}

TEST(ClientSession, RefuseClosesAndWaitsItsWindow) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.intercept = [&](const DeviceMessage&) {
    server.send(make_refuse(gs_REASON_OVERLOADED, {5000, 6000}));
    return true;
  };
  ASSERT_TRUE(link.run_to(ClientState::kHello));
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.client().last_reason(), gs_REASON_OVERLOADED);
  server.intercept = nullptr;
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  const uint64_t wait = link.connect_times[1] - link.connect_times[0];
  EXPECT_GE(wait, 5000U);
  EXPECT_LE(wait, 6000U);
  EXPECT_EQ(link.client().counters().connection_failures, 0U);
}

TEST(ClientSession, RefuseAndDrainDuringTrainingLetTheWorkGoOn) {
  for (const bool drains : {false, true}) {
    FakeRun run;
    run.local_step_count = 5;
    FakeDevice device;
    FakeServer server(run);
    FakeLink link(device, server);
    link.step_ms = 10;
    ASSERT_TRUE(link.run_until([&] { return device.steps.size() == 2; }));
    ServerMessage drain = FakeServer::make(gs_ServerMessage_drain_tag);
    drain.body.drain = {true, {3000, 3500}};
    server.send(drains ? drain : make_refuse(gs_REASON_NEWER_SESSION, {3000, 3500}));
    const uint64_t begin_ms = link.now_ms;
    ASSERT_TRUE(link.run_until([&] { return server.hello_count() == 2; }));
    EXPECT_EQ(link.client().counters().tasks_done, 1U);
    EXPECT_GE(link.now_ms - begin_ms, 3000U);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().updates_folded, run.round_count);
  }
}

TEST(ClientSession, DrainFinishesTheExchangeFirst) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.intercept = [&](const DeviceMessage& message) {
    if (message.which_body == gs_DeviceMessage_update_scalars_tag && server.uploads.empty()) {
      ServerMessage drain = FakeServer::make(gs_ServerMessage_drain_tag);
      drain.body.drain = {true, {4000, 4000}};
      server.send(drain);
    }
    return false;
  };
  ASSERT_TRUE(link.run_past_upload(1));
  const uint64_t begin_ms = link.now_ms;
  link.step();
  EXPECT_FALSE(link.is_connected()) << "no other exchange begins";
  ASSERT_TRUE(link.run_until([&] { return server.hello_count() == 2; }));
  EXPECT_EQ(link.now_ms - begin_ms, 4000U);
  EXPECT_EQ(link.client().counters().connection_failures, 0U);
  EXPECT_EQ(link.client().counters().updates_resent, 0U);
}

// ---- What ends a session at once ----

TEST(ClientSession, AWelcomeBeforeItsHelloEndsTheSession) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  Client& client = link.client();
  ASSERT_EQ(client.poll(link.now_ms).kind, ClientActionKind::kConnect);
  client.on_connected(link.now_ms);
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(server.make_welcome(), frame);
  ASSERT_TRUE(size.ok());
  client.on_frame({frame + kFramePrefixSize, size.value() - kFramePrefixSize}, link.now_ms);
  EXPECT_EQ(client.counters().malformed_frames, 1U);
  EXPECT_EQ(client.last_reason(), gs_REASON_UNEXPECTED_MESSAGE);
  EXPECT_EQ(client.poll(link.now_ms).kind, ClientActionKind::kDisconnect);
}

TEST(ClientSession, NoiseOnTheLinkEndsTheSession) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  const Bytes noise = {'n', 'o', 'i', 's', 'e'};
  server.send_raw(noise);
  ASSERT_TRUE(link.run_until([&] { return !link.is_connected(); }));
  EXPECT_EQ(link.client().counters().malformed_frames, 1U);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(link.client().counters().tasks_done, server.run.round_count);
}

}  // namespace
}  // namespace gradstream
