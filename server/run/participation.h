// Who is asked in a round, and what an answer must be divided by so that the mean over rounds stays that of all
// devices. A choice of its own, orthogonal to the straggler policy: the policy waits for members of the cohort only.
//
//   all        every device that is enrolled and not revoked
//   scheme_1   cohort_size of them, uniformly without replacement; their mean, weighted as the run weighs; with
//              over_selection more are asked, and the first cohort_size to answer are the round's
//   scheme_2   device j with probability p_j, independently; sum_j zeta_j / (S q_j), S devices in all, q_j either the
//              true p_j or counted: (times j took part) / (rounds so far). If nobody is drawn, one device, uniformly.
//
// (000 Algorithm 1 and section 6.) Pure functions of the run's seed and the round: the same after a crash, and the same
// as any independent draw from the shared random stream (domain 3, docs/wire.md).
#ifndef GRADSTREAM_SERVER_RUN_PARTICIPATION_H_
#define GRADSTREAM_SERVER_RUN_PARTICIPATION_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "server/run/run_parameters.h"

namespace gradstream {

// The devices asked in one round. Recorded with the version that they are asked for: who is enrolled is no function of
// the run's parameters.
struct Cohort {
  uint32_t population = 0;        // S: devices that could have been asked; 0: no choice was made, everyone is asked
  std::vector<uint32_t> members;  // enrolment indices, ascending
  friend bool operator==(const Cohort&, const Cohort&) = default;
};

// The cohort of a round among the candidates (enrolment indices, ascending, not revoked). Never without a member if
// there is a candidate; Cohort() where everyone takes part. Scheme I: `choose` with version = round, owner 0. Scheme
// II: candidate number j takes part if the uniform of word j (version = round, owner 0) is below p_j; nobody: word 0 of
// owner 1 picks one.
Cohort choose_cohort(const RunParameters& parameters, uint32_t round, std::span<const uint32_t> candidates);
// The same of so many candidates, of which candidate(j) is number j. Scheme I asks for those that it draws, and costs
// no more than its cohort. Scheme II draws a word for each candidate by its definition.
Cohort choose_cohort(const RunParameters& parameters, uint32_t round, uint32_t population,
                     const std::function<uint32_t(uint32_t)>& candidate);

// The p_j of the run's parameters, by enrolment index; the last one holds for all devices after it. Empty but for
// Scheme II.
std::vector<Real> participation_probabilities(const ParticipationCore& keys);

// Whether the fold divides by S and each answer by q_j, instead of by the sum of the weights.
bool is_unbiased(const ParticipationCore& keys);

// 1 / q_j for an answer of round `round` (from 0) by a device that has taken part in `taken_part` rounds before it; 1
// where the run weighs otherwise. probabilities: what participation_probabilities() gives.
Real inverse_participation(const ParticipationCore& keys, std::span<const Real> probabilities, uint32_t client_index,
                           uint32_t taken_part, uint32_t round);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_PARTICIPATION_H_
