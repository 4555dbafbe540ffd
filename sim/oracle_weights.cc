// What an update of a run without rounds weighs by its samples, again from the journal's tasks, and what the means of
// a version are divided by.
#include <numeric>

#include "server/run/run_core.h"
#include "server/run/weights.h"
#include "sim/oracle.h"

namespace gradstream {

// w_i: N_i by the mean of the devices that have been given a task ((32) of 004).
Real Oracle::sample_share(uint32_t samples) const {
  if (parameters_.delay->delay_rule == DelayRule::kNone || parameters_.fold->fold_weight != FoldWeight::kSampleCount) {
    return 1;
  }
  double sum = 0;
  for (const auto& [device, count] : given_) {
    sum += count;
  }
  return static_cast<Real>(samples * static_cast<double>(given_.size()) / sum);
}

std::map<std::pair<uint32_t, uint32_t>, Oracle::Shares> Oracle::shares_by_block() const {
  std::map<std::pair<uint32_t, uint32_t>, Shares> shares;
  for (const Share& share : shares_) {
    shares[{share.base_version, share.owner}].push_back(&share);
  }
  return shares;
}

// The weights of the whole version.
int64_t Oracle::fold_divisor() const {
  const uint32_t population = is_unbiased(*parameters_.cohort) ? cohorts_.at(version()).population : 0;
  if (population > 0) {
    return int64_t{population} * kStalenessOne;
  }
  return std::accumulate(shares_.begin(), shares_.end(), int64_t{0},
                         [](int64_t sum, const Share& share) { return sum + share.weight; });
}

}  // namespace gradstream
