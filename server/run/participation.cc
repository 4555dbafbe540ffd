#include "server/run/participation.h"

#include <algorithm>
#include <map>

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

// The exchanges of `choose` (runtime/base/random.h), of which only entries are kept that have left their place: a table
// of all would make a version of a large fleet cost its fleet.
std::vector<uint32_t> choose_some(const RunParameters& parameters, uint32_t round, uint32_t population,
                                  const std::function<uint32_t(uint32_t)>& candidate) {
  const uint32_t count = std::min(parameters.drawn_count(), population);
  RandomStream stream(sampling_key(parameters, round, 0));
  std::map<uint32_t, uint32_t> moved;
  const auto entry = [&moved](uint32_t at) {
    const auto found = moved.find(at);
    return found == moved.end() ? at : found->second;
  };
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t j = i + static_cast<uint32_t>((static_cast<uint64_t>(stream.next()) * (population - i)) >> 32);
    members.push_back(candidate(entry(j)));
    moved[j] = entry(i);
  }
  std::sort(members.begin(), members.end());
  return members;
}

Real probability_of(std::span<const Real> probabilities, uint32_t client_index) {
  GS_ASSERT(!probabilities.empty());  // check_parameters() has read them
  return probabilities[std::min<size_t>(client_index, probabilities.size() - 1)];
}

std::vector<uint32_t> draw_each(const RunParameters& parameters, uint32_t round, uint32_t population,
                                const std::function<uint32_t(uint32_t)>& candidate) {
  const std::vector<Real> probabilities = participation_probabilities(*parameters.cohort);
  RandomStream stream(sampling_key(parameters, round, 0));
  std::vector<uint32_t> members;
  for (uint32_t j = 0; j < population; ++j) {
    const uint32_t index = candidate(j);
    if (stream.next_uniform() < static_cast<double>(probability_of(probabilities, index))) {
      members.push_back(index);
    }
  }
  if (members.empty()) {
    const uint64_t word = RandomStream(sampling_key(parameters, round, 1)).next();
    members.push_back(candidate(static_cast<uint32_t>(word * population >> 32)));
  }
  return members;
}

}  // namespace

Cohort choose_cohort(const RunParameters& parameters, uint32_t round, std::span<const uint32_t> candidates) {
  return choose_cohort(parameters, round, static_cast<uint32_t>(candidates.size()),
                       [candidates](uint32_t j) { return candidates[j]; });
}

Cohort choose_cohort(const RunParameters& parameters, uint32_t round, uint32_t population,
                     const std::function<uint32_t(uint32_t)>& candidate) {
  if (parameters.cohort->participation == Participation::kAll || population == 0) {
    return {};
  }
  const bool is_fixed = parameters.cohort->participation == Participation::kSchemeOne;
  return {population, is_fixed ? choose_some(parameters, round, population, candidate)
                               : draw_each(parameters, round, population, candidate)};
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
