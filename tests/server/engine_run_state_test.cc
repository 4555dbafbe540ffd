// `gradstream run pause`, `resume` and `stop` beside an engine, by the program that an operator calls
// (docs/how-to/engine.md).
#include "server/postgresql/engine_run_state.h"

#include <thread>

#include "server/program/commands.h"
#include "tests/support/engine_moves_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

class EngineRunStates : public EngineMoves {
 protected:
  ToldAnswer run_verb(const std::string& verb, const std::string& more = "") const {
    return answer_to(std::string(GS_PROGRAM) + " run " + verb + " --config " + folder_.file("c.toml") +
                     " --set 'engine.address=" + address_ + "' " + more);
  }
  void import_run(StoredRunState state = StoredRunState::kActive) {
    PlayedRun played;
    played.row.state = state;
    played.write(folder_.file("a.db"));
    const ToldAnswer answer = import();
    ASSERT_EQ(answer.code, kExitOk) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr(state == StoredRunState::kActive ? " paused=no " : " paused=yes "));
  }
  std::string state() const { return PgSession(address_).ask("SELECT state FROM gradstream.run"); }
  // Of the run in the file that an export has made.
  StoredRunState exported_state() const {
    const std::string to = folder_.file("b.db");
    const ToldAnswer answer = call("export", "--close --to " + to);
    EXPECT_EQ(answer.code, kExitOk) << answer.text;
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(to)), StoreStatus::kOk);
    const Expected<std::optional<RunRow>> run = database.find_run(kRun);
    GS_ASSERT(run.is_ok() && run->has_value());
    return (*run)->state;
  }
};

void expect_told(const ToldAnswer& answer, int code, const std::string& words) {
  EXPECT_EQ(answer.code, code) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr(words));
}

TEST_F(EngineRunStates, AVerbChangesTheRunsRow) {
  import_run();
  expect_told(call("status", ""), kExitOk, " state=active open_version=2 ");
  expect_told(run_verb("resume"), kExitOk, "note=\"run 7 is active already; nothing was changed\"");
  ToldAnswer answer = run_verb("pause");
  EXPECT_EQ(answer.code, kExitOk);
  EXPECT_EQ(answer.text, "run=7 state=paused\n");
  EXPECT_EQ(state(), "1");
  expect_told(call("status", ""), kExitOk, " state=paused open_version=2 ");
  expect_told(run_verb("pause"), kExitOk, "note=\"run 7 is paused already; nothing was changed\"");
  answer = run_verb("resume", "--run 7 --format json");
  EXPECT_EQ(answer.code, kExitOk);
  EXPECT_EQ(answer.text, "{\"run\":7,\"state\":\"active\"}\n");
  EXPECT_EQ(state(), "0");
  EXPECT_EQ(run_verb("stop").text, "run=7 state=stopped\n");
  expect_told(run_verb("stop"), kExitOk, "note=\"run 7 is stopped already; nothing was changed\"");
  expect_told(run_verb("pause"), kExitNotFound, "run 7 is stopped; only an active run can be paused");
  expect_told(run_verb("resume"), kExitNotFound, "run 7 is stopped; only a paused run can be resumed");
  EXPECT_EQ(state(), "2");
}

TEST_F(EngineRunStates, ARunThatIsNotThereIsNamed) {
  expect_told(run_verb("pause"), kExitNotFound, "the engine has no run; gradstream engine import brings one");
  import_run();
  expect_told(run_verb("pause", "--run 3"), kExitNotFound, "the engine has no run 3");
  EXPECT_EQ(state(), "0");
}

// A run whose rounds are done has no state but that.
TEST_F(EngineRunStates, AFinishedRunIsNamed) {
  import_run(StoredRunState::kPaused);
  PgSession(address_).ask("UPDATE gradstream.run SET open_version = 1000000");
  expect_told(call("status", ""), kExitOk, " state=finished ");
  expect_told(run_verb("resume"), kExitNotFound, "run 7 is finished; only a paused run can be resumed");
  expect_told(run_verb("stop"), kExitOk, "run 7 is finished already; nothing was changed");
}

TEST_F(EngineRunStates, APausedRunGoesInAndComesBack) {
  import_run(StoredRunState::kPaused);
  EXPECT_EQ(state(), "1");
  expect_told(call("export", "--to " + folder_.file("b.db")), kExitDatabase,
              "no node publishes it while the run is not active: close it with --close");
  PgSession(address_).ask("UPDATE gradstream.run SET is_sealed = true");
  expect_told(call("export", "--to " + folder_.file("b.db")), kExitDatabase,
              "that version is sealed: start a node, which publishes it, or close it with --close");
  EXPECT_EQ(exported_state(), StoredRunState::kPaused);
}

TEST_F(EngineRunStates, AStoppedRunComesBackStopped) {
  import_run();
  ASSERT_EQ(run_verb("stop").code, kExitOk);
  EXPECT_EQ(exported_state(), StoredRunState::kStopped);
}

// Two verbs at once: one of them waits for the other one's end, and then goes by what that has left.
TEST_F(EngineRunStates, TheSlowerOfTwoVerbsLooksAnew) {
  import_run();
  PgSession other(address_);
  other.ask("BEGIN");
  other.ask("UPDATE gradstream.run SET state = 2");
  ToldAnswer answer;
  std::thread slower([&] { answer = run_verb("pause"); });
  EXPECT_TRUE(
      cluster_of_moves()->wait_for("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", "1"));
  other.ask("COMMIT");
  slower.join();
  expect_told(answer, kExitNotFound, "run 7 is stopped; only an active run can be paused");
  EXPECT_EQ(state(), "2");
}

// The standby is away: nobody is told that the run is paused, since a fail-over would take it back.
TEST_F(EngineRunStates, AChangeThatTheStandbyLacksIsDoubted) {
  import_run();
  EngineSession session(kTestDeadlineMs);
  ASSERT_EQ(session.open(address_).sentence, "");
  EngineRunRow row(session, EngineDurability::kStandby);
  EngineRunNow now;
  bool is_there = false;
  ASSERT_EQ(row.read(&now, &is_there).sentence, "");
  ASSERT_TRUE(is_there);
  EXPECT_EQ(now.run, kRun);
  cluster_of_moves()->end_standby();
  Objection why;
  RunStateWrite write = RunStateWrite::kDone;
  std::thread verb([&] { write = row.exchange(now, EngineRunState::kPaused, &why); });
  cluster_of_moves()->wait_for("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "1");
  cluster_of_moves()->ask_primary("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
  verb.join();
  EXPECT_EQ(write, RunStateWrite::kDoubted);
  EXPECT_THAT(why.sentence, HasSubstr("the run was changed, and the wait for its standby was cut"));
  cluster_of_moves()->start_standby();
  ASSERT_EQ(cluster_of_moves()->fault(), "");
  EXPECT_EQ(row.exchange(now, EngineRunState::kPaused, &why), RunStateWrite::kBeaten) << "it is in";
  expect_told(run_verb("pause"), kExitOk, "is paused already");
}

// What a release after this one makes of a run is nothing to change.
TEST_F(EngineRunStates, AStateOfANewerReleaseIsRefused) {
  import_run();
  PgSession(address_).ask("UPDATE gradstream.run SET state = 9");
  expect_told(run_verb("pause"), kExitDatabase, "the engine has a run that this release does not read");
  EXPECT_EQ(state(), "9");
  expect_told(call("status", ""), kExitDatabase, "the engine has a run that this release does not read");
}

}  // namespace
}  // namespace gradstream
