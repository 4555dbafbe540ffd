#include "experiments/papers/asynchronous_formulas.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "experiments/harness/experiment.h"
#include "server/run/delay_keys.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

// Of the way of a step. Reason: a float's entries are rounded to 6e-8 of themselves, and the shortest steps of X14 are
// a thousandth of the model's length.
constexpr double kPartMax = sizeof(Real) == sizeof(double) ? 1e-9 : 1e-3;
constexpr double kMomentShare = 0.05;  // of the square of one update in a moving mean that begins at 0
constexpr double kMomentFloor = 1e-7;

double product(const FormulaValues& a, const FormulaValues& b) {
  double sum = 0;
  for (size_t e = 0; e < a.size(); ++e) {
    sum += a[e] * b[e];
  }
  return sum;
}

// a + s b.
FormulaValues sum_of(FormulaValues a, double s, const FormulaValues& b) {
  for (size_t e = 0; e < a.size(); ++e) {
    a[e] += s * b[e];
  }
  return a;
}

double distance(const FormulaValues& a, const FormulaValues& b) {
  const FormulaValues apart = sum_of(a, -1, b);
  return std::sqrt(product(apart, apart));
}

DelayRule rule_at(const RunParameters& p, uint32_t step) {
  const bool is_late = p.delay->late_delay_rule != DelayRule::kNone && step >= p.delay->delay_switch;
  return is_late ? p.delay->late_delay_rule : p.delay->delay_rule;
}

FormulaValues correct_entries(double lambda0, const FormulaValues& delta, const FormulaValues& drift) {
  FormulaValues out = delta;
  for (size_t e = 0; e < delta.size(); ++e) {
    const double square = delta[e] * delta[e];
    const double lambda = lambda0 / std::sqrt(kMomentShare * square + kMomentFloor);
    out[e] -= std::min(lambda * square, 1.0) * drift[e];
  }
  return out;
}

// The displacement of the update, less the control point's after it.
FormulaValues displacement_of(const AsyncStep& at) {
  const auto middle = at.update.begin() + static_cast<std::ptrdiff_t>(at.model.size());
  return {at.update.begin(), middle};
}

// R v for the rotation R of the plane of a and b that takes the direction of a to that of b.
FormulaValues turned(const FormulaValues& a, const FormulaValues& b, const FormulaValues& v) {
  const double a_length = std::sqrt(product(a, a));
  const FormulaValues first = sum_of(FormulaValues(a.size()), 1 / a_length, a);
  FormulaValues second = sum_of(b, -product(b, first), first);
  const double b_length = std::sqrt(product(b, b));
  const double cosine = product(b, first) / b_length;
  const double across = std::sqrt(product(second, second));
  if (across == 0) {
    return v;
  }
  second = sum_of(FormulaValues(a.size()), 1 / across, second);
  const double sine = across / b_length;
  const double x = product(v, first);
  const double y = product(v, second);
  return sum_of(sum_of(v, (cosine - 1) * x - sine * y, first), sine * x + (cosine - 1) * y, second);
}

}  // namespace

FormulaValues formula_values(const AsyncValues& values) { return {values.begin(), values.end()}; }

FormulaValues step_by_formula(const RunParameters& parameters, const AsyncStep& at) {
  const FormulaValues model = formula_values(at.model);
  const FormulaValues delta = sum_of(FormulaValues(model.size()), -1, displacement_of(at));  // Theta^t - Theta_i
  const FormulaValues drift = sum_of(formula_values(at.job.base), -1, model);                // Theta^t - Theta^tau
  const double square = product(drift, drift);
  const double along = product(delta, drift);
  const FormulaValues position = sum_of(delta, -1, drift);
  const FormulaValues across = square == 0 ? delta : sum_of(delta, -along / square, drift);
  FormulaValues direction = delta;
  switch (rule_at(parameters, at.step)) {
    case DelayRule::kFedAsync:
      direction = position;
      break;
    case DelayRule::kOrthoGrad:
      direction = along < 0 ? across : delta;
      break;
    case DelayRule::kOrthoPos:
      direction = along < 0 ? across : position;
      break;
    case DelayRule::kOrthoStrict:
      direction = across;
      break;
    case DelayRule::kDcAdaptive:
      direction = correct_entries(static_cast<double>(parameters.delay->delay_lambda), delta, drift);
      break;
    default:
      GS_ASSERT(rule_at(parameters, at.step) == DelayRule::kAsgd);
      break;
  }
  return sum_of(model, -static_cast<double>(parameters.steps->server_step), direction);
}

FormulaValues control_by_formula(const std::string& way, const AsyncStep& at, const FormulaValues& end) {
  const FormulaValues model = formula_values(at.model);
  const FormulaValues displacement = displacement_of(at);
  const auto middle = at.update.begin() + static_cast<std::ptrdiff_t>(model.size());
  const FormulaValues control(middle, at.update.end());  // phi - Theta^t
  if (way == "none") {
    return sum_of(formula_values(at.job.base), 1, control);
  }
  if (way == "translate") {
    return sum_of(model, 1, control);
  }
  const FormulaValues step = sum_of(end, -1, model);
  FormulaValues half = sum_of(model, 0.5, step);
  if (way == "line") {
    return half;
  }
  GS_ASSERT(way == "rotate");
  return sum_of(half, 1, turned(displacement, step, sum_of(control, -0.5, displacement)));
}

FormulaValues curve_by_formula(double l, const FormulaValues& from, const FormulaValues& control,
                               const FormulaValues& to) {
  const FormulaValues begun = sum_of(FormulaValues(from.size()), (1 - l) * (1 - l), from);
  return sum_of(sum_of(begun, 2 * l * (1 - l), control), l * l, to);
}

void expect_formula(const std::string& what, const AsyncValues& own, const FormulaValues& wanted,
                    const FormulaValues& from) {
  const double way = distance(wanted, from);
  const double apart = distance(formula_values(own), wanted);
  if (!(apart <= kPartMax * way)) {
    throw std::runtime_error(what + " is not the formula's: " + figure(apart) + " from it, on a way of " + figure(way) +
                             ", at most " + figure(kPartMax) + " of that");
  }
}

}  // namespace gradstream
