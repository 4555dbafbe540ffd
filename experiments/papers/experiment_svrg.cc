// Variance-reduced federated learning (002): RFedSVRG, -2BB and -2BBS against RFedAvg and RFedProx on the Karcher mean
// of SPD matrices (X7), PCA on the sphere (X8), kernel PCA of small tables (X9) and of MNIST (X10).
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "experiments/harness/experiment.h"
#include "experiments/papers/svrg_components.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr double kStopBelow = 1e-13;
constexpr double kProximal = 0.1;  // mu of RFedProx; the work gives none

enum class Algorithm { kAvg, kProx, kSvrg, k2bb, k2bbs };
struct Named {
  Algorithm algorithm;
  const char* name;
};
constexpr std::array<Named, 5> kAlgorithms = {{{Algorithm::kAvg, "Avg"},
                                               {Algorithm::kProx, "Prox"},
                                               {Algorithm::kSvrg, "SVRG"},
                                               {Algorithm::k2bb, "2BB"},
                                               {Algorithm::k2bbs, "2BBS"}}};

// What the work leaves open: the curvature's form, (23) or (24), and Option 1 or 2, the last local iterate or a drawn
// one.
struct Options {
  const char* name;
  BarzilaiBorwein form;
  Iterate iterate;
};
constexpr Options kUsual = {"", BarzilaiBorwein::kFirst, Iterate::kLast};
constexpr Options kSecondForm = {"second", BarzilaiBorwein::kSecond, Iterate::kLast};
constexpr Options kDrawnIterate = {"uniform", BarzilaiBorwein::kFirst, Iterate::kUniform};

// What a setting has in common for all algorithms.
struct Setting {
  std::string prefix;
  std::shared_ptr<const Workload> workload;
  double step;
  double step_max;  // of -2BBS; also eta_0, which the work does not give
  double step_min;
  uint32_t tau;
  uint32_t cohort_size;
  uint32_t round_count;
  Options options = kUsual;
};

Case make_case(const Setting& setting, const Named& named) {
  Case out;
  out.key = setting.prefix + "/" + named.name;
  out.workload = setting.workload;
  out.stop_below = kStopBelow;
  out.parameters = gradient_stream_parameters(setting.tau, setting.step, setting.round_count);
  RunParameters& p = out.parameters;
  const bool is_reduced = named.algorithm >= Algorithm::kSvrg;
  p.local->solver = is_reduced ? SolverId::kSvrg : SolverId::kTangentMean;
  p.steps->step_rule = StepRule::kFixed;
  if (setting.workload->manifold() == ManifoldId::kStiefel) {
    p.model->retraction =
        RetractionKind::kPolarFormal;  // as the works: their steps leave the region of the true inverse
  }
  p.local->proximal = static_cast<Real>(named.algorithm == Algorithm::kProx ? kProximal : 0);
  if (named.algorithm >= Algorithm::k2bb) {
    p.local->barzilai_borwein = setting.options.form;
  }
  if (is_reduced) {
    p.local->iterate = setting.options.iterate;
  }
  if (named.algorithm == Algorithm::k2bbs) {
    p.steps->step_rule = StepRule::kBarzilaiBorwein;
    p.steps->step_size = static_cast<Real>(setting.step_max);
    p.steps->step_min = static_cast<Real>(setting.step_min);
    p.steps->step_max = static_cast<Real>(setting.step_max);
  }
  if (setting.cohort_size < setting.workload->device_count()) {
    p.cohort->participation = Participation::kSchemeOne;
    p.cohort->cohort_size = setting.cohort_size;
  }
  return out;
}

std::string rounds_text(uint32_t rounds) { return rounds == UINT32_MAX ? "never" : std::to_string(rounds); }

// "17/26": rounds to the two bounds.
std::string rounds_text(const Curve& curve, double first, double second) {
  return rounds_text(curve.rounds_to(first)) + "/" + rounds_text(curve.rounds_to(second));
}

// The three claims that the work makes everywhere.
void claim_order(const Curves& curves, const std::string& prefix, double bound, Judgement* judgement) {
  const auto rounds = [&](const char* name) { return curves.at(prefix + "/" + name).rounds_to(bound); };
  const std::string evidence = "rounds to a gradient norm of " + figure(bound) + ": SVRG " +
                               rounds_text(rounds("SVRG")) + ", 2BB " + rounds_text(rounds("2BB")) + ", 2BBS " +
                               rounds_text(rounds("2BBS"));
  judgement->claim(prefix + ": RFedSVRG-2BBS is the fastest",
                   rounds("2BBS") < rounds("SVRG") && rounds("2BBS") < rounds("2BB"), evidence);
  judgement->claim(prefix + ": RFedSVRG-2BB is faster than RFedSVRG", rounds("2BB") < rounds("SVRG"), evidence);
}

