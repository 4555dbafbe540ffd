// What the HTTP port shows of a snapshot: Prometheus' text, JSON, and whether the server lives and is ready.
#include "server/watch/watch.h"

#include <cmath>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

WatchSnapshot example() {
  WatchSnapshot snapshot;
  snapshot.taken_ms = 1700000001000;
  snapshot.taken_steady_ms = 5000;
  snapshot.started_ms = 1700000000500;
  snapshot.run = 3;
  snapshot.run_name = "a \"run\"";
  snapshot.run_state = gs_RunState_RUN_STATE_STALLED;
  snapshot.has_version = true;
  snapshot.version = 7;
  snapshot.round = {9, 4, 6};
  snapshot.enrolled.active = 9;
  snapshot.enrolled.revoked = 1;
  snapshot.shell.handshakes.wrong_keys += 11;
  snapshot.coordinator.updates_folded = 123456789012;
  snapshot.coordinator.steps_clamped = 3;
  WatchedRound round;
  round.summary.version = 6;
  snapshot.rounds.push_back(round);
  round.summary.version = 7;
  round.summary.time_ms = 1700000000900;
  round.summary.trigger = "goal";
  round.summary.missing = "cellar,roof";
  round.summary.loss_before = 0.25;
  round.wire_bytes_sent = 77;
  snapshot.rounds.push_back(round);
  snapshot.coordinator.refusals[gs_Reason_REASON_TOO_STALE] = 5;
  snapshot.silent_after_ms = 1000;
  snapshot.place.command_options = "--config '/srv/a fleet.toml'";
  DeviceStatus device;
  device.name = "kitchen";
  device.board = "mps2-an386";
  device.firmware_version = "1.0\xff\xfe\"<script>";
  device.step_time_us = 1500;
  device.waits.holds = true;
  snapshot.devices = std::make_shared<std::vector<DeviceStatus>>(1, device);
  snapshot.devices_taken_ms = 1700000000999;
  return snapshot;
}

