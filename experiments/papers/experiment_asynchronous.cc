// X14: asynchronous rules for late updates (004) on a perceptron over Digits and LeNet's shape over MNIST, eight
// devices with data in proportion to their number, equally fast or up to ten times slower. Devices are events in
// virtual time: a local epoch lasts as many units as it has minibatches, by the speed. The server's rules and the local
// work are the product's (server/rules/aggregator.h, runtime/training, runtime/problem).
//
//   rules/S/R/sN        rule R of the server, local SGD, seed N; the test loss every tenth step
//   stepwise/S/R/sN     from saved versions of one run of asgd: what one step of R makes of the update that came
//   curve/S/METHOD      AsyncCurve, FedAsync and FedAvg with the same local Adam
//   connection/LINK     the test loss along the way from a device's base to its result, by the line or the curve
//   mnist/...           the last three on MNIST; femnist/curve/... on FEMNIST by its writers
//
// Cases that look at the same run share it (SavedAsyncRun).
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/harness/experiment.h"
#include "experiments/harness/harness.h"
#include "experiments/papers/asynchronous_fleet.h"
#include "experiments/papers/asynchronous_judgement.h"
#include "experiments/papers/asynchronous_plan.h"
#include "experiments/workloads/data_network.h"
#include "runtime/base/products.h"
#include "runtime/training/curve.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

constexpr uint32_t kStride = 10;  // steps from one measure to the next

using Network = std::shared_ptr<const NetworkWorkload>;

// What train() makes of the parameters, complete and with the number of steps that was asked for.
using AsyncRun = std::function<RunParameters(const RunParameters& parameters)>;

Case case_of(const std::string& key, const Network& workload, uint32_t step_count, const AsyncRun& run) {
  Case one;
  one.key = key;
  one.workload = workload;
  one.parameters = run(async_parameters(step_count));  // for check_parameters()
  return one;
}

// A case that trains a fleet, and measures it every `stride` steps.
Case fleet_case(const std::string& key, const Network& network, uint32_t step_count, const AsyncRun& run,
                const AsyncSpeeds& speeds, const AsyncTrain& train, uint32_t stride) {
  Case one = case_of(key, network, step_count, run);
  one.train = [network, run, &speeds, train, stride](const RunParameters& p, const Workload&,
                                                     const Case::Watcher& watch) {
    run_async_fleet(*network, speeds, run(p), train, measure_every(stride, watch));
  };
  return one;
}

void add_rules(const Request& request, std::vector<Case>* cases) {
  for (uint32_t seed = first_async_seed(request); seed < first_async_seed(request) + kAsyncSeedCount; ++seed) {
    const Network digits = make_digits_network(seed);
    const AsyncTrain train = [digits, seed](const AsyncDevices::Job& job) {
      return train_async_sgd(*digits, seed, job);
    };
    for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
      for (const AsyncRule& rule : kAsyncRules) {
        const AsyncRun run = [&rule](const RunParameters& p) { return under_rule(p, rule); };
        cases->push_back(
            fleet_case(async_rule_key(speeds, rule.name, seed), digits, kAsyncStepCount, run, speeds, train, kStride));
      }
      for (const AsyncSwitch& rule : kAsyncSwitches) {
        const AsyncRun run = [&rule](const RunParameters& p) { return under_switch(p, rule); };
        cases->push_back(
            fleet_case(async_rule_key(speeds, rule.name, seed), digits, kAsyncStepCount, run, speeds, train, kStride));
      }
    }
  }
}

void add_stepwise(const AsyncPlan& plan, const Network& network, uint32_t seed, std::vector<Case>* cases) {
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    const auto saved = std::make_shared<SavedAsyncRun>(
        [every = plan.stepwise_every](uint32_t step) { return step % every == 0; },
        [network, &speeds, seed](const RunParameters& p, const OnAsyncStep& on_step) {
          run_async_fleet(
              *network, speeds, under_rule(p, async_rule("ASGD")),
              [&](const AsyncDevices::Job& job) { return train_async_sgd(*network, seed, job); }, on_step);
        });
    for (const AsyncRule& rule : kAsyncRules) {
      const AsyncRun run = [&rule](const RunParameters& p) { return under_rule(p, rule); };
      Case& one = cases->emplace_back(
          case_of(async_stepwise_key(plan, speeds, rule.name, seed), network, plan.step_count, run));
      one.train = [network, saved, run](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
        for (const AsyncStep& at : saved->steps(p)) {
          if (at.update.empty() || !watch(at.step, stepped_once(*network, run(p), at).data())) {
            return;
          }
        }
      };
    }
  }
}

