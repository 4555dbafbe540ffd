// The zeroth-order estimators (6) and (7) of 003 on one machine, kernel PCA of Iris and Digits (X11): the path of each,
// and what an estimate and a gap cost in time.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>

#include "experiments/harness/experiment.h"
#include "experiments/harness/harness.h"
#include "runtime/base/arena.h"
#include "runtime/training/estimator.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

// The references are of double. In float so short a displacement would leave nothing but rounding; there the longer one
// of the product is taken, and no reference holds.
constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr double kSmoothing = kIsDouble ? 1e-4 : 1e-2;

// Directions of (6) are longer than those of (7) by the root of the number of entries. In float, where the displacement
// is no longer negligible, both move a point equally far.
double smoothing_of(const EstimatorOps* estimator, Shape shape) {
  const bool is_six = estimator == &kTangentRetractionOps;
  return is_six && !kIsDouble ? kSmoothing / std::sqrt(static_cast<double>(shape.size())) : kSmoothing;
}

struct TableRun {
  const char* table;
  const char* preparation;
  uint32_t cols;
  uint32_t direction_count;
  double step;  // times 1 / L, L = the largest eigenvalue less the smallest
  uint32_t round_count;
};

constexpr std::array<TableRun, 6> kTableRuns = {{{"iris", "zscore", 2, 100, .5, 500},
                                                 {"iris", "raw", 2, 100, .5, 500},
                                                 {"iris", "center", 2, 100, .5, 500},
                                                 {"digits", "scale16", 4, 50, .1, 1000},
                                                 {"digits", "zscore", 4, 50, .1, 1000},
                                                 {"digits", "raw", 4, 50, .1, 1000}}};
constexpr size_t kIris = 0;
constexpr size_t kDigits = 3;
constexpr size_t kSigns = 4;  // the run of Digits of which the reference has directions of signs

// R, E: (6) with the polar and the exponential retraction; P: (7); Pt: its tangent part; Ps: (7) with directions of
// signs, which the work does not have.
struct EstimatorRun {
  const char* name;
  const char* title;
  SolverId solver;
  const EstimatorOps* estimator;
  RetractionKind retraction;  // of the displaced points; the step itself is always polar
  DirectionKind directions;
};

constexpr std::array<EstimatorRun, 5> kEstimatorRuns = {
    {{"R", "(6), polar retraction", SolverId::kGradientStream, &kTangentRetractionOps, RetractionKind::kDefault,
      DirectionKind::kSphere},
     {"E", "(6), exponential retraction", SolverId::kGradientStream, &kTangentRetractionOps,
      RetractionKind::kExponential, DirectionKind::kSphere},
     {"P", "(7)", SolverId::kProjection, &kProjectionOneSidedOps, RetractionKind::kDefault, DirectionKind::kSphere},
     {"Pt", "(7), its tangent part", SolverId::kGradientStream, &kProjectionTangentOps, RetractionKind::kDefault,
      DirectionKind::kSphere},
     {"Ps", "(7), directions of signs", SolverId::kProjection, &kProjectionOneSidedOps, RetractionKind::kDefault,
      DirectionKind::kSign}}};

std::string table_key(const TableRun& run, const EstimatorRun& estimator) {
  return std::string(run.table) + "/" + run.preparation + "/" + estimator.name;
}

Case table_case(const TableRun& run, const EstimatorRun& estimator,
                const std::shared_ptr<const KpcaWorkload>& workload) {
  const Eigen::VectorXd& w = workload->eigenvalues();
  const bool is_slow = estimator.retraction == RetractionKind::kExponential && std::string(run.table) == "digits";
  Case out;
  out.key = table_key(run, estimator);
  out.reference_key = kIsDouble ? "" : kNoReference;
  out.parameters = gradient_stream_parameters(1, run.step / (w(w.size() - 1) - w(0)), is_slow ? 300 : run.round_count);
  RunParameters& p = out.parameters;
  p.local->solver = estimator.solver;
  p.local->estimator = estimator.estimator->id;
  p.local->local_retraction = estimator.retraction;
  p.wire->upload_stream = StreamKind::kTangentBlock;
  p.local->directions = estimator.directions;
  p.local->group_count = 0;
  p.local->direction_count = run.direction_count;
  p.local->smoothing = static_cast<Real>(smoothing_of(estimator.estimator, workload->shape()));
  out.times_devices = true;
  if (std::string(run.preparation) == "raw" && !kIsDouble) {
    p.fold->fold_scale_log2 = 14;  // estimates of unscaled tables have entries of thousands
  }
  out.workload = workload;
  return out;
}

