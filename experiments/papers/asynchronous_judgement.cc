#include "experiments/papers/asynchronous_judgement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "experiments/harness/harness.h"
#include "experiments/harness/interval.h"
#include "experiments/papers/asynchronous_curve.h"
#include "experiments/papers/asynchronous_fleet.h"
#include "experiments/papers/asynchronous_plan.h"
#include "experiments/workloads/data_network.h"

namespace gradstream {
namespace {

// Parts of the keys of cases that look at single steps and curves.
constexpr const char* kHeldToFormulas[] = {"stepwise/", "control/", "connection/", "plane/"};

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
}

// The rule with the least loss at a step, by its place in kAsyncRules; of equal ones the first. loss(rule).
template <typename Loss>
size_t best_rule(const Loss& loss) {
  const auto best = std::min_element(std::begin(kAsyncRules), std::end(kAsyncRules),
                                     [&](const AsyncRule& a, const AsyncRule& b) { return loss(a) < loss(b); });
  return static_cast<size_t>(best - std::begin(kAsyncRules));
}

bool is_orthogonal(const AsyncRule& rule) { return std::string(rule.name).starts_with("Ortho"); }

// How often each rule was the best.
struct BestCounts {
  std::array<uint32_t, std::size(kAsyncRules)> counts = {};
  uint32_t total = 0;

  void add(size_t rule) {
    ++counts[rule];
    ++total;
  }
  template <typename Which>
  uint32_t of(const Which& which) const {
    uint32_t sum = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      sum += which(kAsyncRules[i]) ? counts[i] : 0;
    }
    return sum;
  }
  uint32_t of(const char* name) const {
    return of([&](const AsyncRule& rule) { return rule.name == std::string(name); });
  }
  std::string text() const {
    std::string line = "best at";
    for (size_t i = 0; i < counts.size(); ++i) {
      line += std::string(i == 0 ? " " : ", ") + kAsyncRules[i].name + " " + std::to_string(counts[i]);
    }
    return line + " of " + std::to_string(total) + " steps";
  }
};

// The report's two claims on who wins, which name the best of all rules.
void claim_best(const BestCounts& best, const std::string& where, const std::string& more, Judgement* judgement) {
  judgement->claim("delay compensation is never the best rule" + where, best.of("DC-ASGD") == 0, best.text() + more);
  judgement->claim("orthogonal rules dominate: one of them is the best at more than half of the steps" + where,
                   2 * best.of(is_orthogonal) > best.total,
                   std::to_string(best.of(is_orthogonal)) + " of " + std::to_string(best.total));
}

