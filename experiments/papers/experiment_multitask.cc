// Low-dimensional multitask learning on the Grassmann manifold (000): synthetic tasks (X5) and School (X6), there
// beside centralised methods.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "experiments/harness/experiment.h"
#include "experiments/workloads/baselines.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

// ---- X5 ----

std::vector<Case> x5_cases(const Request& request) {
  const std::shared_ptr<const Workload> workload = make_multitask(request.seed);
  std::vector<Case> cases;
  for (const uint32_t k : {1, 2, 4, 8}) {
    Case& one = cases.emplace_back();
    one.key = "K" + std::to_string(k);
    one.parameters = gradient_stream_parameters(k, 3e-3, 200);
    one.parameters.local->batch_mode = BatchMode::kCommon;
    one.parameters.local->batch_size = 25;
    one.parameters.model->retraction = RetractionKind::kPolar;
    one.parameters.model->transport = TransportKind::kUnaligned;  // as the reference
    one.workload = workload;
  }
  return cases;
}

void x5_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  const auto at = [&](const char* key, uint32_t round) { return curves.at(key).at(round).measures; };
  constexpr uint32_t kSeedMax = 1;  // the reference has no other; of another seed these figures are evidence
  judgement->check_seeds(request.seed, kSeedMax, "K1, cost at round 50", at("K1", 50).excess, 1.2e1, 4);
  judgement->check_seeds(request.seed, kSeedMax, "K1, cost at round 100", at("K1", 100).excess, 4.4e-2, 10);
  judgement->check_seeds(request.seed, kSeedMax, "K2, cost at round 50", at("K2", 50).excess, 5.1e-2, 10);
  judgement->check("K8, cost a millionth of the first by round 200: " + figure(at("K8", 200).excess),
                   at("K8", 200).excess < 1e-6 * at("K8", 0).excess);
  if (kIsDouble) {
    judgement->check("K8 is at the floor of the noise by round 200: cost " + figure(at("K8", 200).excess),
                     at("K8", 200).excess < 1e-10);
    judgement->check_near("K8, distance to the truth at the floor", at("K8", 200).other, 1.5e-7, 3);
  }
  judgement->claim(
      "linear rate, faster with more local steps, and the subspace is found",
      at("K1", 150).excess < at("K1", 100).excess && at("K2", 50).excess < at("K1", 50).excess &&
          at("K4", 50).excess < at("K2", 50).excess && at("K8", 200).other < 1e-3,
      "cost at round 50 for K = 1, 2, 4, 8: " + figure(at("K1", 50).excess) + ", " + figure(at("K2", 50).excess) +
          ", " + figure(at("K4", 50).excess) + ", " + figure(at("K8", 50).excess) +
          "; of K = 1 at rounds 100, 150: " + figure(at("K1", 100).excess) + ", " + figure(at("K1", 150).excess) +
          "; distance to the truth at round 200: " + figure(at("K1", 200).other) + ", " + figure(at("K8", 200).other));
}

// ---- X6 ----

constexpr std::array<uint32_t, 3> kRanks = {3, 4, 5};
constexpr uint32_t kSchoolSeeds = 3;  // of the splits that the figures of the criteria are of

std::string rank_prefix(uint32_t rank) { return "r" + std::to_string(rank); }

// One machine with all schools (docs/baselines.md).
struct NamedBaseline {
  Baseline method;
  const char* name;
};
constexpr std::array<NamedBaseline, 3> kBaselines = {
    {{Baseline::kSteepestDescent, "RSD"}, {Baseline::kConjugateGradient, "RCG"}, {Baseline::kLbfgs, "LBFGS"}}};

