#include "experiments/harness/interval.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>

#include "runtime/base/status.h"

namespace gradstream {
namespace {

// P(|T| <= t): the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
double student_share(uint32_t freedom, double t) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double square = std::cos(angle) * std::cos(angle);
  const bool is_odd = freedom % 2 == 1;
  double term = is_odd ? std::cos(angle) : 1;
  double sum = freedom == 1 ? 0 : term;
  for (uint32_t power = is_odd ? 3 : 2; power + 2 <= freedom; power += 2) {
    term *= square * (power - 1) / power;
    sum += term;
  }
  return is_odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
}

}  // namespace

double student_quantile(uint32_t freedom, double probability) {
  GS_ASSERT(freedom > 0 && probability > 0 && probability < 1);
  double low = 0;
  double high = 1;
  while (student_share(freedom, high) < probability) {
    high *= 2;
  }
  for (int half = 0; half < 200; ++half) {
    const double middle = (low + high) / 2;
    (student_share(freedom, middle) < probability ? low : high) = middle;
  }
  return high;
}

Interval interval_of_mean(const std::vector<double>& values, double probability) {
  GS_ASSERT(!values.empty());
  const auto count = static_cast<double>(values.size());
  Interval interval;
  for (const double value : values) {
    interval.mean += value / count;
  }
  if (values.size() == 1) {
    interval.half = std::numeric_limits<double>::infinity();
    return interval;
  }
  double square = 0;
  for (const double value : values) {
    square += (value - interval.mean) * (value - interval.mean);
  }
  interval.half =
      student_quantile(static_cast<uint32_t>(values.size()) - 1, probability) * std::sqrt(square / (count - 1) / count);
  return interval;
}

std::string text_of(const Interval& interval) {
  char text[96];
  std::snprintf(text, sizeof(text), "%.4f +- %.4f, %.4f to %.4f", interval.mean, interval.half, interval.low(),
                interval.high());
  return text;
}

}  // namespace gradstream
