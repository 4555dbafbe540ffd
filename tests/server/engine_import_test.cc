// A run out of a SQLite database into an engine: what nodes then find is what the single server had.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cluster/engine_moves.h"
#include "server/engine/followed_run.h"
#include "server/postgresql/engine_watch.h"
#include "server/rules/partial_sum.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/store/database_lock.h"
#include "tests/support/engine_moves_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST_F(EngineMoves, NodesFindWhatTheServerHad) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  const ToldAnswer answer = import();
  ASSERT_EQ(answer.code, kExitOk) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("run=7 state=imported from=" + folder_.file("a.db") + " version=2 digest="));
  EXPECT_THAT(answer.text, HasSubstr("devices=4 claims=0 paused=no on_time=4 late=0"));
  const std::string status = call("status", "").text;
  EXPECT_THAT(status, HasSubstr("run=7 name=fleet state=active open_version=2 sealed=no versions=2 on_time=4 "));
  EXPECT_THAT(status, HasSubstr(" nodes=0 "));

  EngineSession session(kTestDeadlineMs);
  EngineRunReport seen;
  ASSERT_EQ(session.open(address_).sentence, "");
  ASSERT_EQ(read_watched_run(session, kRun, &seen).sentence, "");
  EXPECT_EQ(seen.open_version, 2U);
  EXPECT_EQ(seen.on_time_count, kDevices);
  EXPECT_EQ(seen.leader, "");
  EXPECT_EQ(seen.lease_ms, 0U);
  EXPECT_TRUE(seen.nodes.empty()) << "the import has a front for its sum, and is no node";
  EXPECT_THAT(read_watched_run(session, kRun + 1, &seen).sentence, HasSubstr("the engine has no run 8."));

  asio::io_context io;
  PostgresOptions options;
  options.server = address_;
  options.run = kRun;
  options.node = "a";
  options.deadline_ms = kTestDeadlineMs;
  PostgresEngine engine(io, options);
  const auto wait = [&](EngineTicket ticket) {
    std::vector<EngineReply> replies;
    EXPECT_TRUE(run_until(io, [&] {
      replies = replies.empty() ? engine.take_replies() : replies;
      return !replies.empty();
    })) << engine.trouble();
    EXPECT_EQ(replies.at(0).ticket, ticket);
    return replies.at(0);
  };
  // Every version, and the one that the sum of the open one makes.
  FollowedRun followed(played.server.parameters, kDevices);
  for (const PublishedVersion& version : wait(engine.read_versions(1, EngineRunState::kActive)).versions) {
    ASSERT_EQ(followed.follow(version), Status::kOk);
  }
  EXPECT_EQ(followed.version(), 2U);
  const EngineReply sums = wait(engine.read_sums(2, {}));
  ASSERT_EQ(sums.sums.size(), 1U);
  EXPECT_EQ(wait(engine.read_progress(2)).progress.on_time_count, kDevices);
  PartialSum sum;
  ASSERT_EQ(decode_partial(sums.sums[0].bytes, &sum), Status::kOk);
  ASSERT_EQ(followed.ledger().merge(sum), Status::kOk);
  EXPECT_EQ(followed.close()->digest, played.closed_digest) << "as the single server closes it";
  // The devices' rows, so that no update counts again.
  const std::vector<DeviceRow> rows = wait(engine.load({0, 1, 2, 3})).rows;
  for (uint32_t i = 0; i < kDevices; ++i) {
    EXPECT_EQ(rows[i].task.sequence, 3U);
    EXPECT_FALSE(rows[i].task.is_open);
    EXPECT_EQ(rows[i].accepted.task_sequence, 3U);
    EXPECT_EQ(rows[i].accepted.verdict, gs_Verdict_VERDICT_FOLDED);
    EXPECT_EQ(rows[i].tally.updates_folded, 3U);
    EXPECT_EQ(rows[i].judged.record_sequence, 0U) << "no engine has records";
  }
}

TEST_F(EngineMoves, TheFleetIsThereWithItsKeys) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import("--run 7").code, kExitOk);
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder_.file("a.db"))), StoreStatus::kOk);
  FleetCopy fleet;
  ASSERT_FALSE(read_fleet(database, &fleet));
  ASSERT_EQ(fleet.devices.size(), kDevices);
  EXPECT_EQ(value_of(database.find_device(played.server.names[1]))->generation, 1U);
  PgSession session(address_);
  for (const FleetCopy::Row& row : fleet.devices) {
    std::string hex;
    for (const uint8_t byte : row.content) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", byte);
      hex += digits;
    }
    EXPECT_EQ(session.ask("SELECT encode(content, 'hex') FROM gradstream.device WHERE device = " +
                          std::to_string(row.number) + " AND name = '" + row.name + "'"),
              hex);
  }
  EXPECT_EQ(session.ask("SELECT name || encode(digest, 'hex') || encode(nonce, 'hex') FROM gradstream.plan"),
            "fleetfedcba98765432108000000000000001");
  EXPECT_EQ(session.ask("SELECT source FROM gradstream.plan"), played.row.source);
}

TEST_F(EngineMoves, AnEngineTakesOneImport) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  const std::string before = row_count();
  const ToldAnswer again = import();
  EXPECT_EQ(again.code, kExitDatabase);
  EXPECT_THAT(again.text, HasSubstr("the engine has this run 7 already: an import has brought it"));
  EXPECT_EQ(row_count(), before);
  PgSession(address_).ask("UPDATE gradstream.plan SET nonce = '\\x0000000000000001'");
  EXPECT_THAT(import().text, HasSubstr("the engine has a run or devices already, and an import fills an empty one"));
}