Case baseline_case(const std::string& prefix, const NamedBaseline& baseline,
                   const std::shared_ptr<const Workload>& workload) {
  Case one;
  one.key = prefix + "/" + baseline.name;
  one.parameters = gradient_stream_parameters(1, 1e-6, 100);  // of these only the number of rounds counts
  one.workload = workload;
  one.train = [method = baseline.method](const RunParameters& parameters, const Workload& pooled,
                                         const Case::Watcher& watch) {
    BaselineOptions options;
    options.method = method;
    options.iteration_count = parameters.trigger->round_count;
    minimise(pooled_objective(pooled, kGrassmannOps), pooled.start(), options,
             [&](uint32_t iteration, const Matrix& x, double) {
               const std::vector<Real> model(x.data(), x.data() + x.size());
               return watch(iteration, model.data());
             });
  };
  return one;
}

std::vector<Case> x6_cases(const Request& request) {
  std::vector<Case> cases;
  for (const uint32_t rank : kRanks) {
    const std::shared_ptr<const Workload> workload = make_school(request.data_folder, rank, request.seed);
    if (workload == nullptr) {
      return {};
    }
    for (const uint32_t k : {1, 4, 8, 10}) {
      for (const bool is_mean : {false, true}) {
        if (is_mean && k > 1) {
          continue;
        }
        Case& one = cases.emplace_back();
        one.key = rank_prefix(rank) + (is_mean ? "/TM" : "/AGS") + "/K" + std::to_string(k);
        one.parameters = gradient_stream_parameters(k, 1e-6, 100);
        one.parameters.local->solver = is_mean ? SolverId::kTangentMean : SolverId::kGradientStream;
        one.parameters.local->batch_mode = BatchMode::kCommon;
        one.parameters.local->batch_size = 18;
        one.parameters.model->retraction = is_mean ? RetractionKind::kExponential : RetractionKind::kPolar;
        one.parameters.local->local_retraction = RetractionKind::kPolar;
        // As the reference: parallel, not aligned. A tangent mean transports nothing.
        one.parameters.model->transport = is_mean ? TransportKind::kParallel : TransportKind::kSmooth;
        one.parameters.fold->fold_scale_log2 = 20;
        one.workload = workload;
      }
    }
    for (const NamedBaseline& baseline : kBaselines) {
      cases.push_back(baseline_case(rank_prefix(rank), baseline, workload));
    }
  }
  return cases;
}

// The least test error over the rounds, at its first round.
CurvePoint best_point(const Curve& curve) {
  const auto is_less = [](const CurvePoint& a, const CurvePoint& b) { return a.measures.other < b.measures.other; };
  return *std::min_element(curve.points.begin(), curve.points.end(), is_less);
}

double best_error(const Curve& curve) { return best_point(curve).measures.other; }

// The methods of table 2 and figure 3: our key, the work's name, and at which iteration the reference has its least
// NMSE, by rank and by seed 1 to 3.
struct NamedRun {
  const char* key;
  const char* name;
  std::array<std::array<uint32_t, kSchoolSeeds>, kRanks.size()> least_at;
};
constexpr std::array<NamedRun, 8> kTableRuns = {
    {{"/TM/K1", "RFedAvg", {{{100, 100, 100}, {100, 100, 100}, {100, 100, 100}}}},
     {"/AGS/K1", "K=1", {{{100, 100, 100}, {100, 100, 100}, {100, 100, 100}}}},
     {"/AGS/K4", "K=4", {{{100, 100, 100}, {100, 100, 80}, {100, 100, 78}}}},
     {"/AGS/K8", "K=8", {{{100, 100, 100}, {100, 100, 41}, {100, 100, 100}}}},
     {"/AGS/K10", "K=10", {{{100, 100, 100}, {100, 100, 32}, {100, 100, 100}}}},
     {"/RSD", "RSD", {{{91, 100, 22}, {12, 14, 13}, {100, 9, 8}}}},
     {"/RCG", "RCG", {{{33, 43, 46}, {14, 26, 8}, {36, 10, 4}}}},
     {"/LBFGS", "RLBFGS", {{{12, 22, 9}, {8, 6, 8}, {15, 14, 7}}}}}};

