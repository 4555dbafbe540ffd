#include "experiments/papers/asynchronous_judgement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/harness/harness.h"
#include "experiments/papers/asynchronous_fleet.h"
#include "experiments/papers/asynchronous_plan.h"
#include "experiments/workloads/data_network.h"

namespace gradstream {
namespace {

// Mean over seeds first .. first + count - 1.
double mean_loss(const Curves& curves, const AsyncSpeeds& speeds, const std::string& rule, uint32_t first,
                 uint32_t count, uint32_t step) {
  double sum = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    sum += curves.at(async_rule_key(speeds, rule, seed)).excess_at(step);
  }
  return sum / count;
}

void judge_rules(const Curves& curves, const Request& request, Judgement* judgement) {
  const uint32_t first = first_async_seed(request);
  judgement->note("test loss at step 50 / 400, mean of " + std::to_string(kAsyncSeedCount) + " seeds");
  std::vector<const char*> names;
  std::transform(std::begin(kAsyncRules), std::end(kAsyncRules), std::back_inserter(names),
                 [](const AsyncRule& r) { return r.name; });
  std::transform(std::begin(kAsyncSwitches), std::end(kAsyncSwitches), std::back_inserter(names),
                 [](const AsyncSwitch& r) { return r.name; });
  for (const char* name : names) {
    std::string line = std::string("| ") + name + " |";
    for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
      line += std::string(" ") + speeds.name + " " +
              figure(mean_loss(curves, speeds, name, first, kAsyncSeedCount, kAsyncEarly)) + " / " +
              figure(mean_loss(curves, speeds, name, first, kAsyncSeedCount, kAsyncStepCount)) + " |";
    }
    judgement->note(line);
  }
  for (size_t s = 0; s < std::size(kAsyncSpeeds); ++s) {
    for (const AsyncRule& rule : kAsyncRules) {
      for (const bool is_late : {false, true}) {
        const uint32_t step = is_late ? kAsyncStepCount : kAsyncEarly;
        if (rule.reference[s][is_late ? 1 : 0] != 0) {
          judgement->check_seeds(request.seed, 1,
                                 std::string(rule.name) + ", " + kAsyncSpeeds[s].name + " speeds, step " +
                                     std::to_string(step) + ", the reference's three seeds",
                                 mean_loss(curves, kAsyncSpeeds[s], rule.name, first, kAsyncReferenceSeedCount, step),
                                 rule.reference[s][is_late ? 1 : 0], 1.1);
        }
      }
    }
  }
}

// What a rule that was chosen without knowing the speeds loses at most: its loss by the best rule's.
void judge_regret(const Curves& curves, const Request& request, Judgement* judgement) {
  judgement->note("loss by that of the best rule, at worst of both speeds, at step 50 / 400");
  for (const AsyncRule& rule : kAsyncRules) {
    std::string line = std::string("| ") + rule.name + " |";
    for (const uint32_t step : {kAsyncEarly, kAsyncStepCount}) {
      double worst = 0;
      for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
        double best = std::numeric_limits<double>::infinity();
        for (const AsyncRule& other : kAsyncRules) {
          best =
              std::min(best, mean_loss(curves, speeds, other.name, first_async_seed(request), kAsyncSeedCount, step));
        }
        worst = std::max(worst,
                         mean_loss(curves, speeds, rule.name, first_async_seed(request), kAsyncSeedCount, step) / best);
      }
      line += " " + figure(worst) + " |";
    }
    judgement->note(line);
  }
}

// Of the seeds that the reference has not seen.
void judge_phases(const Curves& curves, const Request& request, Judgement* judgement) {
  const uint32_t first = first_async_seed(request) + kAsyncReferenceSeedCount;
  const uint32_t count = kAsyncSeedCount - kAsyncReferenceSeedCount;
  const auto loss = [&](const AsyncSpeeds& speeds, const char* rule, uint32_t step) {
    return mean_loss(curves, speeds, rule, first, count, step);
  };
  double worst_strict = 0;
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    const std::string where = std::string(speeds.name) + " speeds";
    const bool wins_early = loss(speeds, "OrthoGrad", kAsyncEarly) < loss(speeds, "OrthoPos", kAsyncEarly);
    const bool wins_late = loss(speeds, "OrthoPos", kAsyncStepCount) < loss(speeds, "OrthoGrad", kAsyncStepCount);
    judgement->claim("rules that trust gradients win early and rules that trust positions late, " + where,
                     wins_early && wins_late,
                     "OrthoGrad against OrthoPos " + figure(loss(speeds, "OrthoGrad", kAsyncEarly)) + " : " +
                         figure(loss(speeds, "OrthoPos", kAsyncEarly)) + " at 50, " +
                         figure(loss(speeds, "OrthoGrad", kAsyncStepCount)) + " : " +
                         figure(loss(speeds, "OrthoPos", kAsyncStepCount)) + " at 400");
    // The same rule until the switch: what trusting positions from there on is worth. Of the pure rules at the end
    // either may be ahead with equal speeds, by the seeds.
    const double switched = loss(speeds, "OrthoDyn", kAsyncStepCount);
    const double kept = loss(speeds, "OrthoGrad", kAsyncStepCount);
    const bool is_equal = speeds.name == std::string("equal");
    judgement->check(std::string("trusting positions in the second half ") + (is_equal ? "helps" : "hurts") + ", " +
                         where + ": OrthoDyn against OrthoGrad " + figure(switched) + " : " + figure(kept),
                     (switched < kept) == is_equal);
    judgement->claim(
        "OrthoPos is better than FedAsync, " + where,
        loss(speeds, "OrthoPos", kAsyncStepCount) < loss(speeds, "FedAsync", kAsyncStepCount),
        figure(loss(speeds, "OrthoPos", kAsyncStepCount)) + " : " + figure(loss(speeds, "FedAsync", kAsyncStepCount)));
    double best = loss(speeds, kAsyncRules[0].name, kAsyncStepCount);
    for (const AsyncRule& rule : kAsyncRules) {
      best = std::min(best, loss(speeds, rule.name, kAsyncStepCount));
    }
    worst_strict = std::max(worst_strict, loss(speeds, "OrthoStrict", kAsyncStepCount) / best);
  }
  judgement->check(
      "OrthoStrict is within 1.5 of the best rule at step 400 whatever the speeds: " + figure(worst_strict),
      worst_strict <= 1.5);
}

