// Whether the verb `serve` can begin with a configuration: one answer for `serve` itself, for `serve --check-config`,
// and, of a new run, for `run start`.
#include <optional>
#include <utility>

#include "host/file_cause.h"
#include "host/standard_files.h"
#include "server/base/listen_address.h"
#include "server/program/commands.h"
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

// Empty, or a sentence about the file. What it holds is not judged.
std::string read_first_model(const Config& config, std::vector<Real>* out) {
  const std::string& path = config.server.first_model;
  out->clear();
  if (path.empty()) {
    return {};
  }
  const std::string problem = read_model_file(path, config.run.model->shape, out);
  return problem.empty() ? problem : "server.first_model " + path + ": " + problem;
}

}  // namespace

std::string load_first_model(const Config& config, FirstModelUse use, FirstModel* out) {
  out->projected.clear();
  std::string problem = read_first_model(config, &out->values);
  if (!problem.empty() || out->values.empty() || use == FirstModelUse::kNone) {
    return problem;
  }
  FirstModelVerdict verdict = settle_first_model(config.run, out->values);
  out->projected = std::move(verdict.projected);
  return verdict.problem.empty() ? "" : "server.first_model " + config.server.first_model + ": " + verdict.problem;
}

int check_run(const Config& config, std::string* projected) {
  projected->clear();
  if (const Objection objection = check_new_run(config.run)) {
    return fail(kExitConfig, "[run] " + objection.sentence);
  }
  FirstModel model;
  const std::string problem = load_first_model(config, FirstModelUse::kBegin, &model);
  *projected = std::move(model.projected);
  return problem.empty() ? int{kExitOk} : fail(exit_of_files(config.server), problem + "; no run was begun");
}

int create_run(SqliteDatabase& database, const Config& config, RunRow* out) {
  *out = RunRow();
  out->name = config.run.name;
  out->parameters = canonical_text(config.run);
  out->source = run_source(config.run);
  out->digest = parameters_digest(config.run);
  out->created_ms = wall_clock_ms();
  return database.create_run(out) == StoreStatus::kOk ? int{kExitOk} : fail_database(database);
}

int settle_network(Config* config) {
  const std::string path = config->run.model->network;
  bool is_file_fault = false;
  const std::string problem = config->has_run ? settle_network(&config->run, &is_file_fault) : "";
  if (problem.empty()) {
    return kExitOk;
  }
  const bool is_mended_later = is_file_fault && is_temporary(find_path_fault(path.c_str(), false));
  return fail(is_mended_later ? kExitTemporary : is_file_fault ? kExitFile : kExitConfig, problem);
}

CommandExit exit_of_files(const ServerConfig& server) {
  const CredentialPaths& credentials = server.credentials;
  bool is_any_temporary = !server.export_dir.empty() && is_temporary(find_path_fault(server.export_dir.c_str(), true));
  for (const std::string* const path : {&server.first_model, &server.http_token_file, &credentials.authority,
                                        &credentials.certificate, &credentials.key}) {
    is_any_temporary |= !path->empty() && is_temporary(find_path_fault(path->c_str(), false));
  }
  return is_any_temporary ? kExitTemporary : kExitFile;
}

namespace {

int check_files(const Config& config, ServeUse use) {
  const bool is_check = use == ServeUse::kCheck;
  std::string problem;
  if (!config.server.export_dir.empty()) {
    problem = check_export_folder(config.server.export_dir, !is_check);
  }
  if (problem.empty() && config.server.credentials.is_set()) {
    problem = CredentialBoard().load(config.server.credentials);
  }
  if (problem.empty() && !config.server.http_listen.empty() && !config.server.http_token_file.empty()) {
    std::string token;
    problem = read_token(config.server.http_token_file, &token);
  }
  if (problem.empty()) {
    // A server that starts again may serve a run that has long left it.
    FirstModel model;
    problem = load_first_model(config, is_check ? FirstModelUse::kBegin : FirstModelUse::kNone, &model);
  }
  return problem.empty() ? int{kExitOk} : fail(exit_of_files(config.server), problem);
}

// Of another machine: no port of it can be listened on here. A port that is taken is another matter, which passes.
int check_address(const std::string& text, const std::string& key) {
  Tcp::endpoint endpoint;
  if (!parse_listen_address(text, &endpoint)) {  // empty: load_config() has checked it
    return kExitOk;
  }
  endpoint.port(0);
  const std::string problem = check_listen_address(endpoint, key.c_str());
  return problem.empty() ? int{kExitOk} : fail(kExitNetwork, key + " " + text + ": " + problem);
}

}  // namespace

int check_to_serve(const CommonOptions& options, const Config& config, bool may_create, ServeUse use) {
  if (!config.has_run) {
    return fail(kExitConfig, options.config + " has no section [run]; experiments/demo.toml is an example");
  }
  if (const Objection objection = check_new_run(config.run); use == ServeUse::kCheck && objection) {
    return fail(kExitConfig, "[run] " + objection.sentence);
  }
  if (const int code = check_files(config, use); code != kExitOk) {
    return code;
  }
  if (const std::string problem = check_database_file(config.server.database, may_create); !problem.empty()) {
    return fail(is_temporary(find_path_fault(config.server.database.c_str(), false)) ? kExitTemporary : kExitDatabase,
                problem);
  }
  const int code = check_address(config.server.listen, "server.listen");
  return code == kExitOk ? check_address(config.server.http_listen, "server.http_listen") : code;
}

int check_frozen(const RunRow& run, const Config& config, const std::string& file) {
  std::string keys;
  for (const std::string& key : differing_keys(run.parameters, canonical_text(config.run))) {
    keys += (keys.empty() ? "run." : ", run.") + key;
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
  const int code = open_database(config, false, &database);
  return code != kExitOk                                 ? code
         : database.current_run(out) == StoreStatus::kOk ? int{kExitOk}
                                                         : fail_database(database);
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
  if (code == kExitOk && !with_origins) {
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