// Table 2 as the work prints it: the least NMSE, and its iteration in brackets.
void note_table(const Curves& curves, Judgement* judgement) {
  for (const uint32_t rank : kRanks) {
    std::string line = "table 2    " + rank_prefix(rank) + ":";
    for (const NamedRun& run : kTableRuns) {
      const CurvePoint best = best_point(curves.at(rank_prefix(rank) + run.key));
      line += std::string(" ") + run.name + " " + figure(best.measures.other) + " (" + std::to_string(best.round) + ")";
    }
    judgement->note(line);
  }
}

// Table 2's iterations. A printed one is of a run that comes to the printed NMSE, and no run here does. So the
// reference's decide. Near its least a curve is flat: what counts is the NMSE at the reference's iteration.
void check_iterations(const Curves& curves, uint32_t seed, Judgement* judgement) {
  constexpr double kFlat = 1e-3;
  // Of line searches, whose rounding leads a run away by so much of its test error (experiments/reference/X6.txt).
  constexpr double kFlatSearched = kIsDouble ? 2e-3 : 1e-2;
  for (size_t r = 0; r < kRanks.size(); ++r) {
    std::string text;
    bool holds = true;
    for (const NamedRun& run : kTableRuns) {
      const Curve& curve = curves.at(rank_prefix(kRanks[r]) + run.key);
      const CurvePoint best = best_point(curve);
      const uint32_t wanted = run.least_at[r][seed - 1];
      const bool searches = run.name == std::string("RCG") || run.name == std::string("RLBFGS");
      holds =
          holds && curve.at(wanted).measures.other <= (1 + (searches ? kFlatSearched : kFlat)) * best.measures.other;
      text += std::string(" ") + run.name + " " + std::to_string(best.round) + " (" + std::to_string(wanted) + ")";
    }
    judgement->check(rank_prefix(kRanks[r]) + ": the least NMSE, or one within a thousandth of it (a line search " +
                         figure(kFlatSearched) + "), comes at the reference's iteration:" + text,
                     holds);
  }
}

// Figure 3's lower panels: the test error by iteration, from other.csv.
bool write_errors(const std::string& folder, const Curves& curves) {
  std::string panels;
  uint32_t panel_count = 0;
  for (const uint32_t rank : kRanks) {
    std::string plots;
    for (const NamedRun& run : kTableRuns) {
      const std::string key = rank_prefix(rank) + run.key;
      if (curves.contains(key)) {
        plots += (plots.empty() ? "plot " : ", \\\n     ") + ("'other.csv' skip 1 using (strcol(1) eq '" + key) +
                 "' ? $2 : NaN):3 with lines linewidth 1.5 title '" + run.name + "'";
      }
    }
    if (!plots.empty()) {  // a rank without a run has no panel
      panels += "set title '" + rank_prefix(rank) + "'\n" + plots + "\n";
      ++panel_count;
    }
  }
  std::ofstream script(folder + "/errors.gp");
  script << "set terminal svg size " << (panel_count > 1 ? "940,840" : "560,420")
         << " noenhanced background 'white' font 'sans,12'\nset output 'X6_errors.svg'\nset datafile separator ','\n"
            "set grid\nset ylabel 'test NMSE'\nset key outside below center horizontal\nset multiplot layout "
         << (panel_count > 1 ? "2,2" : "1,1") << " title 'X6: test error, by round'\n"
         << panels << "unset multiplot\n";
  script.flush();
  return script.good();
}

// The first round with a cost not above that.
uint32_t rounds_to_cost(const Curve& curve, double cost) {
  const auto found = std::find_if(curve.points.begin(), curve.points.end(),
                                  [&](const CurvePoint& point) { return point.measures.excess <= cost; });
  return found == curve.points.end() ? UINT32_MAX : found->round;
}