// The work's word for it: the gradient norm no longer falls. Each against the best of the family.
void claim_stall(const Curves& curves, const std::string& prefix, Judgement* judgement) {
  const auto last = [&](const char* name) { return curves.at(prefix + "/" + name).points.back().measures.grad_norm; };
  const double best = std::min({last("SVRG"), last("2BB"), last("2BBS")});
  for (const char* name : {"Avg", "Prox"}) {
    judgement->claim(prefix + ": RFed" + name + " stalls with a part of the devices", last(name) > 1e3 * best,
                     "last gradient norm: RFed" + std::string(name) + " " + figure(last(name)) +
                         ", the best of RFedSVRG, -2BB, -2BBS " + figure(best));
  }
}

// The work's figures of the angle: how far the last model is from the leading eigenspace.
void claim_angle(const Curves& curves, const std::string& prefix, Judgement* judgement) {
  const auto last = [&](const char* name) { return curves.at(prefix + "/" + name).points.back().measures.other; };
  judgement->claim(prefix + ": RFedSVRG-2BBS ends at the smallest principal angle",
                   last("2BBS") < std::min({last("Avg"), last("Prox"), last("SVRG"), last("2BB")}),
                   "largest principal angle at the end: RFedAvg " + figure(last("Avg")) + ", RFedProx " +
                       figure(last("Prox")) + ", SVRG " + figure(last("SVRG")) + ", 2BB " + figure(last("2BB")) +
                       ", 2BBS " + figure(last("2BBS")));
}

// ---- X7 ----

// Of a round that a device is missing in; nobody comes near it otherwise. Reason: virtual time, in which the others ask
// again every millisecond.
constexpr uint32_t kDeadlineMs = 100;

// A float takes no matrix of a worse condition: a quarter of 1 / epsilon. Of X7's seeds 1 to 30 eight have one,
// which in double are what long steps do not survive.
constexpr double kFloatConditionMax = 2e6;
// With such a matrix, so many steps of a size that does not know it leave SPD in double as well (the reference's own
// scripts end there too); those of 2BBS, which are as long as the curvature allows, do not.
constexpr uint32_t kLongTau = 7;
// Above the floor of the gradient norm in float, 1e-4 to 1e-3: what Barzilai-Borwein steps are there is a quotient of
// two roundings, now and then one that no device can take.
constexpr double kFloatFloor = 1e-3;

Case karcher_case(const Setting& setting, const Named& named, bool is_ill) {
  Case out = make_case(setting, named);
  out.parameters.fold->fold_scale_log2 = 18;  // entries of matrices of condition 1e4 and more
  // A device whose matrix is too ill-conditioned for a float refuses its tasks: rounds then close without it.
  out.may_lose_devices = !kIsDouble;
  // (24) of 2BB diverges with such a matrix at five local steps.
  if (kIsDouble && is_ill && named.algorithm != Algorithm::k2bbs &&
      (setting.tau >= kLongTau || setting.options.form == BarzilaiBorwein::kSecond)) {
    out.expected_fault = "task_refused";
  }
  if (!kIsDouble) {
    out.stop_below = kFloatFloor;
    // Without that device some rounds have too few answers, and of 2BB's curvatures some are of another function.
    out.expected_fault = is_ill ? "round_extended" : "";
    out.parameters.trigger->update_min = std::max(1U, setting.cohort_size / 2);
    out.parameters.trigger->report_deadline_ms = kDeadlineMs;
  }
  return out;
}

std::vector<Case> x7_cases(const Request& request) {
  struct Pair {
    uint32_t cohort_size;
    uint32_t tau;
  };
  const std::shared_ptr<const Workload> workload = make_karcher(request.seed);
  const bool is_ill = karcher_condition(request.seed) > kFloatConditionMax;
  std::vector<Case> cases;
  const auto add = [&](const std::string& word, const Pair& pair, const Options& options, Algorithm first) {
    const std::string prefix = "karcher/" + word + "/tau" + std::to_string(pair.tau);
    for (const Named& named : kAlgorithms) {
      if (named.algorithm >= first) {
        cases.push_back(
            karcher_case({prefix, workload, 0.2, 0.8, 0.008, pair.tau, pair.cohort_size, 150, options}, named, is_ill));
      }
    }
  };
  for (const Pair& pair : {Pair{5, 2}, Pair{10, 2}, Pair{1, 2}, Pair{5, 5}, Pair{5, 7}, Pair{5, 10}}) {
    const bool has_averages = pair.tau == 2 && pair.cohort_size > 1;
    add("k" + std::to_string(pair.cohort_size), pair, kUsual, has_averages ? Algorithm::kAvg : Algorithm::kSvrg);
  }
  add(kSecondForm.name, {5, 2}, kSecondForm, Algorithm::k2bb);
  add(kSecondForm.name, {5, 5}, kSecondForm, Algorithm::k2bb);
  add(kDrawnIterate.name, {5, 5}, kDrawnIterate, Algorithm::kSvrg);
  return cases;
}

