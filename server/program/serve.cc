// The verb `serve`: from a configuration to a running server, and to an orderly end.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "host/end_signals.h"
#include "host/file_cause.h"
#include "server/base/listen_address.h"
#include "server/base/ports.h"
#include "server/program/commands.h"
#include "server/program/model_download.h"
#include "server/program/network_file.h"
#include "server/program/run_head.h"
#include "server/program/serve_parts.h"
#include "server/program/server.h"
#include "server/run/canonical_text.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "server/watch/page.h"

namespace gradstream {

namespace {

// A command that probes for a server holds the lock for microseconds; another server holds it for ever.
constexpr uint32_t kLockPatienceMs = 1000;

// The run to serve: the active one, else the latest, if its frozen parameters are those of the file; a new one if there
// is none.
int choose_run(SqliteDatabase& database, Config& config, const std::string& file, RunRow* out) {
  const Expected<std::optional<RunRow>> latest = database.current_run();
  if (!latest.is_ok()) {
    return fail_database(database);
  }
  if (!*latest) {
    std::string projected;  // set_first_model() tells it
    int code = check_run(config, &projected);
    code = code == kExitOk ? create_run(database, config, draw_run_nonce(), out) : code;
    if (code == kExitOk) {
      log_event("run_created"_event, Fields().add("run", uint64_t{out->id}).add("name", out->name));
    }
    return code;
  }
  *out = **latest;
  const int code = check_frozen(*out, config, file);
  if (code != kExitOk || differing_keys(out->parameters, canonical_text(config.run)).empty()) {
    return code;
  }
  // Keys that the file leaves out may have had another default when the run began.
  const Objection error = parse_run_source(out->source, &config.run);
  return error ? fail(kExitDatabase, error.sentence + "use the release that wrote it") : int{kExitOk};
}

int fail_lock(const DatabaseLock& lock, const std::string& problem) {
  return fail(lock.is_failure_temporary() ? kExitTemporary : kExitDatabase, problem);
}

int open_databases(const Config& config, bool may_create, SqliteDatabase* fleet, SqliteDatabase* journal) {
  SqliteOptions options;
  options.path = config.server.database;
  options.check_integrity = true;
  options.is_owner = true;
  options.may_create = may_create;
  options.keeps_unused = false;
  if (fleet->open(options) != StoreStatus::kOk) {
    return fail_database(*fleet);
  }
  options.check_integrity = false;
  return journal->open(options) == StoreStatus::kOk ? int{kExitOk} : fail_database(*journal);
}

// A run that has a version keeps it.
Objection set_first_model(const Config& config, Coordinator& coordinator) {
  FirstModel model;
  const bool is_begun = coordinator.model().has_model();
  Objection problem = load_first_model(config, is_begun ? FirstModelUse::kNone : FirstModelUse::kBegin, &model);
  if (!model.projected.empty()) {
    log_event("first_model_projected"_event, Fields().add("file", model.path).add("parts", model.projected));
  }
  if (!problem && !is_begun && !model.values.empty()) {
    log_event("first_model"_event,
              Fields().add("key", model.key).add("file", model.path).add("numbers", uint64_t{model.values.size()}));
    const Status status = coordinator.set_first_model(model.values);
    GS_ASSERT(status == Status::kOk);  // finite and of the run's shape
  }
  return problem;
}

// The port for people and monitors; *out stays empty where none is configured.
int open_watch(const Config& config, WatchBoard& board, std::unique_ptr<HttpServer>* out) {
  const auto download = std::make_shared<ModelDownload>(board);
  const auto answer = [&board, out, download](const HttpTarget& target) {
    if (is_page_path(target.path)) {
      return page_response(target.path);
    }
    if (target.path == kModelPath) {
      return download->answer();
    }
    return watch_response(target, board.read().get(), (*out)->counters(), steady_ms());
  };
  return open_http(config, answer, is_page_path, out);
}

// From the first signal on, as long as nothing is served: the check of a large database, the replay of a long journal.
// Reason: a service manager and an operator expect an end in seconds, and there is nothing to lose.
constexpr uint32_t kEndGraceMs = 500;

// What the runs of one process share.
struct Shared {
  const CommonOptions& options;
  const Config& loaded;
  SqliteDatabase& fleet;
  SqliteDatabase& journal;
  WatchBoard& board;
  std::unique_ptr<HttpServer>& http;
  asio::io_context& io;
  ServeSignals& signals;
};

void warn_of_fleet_over_cap(const Config& config, const std::vector<EnrolledDevice>& devices) {
  const auto count = static_cast<size_t>(std::count_if(
      devices.begin(), devices.end(), [](const EnrolledDevice& d) { return d.state == DeviceState::kActive; }));
  const size_t places = session_count_max(config.server.listener);
  if (count > places) {
    log_event("fleet_over_cap"_event, Fields().add("devices", uint64_t{count}).add("places", uint64_t{places}));
  }
}

// Where the records of the run begin, unless they are all there.
void log_replay(uint32_t run, Store& journal) {
  CheckpointHead start;
  if (journal.read_start(&start) == StoreStatus::kOk && start.sequence != 0) {
    log_event("journal_begins"_event, Fields()
                                          .add("run", uint64_t{run})
                                          .add("before_version", uint64_t{start.version})
                                          .add("records", start.sequence)
                                          .add("updates", start.update_count));
  }
}

// *has_next: another run is to be served now.
int serve_run(Config& config, const RunRow& run, Shared shared, bool* has_next) {
  SqliteDatabase& fleet = shared.fleet;
  SqliteDatabase& journal_database = shared.journal;
  *has_next = false;
  Expected<std::vector<EnrolledDevice>> devices = fleet.devices();
  if (!devices.is_ok()) {
    return fail_database(fleet);
  }
  warn_of_fleet_over_cap(config, *devices);
  SqliteStore journal(journal_database, run.id);
  std::string error;
  auto coordinator = replay_journal(run, config.run, *devices, journal, UINT32_MAX, &error);
  if (!coordinator) {
    return error.empty() ? fail_database(journal_database) : fail(kExitDatabase, error);
  }
  log_replay(run.id, journal);
  if (const Objection objection = set_first_model(config, *coordinator)) {
    return fail(kExitFile, objection.sentence);
  }
  shared.io.restart();
  // A finished or stopped run is written unconditionally. Paused and active are written only if the pending request is
  // still the one just fulfilled, so that a newer request survives.
  const auto mark = [&journal_database, id = run.id](StoredRunState state) {
    const bool is_paused = state == StoredRunState::kPaused;
    const StoredRunState wish = is_paused ? StoredRunState::kPauseRequested : StoredRunState::kResumeRequested;
    const StoreStatus marked = is_paused || state == StoredRunState::kActive
                                   ? journal_database.exchange_run_state(id, wish, state).status()
                                   : journal_database.set_run_state(id, state);
    if (marked != StoreStatus::kOk) {
      log_event("run_state_not_stored"_event, Fields().add("cause", journal_database.error()));
    }
  };
  const auto head = [&journal, &run](uint64_t time_ms) { return read_head(journal, run, time_ms); };
  Server server(shared.io, config, run, {fleet, journal, mark, head}, std::move(coordinator), *std::move(devices),
                config.server.http_listen.empty() ? nullptr : &shared.board);
  if (const Objection objection = server.start()) {
    return fail(kExitNetwork, objection.sentence);
  }
  Tcp::endpoint endpoint;
  parse_listen_address(config.server.listen, &endpoint);
  if (endpoint.port() == 0) {  // any free port, and the same one for the next run
    const std::string& listen = config.server.listen;
    config.server.listen = listen.substr(0, listen.rfind(':') + 1) + std::to_string(server.port());
  }
  if (shared.http == nullptr) {
    if (const int code = open_watch(config, shared.board, &shared.http); code != kExitOk) {
      return code;
    }
  }
  take_over_end();
  shared.signals.attach(server);
  shared.io.run();
  shared.signals.detach();
  *has_next = server.is_left_for_next_run() && end_signal() == 0;
  return server.finish() ? kExitOk : kExitDatabase;
}

// Where a run that was begun while the server ran starts: at the numbers that the configuration's network holds now, as
// `run start` has read them. Where that is another network than the run's, its point is drawn, and the log says so.
void find_next_start(const CommonOptions& options, Config* config) {
  config->network_start = nullptr;
  const uint64_t digest = config->run.network_digest();
  if (digest == 0 || !config->server.first_model.empty()) {
    return;
  }
  Config named;
  bool is_file_fault = false;
  NetworkStart start;
  Objection problem = load_config({options.config, process_environment(), options.overrides}, &named);
  if (!problem && named.has_run) {
    problem = settle_network(&named.run, &is_file_fault, &start);
  }
  if (!problem && start.path.empty()) {
    problem = "run.network of the configuration names no file";
  } else if (!problem && start.digest != digest) {
    problem = "run.network " + start.path + " is another network than the run's";
  }
  if (problem) {
    log_event("network_start_unknown"_event, Fields().add("run", config->run.name).add("cause", problem.sentence));
    return;
  }
  config->network_start = std::make_shared<const NetworkStart>(std::move(start));
}

// The run that another one made room for, with the parameters that it was begun with.
int choose_next_run(const CommonOptions& options, SqliteDatabase& database, Config* config, RunRow* out) {
  const Expected<std::optional<RunRow>> current = database.current_run();
  if (!current.is_ok()) {
    return fail_database(database);
  }
  GS_ASSERT(current->has_value());  // runs are never removed
  *out = **current;
  const Objection error = parse_run_source(out->source, &config->run);
  if (error) {
    return fail(kExitDatabase, error.sentence + "use the release that wrote it");
  }
  find_next_start(options, config);
  return kExitOk;
}

int serve_runs(Config& config, RunRow run, Shared shared, DatabaseLock& lock) {
  bool has_next = true;
  int code = kExitOk;
  while (code == kExitOk && has_next) {
    const Objection unnamed = lock.name_run(run.id);
    code = unnamed ? fail_lock(lock, unnamed.sentence) : serve_run(config, run, shared, &has_next);
    if (code == kExitOk && has_next) {
      code = choose_next_run(shared.options, shared.fleet, &config, &run);
    }
  }
  return code;
}

// serve() once signals are caught.
int serve_until_end(const CommonOptions& options, bool may_create, const std::function<int()>& become_node) {
  Config config;
  int code = load(options, &config);
  if (code != kExitOk) {
    return code;
  }
  if (!config.engine.address.empty()) {
    return end_signal() == 0 ? become_node() : int{kExitOk};
  }
  LogLevel level = LogLevel::kInfo;
  parse_log_level(config.server.log_level, &level);
  set_log_level(level);
  code = settle_network(&config);
  if (code == kExitOk) {
    code = check_to_serve(options, config, may_create, ServeUse::kServe);
  }
  if (code != kExitOk) {
    return code;
  }
  DatabaseLock lock;  // before the connections, which it outlives
  SqliteDatabase fleet;
  SqliteDatabase journal;
  if (const Objection taken = lock.take(config.server.database, kLockPatienceMs)) {
    return fail_lock(lock, taken.sentence);
  }
  Tcp::endpoint endpoint;
  parse_listen_address(config.server.listen, &endpoint);  // load_config() has checked it
  Objection occupied = check_listen_address(endpoint);    // before a run is made that nobody could serve
  if (!occupied && parse_listen_address(config.server.http_listen, &endpoint)) {
    occupied = check_listen_address(endpoint, "server.http_listen");
  }
  if (occupied) {
    return fail(kExitNetwork, occupied.sentence);
  }
  code = open_databases(config, may_create, &fleet, &journal);
  if (const Objection replaced = code == kExitOk ? lock.hold_file(kLockPatienceMs) : Objection()) {
    return fail_lock(lock, replaced.sentence);
  }
  RunRow run;
  if (code == kExitOk) {
    code = choose_run(fleet, config, options.config, &run);
  }
  if (code != kExitOk) {
    return code;
  }
  const Config loaded = config;
  WatchBoard board;
  std::error_code no_folder;
  board.set_command_options(configuration_words(options, std::filesystem::current_path(no_folder).string()));
  std::unique_ptr<HttpServer> http;  // its thread reads the board
  asio::io_context io(1);
  ServeSignals signals(io, options, loaded, http);
  share_descriptors(&config);
  return serve_runs(config, run, {options, loaded, fleet, journal, board, http, io, signals}, lock);
}

}  // namespace

int catch_signals_to_serve() {
  SignalPlan plan;
  plan.wants_hangup = true;
  plan.grace_ms = kEndGraceMs;
  plan.last_line = "gradstream: ended by a signal before it served\n";
  if (signal_file() >= 0 || catch_signals(plan)) {
    return kExitOk;
  }
  return fail(kExitTemporary,
              std::string("cannot catch signals: ") + cause_text(errno) + "; " + remedy_text(errno, "start it again"));
}

int serve(const CommonOptions& options, bool may_create, const std::function<int()>& become_node) {
  if (const int code = catch_signals_to_serve(); code != kExitOk) {
    return code;
  }
  try {
    return serve_until_end(options, may_create, become_node);
  } catch (const std::system_error& error) {  // Asio without a descriptor or a thread
    return fail_start(error);
  }
}

}  // namespace gradstream
