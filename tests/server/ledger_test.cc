#include "server/coordinator/ledger.h"

#include <gtest/gtest.h>

#include "server/coordinator/run_messages.h"
#include "server/run/fold_keys.h"
#include "server/run/local_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// A ledger at some version, moved by a coordinator's journal.
void live(TestServer* server, int rounds) {
  server->start();
  server->join(4);
  for (int i = 0; i < rounds; ++i) {
    server->round(4);
  }
}

TEST(Ledger, FollowsACoordinatorsJournal) {
  TestServer server(scalar_parameters());
  live(&server, 3);
  Ledger ledger(server.parameters, server.names);
  for (const JournalRecord& record : server.store.records()) {
    ASSERT_EQ(ledger.apply(record), Status::kOk);
  }
  EXPECT_EQ(ledger.run().version(), 3U);
  EXPECT_EQ(ledger.run().digest(), server.coordinator->model().digest());
  EXPECT_EQ(ledger.state_text(), server.coordinator->state_text());
  EXPECT_EQ(ledger.fleet().at(2).row.tally.updates_folded, 3U);
}

// A decision goes by prepare_fold() and apply_prepared(), a replay by apply(): the state is the same after every
// record. A refused update leaves no trace.
TEST(Ledger, ALiveDecisionIsItsReplay) {
  RunParameters memory = scalar_parameters();
  memory.local->correction_form = CorrectionForm::kMemory;
  RunParameters capped = tangent_parameters();
  capped.fold->weight_share_max = 0.5F;
  RunParameters median = deadline_parameters();
  median.fold.keys().clip_norm = ClipNorm::kMedian;
  RunParameters trailing = tangent_parameters();
  trailing.fold.keys().clip_norm = ClipNorm::kTrailing;
  trailing.fold.keys().clip_factor = 0.75F;
  for (const RunParameters& p :
       {scalar_parameters(), tangent_parameters(), deadline_parameters(), memory, capped, median, trailing}) {
    TestServer server(p);
    live(&server, 3);
    Ledger decided(p, server.names);
    Ledger replayed(p, server.names);
    for (const JournalRecord& record : server.store.records()) {
      if (record.kind() == RecordKind::kUpdate) {
        std::vector<Real> values(record.payload().size() / sizeof(Real));
        ASSERT_EQ(decode_values(kRealEncoding, values.size(), record.payload().data(), record.payload().size(),
                                values.data()),
                  Status::kOk);
        FoldInput input;
        input.device = record.device();
        input.owner = p.owner_of(record.device());
        input.base_version = record.base_version();
        input.steps_done = record.steps_done();
        input.weight = static_cast<uint16_t>(record.weight());
        input.sample_count = decided.fleet().at(record.device()).row.task.samples;
        input.inverse_participation = record.inverse_participation();
        const std::vector<Real> bad(values.size(), 1e30F);
        input.values = bad;
        EXPECT_EQ(decided.prepare_fold(input), Status::kOutOfRange);
        EXPECT_EQ(decided.state_text(), replayed.state_text());
        input.values = values;
        ASSERT_EQ(decided.prepare_fold(input), Status::kOk);
        EXPECT_EQ(decided.state_text(), replayed.state_text());
        ASSERT_EQ(decided.apply_prepared(record), Status::kOk);
      } else {
        ASSERT_EQ(decided.apply(record), Status::kOk);
      }
      ASSERT_EQ(replayed.apply(record), Status::kOk);
      EXPECT_EQ(decided.state_text(), replayed.state_text());
    }
    EXPECT_EQ(decided.run().version(), 3U);
    EXPECT_EQ(decided.run().digest(), server.coordinator->model().digest());
  }
}

