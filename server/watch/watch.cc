#include "server/watch/watch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <span>
#include <type_traits>
#include <utility>

#include "server/run/field_text.h"
#include "server/run/names.h"
#include "server/run/visit_keys.h"
#include "server/watch/attention.h"
#include "server/watch/json_object.h"
#include "server/watch/metrics.h"
#include "server/watch/status_json.h"

namespace gradstream {

namespace {

using Object = JsonObject;

std::string number(double value) { return metric_text(value); }
constexpr double kNoNumber = JsonObject::kNoNumber;

double seconds_of(uint64_t time_ms) { return static_cast<double>(time_ms) / 1000; }

void add_run(Metrics& metrics, const WatchSnapshot& s) {
  metrics.gauge("gradstream_run_number", "The run that is served.", s.run);
  metrics.begin("gradstream_run_state", "gauge", "1 for the state of the run, 0 for the others.");
  for (const auto& [text, state] : names_of<gs_RunState>()) {
    metrics.sample("gradstream_run_state", std::string("state=\"") + text + "\"", state == s.run_state ? "1" : "0");
  }
  metrics.gauge("gradstream_model_version", "The newest version.", s.version);
  metrics.begin("gradstream_run_progress", "gauge", "1 for what the run's progress is judged to be, 0 for the others.");
  for (const auto& [text, state] : names_of<ProgressState>()) {
    metrics.sample("gradstream_run_progress", std::string("state=\"") + text + "\"",
                   state == s.progress.state ? "1" : "0");
  }
  metrics.gauge("gradstream_run_promise_ratio",
                "What the last 10 rounds promised over all that the loss has fallen; 0: unknown.", s.progress.ratio);
  metrics.gauge("gradstream_round_answers", "Answers in for the open round.", s.round.answers);
  metrics.gauge("gradstream_round_wanted", "Answers that close it.", s.round.wanted);
  metrics.gauge("gradstream_round_asked", "Devices asked in it.", s.round.asked);
  metrics.gauge("gradstream_held", "Devices whose Pull is held until there is something for them.", s.round.held);
  if (s.quality.latest) {
    metrics.begin("gradstream_quality", "gauge", "The newest evaluation on samples held out, by its metric.");
    metrics.sample("gradstream_quality", std::string("metric=\"") + quality_metric_name(s.quality.metric) + "\"",
                   number(s.quality.latest->metric));
    metrics.gauge("gradstream_quality_loss", "Mean loss on samples held out, of the same version.",
                  s.quality.latest->loss);
    metrics.gauge("gradstream_quality_version", "The version that was evaluated.", s.quality.latest->version);
    metrics.gauge("gradstream_quality_devices", "Devices that have evaluated it.", s.quality.latest->device_count);
    metrics.gauge("gradstream_quality_samples", "Samples that they hold out.",
                  static_cast<double>(s.quality.latest->sample_count));
  }
  if (s.round.clip_radius > 0) {
    metrics.gauge("gradstream_clip_radius", "Length to which longer updates of the last version were scaled.",
                  s.round.clip_radius);
  }
  if (s.round.least_cosine != 0) {
    metrics.gauge("gradstream_update_cosine_least", "Least cosine of an update of the last version to its step.",
                  s.round.least_cosine);
  }
  if (!s.rounds.empty()) {
    const RoundSummary& last = s.rounds.back().summary;
    metrics.gauge("gradstream_version_timestamp_seconds", "When the newest version was made.",
                  seconds_of(last.time_ms));
    if (last.has_losses) {
      metrics.gauge("gradstream_round_loss", "Mean loss of the devices before their local steps, of the last round.",
                    last.loss_before);
    }
    if (last.step > 0) {
      metrics.gauge("gradstream_step_size", "Step size of the open round, in a run that chooses it by itself.",
                    last.step);
    }
  }
}

// 1 for each sentence that /status has now. The ids are a closed set.
void add_attention(Metrics& metrics, const WatchSnapshot& s) {
  const std::vector<Attention> now = attention_of(s);
  metrics.begin("gradstream_attention", "gauge", "1 for what needs attention now, 0 for the rest.");
  for (const char* const id : attention_ids()) {
    const bool is_there =
        std::any_of(now.begin(), now.end(), [id](const Attention& entry) { return std::string_view(entry.id) == id; });
    metrics.sample("gradstream_attention", std::string("id=\"") + id + "\"", is_there ? "1" : "0");
  }
}

std::string json_of(const std::optional<Quality>& quality, QualityMetric metric) {
  return !quality ? "null"
                  : Object()
                        .add("version", quality->version)
                        .word("metric", quality_metric_name(metric))
                        .add("value", quality->metric)
                        .add("text", quality_text(metric, quality->metric))
                        .add("loss", quality->loss)
                        .add("devices", quality->device_count)
                        .add("samples", quality->sample_count)
                        .text();
}

std::string json_of(const WatchedRound& watched, QualityMetric metric) {
  const RoundSummary& round = watched.summary;
  return Object()
      .add("version", round.version)
      .add("time_ms", round.time_ms)
      .add("opened_ms", round.opened_ms)
      .word("trigger", round.trigger)
      .add("asked", round.asked)
      .add("wanted", round.wanted)
      .add("folded", round.folded)
      .add("late", round.late)
      .add("partial", round.partial)
      .add("extensions", round.extensions)
      .add("missing", round.missing)
      .add("loss_before", round.has_losses ? round.loss_before : kNoNumber)
      .add("loss_after", round.has_losses ? round.loss_after : kNoNumber)
      .raw("quality", json_of(round.quality, metric))
      .add("upload_bytes", round.upload_bytes)
      .add("record_bytes", round.record_bytes)
      .add("step", round.step)
      .add("bound", round.bound)
      .add("wire_bytes_received", watched.wire_bytes_received)
      .add("wire_bytes_sent", watched.wire_bytes_sent)
      .text();
}

std::string json_of(const Attention& attention) {
  return Object()
      .word("id", attention.id)
      .word("level", name_of(attention.level))
      .add("text", attention.text)
      .add("remedy", attention.remedy)
      .add("command", attention.command)
      .text();
}

std::string json_of(const PastRun& run) {
  return Object()
      .add("number", run.number)
      .add("name", run.name)
      .add("problem", run.problem)
      .add("state", run.state)
      .add("versions", run.versions)
      .add("began_ms", run.began_ms)
      .raw("ended_ms", run.ended_ms == 0 ? "null" : std::to_string(run.ended_ms))
      .add("loss", run.loss.value_or(kNoNumber))
      .add("quality", run.quality)
      .text();
}

std::string json_of(const WatchPace& pace) {
  return Object()
      .add("versions_per_minute", pace.versions_per_minute.value_or(kNoNumber))
      .add("seconds_left", pace.seconds_left.value_or(kNoNumber))
      .add("best_loss", pace.best_loss.value_or(kNoNumber))
      .text();
}

const char* reset_cause_text(gs_ResetCause cause) {
  switch (cause) {
    case gs_ResetCause_RESET_CAUSE_POWER_ON:
      return "power_on";
    case gs_ResetCause_RESET_CAUSE_WATCHDOG:
      return "watchdog";
    case gs_ResetCause_RESET_CAUSE_SOFTWARE:
      return "software";
    case gs_ResetCause_RESET_CAUSE_BROWN_OUT:
      return "brown_out";
    case gs_ResetCause_RESET_CAUSE_PIN:
      return "pin";
    default:
      return "none";
  }
}

// For how long the open version has been open.
uint64_t open_ms(const WatchSnapshot& snapshot) {
  return snapshot.round.opened_ms == 0 ? 0 : snapshot.taken_ms - std::min(snapshot.round.opened_ms, snapshot.taken_ms);
}

std::string json_of(const DeviceStatus& device, const WatchSnapshot& snapshot) {
  const gs_StatusReport& report = device.report;
  return Object()
      .add("device", device.name)
      .add("index", device.index)
      .word("standing", name_of(standing_of(device, snapshot)))
      .add("active", !device.is_revoked)
      .add("connected", device.connected)
      .add("holds", device.waits.holds)
      .add("capable", device.is_capable)
      .add("asked", device.is_asked)
      .add("answered", device.has_answered)
      .add("awaited", device.waits.is_awaited)
      .add("awaited_ms", device.waits.is_awaited ? open_ms(snapshot) : 0)
      .add("has_task", device.has_task)
      .add("task_version", device.task_version)
      .add("task_issued_ms", device.task_issued_ms)
      .add("version_held", device.version_held)
      .add("last_seen_ms", device.last_seen_ms)
      .word("last_verdict", verdict_text(device.last_verdict))
      .word("last_reason", reason_name(device.last_reason.reason))
      .word("last_floor", floor_name(device.last_reason.floor))
      .add("last_staleness", device.last_staleness)
      .add("last_staleness_weight", static_cast<double>(device.last_staleness_weight))
      .add("last_steps", device.last_steps)
      .add("last_steps_asked", device.last_steps_asked)
      .add("folded", device.updates_folded)
      .add("late", device.updates_late)
      .add("partial", device.updates_partial)
      .add("snapshots", device.snapshots_sent)
      .add("sample_count", device.sample_count)
      .add("step_time_us", device.step_time_us)
      .add("problems", device.image.problems)
      .add("lacks", device.image.lacks)
      .add("left_out", device.oddity.is_left_out)
      .add("norm_ratio", device.oddity.norm_ratio)
      .add("clipped_share", device.oddity.clipped_share)
      .add("cosine", device.oddity.cosine)
      .add("journal_forked", device.oddity.knows_other_journal)
      .add("ahead", device.oddity.holds_later_version)
      .add("board", device.board)
      .add("firmware", device.firmware_version)
      .word("reset_cause", reset_cause_text(device.image.reset_cause))
      .add("uptime_s", report.uptime_s)
      .add("arena_bytes", device.image.arena_size)
      .add("arena_high_water_bytes", report.arena_high_water)
      .add("stack_high_water_bytes", report.stack_high_water)
      .add("tls_high_water_bytes", report.tls_high_water)
      .add("bytes_sent", report.bytes_sent)
      .add("bytes_received", report.bytes_received)
      .add("digest_mismatches", report.digest_mismatches)
      .text();
}

std::string parameters_json(const RunParameters& parameters) {
  Object object;
  visit_keys(parameters, [&](const Key& field, const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    const char* const key = field.name;
    if constexpr (std::is_enum_v<Value>) {
      object.word(key, name_of(value));
    } else if constexpr (std::is_floating_point_v<Value>) {  // as short as the type allows: 0.1, not 0.10000000149
      if (is_zero_word(field, value)) {
        object.word(key, field.zero_word);
        return;
      }
      std::array<char, 32> text = {};
      const char* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
      object.raw(key, std::string_view(text.data(), static_cast<size_t>(end - text.data())));
    } else {
      object.add(key, value);
    }
  });
  return object.text();
}

std::string progress_json(const WatchSnapshot& s) {
  const ProgressView& view = s.progress;
  const ProgressWords words = s.parameters == nullptr ? ProgressWords() : progress_words(view, *s.parameters);
  return Object()
      .word("state", name_of(view.state))
      .add("promise_ratio", view.ratio)
      .add("kept", view.kept)
      .add("recent_share", view.recent_share)
      .add("drifts", view.drift_count)
      .add("text", words.text)
      .add("remedy", words.remedy)
      .text();
}

std::string run_json(const WatchSnapshot& s, bool counts_round) {
  const RoundProgressView& round = s.round;
  const auto count_or_null = [&](uint32_t count) { return counts_round ? std::to_string(count) : std::string("null"); };
  const Object open = Object()
                          .add("asked", round.asked)
                          .raw("answers", count_or_null(round.answers))
                          .add("wanted", round.wanted)
                          .raw("late", count_or_null(round.late))
                          .add("partial", round.partial)
                          .add("extensions", round.extensions)
                          .add("opened_ms", round.opened_ms)
                          .add("deadline_ms", round.deadline_ms)
                          .add("held", round.held)
                          .add("awaited", round.awaited);
  const uint64_t model_bytes = s.parameters == nullptr ? 0 : s.parameters->model->shape.size() * sizeof(Real);
  const std::string cause =
      s.stall.empty()
          ? "null"
          : Object().add("cause", s.stall.cause).add("text", s.stall.text).add("remedy", s.stall.remedy).text();
  const bool is_finished = s.run_state == gs_RunState_RUN_STATE_FINISHED;
  return Object()
      .add("number", s.run)
      .add("name", s.run_name)
      .word("state", name_of(s.run_state))
      .raw("stall", is_finished ? "null" : cause)
      .raw("end", is_finished ? cause : "null")
      .raw("progress", progress_json(s))
      .add("has_version", s.has_version)
      .add("version", s.version)
      .add("digest", hex(s.digest))
      .add("model_bytes", model_bytes)
      .add("round_count", s.round_count)
      .add("rounds_done", s.rounds_done)
      .raw("round", open.text())
      .raw("quality", json_of(s.quality.latest, s.quality.metric))
      .raw("parameters", s.parameters == nullptr ? "{}" : parameters_json(*s.parameters))
      .text();
}

std::string refusals_json(const CoordinatorCounters& counters) {
  Object object;
  for (size_t i = 0; i < counters.refusals.size(); ++i) {
    if (counters.refusals[i] > 0) {
      object.add(reason_name(static_cast<gs_Reason>(i)), counters.refusals[i]);
    }
  }
  return object.text();
}

std::string http_json(const HttpCounters& http) {
  Object refusals;
  for (size_t i = 0; i < kHttpRefusalCount; ++i) {
    refusals.add(http_refusal_text(static_cast<HttpRefusal>(i)), http.refusals[i].load());
  }
  return Object().add("requests", http.requests.load()).raw("refusals", refusals.text()).text();
}

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
  if (!snapshot.place.database_fault.empty()) {
    return snapshot.place.database_fault;
  }
  if (snapshot.place.is_storage_failed) {
    return "the database cannot be written; the log's store_failed names the cause";
  }
  const StallCause& stall = snapshot.stall;
  const bool is_finished = snapshot.run_state == gs_RunState_RUN_STATE_FINISHED;
  return stall.empty() || is_finished
             ? ""
             : "the run is stalled, cause=" + stall.cause + ": " + stall.text + "; " + stall.remedy;
}

}  // namespace

