#include "server/postgresql/engine_postgres.h"

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/engine_contract.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_harness.h"

namespace gradstream {
namespace {

// One for all tests, since its start takes longer than they do. The last test uses it up.
std::unique_ptr<PostgresCluster>& shared_cluster() {
  static std::unique_ptr<PostgresCluster> cluster;
  return cluster;
}

class EnginePostgres : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PostgresCluster::why_absent(); !why.empty()) {
      GTEST_SKIP() << "skipped: " << why;
    }
    if (shared_cluster() == nullptr) {
      shared_cluster() = std::make_unique<PostgresCluster>();
    }
    ASSERT_EQ(shared_cluster()->fault(), "");
  }
  static void TearDownTestSuite() { shared_cluster().reset(); }
  static PostgresCluster& cluster() { return *shared_cluster(); }
};

std::unique_ptr<EngineHarness> make() { return std::make_unique<PostgresHarness>(*shared_cluster()); }

// A node without a proxy, with a task open for device 1, or 1 and 2.
struct OneNode {
  explicit OneNode(PostgresHarness* of, const PostgresOptions& options) : harness(of), engine(of->io(), options) {
    batch.epoch = wait(engine.join()).front.epoch;
    for (const uint32_t device : {1U, 2U}) {
      RowChange change = {device, 0, false, {}};
      change.row.task.sequence = 1;
      change.row.task.is_open = true;
      batch.changes.push_back(change);
    }
    batch.number = 1;
    EXPECT_EQ(wait(engine.commit(batch)).outcome, EngineOutcome::kCommitted) << engine.trouble();
    batch.number = 2;
    for (RowChange& change : batch.changes) {
      change.task_sequence = 1;
      change.is_open = true;
      change.row.task.is_open = false;
    }
    batch.on_time_count = 2;
    batch.sum = {7};
  }
  EngineReply wait(EngineTicket ticket) { return harness->wait(engine, ticket); }
  bool is_task_open(uint32_t device) { return wait(engine.load({device})).rows.at(0).task.is_open; }
  size_t sum_count() { return wait(engine.read_sums(0, {})).sums.size(); }

  PostgresHarness* harness;
  PostgresEngine engine;
  EngineBatch batch;  // the verdicts for both
};

// Runs the engine until its server waits for something, as pg_stat_activity calls it.
void run_until_server_waits(PostgresHarness& harness, const PostgresCluster& cluster, const std::string& kind) {
  const std::string question =
      "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'gradstream %' AND " + kind;
  EXPECT_TRUE(run_until(harness.io(), [&] { return std::stoi("0" + cluster.ask_primary(question)) > 0; })) << kind;
}

TEST_F(EnginePostgres, TakesEachUpdateOnce) { expect_exactly_once(make); }
TEST_F(EnginePostgres, CutsABatchWhoseVersionIsOver) { expect_a_cut(make); }
TEST_F(EnginePostgres, SaysWhetherABatchHappened) { expect_unknowns_resolve(make); }
TEST_F(EnginePostgres, DoesNotGuessAcrossTwoEpochs) { expect_no_guess(make); }
TEST_F(EnginePostgres, SealsAVersion) { expect_a_seal(make); }
TEST_F(EnginePostgres, TellsSumsByTheirPlace) { expect_sums_by_place(make); }
TEST_F(EnginePostgres, KeepsTheLastUpdateOfEachDevice) { expect_a_memory(make); }
TEST_F(EnginePostgres, HasOneClock) { expect_one_clock(make); }
TEST_F(EnginePostgres, HasOnePublisherForEachVersion) { expect_one_publisher(make); }
TEST_F(EnginePostgres, FreesALeaseThatIsGivenBack) { expect_a_released_lease(make); }
TEST_F(EnginePostgres, SealsNothingOfARunThatIsPaused) { expect_states(make); }
TEST_F(EnginePostgres, TellsChangesOfTheFleet) { expect_fleet_changes(make); }

