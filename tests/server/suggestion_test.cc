#include "server/program/suggestion.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

SampleTable table_of(uint32_t dimension, std::vector<float> values) {
  SampleTable table;
  table.dimension = dimension;
  table.sample_count = static_cast<uint32_t>(values.size()) / dimension;
  table.values = std::move(values);
  return table;
}

TEST(Suggestion, CommonUnitsKeepTheSubspace) {
  SampleTable table = table_of(2, {8, 1, 2, 1, 5, 5, 5, -3});  // variances 4.5 and 8
  take_units_out({true, UnitScale::kCommon, false, 2}, &table);
  const float factor = 1 / std::sqrt(12.5F);
  EXPECT_THAT(table.values,
              Pointwise(FloatNear(1e-6F), {3 * factor, 0.0F, -3 * factor, 0.0F, 0.0F, 4 * factor, 0.0F, -4 * factor}));
}

TEST(Suggestion, AColumnThatDoesNotVaryStaysWhereThereAreLabels) {
  SampleTable table = table_of(3, {1, 7, 0, 3, 7, 1});
  take_units_out({true, UnitScale::kDeviation, true, 2}, &table);
  EXPECT_THAT(table.values, ElementsAre(-1, 7, 0, 1, 7, 1));
  table = table_of(2, {1, 7, 3, 7});
  take_units_out({true, UnitScale::kRange, false, 2}, &table);
  EXPECT_THAT(table.values, ElementsAre(-0.5F, 0, 0.5F, 0));
}

TEST(Suggestion, TheLeastKpcaLossIsMinusHalfTheLargestEigenvalues) {
  const SampleTable table = table_of(2, {4, 4, -4, -4, 2, -2, -2, 2});  // the second moment is [[10, 6], [6, 10]]
  const BestLoss best = best_kpca(table, 1);
  EXPECT_TRUE(best.is_known);
  EXPECT_NEAR(best.loss, -8, 1e-9);
  EXPECT_NEAR(best.smoothness, 16, 1e-9);
  EXPECT_NEAR(best.share, 0.8, 1e-9);
  EXPECT_NEAR(best_kpca(table, 2).loss, -10, 1e-9);
}

TEST(Suggestion, LeastSquaresLeavesItsResidual) {
  // b = 2 a + e with e = 1, -1, -1, 1, which a does not explain.
  const BestLoss best = best_least_squares(table_of(2, {1, 3, -1, -3, 1, 1, -1, -1}), 1);
  EXPECT_NEAR(best.loss, 0.5, 1e-9);
  EXPECT_NEAR(best.smoothness, 1, 1e-9);
  // More inputs than samples explain all.
  EXPECT_NEAR(best_least_squares(table_of(4, {1, 0, 0, 5, 0, 1, 0, 7}), 1).loss, 0, 1e-9);
}

TEST(Suggestion, LogisticFindsItsMinimumWhereThereIsOne) {
  // Two inputs of one value each: the probability of class 1 is 3/4 at 1 and 1/4 at -1.
  const SampleTable table = table_of(2, {1, 1, 1, 1, 1, 1, 1, 0, -1, 0, -1, 0, -1, 0, -1, 1});
  const double least = -(0.75 * std::log(0.75) + 0.25 * std::log(0.25));
  const BestLoss best = best_logistic(table, 1);
  EXPECT_NEAR(best.loss, least, 1e-9);
  EXPECT_FALSE(best.is_separated);
  EXPECT_LT(best.newton_step_count, 15U);
  EXPECT_NEAR(best.smoothness, 0.25, 1e-9);
  EXPECT_NEAR(best_logistic(table, 2).loss, least, 1e-6) << "a column for each class says the same";
}

TEST(Suggestion, ClassesThatCanBeToldApartHaveNoMinimum) {
  const BestLoss best = best_logistic(table_of(2, {1, 1, 2, 1, -1, 0, -3, 0}), 1);
  EXPECT_TRUE(best.is_separated);
  EXPECT_LE(best.newton_step_count, kNewtonStepMax);
}

TEST(Suggestion, AModelThatIsTooLargeIsNotComputed) {
  SampleTable table = table_of(kNewtonSizeMax + 2, std::vector<float>(2 * (kNewtonSizeMax + 2), 1));
  EXPECT_FALSE(best_logistic(table, 1).is_known);
  EXPECT_FALSE(best_least_squares(table, 1).is_known);
}

}  // namespace
}  // namespace gradstream
