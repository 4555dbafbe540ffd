// The verbs of `gradstream engine`, as an operator calls them: against a primary and its standby. What
// docs/how-to/engine.md shows of import and export is in engine_import_test.cc and engine_export_test.cc.
#include "server/cluster/engine_commands.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <asio/ip/tcp.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "server/base/asio_alias.h"
#include "server/postgresql/engine_schema.h"
#include "server/postgresql/engine_stored.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr uint32_t kWaitMs = 60'000;  // of the test itself, on a machine with much else to do

// One for all tests, since its start takes longer than they do.
std::unique_ptr<PostgresCluster>& servers() {
  static std::unique_ptr<PostgresCluster> cluster;
  return cluster;
}

struct Told {
  int code = -1;
  std::string text;  // of both outputs
};

Told call(const std::string& command) {
  Told told;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  char piece[4096];
  for (size_t size = fread(piece, 1, sizeof piece, pipe); size > 0; size = fread(piece, 1, sizeof piece, pipe)) {
    told.text.append(piece, size);
  }
  const int status = pclose(pipe);
  told.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return told;
}

class EngineCommands : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PostgresCluster::why_absent(); !why.empty()) {
      GTEST_SKIP() << "skipped: " << why;
    }
    if (servers() == nullptr) {
      servers() = std::make_unique<PostgresCluster>();
    }
    ASSERT_EQ(servers()->fault(), "");
    std::ofstream(folder_.file("c.toml")) << "[engine]\ndeadline_ms = " << kWaitMs << "\n";
  }
  static void TearDownTestSuite() { servers().reset(); }
  // The address of a database that is made for this test.
  static std::string new_database(const std::string& name) {
    servers()->ask_primary("CREATE DATABASE " + name);
    return servers()->primary() + " dbname=" + name;
  }
  Told engine(const std::string& verb, const std::string& address, const std::string& more = "") const {
    return call(std::string(GS_PROGRAM) + " engine " + verb + " --config " + folder_.file("c.toml") +
                " --set 'engine.address=" + address + "' " + more);
  }

  const Folder folder_;
};

TEST_F(EngineCommands, TheTablesAreMadeOnce) {
  const std::string fleet = new_database("once");
  Told told = engine("status", fleet);
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text, HasSubstr("state=refused schema=none"));
  EXPECT_THAT(told.text, HasSubstr("initialise this one by gradstream engine init"));
  EXPECT_EQ(engine("migrate", fleet).code, kExitDatabase);

  told = engine("init", fleet);
  EXPECT_EQ(told.code, kExitOk);
  EXPECT_THAT(told.text, StartsWith("engine=postgresql state=made schema=2 incarnation="));
  told = engine("init", fleet);
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text, HasSubstr("has a cluster already: a schema gradstream of version 2 with 0 runs, incarnation"));
  EXPECT_THAT(told.text, HasSubstr("another cluster needs a database of its own"));

  told = engine("migrate", fleet);
  EXPECT_EQ(told.code, kExitOk);
  EXPECT_EQ(told.text, "engine=postgresql state=nothing_to_do schema_before=2 schema=2\n");
}

TEST_F(EngineCommands, StatusTellsServerAndRuns) {
  const std::string fleet = new_database("told");
  ASSERT_EQ(engine("init", fleet).code, kExitOk);
  ASSERT_FALSE(add_engine_run(fleet, 7, kWaitMs));
  PgSession session(fleet);
  session.ask("SELECT gradstream.join_run(7, 'a', '1.2.3'); SELECT gradstream.take_lease(7, 'a', 3600000)");
  session.ask("SELECT gradstream.join_run(7, 'b', '1.2.2'); SELECT gradstream.take_lease(7, 'b', 3600000)");
  session.ask("DELETE FROM gradstream.node WHERE node = 'b'");
  session.ask("UPDATE gradstream.front SET on_time = 3, late = 2 WHERE node = 'a'");
  Told told = engine("status", fleet);
  EXPECT_EQ(told.code, kExitOk) << told.text;
  EXPECT_THAT(told.text, HasSubstr("state=ready schema=2 incarnation="));
  EXPECT_THAT(told.text, HasSubstr("server=127.0.0.1:" + std::to_string(servers()->primary_port()) + " role=primary"));
  EXPECT_THAT(told.text, HasSubstr("standby_names=\"*\" standbys=walreceiver:sync synchronous_standbys=1 fsync=yes"));
  EXPECT_THAT(
      told.text,
      HasSubstr("\nrun=7 name=none state=active open_version=0 sealed=no versions=0 on_time=3 late=2 devices=0 nodes=2 "
                "leader=a term=1 lease_ms="));
  EXPECT_THAT(told.text, HasSubstr("\nrun=7 node=\"a\" release=1.2.3 seen_ms="));
  EXPECT_THAT(told.text, HasSubstr(" epoch=1 batch=0 open_version=0 leads=yes\n"));
  EXPECT_THAT(told.text, HasSubstr("\nrun=7 node=\"b\" release=none epoch=1 batch=0 open_version=0 leads=no\n"));
  told = engine("status", fleet, "--format json");
  EXPECT_THAT(told.text, HasSubstr("\"full_page_writes\":true"));
  EXPECT_THAT(told.text,
              HasSubstr("{\"run\":7,\"name\":\"none\",\"state\":\"active\",\"open_version\":0,\"sealed\":false,"));
}