void WatchBoard::publish(std::shared_ptr<const WatchSnapshot> snapshot) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    snapshot_.swap(snapshot);  // the old one ends after the lock
  }
  news_.notify_all();
}

std::shared_ptr<const WatchSnapshot> WatchBoard::wait_for_model(uint32_t run, uint32_t version, uint32_t timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_there = [&] {
    return snapshot_ != nullptr && snapshot_->run == run && snapshot_->model != nullptr &&
           snapshot_->model->version >= version;
  };
  wants_model_ = true;
  const bool came = news_.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_there);
  wants_model_ = false;
  return came ? snapshot_ : nullptr;
}

std::shared_ptr<const WatchSnapshot> WatchBoard::read() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return snapshot_;
}

std::string metrics_text(const WatchSnapshot& s, const HttpCounters& http) {
  Metrics metrics;
  add_process(&metrics, s.started_ms);
  add_run(metrics, s);
  metrics.begin("gradstream_devices", "gauge", "Enrolled devices by state.");
  metrics.sample("gradstream_devices", "state=\"pending\"", std::to_string(s.enrolled.pending));
  metrics.sample("gradstream_devices", "state=\"active\"", std::to_string(s.enrolled.active));
  metrics.sample("gradstream_devices", "state=\"disabled\"", std::to_string(s.enrolled.disabled));
  metrics.sample("gradstream_devices", "state=\"revoked\"", std::to_string(s.enrolled.revoked));
  metrics.gauge("gradstream_sessions", "Connections of devices, with those in their handshake.",
                static_cast<double>(s.sessions));
  metrics.gauge("gradstream_handshakes", "Handshakes in progress.", static_cast<double>(s.handshakes));
  metrics.gauge("gradstream_storage_failed", "1 while the database cannot be written.",
                s.place.is_storage_failed ? 1 : 0);
  add_attention(metrics, s);
  metrics.gauge("gradstream_draining", "1 after SIGTERM.", s.is_draining ? 1 : 0);
  visit_counters(s.shell, s.coordinator, [&](const std::string& key, const char* help, uint64_t value) {
    metrics.counter("gradstream_" + key + "_total", help, value);
  });
  const char* const updates = "gradstream_refusals_total";
  metrics.begin(updates, "counter", "Updates and tasks that were refused.");
  for (size_t i = 1; i < s.coordinator.refusals.size(); ++i) {
    const auto reason = static_cast<gs_Reason>(i);
    if (is_reason(reason)) {
      metrics.sample(updates, std::string("reason=\"") + reason_name(reason) + "\"",
                     std::to_string(s.coordinator.refusals[i]));
    }
  }
  add_http(&metrics, http);
  return metrics.take();
}

