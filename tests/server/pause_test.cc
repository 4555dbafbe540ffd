// A run that is paused and resumed, in each state that it can be in, and over a restart at every record of it.
#include <gtest/gtest.h>

#include "server/run/pace.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters pausing_parameters() {
  RunParameters p = scalar_parameters();
  p.trigger->update_goal = 3;
  p.trigger->update_min = 2;
  return p;
}

void pause(TestServer* server) {
  server->coordinator->pause(server->now_ms);
  server->collect();
}

void resume(TestServer* server) {
  server->coordinator->resume(server->now_ms);
  server->collect();
}

void expect_paused(TestServer* server, uint32_t device) {
  EXPECT_EQ(server->coordinator->run_state(), gs_RunState_RUN_STATE_PAUSED);
  EXPECT_EQ(server->coordinator->next_tick_ms(), UINT64_MAX);
  server->sent.clear();
  server->hello(device);
  EXPECT_EQ(server->last(device, gs_ServerMessage_welcome_tag)->body.welcome.run_state, gs_RunState_RUN_STATE_PAUSED);
  server->pull(device);
  EXPECT_EQ(server->task(device), nullptr);
  ASSERT_NE(server->wait(device), nullptr);
  EXPECT_EQ(server->wait(device)->cause, gs_WaitCause_WAIT_CAUSE_PAUSED);
  const bool is_fresh = server->wait(device)->retry.max_ms == kIdleFreshMaxMs;  // else it was paused long ago
  EXPECT_EQ(server->wait(device)->retry.min_ms, is_fresh ? kIdleFreshMinMs : 30'000U);
}

TEST(Pause, APausedRunKeepsAnswersAndOpensNothing) {
  TestServer server(pausing_parameters());
  server.start();
  server.join(4);
  server.upload(0, server.good_upload(0));
  const TestUpload second = server.good_upload(1);
  const TestUpload third = server.good_upload(2);
  pause(&server);
  EXPECT_TRUE(server.has_log("run_paused version=0"));
  server.upload(1, second);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  server.upload(2, third);
  EXPECT_EQ(server.coordinator->answers_in(), 3U);
  server.tick_at(server.now_ms + 100'000);
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
  expect_paused(&server, 3);
  pause(&server);                                                        // without effect
  EXPECT_EQ(server.store.records().back().kind(), RecordKind::kUpdate);  // not another pause
  resume(&server);
  EXPECT_TRUE(server.has_log("run_resumed version=0"));
  EXPECT_EQ(server.coordinator->durable_version(), 1U);  // what came in the meantime suffices
  EXPECT_EQ(server.coordinator->next_tick_ms(), server.now_ms + 1000);
  resume(&server);
  server.pull(3);
  EXPECT_EQ(server.task(3)->version, 1U);
}

// Whatever the run is in: waiting for devices, open, extended, stalled; and the server may be killed in it.
TEST(Pause, EveryStateCanBePausedAndIsSoAfterARestart) {
  for (const bool is_killed : {false, true}) {
    for (const uint32_t ticks : {0U, 1U, 3U}) {
      TestServer server(pausing_parameters());
      server.start();
      server.join(4);
      server.upload(0, server.good_upload(0));
      for (uint32_t i = 0; i < ticks; ++i) {
        server.tick_at(server.coordinator->next_tick_ms());
      }
      EXPECT_EQ(server.coordinator->run_state(),
                ticks == 3 ? gs_RunState_RUN_STATE_STALLED : gs_RunState_RUN_STATE_ACTIVE);
      pause(&server);
      if (is_killed) {
        server.restart();
      }
      expect_paused(&server, 3);
      resume(&server);
      if (is_killed) {
        server.restart();
      }
      EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
      EXPECT_EQ(server.coordinator->next_tick_ms(), server.now_ms + 1000);  // all its time anew
      server.hello(1);
      server.pull(1);
      server.upload(1, server.good_upload(1));
      server.tick_at(server.coordinator->next_tick_ms());
      EXPECT_EQ(server.coordinator->durable_version(), 1U) << ticks;
    }
  }
}

TEST(Pause, ARunWithoutAVersionOpensItWhenResumed) {
  for (const bool is_killed : {false, true}) {
    TestServer server(pausing_parameters(), 3);
    server.start();
    pause(&server);
    server.names.push_back("d3");
    server.coordinator->on_device_added("d3", server.now_ms);
    server.collect();
    if (is_killed) {
      server.restart();
    }
    server.hello(0);
    server.pull(0, false, 0, 0);
    EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_PAUSED);
    EXPECT_TRUE(server.published.empty());
    resume(&server);
    EXPECT_EQ(server.published, std::vector<uint32_t>{0});
    server.pull(0, false, 0, 0);
    EXPECT_NE(server.task(0), nullptr);
  }
}

TEST(Pause, APausedRunCanBeStoppedAndAnEndedOneNotPaused) {
  TestServer server(pausing_parameters());
  server.start();
  pause(&server);
  server.coordinator->stop(server.now_ms);
  server.collect();
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STOPPED);
  const size_t count = server.store.records().size();
  pause(&server);
  resume(&server);
  EXPECT_EQ(server.store.records().size(), count);
}

