#include "server/run/participation.h"

#include <algorithm>

#include "runtime/base/random.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

RandomKey sampling_key(const RunParameters& parameters, uint32_t round, uint32_t owner) {
  RandomKey key;
  key.seed = parameters.seed;
  key.domain = RandomDomain::kClientSampling;
  key.version = round;
  key.owner = owner;
  return key;
}

std::vector<uint32_t> choose_some(const RunParameters& parameters, uint32_t round,
                                  std::span<const uint32_t> candidates) {
  const auto population = static_cast<uint32_t>(candidates.size());
  const uint32_t count = std::min(parameters.drawn_count(), population);
  std::vector<uint32_t> work(population);
  choose(sampling_key(parameters, round, 0), population, count, work.data());
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < count; ++i) {
    members.push_back(candidates[work[i]]);
  }
  std::sort(members.begin(), members.end());
  return members;
}

Real probability_of(std::span<const Real> probabilities, uint32_t client_index) {
  GS_ASSERT(!probabilities.empty());  // check_parameters() has read them
  return probabilities[std::min<size_t>(client_index, probabilities.size() - 1)];
}

std::vector<uint32_t> draw_each(const RunParameters& parameters, uint32_t round, std::span<const uint32_t> candidates) {
  const std::vector<Real> probabilities = participation_probabilities(*parameters.cohort);
  RandomStream stream(sampling_key(parameters, round, 0));
  std::vector<uint32_t> members;
  for (const uint32_t index : candidates) {
    if (stream.next_uniform() < static_cast<double>(probability_of(probabilities, index))) {
      members.push_back(index);
    }
  }
  if (members.empty()) {
    const uint64_t word = RandomStream(sampling_key(parameters, round, 1)).next();
    members.push_back(candidates[static_cast<size_t>(word * candidates.size() >> 32)]);
  }
  return members;
}

}  // namespace

Cohort choose_cohort(const RunParameters& parameters, uint32_t round, std::span<const uint32_t> candidates) {
  if (parameters.cohort->participation == Participation::kAll || candidates.empty()) {
    return {};
  }
  const bool is_fixed = parameters.cohort->participation == Participation::kSchemeOne;
  return {static_cast<uint32_t>(candidates.size()),
          is_fixed ? choose_some(parameters, round, candidates) : draw_each(parameters, round, candidates)};
}

std::vector<Real> participation_probabilities(const ParticipationCore& keys) {
  return parse_numbers(keys.participation_probability);
}

bool is_unbiased(const ParticipationCore& keys) {
  return keys.participation == Participation::kSchemeTwo && keys.participation_weights != ParticipationWeights::kBiased;
}

Real inverse_participation(const ParticipationCore& keys, std::span<const Real> probabilities, uint32_t client_index,
                           uint32_t taken_part, uint32_t round) {
  if (!is_unbiased(keys)) {
    return 1;
  }
  if (keys.participation_weights == ParticipationWeights::kTrue) {
    return 1 / probability_of(probabilities, client_index);
  }
  return static_cast<Real>(round + 1) / static_cast<Real>(taken_part + 1);
}

}  // namespace gradstream