std::string attention_json(const std::vector<Attention>& all) {
  return json_list(all, [](const Attention& one) { return json_of(one); });
}

std::string status_json(const WatchSnapshot& s, const HttpCounters& http, const StatusWords& words, uint32_t after) {
  const auto first = std::find_if(s.rounds.begin(), s.rounds.end(),
                                  [&](const WatchedRound& round) { return round.summary.version > after; });
  const Object devices = Object()
                             .add("pending", s.enrolled.pending)
                             .add("active", s.enrolled.active)
                             .add("disabled", s.enrolled.disabled)
                             .add("revoked", s.enrolled.revoked);
  Object status = Object()
                      .add("time_ms", s.taken_ms)
                      .add("started_ms", s.started_ms)
                      .add("ready", words.is_ready)
                      .add("draining", s.is_draining)
                      .add("storage_failed", s.place.is_storage_failed)
                      .add("database_fault", s.place.database_fault)
                      .raw("attention", words.attention)
                      .add("command_options", s.place.command_options)
                      .raw("pace", json_of(pace_of(s)))
                      .raw("run", run_json(s, words.counts_round))
                      .raw("devices", devices.text())
                      .add("silent_after_ms", s.silent_after_ms)
                      .add("sessions", s.sessions)
                      .add("handshakes", s.handshakes)
                      .raw("counters", words.counters)
                      .raw("refusals", words.refusals)
                      .raw("http", http_json(http))
                      .raw("rounds", json_list(std::span(first, s.rounds.end()), [&s](const WatchedRound& round) {
                             return json_of(round, s.quality.metric);
                           }));
  for (const auto& [key, value] : words.more) {
    status.raw(key, value);
  }
  return status.text() + "\n";
}