void judge_stepwise(const AsyncPlan& plan, const Curves& curves, uint32_t seed, Judgement* judgement) {
  judgement->note(std::string(plan.prefix) +
                  "stepwise: one step from saved versions of an asgd run: mean test loss after it, first and last "
                  "quarter");
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    std::map<std::string, std::array<double, 2>> means;
    for (const AsyncRule& rule : kAsyncRules) {
      const Curve& curve = curves.at(async_stepwise_key(plan, speeds, rule.name, seed));
      std::array<double, 2> sums = {};
      std::array<uint32_t, 2> counts = {};
      for (const CurvePoint& point : curve.points) {
        const size_t when = point.round < plan.step_count / 4 ? 0 : point.round >= plan.step_count * 3 / 4 ? 1 : 2;
        if (when < 2) {
          sums[when] += point.measures.excess;
          ++counts[when];
        }
      }
      means[rule.name] = {sums[0] / counts[0], sums[1] / counts[1]};
      judgement->note(std::string("| ") + speeds.name + " | " + rule.name + " | " + figure(means[rule.name][0]) +
                      " | " + figure(means[rule.name][1]) + " |");
    }
    const std::string where = std::string(", ") + plan.prefix + speeds.name;
    judgement->claim("a step that trusts the gradient is the better one early" + where,
                     means["OrthoGrad"][0] < means["OrthoPos"][0],
                     figure(means["OrthoGrad"][0]) + " : " + figure(means["OrthoPos"][0]));
    judgement->claim("a step that trusts the position is the better one late" + where,
                     means["OrthoPos"][1] < means["OrthoGrad"][1],
                     figure(means["OrthoPos"][1]) + " : " + figure(means["OrthoGrad"][1]));
  }
}

// Q: the loss along the line by that along the curve, mean over the inner points of each connection.
void judge_connections(const AsyncPlan& plan, const Curves& curves, Judgement* judgement) {
  const Curve& line = curves.at(async_connection_key(plan, false));
  const Curve& curve = curves.at(async_connection_key(plan, true));
  std::vector<double> ratios;
  for (uint32_t step = 0; step < plan.step_count; step += plan.connection_every) {
    double sums[2] = {};
    for (uint32_t part = 1; part < plan.part_count; ++part) {
      sums[0] += line.excess_at(step + part);
      sums[1] += curve.excess_at(step + part);
    }
    ratios.push_back(sums[0] / sums[1]);
  }
  double mean = 0;
  double square = 0;
  for (const double ratio : ratios) {
    mean += ratio / static_cast<double>(ratios.size());
  }
  for (const double ratio : ratios) {
    square += (ratio - mean) * (ratio - mean) / static_cast<double>(ratios.size());
  }
  char text[80];
  std::snprintf(text, sizeof(text), "Q = %.4f +- %.4f of %zu connections, report 1.0275 +- 0.0139", mean,
                std::sqrt(square), ratios.size());
  judgement->claim(std::string(plan.prefix) + "connection: the quadratic one has the lower loss, Q > 1", mean > 1,
                   text);
}

// Device updates that rounds of all get in the virtual time in which events get step_count of them.
uint32_t updates_of_rounds(const NetworkWorkload& workload, const AsyncSpeeds& speeds, uint32_t step_count) {
  AsyncDevices devices(workload, speeds, {});
  double end = 0;
  for (uint32_t step = 0; step < step_count; ++step) {
    end = devices.next_end();
    devices.restart({});
  }
  return static_cast<uint32_t>(end / devices.slowest()) * workload.device_count();
}

