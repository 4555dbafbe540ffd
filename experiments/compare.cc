#include "experiments/compare.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

double measure_of(const Measures& measures, const std::string& name) {
  return name == "excess" ? measures.excess : name == "grad_norm" ? measures.grad_norm : measures.other;
}

}  // namespace

std::vector<ReferenceCurve> read_references(const std::string& experiment) {
  std::vector<ReferenceCurve> references;
  std::ifstream file(GS_SOURCE_DIR "/experiments/reference/" + experiment + ".txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    std::istringstream words(line);
    ReferenceCurve& reference = references.emplace_back();
    size_t count = 0;
    words >> reference.key >> reference.seed >> reference.measure >> count;
    reference.points.resize(count);
    for (ReferenceCurve::Point& point : reference.points) {
      words >> point.round >> point.value;
    }
    GS_ASSERT(!words.fail());
  }
  return references;
}

Tolerance tolerance_of(const ReferenceCurve& reference, const RunParameters& parameters, double optimum) {
  const double first = reference.points.front().value;
  const bool is_excess = reference.measure == "excess";
  const double scale = optimum == 0 ? first : std::fabs(optimum);  // a cost whose least value is 0 has no other one
  if (kIsDouble) {
    constexpr double kUnits = 16;  // sums over samples or over their covariance, eigenvalues
    const double rounding = kUnits * std::numeric_limits<double>::epsilon() * scale;
    return {1e-7, is_excess ? 1e-9 * scale : 1e-6 * first, is_excess ? rounding : 0};
  }
  if (parameters.estimator == EstimatorId::kAnalyticGradient) {
    return {1e-3, is_excess ? 1e-5 * scale : 3e-3 * first};
  }
  return {1e-2, 10 * std::fabs(reference.points.back().value)};
}

void compare(const ReferenceCurve& reference, const Curve& curve, const Tolerance& tolerance, uint32_t round_count,
             Judgement* judgement) {
  double worst = 0;
  uint32_t worst_round = 0;
  uint32_t count = 0;
  for (const ReferenceCurve::Point& point : reference.points) {
    if (!(point.value > tolerance.least) || point.round > round_count) {
      continue;
    }
    ++count;
    const CurvePoint& own = curve.at(point.round);
    const double value = measure_of(own.measures, reference.measure);
    const bool is_there = own.round == point.round;
    const double apart = std::fabs(value - point.value);
    const double left = apart <= tolerance.rounding ? 0 : apart - tolerance.rounding;  // not a number stays one
    const double deviation = is_there ? left / point.value : std::numeric_limits<double>::infinity();
    if (!(deviation <= worst)) {
      worst = deviation;
      worst_round = point.round;
    }
  }
  judgement->check(reference.key + " follows the reference in " + reference.measure + ": worst relative deviation " +
                       figure(worst) + " at round " + std::to_string(worst_round) + " over " + std::to_string(count) +
                       " points, at most " + figure(tolerance.relative),
                   count > 0 && worst <= tolerance.relative);
}

}  // namespace gradstream
