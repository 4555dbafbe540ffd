// A run out of an engine into a SQLite database that a single server goes on with.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cluster/engine_moves.h"
#include "server/coordinator/fleet.h"
#include "server/engine/followed_run.h"
#include "server/postgresql/engine_calls.h"
#include "server/postgresql/engine_stored.h"
#include "server/program/replay.h"
#include "server/rules/kept_update.h"
#include "server/run/run_core.h"
#include "server/store/database_lock.h"
#include "tests/support/engine_moves_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// What a server would begin with.
struct ExportedRun {
  explicit ExportedRun(const std::string& path) {
    EXPECT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
    row = value_of(database.current_run());
    devices = value_of(database.devices());
    SqliteStore journal(database, row->id);
    RunParameters parameters;
    EXPECT_FALSE(parse_run_source(row->source, &parameters));
    coordinator = replay_journal(*row, parameters, devices, journal, UINT32_MAX, &error);
    EXPECT_EQ(journal.read_start(&start), StoreStatus::kOk);
  }
  SqliteDatabase database;
  std::optional<RunRow> row;
  std::vector<EnrolledDevice> devices;
  CheckpointHead start;
  std::string error;
  std::unique_ptr<Coordinator> coordinator;
};

TEST_F(EngineMoves, ARunComesBackAsItWent) {
  PlayedRun played;
  played.records = played.server.store.records();  // with its last version
  while (played.records.back().kind() != RecordKind::kVersion) {
    played.records.pop_back();
  }
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  const ToldAnswer answer = call("export", "--to " + folder_.file("b.db"));
  ASSERT_EQ(answer.code, kExitOk) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("run=7 state=exported to=" + folder_.file("b.db") + " version=3 digest="));
  EXPECT_THAT(answer.text, HasSubstr("devices=4 claims=0 closed=no"));
  const ExportedRun back(folder_.file("b.db"));
  ASSERT_NE(back.coordinator, nullptr) << back.error;
  EXPECT_EQ(back.coordinator->model().version(), 3U);
  EXPECT_EQ(back.coordinator->digest(), played.closed_digest);
  EXPECT_EQ(back.start.version, 3U) << "no replay begins before the rows of the devices";
  EXPECT_EQ(back.row->run_nonce, played.row.run_nonce);
  EXPECT_EQ(back.row->digest, played.row.digest);
  for (uint32_t i = 0; i < kDevices; ++i) {
    const DeviceRow& was = played.server.coordinator->fleet().at(i).row;
    const DeviceRow& is = back.coordinator->fleet().at(i).row;
    EXPECT_EQ(is.accepted.task_sequence, was.accepted.task_sequence);
    EXPECT_EQ(is.accepted.version, was.accepted.version);
    EXPECT_EQ(is.tally.updates_folded, was.tally.updates_folded);
    EXPECT_EQ(is.task.sequence, 3U);
  }
  FleetCopy before, after;
  SqliteDatabase first;
  ASSERT_EQ(first.open(options_for(folder_.file("a.db"))), StoreStatus::kOk);
  SqliteDatabase second;
  ASSERT_EQ(second.open(options_for(folder_.file("b.db"))), StoreStatus::kOk);
  ASSERT_FALSE(read_fleet(first, &before));
  ASSERT_FALSE(read_fleet(second, &after));
  EXPECT_EQ(after.devices, before.devices);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("b.db.partial")));
}

// The next version of a server that begins with the file is that of the server that never ended.
TEST_F(EngineMoves, ASingleServerGoesOn) {
  PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  ASSERT_EQ(call("export", "--close --to " + folder_.file("b.db")).code, kExitOk);
  ExportedRun back(folder_.file("b.db"));
  ASSERT_NE(back.coordinator, nullptr) << back.error;

  TestServer next(played.server.parameters);
  std::vector<JournalRecord> before;  // what the test's disk takes for the records that are not in the file any more
  for (const JournalRecord& record : played.server.store.records()) {
    if (record.kind() == RecordKind::kVersion) {
      before.push_back(record);
      before.back().set_sequence(before.size());
    }
  }
  ASSERT_EQ(before.size(), back.start.sequence);
  ASSERT_EQ(next.store.append(before), StoreStatus::kOk);
  next.coordinator = std::move(back.coordinator);
  next.now_ms = 4'000'000'000'000U;  // after the export
  next.start();
  next.join(kDevices);
  EXPECT_EQ(next.task(0)->task_sequence, 4U) << "none is issued twice";
  next.round(kDevices);
  played.server.round(kDevices);
  EXPECT_EQ(next.coordinator->durable_version(), 4U);
  EXPECT_EQ(next.coordinator->digest(), played.server.coordinator->digest());
}

