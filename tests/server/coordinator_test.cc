// The coordinator as a whole: its first model, a storage that fails, and recovery from its journal.
#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "server/run/canonical_text.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// ---- The first model ----

TEST(Coordinator, BeginsAtTheModelThatItIsGiven) {
  const RunParameters p = scalar_parameters();
  TestServer server(p);
  std::vector<Real> model(p.model->shape.size());
  EXPECT_EQ(server.coordinator->set_first_model(std::span(model).first(3)), Status::kInvalidArgument);
  model[0] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(server.coordinator->set_first_model(model), Status::kNotFinite);
  model[0] = 1;
  model[3] = 1;
  EXPECT_EQ(server.coordinator->set_first_model(model), Status::kOk);
  server.start();
  ASSERT_TRUE(server.coordinator->model().has_model());
  EXPECT_TRUE(std::equal(model.begin(), model.end(), server.coordinator->model().model()));
}

// ---- Storage ----

TEST(Coordinator, WithoutStorageUpdatesAreToTryLater) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  server.is_auto_persist = false;
  server.upload(0, server.good_upload(0));
  server.coordinator->on_storage_failed(server.now_ms);
  server.collect();
  EXPECT_TRUE(server.has_log("storage_failed"));
  server.upload(1, server.good_upload(1));
  ASSERT_NE(server.ack(1), nullptr);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_TRY_LATER);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_STORAGE);
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  EXPECT_EQ(server.pending.size(), 1U);
  EXPECT_EQ(server.ack(0), nullptr);
  server.persist();
  server.coordinator->on_storage_recovered(server.now_ms);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  server.upload(1, server.good_upload(1));
  server.persist();
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
}

TEST(Coordinator, WithoutStorageAWelcomeThatWouldHaveToWaitIsRefused) {
  TestServer server(scalar_parameters());
  server.start();
  server.close_version_on_its_way(4);
  server.coordinator->on_storage_failed(server.now_ms);
  server.hello(0);
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_STORAGE);
  EXPECT_EQ(server.last(0, gs_ServerMessage_welcome_tag), nullptr);
}

// ---- Recovery ----

// A run with everything in it: late, partial, refused, abandoned, extended, stalled, revived.
void live(TestServer* server, uint32_t rounds) {
  server->start();
  server->join(4);
  RandomStream dice({});
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t device = 0; device < 4; ++device) {
      const uint32_t luck = dice.next() % 10;
      if (luck == 0) {
        gs_Hello hello = good_hello(10 * (device + 1));
        hello.lost_task_sequence = server->task(device) == nullptr ? 0 : server->task(device)->task_sequence;
        server->hello(device, hello);
      }
      if (luck != 1 || server->task(device) == nullptr) {
        server->pull(device);
      }
      if (luck == 2 || server->task(device) == nullptr) {
        continue;
      }
      TestUpload upload = server->good_upload(device);
      if (luck == 3) {
        upload.crc_error = 1;
      } else if (luck == 4 && upload.kind == StreamKind::kScalarStream) {
        upload.steps_done = 2;
        upload.values.resize(8);
      }
      server->upload(device, upload);
    }
    server->tick_at(server->now_ms + 1 + dice.next() % 1500);
  }
}

// Of rounds before its start a recovered server tells what the live one told, but what the journal does not know.
TEST(Coordinator, RecoveryRemembersTheRounds) {
  const RunParameters parameters = deadline_parameters();
  TestServer alive(parameters);
  live(&alive, 40);
  const std::vector<RoundSummary> told(alive.rounds().begin() + 1, alive.rounds().end());  // no round made version 0
  Coordinator recovered(7, parameters, alive.names);
  EXPECT_TRUE(recovered.replayed_rounds().empty());
  for (const JournalRecord& record : alive.store.records()) {
    ASSERT_EQ(recovered.replay(record), Status::kOk);
  }
  ASSERT_GT(told.size(), 10U);
  ASSERT_EQ(recovered.replayed_rounds().size(), told.size());
  for (size_t i = 0; i < told.size(); ++i) {
    RoundSummary wanted = told[i];
    wanted.asked = wanted.wanted = 0;
    wanted.missing.clear();
    wanted.waited_ms = 0;
    wanted.waited_for.clear();
    EXPECT_EQ(recovered.replayed_rounds()[i], wanted) << i;
  }
}

