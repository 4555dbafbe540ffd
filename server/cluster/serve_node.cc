#include "server/cluster/serve_node.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <poll.h>

#include "host/end_signals.h"
#include "server/base/log.h"
#include "server/base/notify.h"
#include "server/base/ports.h"
#include "server/cluster/cluster_reader.h"
#include "server/cluster/engine_commands.h"
#include "server/cluster/node_server.h"
#include "server/engine/call_pause.h"
#include "server/engine/followed_run.h"
#include "server/postgresql/engine_stored.h"
#include "server/program/serve_parts.h"
#include "server/store/fleet_copy.h"
#include "server/watch/page.h"

namespace gradstream {
namespace {

// What the run and its fleet are read into, and what serves it.
struct NodeStart {
  const CommonOptions& options;
  Config config;
  NodeBoard board;
  std::unique_ptr<ClusterReader> reader;  // outlives the HTTP thread, which reads it
  std::unique_ptr<HttpServer> http;
  EngineStored stored;
  // So far the engine's clock is ahead of steady_ms(), modulo 2^64. Reason: a machine may begin with a wrong clock.
  uint64_t engine_ahead_ms = 0;
};

// One attempt. kExitOk, or *is_away and nothing printed, or an error already printed.
int read_engine(NodeStart* start, bool* is_away, std::string* cause) {
  OpenedEngine engine(start->options, start->config);
  EngineReport report;
  EngineReader reader(engine.session, engine.durability);
  bool is_there = false;
  engine.session.call_before_waits([] { notify_manager("WATCHDOG=1"); });
  Objection objection = engine.session.open(start->config.engine.address);
  objection = objection ? objection : read_engine_report(engine.session, &report);
  start->engine_ahead_ms = report.clock_ms - steady_ms();
  objection = objection ? objection : trouble_of(report, engine.durability);
  objection = objection ? objection : secrecy_of(engine, report);
  objection = objection ? objection : reader.read_start(&start->stored, &is_there);
  objection = objection ? objection : reader.finish();
  *is_away = objection && engine.session.is_away();
  if (*is_away) {
    *cause = objection.sentence;
    return kExitNetwork;
  }
  if (objection) {
    return fail(kExitDatabase, objection.sentence);
  }
  return is_there ? int{kExitOk}
                  : fail(kExitNotFound,
                         "the engine has no run that a node could serve; gradstream engine import "
                         "brings one");
}

// For who looks while the engine is away.
void show_waiting(NodeStart* start, const std::string& cause) {
  NodeSnapshot waiting;
  waiting.taken_steady_ms = steady_ms();
  waiting.stale_ms = start->config.engine.deadline_ms + kWatchStaleMs;  // the next attempt takes as long
  waiting.started_ms = wall_clock_ms();
  waiting.not_ready = "without a connection to the engine: " + cause;
  start->board.publish(std::make_shared<const NodeSnapshot>(std::move(waiting)));
  notify_manager("READY=1\nWATCHDOG=1");  // the manager would end a program that does not come up
}

// Until the engine is there. A signal ends the process meanwhile, as catch_signals_to_serve() has it. kExitOk, or an
// error already printed.
int wait_for_engine(NodeStart* start) {
  CallPause pause;
  bool is_told = false;
  for (;;) {
    bool is_away = false;
    std::string cause;
    const int code = read_engine(start, &is_away, &cause);
    if (!is_away || end_signal() != 0) {
      return is_away ? int{kExitOk} : code;
    }
    if (!std::exchange(is_told, true)) {
      log_event("engine_away"_event, Fields().add("cause", cause));
    }
    show_waiting(start, cause);
    pollfd news = {signal_file(), POLLIN, 0};
    ::poll(&news, 1, static_cast<int>(pause.take()));
    clear_signal_file();  // a SIGHUP is heard once the run is served
  }
}

// The row of a run, as its database would have it.
RunRow row_of(const EnginePlan& plan) {
  return {plan.run,        plan.name, plan.parameters, plan.source, plan.digest, StoredRunState::kActive,
          plan.created_ms, plan.nonce};
}

// config->run becomes that of the engine. kExitOk, or an error already printed.
int take_run(NodeStart* start) {
  const RunRow row = row_of(start->stored.plan);
  if (start->config.has_run) {
    if (const int code = check_frozen(row, start->config, start->options.config); code != kExitOk) {
      return code;
    }
  }
  if (const Objection error = parse_run_source(row.source, &start->config.run)) {
    return fail(kExitDatabase, error.sentence + "use the release that the cluster runs");
  }
  const Objection objection = check_cluster_run(start->config.run);
  return objection ? fail(kExitFrozen, "run " + std::to_string(row.id) + ": " + objection.sentence) : int{kExitOk};
}

// Who would come and stay a stranger.
void warn_of_strangers(const NodeStart& start) {
  const uint64_t now_ms = start.engine_ahead_ms + steady_ms();
  uint64_t claims = 0;
  for (const EngineFleetRow& row : start.stored.claims) {
    bool is_open = false;
    const Objection unread = read_claim({row.number, row.name, row.content}, now_ms, &is_open);
    claims += !unread && is_open ? 1 : 0;
  }
  const ServerConfig& server = start.config.server;
  const bool registers = server.credentials.is_set() && server.device_registration != "off";
  if (claims > 0 || registers) {
    log_event(
        "node_enrols_nobody"_event,
        Fields().add("claims", claims).add("device_registration", registers ? server.device_registration : "off"));
  }
}

PostgresOptions engine_options(const NodeStart& start) {
  PostgresOptions options;
  options.server = start.config.engine.address;
  options.run = start.stored.plan.run;
  options.node = node_name(start.config.engine);
  options.release = GS_VERSION;
  options.durability =
      start.config.engine.durability == "storage" ? EngineDurability::kStorage : EngineDurability::kStandby;
  options.deadline_ms = start.config.engine.deadline_ms;
  return options;
}

std::string command_options(const NodeStart& start) {
  std::error_code no_folder;
  return configuration_words(start.options, std::filesystem::current_path(no_folder).string());
}

int serve_run(NodeStart* start) {
  NodeFleet fleet([ahead_ms = start->engine_ahead_ms] { return ahead_ms + steady_ms(); });
  if (const Objection objection = fleet.begin(start->stored.devices)) {
    return fail(kExitDatabase, objection.sentence);
  }
  warn_of_strangers(*start);
  const EnginePlan& plan = start->stored.plan;
  const Config loaded = start->config;
  share_descriptors(&start->config);
  asio::io_context io(1);
  ServeSignals signals(io, start->options, loaded, start->http);
  NodeServer node(io, start->config, {{plan.run, plan.nonce, plan.digest}, plan.name, command_options(*start)},
                  engine_options(*start), fleet, start->board);
  start->stored = {};
  if (const Objection objection = node.start()) {
    return fail(kExitNetwork, objection.sentence);
  }
  take_over_end();
  signals.attach(node);
  io.run();
  signals.detach();
  return node.finish() ? kExitOk : kExitDatabase;
}

// The port for people and monitors. kExitOk, or an error already printed.
int open_watch_of_node(NodeStart* start) {
  const EngineConfig& engine = start->config.engine;
  start->reader = std::make_unique<ClusterReader>(std::make_unique<PostgresLook>(engine.address, engine.deadline_ms));
  const auto answer = [start](const HttpTarget& target) {
    if (is_page_path(target.path)) {
      return page_response(target.path);
    }
    return node_response(target, start->board.read().get(), start->http->counters(), steady_ms(),
                         [start](uint32_t run) { return start->reader->read(run); });
  };
  return open_http(start->config, answer, is_page_path, &start->http);
}

int serve_until_end(const CommonOptions& options) {
  NodeStart start{options, {}, {}, {}, {}, {}, 0};
  int code = load(options, &start.config);
  if (code != kExitOk) {
    return code;
  }
  LogLevel level = LogLevel::kInfo;
  parse_log_level(start.config.server.log_level, &level);
  set_log_level(level);
  code = settle_network(&start.config);
  code = code == kExitOk ? check_to_serve(options, start.config, false, ServeUse::kServe) : code;
  if (code != kExitOk) {
    return code;
  }
  if (const Objection objection = check_engine_address(start.config.engine.address)) {
    return fail(kExitConfig, "engine.address: " + objection.sentence);
  }
  code = open_watch_of_node(&start);
  code = code == kExitOk ? wait_for_engine(&start) : code;
  if (code != kExitOk || end_signal() != 0) {
    return code;
  }
  code = take_run(&start);
  return code == kExitOk ? serve_run(&start) : code;
}

}  // namespace

int serve_node(const CommonOptions& options) {
  if (const int code = catch_signals_to_serve(); code != kExitOk) {
    return code;
  }
  try {
    return serve_until_end(options);
  } catch (const std::system_error& error) {  // Asio without a descriptor or a thread
    return fail_start(error);
  }
}

}  // namespace gradstream
