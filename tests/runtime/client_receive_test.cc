// What the client makes of records, snapshots and Acks, and of those that are wrong.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/link/client.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

// ---- Records and snapshots ----

TEST(ClientReceive, CatchesUpWithAHundredVersionsByTheLog) {
  FakeRun run;
  run.round_count = 110;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_past_upload(2));
  link.break_connection();
  server.advance(100);
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(link.client().replica().version(), 102U);
  EXPECT_EQ(link.client().counters().snapshots, 1U);
  EXPECT_EQ(link.client().counters().records_applied, 102U);
  EXPECT_EQ(link.client().counters().corrections, 2U);
  EXPECT_NE(link.client().correction(), nullptr);
}

TEST(ClientReceive, ASnapshotInsteadOfTheRecordMeansNoCorrection) {
  FakeRun run;
  run.log_length_max = 3;
  run.round_count = 20;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_past_upload(2));
  EXPECT_NE(link.client().correction(), nullptr);
  server.advance(4);
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(link.client().counters().snapshots, 2U);
  EXPECT_EQ(link.client().correction(), nullptr);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

TEST(ClientReceive, AFlippedBitIsNoticedAndRepaired) {
  for (const bool during_idle : {false, true}) {
    FakeDevice device;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until(
        [&] { return link.client().replica().version() == 2 && link.client().correction() != nullptr; }));
    if (during_idle) {
      ASSERT_TRUE(link.run_past_upload(3));
      link.client().replica_for_test().flip_bit_for_test(77);  // the digest in Pull tells the server
    } else {
      server.edit = [&](ServerMessage& message) {
        if (message.which_body == gs_ServerMessage_log_chunk_tag) {  // after Pull: only the device can notice
          link.client().replica_for_test().flip_bit_for_test(77);
          server.edit = nullptr;
        }
      };
    }
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().digest_mismatches, during_idle ? 0U : 1U);
    EXPECT_EQ(link.client().counters().snapshots, 2U);
    EXPECT_EQ(server.snapshots_sent, 2U);
    EXPECT_EQ(link.client().replica().digest(), server.model().digest());
    EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  }
}

// The snapshot that repairs a flipped bit does not come whole: the device asks for the model that it had once more,
// since the record behind that model settles the correction.
TEST(ClientReceive, ARepairThatFailedIsAskedForAgain) {
  FakeRun run;
  run.round_count = 8;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().correction() != nullptr; }));
  server.holds_version_open = true;
  ASSERT_TRUE(link.run_past_upload(2));
  const uint32_t held = link.client().replica().version();
  link.client().replica_for_test().flip_bit_for_test(77);
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_snapshot_chunk_tag) {
      message.body.snapshot_chunk.digest ^= 1;
      server.edit = nullptr;
    }
  };
  std::vector<gs_Pull> pulls;
  server.intercept = [&](const DeviceMessage& message) {
    if (message.which_body == gs_DeviceMessage_pull_tag) {
      pulls.push_back(message.body.pull);
    }
    return false;
  };
  ASSERT_TRUE(link.run_until([&] { return pulls.size() == 2; }));
  EXPECT_TRUE(pulls[1].has_model);
  EXPECT_EQ(pulls[1].version, held);
  EXPECT_EQ(pulls[1].digest, 0U);
  EXPECT_FALSE(link.client().replica().has_model());
  server.holds_version_open = false;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

TEST(ClientReceive, AServerThatNeverAgreesIsLeftAlone) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) {
      ++message.body.task.digest;
    }
  };
  FakeLink link(device, server);
  const uint64_t begin_ms = link.now_ms;
  ASSERT_TRUE(link.run_until([&] { return server.hello_count() == 10 && !link.is_connected(); }));
  EXPECT_EQ(link.client().counters().malformed_frames, 10U);
  EXPECT_EQ(link.client().counters().digest_mismatches, 20U);  // a snapshot is tried each time
  EXPECT_GE(link.now_ms - begin_ms, 9000U);                    // one second apart at least
  EXPECT_EQ(link.client().counters().local_steps, 0U);
}

// The digest in a record's last piece is the only thing that is wrong: the device asks for a snapshot.
TEST(ClientReceive, AWrongDigestBringsASnapshot) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  uint32_t seen = 0;
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_log_chunk_tag && seen++ == 1) {
      message.body.log_chunk.digest ^= 1;
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().digest_mismatches, 1U);
  EXPECT_EQ(link.client().counters().snapshots, 2U);
  EXPECT_EQ(link.client().counters().sessions, 1U);
  EXPECT_EQ(link.client().counters().corrections, 3U);
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

// ---- Acks ----