TEST(Watch, MetricsAreInPrometheusTextForm) {
  HttpCounters http;
  http.refusals[static_cast<size_t>(HttpRefusal::kToken)] = 2;
  std::istringstream text(metrics_text(example(), http));
  const std::regex meta("# (HELP|TYPE) ([a-z_]+) (.+)");
  const std::regex sample(R"(([a-z_]+)(\{[a-z_]+="[a-z_]+"\})? (-?[0-9.e+-]+))");
  std::map<std::string, std::string> types;
  std::set<std::string> samples;
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_match(line, match, meta)) {
      const bool is_type = match[1] == "TYPE";
      ASSERT_EQ(types.contains(match[2]) && types[match[2]] != "", false) << "told twice: " << line;
      types[match[2]] = is_type ? match[3].str() : "";
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    ASSERT_TRUE(types.contains(match[1])) << line;
    EXPECT_EQ(types[match[1]] == "counter", match[1].str().ends_with("_total")) << line;
    EXPECT_TRUE(samples.insert(match[1].str() + match[2].str()).second) << "twice: " << line;
  }
  EXPECT_GT(samples.size(), 60U);
  const std::string all = text.str();
  for (const char* const line :
       {"gradstream_wrong_keys_total 11\n", "gradstream_updates_folded_total 123456789012\n",
        "gradstream_run_state{state=\"stalled\"} 1\n", "gradstream_run_state{state=\"active\"} 0\n",
        "gradstream_http_refusals_total{reason=\"token\"} 2\n", "gradstream_devices{state=\"revoked\"} 1\n",
        "gradstream_round_wanted 6\n", "gradstream_round_loss 0.25\n",
        "gradstream_version_timestamp_seconds 1700000000.9\n", "process_start_time_seconds 1700000000.5\n"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
  EXPECT_THAT(all, testing::Not(HasSubstr("kitchen"))) << "a label for each device would grow with the fleet";
}

double gauge_of(const std::string& metrics, const std::string& name) {
  const size_t at = metrics.find("\n" + name + " ");
  return at == std::string::npos ? std::nan("") : std::stod(metrics.substr(at + name.size() + 2));
}

TEST(Watch, HeapGrowsByWhatIsHeld) {
#if defined(GS_SANITIZED)
  GTEST_SKIP() << "a sanitizer's allocator is not the C library's";
#endif
  constexpr size_t kBlockSize = 1000;  // below malloc's threshold for mappings of their own; the vector is above
  constexpr size_t kBlockCount = 2000;
  const auto heap = [] { return gauge_of(metrics_text(example(), {}), "gradstream_heap_bytes"); };
  const double before = heap();
  std::vector<std::unique_ptr<char[]>> blocks(kBlockCount);
  const std::vector<char> mapped(kBlockCount * kBlockSize);
  for (auto& block : blocks) {
    block = std::make_unique<char[]>(kBlockSize);
  }
  const double held = heap() - before;
  EXPECT_GE(held, 2.0 * kBlockCount * kBlockSize);
  EXPECT_LE(held, 2.2 * kBlockCount * kBlockSize);
}

TEST(Watch, QualityIsSaidWhereDevicesHaveEvaluated) {
  const HttpCounters http;
  WatchSnapshot snapshot = example();
  EXPECT_THAT(metrics_text(snapshot, http), testing::Not(HasSubstr("gradstream_quality")));
  EXPECT_TRUE(Json::parse(status_json(snapshot, http))["run"]["quality"].is_null());
  snapshot.quality.metric = QualityMetric::kAccuracy;
  snapshot.quality.latest = Quality{6, 2, 40, 1.5, 0.9421};
  snapshot.rounds.back().summary.quality = snapshot.quality.latest;
  const std::string metrics = metrics_text(snapshot, http);
  for (const char* const line :
       {"gradstream_quality{metric=\"accuracy\"} 0.9421\n", "gradstream_quality_loss 1.5\n",
        "gradstream_quality_version 6\n", "gradstream_quality_devices 2\n", "gradstream_quality_samples 40\n"}) {
    EXPECT_THAT(metrics, HasSubstr(line));
  }
  const Json status = Json::parse(status_json(snapshot, http));
  EXPECT_EQ(status["run"]["quality"]["text"], "quality 94.2 %");
  EXPECT_EQ(status["run"]["quality"]["version"], 6);
  EXPECT_TRUE(status["rounds"][0]["quality"].is_null());
  EXPECT_EQ(status["rounds"][1]["quality"]["value"], 0.9421);
}

TEST(Watch, StatusIsJson) {
  HttpCounters http;
  http.refusals[static_cast<size_t>(HttpRefusal::kToken)] = 2;
  WatchSnapshot snapshot = example();
  auto parameters = std::make_shared<RunParameters>();
  parameters->trigger->late = LatePolicy::kWeight;
  parameters->local->smoothing = static_cast<Real>(0.1);
  parameters->steps->step_size = 0;
  snapshot.parameters = parameters;
  snapshot.rounds.front().summary.loss_before = std::nan("");
  const Json status = Json::parse(status_json(snapshot, http));
  EXPECT_EQ(status["run"]["name"], "a \"run\"");
  EXPECT_EQ(status["run"]["state"], "stalled");
  EXPECT_EQ(status["run"]["round"]["wanted"], 6);
  EXPECT_EQ(status["counters"]["wrong_keys"], 11);
  EXPECT_EQ(status["rounds"].size(), 2U);
  EXPECT_TRUE(status["rounds"][0]["loss_before"].is_null()) << "JSON has no NaN";
  EXPECT_EQ(status["rounds"][1]["loss_before"], 0.25);
  EXPECT_EQ(status["rounds"][1]["wire_bytes_sent"], 77);
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["attention"][0]["id"], "stalled");
  EXPECT_EQ(status["attention"][0]["level"], "stops");
  EXPECT_EQ(status["attention"][0]["command"], "");
  EXPECT_EQ(status["command_options"], "--config '/srv/a fleet.toml'");
  EXPECT_THAT(metrics_text(snapshot, http), HasSubstr("gradstream_attention{id=\"stalled\"} 1\n"));
  EXPECT_THAT(metrics_text(snapshot, http), HasSubstr("gradstream_attention{id=\"disk_low\"} 0\n"));
  EXPECT_TRUE(status["pace"]["seconds_left"].is_null());
  EXPECT_EQ(status["pace"]["best_loss"], 0.25);
  EXPECT_EQ(status["run"]["parameters"]["late"], "weight");
  EXPECT_EQ(status["run"]["parameters"]["step_size"], "auto");
  EXPECT_THAT(status_json(snapshot, http), HasSubstr("\"smoothing\":0.1,"));
  EXPECT_EQ(status["refusals"], Json({{"too_stale", 5}}));
  EXPECT_EQ(status["http"]["refusals"]["token"], 2);
  EXPECT_EQ(Json::parse(watch_response({"/status", "after=6"}, &snapshot, http, 5000).body)["rounds"].size(), 1U);
  for (const char* wrong : {"after=x", "after=", "after=6x", "after=-1", "after=4294967296", "before=6"}) {
    EXPECT_EQ(watch_response({"/status", wrong}, &snapshot, http, 5000).status, 400U) << wrong;
  }
  const std::string text = devices_json(snapshot);
  const Json devices = Json::parse(text);
  EXPECT_EQ(devices["time_ms"], 1700000000999);
  EXPECT_EQ(devices["devices"][0]["device"], "kitchen");
  EXPECT_EQ(devices["devices"][0]["step_time_us"], 1500);
  EXPECT_EQ(devices["devices"][0]["board"], "mps2-an386");
  EXPECT_EQ(devices["devices"][0]["holds"], true);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST(Watch, RunsAreTheOthersAndTheServedOne) {
  const HttpCounters http;
  WatchSnapshot snapshot = example();
  snapshot.place.run_created_ms = 1699999999000;
  const auto past = std::make_shared<std::vector<PastRun>>(2);
  (*past)[0] = {1, "old", "kpca", "finished", 40, 1600000000000, 1600000009000, 0.5, "quality 94.2 %"};
  (*past)[1] = {4, "next", "kpca", "paused", 0, 1700000000000, 0, std::nullopt, ""};
  snapshot.past_runs = past;
  const Json status = Json::parse(watch_response({"/status/runs"}, &snapshot, http, 5000).body);
  EXPECT_EQ(status["served"], 3);
  ASSERT_EQ(status["runs"].size(), 3U);
  EXPECT_EQ(status["runs"][0]["quality"], "quality 94.2 %");
  EXPECT_EQ(status["runs"][0]["ended_ms"], 1600000009000);
  EXPECT_EQ(status["runs"][1]["number"], 3);
  EXPECT_EQ(status["runs"][1]["state"], "stalled");
  EXPECT_EQ(status["runs"][1]["versions"], 7);
  EXPECT_EQ(status["runs"][1]["loss"], 0.25);
  EXPECT_TRUE(status["runs"][1]["ended_ms"].is_null()) << "it is not over";
  EXPECT_TRUE(status["runs"][2]["loss"].is_null());
}

TEST(Watch, HealthAndReadiness) {
  const HttpCounters http;
  WatchSnapshot snapshot = example();
  const auto status = [&](const char* path, uint64_t now) {
    return watch_response({path}, &snapshot, http, now).status;
  };
  EXPECT_EQ(watch_response({"/healthz"}, nullptr, http, 0).status, 503U);
  EXPECT_EQ(watch_response({"/metrics"}, nullptr, http, 0).status, 503U);
  EXPECT_EQ(watch_response({"/elsewhere"}, nullptr, http, 0).status, 404U);
  EXPECT_EQ(status("/healthz", 5000 + kWatchStaleMs), 200U);
  EXPECT_EQ(status("/healthz", 5001 + kWatchStaleMs), 503U);
  EXPECT_EQ(status("/readyz", 5000), 200U);
  EXPECT_EQ(status("/readyz", 5001 + kWatchStaleMs), 503U);
  EXPECT_EQ(status("/metrics", 5001 + kWatchStaleMs), 200U) << "the last figures";
  EXPECT_EQ(status("/status/devices", 5000), 200U);
  snapshot.place.is_storage_failed = true;
  EXPECT_EQ(status("/readyz", 5000), 503U);
  EXPECT_EQ(status("/healthz", 5000), 200U);
  snapshot.place.database_fault = "database a.db was removed; put it back";
  EXPECT_EQ(watch_response({"/readyz"}, &snapshot, http, 5000).body, "database a.db was removed; put it back\n")
      << "the cause of the other one";
  EXPECT_EQ(Json::parse(status_json(snapshot, http))["database_fault"], "database a.db was removed; put it back");
  snapshot.place.database_fault.clear();
  snapshot.place.is_storage_failed = false;
  snapshot.is_draining = true;
  EXPECT_EQ(watch_response({"/readyz"}, &snapshot, http, 5000).body, "draining\n");
}

TEST(Watch, AStallThatNoWaitingEndsIsNotReadyAndSaysWhy) {
  const HttpCounters http;
  WatchSnapshot snapshot = example();
  snapshot.run_state = gs_RunState_RUN_STATE_STALLED;
  EXPECT_EQ(watch_response({"/readyz"}, &snapshot, http, 5000).status, 200U) << "more answers may come";
  EXPECT_TRUE(Json::parse(status_json(snapshot, http))["run"]["stall"].is_null());
  snapshot.stall = {"out_of_range", "2 of 2 devices (a,b) are refused", "lower fold_scale_log2"};
  const HttpResponse response = watch_response({"/readyz"}, &snapshot, http, 5000);
  EXPECT_EQ(response.status, 503U);
  EXPECT_EQ(response.body,
            "the run is stalled, cause=out_of_range: 2 of 2 devices (a,b) are refused; lower fold_scale_log2\n");
  snapshot.run_state = gs_RunState_RUN_STATE_FINISHED;  // why a run ended is no reason not to be ready
  EXPECT_TRUE(Json::parse(status_json(snapshot, http))["run"]["stall"].is_null());
  EXPECT_EQ(Json::parse(status_json(snapshot, http))["run"]["end"]["cause"], "out_of_range");
  snapshot.run_state = gs_RunState_RUN_STATE_STALLED;
  const Json stall = Json::parse(status_json(snapshot, http))["run"]["stall"];
  EXPECT_EQ(stall["cause"], "out_of_range");
  EXPECT_EQ(stall["text"], "2 of 2 devices (a,b) are refused");
  EXPECT_EQ(stall["remedy"], "lower fold_scale_log2");
}

TEST(Watch, ADeviceStandsSomewhere) {
  WatchSnapshot snapshot = example();
  DeviceStatus device;
  const auto standing = [&] { return std::string(name_of(standing_of(device, snapshot))); };
  EXPECT_EQ(standing(), "silent") << "never heard of";
  device.connected = true;
  EXPECT_EQ(standing(), "new");
  device.connected = false;
  device.last_seen_ms = snapshot.devices_taken_ms - snapshot.silent_after_ms;
  EXPECT_EQ(standing(), "new");
  --device.last_seen_ms;
  EXPECT_EQ(standing(), "silent");
  device.connected = true;
  device.last_verdict = gs_Verdict_VERDICT_FOLDED;
  device.last_steps = 5;
  device.last_steps_asked = 5;
  EXPECT_EQ(standing(), "in_time");
  device.last_steps = 4;
  EXPECT_EQ(standing(), "partial");
  device.has_task = true;
  device.task_version = snapshot.version;
  EXPECT_EQ(standing(), "partial");
  device.task_version = snapshot.version - 1;
  EXPECT_EQ(standing(), "late");
  device.has_task = false;
  device.last_verdict = gs_Verdict_VERDICT_LATE;
  EXPECT_EQ(standing(), "late");
  device.last_verdict = gs_Verdict_VERDICT_ABANDONED;
  EXPECT_EQ(standing(), "refused");
  device.is_capable = false;
  EXPECT_EQ(standing(), "unable");
  device.is_revoked = true;
  EXPECT_EQ(standing(), "off");
}

TEST(Watch, TheBoardKeepsTheLast) {
  WatchBoard board;
  EXPECT_EQ(board.read(), nullptr);
  for (const uint32_t version : {1U, 2U}) {
    auto snapshot = std::make_shared<WatchSnapshot>();
    snapshot->version = version;
    board.publish(snapshot);
  }
  EXPECT_EQ(board.read()->version, 2U);
}

}  // namespace
}  // namespace gradstream