// What the reference needs for gradient norms of 1e-6 and 1e-10, seeds 1 and 2, to a round.
struct ReferenceRounds {
  const char* key;
  std::array<uint32_t, 2> first;   // to 1e-6
  std::array<uint32_t, 2> second;  // to 1e-10
};
constexpr std::array<ReferenceRounds, 15> kKarcherRounds = {{{"k5/tau2/SVRG", {17, 16}, {26, 25}},
                                                             {"k5/tau2/2BB", {17, 16}, {26, 26}},
                                                             {"k5/tau2/2BBS", {12, 13}, {19, 19}},
                                                             {"k5/tau5/SVRG", {12, 18}, {19, 29}},
                                                             {"k5/tau5/2BB", {11, 12}, {18, 21}},
                                                             {"k5/tau5/2BBS", {15, 15}, {23, 23}},
                                                             {"k5/tau7/SVRG", {13, 21}, {21, 34}},
                                                             {"k5/tau7/2BB", {14, 15}, {22, 25}},
                                                             {"k5/tau7/2BBS", {15, 15}, {24, 24}},
                                                             {"second/tau2/2BB", {16, 16}, {25, 25}},
                                                             {"second/tau2/2BBS", {12, 12}, {19, 19}},
                                                             {"second/tau5/2BBS", {15, 15}, {23, 23}},
                                                             {"uniform/tau5/SVRG", {20, 22}, {32, 33}},
                                                             {"uniform/tau5/2BB", {20, 22}, {32, 33}},
                                                             {"uniform/tau5/2BBS", {41, 40}, {64, 62}}}};

// The gradient norm's rounding, some times the floor that runs in double come to (1e-13 to 1.5e-12): with seed 2 SVRG
// is at 1.003e-10 in the round in which the reference is just below 1e-10.
constexpr double kDoubleFloor = 5e-12;

// Whether the curve is at the bound in that round for the first time, but for rounding.
bool reaches(const Curve& curve, double bound, uint32_t round) {
  const auto norm = [&](uint32_t of) { return curve.at(of).measures.grad_norm; };
  return curve.points.size() > round && norm(round) <= bound + kDoubleFloor &&
         (round == 0 || norm(round - 1) > bound - kDoubleFloor);
}

void check_karcher_rounds(const Curves& curves, uint32_t seed, Judgement* judgement) {
  for (const ReferenceRounds& row : kKarcherRounds) {
    const Curve& curve = curves.at(std::string("karcher/") + row.key);
    judgement->check(std::string(row.key) + ", rounds to 1e-6 and 1e-10: " + rounds_text(curve, 1e-6, 1e-10) +
                         ", of the reference " + std::to_string(row.first[seed - 1]) + "/" +
                         std::to_string(row.second[seed - 1]),
                     reaches(curve, 1e-6, row.first[seed - 1]) && reaches(curve, 1e-10, row.second[seed - 1]));
  }
}

// A device whose matrix no float takes is refused by name, and the others train on without it.
void check_refusal(const Curves& curves, Judgement* judgement) {
  std::string refusal;
  uint32_t refused_count = 0;
  uint32_t finished_count = 0;
  for (const auto& [key, curve] : curves) {
    refused_count += curve.refusal.empty() ? 0 : 1;
    const bool has_finished = curve.fault.empty() && !curve.refusal.empty();
    finished_count += has_finished ? 1 : 0;
    refusal = curve.refusal.empty() ? refusal : curve.refusal;
  }
  if (refused_count > 0) {
    judgement->check("a device is refused by name and reason (" + refusal +
                         "), the others finish: " + std::to_string(finished_count) + " of " +
                         std::to_string(refused_count) + " runs; with one device a round there are no others in some",
                     finished_count > 0 && refusal.find("device") != std::string::npos);
  }
}

// The robustness that an ill-conditioned matrix is kept for.
void check_scaled_converges(const Curves& curves, Judgement* judgement) {
  double worst = 0;
  bool has_fault = false;
  for (const auto& [key, curve] : curves) {
    if (key.ends_with("/2BBS")) {
      has_fault = has_fault || !curve.fault.empty();
      worst = std::max(worst, curve.points.back().measures.grad_norm);
    }
  }
  judgement->check("RFedSVRG-2BBS converges with an ill-conditioned matrix whatever tau is: last gradient norms of " +
                       figure(worst) + " at most, wanted 1e-6",
                   !has_fault && worst <= 1e-6);
}