// An error at the last table takes all of it back.
TEST_F(EngineMoves, AnErrorLeavesNothing) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  PgSession session(address_);
  session.ask(
      "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$; "
      "CREATE TRIGGER refuse BEFORE INSERT ON gradstream.partial FOR EACH ROW EXECUTE FUNCTION refuse()");
  expect_refused(import(), kExitDatabase, "the engine refuses what it was asked: no room (SQLSTATE P0001). Look into");
  session.ask("DROP TRIGGER refuse ON gradstream.partial");
  EXPECT_EQ(import().code, kExitOk) << "later it is whole";
}

// The connection ends in the middle of the commit, as with a server that is stopped.
TEST_F(EngineMoves, ALostAnswerToTheCommitIsSaid) {
  const PlayedRun played;
  played.write(folder_.file("a.db"));
  PgSession session(address_);
  session.ask(
      "CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; "
      "CREATE CONSTRAINT TRIGGER leave AFTER INSERT ON gradstream.run DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
      "EXECUTE FUNCTION leave()");
  expect_refused(import(), kExitNetwork, "The run may be in nevertheless: gradstream engine status shows it.");
}

TEST_F(EngineMoves, ADatabaseThatIsServedStaysThere) {
  const PlayedRun played;
  expect_refused(import(), kExitDatabase, folder_.file("a.db"));
  played.write(folder_.file("a.db"));
  DatabaseLock server;
  ASSERT_FALSE(server.take(folder_.file("a.db")));
  expect_refused(import(), kExitDatabase, "a run goes into an engine while no server runs");
}

// The import holds the lock of the database itself, and sees the damage of its log nevertheless.
TEST_F(EngineMoves, ADamagedLogIsNamedAndStays) {
  const PlayedRun played;
  const std::string path = folder_.file("a.db");
  played.write(path);
  const std::string killed = folder_.file("killed.db");
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk);
    for (const char* const name : {"x", "y", "z"}) {
      ASSERT_TRUE(value_of(database.add_device(name, key_of(1), 7)));
    }
    for (const std::string end : {"", "-wal"}) {  // as a server leaves them that is killed
      std::filesystem::copy_file(path + end, killed + end);
    }
  }
  constexpr int kInFrame2 = 32 + 24 + 4096 + 100;
  std::fstream log(killed + "-wal", std::ios::in | std::ios::out | std::ios::binary);
  log.seekg(kInFrame2);
  const int byte = log.get();
  log.seekp(kInFrame2);
  log.put(static_cast<char>(byte ^ 1));
  log.close();
  const auto bytes_of = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string file_before = bytes_of(killed), log_before = bytes_of(killed + "-wal");
  expect_refused(call("import", "--from " + killed), kExitDatabase, "-wal is damaged: frame 2 ");
  EXPECT_EQ(bytes_of(killed), file_before);
  EXPECT_EQ(bytes_of(killed + "-wal"), log_before);
}

TEST_F(EngineMoves, ARunThatNodesCannotGoOnWithIsNamed) {
  PlayedRun played;
  played.write(folder_.file("a.db"), true);
  expect_refused(import(), kExitFrozen, "run 7 has lost the records before version 1 (server.journal_keep)");
  expect_refused(import("--run 3"), kExitNotFound, "has no run 3");
  std::filesystem::remove(folder_.file("a.db"));
  played.row.state = StoredRunState::kStopped;
  played.write(folder_.file("a.db"));
  expect_refused(import(), kExitFrozen, "run 7 is stopped, and nodes go on with one that is active or paused");
  std::filesystem::remove(folder_.file("a.db"));
  played.row.state = StoredRunState::kActive;
  played.records.clear();
  played.write(folder_.file("a.db"));
  expect_refused(import(), kExitFrozen, "run 7 has no version yet");
  std::filesystem::remove(folder_.file("a.db"));
  RunParameters parameters = played.server.parameters;
  parameters.quality->evaluation_period = 1;
  parameters.quality->holdout_share = 0.25F;
  played.row.source = run_source(parameters);
  played.write(folder_.file("a.db"));
  expect_refused(import(), kExitFrozen, "run 7: several nodes: no engine keeps evaluations yet");
}

// device_count says how many a run waits for, and more may be enrolled.
TEST_F(EngineMoves, AMemoryOfTooManyDevicesIsNamed) {
  RunParameters parameters = scalar_parameters();
  parameters.local->correction_form = CorrectionForm::kMemory;
  parameters.fold->fold_weight = FoldWeight::kUniform;
  PlayedRun(parameters).write(folder_.file("a.db"));
  write_device_list(folder_.file("more.csv"), kClusterMemoryDevicesMax - kDevices + 1);
  const ToldAnswer enrolled =
      answer_to(std::string(GS_PROGRAM) + " device import " + folder_.file("more.csv") + " --config " +
                folder_.file("c.toml") + " --set server.database=" + folder_.file("a.db"));
  ASSERT_EQ(enrolled.code, kExitOk) << enrolled.text;
  expect_refused(import(), kExitFrozen, "run 7 has a memory (correction_form) and 16385 enrolled devices");
}

// Nodes make version 0 by device_count, whoever is enrolled.
TEST_F(EngineMoves, AMemoryOfOtherWeightsIsNamed) {
  RunParameters parameters = scalar_parameters();
  parameters.local->correction_form = CorrectionForm::kMemory;
  parameters.fold->fold_weight = FoldWeight::kUniform;
  PlayedRun played(parameters);
  parameters.trigger->device_count = kDevices - 1;
  played.row.source = run_source(parameters);
  played.write(folder_.file("a.db"));
  expect_refused(import(), kExitDatabase, "run 7 began with 4 devices, and nodes share the weights of its memory");
}

}  // namespace
}  // namespace gradstream