// Tables, functions and indices of the database's schema, as lines.
std::string schema_lines(const std::string& server) {
  return PgSession(server).ask(
             "SELECT string_agg(line, E'\n' ORDER BY line COLLATE \"C\") FROM ("
             "SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || "
             "CASE WHEN a.attnotnull THEN ' not null' ELSE '' END AS line FROM pg_class c JOIN pg_attribute a ON "
             "a.attrelid = c.oid WHERE c.relnamespace = 'gradstream'::regnamespace AND a.attnum > 0 AND c.relkind IN "
             "('r', 'c') UNION ALL SELECT 'function ' || proname || '(' || pg_get_function_identity_arguments(oid) || "
             "')' FROM pg_proc WHERE pronamespace = 'gradstream'::regnamespace UNION ALL SELECT 'index ' || "
             "pg_get_indexdef(indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = "
             "'gradstream'::regnamespace) all_lines") +
         "\n";
}

// What those lines leave out: the functions' text, and the columns' order and defaults.
std::string schema_details(const std::string& server) {
  return PgSession(server).ask(
      "SELECT string_agg(line, E'\n' ORDER BY line COLLATE \"C\") FROM ("
      "SELECT pg_get_functiondef(oid) AS line FROM pg_proc WHERE pronamespace = 'gradstream'::regnamespace "
      "UNION ALL SELECT table_name || ordinal_position || column_name || coalesce(column_default, '') "
      "FROM information_schema.columns WHERE table_schema = 'gradstream') all_lines");
}