std::string status_json(const WatchSnapshot& s, const HttpCounters& http, uint32_t after) {
  Object counters;
  visit_counters(s.shell, s.coordinator,
                 [&](const char* key, const char*, uint64_t value) { counters.add(key, value); });
  StatusWords words;
  words.is_ready = not_ready_cause(s).empty();
  words.attention = attention_json(attention_of(s));
  words.counters = counters.text();
  words.refusals = refusals_json(s.coordinator);
  return status_json(s, http, words, after);
}

std::string runs_json(const WatchSnapshot& s) {
  std::vector<PastRun> runs = s.past_runs == nullptr ? std::vector<PastRun>() : *s.past_runs;
  PastRun served;
  served.number = s.run;
  served.name = s.run_name;
  served.state = name_of(s.run_state);
  served.versions = s.version;
  served.began_ms = s.place.run_created_ms;
  if (s.parameters != nullptr) {
    served.problem = s.parameters->model->problem;
  }
  if (!s.rounds.empty()) {
    const RoundSummary& last = s.rounds.back().summary;
    served.loss = last.has_losses ? std::optional(last.loss_before) : std::nullopt;
    served.ended_ms = last.time_ms;
  }
  served.quality = s.quality.latest ? quality_text(s.quality.metric, s.quality.latest->metric) : "";
  const bool is_over = s.run_state == gs_RunState_RUN_STATE_FINISHED || s.run_state == gs_RunState_RUN_STATE_STOPPED;
  served.ended_ms = is_over ? served.ended_ms : 0;
  const auto at =
      std::find_if(runs.begin(), runs.end(), [&](const PastRun& run) { return run.number > served.number; });
  runs.insert(at, served);
  return Object()
             .add("time_ms", s.taken_ms)
             .add("served", s.run)
             .raw("runs", json_list(runs, [](const PastRun& run) { return json_of(run); }))
             .text() +
         "\n";
}

