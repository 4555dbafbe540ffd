#include <gtest/gtest.h>

#include "server/coordinator/ledger.h"
#include "server/coordinator/run_ledger.h"
#include "tests/support/units_server.h"

namespace gradstream {
namespace {

// The journal of a run up to its first round.
void live(UnitsServer* server) {
  server->start();
  server->join(4);
  for (int i = 0; i < 3; ++i) {
    server->stage_round(4);
  }
  server->round(4);
}

TEST(RunLedgerStages, FollowsThemByRecordsAlone) {
  UnitsServer server(units_run());
  live(&server);
  Ledger ledger(server.parameters, server.names);
  std::string stages;
  for (const JournalRecord& record : server.store.records()) {
    ASSERT_EQ(ledger.apply(record), Status::kOk);
    if (record.kind() == RecordKind::kVersion) {
      stages += stage_name(ledger.run().stage()) + std::string(" ");
      EXPECT_EQ(ledger.run().round(), record.version() == 4 ? 1U : 0U) << "a stage is no round";
    }
  }
  EXPECT_EQ(stages, "exponents sums squares train train ");
  EXPECT_EQ(ledger.run().open_stage().train_version, 3U);
  EXPECT_EQ(ledger.run().digest(), server.coordinator->digest());
}

// The decision stands in the record: a replay takes the table that is written, whatever its own fold would make.
TEST(RunLedgerStages, AReplayDecidesNothing) {
  UnitsServer server(units_run());
  live(&server);
  for (const bool is_wrong : {true, false}) {
    Ledger ledger(server.parameters, server.names);
    for (const JournalRecord& record : server.store.records()) {
      if (record.kind() != RecordKind::kVersion || record.version() != 1) {
        ASSERT_EQ(ledger.apply(record), Status::kOk);
        continue;
      }
      VersionRecord other;
      other.version = 1;
      ASSERT_EQ(decode_payload(server.parameters, record.payload(), &other), Status::kOk);
      other.stage.units = encode_units(std::vector<UnitsColumn>(16, {77, 0, 0}));
      other.stage.left_out = {2};
      other.digest = digest_with_units(ledger.run().replica().digest(), other.stage.units);
      if (is_wrong) {
        other.digest = record.digest();  // of another table
      }
      JournalRecord changed = JournalRecord::begin_version(
          {.version = 1, .digest = other.digest, .trigger = record.trigger(), .payload = encode_payload(other)});
      changed.set_sequence(record.sequence());
      ASSERT_EQ(ledger.apply(changed), is_wrong ? Status::kDataCorrupt : Status::kOk);
      if (!is_wrong) {
        EXPECT_EQ(ledger.run().open_stage().units, other.stage.units);
        EXPECT_TRUE(ledger.fleet().at(2).row.is_left_out);
      }
      break;
    }
  }
}

TEST(RunLedgerStages, PlansAreSnapshotsOfWhatTheDeviceLacks) {
  UnitsServer server(units_run());
  live(&server);
  Ledger ledger(server.parameters, server.names);
  uint64_t before = 0;
  for (const JournalRecord& record : server.store.records()) {
    ASSERT_EQ(ledger.apply(record), Status::kOk);
    if (record.kind() != RecordKind::kVersion) {
      continue;
    }
    const uint32_t version = record.version();
    const bool is_of_stage = version >= 1 && version <= 3;
    const SyncPlan joined = ledger.run().plan_sync(false, 0, 0);
    EXPECT_EQ(joined.cause, SyncCause::kJoined);
    EXPECT_EQ(joined.snapshot_parts, part_bit(ModelPart::kModel) | (version == 0 ? 0 : part_bit(ModelPart::kUnits)));
    EXPECT_EQ(ledger.run().plan_sync(true, version, record.digest()).cause, SyncCause::kCurrent);
    if (is_of_stage) {
      const SyncPlan next = ledger.run().plan_sync(true, version - 1, before);
      EXPECT_EQ(next.cause, SyncCause::kPhase);
      EXPECT_EQ(next.snapshot_parts, part_bit(ModelPart::kUnits));
      EXPECT_EQ(ledger.run().plan_sync(true, version - 1, before + 1).cause, SyncCause::kShorter)
          << "its model is wrong";
    } else if (version == 4) {
      EXPECT_EQ(ledger.run().plan_sync(true, 3, before).cause, SyncCause::kBehind) << "a record, as ever";
      EXPECT_EQ(ledger.run().plan_sync(true, 2, before).cause, SyncCause::kShorter);
    }
    before = record.digest();
  }
}

// A version that opened a stage of another run, or an answer of the wrong form, is no record of this one.
TEST(RunLedgerStages, RecordsOfAnotherRunAreRefused) {
  UnitsServer server(units_run());
  live(&server);
  Ledger other(scalar_parameters(), server.names);
  EXPECT_EQ(other.apply(server.store.records()[0]), Status::kDataCorrupt);
  Ledger ledger(server.parameters, server.names);
  for (const JournalRecord& record : server.store.records()) {
    if (record.kind() == RecordKind::kUpdate) {
      JournalRow row = record.row();
      row.payload.pop_back();
      EXPECT_EQ(ledger.apply(JournalRecord(row)), Status::kDataCorrupt);
      break;
    }
    ASSERT_EQ(ledger.apply(record), Status::kOk);
  }
}

}  // namespace
}  // namespace gradstream
