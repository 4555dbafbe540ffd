// Nothing leaves before its record is durable, and what is held back until then.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/coordinator/coordinator.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(CoordinatorOutput, NothingLeavesBeforeItsRecordIsDurable) {
  TestServer server(scalar_parameters());
  server.is_auto_persist = false;
  server.start();
  EXPECT_TRUE(server.published.empty());
  server.hello(0);
  server.pull(0, false, 0, 0);
  EXPECT_EQ(server.last(0, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  server.coordinator->on_persisted(server.pending.back().sequence(), server.now_ms);  // version 0
  ASSERT_EQ(server.store.append(server.pending), StoreStatus::kOk);
  server.pending.clear();
  server.collect();
  EXPECT_THAT(server.published, testing::ElementsAre(0));
  EXPECT_NE(server.last(0, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  EXPECT_EQ(server.task(0), nullptr);
  ASSERT_EQ(server.pending.size(), 1U);
  EXPECT_EQ(server.pending[0].kind(), RecordKind::kTaskIssued);
  server.persist();
  ASSERT_NE(server.task(0), nullptr);

  server.upload(0, server.good_upload(0));
  EXPECT_EQ(server.ack(0), nullptr);
  server.upload(0, server.good_upload(0));  // again, before the first is durable
  EXPECT_EQ(server.ack(0), nullptr);
  ASSERT_EQ(server.pending.size(), 1U);
  server.persist();
  ASSERT_NE(server.ack(0), nullptr);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(0)->version, 1U);
}

// What the disk does not hold up need not wait for what it does; for the last piece, a flight of its own would only
// cost.
TEST(CoordinatorOutput, OnlyTheLastPieceOfAModelMayWaitForTheTask) {
  RunParameters p = scalar_parameters();
  p.model->shape = {100, 40};
  TestServer server(p);
  server.start();
  server.hello(0);
  server.is_auto_persist = false;
  server.sent.clear();
  server.pull(0, false, 0, 0);
  ASSERT_GT(server.sent.size(), 2U);
  for (const Action& action : server.sent) {
    ASSERT_EQ(action.message.which_body, gs_ServerMessage_snapshot_chunk_tag);
    const gs_SnapshotChunk& chunk = action.message.body.snapshot_chunk;
    EXPECT_EQ(action.has_more, chunk.offset + chunk.values.size == chunk.total);
  }
  const size_t piece_count = server.sent.size();
  server.persist();
  ASSERT_EQ(server.sent.size(), piece_count + 1);
  EXPECT_EQ(server.sent.back().message.which_body, gs_ServerMessage_task_tag);
  EXPECT_FALSE(server.sent.back().has_more);
}

TEST(CoordinatorOutput, APullWaitsForTheVersionOnItsWayToTheDisk) {
  TestServer server(scalar_parameters());
  server.start();
  server.close_version_on_its_way(4);
  server.sent.clear();
  server.pull(0, true, 0, 0);
  EXPECT_TRUE(server.sent.empty());
  server.persist();
  EXPECT_NE(server.last(0, gs_ServerMessage_ack_tag), nullptr);
  ASSERT_NE(server.task(0), nullptr);
  EXPECT_EQ(server.task(0)->version, 1U);
}

// Without rounds versions may follow each other faster than the disk: the version last decided is never durable.
TEST(CoordinatorOutput, APullDoesNotWaitForVersionAfterVersion) {
  RunParameters p = scalar_parameters();
  p.local->solver = SolverId::kGradientStream;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->correction_form = CorrectionForm::kNone;
  p.model->shape = {100, 40};  // a snapshot is more messages than may be held of answers
  p.fold->fold_weight = FoldWeight::kUniform;
  p.trigger->buffer_size = 1;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 8;
  p.delay->delay_rule = DelayRule::kAsgd;
  TestServer server(p);
  server.start();
  server.join(4);
  server.is_auto_persist = false;
  server.upload(0, server.good_upload(0));  // version 1
  server.pull(3, true, 0, 0);
  const size_t first = server.pending.size();
  server.upload(1, server.good_upload(1));  // version 2
  const TestUpload third = server.good_upload(2);
  server.sent.clear();
  const std::vector<JournalRecord> all = server.pending;
  ASSERT_EQ(server.store.append({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first)}), StoreStatus::kOk);
  server.pending.erase(server.pending.begin(), server.pending.begin() + static_cast<std::ptrdiff_t>(first));
  server.coordinator->on_persisted(all[first - 1].sequence(), server.now_ms);
  server.collect();
  EXPECT_EQ(server.task(3), nullptr);  // version 2 is not durable yet
  server.upload(2, third);             // version 3
  const size_t second = server.pending.size() - 1;
  ASSERT_EQ(server.pending[second].kind(), RecordKind::kVersion);
  const uint64_t sequence = server.pending[second - 1].sequence();  // all but version 3
  server.coordinator->on_persisted(sequence, server.now_ms);
  server.collect();
  ASSERT_NE(server.task(3), nullptr);
  EXPECT_EQ(server.task(3)->version, 2U);
  const ServerMessage* chunk = server.last(3, gs_ServerMessage_snapshot_chunk_tag);
  ASSERT_NE(chunk, nullptr);
  EXPECT_EQ(chunk->body.snapshot_chunk.version, 2U);
  EXPECT_TRUE(server.closed.empty());
}

TEST(CoordinatorOutput, AWelcomeWaitsForTheVersionThatEndsAStall) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.upload(0, server.good_upload(0));
  for (const uint64_t at_ms : {2000, 3000, 4000}) {
    server.tick_at(at_ms);
  }
  ASSERT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  server.is_auto_persist = false;
  server.upload(3, server.good_upload(3));
  ASSERT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
  server.hello(1);
  EXPECT_EQ(server.last(1, gs_ServerMessage_welcome_tag), nullptr);
  server.persist();
  ASSERT_NE(server.last(1, gs_ServerMessage_welcome_tag), nullptr);
  EXPECT_EQ(server.last(1, gs_ServerMessage_welcome_tag)->body.welcome.run_state, gs_RunState_RUN_STATE_ACTIVE);
}