// The batch waits for the other transaction, and sees what that has made of the row.
TEST_F(EnginePostgres, ABatchWaitsForRowsThatAnotherOneHas) {
  for (const bool changes_row : {false, true}) {
    PostgresHarness harness(cluster());
    OneNode node(&harness, harness.options("a"));
    PgSession other(cluster().primary());
    other.ask("BEGIN; UPDATE gradstream.run_device SET is_open = " + std::string(changes_row ? "false" : "true") +
              " WHERE device = 2 AND run = " + harness.run());
    const EngineTicket ticket = node.engine.commit(node.batch);
    run_until_server_waits(harness, cluster(), "wait_event_type = 'Lock'");
    EXPECT_TRUE(node.engine.take_replies().empty());
    other.ask("COMMIT");
    EXPECT_EQ(node.wait(ticket).outcome, changes_row ? EngineOutcome::kConflict : EngineOutcome::kCommitted);
    EXPECT_EQ(node.is_task_open(1), changes_row) << "all of a batch happens, or nothing";
    EXPECT_EQ(node.sum_count(), changes_row ? 0U : 1U);
  }
}

// Two nodes give a device its first row at once. Neither finds one to lock.
TEST_F(EnginePostgres, ADevicesFirstRowIsMadeOnce) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  PgSession other(cluster().primary());
  other.ask(
      "BEGIN; INSERT INTO gradstream.run_device SELECT run, 9, 1, true, content FROM gradstream.run_device "
      "WHERE device = 1 AND run = " +
      harness.run());
  RowChange first = {9, 0, false, {}};
  first.row.task.sequence = 1;
  node.batch.changes.push_back(first);
  const EngineTicket ticket = node.engine.commit(node.batch);
  run_until_server_waits(harness, cluster(), "wait_event_type = 'Lock'");
  other.ask("COMMIT");
  EXPECT_EQ(node.wait(ticket).outcome, EngineOutcome::kConflict);
  EXPECT_TRUE(node.is_task_open(1));
  EXPECT_TRUE(node.is_task_open(9)) << "the other one's row stands";
}

// Rows that are held for too long undo a batch. The error has no row of the front, so the node asks.
TEST_F(EnginePostgres, ABatchDoesNotWaitForEver) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  PostgresOptions brief = harness.options("b");
  brief.deadline_ms = 4'000;
  PostgresEngine impatient(harness.io(), brief);
  node.batch.epoch = harness.wait(impatient, impatient.join()).front.epoch;
  node.batch.number = 1;
  PgSession other(cluster().primary());
  other.ask("BEGIN; SELECT FROM gradstream.run_device WHERE device = 2 AND run = " + harness.run() + " FOR UPDATE");
  EXPECT_EQ(harness.wait(impatient, impatient.commit(node.batch)).outcome, EngineOutcome::kUnknown);
  EXPECT_NE(impatient.trouble().find("(SQLSTATE 55P03)"), std::string::npos) << impatient.trouble();
  EXPECT_EQ(harness.wait(impatient, impatient.resolve(node.batch.epoch, 1)).outcome, EngineOutcome::kCut);
  EXPECT_EQ(impatient.connection_count(), 1U) << "the connection is whole";
  EXPECT_TRUE(node.is_task_open(1));
  EXPECT_EQ(node.sum_count(), 0U);
}

// The session ends while the batch waits: it is undone, and the engine connects by itself.
TEST_F(EnginePostgres, ASessionThatIsEndedLeavesAnUnknown) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  PgSession other(cluster().primary());
  other.ask("BEGIN; SELECT FROM gradstream.run_device WHERE device = 2 AND run = " + harness.run() + " FOR UPDATE");
  node.engine.commit(node.batch);
  node.engine.load({1});  // behind it, on the same connection
  run_until_server_waits(harness, cluster(), "wait_event_type = 'Lock'");
  other.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
  EXPECT_TRUE(run_until(harness.io(), [&node] { return !node.engine.is_connected(); }));
  const std::vector<EngineReply> replies = node.engine.take_replies();
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(replies[0].outcome, EngineOutcome::kUnknown);
  EXPECT_EQ(replies[1].outcome, EngineOutcome::kUnknown);
  other.ask("ROLLBACK");
  EXPECT_EQ(node.wait(node.engine.resolve(node.batch.epoch, node.batch.number)).outcome, EngineOutcome::kCut);
  EXPECT_EQ(node.engine.connection_count(), 2U);
  EXPECT_TRUE(node.is_task_open(1));
}