// AsyncCurve, also without its curve, FedAsync and FedAvg with one local solver. AsyncCurve's run, of each of
// kAsyncSpeeds, is kept at the measures and at the connections.
std::vector<std::shared_ptr<SavedAsyncRun>> add_methods(const AsyncPlan& plan, const Network& network, uint32_t seed,
                                                        std::vector<Case>* cases) {
  std::vector<std::shared_ptr<SavedAsyncRun>> curves;
  const AsyncTrain train = [network, &plan, seed](const AsyncDevices::Job& job) {
    return train_async_curve(*network, seed, plan.epoch_count, job);
  };
  const AsyncRun by_curve = [&plan](const RunParameters& p) {
    return along_curve(under_rule(p, async_rule("OrthoDyn")), plan.epoch_count);
  };
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    const auto saved = curves.emplace_back(std::make_shared<SavedAsyncRun>(
        [&plan](uint32_t step) { return step % plan.stride == 0 || step % plan.connection_every == 0; },
        [network, &speeds, train, by_curve](const RunParameters& p, const OnAsyncStep& on_step) {
          run_async_fleet(*network, speeds, by_curve(p), train, on_step);
        }));
    Case& curve =
        cases->emplace_back(case_of(async_method_key(plan, speeds, "AsyncCurve"), network, plan.step_count, by_curve));
    curve.train = [saved, &plan](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
      for (const AsyncStep& at : saved->steps(p)) {
        if (at.step % plan.stride == 0 && !watch(at.step, at.model.data())) {
          return;
        }
      }
    };
    for (const char* method : {"OrthoDyn", "FedAsync"}) {
      const AsyncRun run = [method](const RunParameters& p) { return under_rule(p, async_rule(method)); };
      cases->push_back(fleet_case(async_method_key(plan, speeds, method), network, plan.step_count, run, speeds, train,
                                  plan.stride));
    }
  }
  // The same models whatever the speeds.
  Case& rounds =
      cases->emplace_back(case_of(std::string(plan.prefix) + "curve/FedAvg", network, plan.step_count, in_rounds));
  rounds.train = [network, train](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
    run_async_rounds(*network, in_rounds(p), train, watch);
  };
  return curves;
}

// Of AsyncCurve's run with equal speeds.
void add_connections(const AsyncPlan& plan, const Network& network, const std::shared_ptr<SavedAsyncRun>& saved,
                     std::vector<Case>* cases) {
  for (const bool by_curve : {false, true}) {
    Case& one = cases->emplace_back(case_of(async_connection_key(plan, by_curve), network, plan.step_count,
                                            [](const RunParameters& p) { return p; }));
    one.train = [&plan, saved, by_curve](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
      for (const AsyncStep& at : saved->steps(p)) {
        const size_t size = at.job.base.size();
        const bool is_wanted = at.step % plan.connection_every == 0 && !at.update.empty();
        for (uint32_t part = 0; is_wanted && part <= plan.part_count; ++part) {
          AsyncValues end(size);
          AsyncValues control(size);
          AsyncValues point(size);
          for (size_t e = 0; e < size; ++e) {
            end[e] = at.job.base[e] + at.update[e];
            control[e] = at.job.base[e] + (by_curve ? at.update[size + e] : at.update[e] / 2);
          }
          const Real l = static_cast<Real>(part) / static_cast<Real>(plan.part_count);
          curve_point(size, l, at.job.base.data(), control.data(), end.data(), point.data());
          if (!watch(at.step + part, point.data())) {
            return;
          }
        }
      }
    };
  }
}

std::vector<Case> x14_cases(const Request& request) {
  std::vector<Case> cases;
  const uint32_t seed = first_async_seed(request);
  add_rules(request, &cases);
  const auto add_all = [&](const AsyncPlan& plan, const Network& network) {
    add_stepwise(plan, network, seed, &cases);
    const auto curves = add_methods(plan, network, seed, &cases);
    add_connections(plan, network, curves.front(), &cases);
  };
  add_all(kDigitsPlan, make_digits_network(seed));
  if (const Network mnist = make_mnist_network(request.data_folder, seed)) {
    add_all(kMnistPlan, mnist);
  }
  std::string fault;
  if (const Network femnist = make_femnist_network(request.data_folder, seed, &fault)) {
    add_methods(kFemnistPlan, femnist, seed, &cases);
  }
  return cases;
}

}  // namespace

const Experiment kX14 = {"X14",
                         "Asynchronous rules on Digits and MNIST, equal and mixed speeds",
                         x14_cases,
                         judge_asynchronous,
                         nullptr,
                         "excess",
                         "rules/equal/*/s1 rules/mixed/*/s1 stepwise/equal/* stepwise/mixed/* connection/* "
                         "mnist/connection/*",
                         "step"};

}  // namespace gradstream