std::string test_file(const std::string& name) {
  std::ifstream file(GS_SOURCE_DIR "/tests/server/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// What nodes of two releases share is the tables. The file is what this release makes: a column or function that
// changes there takes a new version of the schema, once a release has it.
TEST_F(EngineCommands, TheTablesAreThoseOfVersionTwo) {
  const std::string fleet = new_database("golden");
  ASSERT_EQ(engine("init", fleet).code, kExitOk);
  EXPECT_EQ(schema_lines(fleet), test_file("engine_schema_2.txt"));
}

// The tables of the first release, with what stands in them, become those of this one. A node of that release goes by
// its checks: it refuses a newer version by name.
TEST_F(EngineCommands, TablesOfVersionOneAreMigratedOnce) {
  const std::string fleet = new_database("older");
  PgSession session(fleet);
  session.ask(test_file("engine_schema_1.sql"));
  ASSERT_EQ(schema_lines(fleet), test_file("engine_schema_1.txt"));
  session.ask("INSERT INTO gradstream.run(run) VALUES (7); SELECT gradstream.join_run(7, 'a')");
  session.ask(
      "INSERT INTO gradstream.device VALUES (0, 'one', '\\x01'); INSERT INTO gradstream.claim VALUES (4, 'c', "
      "'\\x02')");
  const std::string incarnation = session.ask("SELECT incarnation FROM gradstream.cluster");
  for (const std::string verb : {"init", "status"}) {
    const Told told = engine(verb, fleet);
    EXPECT_EQ(told.code, kExitDatabase) << verb;
    EXPECT_THAT(told.text, HasSubstr("of version 1, and this release "));
    EXPECT_THAT(told.text, HasSubstr("gradstream engine migrate"));
  }

  Told told = engine("migrate", fleet);
  EXPECT_EQ(told.code, kExitOk);
  EXPECT_EQ(told.text, "engine=postgresql state=migrated schema_before=1 schema=2\n");
  told = engine("migrate", fleet);
  EXPECT_EQ(told.text, "engine=postgresql state=nothing_to_do schema_before=2 schema=2\n");
  EXPECT_EQ(schema_lines(fleet), test_file("engine_schema_2.txt"));
  const std::string fresh = new_database("younger");
  ASSERT_EQ(engine("init", fresh).code, kExitOk);
  EXPECT_EQ(schema_details(fleet), schema_details(fresh));

  EXPECT_EQ(session.ask("SELECT incarnation FROM gradstream.cluster"), incarnation);
  EXPECT_EQ(session.ask("SELECT count(*) FROM gradstream.read_fleet(0, 0, 0, 0, 10, 1000)"), "2");
  EXPECT_EQ(session.ask("SELECT gradstream.join_run(7, 'a', '2')"), "(0,2,0,0,0,0,0)") << "the front's row is there";
  told = engine("status", fleet);
  EXPECT_EQ(told.code, kExitOk);
  EXPECT_THAT(told.text, HasSubstr("\nrun=7 node=\"a\" release=2 seen_ms="));
}

// Each is refused by name and makes nothing, so that a later call makes the tables.
TEST_F(EngineCommands, AServerThatCouldLoseACommitIsRefused) {
  const std::string fleet = new_database("durable");
  const auto refused = [&](const std::string& cause) {
    const Told told = engine("init", fleet);
    EXPECT_EQ(told.code, kExitDatabase);
    EXPECT_THAT(told.text, HasSubstr(cause));
    EXPECT_EQ(PgSession(fleet).ask("SELECT to_regnamespace('gradstream') IS NULL"), "t") << cause;
  };
  for (const std::string setting : {"fsync", "full_page_writes"}) {
    servers()->ask_primary("ALTER SYSTEM SET " + setting + " = off");
    servers()->ask_primary("SELECT pg_reload_conf()");
    ASSERT_TRUE(servers()->wait_for("SHOW " + setting, "off"));
    refused("runs with " + setting + " off");
    servers()->ask_primary("ALTER SYSTEM RESET " + setting);
    servers()->ask_primary("SELECT pg_reload_conf()");
    ASSERT_TRUE(servers()->wait_for("SHOW " + setting, "on"));
  }
  servers()->set_standby_names("");
  refused("no synchronous standby (synchronous_standby_names is empty)");
  refused("or engine.durability = \"storage\"");
  const Told trusted = engine("init", fleet, "--set engine.durability=storage");
  EXPECT_EQ(trusted.code, kExitOk) << trusted.text;
  servers()->set_standby_names("*");
  const Told told = engine("init", servers()->standby());
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text, HasSubstr("read-only: it is a standby"));
}

TEST_F(EngineCommands, ASchemaOfSomebodyElseIsLeftAlone) {
  const std::string fleet = new_database("other");
  PgSession session(fleet);
  session.ask("CREATE SCHEMA gradstream; CREATE TABLE gradstream.own(x integer)");
  Told told = engine("init", fleet);
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text, HasSubstr("a schema gradstream that is no cluster's"));
  session.ask("DROP SCHEMA gradstream CASCADE");
  ASSERT_EQ(engine("init", fleet).code, kExitOk);
  session.ask("UPDATE gradstream.cluster SET schema_version = 3");
  for (const std::string verb : {"init", "migrate", "status"}) {
    told = engine(verb, fleet);
    EXPECT_EQ(told.code, kExitDatabase) << verb;
    EXPECT_THAT(told.text, HasSubstr("this release knows up to 2. Install a newer release"));
  }
}

TEST_F(EngineCommands, ARoleWithoutRightsIsToldWhichItNeeds) {
  const std::string fleet = new_database("closed");
  servers()->ask_primary("CREATE ROLE guest LOGIN; GRANT pg_read_all_stats TO guest");
  const Told told = engine("init", fleet + " user=guest");
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text, HasSubstr("permission denied for database closed (SQLSTATE 42501)"));
  EXPECT_THAT(told.text, HasSubstr("GRANT CREATE ON DATABASE"));
}

TEST_F(EngineCommands, AnAddressIsJudgedWithoutItsPassword) {
  for (const std::string address : {"host=127.0.0.1 password=hush", "postgresql://gs:hush@127.0.0.1/fleet"}) {
    const Told told = engine("status", address);
    EXPECT_EQ(told.code, kExitConfig);
    EXPECT_THAT(told.text, HasSubstr("engine.address: the engine's address has a password"));
    EXPECT_THAT(told.text, HasSubstr("the password in ~/.pgpass or PGPASSWORD"));
  }
  const Told unread = engine("status", "host=127.0.0.1 passwrd=hush");
  EXPECT_EQ(unread.code, kExitConfig);
  EXPECT_THAT(unread.text, HasSubstr("engine.address: the engine's address cannot be read"));
  EXPECT_THAT(unread.text, Not(HasSubstr("hush")));
  const Told none = engine("status", "");
  EXPECT_EQ(none.code, kExitConfig);
  EXPECT_THAT(none.text, HasSubstr("engine.address is empty"));
  const Told away = engine("status", "host=127.0.0.1 port=1 user=gs dbname=x");
  EXPECT_EQ(away.code, kExitNetwork);
  EXPECT_THAT(away.text, HasSubstr("cannot be reached: "));
  EXPECT_THAT(away.text, HasSubstr("Correct the address, or start the server."));
  EXPECT_EQ(engine("status", "host=127.0.0.1", "--set engine.durability=hope").code, kExitConfig);
}