// A commit that waits for its standby is not durable yet. PostgreSQL lets the wait be cut, and then calls it committed.
TEST_F(EnginePostgres, ACutWaitForTheStandbyIsNoCommit) {
  for (const std::string how : {"pg_cancel_backend", "pg_terminate_backend"}) {
    SCOPED_TRACE(how);
    PostgresHarness harness(cluster());
    OneNode node(&harness, harness.options("a"));
    cluster().end_standby();
    const EngineTicket ticket = node.engine.commit(node.batch);
    run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
    EXPECT_TRUE(node.engine.take_replies().empty()) << "no standby has it";
    cluster().ask_primary("SELECT " + how + "(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    EXPECT_EQ(node.wait(ticket).outcome, EngineOutcome::kUnknown);
    cluster().start_standby();
    ASSERT_EQ(cluster().fault(), "");
    EXPECT_EQ(node.wait(node.engine.resolve(node.batch.epoch, node.batch.number)).outcome, EngineOutcome::kCommitted);
    EXPECT_FALSE(node.is_task_open(1));
    EXPECT_EQ(node.sum_count(), 1U);
  }
}

// PostgreSQL then ends every wait for the standby without a word, and calls the batch committed.
TEST_F(EnginePostgres, EmptiedStandbyNamesMakeNoCommit) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  cluster().end_standby();
  const EngineTicket ticket = node.engine.commit(node.batch);
  run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
  cluster().set_standby_names("");
  EXPECT_EQ(node.wait(ticket).outcome, EngineOutcome::kUnknown);
  EXPECT_FALSE(node.engine.is_connected());
  EXPECT_NE(node.engine.trouble().find("(synchronous_standby_names is empty)"), std::string::npos)
      << node.engine.trouble();
  cluster().set_standby_names("*");
  cluster().start_standby();
  ASSERT_EQ(cluster().fault(), "");
  EXPECT_EQ(node.wait(node.engine.resolve(node.batch.epoch, node.batch.number)).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(node.sum_count(), 1U);
}

// The names may have been empty in between, so a call whose settings were read anew is asked about. One is enough.
TEST_F(EnginePostgres, ACallAcrossNewSettingsIsAskedAbout) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  cluster().set_standby_names("FIRST 1 (*)");
  EXPECT_EQ(node.wait(node.engine.commit(node.batch)).outcome, EngineOutcome::kUnknown);
  EXPECT_TRUE(node.engine.is_connected()) << node.engine.trouble();
  EXPECT_EQ(node.wait(node.engine.resolve(node.batch.epoch, node.batch.number)).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(node.engine.connection_count(), 1U);
  cluster().set_standby_names("*");
}

// What another node committed on the primary alone is visible there. Neither a load nor a question may tell of it
// before the standby has it: a device would get an Ack that a fail-over takes back.
TEST_F(EnginePostgres, TellsNothingThatTheStandbyLacks) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  PostgresEngine reader(harness.io(), harness.options("b"));
  harness.wait(reader, reader.join());
  cluster().end_standby();
  const EngineTicket ticket = node.engine.commit(node.batch);
  run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
  cluster().ask_primary("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
  EXPECT_EQ(node.wait(ticket).outcome, EngineOutcome::kUnknown);
  const EngineTicket load = reader.load({1});
  run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
  EXPECT_TRUE(reader.take_replies().empty());
  cluster().start_standby();
  EXPECT_FALSE(harness.wait(reader, load).rows.at(0).task.is_open);
  EXPECT_EQ(node.wait(node.engine.resolve(node.batch.epoch, node.batch.number)).outcome, EngineOutcome::kCommitted);
}

// The same of a version that a leader published on the primary alone.
TEST_F(EnginePostgres, TellsNoVersionThatTheStandbyLacks) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  PostgresEngine reader(harness.io(), harness.options("b"));
  EXPECT_TRUE(harness.wait(reader, reader.read_versions(1, EngineRunState::kActive)).versions.empty());
  const uint64_t term = node.wait(node.engine.take_lease()).lease.term;
  ASSERT_EQ(node.wait(node.engine.seal(term, 0)).outcome, EngineOutcome::kCommitted);
  cluster().end_standby();
  const EngineTicket ticket = node.engine.publish(term, 0, {1, {7}});
  run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
  cluster().ask_primary("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
  EXPECT_EQ(node.wait(ticket).outcome, EngineOutcome::kUnknown);
  EXPECT_EQ(harness.wait(reader, reader.read_versions(2, EngineRunState::kActive)).outcome, EngineOutcome::kCommitted)
      << "none has no wait";
  const EngineTicket versions = reader.read_versions(1, EngineRunState::kActive);
  run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
  EXPECT_TRUE(reader.take_replies().empty());
  cluster().start_standby();
  ASSERT_EQ(cluster().fault(), "");
  EXPECT_EQ(harness.wait(reader, versions).versions, (std::vector<PublishedVersion>{{1, {7}}}));
}

// The same of a pause: devices would hear of one that a fail-over loses. A state that the node knows has no wait.
TEST_F(EnginePostgres, TellsNoPauseThatTheStandbyLacks) {
  PostgresHarness harness(cluster());
  PostgresEngine reader(harness.io(), harness.options("b"));
  harness.wait(reader, reader.join());
  cluster().end_standby();
  cluster().ask_primary("SET synchronous_commit = local; UPDATE gradstream.run SET state = 1 WHERE run = " +
                        harness.run());
  EXPECT_EQ(harness.wait(reader, reader.read_versions(1, EngineRunState::kPaused)).state, EngineRunState::kPaused);
  const EngineTicket look = reader.read_versions(1, EngineRunState::kActive);
  run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
  EXPECT_TRUE(reader.take_replies().empty());
  cluster().start_standby();
  ASSERT_EQ(cluster().fault(), "");
  EXPECT_EQ(harness.wait(reader, look).state, EngineRunState::kPaused);
}

// A node that begins late reads all versions, in replies of a bounded size.
TEST_F(EnginePostgres, TellsVersionsInParts) {
  PostgresHarness harness(cluster());
  PostgresEngine engine(harness.io(), harness.options("a"));
  cluster().ask_primary("INSERT INTO gradstream.version SELECT " + harness.run() +
                        ", v, 1, '\\x07' FROM "
                        "generate_series(1, " +
                        std::to_string(kEngineVersionCountMax + 6) + ") v");
  std::vector<uint32_t> seen;
  for (const size_t count : {size_t{kEngineVersionCountMax}, size_t{6}, size_t{0}}) {
    const auto from = static_cast<uint32_t>(seen.size() + 1);
    const EngineReply reply = harness.wait(engine, engine.read_versions(from, EngineRunState::kActive));
    EXPECT_EQ(reply.outcome, EngineOutcome::kCommitted);
    EXPECT_EQ(reply.versions.size(), count);
    for (const PublishedVersion& version : reply.versions) {
      seen.push_back(version.version);
      EXPECT_EQ(version.version, seen.size());
    }
  }
}

// The database is set back: the row of the front says so with the next batch, whatever node asks.
TEST_F(EnginePostgres, TellsThatItWasSetBack) {
  PostgresHarness harness(cluster());
  OneNode node(&harness, harness.options("a"));
  cluster().ask_primary("CREATE TABLE front_before AS SELECT * FROM gradstream.front WHERE run = " + harness.run());
  ASSERT_EQ(node.wait(node.engine.commit(node.batch)).outcome, EngineOutcome::kCommitted);
  cluster().ask_primary("DELETE FROM gradstream.front WHERE run = " + harness.run());
  cluster().ask_primary("INSERT INTO gradstream.front SELECT * FROM front_before");
  cluster().ask_primary("DROP TABLE front_before");
  node.batch.number = 3;
  EngineReply reply = node.wait(node.engine.commit(node.batch));
  EXPECT_EQ(reply.outcome, EngineOutcome::kCut);
  EXPECT_EQ(reply.front.epoch, node.batch.epoch);
  EXPECT_EQ(reply.front.batch, 1U) << "it had taken the second one";
  cluster().ask_primary("DELETE FROM gradstream.front WHERE run = " + harness.run());
  reply = node.wait(node.engine.commit(node.batch));
  EXPECT_EQ(reply.outcome, EngineOutcome::kCut);
  EXPECT_EQ(reply.front.epoch, 0U) << "no front";
}

// A version has sums without a limit, and a leader reads them in replies of a bounded size.
TEST_F(EnginePostgres, TellsSumsInParts) {
  PostgresHarness harness(cluster());
  PostgresEngine engine(harness.io(), harness.options("a"));
  const auto insert = [&harness](uint64_t count, uint64_t bytes) {
    cluster().ask_primary("DELETE FROM gradstream.partial WHERE run = " + harness.run());
    cluster().ask_primary("INSERT INTO gradstream.partial SELECT " + harness.run() +
                          ", 0, 'a', 1, b, decode(repeat('07', " + std::to_string(bytes) +
                          "), 'hex') FROM generate_series(1, " + std::to_string(count) + ") b");
  };
  const auto part_sizes = [&] {
    std::vector<size_t> sizes;
    for (SumPlace after;;) {
      const EngineReply reply = harness.wait(engine, engine.read_sums(0, after));
      EXPECT_EQ(reply.outcome, EngineOutcome::kCommitted);
      if (reply.sums.empty()) {
        return sizes;
      }
      sizes.push_back(reply.sums.size());
      after = reply.sums.back().place;
    }
  };
  insert(kEngineSumCountMax + 6, 1);
  EXPECT_EQ(part_sizes(), (std::vector<size_t>{kEngineSumCountMax, 6}));
  insert(5, kEngineSumBytesMax / 2);
  EXPECT_EQ(part_sizes(), (std::vector<size_t>{2, 2, 1}));
  insert(2, kEngineSumBytesMax + 1);
  EXPECT_EQ(part_sizes(), (std::vector<size_t>{1, 1})) << "one is there, however large it is";
}

// A server that takes the connection and says nothing.
TEST_F(EnginePostgres, ADeafServerIsGivenUp) {
  PostgresHarness harness(cluster());
  Tcp::acceptor deaf(harness.io(), Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  PostgresOptions options = harness.options("a");
  options.deadline_ms = 300;
  options.server = "host=127.0.0.1 port=" + std::to_string(deaf.local_endpoint().port()) + " user=gs dbname=postgres";
  PostgresEngine engine(harness.io(), options);
  EXPECT_EQ(harness.wait(engine, engine.join()).outcome, EngineOutcome::kUnknown);
  EXPECT_TRUE(run_until(harness.io(), [&] { return !engine.trouble().empty(); }));
  EXPECT_EQ(engine.trouble(), "the engine gave no connection in 300 ms");
  EXPECT_FALSE(engine.is_connected());
}

// A node asks for the keys of its fleet all the time. What it was reached by at its start says nothing of a server that
// it fails over to. Linux takes 0.0.0.0 for this machine, and it is no address of loopback.
TEST_F(EnginePostgres, AServerWithoutTlsIsLeft) {
  PostgresHarness harness(cluster());
  PostgresOptions options = harness.options("a");
  options.server = "host=0.0.0.0 port=" + std::to_string(cluster().primary_port()) + " user=gs dbname=postgres";
  {
    PostgresEngine engine(harness.io(), options);
    EXPECT_TRUE(run_until(harness.io(), [&] { return engine.is_connected() || !engine.trouble().empty(); }));
    EXPECT_FALSE(engine.is_connected());
    EXPECT_NE(engine.trouble().find("is reached without TLS"), std::string::npos) << engine.trouble();
  }
  options.server += " sslmode=disable";  // trusted by the operator's word
  PostgresEngine engine(harness.io(), options);
  EXPECT_TRUE(run_until(harness.io(), [&] { return engine.is_connected(); })) << engine.trouble();
}

// In an address of several it hides none.
TEST_F(EnginePostgres, ADeafServerIsLeftForTheNextOne) {
  PostgresHarness harness(cluster());
  Tcp::acceptor deaf(harness.io(), Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const std::string ports =
      std::to_string(deaf.local_endpoint().port()) + "," + std::to_string(cluster().primary_port());
  for (const std::string& server :
       {"host=127.0.0.1,127.0.0.1 port=" + ports + " user=gs dbname=postgres target_session_attrs=read-write",
        "postgresql://gs@127.0.0.1:" + std::to_string(deaf.local_endpoint().port()) +
            ",127.0.0.1:" + std::to_string(cluster().primary_port()) + "/postgres?target_session_attrs=read-write"}) {
    PostgresOptions options = harness.options("a");
    options.deadline_ms = 2'000;
    options.server = server;
    PostgresEngine engine(harness.io(), options);
    EXPECT_TRUE(run_until(harness.io(), [&] { return engine.is_connected(); })) << server;
    EXPECT_EQ(engine.trouble(), "the engine gave no connection in 500 ms") << "the deaf one came first";
  }
}

// Whoever got kUnknown asks again at once. A server that executes nothing is left in peace, for longer each time.
TEST_F(EnginePostgres, AnErrorThatStaysEndsTheConnection) {
  constexpr int kTrials = 5;
  PostgresHarness harness(cluster());
  PostgresEngine engine(harness.io(), harness.options("a"));
  cluster().ask_primary("ALTER TABLE gradstream.version RENAME TO version_away");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTrials; ++i) {
    EXPECT_EQ(harness.wait(engine, engine.read_versions(1, EngineRunState::kActive)).outcome, EngineOutcome::kUnknown);
    EXPECT_FALSE(engine.is_connected());
    EXPECT_NE(engine.trouble().find("relation \"gradstream.version\" does not exist (SQLSTATE 42P01)"),
              std::string::npos)
        << engine.trouble();
  }
  // Four pauses of 50, 100, 200 and 400 ms, of which a node may leave out a quarter.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(750 * 3 / 4));
  cluster().ask_primary("ALTER TABLE gradstream.version_away RENAME TO version");
  EXPECT_EQ(harness.wait(engine, engine.read_versions(1, EngineRunState::kActive)).outcome, EngineOutcome::kCommitted)
      << engine.trouble();
  EXPECT_EQ(engine.connection_count(), kTrials + 1U);
}

// As where its disk is full: each connection ends by a call that writes.
TEST_F(EnginePostgres, AServerThatOnlyReadsIsLeftInPeaceToo) {
  constexpr int kTrials = 5;
  PostgresHarness harness(cluster());
  PostgresEngine engine(harness.io(), harness.options("a"));
  cluster().ask_primary("ALTER TABLE gradstream.node RENAME TO node_away");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTrials; ++i) {
    EXPECT_EQ(harness.wait(engine, engine.read_versions(1, EngineRunState::kActive)).outcome, EngineOutcome::kCommitted)
        << engine.trouble();
    EXPECT_EQ(harness.wait(engine, engine.join()).outcome, EngineOutcome::kUnknown);
    EXPECT_FALSE(engine.is_connected());
  }
  // The pauses of AnErrorThatStaysEndsTheConnection.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(750 * 3 / 4));
  cluster().ask_primary("ALTER TABLE gradstream.node_away RENAME TO node");
  EXPECT_EQ(harness.wait(engine, engine.join()).outcome, EngineOutcome::kCommitted) << engine.trouble();
}

// A role that may connect and no more.
TEST_F(EnginePostgres, ARoleWithoutRightsIsToldWhichItNeeds) {
  PostgresHarness harness(cluster());
  cluster().ask_primary("CREATE ROLE stranger LOGIN");
  cluster().ask_primary("GRANT pg_read_all_stats TO stranger");
  PostgresOptions options = harness.options("a");
  options.server += " user=stranger";
  PostgresEngine engine(harness.io(), options);
  const EngineTicket ticket = engine.join();
  EXPECT_TRUE(run_until(harness.io(), [&] { return !engine.trouble().empty(); }));
  EXPECT_NE(engine.trouble().find("permission denied for schema gradstream (SQLSTATE 42501). Run as the owner"),
            std::string::npos)
      << engine.trouble();
  cluster().ask_primary("GRANT USAGE ON SCHEMA gradstream TO stranger");
  cluster().ask_primary("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA gradstream TO stranger");
  EXPECT_EQ(harness.wait(engine, ticket).outcome, EngineOutcome::kCommitted) << "as the sentence says";
}

// Of a node whose machine is gone the server hears nothing. Its session ends all the same, with the locks that it has.
TEST_F(EnginePostgres, ItsServerLooksWhetherTheNodeIsThere) {
  PostgresHarness harness(cluster());
  cluster().ask_primary(
      "CREATE TABLE seen(value text); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "INSERT INTO public.seen SELECT string_agg(current_setting('tcp_' || name), ' ' ORDER BY name) "
      "FROM unnest(ARRAY['keepalives_count', 'keepalives_idle', 'keepalives_interval', 'user_timeout']) name; "
      "RETURN NEW; END $$; CREATE TRIGGER see BEFORE INSERT ON gradstream.front FOR EACH ROW EXECUTE FUNCTION see()");
  PostgresOptions options = harness.options("a");
  options.deadline_ms = 20'000;
  PostgresEngine engine(harness.io(), options);
  EXPECT_EQ(harness.wait(engine, engine.join()).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(cluster().ask_primary("SELECT value FROM seen"), "3 5 5 15000");
  cluster().ask_primary("DROP TRIGGER see ON gradstream.front; DROP FUNCTION see(); DROP TABLE seen");
}

TEST(EnginePostgresPauses, AreEachNodesOwn) {
  std::set<uint32_t> pauses;
  for (const std::string node : {"a", "b", "node-1", "node-2"}) {
    const uint32_t pause_ms = pause_of_node(kEnginePauseLastMs, node);
    EXPECT_GE(pause_ms, kEnginePauseLastMs * 3 / 4);
    EXPECT_LE(pause_ms, kEnginePauseLastMs);
    pauses.insert(pause_ms);
  }
  EXPECT_EQ(pauses.size(), 4U);
}

TEST_F(EnginePostgres, ItsQueueIsBounded) {
  PostgresHarness harness(cluster());
  std::vector<EngineReply> replies;
  PostgresEngine* connecting = nullptr;
  PostgresEngine engine(harness.io(), harness.options("a"), [&] {
    if (!connecting->is_connected()) {
      replies = connecting->take_replies();
    }
  });
  connecting = &engine;
  for (size_t i = 0; i < kEngineCallCountMax; ++i) {
    engine.read_versions(1, EngineRunState::kActive);
  }
  EXPECT_TRUE(engine.take_replies().empty());
  const EngineTicket one_more = engine.read_versions(1, EngineRunState::kActive);
  EXPECT_TRUE(run_until(harness.io(), [&] { return !replies.empty() || engine.is_connected(); }));
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].ticket, one_more);
  EXPECT_EQ(replies[0].outcome, EngineOutcome::kUnknown);
  EXPECT_EQ(harness.wait(engine, kEngineCallCountMax).outcome, EngineOutcome::kCommitted) << engine.trouble();
}