// The work's figures on the number of local steps and of devices a round.
void claim_steps_and_cohorts(const Curves& curves, double bound, Judgement* judgement) {
  const auto rounds = [&](const std::string& prefix, const char* name) {
    return curves.at("karcher/" + prefix + "/" + name).rounds_to(bound);
  };
  std::string evidence = "rounds to a gradient norm of " + figure(bound) + " with tau = 2, 5, 7, 10:";
  for (const char* name : {"SVRG", "2BB", "2BBS"}) {
    evidence += std::string(" ") + name;
    for (const char* tau : {"2", "5", "7", "10"}) {
      evidence += " " + rounds_text(rounds(std::string("k5/tau") + tau, name));
    }
  }
  const auto is_worse = [&](const char* more, const char* less) {
    return rounds(more, "SVRG") > rounds(less, "SVRG") && rounds(more, "2BB") > rounds(less, "2BB");
  };
  judgement->claim("karcher/k5: tau = 5 is better than tau = 2", is_worse("k5/tau2", "k5/tau5"), evidence);
  judgement->claim("karcher/k5: tau = 7 is not as good as tau = 5", is_worse("k5/tau7", "k5/tau5"), evidence);
  const auto last = [&](const char* cohort) {
    return curves.at(std::string("karcher/") + cohort + "/tau2/2BB").points.back().measures.grad_norm;
  };
  judgement->claim("karcher/tau2: 2BB with more than one device a round gets further than with one",
                   std::max(last("k5"), last("k10")) < 0.5 * last("k1"),
                   "last gradient norm with k = 1, 5, 10: " + figure(last("k1")) + ", " + figure(last("k5")) + ", " +
                       figure(last("k10")));
}

// What the two options of the work bring, each against the usual one in the same setting.
void claim_options(const Curves& curves, double bound, Judgement* judgement) {
  const auto rounds = [&](const std::string& key) { return curves.at("karcher/" + key).rounds_to(bound); };
  const std::string what = "rounds to a gradient norm of " + figure(bound) + ": ";
  for (const char* tau : {"tau2", "tau5"}) {
    for (const char* name : {"2BB", "2BBS"}) {
      const std::string rest = std::string("/") + tau + "/" + name;
      judgement->claim(
          "karcher" + rest + ": the second form of the curvature, (24), is as fast as the first, (23)",
          rounds("second" + rest) <= rounds("k5" + rest),
          what + "(23) " + rounds_text(rounds("k5" + rest)) + ", (24) " + rounds_text(rounds("second" + rest)));
    }
  }
  for (const char* name : {"SVRG", "2BB", "2BBS"}) {
    const std::string rest = std::string("/tau5/") + name;
    // The drawn iterate has made 2 of 5 steps on average.
    judgement->claim(
        "karcher" + rest + ": Option 2, a drawn iterate, comes as far in 5/2 as many rounds as Option 1",
        rounds("uniform" + rest) <= 2.5 * rounds("k5" + rest),
        what + "Option 1 " + rounds_text(rounds("k5" + rest)) + ", Option 2 " + rounds_text(rounds("uniform" + rest)));
  }
}

void x7_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  const auto& svrg = curves.at("karcher/k5/tau2/SVRG");
  const auto& scaled = curves.at("karcher/k5/tau2/2BBS");
  const Curve& average = curves.at("karcher/k5/tau2/Avg");
  const double stalled = average.points.back().measures.grad_norm;
  check_refusal(curves, judgement);
  judgement->check("RFedAvg stalls at a gradient norm of order 1 to 20: " + figure(stalled),
                   average.fault.empty() && stalled > 1 && stalled < 20);
  judgement->check_seeds(request.seed, 2, "RFedAvg's last gradient norm", stalled, 5.2, 1.15);
  if (kIsDouble && request.seed <= 2) {
    check_karcher_rounds(curves, request.seed, judgement);
  }
  if (kIsDouble && karcher_condition(request.seed) > kFloatConditionMax) {
    check_scaled_converges(curves, judgement);
  }
  const bool is_ill = !svrg.refusal.empty();  // the measure still has the device that the run lost
  const double reached = kIsDouble ? 1e-6 : 1e-1;
  const uint32_t svrg_max = kIsDouble ? 40 : 7;
  const uint32_t scaled_max = kIsDouble ? 40 : 5;
  if (!is_ill) {
    judgement->check("RFedSVRG reaches " + figure(reached) + " within " + std::to_string(svrg_max) +
                         " rounds: " + rounds_text(svrg.rounds_to(reached)),
                     svrg.rounds_to(reached) <= svrg_max);
    judgement->check(
        "RFedSVRG-2BBS reaches it within " + std::to_string(scaled_max) + ": " + rounds_text(scaled.rounds_to(reached)),
        scaled.rounds_to(reached) <= scaled_max);
  }
  for (const char* prefix : {"karcher/k5/tau2", "karcher/k1/tau2", "karcher/k5/tau5", "karcher/k5/tau10"}) {
    claim_order(curves, prefix, kIsDouble ? 1e-10 : 1e-1, judgement);
  }
  claim_steps_and_cohorts(curves, kIsDouble ? 1e-10 : 1e-1, judgement);
  claim_options(curves, kIsDouble ? 1e-10 : 1e-1, judgement);
  claim_stall(curves, "karcher/k5/tau2", judgement);
}

