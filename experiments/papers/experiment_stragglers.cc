// Straggler policies: nine devices whose steps take 1, 1, 1, 1, 1, 2, 2, 4 and 8 units, Digits sorted by class, so that
// who is left out leaves out a digit. Gradients are exact, the correction has a memory: what a policy cannot reach is
// its own fault, not that of noise or drift. The product's coordinator and clients in virtual time (sim/timed_fleet.h);
// each policy at its own best step of one grid.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "experiments/harness/compare.h"
#include "experiments/harness/experiment.h"
#include "experiments/harness/harness.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "sim/timed_fleet.h"

namespace gradstream {
namespace {

constexpr std::array<uint64_t, 9> kSpeeds = {1, 1, 1, 1, 1, 2, 2, 4, 8};
constexpr uint64_t kUnitMs = 1000;  // frames and commits take 1 ms
constexpr uint64_t kUnitsMax = 3000;
constexpr uint32_t kStepCount = 8;                                               // K, but of wait_k1
constexpr std::array<double, 7> kGrid = {0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6};  // steps times L
constexpr std::array<double, 5> kGaps = {1e-2, 5e-3, 2e-3, 1e-3, 5e-4};          // of |F*|
constexpr std::array<const char*, 6> kPolicies = {"drop", "wait", "wait_k1", "partial", "buffered", "asynchronous"};

RunParameters step_parameters(double step) {
  RunParameters p = gradient_stream_parameters(kStepCount, step, 1'000'000);
  p.pace->retry_min_ms = kUnitMs / 20;
  p.pace->retry_max_ms = kUnitMs / 10;
  p.local->solver = SolverId::kProjection;
  p.wire->record_encoding = Encoding::kF32;
  p.local->correction_form = CorrectionForm::kMemory;
  return p;
}

void set_policy(const std::string& policy, RunParameters* parameters) {
  RunParameters& p = *parameters;
  p.trigger->report_deadline_ms = static_cast<uint32_t>(kUnitMs * kStepCount * 10);
  if (policy == "wait_k1") {
    p.local->local_step_count = 1;
  } else if (policy == "drop") {
    p.trigger->update_goal = 5;
    p.trigger->late = LatePolicy::kDrop;
  } else if (policy == "partial") {
    p.trigger->steps_min = 1;
    p.trigger->task_deadline_ms = static_cast<uint32_t>(kUnitMs * kSpeeds.back());
  } else if (policy == "buffered" || policy == "asynchronous") {
    p.trigger->buffer_size = policy == "buffered" ? 5 : 1;
    p.trigger->late = LatePolicy::kWeight;
    p.trigger->staleness_max = 64;
    p.trigger->staleness_table = StalenessTable::kConstant;
    p.steps->server_step = static_cast<Real>(p.trigger->buffer_size) / static_cast<Real>(kSpeeds.size());
  }
}

std::string policy_key(const std::string& policy, double step) { return policy + "/step" + figure(step); }

std::vector<Case> stragglers_cases(const Request& request) {
  std::vector<Case> cases;
  const std::shared_ptr<const KpcaWorkload> digits = make_zofl("digits", true, 4, kSpeeds.size(), request.seed);
  const double largest = digits->eigenvalues()(digits->eigenvalues().size() - 1);
  for (const std::string policy : kPolicies) {
    for (const double step : kGrid) {
      Case& one = cases.emplace_back();
      one.key = policy_key(policy, step);
      one.workload = digits;
      one.parameters = step_parameters(step / largest);
      set_policy(policy, &one.parameters);
      one.train = [](const RunParameters& parameters, const Workload& held, const Case::Watcher& watch) {
        std::vector<Problem> problems;
        std::vector<DeviceHabits> devices(kSpeeds.size());
        for (uint32_t i = 0; i < devices.size(); ++i) {
          problems.push_back(held.problem(i));
          devices[i].step_ms = kUnitMs * kSpeeds[i];
        }
        RunParameters timed = parameters;
        if (kIsDouble) {  // the server checks that uploads fit the fixed point, whose finest unit has no room for them
          timed.fold->fold_scale_log2 = RunParameters().fold->fold_scale_log2;
        }
        TimedFleet fleet(timed, {}, devices, problems, start_of(held));
        const std::string fault = fleet.run(kUnitMs * kUnitsMax, [&](uint64_t now_ms, uint32_t, const Real* model) {
          return watch(static_cast<uint32_t>(now_ms / kUnitMs), model);
        });
        if (!fault.empty()) {
          throw std::runtime_error(fault);
        }
      };
    }
  }
  return cases;
}

// Units until the gap is reached for good; infinite: never.
double units_to(const Curve& curve, double gap) {
  double reached = std::numeric_limits<double>::infinity();
  for (auto point = curve.points.rbegin(); point != curve.points.rend(); ++point) {
    if (!(point->measures.excess <= gap * std::fabs(curve.optimum))) {
      break;
    }
    reached = point->round;
  }
  return reached;
}

// Over the last tenth of the time: the largest gap.
double floor_of(const Curve& curve) {
  double most = 0;
  for (const CurvePoint& point : curve.points) {
    most = point.round >= kUnitsMax * 9 / 10 ? std::max(most, point.measures.excess) : most;
  }
  return most / std::fabs(curve.optimum);
}

template <typename Value>
double best(const Curves& curves, const std::string& policy, const Value& value) {
  double least = std::numeric_limits<double>::infinity();
  for (const double step : kGrid) {
    least = std::min(least, value(curves.at(policy_key(policy, step))));
  }
  return least;
}

void stragglers_judge(const Curves& curves, const Request&, Judgement* judgement) {
  const auto units = [&](const std::string& policy, double gap) {
    return best(curves, policy, [gap](const Curve& curve) { return units_to(curve, gap); });
  };
  const auto floor = [&](const std::string& policy) { return best(curves, policy, floor_of); };
  judgement->note("units of virtual time to a gap, each policy at its best step; least floor of the grid");
  judgement->note("| policy | 1e-2 | 5e-3 | 2e-3 | 1e-3 | 5e-4 | floor |");
  judgement->note("|---|---|---|---|---|---|---|");
  for (const char* policy : kPolicies) {
    std::string line = std::string("| ") + policy + " |";
    for (const double gap : kGaps) {
      line += " " + figure(units(policy, gap)) + " |";
    }
    judgement->note(line + " " + figure(floor(policy)) + " |");
  }
  const auto sooner = [&](double gap) {
    return std::min(units("wait", gap), units("wait_k1", gap)) / units("partial", gap);
  };
  judgement->check(
      "partial work is " + figure(sooner(1e-2)) + " times sooner than waiting, with K = 8 or 1, to 1e-2, wanted 2.5",
      sooner(1e-2) >= 2.5);
  judgement->check(
      "partial work is " + figure(sooner(2e-3)) + " times sooner than waiting, with K = 8 or 1, to 2e-3, wanted 1.5",
      sooner(2e-3) >= 1.5);
  judgement->check(
      "partial work's floor is below half of dropping's: " + figure(floor("partial")) + ", " + figure(floor("drop")),
      floor("partial") < floor("drop") / 2);
}

}  // namespace

const Experiment kStragglers = {"stragglers",     "Straggler policies, devices at 1,1,1,1,1,2,2,4,8",
                                stragglers_cases, stragglers_judge,
                                nullptr,          "excess",
                                "*step0.4",       "units"};

}  // namespace gradstream