// What a server without the device's trust in its own loss says: the update is gone, and a new task comes.
TEST(ClientReceive, ARefusedLossEndsItsUpdateAlone) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.verdicts = {gs_VERDICT_REFUSED};
  server.refusal = gs_REASON_NOT_FINITE;
  ASSERT_TRUE(link.run_past_upload(1));
  EXPECT_EQ(link.client().counters().updates_refused, 1U);
  EXPECT_EQ(link.client().last_reason(), gs_REASON_NOT_FINITE);
  const uint32_t sessions = link.client().counters().sessions;
  ASSERT_TRUE(link.run_past_upload(2));
  EXPECT_EQ(link.client().counters().updates_folded, 1U);
  EXPECT_EQ(link.client().counters().updates_resent, 0U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  EXPECT_EQ(link.client().counters().sessions, sessions);
  EXPECT_EQ(server.uploads.size(), 2U);
}

// ---- Bad input ----

// One wrong message of the kind; the session ends, is counted, and the pair recovers to the undisturbed end.
void expect_malformed(pb_size_t which, const std::function<void(ServerMessage&)>& change, uint32_t nth = 1) {
  FakeDevice device;
  device.config.has_storage = false;
  FakeServer undisturbed{FakeRun{}};
  {
    FakeLink link(device, undisturbed);
    ASSERT_TRUE(link.run_to_end());
  }
  FakeServer server{FakeRun{}};
  uint32_t seen = 0;
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == which && seen++ == nth) {
      change(message);
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().malformed_frames, 1U);
  EXPECT_EQ(link.client().counters().sessions, 2U);
  EXPECT_EQ(link.client().counters().snapshots, 1U);
  expect_same_end(server, link.client(), undisturbed);
}

#define EXPECT_MALFORMED(which, change)                        \
  {                                                            \
    SCOPED_TRACE(#change);                                     \
    expect_malformed(which, [](ServerMessage& m) { change; }); \
  }

TEST(ClientReceive, WrongRecordsLeaveTheModelAlone) {
  const pb_size_t log = gs_ServerMessage_log_chunk_tag;
  EXPECT_MALFORMED(log, m.body.log_chunk.version += 1);
  EXPECT_MALFORMED(log, m.body.log_chunk.version -= 1);
  EXPECT_MALFORMED(log, m.body.log_chunk.block_index = 1; m.body.log_chunk.block_count = 2);
  EXPECT_MALFORMED(log, m.body.log_chunk.block_count = 2);  // the Task comes before the record is whole
  EXPECT_MALFORMED(log, m.body.log_chunk.first_value = 32; m.body.log_chunk.value_count = 40);
  EXPECT_MALFORMED(log, m.body.log_chunk.value_count = 40);
  EXPECT_MALFORMED(log, m.body.log_chunk.value_count = 7; m.body.log_chunk.values.size = 28);  // not whole steps
  EXPECT_MALFORMED(log, m.body.log_chunk.encoding = gs_ENCODING_BF16);
  EXPECT_MALFORMED(log, m.body.log_chunk.base_version = m.body.log_chunk.version);
  EXPECT_MALFORMED(log, m.body.log_chunk.step_scale = NAN);
  EXPECT_MALFORMED(log, m.body.log_chunk.step_scale = 3e38F);                  // the step is not finite
  EXPECT_MALFORMED(log, std::memset(m.body.log_chunk.values.bytes, 0xff, 4));  // NaN
  EXPECT_MALFORMED(log, m = FakeServer::make(gs_ServerMessage_ack_tag); m.body.ack.task_sequence = 1;
                   m.body.ack.verdict = gs_VERDICT_FOLDED);
  EXPECT_MALFORMED(log, m = FakeServer::make(gs_ServerMessage_welcome_tag); m.body.welcome.rows = 8;
                   m.body.welcome.cols = 2);
}

TEST(ClientReceive, WrongSnapshotsAreRepaired) {
  const auto wrong = [](const std::function<void(gs_SnapshotChunk&)>& change) {
    expect_malformed(
        gs_ServerMessage_snapshot_chunk_tag, [&](ServerMessage& m) { change(m.body.snapshot_chunk); }, 0);
  };
  wrong([](gs_SnapshotChunk& c) { c.total = 68; });
  wrong([](gs_SnapshotChunk& c) {
    c.offset = 4;
    c.values.size -= 4;
  });
  wrong([](gs_SnapshotChunk& c) { c.values.size -= 4; });
  wrong([](gs_SnapshotChunk& c) { std::memset(c.values.bytes, 0xff, 4); });
}

TEST(ClientReceive, WrongTasksAndAcksEndTheSession) {
  EXPECT_MALFORMED(gs_ServerMessage_task_tag, m.body.task.version += 1);
  EXPECT_MALFORMED(gs_ServerMessage_task_tag, m.body.task.step_size = NAN);
  EXPECT_MALFORMED(gs_ServerMessage_ack_tag, m.body.ack.task_sequence += 1);
  EXPECT_MALFORMED(gs_ServerMessage_ack_tag, m = FakeServer::make(gs_ServerMessage_wait_tag));
}

}  // namespace
}  // namespace gradstream
