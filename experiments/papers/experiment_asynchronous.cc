// X14: asynchronous rules for late updates (004) on a perceptron over Digits and LeNet's shape over MNIST, eight
// devices with data in proportion to their number, equally fast or up to ten times slower. Devices are events in
// virtual time: a local epoch lasts as many units as it has minibatches, by the speed. Directions, steps, curves and
// local work are the product's (server/rules/delay_correction.h, server/rules/curve_step.h, runtime/training,
// runtime/problem).
//
//   rules/S/R/sN        rule R of the server, local SGD, seed N; the test loss every tenth step
//   stepwise/S/R/sN     from saved versions of one run of asgd: what one step of R makes of the update that came
//   curve/S/METHOD      AsyncCurve, FedAsync and FedAvg with the same local Adam
//   connection/LINK     the test loss along the way from a device's base to its result, by the line or the curve
//   mnist/...           the last three on MNIST; femnist/curve/... on FEMNIST by its writers
//
// Cases that look at the same run share it (SavedAsyncRun).
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
#include "server/rules/delay_correction.h"
#include "server/run/step_keys.h"
#include "server/run/trigger_keys.h"

namespace gradstream {
namespace {

constexpr uint32_t kStride = 10;  // steps from one measure to the next

const NetworkWorkload& network_of(const Workload& workload) { return static_cast<const NetworkWorkload&>(workload); }

Case case_of(const std::string& key, const std::shared_ptr<const NetworkWorkload>& workload, uint32_t step_count) {
  Case one;
  one.key = key;
  one.workload = workload;
  // What train() makes of them stands in asynchronous_fleet.cc; these say the same to check_parameters().
  one.parameters = gradient_stream_parameters(1, kAsyncLocalStep, step_count);
  one.parameters.steps->server_step = static_cast<Real>(kAsyncServerStep);
  return one;
}

void add_rules(const Request& request, std::vector<Case>* cases) {
  for (uint32_t seed = first_async_seed(request); seed < first_async_seed(request) + kAsyncSeedCount; ++seed) {
    const std::shared_ptr<const NetworkWorkload> digits = make_digits_network(seed);
    for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
      for (const AsyncRule& rule : kAsyncRules) {
        Case& one = cases->emplace_back(case_of(async_rule_key(speeds, rule.name, seed), digits, kAsyncStepCount));
        one.train = [&speeds, &rule, seed](const RunParameters& p, const Workload& held, const Case::Watcher& watch) {
          const NetworkWorkload& network = network_of(held);
          run_async_fleet(
              network, speeds, rule, p.trigger->round_count, false,
              [&](const AsyncDevices::Job& job) { return train_async_sgd(network, seed, job); },
              measure_every(kStride, watch));
        };
      }
      for (const AsyncSwitch& rule : kAsyncSwitches) {
        Case& one = cases->emplace_back(case_of(async_rule_key(speeds, rule.name, seed), digits, kAsyncStepCount));
        one.train = [&speeds, &rule, seed](const RunParameters& p, const Workload& held, const Case::Watcher& watch) {
          const NetworkWorkload& network = network_of(held);
          run_async_switching(
              network, speeds, rule, p.trigger->round_count,
              [&](const AsyncDevices::Job& job) { return train_async_sgd(network, seed, job); },
              measure_every(kStride, watch));
        };
      }
    }
  }
}

using Network = std::shared_ptr<const NetworkWorkload>;

void add_stepwise(const AsyncPlan& plan, const Network& network, uint32_t seed, std::vector<Case>* cases) {
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    const auto saved = std::make_shared<SavedAsyncRun>(
        [every = plan.stepwise_every](uint32_t step) { return step % every == 0; },
        [network, &speeds, seed](uint32_t step_count, const OnAsyncStep& on_step) {
          run_async_fleet(
              *network, speeds, async_rule("ASGD"), step_count, false,
              [&](const AsyncDevices::Job& job) { return train_async_sgd(*network, seed, job); }, on_step);
        });
    for (const AsyncRule& rule : kAsyncRules) {
      Case& one =
          cases->emplace_back(case_of(async_stepwise_key(plan, speeds, rule.name, seed), network, plan.step_count));
      one.train = [saved, &rule](const RunParameters& p, const Workload& held, const Case::Watcher& watch) {
        for (const SavedAsyncStep& at : saved->steps(p.trigger->round_count)) {
          if (at.update.empty()) {
            return;
          }
          DelayDirection ignored;
          const DelayCorrection correction = async_correction(rule, at.step, p.trigger->round_count, held.shape());
          if (!watch(at.step, at.server.stepped(correction, at.job, at.update, false, &ignored).data())) {
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
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    const auto run = [network, &speeds, train](const char* rule, bool by_curve) {
      return [network, &speeds, train, rule, by_curve](uint32_t step_count, const OnAsyncStep& on_step) {
        run_async_fleet(*network, speeds, async_rule(rule), step_count, by_curve, train, on_step);
      };
    };
    const auto saved = curves.emplace_back(std::make_shared<SavedAsyncRun>(
        [&plan](uint32_t step) { return step % plan.stride == 0 || step % plan.connection_every == 0; },
        run("OrthoDyn", true)));
    Case& curve = cases->emplace_back(case_of(async_method_key(plan, speeds, "AsyncCurve"), network, plan.step_count));
    curve.train = [saved, &plan](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
      for (const SavedAsyncStep& at : saved->steps(p.trigger->round_count)) {
        if (at.step % plan.stride == 0 && !watch(at.step, at.server.model.data())) {
          return;
        }
      }
    };
    for (const char* method : {"OrthoDyn", "FedAsync"}) {
      Case& one = cases->emplace_back(case_of(async_method_key(plan, speeds, method), network, plan.step_count));
      one.train = [run = run(method, false), &plan](const RunParameters& p, const Workload&,
                                                    const Case::Watcher& watch) {
        run(p.trigger->round_count, measure_every(plan.stride, watch));
      };
    }
  }
  // Rounds of all: the same models whatever the speeds.
  Case& rounds = cases->emplace_back(case_of(std::string(plan.prefix) + "curve/FedAvg", network, plan.step_count));
  rounds.train = [network, train](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
    run_async_rounds(*network, p.trigger->round_count, train, watch);
  };
  return curves;
}

// Of AsyncCurve's run with equal speeds.
void add_connections(const AsyncPlan& plan, const Network& network, const std::shared_ptr<SavedAsyncRun>& saved,
                     std::vector<Case>* cases) {
  for (const bool by_curve : {false, true}) {
    Case& one = cases->emplace_back(case_of(async_connection_key(plan, by_curve), network, plan.step_count));
    one.train = [&plan, saved, by_curve](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
      for (const SavedAsyncStep& at : saved->steps(p.trigger->round_count)) {
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