// The sum in the open version makes the version that the single server would have made.
TEST_F(EngineMoves, UpdatesInTheOpenVersionAreClosedOnDemand) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  const ToldAnswer refused = call("export", "--to " + folder_.file("b.db"));
  EXPECT_EQ(refused.code, kExitDatabase);
  EXPECT_THAT(refused.text, HasSubstr("or close it with --close"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("b.db")));
  const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
  ASSERT_EQ(answer.code, kExitOk) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("closed=yes"));
  const ExportedRun back(folder_.file("b.db"));
  ASSERT_NE(back.coordinator, nullptr) << back.error;
  EXPECT_EQ(back.coordinator->digest(), played.closed_digest);
  EXPECT_EQ(back.coordinator->fleet().at(2).row.tally.updates_folded, 3U);
}

// The sums of a large run are hundreds of megabytes, and the front and the leader read what they need.
RunParameters memory_parameters(FoldWeight weight) {
  RunParameters p = scalar_parameters();
  p.local->correction_form = CorrectionForm::kUnbiased;
  p.fold->fold_weight = weight;
  return p;
}

// What the rule remembers of each device goes there and back, with the updates of the open version.
void expect_a_memory_back(const ExportedRun& back, const PlayedRun& played) {
  ASSERT_NE(back.coordinator, nullptr) << back.error;
  EXPECT_EQ(back.coordinator->digest(), played.closed_digest);
  const std::vector<KeptUpdate> memory = back.coordinator->keeper()->memory();
  EXPECT_EQ(memory.size(), kDevices);
  EXPECT_EQ(memory, played.server.coordinator->keeper()->memory());
}

TEST_F(EngineMoves, AMemoryComesBackWithItsRun) {
  const PlayedRun played(memory_parameters(FoldWeight::kUniform));
  played.write(folder_.file("a.db"));
  const ToldAnswer there = import();
  ASSERT_EQ(there.code, kExitOk) << there.text;
  EXPECT_THAT(there.text, HasSubstr("on_time=4 late=0"));
  EXPECT_EQ(PgSession(address_).ask("SELECT count(*) FROM gradstream.kept_update WHERE version = 1"), "4");
  EXPECT_EQ(PgSession(address_).ask("SELECT count(*) FROM gradstream.kept_update WHERE version = 2"), "4");
  EXPECT_EQ(call("export", "--to " + folder_.file("b.db")).code, kExitDatabase) << "it has updates";
  const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
  ASSERT_EQ(answer.code, kExitOk) << answer.text;
  expect_a_memory_back(ExportedRun(folder_.file("b.db")), played);
}

TEST_F(EngineMoves, AMemoryThatWeighsBySamplesComesBackToo) {
  const PlayedRun played(memory_parameters(FoldWeight::kSampleCount));
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
  ASSERT_EQ(answer.code, kExitOk) << answer.text;
  expect_a_memory_back(ExportedRun(folder_.file("b.db")), played);
}

