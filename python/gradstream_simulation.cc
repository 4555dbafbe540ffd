#include "python/gradstream_simulation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <new>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "python/library_problem.h"
#include "runtime/base/products.h"
#include "runtime/problem/problem.h"
#include "server/rules/aggregator_own.h"
#include "server/run/names.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "server/run/visit_keys.h"
#include "sim/arguments.h"
#include "sim/report.h"

using namespace gradstream;

namespace {

constexpr int kExitBroken = 1;
constexpr int kExitUsage = 2;
constexpr int kExitMemory = 6;

// One device's part of the caller's problem.
struct Device {
  const gs_py_simulation* simulation = nullptr;
  uint32_t index = 0;
  const float* values = nullptr;  // of a problem of the library
  SampleSource samples;
};

const Device& device_of(const void* context) { return *static_cast<const Device*>(context); }

void show(const Device& device, const Real* x, Batch batch) {
  const gs_py_simulation& caller = *device.simulation;
  std::copy_n(x, caller.value_count, caller.point);
  if (batch.indices != nullptr) {
    std::copy_n(batch.indices, batch.count, caller.indices);
  } else {
    std::iota(caller.indices, caller.indices + batch.count, uint16_t{0});
  }
}

uint32_t sample_count(const void* context) {
  const Device& device = device_of(context);
  return device.simulation->sample_counts[device.index];
}

Status check_shape(const void* context, Shape shape) {
  return shape.size() == device_of(context).simulation->value_count ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void*, Shape) { return 0; }

Result<Real> loss(const void* context, Shape, const Real* x, Batch batch, Arena&) {
  const Device& device = device_of(context);
  show(device, x, batch);
  const auto value = static_cast<float>(device.simulation->loss(device.index, batch.count));
  if (!std::isfinite(value)) {
    return Status::kNotFinite;
  }
  return value;
}

Status gradient(const void* context, Shape, const Real* x, Batch batch, Real* out, Arena&) {
  const Device& device = device_of(context);
  const gs_py_simulation& caller = *device.simulation;
  show(device, x, batch);
  if (caller.gradient(device.index, batch.count) != 0 || !all_finite(caller.value_count, caller.gradient_values)) {
    return Status::kNotFinite;
  }
  std::copy_n(caller.gradient_values, caller.value_count, out);
  return Status::kOk;
}

Status read_row(const void* context, uint32_t index, Real* out) {
  const Device& device = device_of(context);
  const size_t dimension = device.samples.dimension;
  std::copy_n(device.values + index * dimension, dimension, out);
  return Status::kOk;
}

template <typename Field>
bool set_field(std::string_view text, Field* out) {
  if constexpr (std::is_same_v<Field, std::string>) {
    *out = text;
    return true;
  } else if constexpr (std::is_enum_v<Field>) {
    for (const auto& [name, known] : names_of<Field>()) {
      if (text == name) {
        *out = known;
        return true;
      }
    }
    return false;
  } else if constexpr (std::is_same_v<Field, bool>) {
    *out = text == "true";
    return *out || text == "false";
  } else {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *out);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  }
}

// Sets the run's keys. What is wrong with the first that cannot be; empty: nothing.
std::string set_keys(const gs_py_simulation& caller, RunParameters* parameters) {
  for (uint32_t i = 0; i < caller.key_count; ++i) {
    const std::string_view pair = caller.keys[i];
    const size_t equals = pair.find('=');
    const std::string_view name = pair.substr(0, equals), value = pair.substr(equals + 1);
    bool is_known = false, is_set = false;
    visit_fields(*parameters, [&](const char* key, auto& field) {
      if (name == key) {
        is_known = true;
        is_set = set_field(value, &field);
      }
    });
    if (!is_set) {
      return std::string(name) +
             (is_known ? " has no value '" + std::string(value) + "'"
                       : " is no option of the simulator and no key of a run") +
             "; gradstream-sim --help and docs/reference/keys.md have both";
    }
  }
  set_parts(parameters);
  return "";
}

