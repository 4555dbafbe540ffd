#include "sim/big_fleet.h"

#include <algorithm>
#include <cmath>

#include "server/run/check_parameters.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "sim/oracle.h"

namespace gradstream {
namespace {

constexpr uint32_t kDimension = 8;
constexpr uint32_t kSampleCount = 8;
// Bytes of a device: several times what the client takes for a model of 32 bytes.
constexpr size_t kArenaSize = 8192;
constexpr uint64_t kMinuteMs = 60'000;
constexpr uint32_t kPowerSteps = 10'000;
// Versions that an update may be behind where the speeds ask for less. Reason: a lost connection makes it come later.
constexpr uint32_t kStalenessLeast = 64;

// The samples of all devices, and what is exact about them.
class Samples {
 public:
  Samples(uint32_t device_count, uint32_t seed)
      : values_(size_t{device_count} * kSampleCount * kDimension), sources_(device_count) {
    for (uint32_t i = 0; i < device_count; ++i) {
      RandomKey key;
      key.seed = seed;
      key.owner = i;
      RandomStream stream(key);
      Real* const own = values_.data() + size_t{i} * kSampleCount * kDimension;
      for (uint32_t k = 0; k < kSampleCount * kDimension; ++k) {
        // Ever less along each coordinate, and more along one that is the device's own.
        const uint32_t axis = k % kDimension;
        const double size = 1.5 / (1 + axis) + (axis == i % kDimension ? 0.5 : 0.0);
        own[k] = static_cast<Real>(size * (stream.next_uniform() - 0.5));
        own_covariance(axis, k, own);
      }
      sources_[i] = {own, kSampleCount, kDimension, read};
    }
    optimum_ = value(leading());
  }

  Problem problem(uint32_t device) const { return {&kKpcaOps, &sources_[device]}; }

  double gap(const Real* model) const {
    std::vector<double> x(model, model + kDimension);
    return (value(x) - optimum_) / std::fabs(optimum_);
  }

 private:
  static Status read(const void* context, uint32_t index, Real* out) {
    std::copy_n(static_cast<const Real*>(context) + size_t{index} * kDimension, kDimension, out);
    return Status::kOk;
  }

  // Adds a whole sample to the covariance when its last value is there.
  void own_covariance(uint32_t axis, uint32_t k, const Real* own) {
    if (axis + 1 < kDimension) {
      return;
    }
    const Real* const z = own + (k - axis);
    for (uint32_t r = 0; r < kDimension; ++r) {
      for (uint32_t c = 0; c < kDimension; ++c) {
        covariance_[r][c] += static_cast<double>(z[r]) * static_cast<double>(z[c]);
      }
    }
  }

  std::vector<double> times(const std::vector<double>& x) const {
    std::vector<double> y(kDimension);
    for (uint32_t r = 0; r < kDimension; ++r) {
      for (uint32_t c = 0; c < kDimension; ++c) {
        y[r] += covariance_[r][c] * x[c];
      }
    }
    return y;
  }

  // -1/2 x'Cx, per device and sample.
  double value(const std::vector<double>& x) const {
    const std::vector<double> y = times(x);
    double sum = 0;
    for (uint32_t r = 0; r < kDimension; ++r) {
      sum += x[r] * y[r];
    }
    return -0.5 * sum / static_cast<double>(sources_.size() * kSampleCount);
  }

  std::vector<double> leading() const {
    std::vector<double> x(kDimension, 1 / std::sqrt(static_cast<double>(kDimension)));
    for (uint32_t step = 0; step < kPowerSteps; ++step) {
      x = times(x);
      double square = 0;
      for (const double v : x) {
        square += v * v;
      }
      for (double& v : x) {
        v /= std::sqrt(square);
      }
    }
    return x;
  }

