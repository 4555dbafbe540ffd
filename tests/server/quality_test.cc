#include "server/coordinator/quality.h"

#include <cmath>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

JournalRecord update_of(uint32_t base_version, uint32_t version, UpdateEvaluation evaluation) {
  return JournalRecord::update({.base_version = base_version, .version = version, .notes = {{}, evaluation}});
}

TEST(Quality, EachProblemHasItsMetric) {
  EXPECT_EQ(quality_metric("kpca"), QualityMetric::kExplainedVariance);
  EXPECT_EQ(quality_metric("least_squares"), QualityMetric::kRmse);
  for (const char* const problem : {"logistic", "perceptron", "lenet", "network"}) {
    EXPECT_EQ(quality_metric(problem), QualityMetric::kAccuracy) << problem;
  }
  for (const char* const problem : {"spd_mean", "hyperbolic"}) {
    EXPECT_EQ(quality_metric(problem), QualityMetric::kDistance) << problem;
  }
  EXPECT_EQ(quality_metric("brockett"), QualityMetric::kLoss);
  EXPECT_EQ(quality_metric("my_own"), QualityMetric::kLoss);
}

TEST(Quality, TextsSayWhatTheNumberIs) {
  EXPECT_EQ(quality_text(QualityMetric::kAccuracy, 0.9421), "quality 94.2 %");
  EXPECT_EQ(quality_text(QualityMetric::kExplainedVariance, 1), "quality 100.0 %");
  EXPECT_EQ(quality_text(QualityMetric::kRmse, 0.12345), "RMSE 0.1235");
  EXPECT_EQ(quality_text(QualityMetric::kDistance, 2.5), "distance 2.5");
  EXPECT_EQ(quality_text(QualityMetric::kLoss, -1e9), "loss -1e+09");
}

TEST(Quality, DevicesCountByTheirSamples) {
  QualityBook book(QualityMetric::kAccuracy);
  EXPECT_EQ(book.latest(), nullptr);
  book.take(update_of(4, 5, {10, 1, 0.5F}));
  book.take(update_of(4, 5, {30, 3, 0.75F}));
  ASSERT_NE(book.latest(), nullptr);
  EXPECT_EQ(book.latest()->version, 4U);
  EXPECT_EQ(book.latest()->device_count, 2U);
  EXPECT_EQ(book.latest()->sample_count, 40U);
  EXPECT_DOUBLE_EQ(book.latest()->loss, 2.5);
  EXPECT_DOUBLE_EQ(book.latest()->metric, 0.6875);
}

TEST(Quality, RootsAreMeansOfSquares) {
  QualityBook book(QualityMetric::kRmse);
  book.take(update_of(0, 1, {10, 0.5F, 1}));
  book.take(update_of(0, 1, {30, 4.5F, 3}));
  EXPECT_NEAR(book.latest()->metric, std::sqrt(7.0), 1e-12);
}

TEST(Quality, LateEvaluationsCountUntilTheVersionAfter) {
  QualityBook book(QualityMetric::kLoss);
  book.take(update_of(2, 3, {10, 1, 1}));
  book.take(update_of(3, 4, {10, 5, 5}));
  book.take(update_of(2, 4, {10, 3, 3}));  // one version late
  book.take(update_of(2, 5, {10, 9, 9}));  // two
  EXPECT_EQ(book.late_count(), 1U);
  EXPECT_EQ(book.latest()->version, 3U);
  ASSERT_NE(book.find(2), nullptr);
  EXPECT_DOUBLE_EQ(book.find(2)->metric, 2);
  EXPECT_EQ(book.find(2)->device_count, 2U);
  book.take(update_of(1, 3, {10, 1, 1}));  // evaluated late, and by nobody before
  ASSERT_EQ(book.versions().size(), 3U);
  EXPECT_EQ(book.versions().front().version, 1U);
  EXPECT_EQ(book.find(7), nullptr);
}

TEST(Quality, WhatSaysNothingOfQualityIsPassedOver) {
  QualityBook book(QualityMetric::kLoss);
  book.take(JournalRecord::task({}));
  book.take(JournalRecord::begin_version({.version = 3}));
  book.take(JournalRecord::update({.base_version = 3, .version = 4, .notes = {UpdateLine{1, 2}, {}}}));
  EXPECT_EQ(book.latest(), nullptr);
}

TEST(Quality, TheBookIsBounded) {
  QualityBook book(QualityMetric::kLoss);
  for (uint32_t version = 0; version < kQualityHistoryMax + 10; ++version) {
    book.take(update_of(version, version + 1, {1, 0, 0}));
  }
  EXPECT_EQ(book.versions().size(), kQualityHistoryMax);
  EXPECT_EQ(book.versions().front().version, 10U);
}

TEST(Quality, AShareBeyondOneIsImpossible) {
  EXPECT_TRUE(is_possible(QualityMetric::kAccuracy, {1, 0, 1.0005F}));
  EXPECT_FALSE(is_possible(QualityMetric::kAccuracy, {1, 0, 1.5F}));
  EXPECT_FALSE(is_possible(QualityMetric::kExplainedVariance, {1, 0, -0.5F}));
  EXPECT_TRUE(is_possible(QualityMetric::kRmse, {1, 0, 1e9F}));
}

}  // namespace
}  // namespace gradstream