// Table 2 and the sentence about local steps, rank by rank.
void claim_rank(const Curves& curves, uint32_t rank, double printed, Judgement* judgement) {
  const std::string prefix = rank_prefix(rank);
  double least = std::numeric_limits<double>::infinity();
  for (const NamedRun& run : kTableRuns) {
    least = std::fmin(least, best_error(curves.at(prefix + run.key)));
  }
  judgement->claim(
      prefix + ": a printed NMSE at its printed iteration (table 2)", least < 1.02 * printed,
      "the least of all methods and of 100 iterations is " + figure(least) + ", printed is " + figure(printed));
  const Curve& one_step = curves.at(prefix + "/AGS/K1");
  const Curve& ten_steps = curves.at(prefix + "/AGS/K10");
  judgement->claim(prefix + ": test NMSE " + figure(printed) + " (table 2)", best_error(ten_steps) < 1.02 * printed,
                   "K = 10: " + figure(best_error(ten_steps)) + " with weights fitted on the training rows, " +
                       figure(ten_steps.at(100).measures.refitted) + " fitted on the test rows themselves");
  bool is_halved = true;
  std::string evidence = "rounds to the cost of K = 1 at round 100 for K = 4, 8, 10:";
  for (const char* k : {"K4", "K8", "K10"}) {
    const uint32_t rounds = rounds_to_cost(curves.at(prefix + "/AGS/" + k), one_step.excess_at(100));
    is_halved = is_halved && rounds <= 50;
    evidence += " " + std::to_string(rounds);
  }
  judgement->claim(prefix + ": K >= 4 needs at most half the rounds of K = 1", is_halved, evidence);
  std::string others;
  bool is_as_good = true;
  for (const NamedBaseline& baseline : kBaselines) {
    const double error = best_error(curves.at(prefix + "/" + baseline.name));
    is_as_good = is_as_good && best_error(ten_steps) < 1.03 * error;
    others.append(", ").append(baseline.name).append(" ").append(figure(error));
  }
  judgement->claim(prefix + ": RFedAGS with K = 10 is as good as centralised methods", is_as_good,
                   "least test NMSE in 100 rounds: K10 " + figure(best_error(ten_steps)) + others);
}

void x6_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  for (const uint32_t rank : kRanks) {
    const std::string prefix = rank_prefix(rank);
    const auto cost = [&](const char* name) { return curves.at(prefix + name).excess_at(100); };
    judgement->check(
        prefix + ": cost at round 100 falls with K: " + figure(cost("/AGS/K1")) + ", " + figure(cost("/AGS/K4")) +
            ", " + figure(cost("/AGS/K8")) + ", " + figure(cost("/AGS/K10")),
        cost("/AGS/K1") > cost("/AGS/K4") && cost("/AGS/K4") > cost("/AGS/K8") && cost("/AGS/K8") > cost("/AGS/K10"));
    judgement->check(prefix + ": RFedAvg is RFedAGS at K = 1, to four digits",
                     std::fabs(cost("/TM/K1") / cost("/AGS/K1") - 1) < 1e-4);
  }
  if (request.seed <= kSchoolSeeds) {
    check_iterations(curves, request.seed, judgement);
    judgement->check("r3, K10: test error at most 0.645: " + figure(best_error(curves.at("r3/AGS/K10"))),
                     best_error(curves.at("r3/AGS/K10")) <= 0.645);
    for (const NamedBaseline& baseline : kBaselines) {
      const double error = best_error(curves.at(std::string("r3/") + baseline.name));
      judgement->check(std::string("r3, ") + baseline.name +
                           ": test error 0.625 to 0.634, with 0.002 for other splits: " + figure(error),
                       error >= 0.623 && error <= 0.636);
    }
  }
  note_table(curves, judgement);
  claim_rank(curves, 3, 0.47, judgement);
  claim_rank(curves, 4, 0.437, judgement);
  claim_rank(curves, 5, 0.405, judgement);
}

}  // namespace

const Experiment kX5 = {"X5", "RFedAGS, synthetic multitask learning", x5_cases, x5_judge, nullptr, "excess", ""};
const Experiment kX6 = {"X6",
                        "RFedAGS, multitask learning on School",
                        x6_cases,
                        x6_judge,
                        "school.csv.gz",
                        "excess",
                        "r3/*",
                        "round",
                        false,
                        write_errors};

}  // namespace gradstream
