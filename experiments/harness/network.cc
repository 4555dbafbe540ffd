#include "experiments/harness/network.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <type_traits>

#include "experiments/harness/harness.h"
#include "server/run/field_text.h"
#include "server/run/names.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "server/run/visit_keys.h"

namespace gradstream {
namespace {

// A wait between two questions, ms: the simulator's 1 would make every device poll a thousand times a second.
constexpr uint32_t kRetryMinMs = 2;
constexpr uint32_t kRetryMaxMs = 8;

std::string toml(const std::string& value) { return '"' + value + '"'; }
std::string toml(bool value) { return value ? "true" : "false"; }
std::string toml(uint32_t value) { return std::to_string(value); }
std::string toml(Real value) {
  std::array<char, 40> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
template <typename Enum>
requires std::is_enum_v<Enum> std::string toml(Enum value) { return toml(std::string(name_of(value))); }

std::string run_section(RunParameters p) {
  p.pace->retry_min_ms = kRetryMinMs;
  p.pace->retry_max_ms = kRetryMaxMs;
  std::string text = "[run]\n";
  visit_keys(p, [&](const Key& key, const auto& field) {
    const bool is_all = std::string(key.name) == "update_goal" && p.trigger->update_goal == 0;
    const char* const word = is_all ? "all" : is_zero_word(key, field) ? key.zero_word : "";
    text += std::string(key.name) + " = " + (word[0] != '\0' ? toml(std::string(word)) : toml(field)) + "\n";
  });
  return text;
}

void put_u32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

// Tasks of multitask learning are groups of rows; every other problem's samples stand alone.
std::string shard_of(const Problem& problem) {
  const bool has_tasks = problem.ops == &kMultitaskOps;
  const auto* const tasks = static_cast<const MultitaskData*>(problem.context);
  const SampleSource& source = has_tasks ? tasks->rows : *static_cast<const SampleSource*>(problem.context);
  std::string bytes = "GSD2";
  put_u32(source.count, &bytes);
  put_u32(source.dimension, &bytes);
  put_u32(has_tasks ? tasks->task_count : 0, &bytes);
  for (uint32_t i = 0; has_tasks && i < tasks->task_count; ++i) {
    put_u32(tasks->task_ends[i], &bytes);
  }
  std::vector<Real> sample(source.dimension);
  for (uint32_t i = 0; i < source.count; ++i) {
    const Status status = source.read(source.context, i, sample.data());
    GS_ASSERT(status == Status::kOk);  // the samples are in memory
    for (const Real value : sample) {
      put_u32(std::bit_cast<uint32_t>(static_cast<float>(value)), &bytes);
    }
  }
  return bytes;
}

bool write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.flush();
  return file.good();
}

}  // namespace

Real network_ridge(const Workload& workload) {
  const Problem problem = workload.problem(0);
  return problem.ops == &kMultitaskOps ? static_cast<const MultitaskData*>(problem.context)->ridge : Real{0};
}

bool write_network_case(const std::string& folder, const RunParameters& simulated, const Workload& workload) {
  RunParameters parameters = simulated;
  parameters.trigger->report_deadline_ms = std::max(parameters.trigger->report_deadline_ms, kNetworkDeadlineMs);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string start;
  const std::vector<Real> values = start_of(workload);
  for (size_t i = 0; i < values.size(); ++i) {
    start += toml(values[i]) + ((i + 1) % parameters.model->shape.cols == 0 ? '\n' : ',');
  }
  bool is_written = write_file(folder + "/run.toml", run_section(parameters));
  is_written = is_written && write_file(folder + "/start.csv", start);
  for (uint32_t device = 0; device < workload.device_count() && is_written; ++device) {
    is_written = write_file(folder + "/" + std::to_string(device) + ".gsd", shard_of(workload.problem(device)));
  }
  return is_written;
}

}  // namespace gradstream