// Every measured step, of the means over all seeds and of each seed.
void judge_all_steps(const Curves& curves, const Request& request, Judgement* judgement) {
  const uint32_t first = first_async_seed(request);
  judgement->note("rules: mean test loss in each quarter of the run, mean of " + std::to_string(kAsyncSeedCount) +
                  " seeds");
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    const auto best_of = [&](uint32_t seed, uint32_t seed_count) {
      BestCounts best;
      for (uint32_t step = kAsyncStride; step <= kAsyncStepCount; step += kAsyncStride) {
        best.add(
            best_rule([&](const AsyncRule& r) { return mean_loss(curves, speeds, r.name, seed, seed_count, step); }));
      }
      return best;
    };
    for (const AsyncRule& rule : kAsyncRules) {
      std::array<double, 4> sums = {};
      for (uint32_t step = kAsyncStride; step <= kAsyncStepCount; step += kAsyncStride) {
        sums[(step - 1) * 4 / kAsyncStepCount] += mean_loss(curves, speeds, rule.name, first, kAsyncSeedCount, step);
      }
      std::string line = std::string("| ") + speeds.name + " | " + rule.name + " |";
      for (const double sum : sums) {
        line += " " + figure(sum * 4 * kAsyncStride / kAsyncStepCount) + " |";
      }
      judgement->note(line);
    }
    uint32_t never_count = 0;
    for (uint32_t seed = first; seed < first + kAsyncSeedCount; ++seed) {
      never_count += best_of(seed, 1).of("DC-ASGD") == 0 ? 1 : 0;
    }
    claim_best(best_of(first, kAsyncSeedCount), std::string(", ") + speeds.name + " speeds",
               "; never the best with " + std::to_string(never_count) + " of " + std::to_string(kAsyncSeedCount) +
                   " seeds alone",
               judgement);
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

// Of each seed: whether OrthoGrad is ahead of OrthoPos early, and behind it at the end.
std::vector<bool> has_phases(const Curves& curves, const AsyncSpeeds& speeds, uint32_t first) {
  std::vector<bool> out;
  for (uint32_t seed = first; seed < first + kAsyncSeedCount; ++seed) {
    const Curve& gradient = curves.at(async_rule_key(speeds, "OrthoGrad", seed));
    const Curve& position = curves.at(async_rule_key(speeds, "OrthoPos", seed));
    out.push_back(gradient.excess_at(kAsyncEarly) < position.excess_at(kAsyncEarly) &&
                  position.excess_at(kAsyncStepCount) < gradient.excess_at(kAsyncStepCount));
  }
  return out;
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
    judgement->claim_seeds("rules that trust gradients win early and rules that trust positions late, " + where,
                           has_phases(curves, speeds, first_async_seed(request)));
    judgement->note("evidence   OrthoGrad against OrthoPos, " + where + ": " +
                    figure(loss(speeds, "OrthoGrad", kAsyncEarly)) + " : " +
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

// Losses after one step, each by the mean of all rules at its checkpoint; the mean over the bases.
struct Stepwise {
  std::vector<uint32_t> steps;
  std::array<std::vector<double>, std::size(kAsyncRules)> losses;
  uint32_t base_count = 0;
};

Stepwise stepwise_of(const AsyncPlan& plan, const Curves& curves, const AsyncSpeeds& speeds, uint32_t seed) {
  Stepwise out;
  for (const char* base : {"FedAsync", "AsyncCurve"}) {
    std::array<const Curve*, std::size(kAsyncRules)> of_rule = {};
    for (size_t rule = 0; rule < of_rule.size(); ++rule) {
      const auto found = curves.find(async_stepwise_key(plan, speeds, base, kAsyncRules[rule].name, seed));
      of_rule[rule] = found == curves.end() ? nullptr : &found->second;
    }
    if (of_rule[0] == nullptr) {
      continue;
    }
    // A run that ends early, which is a criterion of its own, leaves fewer points.
    size_t point_count = out.base_count == 0 ? SIZE_MAX : out.steps.size();
    for (const Curve* curve : of_rule) {
      point_count = std::min(point_count, curve->points.size());
    }
    out.steps.resize(point_count);
    ++out.base_count;
    for (size_t point = 0; point < point_count; ++point) {
      double mean = 0;
      for (const Curve* curve : of_rule) {
        mean += curve->points[point].measures.excess / static_cast<double>(of_rule.size());
      }
      out.steps[point] = of_rule[0]->points[point].round;
      for (size_t rule = 0; rule < of_rule.size(); ++rule) {
        out.losses[rule].resize(point_count);
        out.losses[rule][point] += of_rule[rule]->points[point].measures.excess / mean;
      }
    }
  }
  for (std::vector<double>& losses : out.losses) {
    std::for_each(losses.begin(), losses.end(), [&](double& loss) { loss /= out.base_count; });
  }
  return out;
}

// By a Gaussian whose deviation is a quarter of the run: 100 steps of 400, as the report's.
std::vector<double> smoothed(const std::vector<uint32_t>& steps, const std::vector<double>& losses, double deviation) {
  std::vector<double> out;
  for (const uint32_t at : steps) {
    double sum = 0;
    double weights = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      const double apart = (static_cast<double>(steps[i]) - at) / deviation;
      const double weight = std::exp(-apart * apart / 2);
      sum += weight * losses[i];
      weights += weight;
    }
    out.push_back(sum / weights);
  }
  return out;
}

// The mean of a rule's losses in a quarter of the run.
double quarter_mean(const Stepwise& all, size_t rule, uint32_t step_count, uint32_t quarter) {
  double sum = 0;
  uint32_t count = 0;
  for (size_t i = 0; i < all.steps.size(); ++i) {
    if (all.steps[i] * 4 / step_count == quarter) {
      sum += all.losses[rule][i];
      ++count;
    }
  }
  return sum / count;
}

void judge_stepwise(const AsyncPlan& plan, const Curves& curves, uint32_t seed, Judgement* judgement) {
  judgement->note(std::string(plan.prefix) +
                  "stepwise: test loss after one step, by the mean of all rules, mean over the base runs; by quarter");
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    const Stepwise all = stepwise_of(plan, curves, speeds, seed);
    if (all.steps.empty() || all.steps.back() * 4 / plan.step_count < 3) {
      judgement->note(std::string(plan.prefix) + speeds.name + ": a base run ended before its last quarter");
      continue;
    }
    std::array<std::vector<double>, std::size(kAsyncRules)> smooth;
    for (size_t rule = 0; rule < smooth.size(); ++rule) {
      smooth[rule] = smoothed(all.steps, all.losses[rule], plan.step_count / 4.0);
      std::string line = std::string("| ") + plan.prefix + speeds.name + " | " + kAsyncRules[rule].name + " |";
      for (uint32_t quarter = 0; quarter < 4; ++quarter) {
        line += " " + figure(quarter_mean(all, rule, plan.step_count, quarter), 4) + " |";
      }
      judgement->note(line);
    }
    const std::string where = std::string(", stepwise, ") + plan.prefix + speeds.name;
    for (const uint32_t quarter : {0U, 3U}) {
      const size_t best = best_rule([&](const AsyncRule& r) {
        return quarter_mean(all, static_cast<size_t>(&r - kAsyncRules), plan.step_count, quarter);
      });
      const DelayRule rule = quarter == 0 ? kAsyncRules[best].early : kAsyncRules[best].late;
      const bool by_gradient = rule == DelayRule::kAsgd || rule == DelayRule::kOrthoGrad;
      const bool by_position = rule == DelayRule::kFedAsync || rule == DelayRule::kOrthoPos;
      judgement->claim(quarter == 0 ? "the best step of the first quarter trusts the gradient" + where
                                    : "the best step of the last quarter trusts the position" + where,
                       quarter == 0 ? by_gradient : by_position, std::string(kAsyncRules[best].name) + " is the best");
    }
    BestCounts best;
    for (size_t i = 0; i < all.steps.size(); ++i) {
      best.add(best_rule([&](const AsyncRule& r) { return smooth[static_cast<size_t>(&r - kAsyncRules)][i]; }));
    }
    claim_best(best, where, "; smoothed", judgement);
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
  uint32_t end_count = 0;
  for (uint32_t step = 0; step < plan.step_count; step += plan.connection_every) {
    for (const uint32_t part : {0U, plan.part_count}) {
      end_count += line.excess_at(step + part) == curve.excess_at(step + part) ? 1 : 0;
    }
  }
  judgement->check(std::string(plan.prefix) + "connection: line and curve have the same ends, " +
                       std::to_string(end_count) + " of " + std::to_string(2 * ratios.size()),
                   end_count == 2 * ratios.size());
  const Interval q = interval_of_mean(ratios, 0.99);
  judgement->claim(std::string(plan.prefix) + "connection: the quadratic one has the lower loss, Q > 1", q.low() > 1,
                   "Q = " + text_of(q) + " (99 % of the mean), of " + std::to_string(ratios.size()) +
                       " connections; report 1.0275 +- 0.0139");
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
  const auto full = curves.find(async_method_key(plan, speeds, "AsyncCurve-full"));
  if (full != curves.end()) {
    judgement->note(prefix + " AsyncCurve with the Lorentzian term, the dominance penalty and the average: " +
                    figure(full->second.excess_at(step_count)));
  }
  // The report has no run from end to end: these are questions of this project.
  judgement->claim(prefix + " (ours) AsyncCurve beats FedAsync", loss("AsyncCurve") < loss("FedAsync"), evidence);
  judgement->claim(prefix + " (ours) AsyncCurve beats FedAvg, update for update",
                   loss("AsyncCurve") < rounds.excess_at(step_count), "as above");
  const uint32_t in_time = updates_of_rounds(workload, speeds, step_count);
  const double timed = rounds.excess_at(in_time);
  judgement->claim(
      prefix + " (ours) AsyncCurve beats FedAvg in the same time", loss("AsyncCurve") < timed,
      figure(loss("AsyncCurve")) + " : " + figure(timed) + ", which then has " + std::to_string(in_time) + " updates");
  judgement->claim(prefix + " (ours) FedAsync beats FedAvg in the same time", loss("FedAsync") < timed,
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
    judgement->claim(prefix + " every method learns", has_learned, "no criterion: no figure of these data is known");
  }
}

// expect_formula() ends a case at the first point that is not the report's.
void judge_formulas(const Curves& curves, Judgement* judgement) {
  size_t count = 0;
  std::string faults;
  for (const auto& [key, curve] : curves) {
    const bool is_held = std::any_of(std::begin(kHeldToFormulas), std::end(kHeldToFormulas),
                                     [&name = key](const char* part) { return name.find(part) != std::string::npos; });
    count += is_held ? 1 : 0;
    faults += is_held && !curve.fault.empty() ? "; " + key + ": " + curve.fault : "";
  }
  judgement->check(
      "each step, curve and plane is that of the report's formulas, " + std::to_string(count) + " cases" + faults,
      count > 0 && faults.empty());
}

}  // namespace

void judge_asynchronous(const Curves& curves, const Request& request, Judgement* judgement) {
  judge_rules(curves, request, judgement);
  judge_all_steps(curves, request, judgement);
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
  judge_formulas(curves, judgement);
  judge_async_controls(curves, judgement);
  judge_async_planes(curves, judgement);
  if (const std::unique_ptr<NetworkWorkload> mnist = make_mnist_network(request.data_folder, seed)) {
    judge_all(kMnistPlan, *mnist);
  } else {
    judgement->note("mnist/ left out: no such folder with the data");
  }
  std::string fault;
  if (const std::unique_ptr<NetworkWorkload> femnist = make_femnist_network(request.data_folder, seed, &fault)) {
    judgement->note("femnist/: claims alone, no criteria: no figure of these data is known");
    judge_all_methods(kFemnistPlan, *femnist);
  } else {
    judgement->note(fault.empty() ? "femnist/ left out: no *.json there; docs/experiments.md names the source"
                                  : "femnist/ left out: " + fault);
    judgement->check("femnist/ is whole, or not there", fault.empty());
  }
}

}  // namespace gradstream