class Caller {
 public:
  explicit Caller(const gs_py_simulation& simulation) : simulation_(simulation) {
    own_.adjust = [this](RunParameters* parameters) { static_cast<void>(set_keys(simulation_, parameters)); };
    own_.is_ended = [this] { return simulation_.is_ended() != 0; };
    if (simulation.aggregate != nullptr) {
      rule_.combine = [this](uint32_t version, const Real* model, std::span<const OwnUpdate> updates, Real* out) {
        return combine(version, model, updates, out);
      };
      own_.rule = &rule_;
    }
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // What is wrong with what was brought; empty: nothing.
  std::string take() {
    RunParameters parameters;
    if (std::string fault = set_keys(simulation_, &parameters); !fault.empty()) {
      return fault;
    }
    return simulation_.sample_counts == nullptr ? "" : take_problem(parameters.model->problem);
  }
  const OwnProblem& own() const { return own_; }

 private:
  std::string take_problem(const std::string& name) {
    name_ = name;
    const bool is_own = simulation_.loss != nullptr;
    own_.ops = is_own ? &ops_ : find_library_problem(name);
    if (own_.ops == nullptr) {
      return "problem is '" + name + "': give a loss, or one of " + library_problem_names();
    }
    ops_ = {name_.c_str(), sample_count, check_shape,
            scratch_size,  loss,         simulation_.gradient == nullptr ? nullptr : gradient};
    devices_.resize(simulation_.device_count);
    for (uint32_t i = 0; i < simulation_.device_count; ++i) {
      Device& device = devices_[i];
      device = {&simulation_, i, is_own ? nullptr : simulation_.samples[i], {}};
      device.samples = {&device, simulation_.sample_counts[i], simulation_.dimension, read_row};
      own_.contexts.push_back(is_own ? static_cast<const void*>(&device) : &device.samples);
    }
    return "";
  }

  bool combine(uint32_t version, const Real* model, std::span<const OwnUpdate> updates, Real* out) const {
    std::vector<gs_py_update> shown;
    for (const OwnUpdate& update : updates) {
      shown.push_back({update.device, update.base_version, update.steps_done, update.weight, update.values.data()});
    }
    return simulation_.aggregate(version, model, shown.data(), static_cast<uint32_t>(shown.size()), out) == 0;
  }

  const gs_py_simulation& simulation_;
  std::string name_;
  ProblemOps ops_ = {};
  std::vector<Device> devices_;
  OwnRule rule_;
  OwnProblem own_;
};

int simulate(const gs_py_simulation* simulation) {
  Caller caller(*simulation);
  if (const std::string fault = caller.take(); !fault.empty()) {
    simulation->say(fault.c_str());
    return kExitUsage;
  }
  std::vector<const char*> words = {"gradstream-sim"};
  words.insert(words.end(), simulation->arguments, simulation->arguments + simulation->argument_count);
  std::ostringstream said;
  Arguments arguments;
  if (parse_arguments(static_cast<int>(words.size()), words.data(), &caller.own(), said, said, &arguments)) {
    simulation->say(said.str().c_str());
    return kExitUsage;
  }
  const Say say = [simulation](const std::string& line) { simulation->say(line.c_str()); };
  const Total total = run_schedules(arguments, say);
  std::string line;
  const bool holds = report(arguments, total, say, &line);
  if (const SimResult& last = total.sum; !last.model.empty()) {
    simulation->on_model(last.version, last.shape.rows, last.shape.cols, last.model.data());
  }
  say(line);
  return holds ? 0 : kExitBroken;
}

}  // namespace

int gs_py_simulate(const gs_py_simulation* simulation) {
  if (simulation->size != sizeof *simulation) {
    simulation->say("the Python files and the library are of different releases: install the package anew");
    return kExitUsage;
  }
  try {
    return simulate(simulation);
  } catch (const std::bad_alloc&) {  // which would end the process of a caller in C
    simulation->say("the process has no more memory: give it more, or fewer devices");
    return kExitMemory;
  }
}