// However much it is, it comes in pieces: more updates than one answer has, and some as large as an answer each.
TEST_F(EngineMoves, AMemoryIsReadFromPlaceToPlace) {
  constexpr uint32_t kSmall = 2 * kEngineUpdateCountMax + 1;
  constexpr uint32_t kLarge = 3;
  constexpr uint32_t kDevices = 3;
  PlayedRun().write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  PgSession(address_).ask("INSERT INTO gradstream.kept_update SELECT 7, d % 3, d, 1 + d % 2, '\\x05' FROM " +
                          ("generate_series(0, " + std::to_string(kSmall - 1)) + ") d");
  PgSession(address_).ask("INSERT INTO gradstream.kept_update SELECT 7, 2, 100000 + d, 1, decode(repeat('00', " +
                          (std::to_string(kEngineUpdateBytesMax) + "), 'hex') FROM ") +
                          ("generate_series(1, " + std::to_string(kLarge)) + ") d");
  EngineSession session(kTestDeadlineMs);
  ASSERT_EQ(session.open(address_).sentence, "");
  EngineReader reader(session, EngineDurability::kStandby);
  EngineStored stored;
  bool is_there = false;
  ASSERT_EQ(reader.read_run(&stored, &is_there).sentence, "");
  std::vector<StoredUpdate> parts[2];  // of the memory, and of the open version, which is 2
  for (uint32_t device = 0; device < kDevices; ++device) {
    for (uint32_t base_version = device; base_version < kSmall; base_version += kDevices) {
      parts[base_version % 2].push_back({device, base_version, {5}});
    }
  }
  EXPECT_EQ(stored.updates, parts[1]);
  ASSERT_EQ(stored.memory.size(), parts[0].size() + kLarge);
  EXPECT_EQ(stored.memory.back().base_version, 100'000 + kLarge);
  EXPECT_EQ(stored.memory.back().bytes.size(), kEngineUpdateBytesMax);
  stored.memory.resize(parts[0].size());
  EXPECT_EQ(stored.memory, parts[0]);
  EXPECT_EQ(reader.finish().sentence, "");
}

TEST_F(EngineMoves, AnUpdateOfNobodyIsNamed) {
  const PlayedRun played(memory_parameters(FoldWeight::kUniform));
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  PgSession(address_).ask("UPDATE gradstream.kept_update SET device = 4 WHERE device = 3");
  const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
  EXPECT_EQ(answer.code, kExitDatabase);
  EXPECT_THAT(answer.text, HasSubstr("the engine has a row that this release does not read"));
}

// What a leader makes of the open version, with these devices.
uint64_t digest_of_a_leader(const std::string& address, const RunParameters& parameters, uint32_t active_count,
                            const std::vector<bool>& has_left) {
  EngineSession session(kTestDeadlineMs);
  EXPECT_EQ(session.open(address).sentence, "");
  EngineReader reader(session, EngineDurability::kStandby);
  EngineStored stored;
  bool is_there = false;
  EXPECT_EQ(reader.read_run(&stored, &is_there).sentence, "");
  std::vector<PublishedVersion> versions;
  EXPECT_EQ(reader.read_versions(1, &versions).sentence, "");
  FollowedRun leader(parameters, 0);
  for (const PublishedVersion& version : versions) {
    EXPECT_EQ(leader.follow(version), Status::kOk);
  }
  for (const StoredUpdate& update : stored.memory) {
    EXPECT_EQ(leader.remember(update), Status::kOk);
  }
  EXPECT_EQ(leader.end_memory(), Status::kOk);
  for (const StoredUpdate& update : stored.updates) {
    EXPECT_EQ(leader.add_update(update), Status::kOk);
  }
  leader.set_fleet(active_count, has_left);
  const VersionRecord closed = *leader.close();
  EXPECT_EQ(closed.forgotten, std::vector<uint32_t>{1});
  EXPECT_EQ(closed.weight_total, active_count);
  return closed.digest;
}

// A memory forgets who was disabled, and shares its weights with those that were enrolled since.
TEST_F(EngineMoves, AMemoryIsClosedWithTheFleetOfNow) {
  const PlayedRun played(memory_parameters(FoldWeight::kUniform));
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  const auto device = [&](const std::string& words) {
    return answer_to(std::string(GS_PROGRAM) + " device " + words + " --config " + folder_.file("c.toml") +
                     " --set server.database=" + folder_.file("unused.db") + " --set 'engine.address=" + address_ +
                     "'");
  };
  for (const std::string name : {"x", "y"}) {
    const ToldAnswer added = device("add " + name + " --out " + folder_.file(name));
    ASSERT_EQ(added.code, kExitOk) << added.text;
  }
  ASSERT_EQ(device("disable " + played.server.names[1]).code, kExitOk);
  const uint64_t digest =
      digest_of_a_leader(address_, played.server.parameters, kDevices + 1, {false, true, false, false, false, false});
  EXPECT_NE(digest, played.closed_digest);
  const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
  ASSERT_EQ(answer.code, kExitOk) << answer.text;
  const ExportedRun back(folder_.file("b.db"));
  ASSERT_NE(back.coordinator, nullptr) << back.error;
  EXPECT_EQ(back.coordinator->digest(), digest);
  EXPECT_EQ(back.coordinator->keeper()->memory().size(), kDevices - 1);
}

TEST_F(EngineMoves, ANodeBeginsWithoutTheSums) {
  PlayedRun().write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  EngineSession session(kTestDeadlineMs);
  ASSERT_EQ(session.open(address_).sentence, "");
  EngineReader reader(session, EngineDurability::kStandby);
  EngineStored stored;
  bool is_there = false;
  ASSERT_EQ(reader.read_start(&stored, &is_there).sentence, "");
  EXPECT_TRUE(is_there);
  EXPECT_EQ(stored.plan.name, "fleet");
  EXPECT_EQ(stored.devices.size(), kDevices);
  EXPECT_TRUE(stored.rows.empty() && stored.sums.empty());
  ASSERT_EQ(reader.finish().sentence, "");
  ASSERT_EQ(reader.read_run(&stored, &is_there).sentence, "");
  EXPECT_EQ(stored.devices.size(), kDevices);
  EXPECT_FALSE(stored.rows.empty() || stored.sums.empty());
  EXPECT_EQ(reader.finish().sentence, "");
}

// SQLite would take it for the log of the new database.
TEST_F(EngineMoves, ALogThatWasLeftBehindIsNamed) {
  for (const std::string end : {"-wal", "-shm"}) {
    const std::string left = folder_.file("b.db") + end;
    std::ofstream(left) << "old";
    const ToldAnswer answer = call("export", "--to " + folder_.file("b.db"));
    EXPECT_EQ(answer.code, kExitFile);
    EXPECT_THAT(answer.text, HasSubstr(left + " exists; remove it"));
    std::filesystem::remove(left);
  }
}

TEST_F(EngineMoves, WhatAnExportThatDidNotEndHasLeftGoes) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  for (const std::string end : {"", "-wal", "-shm"}) {
    std::ofstream(folder_.file("b.db.partial") + end) << "half of a database";
  }
  {
    DatabaseLock another;
    ASSERT_FALSE(another.take(folder_.file("b.db")));
    const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
    EXPECT_EQ(answer.code, kExitFile);
    EXPECT_THAT(answer.text, HasSubstr("another export, or a server, is at work on " + folder_.file("b.db")));
    EXPECT_TRUE(std::filesystem::exists(folder_.file("b.db.partial"))) << "the other one's";
  }
  const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
  ASSERT_EQ(answer.code, kExitOk) << answer.text;
  EXPECT_EQ(ExportedRun(folder_.file("b.db")).coordinator->digest(), played.closed_digest);
  for (const std::string end : {"", "-wal", "-shm"}) {
    EXPECT_FALSE(std::filesystem::exists(folder_.file("b.db.partial") + end)) << end;
  }
}

