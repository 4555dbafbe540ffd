// Whether the verb `serve` can begin with a configuration: one answer for `serve` itself, for `serve --check-config`,
// and, of a new run, for `run start`.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <sys/random.h>

#include "host/file_cause.h"
#include "host/standard_files.h"
#include "server/base/listen_address.h"
#include "server/engine/followed_run.h"
#include "server/program/commands.h"
#include "server/program/head_key.h"
#include "server/program/model_export.h"
#include "server/program/model_import.h"
#include "server/program/network_file.h"
#include "server/run/advice.h"
#include "server/run/canonical_text.h"
#include "server/run/check_parameters.h"
#include "server/run/first_model.h"
#include "server/run/run_core.h"

namespace gradstream {

namespace {

// An objection is about the file. What it holds is not judged.
Objection read_first_model(const Config& config, FirstModel* out) {
  *out = {"server.first_model", config.server.first_model, {}, {}};
  const Objection problem = read_model_file(out->path, config.run.model->shape, &out->values);
  return problem ? "server.first_model " + out->path + ": " + problem.sentence : problem;
}

// The same of the network's file. A server may have gone over to a run of another network than its configuration names.
Objection take_network_start(const Config& config, FirstModel* out) {
  const NetworkStart* const start = config.network_start.get();
  if (start == nullptr || start->digest != config.run.network_digest()) {
    return {};
  }
  *out = {"run.network", start->path, start->values, {}};
  return start->fault.empty() ? "" : "run.network " + start->path + ": " + start->fault;
}

}  // namespace

Objection load_first_model(const Config& config, FirstModelUse use, FirstModel* out) {
  const bool is_named = !config.server.first_model.empty();
  *out = FirstModel();
  Objection problem;
  if (is_named) {
    problem = read_first_model(config, out);
  } else if (use == FirstModelUse::kBegin) {
    problem = take_network_start(config, out);
  }
  if (problem || out->values.empty() || use == FirstModelUse::kNone) {
    return problem;
  }
  FirstModelVerdict verdict = settle_first_model(config.run, out->values);
  out->projected = std::move(verdict.projected);
  return verdict.problem.empty() ? "" : out->key + " " + out->path + ": " + verdict.problem;
}

int check_run(const Config& config, std::string* projected) {
  projected->clear();
  if (const Objection objection = check_new_run(config.run)) {
    return fail(kExitConfig, "[run] " + objection.sentence);
  }
  FirstModel model;
  const Objection problem = load_first_model(config, FirstModelUse::kBegin, &model);
  if (!model.projected.empty()) {
    *projected = model.key + " " + model.path + " is moved onto its manifold: " + model.projected;
  }
  return problem ? fail(exit_of_files(config.server), problem.sentence + "; no run was begun") : int{kExitOk};
}

uint64_t draw_run_nonce() {
  uint64_t nonce = 0;
  while (nonce == 0) {
    if (getrandom(&nonce, sizeof nonce, 0) != static_cast<ssize_t>(sizeof nonce)) {
      return 0;
    }
  }
  return nonce;
}

int create_run(SqliteDatabase& database, const Config& config, uint64_t run_nonce, RunRow* out) {
  if (run_nonce == 0) {
    return fail(kExitInternal, std::string("no random bytes for the run's nonce: ") + std::strerror(errno) +
                                   "; see whether getrandom(2) is allowed here");
  }
  *out = RunRow();
  out->run_nonce = run_nonce;
  out->name = config.run.name;
  out->parameters = canonical_text(config.run);
  out->source = run_source(config.run);
  out->digest = parameters_digest(config.run, run_nonce);
  out->created_ms = wall_clock_ms();
  const Expected<uint32_t> id = database.create_run(*out);
  if (!id.is_ok()) {
    return fail_database(database);
  }
  out->id = *id;
  return kExitOk;
}

int settle_network(Config* config) {
  const std::string path = config->run.model->network;
  bool is_file_fault = false;
  NetworkStart start;
  const Objection problem = config->has_run ? settle_network(&config->run, &is_file_fault, &start) : "";
  if (!problem) {
    config->network_start = start.path.empty() ? nullptr : std::make_shared<const NetworkStart>(std::move(start));
    return kExitOk;
  }
  const bool is_mended_later = is_file_fault && is_temporary(find_path_fault(path.c_str(), false));
  return fail(is_mended_later ? kExitTemporary : is_file_fault ? kExitFile : kExitConfig, problem.sentence);
}

CommandExit exit_of_files(const ServerConfig& server) {
  const CredentialPaths& credentials = server.credentials;
  bool is_any_temporary = !server.export_dir.empty() && is_temporary(find_path_fault(server.export_dir.c_str(), true));
  for (const std::string* const path : {&server.first_model, &server.http_token_file, &server.head_key,
                                        &credentials.authority, &credentials.certificate, &credentials.key}) {
    is_any_temporary |= !path->empty() && is_temporary(find_path_fault(path->c_str(), false));
  }
  return is_any_temporary ? kExitTemporary : kExitFile;
}

namespace {

int check_files(const Config& config, ServeUse use) {
  const bool is_check = use == ServeUse::kCheck;
  Objection problem;
  if (!config.server.export_dir.empty()) {
    problem = check_export_folder(config.server.export_dir, !is_check);
  }
  if (!problem && config.server.credentials.is_set()) {
    problem = CredentialBoard().load(config.server.credentials);
  }
  if (!problem && !config.server.http_listen.empty() && !config.server.http_token_file.empty()) {
    std::string token;
    problem = read_token(config.server.http_token_file, &token);
  }
  if (!problem && !config.server.head_key.empty()) {
    problem = HeadKey().read_private(config.server.head_key);
  }
  if (!problem) {
    // A server that starts again may serve a run that has long left it.
    FirstModel model;
    problem = load_first_model(config, is_check ? FirstModelUse::kBegin : FirstModelUse::kNone, &model);
  }
  return problem ? fail(exit_of_files(config.server), problem.sentence) : int{kExitOk};
}

// Of another machine: no port of it can be listened on here. A port that is taken is another matter, which passes.
int check_address(const std::string& text, const std::string& key) {
  Tcp::endpoint endpoint;
  if (!parse_listen_address(text, &endpoint)) {  // empty: load_config() has checked it
    return kExitOk;
  }
  endpoint.port(0);
  const Objection problem = check_listen_address(endpoint, key.c_str());
  return problem ? fail(kExitNetwork, key + " " + text + ": " + problem.sentence) : int{kExitOk};
}

// Of what one server does and a node does not: who has set it expects it. Keys with a default of theirs are passed
// over.
Objection find_unserved_key(const ServerConfig& server) {
  const std::pair<const char*, const std::string*> keys[] = {
      {"export_dir", &server.export_dir}, {"first_model", &server.first_model}, {"head_key", &server.head_key}};
  for (const auto& [key, value] : keys) {
    if (!value->empty()) {
      return std::string("server.") + key +
             " is nothing that a node of engine.address does; leave it out of this node's configuration";
    }
  }
  return {};
}

// check_to_serve() of a configuration with an engine.address. The run is the engine's.
int check_node(const Config& config, ServeUse use) {
  if (const Objection unserved = find_unserved_key(config.server)) {
    return fail(kExitConfig, unserved.sentence);
  }
  if (const Objection unnamed = check_node_name(node_name(config.engine))) {
    return fail(kExitConfig, "engine.node is empty, and this machine's name is none of a node: " + unnamed.sentence +
                                 "; set engine.node");
  }
  if (config.engine.deadline_ms > kNodeDeadlineMaxMs) {
    return fail(kExitConfig, "engine.deadline_ms is " + std::to_string(config.engine.deadline_ms) +
                                 ", and a node waits for its engine for " + std::to_string(kNodeDeadlineMaxMs) +
                                 " ms at most, so that the service manager sees that it lives; set no more than that");
  }
  if (const Objection objection = config.has_run ? check_cluster_run(config.run) : Objection()) {
    return fail(kExitConfig, "[run] " + objection.sentence);
  }
  if (const int code = check_files(config, use); code != kExitOk) {
    return code;
  }
  const int code = check_address(config.server.listen, "server.listen");
  return code == kExitOk ? check_address(config.server.http_listen, "server.http_listen") : code;
}

}  // namespace

int check_to_serve(const CommonOptions& options, const Config& config, bool may_create, ServeUse use) {
  if (!config.engine.address.empty()) {
    return check_node(config, use);
  }
  if (!config.has_run) {
    return fail(kExitConfig, options.config + " has no section [run]; experiments/demo.toml is an example");
  }
  if (const Objection objection = check_new_run(config.run); use == ServeUse::kCheck && objection) {
    return fail(kExitConfig, "[run] " + objection.sentence);
  }
  if (const int code = check_files(config, use); code != kExitOk) {
    return code;
  }
  if (const Objection problem = check_database_file(config.server.database, may_create)) {
    return fail(is_temporary(find_path_fault(config.server.database.c_str(), false)) ? kExitTemporary : kExitDatabase,
                problem.sentence);
  }
  const int code = check_address(config.server.listen, "server.listen");
  return code == kExitOk ? check_address(config.server.http_listen, "server.http_listen") : code;
}

int check_frozen(const RunRow& run, const Config& config, const std::string& file) {
  // A key that the configuration leaves out is no difference where the run has the default of the release that began
  // it.
  const std::vector<std::string> plain = differing_keys(run.parameters, canonical_text(config.unsettled_run));
  std::string keys;
  for (const std::string& key : differing_keys(run.parameters, canonical_text(config.run))) {
    if (std::find(plain.begin(), plain.end(), key) != plain.end()) {
      keys += (keys.empty() ? "run." : ", run.") + key;
    }
  }
  if (keys.empty()) {
    return kExitOk;
  }
  const bool is_over = run.state == StoredRunState::kFinished || run.state == StoredRunState::kStopped;
  return fail(kExitFrozen, "the parameters of run " + std::to_string(run.id) + " are frozen, and " + file +
                               " differs in: " + keys + "; restore these keys, or begin a new run with `gradstream " +
                               (is_over ? "" : "run stop` and `gradstream ") + "run start`");
}

namespace {

// The run that a server would go on with; none where the database is not there yet, or holds none.
int find_stored_run(const Config& config, std::optional<RunRow>* out) {
  if (!is_database_there(config.server.database)) {
    return kExitOk;
  }
  SqliteDatabase database;
  if (const int code = open_database(config, false, &database); code != kExitOk) {
    return code;
  }
  const Expected<std::optional<RunRow>> current = database.current_run();
  if (!current.is_ok()) {
    return fail_database(database);
  }
  *out = *current;
  return kExitOk;
}

}  // namespace

int check_config(const CommonOptions& options, bool may_create, bool with_origins) {
  Config config;
  ConfigOrigins origins;
  int code = load(options, &config, &origins);
  Config settled = config;  // what is printed keeps the network's path
  if (code == kExitOk && !with_origins) {
    code = settle_network(&settled);
  }
  if (code == kExitOk && !with_origins) {
    code = check_to_serve(options, settled, may_create, ServeUse::kCheck);
  }
  std::optional<RunRow> run;
  if (code == kExitOk && !with_origins && config.engine.address.empty()) {
    code = find_stored_run(config, &run);
  }
  if (code != kExitOk) {
    return code;
  }
  print_output(with_origins ? config_text(config, origins) : config_text(config));
  for (const std::string& sentence : config.has_run ? advice(config.run) : std::vector<std::string>()) {
    print_output("# advice: " + sentence + "\n");
  }
  return run ? check_frozen(*run, settled, options.config) : int{kExitOk};
}

}  // namespace gradstream