// Versions that each device's updates were behind at most, in the order of the devices.
void judge_staleness(const AsyncPlan& plan, const NetworkWorkload& workload, Judgement* judgement) {
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    AsyncDevices devices(workload, speeds, {});
    std::vector<int64_t> greatest(workload.device_count(), -1);
    for (uint32_t step = 0; step < plan.step_count; ++step) {
      int64_t& own = greatest[devices.next().device];
      own = std::max(own, int64_t{devices.next_staleness()});
      devices.restart({});
    }
    std::string line = std::string(plan.prefix) + speeds.name + ": the greatest staleness of each device";
    for (const int64_t staleness : greatest) {
      line += staleness < 0 ? " none" : " " + std::to_string(staleness);
    }
    judgement->note(line);
  }
}

void judge_methods(const AsyncPlan& plan, const Curves& curves, const NetworkWorkload& workload,
                   const AsyncSpeeds& speeds, uint32_t seed, Judgement* judgement) {
  const uint32_t step_count = plan.step_count;
  const Curve& rounds = curves.at(std::string(plan.prefix) + "curve/FedAvg");
  const auto loss = [&](const char* method) {
    return curves.at(async_method_key(plan, speeds, method)).excess_at(step_count);
  };
  const std::string prefix = std::string(plan.prefix) + "curve/" + speeds.name + "/";
  const std::string evidence = "at " + std::to_string(step_count) + " device updates AsyncCurve " +
                               figure(loss("AsyncCurve")) + ", OrthoDyn without curve " + figure(loss("OrthoDyn")) +
                               ", FedAsync " + figure(loss("FedAsync")) + ", FedAvg " +
                               figure(rounds.excess_at(step_count));
  judgement->claim(prefix + " AsyncCurve beats FedAsync", loss("AsyncCurve") < loss("FedAsync"), evidence);
  judgement->claim(prefix + " AsyncCurve beats FedAvg, update for update",
                   loss("AsyncCurve") < rounds.excess_at(step_count), "as above");
  const uint32_t in_time = updates_of_rounds(workload, speeds, step_count);
  const double timed = rounds.excess_at(in_time);
  judgement->claim(
      prefix + " AsyncCurve beats FedAvg in the same time", loss("AsyncCurve") < timed,
      figure(loss("AsyncCurve")) + " : " + figure(timed) + ", which then has " + std::to_string(in_time) + " updates");
  judgement->claim(prefix + " FedAsync beats FedAvg in the same time", loss("FedAsync") < timed,
                   figure(loss("FedAsync")) + " : " + figure(timed));
  const bool is_cheap = loss("AsyncCurve") <= 1.1 * loss("OrthoDyn");
  const std::string costs = prefix + " the curve costs nothing: at most 1.1 of the loss without it";
  const std::string ratio = figure(loss("AsyncCurve")) + " : " + figure(loss("OrthoDyn"));
  if (plan.is_curve_cheap && seed == 1) {
    judgement->check(costs + ", " + ratio, is_cheap);
  } else {
    judgement->claim(costs, is_cheap, ratio);
  }
  const double worst = std::max({loss("AsyncCurve"), loss("FedAsync"), rounds.excess_at(step_count)});
  const bool has_learned = worst < 0.75 * rounds.excess_at(0);
  if (plan.has_run) {
    judgement->check(prefix + " every method learns", has_learned);
  } else {
    judgement->claim(prefix + " every method learns", has_learned, "no criterion: never run on the real data before");
  }
}

}  // namespace

void judge_asynchronous(const Curves& curves, const Request& request, Judgement* judgement) {
  judge_rules(curves, request, judgement);
  judge_regret(curves, request, judgement);
  judge_phases(curves, request, judgement);
  const uint32_t seed = first_async_seed(request);
  const auto judge_all_methods = [&](const AsyncPlan& plan, const NetworkWorkload& network) {
    for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
      judge_methods(plan, curves, network, speeds, request.seed, judgement);
    }
  };
  const auto judge_all = [&](const AsyncPlan& plan, const NetworkWorkload& network) {
    judge_staleness(plan, network, judgement);
    judge_stepwise(plan, curves, seed, judgement);
    judge_connections(plan, curves, judgement);
    judge_all_methods(plan, network);
  };
  judge_all(kDigitsPlan, *make_digits_network(seed));
  if (const std::unique_ptr<NetworkWorkload> mnist = make_mnist_network(request.data_folder, seed)) {
    judge_all(kMnistPlan, *mnist);
  } else {
    judgement->note("mnist/ left out: no such folder with the data");
  }
  std::string fault;
  if (const std::unique_ptr<NetworkWorkload> femnist = make_femnist_network(request.data_folder, seed, &fault)) {
    judgement->note("femnist/: claims alone, no criteria: these cases had never run on the real data");
    judge_all_methods(kFemnistPlan, *femnist);
  } else {
    judgement->note(fault.empty() ? "femnist/ left out: no *.json there; docs/experiments.md names the source"
                                  : "femnist/ left out: " + fault);
    judgement->check("femnist/ is whole, or not there", fault.empty());
  }
}

}  // namespace gradstream
