#include "experiments/papers/asynchronous_settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

#include "experiments/harness/compare.h"
#include "experiments/harness/harness.h"
#include "experiments/papers/asynchronous_fleet.h"
#include "experiments/workloads/data_network.h"
#include "runtime/base/products.h"
#include "server/run/run_core.h"
#include "server/run/step_keys.h"

namespace gradstream {
namespace {

using Network = std::shared_ptr<const NetworkWorkload>;

// What the reference adds to a probability before it takes the logarithm.
constexpr double kProbabilityFloor = 1e-12;

struct Split {
  const char* name;
  DigitsSplit split;
};
constexpr Split kSplits[] = {
    {"iid", DigitsSplit::kShuffled}, {"half", DigitsSplit::kHalfSorted}, {"sorted", DigitsSplit::kSorted}};

std::string setting_key(const char* split, const AsyncSpeeds& speeds, bool is_penalised, const char* rule,
                        uint32_t seed) {
  return std::string("settings/") + split + "/" + speeds.name + (is_penalised ? "/penalty/" : "/plain/") + rule + "/s" +
         std::to_string(seed);
}

bool is_dc(const AsyncRule& rule) { return rule.early == DelayRule::kDcAdaptive; }

// DC-ASGD as the reference has it: ms is the mean over all entries, lambda0 is 1, and nothing limits the correction.
// The product's dc_adaptive has a mean square for each entry and a limit, since this form does not stay finite. So this
// is no run of the product's server. Throws std::runtime_error where the model stops being finite; the reference's file
// says which runs may end so, and from which step on.
void run_reference_dc(const NetworkWorkload& workload, const AsyncSpeeds& speeds, bool is_penalised,
                      const AsyncTrain& train, const OnAsyncStep& on_step) {
  constexpr double kDecay = 0.95;
  constexpr double kFloor = 1e-7;
  AsyncValues model = start_of(workload);
  AsyncDevices devices(workload, speeds, model);
  std::vector<double> moments(model.size());
  std::array<uint32_t, kNetworkDeviceCount> counts = {};
  for (uint32_t step = 0; step < kAsyncStepCount; ++step) {
    const AsyncDevices::Job& job = devices.next();
    const AsyncValues update = train(job);
    if (!on_step({step, model, job, update})) {
      return;
    }
    ++counts[job.device];
    double mean = 0;
    for (size_t e = 0; e < model.size(); ++e) {
      const double square = static_cast<double>(update[e]) * static_cast<double>(update[e]);
      moments[e] = kDecay * moments[e] + (1 - kDecay) * square;
      mean += moments[e] / static_cast<double>(model.size());
    }
    const double lambda = 1 / std::sqrt(mean + kFloor);
    const double share = kNetworkDeviceCount * (static_cast<double>(counts[job.device]) / (step + 1));
    const double alpha = is_penalised ? std::min(1.0, kAsyncServerStep / share) : kAsyncServerStep;
    for (size_t e = 0; e < model.size(); ++e) {
      const double delta = -static_cast<double>(update[e]);
      const double drift = static_cast<double>(job.base[e]) - static_cast<double>(model[e]);
      model[e] -= static_cast<Real>(alpha * (delta - lambda * delta * delta * drift));
    }
    if (!all_finite(model.size(), model.data())) {
      throw std::runtime_error("the model of step " + std::to_string(step + 1) + " is not finite");
    }
    devices.restart(model);
  }
  on_step({kAsyncStepCount, model, {}, {}});
}

Case setting_case(const std::string& key, const Network& network, const AsyncSpeeds& speeds, bool is_penalised,
                  const AsyncRule& rule, uint32_t seed) {
  const auto run = [&rule, is_penalised](const RunParameters& parameters) {
    RunParameters p = under_rule(parameters, rule);
    p.delay->dominance_penalty = is_penalised;
    return p;
  };
  const AsyncTrain train = [network, seed](const AsyncDevices::Job& job) {
    return train_async_sgd(*network, seed, job);
  };
  Case one = async_case(key, network, run(async_parameters(kAsyncStepCount)));
  one.train = [=, &speeds, &rule](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
    const OnAsyncStep measure = measure_every(kAsyncStride, watch);
    const OnAsyncStep on_step = [measure](const AsyncStep& now) {
      return (now.step > kAsyncEarly && now.step % kAsyncEarly != 0) || measure(now);  // where the reference is
    };
    if (is_dc(rule)) {
      run_reference_dc(*network, speeds, is_penalised, train, on_step);
    } else {
      run_async_fleet(*network, speeds, run(p), train, on_step);
    }
  };
  return one;
}

// Options of a delayed run that no other setting has, on shuffled data.
constexpr uint32_t kCycleRounds = 20;
constexpr double kCycleLow = 0.2;

struct Option {
  const char* name;
  void (*apply)(RunParameters* parameters);
};
constexpr Option kOptions[] = {
    {"weights", [](RunParameters* p) { p->fold->fold_weight = FoldWeight::kSampleCount; }},
    {"cycle",
     [](RunParameters* p) {
       p->steps.keys().server_step_cycle = kCycleRounds;
       p->steps.keys().server_step_low = static_cast<Real>(kCycleLow);
     }},
};

void add_options(const Network& network, uint32_t seed, std::vector<Case>* cases) {
  const AsyncTrain train = [network, seed](const AsyncDevices::Job& job) {
    return train_async_sgd(*network, seed, job);
  };
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    for (const Option& option : kOptions) {
      for (const char* const rule : {"ASGD", "OrthoGrad"}) {
        const auto run = [rule, &option](const RunParameters& parameters) {
          RunParameters p = under_rule(parameters, async_rule(rule));
          option.apply(&p);
          return p;
        };
        const std::string key =
            std::string("settings/iid/") + speeds.name + "/" + option.name + "/" + rule + "/s" + std::to_string(seed);
        Case& one = cases->emplace_back(async_case(key, network, run(async_parameters(kAsyncStepCount))));
        one.train = [=, &speeds](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
          run_async_fleet(*network, speeds, run(p), train, measure_every(kAsyncStride, watch));
        };
      }
    }
  }
}

}  // namespace

std::string plain_setting_key(const AsyncSpeeds& speeds, const AsyncRule& rule, uint32_t seed) {
  return is_dc(rule) ? kNoReference : setting_key(kSplits[0].name, speeds, false, rule.name, seed);
}

void add_async_settings(const Request& request, std::vector<Case>* cases) {
  if (!kIsDouble) {
    return;
  }
  for (uint32_t seed = first_async_seed(request); seed < first_async_seed(request) + kAsyncSettingSeedCount; ++seed) {
    for (const Split& split : kSplits) {
      const Network network = make_digits_network(seed, split.split, kProbabilityFloor);
      if (split.split == DigitsSplit::kShuffled) {
        add_options(network, seed, cases);
      }
      for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
        for (const bool is_penalised : {false, true}) {
          for (const AsyncRule& rule : kAsyncRules) {
            const bool is_of_rules = split.split == DigitsSplit::kShuffled && !is_penalised && !is_dc(rule);
            if (!is_of_rules) {
              cases->push_back(setting_case(setting_key(split.name, speeds, is_penalised, rule.name, seed), network,
                                            speeds, is_penalised, rule, seed));
            }
          }
        }
      }
    }
  }
}

}  // namespace gradstream