std::shared_ptr<const KpcaWorkload> table_workload(const TableRun& run, uint32_t seed) {
  return make_single_table(run.table, run.preparation, run.cols, seed);
}

// Everything about one estimate at `z`, directions of `seed`.
struct EstimateCall {
  EstimateCall(const TableRun& run, const EstimatorRun& estimator, const KpcaWorkload& workload, double smoothing,
               const Real* z) {
    parameters.id = estimator.estimator->id;
    parameters.smoothing = static_cast<Real>(smoothing);
    parameters.directions.kind = estimator.directions;
    parameters.directions.direction_count = run.direction_count;
    input.manifold =
        find_manifold(all_manifolds(), ManifoldId::kStiefel, estimator.retraction, TransportKind::kDefault);
    input.shape = workload.shape();
    input.problem = workload.problem(0);
    input.parameters = &parameters;
    input.z = z;
  }
  EstimateCall(const EstimateCall&) = delete;
  EstimateCall& operator=(const EstimateCall&) = delete;
  EstimatorParameters parameters;
  EstimateInput input;
};

constexpr size_t kArenaSize = size_t{1} << 24;

// ---- Bias and variance at a fixed point ----

// What is compared with the reference: start, and directions of so many estimates, of a seed of its own.
constexpr uint32_t kSpreadSeed = 9;
constexpr uint32_t kSpreadCount = 400;
constexpr size_t kSignRun = 4;  // of kEstimatorRuns

struct Spread {
  size_t run;        // of kTableRuns
  size_t estimator;  // of kEstimatorRuns
  double smoothing;
};

std::string spread_key(const Spread& spread) {
  return std::string("biasvar/") + kTableRuns[spread.run].table + "/" + kEstimatorRuns[spread.estimator].name + "/mu" +
         figure(spread.smoothing);
}

// In float below 1e-2 an estimate is mostly rounding of losses.
std::vector<Spread> spreads() {
  std::vector<Spread> out;
  for (const size_t run : {kIris, kDigits}) {
    for (const size_t estimator : {0, 2, 3}) {  // R, P, Pt
      for (const double smoothing : {1e-1, 1e-2, 1e-3, 1e-4, 1e-6}) {
        if (kIsDouble || smoothing >= 1e-2) {
          out.push_back({run, estimator, smoothing});
        }
      }
    }
    if (kIsDouble) {
      out.push_back({run == kIris ? kIris : kSigns, kSignRun, 1e-4});
    }
  }
  return out;
}