// What no device needs to know: B_t stands in the task of its round.
TEST(Ledger, TasksCarryTheMinibatchOfTheirRound) {
  RunParameters p = scalar_parameters();
  p.local->batch_mode = BatchMode::kCommon;
  p.local->batch_size = 3;
  p.local.keys().batch_growth = 2;
  p.local.keys().batch_size_max = 6;
  TestServer server(p);
  live(&server, 3);
  Ledger ledger(server.parameters, server.names);
  std::vector<uint32_t> sizes;
  for (const JournalRecord& record : server.store.records()) {
    ASSERT_EQ(ledger.apply(record), Status::kOk);
    if (record.kind() == RecordKind::kVersion) {
      sizes.push_back(make_task(p, ledger.run().task_terms()).estimator.batch_size);
    }
  }
  EXPECT_EQ(sizes, (std::vector<uint32_t>{3, 5, 6, 6}));
}

TEST(Ledger, PlansTheShortestWayToTheCurrentModel) {
  TestServer server(scalar_parameters());
  live(&server, 6);
  Ledger ledger(server.parameters, server.names);
  std::vector<uint64_t> digests;
  for (const JournalRecord& record : server.store.records()) {
    if (ledger.apply(record) == Status::kOk && record.kind() == RecordKind::kVersion) {
      digests.push_back(record.digest());
    }
  }
  const uint32_t version = ledger.run().version();
  ASSERT_EQ(digests.size(), version + 1U);
  EXPECT_EQ(ledger.run().plan_sync(true, version, digests[version]).cause, SyncCause::kCurrent);
  const SyncPlan behind = ledger.run().plan_sync(true, version - 1, digests[version - 1]);
  EXPECT_EQ(behind.cause, SyncCause::kBehind);
  EXPECT_EQ(behind.records.size(), 1U);
  EXPECT_EQ(behind.snapshot, nullptr);
  const SyncPlan old = ledger.run().plan_sync(true, 0, digests[0]);
  EXPECT_EQ(old.cause, SyncCause::kShorter);
  EXPECT_EQ(old.snapshot_version, version);
  EXPECT_TRUE(old.records.empty());
  EXPECT_EQ(ledger.run().plan_sync(false, 0, 0).cause, SyncCause::kJoined);
  const SyncPlan wrong = ledger.run().plan_sync(true, version, 1);
  EXPECT_EQ(wrong.cause, SyncCause::kMismatch);
  EXPECT_EQ(wrong.snapshot_version, version);
  const SyncPlan wrong_before = ledger.run().plan_sync(true, version - 1, 1);
  EXPECT_EQ(wrong_before.cause, SyncCause::kMismatch);
  EXPECT_EQ(wrong_before.snapshot_version, version - 1);
  EXPECT_EQ(wrong_before.snapshot_digest, digests[version - 1]);
  EXPECT_EQ(wrong_before.records.size(), 1U);
  EXPECT_EQ(ledger.run().plan_sync(true, version + 1, 1).cause, SyncCause::kAhead);
}

TEST(Ledger, RemembersNoMoreRecordsThanMayBeSent) {
  RunParameters p = scalar_parameters();
  p.wire->log_size_max = 1000;
  TestServer server(p);
  live(&server, 50);
  Ledger ledger(p, server.names);
  for (const JournalRecord& record : server.store.records()) {
    ASSERT_EQ(ledger.apply(record), Status::kOk);
  }
  size_t remembered = 0;
  const std::string text = ledger.state_text();
  for (size_t at = text.find("log="); at != std::string::npos; at = text.find("log=", at + 1)) {
    ++remembered;
  }
  EXPECT_EQ(remembered, 1000U / (48 + 48));  // 12 values in f32 and one chunk's other fields
}

TEST(Ledger, ATangentRunGoesBySnapshots) {
  TestServer server(tangent_parameters());
  live(&server, 2);
  Ledger ledger(server.parameters, server.names);
  for (const JournalRecord& record : server.store.records()) {
    ASSERT_EQ(ledger.apply(record), Status::kOk);
  }
  const SyncPlan plan = ledger.run().plan_sync(true, 1, 0);
  EXPECT_EQ(plan.cause, SyncCause::kShorter);
  EXPECT_EQ(plan.snapshot_version, 2U);
}