// ---- X8 ----

// Theorems 5 and 6 of 002, of Option 2: tau >= 24 zeta^2, and steps of eta_max / tau with eta_max <= 3 / (2 L). On the
// sphere zeta is 1. L is the largest eigenvalue of a device's A_i / p, with seeds 1 to 5 at most 12.4: 3 / (2 L) =
// 0.121.
constexpr uint32_t kTheoremTau = 24;
constexpr double kTheoremStepMax = 0.12;
constexpr uint32_t kTheoremRounds = 400;
// With these bounds 2BBS is 2BB, so that it runs for so many rounds only. Reason: its step is min(1 / b, eta_max) /
// tau, and b is a curvature of the mean cost, 1 at most. The bound of eta_max is of a single device, which is 12 times
// as curved. The two part where the mean cost has two thirds of the curvature of the most curved device.
constexpr uint32_t kSameStepRounds = 30;
constexpr uint32_t kSecondFormRounds = 200;

// Of 100 devices with A_i divided by its samples: one device a round, which the theorems are of, or n / 10.
void add_pca_options(const std::shared_ptr<const Workload>& workload, std::vector<Case>* cases) {
  const Setting second = {"second/n100", workload, 2e-2, 3e-1, 3e-4, 2, 10, kSecondFormRounds, kSecondForm};
  const Setting drawn = {
      "uniform/n100", workload,     kTheoremStepMax / kTheoremTau, kTheoremStepMax, 3e-4, kTheoremTau, 1,
      kTheoremRounds, kDrawnIterate};
  for (const Setting& setting : {second, drawn}) {
    for (const Named& named : kAlgorithms) {
      if (named.algorithm >= Algorithm::k2bb) {
        Case& one = cases->emplace_back(make_case(setting, named));
        one.parameters.model->retraction = RetractionKind::kExponential;
        if (setting.tau == kTheoremTau && named.algorithm == Algorithm::k2bbs) {
          one.parameters.trigger->round_count = kSameStepRounds;
        }
      }
    }
  }
}

std::vector<Case> x8_cases(const Request& request) {
  std::vector<Case> cases;
  for (const bool is_covariance : {true, false}) {
    for (const uint32_t device_count : {50, 100, 200}) {
      const std::shared_ptr<const Workload> workload = make_pca(device_count, is_covariance, request.seed);
      const std::string prefix = std::string(is_covariance ? "cov" : "printed") + "/n" + std::to_string(device_count);
      for (const Named& named : kAlgorithms) {
        cases.push_back(make_case({prefix, workload, 2e-2, 3e-1, 3e-4, 2, device_count / 10, 500}, named));
        cases.back().parameters.model->retraction = RetractionKind::kExponential;
      }
      if (is_covariance && device_count == 100) {
        add_pca_options(workload, &cases);
      }
    }
  }
  return cases;
}

// The sum of the squared gradient norms of the rounds before `count`.
double sum_of_squares(const Curve& curve, uint32_t count) {
  double sum = 0;
  for (const CurvePoint& point : curve.points) {
    sum += point.round < count ? point.measures.grad_norm * point.measures.grad_norm : 0;
  }
  return sum;
}

// What the theorems say: the mean of the squared gradient norm over T rounds falls as 1 / T. Then the sum is bounded,
// and the second half of the rounds adds little to it.
void claim_theorems(const Curves& curves, Judgement* judgement) {
  constexpr double kSumGrowthMax = 1.25;
  const Curve& curve = curves.at("uniform/n100/2BB");
  const double half = sum_of_squares(curve, kTheoremRounds / 2);
  const double all = sum_of_squares(curve, kTheoremRounds);
  judgement->claim(
      "uniform/n100: the mean squared gradient norm falls as 1 / T (Theorems 5, 6: Option 2, tau = 24 zeta^2, "
      "eta_max <= 3 / (2 L))",
      all < kSumGrowthMax * half,
      "sum over 200 and 400 rounds " + figure(half) + ", " + figure(all) + "; by eta_max over the excess at first " +
          figure(all * kTheoremStepMax / curve.points.front().measures.excess));
  const Curve& scaled = curves.at("uniform/n100/2BBS");
  const bool is_same = std::all_of(scaled.points.begin(), scaled.points.end(), [&](const CurvePoint& point) {
    return point.measures.grad_norm == curve.at(point.round).measures.grad_norm;
  });
  judgement->check("uniform/n100: 2BBS takes the steps of 2BB, eta_max / tau, for its " +
                       std::to_string(scaled.points.back().round) + " rounds",
                   is_same && scaled.points.back().round == kSameStepRounds);
}

