#include "experiments/compare.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr uint32_t kFirstRounds = kIsDouble ? 10 : 3;  // that every run must follow, see Tolerance
constexpr double kEndFactor = 4;

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
    // Estimates divide the rounding of losses by mu: one unit in each loss moves X11's reference itself by 58.
    constexpr double kZerothOrderUnits = 128;
    const bool is_zeroth_order = parameters.estimator != EstimatorId::kAnalyticGradient;
    const double rounding =
        (is_zeroth_order ? kZerothOrderUnits : kUnits) * std::numeric_limits<double>::epsilon() * scale;
    const bool converges = is_excess || reference.points.back().value < 0.1 * first;
    return {1e-7, is_excess ? 1e-9 * scale : 1e-6 * first, is_excess ? rounding : 0, converges ? 0 : kEndFactor};
  }
  if (parameters.estimator == EstimatorId::kAnalyticGradient) {
    // The Householder complement jumps where an entry changes its sign: now and then the rounding of a float puts one
    // local step of one device on the other side, and from there on the runs are as far apart as the jump is large.
    const double relative = parameters.transport == TransportKind::kHouseholder ? 1e-2 : 1e-3;
    return {relative, is_excess ? 1e-5 * scale : 3e-3 * first, 0, is_excess ? 0 : kEndFactor};
  }
  return {1e-2, 10 * std::fabs(reference.points.back().value), 0, 0, true};
}

namespace {

// |a / b| or its inverse, whichever is above 1; infinite where one is 0 or not a number.
double factor_between(double a, double b) {
  const double factor = a > b ? a / b : b / a;
  return factor >= 1 ? factor : std::numeric_limits<double>::infinity();
}

// The least values of the curve and of the reference at the reference's points.
double factor_at_the_end(const ReferenceCurve& reference, const Curve& curve, double floor, uint32_t last_round) {
  double own = std::numeric_limits<double>::infinity();
  double wanted = own;
  for (const ReferenceCurve::Point& point : reference.points) {
    if (point.round <= last_round) {
      own = std::fmin(own, measure_of(curve.at(point.round).measures, reference.measure));
      wanted = std::fmin(wanted, point.value);
    }
  }
  return factor_between(std::fmax(own, floor), std::fmax(wanted, floor));
}

}  // namespace

void compare(const ReferenceCurve& reference, const Curve& curve, const Tolerance& tolerance, uint32_t round_count,
             Judgement* judgement) {
  double worst = 0;
  double worst_at_first = 0;
  uint32_t worst_round = 0;
  uint32_t parting_round = UINT32_MAX;  // the first that is not followed
  uint32_t count = 0;
  // A float refuses steps that a double takes (an antipodal point, a matrix that lost its definiteness).
  const bool is_cut = !kIsDouble && !curve.fault.empty();
  const uint32_t last_round = is_cut ? std::min(round_count, curve.points.back().round) : round_count;
  bool is_at_end = false;
  for (const ReferenceCurve::Point& point : reference.points) {
    const bool is_above = point.value > tolerance.least;
    is_at_end = is_at_end || (tolerance.ends_at_least && !is_above);
    const bool counts = tolerance.ends_at_least ? !is_at_end || point.round <= kFirstRounds : is_above;
    if (!counts || point.round > last_round) {
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
    if (!(deviation <= tolerance.relative)) {
      parting_round = std::min(parting_round, point.round);
    }
    worst_at_first = point.round <= kFirstRounds ? worst : worst_at_first;
  }
  std::string text = reference.key + " follows the reference in " + reference.measure + ": worst relative deviation " +
                     figure(worst) + " at round " + std::to_string(worst_round) + " over " + std::to_string(count) +
                     " points, at most " + figure(tolerance.relative);
  bool holds = count > 0 && worst <= tolerance.relative;
  if (!holds && count > 0 && tolerance.end_factor > 0) {
    const double factor = factor_at_the_end(reference, curve, tolerance.least, last_round);
    text += "; parts at round " + std::to_string(parting_round) + " and ends within a factor of " + figure(factor) +
            ", at most " + figure(tolerance.end_factor);
    holds = worst_at_first <= 10 * tolerance.relative && factor <= tolerance.end_factor;
  }
  judgement->check(text, holds);
}

}  // namespace gradstream