std::string devices_json(const WatchSnapshot& s) {
  const std::vector<DeviceStatus> none;
  return Object()
             .add("time_ms", s.devices_taken_ms)
             .add("run", s.run)
             .add("version", s.version)
             .raw("devices", json_list(s.devices == nullptr ? none : *s.devices,
                                       [&](const DeviceStatus& device) { return json_of(device, s); }))
             .text() +
         "\n";
}

DeviceStanding standing_of(const DeviceStatus& device, const WatchSnapshot& s) {
  if (device.is_revoked) {
    return DeviceStanding::kOff;
  }
  if (!device.connected && device.last_seen_ms + s.silent_after_ms < s.devices_taken_ms) {
    return DeviceStanding::kSilent;
  }
  if (!device.is_capable) {
    return DeviceStanding::kUnable;
  }
  const bool works_on_old = device.has_task && device.task_version < s.version;
  if (works_on_old || device.last_verdict == gs_Verdict_VERDICT_LATE) {
    return DeviceStanding::kLate;
  }
  if (device.last_verdict == gs_Verdict_VERDICT_REFUSED || device.last_verdict == gs_Verdict_VERDICT_ABANDONED) {
    return DeviceStanding::kRefused;
  }
  if (device.last_verdict != gs_Verdict_VERDICT_FOLDED) {
    return DeviceStanding::kNew;
  }
  return device.last_steps < device.last_steps_asked ? DeviceStanding::kPartial : DeviceStanding::kInTime;
}