// (24) against (23) at the last round that (24) has.
void claim_second_form(const Curves& curves, Judgement* judgement) {
  for (const char* name : {"2BB", "2BBS"}) {
    const double first = curves.at(std::string("cov/n100/") + name).at(kSecondFormRounds).measures.grad_norm;
    const double second = curves.at(std::string("second/n100/") + name).at(kSecondFormRounds).measures.grad_norm;
    judgement->claim(
        std::string("cov/n100/") + name + ": the second form of the curvature, (24), gets as far as the first, (23)",
        second <= 1.01 * first, "gradient norm at round 200: (23) " + figure(first) + ", (24) " + figure(second));
  }
}

void x8_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  const auto at = [&](const std::string& key, uint32_t round) { return curves.at(key).at(round).measures.grad_norm; };
  // Two digits of the reference. 2BBS as printed wanders before it converges: there a float comes as low, no more.
  struct Wanted {
    const char* key;
    std::array<double, 3> norms;  // at rounds 100, 200, 500
    double factor;
  };
  constexpr double kDigits = 1.06;
  for (const Wanted& wanted :
       {Wanted{"printed/n200/Avg", {12, 13, 13}, 1.15}, Wanted{"printed/n200/SVRG", {.14, .048, 3.5e-3}, kDigits},
        Wanted{"printed/n200/2BB", {.12, .039, 2.3e-3}, kDigits},
        Wanted{"printed/n200/2BBS", {.084, .077, 9.4e-4}, kIsDouble ? kDigits : 3},
        Wanted{"cov/n100/Avg", {.15, .11, .090}, kDigits}, Wanted{"cov/n100/SVRG", {.14, .084, .033}, kDigits},
        Wanted{"cov/n100/2BBS", {.016, .0059, .0031}, kDigits}}) {
    constexpr std::array<uint32_t, 3> kRounds = {100, 200, 500};
    const bool wanders = !kIsDouble && std::string(wanted.key) == "printed/n200/2BBS";
    for (size_t i = wanders ? kRounds.size() - 1 : 0; i < kRounds.size(); ++i) {
      judgement->check_seeds(request.seed, 1,
                             std::string(wanted.key) + ", gradient norm at round " + std::to_string(kRounds[i]),
                             at(wanted.key, kRounds[i]), wanted.norms[i], wanted.factor);
    }
  }
  judgement->check_near("A_i / p, n = 100, 2BB over SVRG, equal to 3 digits",
                        at("cov/n100/2BB", 500) / at("cov/n100/SVRG", 500), 1, 1.005);
  judgement->claim("with A_i as printed every n of the work converges",
                   at("printed/n50/SVRG", 500) < 1 && at("printed/n100/SVRG", 500) < 1,
                   "RFedSVRG, gradient norm at round 500 for n = 50, 100, 200: " + figure(at("printed/n50/SVRG", 500)) +
                       ", " + figure(at("printed/n100/SVRG", 500)) + ", " + figure(at("printed/n200/SVRG", 500)));
  for (const char* prefix : {"printed/n200", "cov/n100"}) {
    const std::string name = prefix;
    const std::string evidence = "gradient norm at round 500: SVRG " + figure(at(name + "/SVRG", 500)) + ", 2BB " +
                                 figure(at(name + "/2BB", 500)) + ", 2BBS " + figure(at(name + "/2BBS", 500));
    judgement->claim(name + ": RFedSVRG-2BBS is the fastest",
                     at(name + "/2BBS", 500) < std::min(at(name + "/2BB", 500), at(name + "/SVRG", 500)), evidence);
    // Less than a hundredth apart is the same curve.
    judgement->claim(name + ": RFedSVRG-2BB is faster than RFedSVRG",
                     at(name + "/2BB", 500) < 0.99 * at(name + "/SVRG", 500), evidence);
    for (const char* average : {"/Avg", "/Prox"}) {
      const Curve& curve = curves.at(name + average);
      judgement->claim(name + ": RFed" + (average + 1) + " stalls with a part of the devices",
                       curve.points.back().measures.grad_norm > 0.5 * curve.at(100).measures.grad_norm,
                       "gradient norm at round 100 and the last, " + std::to_string(curve.points.back().round) + ": " +
                           figure(curve.at(100).measures.grad_norm) + ", " +
                           figure(curve.points.back().measures.grad_norm));
    }
  }
  claim_second_form(curves, judgement);
  claim_theorems(curves, judgement);
  judgement->claim("gradient norms of 1e-13 within 500 rounds", at("printed/n200/2BBS", 500) < 1e-12,
                   "best: " + figure(at("printed/n200/2BBS", 500)) + "; the eigenvalue gap is 0.3 %");
}

// ---- X9 ----