// grad_norm: |mean of the estimates - gradient|; other: m times their mean squared distance from it, both of its norm.
CurvePoint spread_of(const Spread& spread, const KpcaWorkload& workload) {
  std::vector<uint64_t> memory(kArenaSize / sizeof(uint64_t));
  Arena arena(memory.data(), kArenaSize);
  const std::vector<Real> z = start_of(workload);
  const TableRun& run = kTableRuns[spread.run];
  const EstimatorRun& estimator = kEstimatorRuns[spread.estimator];
  EstimateCall call(run, estimator, workload, spread.smoothing, z.data());
  call.parameters.directions.shared = false;
  call.parameters.directions.seed = kSpreadSeed;
  std::vector<Real> gradient(z.size());
  const Batch all = {nullptr, call.input.problem.ops->sample_count(call.input.problem.context)};
  Status status = call.input.problem.ops->gradient(call.input.problem.context, call.input.shape, z.data(), all,
                                                   gradient.data(), arena);
  GS_ASSERT(status == Status::kOk);
  status =
      call.input.manifold->riemannian_gradient(call.input.shape, z.data(), gradient.data(), gradient.data(), arena);
  GS_ASSERT(status == Status::kOk);
  std::vector<double> sum(z.size());
  std::vector<Real> scalars(run.direction_count);
  std::vector<Real> g(z.size());
  double square = 0;
  double distance = 0;
  for (const Real entry : gradient) {
    square += static_cast<double>(entry) * static_cast<double>(entry);
  }
  for (uint32_t version = 0; version < kSpreadCount; ++version) {
    call.parameters.directions.base_version = version;
    status = estimator.estimator->estimate(call.input, scalars.data(), g.data(), nullptr, arena);
    GS_ASSERT(status == Status::kOk);
    for (size_t e = 0; e < g.size(); ++e) {
      const double apart = static_cast<double>(g[e]) - static_cast<double>(gradient[e]);
      sum[e] += apart;
      distance += apart * apart;
    }
  }
  double bias = 0;
  for (const double apart : sum) {
    bias += apart / kSpreadCount * apart / kSpreadCount;
  }
  CurvePoint point;
  point.round = kSpreadCount;
  point.measures.grad_norm = std::sqrt(bias / square);
  point.measures.other = run.direction_count * distance / kSpreadCount / square;
  return point;
}

Case spread_case(const Spread& spread) {
  const TableRun& run = kTableRuns[spread.run];
  Case out;
  out.key = spread_key(spread);
  out.seed = kSpreadSeed;
  out.parameters = gradient_stream_parameters(1, 1e-3, kSpreadCount);  // nothing is trained
  out.parameters.local->solver = SolverId::kProjection;
  out.parameters.local->estimator = EstimatorId::kProjectionOneSided;
  const std::shared_ptr<const KpcaWorkload> workload = table_workload(run, kSpreadSeed);
  out.workload = workload;
  out.tabulate = [spread, workload] { return std::vector<CurvePoint>{spread_of(spread, *workload)}; };
  return out;
}

std::vector<Case> x11_cases(const Request& request) {
  std::vector<Case> cases;
  for (const TableRun& run : kTableRuns) {
    const std::shared_ptr<const KpcaWorkload> workload = table_workload(run, request.seed);
    for (const EstimatorRun& estimator : kEstimatorRuns) {
      const bool has_signs = &run == &kTableRuns[kIris] || &run == &kTableRuns[kDigits] || &run == &kTableRuns[kSigns];
      if (has_signs || estimator.directions == DirectionKind::kSphere) {
        cases.push_back(table_case(run, estimator, workload));
      }
    }
  }
  for (const Spread& spread : spreads()) {
    cases.push_back(spread_case(spread));
  }
  return cases;
}

// Estimates at the start, to be timed.
class TimedEstimate {
 public:
  TimedEstimate(const TableRun& run, const EstimatorRun& estimator, const KpcaWorkload& workload)
      : ops_(estimator.estimator),
        arena_(memory_.data(), kArenaSize),
        z_(start_of(workload)),
        call_(run, estimator, workload, smoothing_of(estimator.estimator, workload.shape()), z_.data()),
        scalars_(run.direction_count),
        g_(z_.size()) {}
  TimedEstimate(const TimedEstimate&) = delete;
  TimedEstimate& operator=(const TimedEstimate&) = delete;

  // Microseconds of the processor for one, of a short run.
  double measure() {
    constexpr double kSecondsMin = 2e-3;
    const double begin = thread_seconds();
    double seconds = 0;
    uint32_t count = 0;
    for (; seconds < kSecondsMin; ++count) {
      ++call_.parameters.directions.base_version;
      const Status status = ops_->estimate(call_.input, scalars_.data(), g_.data(), nullptr, arena_);
      GS_ASSERT(status == Status::kOk);  // a point of the manifold, finite samples
      seconds = thread_seconds() - begin;
    }
    return 1e6 * seconds / count;
  }