TEST(Ledger, RefusesRecordsThatDoNotFollow) {
  TestServer server(scalar_parameters());
  live(&server, 1);
  const JournalRecord first = server.store.records()[0];
  Ledger ledger(server.parameters, server.names);
  JournalRecord gap = first;
  gap.set_sequence(2);
  EXPECT_EQ(ledger.apply(gap), Status::kDataCorrupt);
  JournalRecord task = server.store.records()[1];
  task.set_sequence(1);
  EXPECT_EQ(ledger.apply(task), Status::kDataCorrupt);  // before there is a version
  JournalRow wrong = first.row();
  wrong.payload[0] ^= 1;
  EXPECT_EQ(ledger.apply(JournalRecord(wrong)), Status::kDataCorrupt);
  JournalRecord event = JournalRecord::run_state({});
  event.set_sequence(1);
  EXPECT_EQ(ledger.apply(event), Status::kDataCorrupt);
}

TEST(Ledger, RefusesAVerdictOfATaskThatIsNotOpen) {
  TestServer server(scalar_parameters());
  live(&server, 1);
  Ledger ledger(server.parameters, server.names);
  const std::vector<JournalRecord>& records = server.store.records();
  ASSERT_EQ(ledger.apply(records[0]), Status::kOk);
  ASSERT_EQ(ledger.apply(records[1]), Status::kOk);
  ASSERT_EQ(records[1].kind(), RecordKind::kTaskIssued);
  TaskEnded ended;
  ended.device = records[1].device();
  ended.task_sequence = records[1].task_sequence();
  ended.verdict = gs_Verdict_VERDICT_ABANDONED;
  const auto apply = [&ledger](const TaskEnded& task, uint64_t sequence) {
    JournalRecord record = JournalRecord::verdict(task);
    record.set_sequence(sequence);
    return ledger.apply(record);
  };
  TaskEnded other = ended;
  other.device = 99;
  EXPECT_EQ(apply(other, 3), Status::kDataCorrupt) << "nobody has this number";
  ASSERT_EQ(apply(ended, 3), Status::kOk);
  EXPECT_EQ(apply(ended, 4), Status::kDataCorrupt) << "it has its verdict";
}

// A round is its phases; a first phase that made nothing is a round too, so that a run that never succeeds ends.
TEST(Ledger, CountsRoundsByTheirFirstPhase) {
  RunParameters p = tangent_parameters();
  p.local->solver = SolverId::kSvrg;
  p.local->batch_mode = BatchMode::kAll;
  Ledger ledger(p, {"a", "b", "c", "d"});
  ledger.open_first_version({});
  const auto next = [&](bool has_anchor) {
    VersionRecord record;
    record.version = ledger.run().version() + 1;
    record.model = model_bytes(p.model->shape, ledger.run().replica().model());
    record.has_parts = true;
    if (has_anchor) {
      record.mean_gradient = model_bytes(p.model->shape, std::vector<Real>(p.model->shape.size()).data());
      record.local_step = 1;
    }
    uint64_t digest = digest_values(kDigestStart, p.model->shape.size(), ledger.run().replica().model());
    if (has_anchor) {
      digest = digest_values(digest, p.model->shape.size(), std::vector<Real>(p.model->shape.size()).data());
    }
    record.digest = digest;
    JournalRecord out =
        JournalRecord::begin_version({.version = record.version, .digest = digest, .payload = encode_payload(record)});
    out.set_sequence(ledger.last_sequence() + 1);
    ASSERT_EQ(ledger.apply(out), Status::kOk);
  };
  const bool has_anchor[] = {true, false, false, true, false};
  const uint32_t rounds[] = {0, 1, 2, 2, 3};  // of the versions 1 to 5; the anchors of version 2's round failed
  for (size_t i = 0; i < std::size(rounds); ++i) {
    next(has_anchor[i]);
    EXPECT_EQ(ledger.run().round(), rounds[i]) << "version " << i + 1;
    EXPECT_EQ(ledger.run().is_anchor_phase(), !has_anchor[i]);
  }
}

}  // namespace
}  // namespace gradstream
