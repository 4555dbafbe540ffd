#include "server/program/serve_parts.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "host/end_signals.h"
#include "host/file_cause.h"
#include "server/base/descriptors.h"
#include "server/base/listen_address.h"
#include "server/base/log.h"
#include "server/base/notify.h"
#include "server/rules/record.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/units_keys.h"

namespace gradstream {

// ---- Limits ----

// A device that is brought up to date gets a whole snapshot, a whole Log, or both at once: the queue must hold them,
// however large the model and however many versions it missed. Both sizes count whole frames, of 52 bytes at least:
// with kQueuedFrameOverhead for each they stay below two and a half times as much.
ListenerLimits listener_limits(const Config& config) {
  ListenerLimits limits = config.server.listener;
  const auto tensor_count = 1 + static_cast<uint64_t>(std::popcount(version_parts(config.run)));
  // A column of the table of units takes as much as three numbers.
  const uint32_t known_columns = units_column_count(config.run);
  const uint32_t columns = known_columns == 0 ? kUnitsColumnMax : known_columns;
  const uint64_t table = units_bits(config.run) == 0 ? 0 : snapshot_size({3 * columns, 1});
  const uint64_t snapshot = snapshot_size(config.run.model->shape, config.run.has_mean()) * tensor_count + table;
  const uint64_t log = config.run.wire->log_size_max == 0 ? snapshot : config.run.wire->log_size_max;
  const uint64_t least = std::min<uint64_t>((snapshot + log) * 5 / 2 + 65536, 1ULL << 31);
  limits.session.queue_size_max = std::max(limits.session.queue_size_max, static_cast<uint32_t>(least));
  for (const std::string& balancer : config.server.balancers) {
    limits.balancers.add(balancer);  // the configuration has been checked
  }
  return limits;
}

void share_descriptors(Config* config) {
  const ServerConfig& server = config->server;
  const uint32_t http = server.http_listen.empty() ? 0 : server.http.connection_count_max;
  const DescriptorNeeds needs = {server.io_threads, http};
  const uint64_t open = open_descriptors();
  const uint64_t kept = open + kDescriptorReserve + uint64_t{needs.io_threads} * kThreadDescriptors + http;
  const uint64_t wanted = kept + server.listener.connection_count_max + kLobbyCountMax;
  const uint64_t limit = raise_descriptor_limit(wanted);
  config->server.listener.descriptor_count_max = device_descriptors(limit, open, needs);
  const size_t places = session_count_max(config->server.listener);
  if (places < server.listener.connection_count_max) {
    log_event("descriptors_short"_event,
              Fields()
                  .add("limit", limit)
                  .add("wanted", wanted)
                  .add("places", uint64_t{places})
                  .add("connection_count_max", uint64_t{server.listener.connection_count_max}));
  }
}

int fail_start(const std::system_error& error) {
  const int cause = error.code().value();
  return fail(
      is_temporary(cause) ? kExitTemporary : kExitInternal,
      std::string("cannot begin to serve: ") + cause_text(cause) + "; " + remedy_text(cause, "report it with the log"));
}

// ---- HTTP ----

int open_http(const Config& config, HttpServer::Handler handler, HttpServer::IsPublic is_public,
              std::unique_ptr<HttpServer>* out) {
  Tcp::endpoint endpoint;
  if (!parse_listen_address(config.server.http_listen, &endpoint)) {  // empty: load_config() has checked it
    return kExitOk;
  }
  std::string token;
  const std::string& file = config.server.http_token_file;
  Objection problem = file.empty() ? "" : read_token(file, &token);
  if (problem) {
    return fail(kExitFile, problem.sentence);
  }
  *out = std::make_unique<HttpServer>(config.server.http, token, std::move(handler), is_public);
  (*out)->allow_hosts(config.server.http_hosts);
  problem = (*out)->start(endpoint);
  if (problem) {
    return fail(kExitNetwork, problem.sentence);
  }
  log_event("http_listening"_event, Fields()
                                        .add("address", endpoint.address().to_string())
                                        .add("port", uint64_t{(*out)->port()})
                                        .add("token", token.empty() ? "no" : "needed"));
  return kExitOk;
}

// ---- Signals ----

namespace {

void log_reload_failed(const Objection& problem, const char* remedy) {
  log_event("reload_failed"_event, Fields().add("cause", problem.sentence).add("remedy", remedy));
}

// Whether the port goes on with the token that its file holds now. A file that cannot be used changes nothing.
bool take_token(const Config& served, HttpServer& http) {
  std::string token;
  const Objection problem = read_token(served.server.http_token_file, &token);
  if (problem) {
    log_reload_failed(problem,
                      "correct the file, and send SIGHUP again; until then the HTTP port keeps the token that it has");
    return false;
  }
  http.set_token(std::move(token));
  return true;
}

// Whether handshakes go on with the certificates that the files hold now. What cannot be used changes nothing.
bool take_certificates(ServedShell& shell) {
  const Objection problem = shell.reload_credentials();
  if (problem) {
    log_reload_failed(
        problem, "correct the files, and send SIGHUP again; until then the server keeps the certificates that it has");
  }
  return !problem;
}

// SIGHUP: devices, the log level, certificates and the token of the HTTP port are read anew; what else differs takes a
// restart, and is named. http may be null.
void reload_all(const CommonOptions& options, const Config& served, ServedShell& shell, HttpServer* http) {
  Config config;
  Objection errors = load_config({options.config, process_environment(), options.overrides}, &config);
  if (errors) {
    errors.sentence.pop_back();
    log_event("reload_failed"_event, Fields().add("cause", errors.sentence));
    return;
  }
  LogLevel level = LogLevel::kInfo;
  parse_log_level(config.server.log_level, &level);
  std::string keys;
  const std::vector<std::string> names = config_keys();
  for (const std::string& name : names) {
    const bool is_run = name.starts_with("run.");  // frozen, and the run's own
    if (!is_run && name != "server.log_level" && value_text(config, name) != value_text(served, name)) {
      keys += (keys.empty() ? "" : ",") + name;
    }
  }
  const bool has_token = http != nullptr && !served.server.http_token_file.empty();
  const char* const token = !has_token ? "none" : take_token(served, *http) ? "read" : "kept";
  const bool has_certificates = served.server.credentials.is_set();
  const char* const certificates = !has_certificates ? "none" : take_certificates(shell) ? "read" : "kept";
  log_event("reloaded"_event, Fields()
                                  .add("log_level", config.server.log_level)
                                  .add("needs_restart", keys.empty() ? "none" : keys)
                                  .add("http_token", token)
                                  .add("certificates", certificates));
  set_log_level(level);
  shell.reload();
}

}  // namespace

ServeSignals::ServeSignals(asio::io_context& io, const CommonOptions& options, const Config& config,
                           const std::unique_ptr<HttpServer>& http)
    : news_(io, signal_file()), options_(options), config_(config), http_(http) {
  wait();
}

void ServeSignals::wait() {
  news_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const ErrorCode& cancelled) {
    if (!cancelled) {
      clear_signal_file();
      look();
      wait();
    }
  });
}

void ServeSignals::look() {
  if (shell_ == nullptr) {
    return;
  }
  if (take_hangup()) {
    reload_all(options_, config_, *shell_, http_.get());
  }
  if (end_signal() != 0) {
    notify_manager("STOPPING=1");
    shell_->drain();
  }
}

}  // namespace gradstream
