#include "server/postgresql/engine_admin.h"

#include "server/postgresql/engine_schema.h"
#include "server/postgresql/engine_transfer.h"

namespace gradstream {
namespace {

constexpr char kServerColumns[] =
    ", to_regnamespace('gradstream') IS NOT NULL, "
    "coalesce(host(inet_server_addr()) || ':' || inet_server_port(), ''), "
    "(SELECT coalesce(string_agg(application_name || ':' || sync_state, ',' ORDER BY application_name), '') "
    "FROM pg_stat_replication), "
    "coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false), "
    "greatest(0, current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint"
    " - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')), "
    "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
constexpr char kCluster[] = "SELECT schema_version, incarnation FROM gradstream.cluster";
constexpr char kRuns[] =
    "SELECT run, open_version, is_sealed, leader, term, "
    "greatest(0, floor(extract(epoch FROM lease_until - clock_timestamp()) * 1000))::bigint, "
    "(SELECT count(*) FROM gradstream.version v WHERE v.run = r.run), "
    "(SELECT count(*) FROM gradstream.run_device d WHERE d.run = r.run), "
    "(SELECT coalesce(sum(on_time), 0)::bigint FROM gradstream.front f WHERE f.run = r.run), "
    "(SELECT coalesce(sum(late), 0)::bigint FROM gradstream.front f WHERE f.run = r.run), "
    "coalesce((SELECT name FROM gradstream.plan p WHERE p.run = r.run), ''), state, "
    "coalesce((SELECT source FROM gradstream.plan p WHERE p.run = r.run), '') "
    "FROM gradstream.run r ORDER BY run";
constexpr char kNodes[] =
    "SELECT f.node, coalesce(n.release, ''), n.node IS NOT NULL, "
    "greatest(0, floor(coalesce(extract(epoch FROM clock_timestamp() - n.seen), 0) * 1000))::bigint, "
    "f.epoch, f.batch, f.open_version "
    "FROM gradstream.front f LEFT JOIN gradstream.node n ON n.run = f.run AND n.node = f.node "
    "WHERE f.run = $1::bigint ORDER BY f.node";
// The table is held until the migration is committed, so that a second one finds it done.
constexpr char kHold[] = "BEGIN; LOCK TABLE gradstream.cluster IN ACCESS EXCLUSIVE MODE";
constexpr char kHeldVersion[] = "SELECT schema_version FROM gradstream.cluster";

Objection unread(const PgTable& table, const char* what) {
  return table.is_sound() ? Objection()
                          : std::string("the engine's ") + what +
                                " do not read as this release writes them. Use the release that made the schema.";
}

Objection read_nodes(EngineSession& session, EngineRunReport* run) {
  PgParameters parameters;
  parameters.number(run->run);
  PgResult rows;
  if (Objection objection = session.ask(kNodes, parameters, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  for (size_t i = 0; i < table.row_count(); ++i) {
    EngineNodeReport node;
    node.node = table.text(i, 0);
    if (node.node == kImportNode) {
      continue;
    }
    node.release = table.text(i, 1);
    node.seen_ms = table.flag(i, 2) ? table.number(i, 3) : UINT64_MAX;
    node.epoch = table.number(i, 4);
    node.batch = table.number(i, 5);
    node.open_version = static_cast<uint32_t>(table.number(i, 6));
    run->nodes.push_back(node);
  }
  return unread(table, "nodes");
}

Objection read_runs(EngineSession& session, std::vector<EngineRunReport>* out) {
  PgResult rows;
  if (Objection objection = session.ask(kRuns, {}, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  bool is_known = true;
  for (size_t i = 0; i < table.row_count(); ++i) {
    EngineRunReport run;
    run.run = static_cast<uint32_t>(table.number(i, 0));
    run.open_version = static_cast<uint32_t>(table.number(i, 1));
    run.is_sealed = table.flag(i, 2);
    run.leader = table.text(i, 3);
    run.term = table.number(i, 4);
    run.lease_ms = table.number(i, 5);
    run.version_count = table.number(i, 6);
    run.device_count = table.number(i, 7);
    run.on_time_count = table.number(i, 8);
    run.late_count = table.number(i, 9);
    run.name = table.text(i, 10);
    is_known = is_known && table.number(i, 11) <= static_cast<uint64_t>(EngineRunState::kStopped);
    run.state = static_cast<EngineRunState>(table.number(i, 11));
    run.source = table.text(i, 12);
    out->push_back(run);
  }
  Objection objection = is_known ? unread(table, "runs") : Objection(kUnreadEngineRun);
  for (EngineRunReport& run : *out) {
    objection = objection ? objection : read_nodes(session, &run);
  }
  return objection;
}

// What init says of a schema that is there.
Objection already_there(const EngineReport& report) {
  const uint64_t version = report.facts.schema_version;
  if (version > kEngineSchemaVersion) {
    return "the database has a schema gradstream of version " + std::to_string(version) +
           " already, and this release knows up to " + std::to_string(kEngineSchemaVersion) +
           ". Install a newer release, or name a database of its own for this cluster.";
  }
  if (version < kEngineSchemaVersion) {
    return "the database has a cluster already: a schema gradstream of version " + std::to_string(version) +
           ", and this release makes " + std::to_string(kEngineSchemaVersion) +
           ". gradstream engine migrate brings it there; another cluster needs a database of its own.";
  }
  return "the database has a cluster already: a schema gradstream of version " + std::to_string(version) + " with " +
         std::to_string(report.runs.size()) + " runs, incarnation " + report.facts.incarnation +
         ". gradstream engine status shows it; another cluster needs a database of its own.";
}

// From the version that the schema has when it is held, which another migration may have raised since it was read.
Objection take_steps(EngineSession& session, EngineDurability durability, uint64_t* from) {
  std::string held;
  Objection objection = session.execute(kHold);
  objection = objection ? objection : session.execute(kHeldVersion, &held);
  if (objection) {
    return objection;
  }
  *from = std::stoull("0" + held);
  for (uint64_t version = *from; version < kEngineSchemaVersion; ++version) {
    const std::string step = engine_migration_text(version);
    if (step.empty()) {
      return "the engine's schema is of version " + held + ", which no release has made. Name another database.";
    }
    if (Objection refused = session.execute(step)) {
      return session.is_away() ? refused : session.refusal() + " Call it as the owner of the schema.";
    }
  }
  objection = session.execute("COMMIT");
  return objection ? objection : check_last_commit(session, durability, "the schema was migrated");
}

}  // namespace

Objection read_engine_report(EngineSession& session, EngineReport* out) {
  *out = {};
  PgResult rows;
  const std::string query = kEngineFactsQuery + std::string(kServerColumns);
  if (Objection objection = session.ask(query.c_str(), {}, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  size_t column = kEngineFactsColumns;
  out->facts = engine_facts_of(table);
  out->has_other_schema = table.flag(0, column++) && !out->facts.has_schema;
  out->primary = table.text(0, column++);
  out->standbys = table.text(0, column++);
  out->has_tls = table.flag(0, column++);
  out->connections_left = table.number(0, column++);
  out->clock_ms = table.number(0, column++);
  if (Objection objection = unread(table, "facts"); objection || !out->facts.has_schema) {
    return objection;
  }
  if (Objection objection = session.ask(kCluster, {}, &rows)) {
    return objection;
  }
  PgTable cluster(rows.get());
  out->facts.schema_version = cluster.number(0, 0);
  out->facts.incarnation = cluster.text(0, 1);
  if (Objection objection = unread(cluster, "rows"); objection || out->facts.schema_version != kEngineSchemaVersion) {
    return objection;
  }
  return read_runs(session, &out->runs);
}

Objection make_engine(EngineSession& session, EngineDurability durability) {
  EngineReport report;
  if (Objection objection = read_engine_report(session, &report)) {
    return objection;
  }
  if (Objection objection = check_engine_server(report.facts, durability)) {
    return objection;
  }
  if (report.has_other_schema) {
    return "the database has a schema gradstream that is no cluster's: it has no table gradstream.cluster. Rename that "
           "schema, or name a database of its own for this cluster.";
  }
  if (report.facts.has_schema) {
    return already_there(report);
  }
  if (Objection objection = session.execute(engine_schema_text())) {
    return session.is_away()
               ? objection
               : session.refusal() + " Name a role that may make a schema: GRANT CREATE ON DATABASE says which may.";
  }
  return check_last_commit(session, durability, "the schema was made");
}

// The server ends a wait for the standby with a warning, or without one where the names were emptied meanwhile.
Objection check_last_commit(EngineSession& session, EngineDurability durability, const std::string& done) {
  std::string names;
  Objection objection = session.execute("SELECT current_setting('synchronous_standby_names')", &names);
  if (!objection && durability == EngineDurability::kStandby) {
    objection = check_standby_names(names);
  }
  if (objection) {
    return done + ", and its standby may lack it: " + objection.sentence;
  }
  return session.is_doubtful() ? done +
                                     ", and the wait for its standby was cut: the standby may lack it. Look whether "
                                     "the standby runs; gradstream engine status shows both."
                               : Objection();
}

Objection migrate_engine(EngineSession& session, EngineDurability durability, uint64_t* from) {
  EngineReport report;
  if (Objection objection = read_engine_report(session, &report)) {
    return objection;
  }
  EngineDemands demands;
  demands.durability = durability;
  report.facts.has_run = true;  // none is asked for
  const bool is_older = report.facts.has_schema && report.facts.schema_version < kEngineSchemaVersion;
  const Objection objection =
      is_older ? check_engine_server(report.facts, durability) : check_engine(report.facts, demands);
  *from = report.facts.schema_version;
  return objection || !is_older ? objection : take_steps(session, durability, from);
}

}  // namespace gradstream