 private:
  const EstimatorOps* ops_;
  std::vector<uint64_t> memory_ = std::vector<uint64_t>(kArenaSize / sizeof(uint64_t));
  Arena arena_;
  std::vector<Real> z_;
  EstimateCall call_;
  std::vector<Real> scalars_;
  std::vector<Real> g_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Microseconds of an estimate by each of kEstimatorRuns, in many turns: what else the machine does in a turn slows all
// of them, and the quotients of a turn hardly feel it.
using Turns = std::array<std::vector<double>, kEstimatorRuns.size()>;

Turns time_estimates(const TableRun& run, const KpcaWorkload& workload) {
  constexpr int kTurnCount = 101;
  std::vector<std::unique_ptr<TimedEstimate>> estimates;
  estimates.reserve(kEstimatorRuns.size());
  for (const EstimatorRun& estimator : kEstimatorRuns) {
    estimates.push_back(std::make_unique<TimedEstimate>(run, estimator, workload));
  }
  Turns turns;
  for (int turn = 0; turn < kTurnCount; ++turn) {
    for (size_t i = 0; i < estimates.size(); ++i) {
      turns[i].push_back(estimates[i]->measure());
    }
  }
  return turns;
}

// The first round whose gap is a tenth of the first one; UINT32_MAX: none.
uint32_t rounds_to_a_tenth(const Curve& curve) {
  for (const CurvePoint& point : curve.points) {
    if (point.measures.excess <= curve.points.front().measures.excess / 10) {
      return point.round;
    }
  }
  return UINT32_MAX;
}

// Less by so much is less; what is nearer is the same. Medians repeat to 3 % on a busy machine.
constexpr double kLessTime = 0.95;

// 003: (7) reaches the same objective in less time than (6). Rounds to a tenth of the gap, by estimator.
void claim_times(const char* table, const Turns& turns, const std::array<uint32_t, kEstimatorRuns.size()>& rounds,
                 Judgement* judgement) {
  constexpr size_t kProjection = 2;
  const std::array<const char*, 2> others = {"polar retraction", "exponential one"};
  for (size_t other = 0; other < others.size(); ++other) {
    std::vector<double> quotients;
    for (size_t turn = 0; turn < turns[other].size(); ++turn) {
      quotients.push_back(turns[kProjection][turn] * rounds[kProjection] / (turns[other][turn] * rounds[other]));
    }
    const double quotient = median(quotients);
    const char* verdict = quotient < kLessTime ? "less" : quotient <= 1 / kLessTime ? "the same" : "more";
    judgement->claim(
        std::string(table) + ": (7) takes less time to a tenth of the gap than (6) with the " + others[other],
        quotient < kLessTime,
        "its time over that of (6), median of " + std::to_string(quotients.size()) + " turns: " + figure(quotient) +
            ", " + verdict + " (less is below " + figure(kLessTime) + ")");
  }
}

// ---- The gap against run time (figure 2 of 003) ----

// Parts of the first gap at which it is asked who is first.
constexpr std::array<double, 3> kGapParts = {1e-1, 1e-2, 1e-3};
// Two times within this factor are the same. Reason: each run is timed once and not in turns, and other work on the
// machine has made one of two equal runs slower by 1.3.
constexpr double kSameTime = 1.5;

// Processor seconds of the device until the gap is down at this part of the first one; infinite where it never is.
double seconds_to(const Curve& curve, double part) {
  const double least = curve.points.front().measures.excess * part;
  const auto found = std::find_if(curve.points.begin(), curve.points.end(),
                                  [&](const CurvePoint& point) { return point.measures.excess <= least; });
  return found == curve.points.end() ? std::numeric_limits<double>::infinity() : found->device_seconds;
}

// Says which estimator is first at each part of the gap, by the time that its own run took. Decides nothing.
void note_run_times(const Curves& curves, const TableRun& run, Judgement* judgement) {
  for (const double part : kGapParts) {
    std::string row = std::string("| ") + run.table + " | " + figure(part) + " |";
    double best_six = std::numeric_limits<double>::infinity();
    double seven = best_six;
    const EstimatorRun* first = nullptr;
    double least = best_six;
    for (const EstimatorRun& estimator : kEstimatorRuns) {
      const double seconds = seconds_to(curves.at(table_key(run, estimator)), part);
      row += std::isfinite(seconds) ? " " + figure(1000 * seconds) + " |" : " - |";
      best_six = estimator.estimator == &kTangentRetractionOps ? std::fmin(best_six, seconds) : best_six;
      seven = estimator.name == std::string("P") ? seconds : seven;
      if (seconds < least) {
        least = seconds;
        first = &estimator;
      }
    }
    judgement->note(row + " " + (first == nullptr ? "-" : first->title) + " |");
    if (std::isfinite(best_six) && std::isfinite(seven)) {
      const double quotient = seven / best_six;
      judgement->claim(std::string(run.table) + ": (7) is before (6) at " + figure(part) +
                           " of the gap, in processor time of the device",
                       quotient < 1 / kSameTime,
                       "its time over that of the faster form of (6): " + figure(quotient) + ", " +
                           (quotient < 1 / kSameTime ? "less"
                            : quotient <= kSameTime  ? "the same"
                                                     : "more") +
                           " (the same is within a factor of " + figure(kSameTime) + ")");
    }
  }
}

void note_all_run_times(const Curves& curves, Judgement* judgement) {
  judgement->note("processor time of the device in its own run, ms, until the gap is a part of the first one");
  std::string head = "| table | part |";
  std::string line = "|---|---|";
  for (const EstimatorRun& estimator : kEstimatorRuns) {
    head += std::string(" ") + estimator.title + " |";
    line += "---|";
  }
  judgement->note(head + " first |");
  judgement->note(line + "---|");
  for (const size_t index : {kIris, kDigits}) {
    note_run_times(curves, kTableRuns[index], judgement);
  }
}

// Experiment::write_more: CASE.time.csv (seconds,round,excess) of each trained case, and a script for gnuplot of the
// gap against run time.
bool write_times(const std::string& folder, const Curves& curves) {
  bool is_good = true;
  std::string plots;
  for (const TableRun& run : kTableRuns) {
    const bool is_shown = &run == &kTableRuns[kIris] || &run == &kTableRuns[kDigits];
    std::string plot;
    for (const EstimatorRun& estimator : kEstimatorRuns) {
      const auto found = curves.find(table_key(run, estimator));
      if (found == curves.end()) {
        continue;
      }
      const std::string name = case_file_name(found->first) + ".time.csv";
      std::ofstream file(std::string(folder).append("/").append(name));
      file << "seconds,round,excess\n";
      for (const CurvePoint& point : found->second.points) {
        file << figure(point.device_seconds, 6) << ',' << point.round << ',' << figure(point.measures.excess, 9)
             << '\n';
      }
      file.flush();
      is_good = is_good && file.good();
      plot += std::string(plot.empty() ? "plot '" : ", '") + name + "' skip 1 every " +
              std::to_string(1 + found->second.points.size() / 100) + " using (1000*$1):3 with lines title '" +
              estimator.title + "'";
    }
    if (is_shown && !plot.empty()) {
      plots += std::string("set title '") + run.table + ", " + run.preparation + "'\n" + plot + "\n";
    }
  }
  if (plots.empty()) {
    return is_good;
  }
  std::ofstream script(folder + "/time.gp");
  script << "set terminal svg size 940,440 noenhanced background 'white' font 'sans,12'\nset output 'X11_time.svg'\n"
            "set datafile separator ','\nset logscale y\nset format y '%.0e'\nset grid\n"
            "set ylabel 'excess F(x) - F*'\nset xlabel 'processor time of the device, ms'\nset key right top\n"
            "set multiplot layout 1,2 title 'X11: gap against run time'\n"
         << plots << "unset multiplot\n";
  script.flush();
  return is_good && script.good();
}

void note_times(const Curves& curves, const Request& request, Judgement* judgement) {
  judgement->note("processor time on this host, one thread, medians; the gap is brought down to a tenth");
  judgement->note("| estimator | table | us an estimate | rounds | ms |");
  judgement->note("|---|---|---|---|---|");
  for (const size_t index : {kIris, kDigits}) {
    const TableRun& run = kTableRuns[index];
    const Turns turns = time_estimates(run, *table_workload(run, request.seed));
    std::array<uint32_t, kEstimatorRuns.size()> rounds = {};
    for (size_t i = 0; i < kEstimatorRuns.size(); ++i) {
      rounds[i] = rounds_to_a_tenth(curves.at(table_key(run, kEstimatorRuns[i])));
      const bool is_reached = rounds[i] != UINT32_MAX;
      const double us = median(turns[i]);
      std::string row;
      for (const std::string& cell :
           {std::string(kEstimatorRuns[i].title), std::string(run.table), figure(us),
            is_reached ? std::to_string(rounds[i]) : "-", is_reached ? figure(rounds[i] * us / 1000) : "-"}) {
        row.append("| ").append(cell).append(" ");
      }
      judgement->note(row + "|");
    }
    claim_times(run.table, turns, rounds, judgement);
  }
}

void x11_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  const auto at = [&](const TableRun& run, const EstimatorRun& estimator, uint32_t round) {
    return curves.at(table_key(run, estimator)).excess_at(round);
  };
  const auto& [polar_run, exp_run, projection, tangent, signs] = kEstimatorRuns;
  const TableRun& digits = kTableRuns[kDigits];
  for (const size_t index : {kIris, kDigits}) {
    const TableRun& run = kTableRuns[index];
    for (const uint32_t round : {10, 50, 200, 400, 1000}) {
      const double six = at(run, polar_run, round);
      const bool is_above_floor = six > (index == kDigits ? 1e-4 : 1e-3) * at(run, polar_run, 0);
      if (is_above_floor && round <= run.round_count) {
        // The reference itself is 12 % apart on Iris at iteration 10: other directions, of which each has few.
        judgement->check_seeds(request.seed, 3,
                               std::string(run.table) + ", (7) over (6) at iteration " + std::to_string(round),
                               at(run, projection, round) / six, 1, index == kDigits ? 1.1 : 1.35);
      }
    }
  }
  const TableRun& iris = kTableRuns[kIris];
  judgement->check("Iris, (7): a hundredth of the first gap by iteration 200: " + figure(at(iris, projection, 0)) +
                       " to " + figure(at(iris, projection, 200)),
                   at(iris, projection, 200) < 1e-2 * at(iris, projection, 0));
  judgement->claim("(7) converges as (6) does with polar or exponential retraction",
                   std::fabs(at(digits, projection, 200) / at(digits, polar_run, 200) - 1) < .1 &&
                       std::fabs(at(digits, exp_run, 200) / at(digits, polar_run, 200) - 1) < .1,
                   "Digits, gap at iteration 200: (6) polar " + figure(at(digits, polar_run, 200)) + ", (6) exp " +
                       figure(at(digits, exp_run, 200)) + ", (7) " + figure(at(digits, projection, 200)) +
                       ", (7) projected to the tangent space " + figure(at(digits, tangent, 200)) +
                       ", (7) with signs " + figure(at(digits, signs, 200)));
  note_times(curves, request, judgement);
  note_all_run_times(curves, judgement);
}

}  // namespace

const Experiment kX11 = {"X11",
                         "Zeroth-order estimators (6) and (7), kernel PCA",
                         x11_cases,
                         x11_judge,
                         nullptr,
                         "excess",
                         "iris/zscore/* digits/zscore/*",
                         "round",
                         false,
                         write_times};

}  // namespace gradstream