std::vector<Case> x9_cases(const Request& request) {
  struct TableSetting {
    const char* name;
    double step;
    double step_max;
    double step_min;
  };
  std::vector<Case> cases;
  for (const TableSetting& table : {TableSetting{"iris", .1, .25, .0025}, TableSetting{"wine", .1, .2, .002},
                                    TableSetting{"breast_cancer", .02, .05, .0005}}) {
    for (const char* preparation : {"zscore", "zrownorm", "minmax", "rownorm", "colnorm", "zcolnorm"}) {
      // Gradients of columns of length 1 are small; the long steps of the others have lifts of some hundred.
      const bool is_small = std::string(preparation).find("colnorm") != std::string::npos;
      const std::shared_ptr<const Workload> workload = make_kpca_table(table.name, preparation, request.seed);
      for (const Named& named : kAlgorithms) {
        constexpr double kUnit = kTableUnit * kTableUnit;
        cases.push_back(make_case({std::string(table.name) + "/" + preparation, workload, table.step * kUnit,
                                   table.step_max * kUnit, table.step_min * kUnit, 5, 5, 300},
                                  named));
        cases.back().parameters.local->proximal /= static_cast<Real>(kUnit);  // as gradients are
        cases.back().parameters.fold->fold_scale_log2 = is_small ? 28 : 22;
      }
    }
  }
  return cases;
}

// Rounds of the reference, run with each of these seeds. Those of 2BBS with z-scores are rounding's to a tenth (another
// BLAS makes 98 of iris' 96), those that converge by a factor a round are the reference's.
void check_table_rounds(const Curves& curves, uint32_t seed, Judgement* judgement) {
  struct Wanted {
    const char* key;
    double bound;
    std::array<double, 3> rounds;  // with seeds 1 to 3
    double factor;
  };
  constexpr double kRounding = 1.1;
  constexpr double kOneRound = 1.02;
  for (const Wanted& wanted : {Wanted{"iris/zscore/2BBS", 1e-13, {96, 105, 98}, kRounding},
                               Wanted{"wine/zscore/2BBS", 1e-13, {44, 44, 41}, kRounding},
                               Wanted{"breast_cancer/zscore/2BBS", 1e-10, {69, 59, 74}, kRounding},
                               Wanted{"iris/zrownorm/SVRG", 1e-13, {63, 71, 61}, kOneRound},
                               Wanted{"wine/zrownorm/SVRG", 1e-13, {133, 138, 130}, kOneRound},
                               Wanted{"breast_cancer/zrownorm/SVRG", 1e-13, {173, 165, 170}, kOneRound},
                               Wanted{"iris/zrownorm/2BB", 1e-13, {62, 71, 61}, kOneRound},
                               Wanted{"wine/zrownorm/2BB", 1e-13, {125, 135, 126}, kOneRound},
                               Wanted{"breast_cancer/zrownorm/2BB", 1e-13, {171, 161, 171}, kOneRound},
                               Wanted{"iris/zrownorm/2BBS", 1e-13, {132, 146, 125}, kOneRound}}) {
    const uint32_t rounds = curves.at(wanted.key).rounds_to(wanted.bound);
    const std::string what = std::string(wanted.key) + ", rounds to " + figure(wanted.bound);
    if (seed >= 1 && seed <= wanted.rounds.size()) {
      judgement->check_near(what, rounds, wanted.rounds[seed - 1], wanted.factor);
    } else {
      judgement->note("evidence   " + what + ": " + (rounds == UINT32_MAX ? "never" : std::to_string(rounds)));
    }
  }
  for (const char* key : {"wine/zrownorm/2BBS", "breast_cancer/zrownorm/2BBS"}) {
    judgement->check(std::string(key) + " is not at 1e-13 in 300 rounds",
                     curves.at(key).rounds_to(kStopBelow) == UINT32_MAX);
  }
}

void x9_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  if (kIsDouble) {
    check_table_rounds(curves, request.seed, judgement);
  }
  for (const char* table : {"iris", "wine", "breast_cancer"}) {
    const std::string prefix = std::string(table) + "/zscore";
    const Curve& scaled = curves.at(prefix + "/2BBS");
    const double bound = (kIsDouble ? 1e-10 : 1e-4) * scaled.points.front().measures.grad_norm;
    judgement->check(prefix + ", RFedSVRG-2BBS comes down to " + figure(bound) +
                         " within 200 rounds: " + rounds_text(scaled.rounds_to(bound)),
                     scaled.rounds_to(bound) <= 200);
    for (const char* other : {"/Avg", "/Prox", "/SVRG", "/2BB"}) {
      const Curve& curve = curves.at(prefix + other);
      judgement->check(
          prefix + other + " does not converge: last gradient norm " + figure(curve.points.back().measures.grad_norm),
          curve.points.back().measures.grad_norm > 1e-2 * curve.points.front().measures.grad_norm);
    }
    for (const char* preparation : {"/zscore", "/zrownorm"}) {
      const std::string name = std::string(table) + preparation;
      claim_order(curves, name, kIsDouble ? 1e-10 : 1e-4, judgement);
      claim_stall(curves, name, judgement);
      claim_angle(curves, name, judgement);
    }
    judgement->claim(prefix + ": RFedSVRG-2BBS reaches 1e-13", scaled.rounds_to(kStopBelow) != UINT32_MAX,
                     "rounds to 1e-6/1e-13: " + rounds_text(scaled, 1e-6, kStopBelow));
  }
  judge_components(curves, judgement);
}

