#include "server/postgresql/engine_postgres.h"

#include <chrono>
#include <memory>
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
  size_t sum_count() { return wait(engine.read_sums(0)).sums.size(); }

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
TEST_F(EnginePostgres, HasOnePublisherForEachVersion) { expect_one_publisher(make); }

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

// Rows that are held for too long are a conflict too: nothing has happened, and the batch may be sent again.
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
  EXPECT_EQ(harness.wait(impatient, impatient.commit(node.batch)).outcome, EngineOutcome::kConflict)
      << impatient.trouble();
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

TEST_F(EnginePostgres, ItsQueueIsBounded) {
  PostgresHarness harness(cluster());
  PostgresEngine engine(harness.io(), harness.options("a"));
  for (size_t i = 0; i < kEngineCallCountMax; ++i) {
    engine.read_versions(1);
  }
  EXPECT_TRUE(engine.take_replies().empty());
  const EngineTicket one_more = engine.read_versions(1);
  const std::vector<EngineReply> replies = engine.take_replies();
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
  EXPECT_EQ(trouble_of(options), "the engine does not know run 4000000000. Start the run on this engine first.");
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
  cluster().ask_primary("UPDATE gradstream.cluster SET schema_version = 2");
  EXPECT_NE(trouble_of(options).find("schema is of version 2, and this release knows up to 1"), std::string::npos);
  EXPECT_NE(init_engine(cluster().primary(), kTestDeadlineMs).sentence.find("version 2"), std::string::npos);
  cluster().ask_primary("UPDATE gradstream.cluster SET schema_version = 1");
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