HttpResponse watch_response(const HttpTarget& target, const WatchSnapshot* snapshot, const HttpCounters& http,
                            uint64_t now_steady_ms) {
  const std::string_view path = target.path;
  constexpr const char* kJson = "application/json";
  const bool is_stale = snapshot == nullptr || now_steady_ms > snapshot->taken_steady_ms + kWatchStaleMs;
  if (path == "/healthz") {
    return is_stale ? respond(503, "the coordinator has said nothing for 10 s: it hangs or is not up yet\n")
                    : respond(200, "ok\n");
  }
  const bool is_known = path == "/readyz" || path == "/metrics" || path == "/status" || path == "/status/devices" ||
                        path == "/status/runs";
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
    const std::optional<uint32_t> after = version_after(target.query);
    return after ? respond(200, status_json(*snapshot, http, *after), kJson)
                 : respond(400, "the only query is after=VERSION, a whole number\n");
  }
  if (path == "/status/runs") {
    return respond(200, runs_json(*snapshot), kJson);
  }
  if (path == "/status/devices") {
    return respond(200, devices_json(*snapshot), kJson);
  }
  const std::string cause = is_stale ? "the coordinator hangs" : not_ready_cause(*snapshot);
  return cause.empty() ? respond(200, "ready\n") : respond(503, cause + "\n");
}

std::optional<uint32_t> version_after(std::string_view query) {
  constexpr std::string_view kKey = "after=";
  if (query.empty()) {
    return 0;
  }
  uint32_t version = 0;
  const char* const end = query.data() + query.size();
  const bool is_key = query.starts_with(kKey) && query.size() > kKey.size();
  return is_key && std::from_chars(query.data() + kKey.size(), end, version) == std::from_chars_result{end, {}}
             ? std::optional(version)
             : std::nullopt;
}

const char* verdict_text(uint32_t verdict) {
  return verdict > _gs_Verdict_MAX ? "none" : name_of(static_cast<gs_Verdict>(verdict));
}

}  // namespace gradstream
