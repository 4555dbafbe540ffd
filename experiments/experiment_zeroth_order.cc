// The zeroth-order estimators (6) and (7) of 003 on one machine (X11).
#include <array>
#include <cmath>

#include "experiments/experiment.h"

namespace gradstream {
namespace {

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

// R, E: (6) with the polar and the exponential retraction; P: (7); Pt: its tangent part.
struct EstimatorRun {
  const char* name;
  SolverId solver;
  EstimatorId estimator;
  RetractionKind retraction;
};

constexpr std::array<EstimatorRun, 4> kEstimatorRuns = {
    {{"R", SolverId::kGradientStream, EstimatorId::kTangentRetraction, RetractionKind::kPolar},
     {"E", SolverId::kGradientStream, EstimatorId::kTangentRetraction, RetractionKind::kExponential},
     {"P", SolverId::kProjection, EstimatorId::kProjectionOneSided, RetractionKind::kPolar},
     {"Pt", SolverId::kGradientStream, EstimatorId::kProjectionTangent, RetractionKind::kPolar}}};

std::string table_key(const TableRun& run, const EstimatorRun& estimator) {
  return std::string(run.table) + "/" + run.preparation + "/" + estimator.name;
}

std::vector<Case> x11_cases(const Request& request) {
  std::vector<Case> cases;
  for (const TableRun& run : kTableRuns) {
    const std::shared_ptr<const KpcaWorkload> workload =
        make_single_table(run.table, run.preparation, run.cols, request.seed);
    const Eigen::VectorXd& w = workload->eigenvalues();
    for (const EstimatorRun& estimator : kEstimatorRuns) {
      Case& one = cases.emplace_back();
      one.key = table_key(run, estimator);
      const bool is_slow = std::string(estimator.name) == "E" && std::string(run.table) == "digits";
      one.parameters = gradient_stream_parameters(1, run.step / (w(w.size() - 1) - w(0)), is_slow ? 300 : run.round_count);
      RunParameters& p = one.parameters;
      p.solver = estimator.solver;
      p.estimator = estimator.estimator;
      p.retraction = estimator.retraction;
      p.upload_stream = StreamKind::kTangentBlock;
      p.directions = DirectionKind::kSphere;
      p.group_count = 0;
      p.direction_count = run.direction_count;
      p.smoothing = static_cast<Real>(1e-4);
      one.workload = workload;
    }
  }
  return cases;
}

void x11_judge(const Curves& curves, const Request&, Judgement* judgement) {
  const auto at = [&](const TableRun& run, const EstimatorRun& estimator, uint32_t round) {
    return curves.at(table_key(run, estimator)).excess_at(round);
  };
  const auto& [polar_run, exp_run, projection, tangent] = kEstimatorRuns;
  const TableRun& iris = kTableRuns[0];
  const TableRun& digits = kTableRuns[3];
  for (const TableRun& run : {iris, digits}) {
    for (const uint32_t round : {10, 50, 200}) {
      const double six = at(run, polar_run, round);
      if (six > 1e-3 * at(run, polar_run, 0)) {
        judgement->check_near(std::string(run.table) + ", (7) over (6) at iteration " + std::to_string(round),
                              at(run, projection, round) / six, 1, 1.35);
      }
    }
  }
  judgement->claim("(7) converges as (6) does with polar or exponential retraction",
                   std::fabs(at(digits, projection, 200) / at(digits, polar_run, 200) - 1) < .1 &&
                       std::fabs(at(digits, exp_run, 200) / at(digits, polar_run, 200) - 1) < .1,
                   "Digits, gap at iteration 200: (6) polar " + figure(at(digits, polar_run, 200)) + ", (6) exp " +
                       figure(at(digits, exp_run, 200)) + ", (7) " + figure(at(digits, projection, 200)) +
                       ", (7) projected to the tangent space " + figure(at(digits, tangent, 200)));
}

}  // namespace

const Experiment kX11 = {"X11", "Zeroth-order estimators (6) and (7), kernel PCA", x11_cases, x11_judge, nullptr,
                         "excess"};

}  // namespace gradstream