// The server comes back after every single record: as the undisturbed one stood there, or, where that one went on at
// once, deciding by itself what that one decided.
void recover_after_every_record(const RunParameters& parameters) {
  TestServer alive(parameters);
  live(&alive, 40);
  const std::vector<JournalRecord>& records = alive.store.records();
  ASSERT_GT(records.size(), 200U);
  size_t compared = 0;
  size_t decided = 0;
  for (size_t count = 1; count <= records.size(); ++count) {
    Coordinator recovered(7, parameters, alive.names);
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
      if (action.kind == ActionKind::kPersist) {
        JournalRecord next = records[action.record.sequence() - 1];
        next.set_time_ms(action.record.time_ms());
        EXPECT_EQ(action.record, next) << count;
        ++decided;
      }
    }
  }
  EXPECT_GT(compared, 100U);
  EXPECT_GT(decided, 5U);
  EXPECT_EQ(compared + decided, records.size());
}

TEST(Coordinator, RecoversAfterEveryRecordOfAScalarRun) { recover_after_every_record(deadline_parameters()); }

TEST(Coordinator, RecoversAfterEveryRecordOfATangentRun) {
  RunParameters p = deadline_parameters();
  p.local->solver = SolverId::kGradientStream;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->correction_form = CorrectionForm::kNone;
  recover_after_every_record(p);
}

TEST(Coordinator, RecoversAfterEveryRecordOfTimedWorkUnderACap) {
  RunParameters p = deadline_parameters();
  p.trigger->work = Work::kTimed;
  p.trigger->steps_min = 1;
  p.fold->weight_share_max = 0.4F;
  recover_after_every_record(p);
}

TEST(Coordinator, AWrongJournalIsNoticed) {
  TestServer alive(scalar_parameters());
  alive.start();
  alive.join(4);
  alive.round(4);
  const std::vector<JournalRecord> good = alive.store.records();
  for (size_t spoilt = 0; spoilt < good.size(); ++spoilt) {
    for (int how = 0; how < 3; ++how) {
      JournalRow bad = good[spoilt].row();
      if (how == 0) {
        bad.sequence += 1;
      } else if (how == 1) {
        bad.device = 77;
        bad.digest ^= 1;
      } else {
        bad.task_sequence += 5;
        bad.version += 1;
      }
      Coordinator recovered(7, alive.parameters, alive.names);
      Status status = Status::kOk;
      for (size_t i = 0; i < spoilt; ++i) {
        status = recovered.replay(good[i]);
      }
      ASSERT_EQ(status, Status::kOk);
      EXPECT_EQ(recovered.replay(JournalRecord(bad)), Status::kDataCorrupt) << spoilt << " " << how;
    }
  }
}