TEST(CoordinatorOutput, AClosedSessionGetsNothingMore) {
  TestServer server(scalar_parameters());
  server.start();
  server.hello(0);
  server.is_auto_persist = false;
  server.pull(0, false, 0, 0);
  server.coordinator->on_session_closed(server.session(0), server.now_ms);
  server.sent.clear();
  server.persist();
  EXPECT_TRUE(server.sent.empty());
}

TEST(CoordinatorOutput, AFloodOfHeldAnswersEndsTheSession) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  server.is_auto_persist = false;
  const TestUpload upload = server.good_upload(0);
  for (int i = 0; i < 200 && server.closed.empty(); ++i) {
    server.upload(0, upload);
  }
  ASSERT_EQ(server.closed.size(), 1U);
  EXPECT_EQ(server.closed[0].reason, gs_Reason_REASON_OVERLOADED);
}

TEST(CoordinatorOutput, AnEventSaysItsOwnLevel) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.hello(1);
  TestUpload corrupt = server.good_upload(0);
  corrupt.crc_error = 1;
  server.upload(0, corrupt);
  for (const uint64_t at_ms : {2000, 3000, 4000}) {
    server.tick_at(at_ms);
  }
  server.coordinator->stop(server.now_ms);
  server.collect();
  for (const char* const event : {"session_replaced", "update_refused", "round_extended", "run_stalled"}) {
    EXPECT_EQ(server.log_level(event), LogLevel::kWarn) << event;
  }
  for (const char* const event : {"snapshot_sent", "run_stopped"}) {
    EXPECT_EQ(server.log_level(event), LogLevel::kInfo) << event;
  }
}

}  // namespace
}  // namespace gradstream
