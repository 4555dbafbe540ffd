// Scores and predictions of one sample. The numbers wanted were computed by numpy in double.
#include "runtime/problem/score.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// Neither X nor its columns are orthonormal: the formula is that of any X.
const std::vector<Real> kModel = {2, -2.5, 0.375, -0.625, -0.5, -0.25, -2, -0.25};
const std::vector<Real> kSample = {2.375, 15, 5.625, 4, 2.5, -1.25};  // the last two are targets
const UnitsColumn kColumns[] = {{5, 4.75F, 0.5F},  {5, 4.375F, 0.25F}, {5, 4.0F, 1.0F},
                                {5, 4.625F, 2.0F}, {3, 1.0F, 0.5F},    {3, -3.0F, 4.0F}};

ScoreInput input_of(uint32_t units_count) {
  return {{4, 2}, kModel.data(), kSample.data(), units_count == 0 ? Units{} : Units{kColumns, units_count}};
}

Real score_of(Status (*score)(const ScoreInput&, Real*), uint32_t units_count) {
  Real out = -1;
  EXPECT_EQ(score(input_of(units_count), &out), Status::kOk);
  return out;
}

void expect_near(Real value, double wanted) {
  EXPECT_NEAR(static_cast<double>(value), wanted, 2e-6 * (wanted < 0 ? -wanted : wanted));
}

TEST(Score, KpcaIsTheDistanceFromTheSubspace) {
  expect_near(score_of(score_kpca, 0), 41.28230435615364);
  expect_near(score_of(score_kpca, 4), 4.10546027127306);
}

TEST(Score, KpcaSaysWhatItCannotScore) {
  ScoreInput input = input_of(0);
  std::vector<Real> sample = kSample;
  sample[1] = std::numeric_limits<Real>::max();
  input.sample = sample.data();
  Real score = -1;
  EXPECT_EQ(score_kpca(input, &score), Status::kNotFinite) << "its square is infinite";
  const std::vector<Real> wide(2 * (kScoreColsMax + 1));
  input.shape = {2, kScoreColsMax + 1};
  input.model = wide.data();
  EXPECT_EQ(score_kpca(input, &score), Status::kUnimplemented);
  EXPECT_EQ(score, -1);
  input.shape = {2, kScoreColsMax};
  input.sample = kSample.data();
  EXPECT_EQ(score_kpca(input, &score), Status::kOk);
}

TEST(Score, LeastSquaresIsInTheTargetsOwnUnits) {
  Real prediction[2];
  predict_least_squares(input_of(0), prediction);
  expect_near(prediction[0], -0.4375);
  expect_near(prediction[1], -17.71875);
  expect_near(score_of(score_least_squares, 0), 16.728676959416127);
  predict_least_squares(input_of(6), prediction);
  expect_near(prediction[0], 1.6171875);
  expect_near(prediction[1], -2.6962890625);
  expect_near(score_of(score_least_squares, 6), 1.6944349980047564);
}

TEST(Score, LogisticPredictsProbabilities) {
  Real prediction[2];
  predict_logistic(input_of(4), prediction);
  expect_near(prediction[0], 0.2877678157610531);
  expect_near(prediction[1], 0.712232184238947);
  std::vector<Real> column(4);
  for (size_t r = 0; r < 4; ++r) column[r] = kModel[2 * r];
  ScoreInput input = input_of(4);
  input.shape = {4, 1};
  input.model = column.data();
  predict_logistic(input, prediction);
  expect_near(prediction[0], 0.5765419743991188);
  std::vector<Real> far = kSample;
  for (const Real value : {Real{-1000}, Real{1000}}) {  // log-odds beyond what exp() can hold
    far[0] = value;
    input.sample = far.data();
    predict_logistic(input, prediction);
    EXPECT_EQ(prediction[0], value < 0 ? Real{0} : Real{1});
  }
}

}  // namespace
}  // namespace gradstream
