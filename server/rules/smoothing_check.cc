#include "runtime/base/no_contraction.h"

#include "server/rules/smoothing_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gradstream {
namespace {

// Where both ratios are as large as they get they hardly differ. Scalars that are rounding alone are independent of
// each other, and their ratio is near 1.03; of pure curvature it is 0.75.
constexpr double kClearlyMore = 1.15;
constexpr double kIndependent = 0.9;

// The least value by which half of the weight is reached; values: at least one of a weight above 0.
double weighted_median(std::vector<std::pair<double, uint32_t>> values) {
  std::sort(values.begin(), values.end());
  uint64_t total = 0;
  for (const auto& [value, weight] : values) {
    total += weight;
  }
  uint64_t sum = 0;
  for (const auto& [value, weight] : values) {
    sum += weight;
    if (2 * sum >= total) {
      return value;
    }
  }
  return values.back().first;
}

SmoothingFit fit_of(const SmoothingVerdict& verdict) {
  const bool is_curvature = verdict.at_fourfold > kClearlyMore * verdict.at_quarter;
  if (verdict.ratio <= (is_curvature ? kCurvatureRatioMax : kSmoothingRatioMax)) {
    return SmoothingFit::kGood;
  }
  if (is_curvature) {
    return SmoothingFit::kTooLarge;
  }
  const bool is_small = verdict.at_quarter > kClearlyMore * verdict.at_fourfold || verdict.ratio > kIndependent;
  return is_small ? SmoothingFit::kTooSmall : SmoothingFit::kTooLarge;
}

}  // namespace

SmoothingVerdict check_smoothing(const std::vector<SmoothingRatios>& devices) {
  std::vector<std::pair<double, uint32_t>> larger;
  std::vector<std::pair<double, uint32_t>> quarter;
  std::vector<std::pair<double, uint32_t>> fourfold;
  for (const SmoothingRatios& device : devices) {
    if (device.weight == 0 || !std::isfinite(device.at_quarter) || !std::isfinite(device.at_fourfold)) {
      continue;
    }
    larger.emplace_back(std::max(device.at_quarter, device.at_fourfold), device.weight);
    quarter.emplace_back(device.at_quarter, device.weight);
    fourfold.emplace_back(device.at_fourfold, device.weight);
  }
  SmoothingVerdict verdict;
  if (larger.empty()) {
    return verdict;
  }
  verdict.ratio = weighted_median(std::move(larger));
  verdict.at_quarter = weighted_median(std::move(quarter));
  verdict.at_fourfold = weighted_median(std::move(fourfold));
  verdict.fit = fit_of(verdict);
  return verdict;
}

}  // namespace gradstream