// The database as it was in the middle of the round of version 2, devices as they are at version 5: every answer since
// counts once more or not at all, never twice, and with the same answers the run comes to the same model.
TEST(Coordinator, ARestoredJournalThatIsOlderThanTheDevices) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  server.round(4);
  server.round(4);
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device);
  }
  server.upload(0, server.good_upload(0));
  const std::vector<JournalRecord> copy = server.store.records();  // tasks of all are out, one answer is in
  const TestUpload issued_before = server.good_upload(1);
  for (uint32_t device = 1; device < 4; ++device) {
    server.upload(device, server.good_upload(device));
  }
  server.round(4);
  server.round(4);
  ASSERT_EQ(server.coordinator->durable_version(), 5U);
  const uint64_t digest_of_5 = server.coordinator->model().digest();
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device);
  }
  const TestUpload issued_after = server.good_upload(2);
  ASSERT_GT(issued_after.task_sequence, issued_before.task_sequence);

  server.store = StoreMemory();
  ASSERT_EQ(server.store.append(copy), StoreStatus::kOk);
  server.restart();
  ASSERT_EQ(server.coordinator->durable_version(), 2U);
  for (uint32_t device = 0; device < 4; ++device) {
    gs_Hello hello = good_hello(10 * (device + 1));
    hello.has_model = true;
    hello.version = 5;
    hello.digest = digest_of_5;
    server.hello(device, hello);
    EXPECT_EQ(server.refuse(device), nullptr);
  }
  server.upload(2, issued_after);
  EXPECT_EQ(server.ack(2)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(2)->reason, gs_Reason_REASON_UNKNOWN_TASK) << "its task was issued after the copy";
  server.upload(1, issued_before);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED) << "its task was issued before, and is open";
  EXPECT_FALSE(server.ack(1)->duplicate);
  server.upload(1, issued_before);
  EXPECT_TRUE(server.ack(1)->duplicate);
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device, true, 5, digest_of_5);
    EXPECT_NE(server.last(device, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  }
  EXPECT_EQ(server.coordinator->counters().history.devices_ahead, 4U);
  EXPECT_EQ(server.coordinator->counters().digest_mismatches, 0U);
  EXPECT_TRUE(server.has_log("device_ahead device=d0 version=5 current=2"));
  ASSERT_NE(server.wait(0), nullptr);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_ANSWERED) << "its answer is in the copy";
  for (const uint32_t device : {2U, 3U}) {
    server.upload(device, server.good_upload(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 3U);
  server.round(4);
  server.round(4);
  EXPECT_EQ(server.coordinator->durable_version(), 5U);
  EXPECT_EQ(server.coordinator->model().digest(), digest_of_5);
}

// Between two lives of the server the clock jumps by a day: deadlines begin anew, and tasks that are out are answered.
TEST(Coordinator, ASystemClockThatJumpsBetweenTwoLivesEndsNothing) {
  constexpr uint64_t kDayMs = 86'400'000;
  for (const bool is_forward : {false, true}) {
    RunParameters p = deadline_parameters();
    p.trigger->step_time_min_us = 1000;
    TestServer server(p);
    server.now_ms = 10 * kDayMs;
    server.start();
    server.join(4);
    server.now_ms += 100;  // time for its steps
    server.upload(0, server.good_upload(0));
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
    const TestUpload task_is_out = server.good_upload(1);
    server.now_ms = is_forward ? server.now_ms + kDayMs : server.now_ms - kDayMs;
    server.restart();
    EXPECT_EQ(server.coordinator->next_tick_ms(), server.now_ms + p.trigger->report_deadline_ms);
    server.coordinator->on_tick(server.now_ms);
    EXPECT_EQ(server.coordinator->durable_version(), 0U) << "no deadline has passed";
    server.hello(1);
    server.upload(1, task_is_out);
    EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
    server.tick_at(server.now_ms + p.trigger->report_deadline_ms);
    EXPECT_EQ(server.coordinator->durable_version(), 1U) << "by two answers, after T";
  }
}

TEST(Coordinator, GoesOnAfterARestartInTheMiddleOfARound) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  server.upload(0, server.good_upload(0));
  const TestUpload second = server.good_upload(1);
  server.restart();
  EXPECT_EQ(server.coordinator->answers_in(), 1U);
  server.hello(1);
  server.upload(1, second);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_FOLDED);
  for (uint32_t device = 2; device < 4; ++device) {
    server.hello(device);
    server.pull(device);
    server.upload(device, server.good_upload(device));
  }
  TestServer undisturbed(scalar_parameters());
  undisturbed.start();
  undisturbed.join(4);
  undisturbed.round(4);
  EXPECT_EQ(server.coordinator->model().digest(), undisturbed.coordinator->model().digest());
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
}

}  // namespace
}  // namespace gradstream