TEST_F(EngineMoves, AnExportThatCannotBeIsNamed) {
  const std::string to = "--close --to " + folder_.file("b.db");
  ToldAnswer answer = call("export", to);
  EXPECT_EQ(answer.code, kExitNotFound);
  EXPECT_THAT(answer.text, HasSubstr("the engine has no run that can be exported"));
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  PgSession(address_).ask("SELECT gradstream.take_lease(7, 'cellar', 3600000)");
  answer = call("export", to);
  EXPECT_EQ(answer.code, kExitDatabase);
  EXPECT_THAT(answer.text, HasSubstr("run 7 is led by node cellar, or was in the last 10 s"));
  answer = call("export", "--to " + folder_.file("a.db"));
  EXPECT_EQ(answer.code, kExitFile);
  EXPECT_THAT(answer.text, HasSubstr("a.db exists; remove it"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("b.db")));
}

// A node that is only slow renews its lease later. The server's clock stands still in this test.
TEST_F(EngineMoves, ALeaseThatHasJustRunOutIsOneStill) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  PgSession session(address_);
  session.ask(
      "CREATE SCHEMA still; CREATE FUNCTION still.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT "
      "timestamptz '2026-01-01 00:00:00+00' $$; ALTER DATABASE \"ALeaseThatHasJustRunOutIsOneStill\" "
      "SET search_path = still, pg_catalog");
  session.ask("UPDATE gradstream.run SET leader = 'cellar', lease_until = '2025-12-31 23:59:51+00'");
  const ToldAnswer answer = call("export", "--close --to " + folder_.file("b.db"));
  EXPECT_EQ(answer.code, kExitDatabase);
  EXPECT_THAT(answer.text, HasSubstr("is led by node cellar, or was in the last 10 s"));
  EXPECT_THAT(answer.text, HasSubstr("stop all nodes, wait 10 s, and export it then"));
  session.ask("UPDATE gradstream.run SET lease_until = '2025-12-31 23:59:50+00'");
  EXPECT_EQ(call("export", "--close --to " + folder_.file("b.db")).code, kExitOk);
}

// The last eight bits of that number are those of an active run.
TEST_F(EngineMoves, AStateOfANewerReleaseIsNoActiveRun) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  PgSession(address_).ask("UPDATE gradstream.run SET state = 256");
  const ToldAnswer answer = call("export", "--to " + folder_.file("b.db"));
  EXPECT_EQ(answer.code, kExitDatabase);
  EXPECT_THAT(answer.text, HasSubstr("that this release does not read"));
}

}  // namespace
}  // namespace gradstream