  std::vector<Real> values_;
  std::vector<SampleSource> sources_;
  double covariance_[kDimension][kDimension] = {};
  double optimum_ = 0;
};

uint64_t step_ms(const BigFleetOptions& options, uint32_t index, RandomStream* stream) {
  switch (options.speeds) {
    case SpeedMix::kConstant:
      break;
    case SpeedMix::kLognormal: {
      double normal = -6;  // of twelve uniforms
      for (int i = 0; i < 12; ++i) {
        normal += stream->next_uniform();
      }
      return std::max<uint64_t>(1, static_cast<uint64_t>(options.step_ms * std::exp(normal)));
    }
    case SpeedMix::kMix:
      return uint64_t{options.step_ms} << (index % 4);
  }
  return options.step_ms;
}

std::vector<DeviceHabits> habits_of(const BigFleetOptions& options) {
  RandomKey key;
  key.seed = options.seed;
  key.owner = 0xf1ee7;  // apart from the devices' samples
  RandomStream stream(key);
  std::vector<DeviceHabits> habits(options.device_count);
  for (uint32_t i = 0; i < habits.size(); ++i) {
    habits[i].step_ms = step_ms(options, i, &stream);
    // Nobody begins at the same moment as the others.
    const double phase = stream.next_uniform();
    if (options.awake_minutes != 0) {
      habits[i].cycle_ms = options.cycle_minutes * kMinuteMs;
      habits[i].awake_ms = options.awake_minutes * kMinuteMs;
      habits[i].phase_ms = static_cast<uint64_t>(phase * static_cast<double>(habits[i].cycle_ms));
    }
    habits[i].answers = i >= options.silent_count;
  }
  return habits;
}

// What the slowest device is behind (docs/how-to/slow_devices.md): while it works, each other one makes as many updates
// as it has time for, buffer_size of which are a version. Waits between two tasks make it less.
uint32_t staleness_of(const BigFleetOptions& options) {
  const std::vector<DeviceHabits> habits = habits_of(options);
  uint64_t slowest_ms = 1;
  double rate = 0;  // local steps a millisecond, of all
  for (const DeviceHabits& device : habits) {
    slowest_ms = std::max(slowest_ms, device.step_ms);
    rate += 1 / static_cast<double>(device.step_ms);
  }
  const double behind = std::ceil((static_cast<double>(slowest_ms) * rate - 1) / options.buffer_size);
  return static_cast<uint32_t>(std::clamp<double>(behind, kStalenessLeast, kStalenessMax));
}

}  // namespace

RunParameters big_fleet_parameters(const BigFleetOptions& options) {
  RunParameters p;
  p.name = "fleet";
  p.seed = options.seed;
  p.model->manifold = ManifoldId::kStiefel;  // one column: a direction
  p.model->shape = {kDimension, 1};
  p.model->problem = kKpcaOps.name;
  p.local->solver = SolverId::kGradientStream;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->batch_mode = BatchMode::kAll;
  p.local->correction_form = CorrectionForm::kNone;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.local->local_step_count = 5;
  p.steps->step_size = Real{1} / 4;
  p.trigger->round_count = 100'000'000;
  p.trigger->device_count = options.device_count;
  p.trigger->late = LatePolicy::kWeight;
  p.pace->retry_min_ms = static_cast<uint32_t>(options.retry_minutes * kMinuteMs / 2);
  p.pace->retry_max_ms = static_cast<uint32_t>(options.retry_minutes * kMinuteMs);
  p.trigger->report_deadline_ms = static_cast<uint32_t>(options.round_minutes * kMinuteMs);
  if (options.buffer_size > 0) {
    p.trigger->buffer_size = options.buffer_size;
    p.trigger->staleness_max = staleness_of(options);
    p.delay->delay_rule = DelayRule::kAsgd;
  } else {
    p.trigger->update_goal = std::max(1U, static_cast<uint32_t>(options.update_share * options.device_count));
    p.trigger->update_min = 1;
    p.trigger->steps_min = 1;
    p.trigger->task_deadline_ms = p.trigger->report_deadline_ms / 2;
  }
  return p;
}

BigFleetResult run_big_fleet(const BigFleetOptions& options, std::FILE* csv) {
  BigFleetResult result;
  const RunParameters parameters = big_fleet_parameters(options);
  result.fault = check_parameters(parameters).sentence;
  if (!result.fault.empty()) {
    return result;
  }
  const Samples samples(options.device_count, options.seed);
  const std::vector<DeviceHabits> habits = habits_of(options);
  std::vector<Problem> problems;
  for (uint32_t i = 0; i < options.device_count; ++i) {
    problems.push_back(samples.problem(i));
  }
  FleetHabits fleet_habits;
  fleet_habits.latency_ms = 50;
  fleet_habits.commit_ms = 5;
  fleet_habits.loss_odds = options.loss_odds;
  fleet_habits.life_ms = options.life_hours * 60 * kMinuteMs;
  fleet_habits.absence_ms = options.absence_hours * 60 * kMinuteMs;
  fleet_habits.arena_size = kArenaSize;
  fleet_habits.seed = options.seed;
  TimedFleet fleet(parameters, fleet_habits, habits, problems, {});
  Oracle oracle(parameters);
  oracle.forget_old();
  if (options.has_oracle) {
    fleet.on_record = [&](const JournalRecord& record) { return oracle.on_record(record); };
  }
  if (csv != nullptr) {
    std::fprintf(csv, "virtual_s,version,gap,bytes_up,bytes_down\n");
  }
  uint64_t next_line_ms = 0;
  result.fault =
      fleet.run(static_cast<uint64_t>(options.days * 24 * 60) * kMinuteMs,
                [&](uint64_t now_ms, uint32_t version, const Real* model) {
                  result.gap_last = samples.gap(model);
                  result.gap_first = version == 0 ? result.gap_last : result.gap_first;
                  if (csv != nullptr && now_ms >= next_line_ms) {
                    next_line_ms = now_ms + kMinuteMs;
                    std::fprintf(csv, "%.3f,%u,%.6e,%llu,%llu\n", static_cast<double>(now_ms) / 1000, version,
                                 result.gap_last, static_cast<unsigned long long>(fleet.counts().bytes_up),
                                 static_cast<unsigned long long>(fleet.counts().bytes_down));
                  }
                  return true;
                });
  if (result.fault.empty() && options.has_oracle) {
    result.fault = oracle.on_state(fleet.server());
  }
  // Each device has a poll, a message each way, a change of power and the end of a session to come; the server a tick
  // and a commit.
  if (result.fault.empty() && fleet.counts().queue_max > 16 * uint64_t{options.device_count} + 16) {
    result.fault = "more events were to come than the fleet can cause: " + std::to_string(fleet.counts().queue_max);
  }
  const CoordinatorCounters& counters = fleet.server().counters();
  result.version = fleet.server().durable_version();
  result.digest = fleet.server().model().digest();
  result.virtual_ms = fleet.now_ms();
  result.updates_folded = counters.updates_folded;
  result.updates_late = counters.updates_late;
  result.updates_refused = counters.updates_refused;
  result.tasks_abandoned = counters.tasks_abandoned;
  result.rounds_extended = counters.rounds_extended;
  result.counts = fleet.counts();
  return result;
}

}  // namespace gradstream