// A server that takes a connection and then says nothing does not keep the next one of the address from its turn.
TEST_F(EngineCommands, TheNextServerOfTheAddressIsReached) {
  asio::io_context io;
  asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  const std::string fleet = new_database("turn");
  ASSERT_EQ(engine("init", fleet).code, kExitOk);
  EngineSession session(20'000);  // of which the silent one has a quarter
  std::string answer;
  EXPECT_EQ(session
                .open("postgresql://gs@127.0.0.1:" + std::to_string(silent.local_endpoint().port()) + ",127.0.0.1:" +
                      std::to_string(servers()->primary_port()) + "/turn?target_session_attrs=read-write")
                .sentence,
            "");
  EXPECT_EQ(session.execute("SELECT current_database()", &answer).sentence, "");
  EXPECT_EQ(answer, "turn");
}

TEST_F(EngineCommands, ARefusalOfTheServerSaysWhatHelps) {
  const std::string fleet = new_database("refusals");
  PgSession other(fleet);
  other.ask("CREATE TABLE held(x integer)");
  other.ask("CREATE ROLE stranger LOGIN");
  EngineSession session(kWaitMs);
  ASSERT_EQ(session.open(fleet).sentence, "");
  const auto ask = [&session](const std::string& statement) { return session.execute(statement).sentence; };
  EXPECT_THAT(ask("SELECT 1/0"), HasSubstr("(SQLSTATE 22012). Look into the server's log."));
  ASSERT_EQ(ask("SET statement_timeout = 1"), "");
  EXPECT_THAT(ask("SELECT pg_sleep(60)"),
              HasSubstr("(SQLSTATE 57014). The server was given three quarters of engine.deadline_ms (60000 ms)"));
  ASSERT_EQ(ask("SET statement_timeout = 0"), "");
  ASSERT_EQ(ask("SET lock_timeout = 1"), "");
  other.ask("BEGIN; LOCK TABLE held");
  EXPECT_THAT(ask("SELECT * FROM held"),
              HasSubstr("(SQLSTATE 55P03). Another import, or a node, holds what is asked for"));
  other.ask("COMMIT");
  ASSERT_EQ(ask("SET ROLE stranger"), "");
  EXPECT_THAT(ask("SELECT * FROM held"), HasSubstr("the engine's role has too few rights: permission denied"));
  EXPECT_FALSE(session.is_away());
}

// Once nobody waits for a standby any more, a commit that was answered may be the primary's alone.
TEST_F(EngineCommands, NamesThatWereEmptiedMakeTheLastCommitDoubtful) {
  const std::string fleet = new_database("emptied");
  EngineSession session(kWaitMs);
  ASSERT_EQ(session.open(fleet).sentence, "");
  EXPECT_EQ(check_last_commit(session, EngineDurability::kStandby, "it was done").sentence, "");
  servers()->set_standby_names("");
  EXPECT_THAT(check_last_commit(session, EngineDurability::kStandby, "it was done").sentence,
              StartsWith("it was done, and its standby may lack it: the engine has no synchronous standby"));
  EXPECT_EQ(check_last_commit(session, EngineDurability::kStorage, "it was done").sentence, "");
  EngineReader reader(session, EngineDurability::kStandby);
  ASSERT_EQ(session.execute("BEGIN").sentence, "");
  EXPECT_THAT(reader.finish().sentence, StartsWith("the run was read, and its standby may lack it"));
  servers()->set_standby_names("*");
  EXPECT_EQ(check_last_commit(session, EngineDurability::kStandby, "it was done").sentence, "");
}

// What both programs say, and what the server says alone.
TEST_F(EngineCommands, TheServerNamesTheProgramThatItNeeds) {
  const std::string alone = folder_.file("gradstream");
  std::filesystem::copy_file(GS_PROGRAM, alone);
  const Told told = call(alone + " engine status --config " + folder_.file("c.toml"));
  EXPECT_EQ(told.code, kExitFile);
  EXPECT_THAT(told.text, HasSubstr("gradstream-engine cannot be run: No such file or directory; install the package "
                                   "gradstream-engine"));
  EXPECT_EQ(call(alone + " engine status --colour").code, kExitUsage) << "its words are judged before";
  EXPECT_EQ(call(alone + " engine init --help").code, kExitOk);
  EXPECT_THAT(call(std::string(GS_PROGRAM) + "-engine --version").text, StartsWith("gradstream-engine "));
}

}  // namespace
}  // namespace gradstream