// Each is refused by name, and served as soon as what is wrong is mended: the engine asks again by itself.
TEST_F(EnginePostgres, RefusesAnAsynchronousServer) {
  PostgresHarness harness(cluster());
  cluster().set_standby_names("");
  PostgresEngine engine(harness.io(), harness.options("a"));
  const EngineTicket ticket = engine.join();
  EXPECT_TRUE(run_until(harness.io(), [&] { return !engine.trouble().empty(); }));
  EXPECT_NE(engine.trouble().find("no synchronous standby (synchronous_standby_names is empty)"), std::string::npos)
      << engine.trouble();
  EXPECT_TRUE(engine.take_replies().empty());
  PostgresOptions trusting = harness.options("b");
  trusting.durability = EngineDurability::kStorage;
  PostgresEngine other(harness.io(), trusting);
  EXPECT_EQ(harness.wait(other, other.join()).outcome, EngineOutcome::kCommitted) << "by the operator's word";
  cluster().set_standby_names("*");
  EXPECT_EQ(harness.wait(engine, ticket).outcome, EngineOutcome::kCommitted);
}

TEST_F(EnginePostgres, RefusesADatabaseThatIsNotItsOwn) {
  PostgresHarness harness(cluster());
  const auto trouble_of = [&harness](const PostgresOptions& options) {
    PostgresEngine engine(harness.io(), options);
    EXPECT_TRUE(run_until(harness.io(), [&] { return !engine.trouble().empty(); }));
    return engine.trouble();
  };
  PostgresOptions options = harness.options("a");
  options.run = 4'000'000'000U;
  EXPECT_EQ(trouble_of(options),
            "the engine does not know run 4000000000. Bring it there by gradstream engine import.");
  options = harness.options("a");
  options.server += " dbname=template1";
  EXPECT_EQ(trouble_of(options).substr(0, 46), "the engine's database has no schema gradstream");
  options.server = cluster().standby();
  EXPECT_EQ(trouble_of(options).substr(0, 35), "the engine's server is read-only: i");
  options = harness.options("a");
  PostgresEngine engine(harness.io(), options);
  harness.wait(engine, engine.join());
  cluster().ask_primary("UPDATE gradstream.cluster SET incarnation = 'another'");
  cluster().ask_primary(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
      "'gradstream a'");
  EXPECT_TRUE(run_until(harness.io(), [&] { return engine.trouble().find("incarnation") != std::string::npos; }));
  cluster().ask_primary("UPDATE gradstream.cluster SET schema_version = 3");
  EXPECT_NE(trouble_of(options).find("schema is of version 3, and this release knows up to 2"), std::string::npos);
  EXPECT_NE(init_engine(cluster().primary(), kTestDeadlineMs).sentence.find("version 3"), std::string::npos);
  cluster().ask_primary("UPDATE gradstream.cluster SET schema_version = 2");
}

