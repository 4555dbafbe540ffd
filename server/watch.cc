#include "server/watch.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

namespace gradstream {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<gs_RunState, const char*> kRunStates[] = {
    {gs_RunState_RUN_STATE_NONE, "waiting"},     {gs_RunState_RUN_STATE_ACTIVE, "active"},
    {gs_RunState_RUN_STATE_STALLED, "stalled"},  {gs_RunState_RUN_STATE_PAUSED, "paused"},
    {gs_RunState_RUN_STATE_FINISHED, "finished"}, {gs_RunState_RUN_STATE_STOPPED, "stopped"},
};

const char* run_state_text(gs_RunState state) {
  for (const auto& [known, text] : kRunStates) {
    if (known == state) {
      return text;
    }
  }
  return "unknown";
}

std::string number(double value) {
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

double seconds_of(uint64_t time_ms) { return static_cast<double>(time_ms) / 1000; }

// One line a sample, HELP and TYPE before the first of a metric.
class Metrics {
 public:
  void begin(const std::string& name, const char* type, const char* help) {
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const std::string& name, const std::string& labels, const std::string& value) {
    text_ += name + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
  }
  void gauge(const std::string& name, const char* help, double value) {
    begin(name, "gauge", help);
    sample(name, "", number(value));
  }
  void counter(const std::string& name, const char* help, uint64_t value) {
    begin(name, "counter", help);
    sample(name, "", std::to_string(value));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Names that every Prometheus client library uses.
void add_process(Metrics& metrics, const WatchSnapshot& snapshot) {
  metrics.gauge("process_start_time_seconds", "Start of the process since the epoch.", seconds_of(snapshot.started_ms));
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  metrics.begin("process_cpu_seconds_total", "counter", "Processor time, user and system.");
  metrics.sample("process_cpu_seconds_total", "", number(seconds(usage.ru_utime) + seconds(usage.ru_stime)));
  uint64_t pages = 0;
  uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  metrics.gauge("process_resident_memory_bytes", "Resident memory.",
                static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

void add_run(Metrics& metrics, const WatchSnapshot& s) {
  metrics.gauge("gradstream_run_number", "The run that is served.", s.run);
  metrics.begin("gradstream_run_state", "gauge", "1 for the state of the run, 0 for the others.");
  for (const auto& [state, text] : kRunStates) {
    metrics.sample("gradstream_run_state", std::string("state=\"") + text + "\"", state == s.run_state ? "1" : "0");
  }
  metrics.gauge("gradstream_model_version", "The newest version.", s.version);
  metrics.gauge("gradstream_round_answers", "Answers in for the open round.", s.round.answers);
  metrics.gauge("gradstream_round_wanted", "Answers that close it.", s.round.wanted);
  metrics.gauge("gradstream_round_asked", "Devices asked in it.", s.round.asked);
  if (!s.rounds.empty()) {
    const RoundSummary& last = s.rounds.back();
    metrics.gauge("gradstream_version_timestamp_seconds", "When the newest version was made.",
                  seconds_of(last.time_ms));
    metrics.gauge("gradstream_round_loss", "Mean loss of the devices before their local steps, of the last round.",
                  last.loss_before);
  }
}

Json json_of(const RoundSummary& round) {
  return {{"version", round.version},       {"time_ms", round.time_ms},
          {"trigger", round.trigger},       {"folded", round.folded},
          {"late", round.late},             {"partial", round.partial},
          {"missing", round.missing},       {"loss_before", round.loss_before},
          {"loss_after", round.loss_after}, {"upload_bytes", round.upload_bytes},
          {"record_bytes", round.record_bytes}};
}

Json json_of(const DeviceStatus& device) {
  const gs_StatusReport& report = device.report;
  return {{"device", device.name},
          {"index", device.index},
          {"active", !device.is_revoked},
          {"connected", device.connected},
          {"asked", device.is_asked},
          {"has_task", device.has_task},
          {"task_version", device.task_version},
          {"version_held", device.version_held},
          {"last_seen_ms", device.last_seen_ms},
          {"last_verdict", verdict_text(device.last_verdict)},
          {"folded", device.updates_folded},
          {"late", device.updates_late},
          {"snapshots", device.snapshots_sent},
          {"step_time_us", device.step_time_us},
          {"firmware", device.firmware_version},
          {"uptime_s", report.uptime_s},
          {"arena_high_water_bytes", report.arena_high_water},
          {"stack_high_water_bytes", report.stack_high_water},
          {"tls_high_water_bytes", report.tls_high_water}};
}

// ASCII; what a device says may be no UTF-8.
std::string text_of(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n"; }

HttpResponse respond(uint32_t status, std::string body, const char* type = "text/plain; charset=utf-8") {
  HttpResponse response;
  response.status = status;
  response.type = type;
  response.body = std::move(body);
  return response;
}

// Why devices get no work now; empty: they do.
std::string not_ready_cause(const WatchSnapshot& snapshot) {
  if (snapshot.is_draining) {
    return "draining";
  }
  return snapshot.is_storage_failed ? "the database cannot be written; the log's store_failed names the cause" : "";
}

}  // namespace

void WatchBoard::publish(std::shared_ptr<const WatchSnapshot> snapshot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  snapshot_.swap(snapshot);  // the old one ends after the lock
}

std::shared_ptr<const WatchSnapshot> WatchBoard::read() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return snapshot_;
}

std::string metrics_text(const WatchSnapshot& s, const HttpCounters& http) {
  Metrics metrics;
  add_process(metrics, s);
  add_run(metrics, s);
  metrics.begin("gradstream_devices", "gauge", "Enrolled devices by state.");
  metrics.sample("gradstream_devices", "state=\"pending\"", std::to_string(s.devices_pending));
  metrics.sample("gradstream_devices", "state=\"active\"", std::to_string(s.devices_active));
  metrics.sample("gradstream_devices", "state=\"disabled\"", std::to_string(s.devices_disabled));
  metrics.sample("gradstream_devices", "state=\"revoked\"", std::to_string(s.devices_revoked));
  metrics.gauge("gradstream_sessions", "Connections of devices, with those in their handshake.",
                static_cast<double>(s.sessions));
  metrics.gauge("gradstream_handshakes", "Handshakes in progress.", static_cast<double>(s.handshakes));
  metrics.gauge("gradstream_storage_failed", "1 while the database cannot be written.", s.is_storage_failed ? 1 : 0);
  metrics.gauge("gradstream_draining", "1 after SIGTERM.", s.is_draining ? 1 : 0);
  visit_counters(s.shell, s.coordinator, [&](const std::string& key, const char* help, uint64_t value) {
    metrics.counter("gradstream_" + key + "_total", help, value);
  });
  metrics.counter("gradstream_http_requests_total", "Requests to this port that were answered.", http.requests);
  const char* const refusals = "gradstream_http_refusals_total";
  metrics.begin(refusals, "counter", "Requests to this port, and connections, that were refused.");
  for (size_t i = 0; i < kHttpRefusalCount; ++i) {
    metrics.sample(refusals, std::string("reason=\"") + http_refusal_text(static_cast<HttpRefusal>(i)) + "\"",
                   std::to_string(http.refusals[i]));
  }
  return metrics.take();
}

std::string status_json(const WatchSnapshot& s) {
  Json counters;
  visit_counters(s.shell, s.coordinator, [&](const char* key, const char*, uint64_t value) { counters[key] = value; });
  Json rounds = Json::array();
  for (const RoundSummary& round : s.rounds) {
    rounds.push_back(json_of(round));
  }
  Json open = {{"asked", s.round.asked}, {"answers", s.round.answers}, {"wanted", s.round.wanted}};
  Json run = {{"number", s.run},         {"name", s.run_name},       {"state", run_state_text(s.run_state)},
              {"has_version", s.has_version}, {"version", s.version}, {"digest", hex(s.digest)},
              {"round_count", s.round_count}, {"round", std::move(open)}};
  Json devices = {{"pending", s.devices_pending}, {"active", s.devices_active}, {"disabled", s.devices_disabled},
                  {"revoked", s.devices_revoked}};
  return text_of({{"time_ms", s.taken_ms},
                  {"started_ms", s.started_ms},
                  {"ready", not_ready_cause(s).empty()},
                  {"draining", s.is_draining},
                  {"storage_failed", s.is_storage_failed},
                  {"run", std::move(run)},
                  {"devices", std::move(devices)},
                  {"sessions", s.sessions},
                  {"handshakes", s.handshakes},
                  {"counters", std::move(counters)},
                  {"rounds", std::move(rounds)}});
}

std::string devices_json(const WatchSnapshot& s) {
  Json devices = Json::array();
  if (s.devices != nullptr) {
    for (const DeviceStatus& device : *s.devices) {
      devices.push_back(json_of(device));
    }
  }
  return text_of({{"time_ms", s.devices_taken_ms},
                  {"run", s.run},
                  {"version", s.version},
                  {"devices", std::move(devices)}});
}

HttpResponse watch_response(std::string_view path, const WatchSnapshot* snapshot, const HttpCounters& http,
                            uint64_t now_steady_ms) {
  constexpr const char* kJson = "application/json";
  const bool is_stale = snapshot == nullptr || now_steady_ms > snapshot->taken_steady_ms + kWatchStaleMs;
  if (path == "/healthz") {
    return is_stale ? respond(503, "the coordinator has said nothing for 10 s: it hangs or is not up yet\n")
                    : respond(200, "ok\n");
  }
  const bool is_known = path == "/readyz" || path == "/metrics" || path == "/status" || path == "/status/devices";
  if (!is_known) {
    return {};
  }
  if (snapshot == nullptr) {
    return respond(503, "not up yet\n");
  }
  if (path == "/metrics") {
    return respond(200, metrics_text(*snapshot, http), "text/plain; version=0.0.4; charset=utf-8");
  }
  if (path == "/status") {
    return respond(200, status_json(*snapshot), kJson);
  }
  if (path == "/status/devices") {
    return respond(200, devices_json(*snapshot), kJson);
  }
  const std::string cause = is_stale ? "the coordinator hangs" : not_ready_cause(*snapshot);
  return cause.empty() ? respond(200, "ready\n") : respond(503, cause + "\n");
}

const char* verdict_text(uint32_t verdict) {
  switch (verdict) {
    case gs_Verdict_VERDICT_FOLDED: return "folded";
    case gs_Verdict_VERDICT_LATE: return "late";
    case gs_Verdict_VERDICT_SUPERSEDED: return "superseded";
    case gs_Verdict_VERDICT_ABANDONED: return "abandoned";
    case gs_Verdict_VERDICT_REFUSED: return "refused";
    case gs_Verdict_VERDICT_TRY_LATER: return "try_later";
    default: return "none";
  }
}

}  // namespace gradstream