// A pause that is not on the disk is not told to anybody, and a version on its way to the disk goes before it.
TEST(Pause, NothingSaysSoBeforeItIsDurable) {
  TestServer server(pausing_parameters());
  server.start();
  server.join(4);
  server.is_auto_persist = false;
  for (uint32_t device = 0; device < 3; ++device) {
    server.upload(device, server.good_upload(device));
  }
  pause(&server);
  server.hello(3);
  EXPECT_EQ(server.last(3, gs_ServerMessage_welcome_tag), nullptr);
  server.persist();
  EXPECT_EQ(server.last(3, gs_ServerMessage_welcome_tag)->body.welcome.run_state, gs_RunState_RUN_STATE_PAUSED);
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  resume(&server);
  EXPECT_EQ(server.coordinator->next_tick_ms(), server.now_ms + 1000);
}

// A fleet that works on while the operator pauses and resumes at random. After every record a new server has the state
// of the one that wrote it, and goes on to nothing that this one did not do.
TEST(Pause, RecoversAfterEveryRecord) {
  TestServer alive(pausing_parameters());
  alive.start();
  alive.join(4);
  RandomStream dice({});
  uint32_t pauses = 0;
  for (uint32_t turn = 0; turn < 60; ++turn) {
    for (uint32_t device = 0; device < 4; ++device) {
      const uint32_t luck = dice.next() % 10;
      if (luck < 2) {
        pauses += alive.coordinator->run_state() == gs_RunState_RUN_STATE_PAUSED ? 0 : 1;
        luck == 0 ? pause(&alive) : resume(&alive);
      }
      if (luck != 3) {
        alive.pull(device);
      }
      if (luck != 4 && alive.task(device) != nullptr) {
        alive.upload(device, alive.good_upload(device));
      }
    }
    alive.tick_at(alive.now_ms + 1 + dice.next() % 1500);
  }
  const std::vector<JournalRecord>& records = alive.store.records();
  ASSERT_GT(pauses, 10U);
  size_t compared = 0;
  for (size_t count = 1; count <= records.size(); ++count) {
    Coordinator recovered(7, alive.parameters, alive.names);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(recovered.replay(records[i]), Status::kOk) << i;
    }
    const auto state = alive.states.find(count);
    if (state != alive.states.end()) {
      ASSERT_EQ(recovered.state_text(), state->second) << count;
      ++compared;
    }
    recovered.start(0);
    for (const Action& action : recovered.take_actions()) {
      if (action.kind == ActionKind::kPersist && action.record.sequence() <= records.size()) {
        EXPECT_EQ(action.record.kind(), records[action.record.sequence() - 1].kind()) << count;
      }
    }
  }
  EXPECT_GT(compared, 100U);
}

TEST(Pause, AJournalThatGoesOnWhilePausedIsNoticed) {
  TestServer server(pausing_parameters());
  server.start();
  pause(&server);
  for (const RunEvent event : {RunEvent::kPaused, RunEvent::kStalled, RunEvent::kExtended, RunEvent::kFinished}) {
    Coordinator recovered(7, server.parameters, server.names);
    for (const JournalRecord& record : server.store.records()) {
      ASSERT_EQ(recovered.replay(record), Status::kOk);
    }
    const JournalRecord last = server.store.records().back();
    JournalRecord next = JournalRecord::run_state({.event = event, .version = last.version()});
    next.set_sequence(last.sequence() + 1);
    EXPECT_EQ(recovered.replay(next), Status::kDataCorrupt);
  }
}

}  // namespace
}  // namespace gradstream
