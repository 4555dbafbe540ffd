#include "firmware/upper_quantile.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// numpy.quantile(scores, q, method="higher")
float sorted_quantile(std::vector<float> scores, float q) {
  std::sort(scores.begin(), scores.end());
  return scores[static_cast<size_t>(std::ceil(q * static_cast<float>(scores.size() - 1)))];
}

TEST(UpperQuantile, IsThatOfTheSortedScores) {
  const std::vector<float> all = random_values(7000, 5);
  for (const float q : {0.0F, 0.5F, 0.9F, 0.99F, 0.999F, 1.0F}) {
    for (const uint32_t count : {1U, 2U, 3U, 63U, 64U, 65U, 101U, 1000U, 7000U}) {
      UpperQuantile quantile;
      quantile.begin(q, count);
      std::vector<float> scores;
      for (uint32_t i = 0; i < count; i += quantile.stride()) {
        scores.push_back(all[i]);
        quantile.add(all[i]);
      }
      EXPECT_EQ(quantile.value(), sorted_quantile(scores, q)) << q << " of " << count;
    }
  }
}

TEST(UpperQuantile, TakesAllSamplesAsLongAsTheyFit) {
  UpperQuantile quantile;
  quantile.begin(0.99F, 6300);
  EXPECT_EQ(quantile.stride(), 1U);
  quantile.begin(0.99F, 6500);
  EXPECT_EQ(quantile.stride(), 2U);
  quantile.begin(0, 65535);
  EXPECT_EQ(quantile.stride(), 1024U) << "all scores above the least would have to be kept";
}

// Samples without a score are left out.
TEST(UpperQuantile, HoldsForFewerScoresThanSamples) {
  const std::vector<float> all = random_values(500, 6);
  UpperQuantile quantile;
  quantile.begin(0.9F, 500);
  std::vector<float> scores;
  for (size_t i = 0; i < all.size(); i += 7) {
    scores.push_back(all[i]);
    quantile.add(all[i]);
  }
  EXPECT_EQ(quantile.value(), sorted_quantile(scores, 0.9F));
}

TEST(UpperQuantile, EqualScoresAllCount) {
  UpperQuantile quantile;
  quantile.begin(0.9F, 100);
  for (int i = 0; i < 100; ++i) quantile.add(i < 95 ? 1.0F : 2.0F);
  EXPECT_EQ(quantile.value(), 1.0F);
}

}  // namespace
}  // namespace gradstream
