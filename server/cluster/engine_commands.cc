#include "server/cluster/engine_commands.h"

#include <memory>
#include <string>

#include "server/postgresql/engine_address.h"
#include "server/postgresql/engine_admin.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

// As PostgreSQL says it: 15.7.
std::string release_text(uint64_t version_number) {
  return std::to_string(version_number / 10'000) + "." + std::to_string(version_number % 10'000);
}

void print_engine(const OpenedEngine& engine, const EngineReport& report, bool is_well) {
  const EngineFacts& facts = report.facts;
  OutputLine line;
  line.add("engine", "postgresql")
      .add("state", is_well ? "ready" : "refused")
      .add("schema", facts.has_schema ? std::to_string(facts.schema_version) : "none")
      .add("incarnation", facts.has_schema ? facts.incarnation : "none")
      .add("server_version", release_text(facts.server_version))
      .add("server", report.primary.empty() ? "local" : report.primary)
      .add("role", facts.is_read_only ? "read_only" : "primary")
      .add("durability", engine.config.engine.durability)
      .add_quoted("standby_names", facts.standby_names)
      .add("standbys", report.standbys.empty() ? "none" : report.standbys)
      .add("synchronous_standbys", facts.standby_count)
      .add_flag("fsync", facts.has_fsync)
      .add_flag("full_page_writes", facts.has_full_page_writes)
      .add_flag("tls", report.has_tls)
      .add("connections_left", report.connections_left)
      .add("clock_ms", report.clock_ms)
      .add("runs", uint64_t{report.runs.size()});
  line.print(engine.options);
}

void print_run(const CommonOptions& options, const EngineRunReport& run) {
  OutputLine()
      .add("run", uint64_t{run.run})
      .add("name", run.name.empty() ? "none" : run.name)
      .add("state", stored_run_state_text(stored_state_of(run.state, run.source, run.open_version)))
      .add("open_version", uint64_t{run.open_version})
      .add_flag("sealed", run.is_sealed)
      .add("versions", run.version_count)
      .add("on_time", run.on_time_count)
      .add("late", run.late_count)
      .add("devices", run.device_count)
      .add("nodes", uint64_t{run.nodes.size()})
      .add("leader", run.leader.empty() ? "none" : run.leader)
      .add("term", run.term)
      .add("lease_ms", run.lease_ms)
      .print(options);
}

void print_node(const CommonOptions& options, const EngineRunReport& run, const EngineNodeReport& node) {
  OutputLine line;
  line.add("run", uint64_t{run.run})
      .add_quoted("node", node.node)
      .add("release", node.release.empty() ? "none" : node.release);
  if (node.seen_ms != UINT64_MAX) {
    line.add("seen_ms", node.seen_ms);
  }
  line.add("epoch", node.epoch)
      .add("batch", node.batch)
      .add("open_version", uint64_t{node.open_version})
      .add_flag("leads", run.leader == node.node && run.lease_ms > 0)
      .print(options);
}

}  // namespace

OpenedEngine::OpenedEngine(const CommonOptions& asked, const Config& read)
    : options(asked),
      config(read),
      durability(read.engine.durability == "storage" ? EngineDurability::kStorage : EngineDurability::kStandby),
      session(read.engine.deadline_ms) {}

int open_engine(const CommonOptions& options, std::unique_ptr<OpenedEngine>* out) {
  Config config;
  if (const int code = load(options, &config); code != kExitOk) {
    return code;
  }
  if (config.engine.address.empty()) {
    return fail(kExitConfig,
                "engine.address is empty: it names the PostgreSQL database of the cluster, such as "
                "\"postgresql://gradstream@db1,db2/fleet?target_session_attrs=read-write&sslmode=verify-full\"");
  }
  if (const Objection objection = check_engine_address(config.engine.address)) {
    return fail(kExitConfig, "engine.address: " + objection.sentence);
  }
  *out = std::make_unique<OpenedEngine>(options, config);
  const Objection objection = (*out)->session.open(config.engine.address);
  return objection ? fail_engine((*out)->session, objection) : int{kExitOk};
}

int fail_engine(const EngineSession& session, const Objection& objection) {
  return fail(session.is_away() ? kExitNetwork : kExitDatabase, objection.sentence);
}

Objection trouble_of(const EngineReport& report, EngineDurability durability) {
  EngineDemands demands;
  demands.durability = durability;
  EngineFacts facts = report.facts;
  facts.has_run = true;
  return check_engine(facts, demands);
}

Objection secrecy_of(const OpenedEngine& engine, const EngineReport& report) {
  return check_secrecy(report.has_tls, report.primary, engine.config.engine.address);
}

StoredRunState stored_state_of(EngineRunState state, const std::string& source, uint32_t open_version) {
  RunParameters parameters;
  const bool is_read = !source.empty() && !parse_run_source(source, &parameters);
  if (is_read && open_version >= parameters.version_count()) {
    return StoredRunState::kFinished;
  }
  return state == EngineRunState::kPaused    ? StoredRunState::kPaused
         : state == EngineRunState::kStopped ? StoredRunState::kStopped
                                             : StoredRunState::kActive;
}

int engine_init(const CommonOptions& options) {
  std::unique_ptr<OpenedEngine> engine;
  if (const int code = open_engine(options, &engine); code != kExitOk) {
    return code;
  }
  if (const Objection objection = make_engine(engine->session, engine->durability)) {
    return fail_engine(engine->session, objection);
  }
  EngineReport report;
  if (const Objection objection = read_engine_report(engine->session, &report)) {
    return fail_engine(engine->session, objection);
  }
  OutputLine()
      .add("engine", "postgresql")
      .add("state", "made")
      .add("schema", report.facts.schema_version)
      .add("incarnation", report.facts.incarnation)
      .print(options);
  return kExitOk;
}

int engine_migrate(const CommonOptions& options) {
  std::unique_ptr<OpenedEngine> engine;
  if (const int code = open_engine(options, &engine); code != kExitOk) {
    return code;
  }
  uint64_t from = 0;
  if (const Objection objection = migrate_engine(engine->session, engine->durability, &from)) {
    return fail_engine(engine->session, objection);
  }
  OutputLine()
      .add("engine", "postgresql")
      .add("state", from == kEngineSchemaVersion ? "nothing_to_do" : "migrated")
      .add("schema_before", from)
      .add("schema", kEngineSchemaVersion)
      .print(options);
  return kExitOk;
}

int engine_status(const CommonOptions& options) {
  std::unique_ptr<OpenedEngine> engine;
  if (const int code = open_engine(options, &engine); code != kExitOk) {
    return code;
  }
  EngineReport report;
  if (const Objection objection = read_engine_report(engine->session, &report)) {
    return fail_engine(engine->session, objection);
  }
  const Objection trouble = trouble_of(report, engine->durability);
  print_engine(*engine, report, !trouble);
  for (const EngineRunReport& run : report.runs) {
    print_run(options, run);
    for (const EngineNodeReport& node : run.nodes) {
      print_node(options, run, node);
    }
  }
  return trouble ? fail(kExitDatabase, trouble.sentence) : int{kExitOk};
}

}  // namespace gradstream
