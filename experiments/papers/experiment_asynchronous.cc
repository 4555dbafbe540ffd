// X14: asynchronous rules for late updates (004) on a perceptron over Digits and LeNet's shape over MNIST, eight
// devices with data in proportion to their number, equally fast or up to ten times slower. Devices are events in
// virtual time: a local epoch lasts as many units as it has minibatches, by the speed. The server's rules and the local
// work are the product's (server/rules/aggregator.h, runtime/training, runtime/problem).
//
//   rules/S/R/sN        rule R of the server, local SGD, seed N; the test loss every tenth step
//   settings/...        the same on sorted data and with the dominance penalty (asynchronous_settings.h)
//   stepwise/S/B/R/sN   from saved versions of a run of the method B: what one step of R makes of the update that came
//   curve/S/METHOD      AsyncCurve, FedAsync and FedAvg with the same local Adam
//   connection/LINK     the test loss along the way from a device's base to its result, by the line or the curve
//   control/..., plane/...  where a late curve's control point belongs, and the plane of a curve (asynchronous_curve.h)
//   mnist/...           stepwise, curve and connection on MNIST; femnist/curve/... on FEMNIST by its writers
//
// Cases that look at the same run share it (SavedAsyncRun).
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/harness/experiment.h"
#include "experiments/harness/harness.h"
#include "experiments/papers/asynchronous_curve.h"
#include "experiments/papers/asynchronous_fleet.h"
#include "experiments/papers/asynchronous_formulas.h"
#include "experiments/papers/asynchronous_judgement.h"
#include "experiments/papers/asynchronous_plan.h"
#include "experiments/papers/asynchronous_settings.h"
#include "experiments/workloads/data_network.h"
#include "runtime/base/products.h"
#include "runtime/training/curve.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

using Network = std::shared_ptr<const NetworkWorkload>;

// What train() makes of the parameters, complete and with the number of steps that was asked for.
using AsyncRun = std::function<RunParameters(const RunParameters& parameters)>;

Case case_of(const std::string& key, const Network& workload, uint32_t step_count, const AsyncRun& run) {
  return async_case(key, workload, run(async_parameters(step_count)));
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
        Case& one = cases->emplace_back(fleet_case(async_rule_key(speeds, rule.name, seed), digits, kAsyncStepCount,
                                                   run, speeds, train, kAsyncStride));
        one.reference_key = plain_setting_key(speeds, rule, seed);
      }
      for (const AsyncSwitch& rule : kAsyncSwitches) {
        const AsyncRun run = [&rule](const RunParameters& p) { return under_switch(p, rule); };
        cases->push_back(fleet_case(async_rule_key(speeds, rule.name, seed), digits, kAsyncStepCount, run, speeds,
                                    train, kAsyncStride));
      }
    }
  }
}

// One step of each rule from the saved versions of a base.
void add_stepwise(const AsyncPlan& plan, const Network& network, uint32_t seed, const AsyncBase& base,
                  std::vector<Case>* cases) {
  for (const AsyncRule& rule : kAsyncRules) {
    const AsyncRun run = [&rule](const RunParameters& p) { return under_rule(p, rule); };
    Case& one = cases->emplace_back(
        case_of(async_stepwise_key(plan, *base.speeds, base.method, rule.name, seed), network, plan.step_count, run));
    one.train = [network, &plan, &rule, saved = base.run, run](const RunParameters& p, const Workload&,
                                                               const Case::Watcher& watch) {
      for (const AsyncStep& at : saved->steps(p)) {
        if (at.step % plan.stepwise_every != 0 || at.update.empty()) {
          continue;
        }
        const AsyncValues next = stepped_once(*network, run(p), at);
        expect_formula("step " + std::to_string(at.step) + " by " + rule.name, next, step_by_formula(run(p), at),
                       formula_values(at.model));
        if (!watch(at.step, next.data())) {
          return;
        }
      }
    };
  }
}

// The run of a method with the local work of curves, which is kept where a case of the plan looks at it.
std::shared_ptr<SavedAsyncRun> saved_run(const AsyncPlan& plan, const Network& network, const AsyncSpeeds& speeds,
                                         const AsyncTrain& train, const AsyncRun& run) {
  return std::make_shared<SavedAsyncRun>(
      [&plan](uint32_t step) {
        return step % plan.stride == 0 || step % plan.connection_every == 0 || step % plan.stepwise_every == 0;
      },
      [network, &speeds, train, run](const RunParameters& p, const OnAsyncStep& on_step) {
        run_async_fleet(*network, speeds, run(p), train, on_step);
      });
}

// A case of the measures of a saved run.
Case saved_case(const std::string& key, const AsyncPlan& plan, const Network& network, const AsyncRun& run,
                const std::shared_ptr<SavedAsyncRun>& saved) {
  Case one = case_of(key, network, plan.step_count, run);
  one.train = [saved, &plan](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
    for (const AsyncStep& at : saved->steps(p)) {
      if (at.step % plan.stride == 0 && !watch(at.step, at.model.data())) {
        return;
      }
    }
  };
  return one;
}

