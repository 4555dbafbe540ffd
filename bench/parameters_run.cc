#include "bench/parameters_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "server/program/config.h"
#include "server/run/run_core.h"
#include "sim/lies.h"
#include "sim/timed_fleet.h"

namespace gradstream {
namespace {

// What the bench looks for in the log.
const std::set<std::string> kWatchedEvents = {"not_improving", "still_falling", "diverged",      "settled",
                                              "smoothing",     "drift",         "units_outlier", "run_stalled"};

std::string configuration_of(const BenchRun& run) {
  const WorkloadRow& row = run.workload->table_row();
  const Shape shape = run.workload->shape();
  std::string text = "[run]\nname = \"parameters\"\nseed = " + std::to_string(run.seed) + "\nproblem = \"" +
                     row.problem + "\"\nrows = " + std::to_string(shape.rows) +
                     "\ncols = " + std::to_string(shape.cols) + "\ndevice_count = " + std::to_string(row.device_count) +
                     "\nround_count = " + std::to_string(run.round_count) + "\n";
  if (*row.manifold != '\0') {
    text += std::string("manifold = \"") + row.manifold + "\"\n";
  }
  for (const std::string& key : run.keys) {
    text += key + "\n";
  }
  return text;
}

}  // namespace

double BenchOutcome::gap_at(uint32_t round) const {
  const auto found = gaps.find(round);
  return found == gaps.end() ? std::numeric_limits<double>::infinity() : found->second;
}

bool BenchOutcome::has_event(const std::string& name, uint32_t round) const {
  return std::any_of(events.begin(), events.end(),
                     [&](const BenchEvent& event) { return event.name == name && event.round <= round; });
}

bool is_run_key(const std::string& name) {
  const std::vector<std::string> keys = config_keys();
  return std::find(keys.begin(), keys.end(), "run." + name) != keys.end();
}

BenchOutcome run_bench(const BenchRun& run) {
  BenchOutcome outcome;
  Config config;
  const ConfigSources sources = {.path = "parameters", .environment = {}, .overrides = {}};
  if (const Objection objection = load_config_text(configuration_of(run), sources, &config)) {
    outcome.fault = objection.sentence;
    return outcome;
  }
  if (run.is_automatic && config.run.steps->step_size != 0) {
    outcome.fault = "step_size is " + value_text(config, "run.step_size") + ", and this run must find it by itself";
    return outcome;
  }
  const ParameterWorkload& workload = *run.workload;
  std::vector<Problem> problems;
  for (uint32_t i = 0; i < workload.table_row().device_count; ++i) {
    problems.push_back(workload.problem(i));
  }
  TimedFleet fleet(config.run, problems, {});
  fleet.tolerate_refusals();
  if (run.has_liar) {
    fleet.on_device_message = [&](uint32_t device, DeviceMessage* message) {
      if (device + 1 == workload.table_row().device_count) {
        tell_stage_lies(message);
      }
    };
  }
  // Versions that stages make have the model of the version before, and a step of 0.
  bool has_stepped = false;
  fleet.on_record = [&](const JournalRecord& record) {
    if (record.kind() == RecordKind::kVersion && record.version() > 0 && !has_stepped) {
      has_stepped = record.step_scale() != 0;
      outcome.exchange_count += has_stepped ? 0 : 1;
    }
    return std::string();
  };
  uint32_t round = 0;
  fleet.on_log_line = [&](const Action& action) {
    if (kWatchedEvents.contains(action.event->id)) {
      outcome.events.push_back({round, action.event->id, action.text});
    }
  };
  double start_loss = 0;
  outcome.fault = fleet.run(TimedFleet::kNoEndMs, [&](uint64_t, uint32_t version, const Real* model) {
    round = version - outcome.exchange_count;
    const std::span<const Real> values(model, workload.shape().size());
    if (version == 0) {
      start_loss = workload.loss(values);
    } else if (std::find(kMarkRounds.begin(), kMarkRounds.end(), round) != kMarkRounds.end()) {
      const double gap = workload.gap(workload.loss(values), start_loss);
      outcome.gaps[round] = std::isfinite(gap) ? gap : std::numeric_limits<double>::infinity();
    }
    return true;
  });
  outcome.refusal = fleet.refusal();
  return outcome;
}

}  // namespace gradstream