// The primary dies with a batch that no standby has, and the standby takes its place: what was acknowledged is there,
// and what was unknown is resolved.
TEST_F(EnginePostgres, LivesThroughAFailOver) {
  PostgresHarness harness(cluster());
  PostgresOptions options = harness.options("a");
  options.server = cluster().both();
  options.durability = EngineDurability::kStorage;  // there is one server only when the other one is dead
  OneNode node(&harness, options);
  PostgresEngine strict(harness.io(), [&] {
    PostgresOptions own = harness.options("b");
    own.server = cluster().both();
    return own;
  }());
  harness.wait(strict, strict.join());
  cluster().end_standby();
  const EngineTicket ticket = node.engine.commit(node.batch);
  run_until_server_waits(harness, cluster(), "wait_event = 'SyncRep'");
  cluster().kill_primary();
  cluster().start_standby();
  cluster().promote_standby();
  EXPECT_EQ(node.wait(ticket).outcome, EngineOutcome::kUnknown);
  PgSession(cluster().standby()).ask("ALTER SYSTEM SET synchronous_standby_names = ''");
  PgSession(cluster().standby()).ask("SELECT pg_reload_conf()");
  EXPECT_EQ(node.wait(node.engine.resolve(node.batch.epoch, node.batch.number)).outcome, EngineOutcome::kCut);
  EXPECT_TRUE(node.is_task_open(1)) << "the task that was acknowledged";
  EXPECT_EQ(node.sum_count(), 0U);
  EXPECT_TRUE(run_until(harness.io(), [&] { return strict.trouble().find("standby") != std::string::npos; }))
      << "a server alone is refused: " << strict.trouble();
  EXPECT_FALSE(strict.is_connected());
}

}  // namespace
}  // namespace gradstream
