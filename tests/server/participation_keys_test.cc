// Participation: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/participation_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(ParticipationKeys, EveryBadParticipationIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"cohort_size, participation:", [](RunParameters* p) { p->cohort->cohort_size = 2; }},
      {"cohort_size, device_count:", [](RunParameters* p) { p->cohort->participation = Participation::kSchemeOne; }},
      {"cohort_size, device_count:",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeOne;
         p->cohort->cohort_size = 5;
       }},
      {"update_goal, device_count:",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeOne;
         p->cohort->cohort_size = 2;
         p->trigger->update_goal = 3;
       }},
      {"participation_probability, participation:",
       [](RunParameters* p) { p->cohort->participation_probability = "0.5"; }},
      {"participation_probability:", [](RunParameters* p) { p->cohort->participation = Participation::kSchemeTwo; }},
      {"participation_probability:",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeTwo;
         p->cohort->participation_probability = "0.5 1.5";
       }},
      {"participation_weights, update_goal, update_min:",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeTwo;
         p->cohort->participation_probability = "0.5";
         p->cohort->participation_weights = ParticipationWeights::kTrue;
         p->trigger->update_goal = 2;
       }},
      {"participation_weights, fold_weight:",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeTwo;
         p->cohort->participation_probability = "0.5";
       }},
  };
  expect_refused(tangent_parameters(), cases);
  RunParameters scalar = scalar_parameters();
  scalar.cohort->participation = Participation::kSchemeTwo;
  scalar.cohort->participation_probability = "0.5";
  EXPECT_THAT(check_parameters(scalar).sentence,
              testing::StartsWith("participation_weights, solver, correction_form:"));
  RunParameters unbiased = scalar;
  unbiased.local->correction_form = CorrectionForm::kMemory;
  EXPECT_THAT(check_parameters(unbiased).sentence,
              testing::StartsWith("participation_weights, solver, correction_form:"));
  unbiased.local->correction_form = CorrectionForm::kUnbiased;
  EXPECT_EQ(check_parameters(unbiased).sentence, "");
  scalar.cohort->participation_weights = ParticipationWeights::kBiased;
  EXPECT_EQ(check_parameters(scalar).sentence, "");
}

TEST(ParticipationKeys, EveryBadOverSelectionIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"over_selection: needs a number from 1; it is 0", [](RunParameters* p) { p->cohort->over_selection = 0; }},
      {"over_selection, participation:", [](RunParameters* p) { p->cohort->over_selection = 2; }},
      {"over_selection, cohort_size, device_count: 6 devices would be drawn",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeOne;
         p->cohort->cohort_size = 3;
         p->cohort->over_selection = 2;
       }},
  };
  expect_refused(tangent_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