// ---- X10 ----

std::vector<Case> x10_cases(const Request& request) {
  const std::shared_ptr<const Workload> workload = make_mnist_kpca(request.data_folder, request.seed);
  std::vector<Case> cases;
  if (workload == nullptr) {
    return cases;
  }
  // x6: steps that are to a device's 50 images what those of the work are to its 300.
  for (const auto& [label, factor] : {std::pair{"paper", 1.0}, std::pair{"x6", 6.0}}) {
    for (const Named& named : kAlgorithms) {
      const double unit = factor * kGreyUnit * kGreyUnit;
      cases.push_back(make_case({label, workload, 2e-10 * unit, 3e-8 * unit, 3e-12 * unit, 5, 20, 200}, named));
      cases.back().parameters.local->proximal /= static_cast<Real>(kGreyUnit * kGreyUnit);  // as gradients are
    }
  }
  return cases;
}

void x10_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  const auto angle = [&](const char* name) { return curves.at(std::string("paper/") + name).at(200).measures.other; };
  const auto angle_x6 = [&](const char* name) { return curves.at(std::string("x6/") + name).at(200).measures.other; };
  // A float's angles bottom out near the root of its rounding, 3e-4.
  judgement->check("RFedSVRG-2BBS, largest principal angle at round 200 below 3e-4: " + figure(angle("2BBS")),
                   angle("2BBS") < 3e-4);
  if (kIsDouble) {
    judgement->check_seeds(request.seed, 1, "the same", angle("2BBS"), 2.8e-5, 1.05);
  }
  // By what factor the tangent of the angle falls, as in a power method: with seeds 1 to 8 by 7 to 16, wherever the
  // start is; 2BBS' by some 10^6.
  constexpr double kSlowFactor = 20;
  for (const char* slow : {"Avg", "Prox", "SVRG", "2BB"}) {
    const double first = curves.at(std::string("paper/") + slow).at(0).measures.other;
    judgement->check(std::string(slow) + ", the tangent of the angle falls by less than " + figure(kSlowFactor) +
                         ", from " + figure(first) + " to " + figure(angle(slow)) + " rad",
                     std::tan(first) < kSlowFactor * std::tan(angle(slow)));
  }
  if (request.seed == 1) {
    judgement->check("the others stay above 1.4, the reference's figure of this seed",
                     std::min({angle("Avg"), angle("SVRG"), angle("2BB")}) > 1.4);
  }
  judgement->claim("steps six times as long: RFedSVRG-2BBS is the fastest",
                   angle_x6("2BBS") < angle_x6("SVRG") && angle_x6("2BBS") < angle_x6("2BB"),
                   "largest principal angle at round 200: RFedAvg " + figure(angle_x6("Avg")) + ", SVRG " +
                       figure(angle_x6("SVRG")) + ", 2BB " + figure(angle_x6("2BB")) + ", 2BBS " +
                       figure(angle_x6("2BBS")));
  judgement->claim("RFedSVRG-2BBS is the fastest", angle("2BBS") < angle("SVRG") && angle("2BBS") < angle("2BB"),
                   "largest principal angle at round 200: RFedAvg " + figure(angle("Avg")) + ", RFedProx " +
                       figure(angle("Prox")) + ", SVRG " + figure(angle("SVRG")) + ", 2BB " + figure(angle("2BB")) +
                       ", 2BBS " + figure(angle("2BBS")));
}

}  // namespace

const Experiment kX7 = {"X7",
                        "RFedSVRG family, Karcher mean of SPD matrices",
                        x7_cases,
                        x7_judge,
                        nullptr,
                        "grad_norm",
                        "karcher/k5/tau2/* karcher/k5/tau5/* karcher/k5/tau7/* karcher/k5/tau10/*"};
const Experiment kX8 = {"X8",        "RFedSVRG family, PCA on the sphere", x8_cases, x8_judge, nullptr,
                        "grad_norm", "printed/n200/* cov/n200/*"};
const Experiment kX9 = {"X9",
                        "RFedSVRG family, kernel PCA of tables",
                        x9_cases,
                        x9_judge,
                        nullptr,
                        "grad_norm",
                        "iris/zscore/* iris/zrownorm/* wine/zscore/* wine/zrownorm/* "
                        "breast_cancer/zscore/* breast_cancer/zrownorm/*",
                        "round",
                        false,
                        write_angles_and_components};
const Experiment kX10 = {"X10",    "RFedSVRG family, kernel PCA of MNIST", x10_cases, x10_judge, "mnist", "grad_norm",
                         "paper/*"};

}  // namespace gradstream
