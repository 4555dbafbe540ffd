#include "server/run/weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

// round(2^15 / sqrt(1 + s)) in integers: the largest w with (2 w - 1)^2 (1 + s) <= 4 * 2^30.
uint32_t inverse_sqrt_weight(uint32_t staleness) {
  const uint64_t bound = (1ULL << (2 * kStalenessBits + 2)) / (1ULL + staleness);
  uint64_t low = 1;
  uint64_t high = kStalenessOne + 1;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    const uint64_t edge = 2 * middle - 1;
    (edge * edge <= bound ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

// Rounded to 15 bits, so that the last bit of libm's pow does not show; and journalled, so that it never matters.
uint32_t rounded(double weight) {
  const double scaled = std::floor(weight * kStalenessOne + 0.5);
  return static_cast<uint32_t>(std::clamp(scaled, 1.0, static_cast<double>(kStalenessOne)));
}

}  // namespace

bool is_too_stale(const TriggerCore& keys, uint32_t staleness) {
  return staleness > 0 && (keys.late == LatePolicy::kDrop || staleness > keys.staleness_max);
}

uint32_t staleness_weight(const TriggerCore& keys, uint32_t staleness) {
  if (staleness == 0) {
    return kStalenessOne;
  }
  const double s = staleness;
  switch (keys.staleness_table) {
    case StalenessTable::kConstant:
      return kStalenessOne;
    case StalenessTable::kInverseSqrt:
      return inverse_sqrt_weight(staleness);
    case StalenessTable::kPolynomial:
      return rounded(std::pow(1.0 + s, -static_cast<double>(keys.staleness_exponent)));
    case StalenessTable::kHinge:
      return staleness <= keys.staleness_hinge ? kStalenessOne
                                               : rounded(1.0 / (static_cast<double>(keys.staleness_exponent) *
                                                                    (s - static_cast<double>(keys.staleness_hinge)) +
                                                                1.0));
  }
  return kStalenessOne;
}

bool weighs_updates(const RunParameters& parameters) {
  return parameters.delay->delay_rule != DelayRule::kNone && parameters.fold->fold_weight == FoldWeight::kSampleCount;
}

bool records_samples(const RunParameters& parameters) {
  return parameters.memory_weighs_samples() || weighs_updates(parameters);
}

uint16_t fold_weight(const RunParameters& parameters, uint32_t sample_count, uint32_t staleness) {
  const bool is_uniform = parameters.fold->fold_weight == FoldWeight::kUniform || parameters.has_memory() ||
                          parameters.delay->delay_rule != DelayRule::kNone;
  const uint32_t own = is_uniform ? kStalenessOne : std::clamp(sample_count, 1U, parameters.fold->fold_weight_max);
  const uint32_t half = kStalenessOne / 2;
  const uint32_t weight = (own * staleness_weight(*parameters.trigger, staleness) + half) >> kStalenessBits;
  return static_cast<uint16_t>(std::max(weight, 1U));
}

uint16_t memory_weight(const RunParameters& parameters, uint32_t sample_count) {
  return records_samples(parameters)
             ? static_cast<uint16_t>(std::clamp(sample_count, 1U, parameters.fold->fold_weight_max))
             : uint16_t{1};
}

// With weights w_1 >= w_2 >= ... the first m are capped at c = share (m c + w_(m+1) + ...), for the least m with
// w_(m+1) <= c. Floored, c keeps below the share.
void cap_weights(const FoldCore& keys, std::span<uint16_t> weights) {
  constexpr uint64_t kOne = 1U << 16;
  const auto share = static_cast<uint64_t>(std::floor(static_cast<double>(keys.weight_share_max) * kOne));
  std::vector<uint16_t> sorted(weights.begin(), weights.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  uint64_t rest = std::accumulate(sorted.begin(), sorted.end(), uint64_t{0});
  for (uint64_t m = 0; m < sorted.size() && m * share < kOne; ++m) {
    const uint64_t divisor = kOne - m * share;  // c = share rest / divisor
    if (sorted[m] * divisor <= share * rest) {
      if (m == 0) {
        return;
      }
      const uint64_t factor = UINT16_MAX * divisor / (share * rest);  // c becomes the largest weight that there is
      const uint64_t unit = std::max<uint64_t>(factor, 1);
      const uint64_t cap = unit * share * rest / divisor;
      for (uint16_t& weight : weights) {
        weight = static_cast<uint16_t>(std::min(unit * weight, cap));
      }
      return;
    }
    rest -= sorted[m];
  }
  std::fill(weights.begin(), weights.end(), uint16_t{1});
}

}  // namespace gradstream