// AsyncCurve, also without its curve and with all terms of its report, FedAsync and FedAvg with one local solver. The
// runs that other cases look at: of each of kAsyncSpeeds AsyncCurve's, then FedAsync's.
std::vector<AsyncBase> add_methods(const AsyncPlan& plan, const Network& network, uint32_t seed,
                                   std::vector<Case>* cases) {
  std::vector<AsyncBase> bases;
  const auto train_by = [network, &plan, seed](bool is_pulled) {
    return [network, &plan, seed, is_pulled](const AsyncDevices::Job& job) {
      return train_async_curve(*network, seed, plan.epoch_count, job, is_pulled);
    };
  };
  const AsyncTrain train = train_by(false);
  const AsyncRun by_curve = [&plan](const RunParameters& p) {
    return along_curve(under_rule(p, async_rule("OrthoDyn")), plan.epoch_count);
  };
  const AsyncRun by_fedasync = [](const RunParameters& p) { return under_rule(p, async_rule("FedAsync")); };
  const AsyncRun by_orthodyn = [](const RunParameters& p) { return under_rule(p, async_rule("OrthoDyn")); };
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    for (const auto& [method, run] : {std::pair("AsyncCurve", by_curve), std::pair("FedAsync", by_fedasync)}) {
      bases.push_back({method, &speeds, saved_run(plan, network, speeds, train, run)});
      cases->push_back(saved_case(async_method_key(plan, speeds, method), plan, network, run, bases.back().run));
    }
    cases->push_back(fleet_case(async_method_key(plan, speeds, "OrthoDyn"), network, plan.step_count, by_orthodyn,
                                speeds, train, plan.stride));
    if (plan.control_every > 0) {
      const AsyncRun in_full = [by_curve](const RunParameters& p) { return with_all_terms(by_curve(p)); };
      Case& full = cases->emplace_back(
          case_of(async_method_key(plan, speeds, "AsyncCurve-full"), network, plan.step_count, in_full));
      full.train = [network, &speeds, &plan, pulled = train_by(true), in_full](const RunParameters& p, const Workload&,
                                                                               const Case::Watcher& watch) {
        run_async_fleet(*network, speeds, in_full(p), pulled, average_every(in_full(p), plan.stride, watch));
      };
    }
  }
  // The same models whatever the speeds.
  Case& rounds =
      cases->emplace_back(case_of(std::string(plan.prefix) + "curve/FedAvg", network, plan.step_count, in_rounds));
  rounds.train = [network, train](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
    run_async_rounds(*network, in_rounds(p), train, watch);
  };
  return bases;
}

// The bases of the steps and curves that are compared one by one: FedAsync's runs, and AsyncCurve's without any
// correction, where the plan has the time for them.
std::vector<AsyncBase> plain_bases(const AsyncPlan& plan, const Network& network, uint32_t seed,
                                   const std::vector<AsyncBase>& methods) {
  std::vector<AsyncBase> bases;
  const AsyncTrain train = [network, &plan, seed](const AsyncDevices::Job& job) {
    return train_async_curve(*network, seed, plan.epoch_count, job);
  };
  const AsyncRun uncorrected = [&plan](const RunParameters& p) {
    return along_curve(under_rule(p, async_rule("ASGD")), plan.epoch_count);
  };
  for (const AsyncBase& method : methods) {
    if (method.method == std::string("FedAsync")) {
      bases.push_back(method);
    } else if (plan.control_every > 0) {
      bases.push_back({method.method, method.speeds, saved_run(plan, network, *method.speeds, train, uncorrected)});
    }
  }
  return bases;
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
          expect_formula("point " + std::to_string(part) + " of the connection of step " + std::to_string(at.step),
                         point,
                         curve_by_formula(static_cast<double>(l), formula_values(at.job.base), formula_values(control),
                                          formula_values(end)),
                         formula_values(at.job.base));
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
  add_async_settings(request, &cases);
  const auto add_all = [&](const AsyncPlan& plan, const Network& network) {
    const std::vector<AsyncBase> methods = add_methods(plan, network, seed, &cases);
    add_connections(plan, network, methods.front().run, &cases);
    for (const AsyncBase& base : plain_bases(plan, network, seed, methods)) {
      add_stepwise(plan, network, seed, base, &cases);
      add_async_controls(plan, network, base, &cases);
    }
  };
  const Network digits = make_digits_network(seed);
  add_all(kDigitsPlan, digits);
  add_async_planes(digits, seed, &cases);
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
                         "rules/equal/*/s1 rules/mixed/*/s1 stepwise/equal/from-FedAsync/* "
                         "stepwise/mixed/from-FedAsync/* connection/* control/equal/from-FedAsync/gradient/* "
                         "curve/equal/* curve/mixed/*",
                         "step",
                         false,
                         write_async_planes};

}  // namespace gradstream
