// Online learning: samples that arrive during the run, PCA on Stiefel by RFedAGS. 000 speaks of it as an expectation
// over data that are not there yet.
#include <algorithm>
#include <cmath>

#include "experiments/harness/experiment.h"
#include "experiments/workloads/data_counts.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint32_t kRoundCount = 200;
constexpr double kStep = 0.05;
// Rounds by which a run of four steps has come from the start, one of a single step too, and all samples are there: 180
// by 0 to 4 a round.
constexpr uint32_t kTracking = 20;
constexpr uint32_t kSettled = 40;
constexpr uint32_t kArrived = 150;

Case online_case(const std::string& key, Arrivals arrivals, uint32_t local_step_count, uint32_t seed) {
  Case out;
  out.key = key + "/K" + std::to_string(local_step_count);
  out.parameters = gradient_stream_parameters(local_step_count, kStep, kRoundCount);
  out.parameters.steps->step_rule = StepRule::kFixed;
  const auto workload = std::make_shared<ArrivingPca>(arrivals, seed);
  out.workload = workload;
  out.arrive = [workload](uint32_t round) { workload->arrive(round); };
  return out;
}

std::vector<Case> online_cases(const Request& request) {
  std::vector<Case> cases;
  for (const uint32_t k : {1, 4, 8}) {
    cases.push_back(online_case("all", Arrivals::kNone, k, request.seed));
  }
  for (const uint32_t k : {1, 4}) {
    cases.push_back(online_case("grow", Arrivals::kGrow, k, request.seed));
  }
  Case& batch = cases.emplace_back(online_case("grow/batch16", Arrivals::kGrow, 4, request.seed));
  batch.parameters.local->batch_mode = BatchMode::kCommon;
  batch.parameters.local->batch_size = 16;
  cases.push_back(online_case("ring", Arrivals::kRing, 4, request.seed));
  cases.push_back(online_case("frozen", Arrivals::kFrozen, 4, request.seed));
  return cases;
}

// Largest excess from round `from` to round `to`.
double worst(const Curve& curve, uint32_t from, uint32_t to) {
  double most = 0;
  for (const CurvePoint& point : curve.points) {
    if (point.round >= from && point.round <= to) {
      most = std::fmax(most, point.measures.excess);
    }
  }
  return most;
}

void online_judge(const Curves& curves, const Request&, Judgement* judgement) {
  const auto excess = [&](const char* key, uint32_t round) { return curves.at(key).excess_at(round); };
  const auto at_end = [&](const char* key) { return excess(key, kRoundCount); };
  const double first = excess("grow/K4", 0);
  judgement->check("grow/K4 stays within a hundredth of the first gap while samples arrive, from round 20 on: " +
                       figure(worst(curves.at("grow/K4"), kTracking, kRoundCount)) + " of " + figure(first),
                   worst(curves.at("grow/K4"), kTracking, kRoundCount) < first / 100);
  judgement->check("grow/K4 ends a thousand times below the run that has the first samples alone: " +
                       figure(at_end("grow/K4")) + ", " + figure(at_end("frozen/K4")),
                   at_end("grow/K4") < at_end("frozen/K4") / 1000);
  judgement->check("grow/K4 ends where the run ends that had all samples from the start: " +
                       figure(at_end("grow/K4") / at_end("all/K4"), 6),
                   std::fabs(at_end("grow/K4") / at_end("all/K4") - 1) < 0.05);
  judgement->claim("samples that arrive are learned from: the gap to the optimum of the data so far falls (ours)",
                   excess("grow/K4", kArrived) < worst(curves.at("grow/K4"), kTracking, kArrived) / 10,
                   "largest gap from round 20 on " + figure(worst(curves.at("grow/K4"), kTracking, kArrived)) +
                       ", at round 150 " + figure(excess("grow/K4", kArrived)) + "; with the first samples alone " +
                       figure(excess("frozen/K4", kArrived)));
  const double one_step = worst(curves.at("grow/K1"), kSettled, kArrived);
  const double four_steps = worst(curves.at("grow/K4"), kSettled, kArrived);
  judgement->claim("more local steps follow what arrives more closely (ours)", four_steps < one_step,
                   "largest gap from round 40 on: K = 1 " + figure(one_step) + ", K = 4 " + figure(four_steps));
  judgement->claim(
      "a ring of 64 samples follows the last ones (ours)",
      worst(curves.at("ring/K4"), kTracking, kRoundCount) < first / 100,
      "largest gap to the optimum of the last 64: " + figure(worst(curves.at("ring/K4"), kTracking, kRoundCount)) +
          ", at the end " + figure(at_end("ring/K4")));
  judgement->claim("Stiefel PCA: more local steps, faster (later code of 000's authors)",
                   excess("all/K4", 10) < excess("all/K1", 10) && excess("all/K8", 5) < excess("all/K4", 5),
                   "excess at round 10 for K = 1, 4: " + figure(excess("all/K1", 10)) + ", " +
                       figure(excess("all/K4", 10)) + "; at round 5 for K = 4, 8: " + figure(excess("all/K4", 5)) +
                       ", " + figure(excess("all/K8", 5)));
  judgement->claim("Stiefel PCA: a fixed step ends at a floor that grows with K",
                   at_end("all/K1") < at_end("all/K4") && at_end("all/K4") < at_end("all/K8"),
                   "excess at round 200 for K = 1, 4, 8: " + figure(at_end("all/K1")) + ", " +
                       figure(at_end("all/K4")) + ", " + figure(at_end("all/K8")));
}

}  // namespace

const Experiment kOnline = {"online",
                            "Samples that arrive during the run, PCA on Stiefel",
                            online_cases,
                            online_judge,
                            nullptr,
                            "excess",
                            "@(grow*|ring*|frozen*) all/*"};

}  // namespace gradstream
