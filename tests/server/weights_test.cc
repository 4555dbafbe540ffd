#include "server/run/weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(Weights, InverseSquareRootIsTheRoundedTable) {
  const RunParameters p = scalar_parameters();
  for (uint32_t s = 0; s <= 64; ++s) {
    EXPECT_EQ(staleness_weight(*p.trigger, s), static_cast<uint32_t>(std::lround(32768.0 / std::sqrt(1.0 + s)))) << s;
  }
}

TEST(Weights, TheOtherTables) {
  RunParameters p = scalar_parameters();
  p.trigger->staleness_table = StalenessTable::kConstant;
  EXPECT_EQ(staleness_weight(*p.trigger, 9), kStalenessOne);
  p.trigger->staleness_table = StalenessTable::kPolynomial;
  p.trigger->staleness_exponent = 2;
  EXPECT_EQ(staleness_weight(*p.trigger, 3), kStalenessOne / 16);
  p.trigger->staleness_exponent = 16;
  EXPECT_EQ(staleness_weight(*p.trigger, 64), 1U);  // never 0
  p.trigger->staleness_table = StalenessTable::kHinge;
  p.trigger->staleness_hinge = 4;
  p.trigger->staleness_exponent = 1;
  EXPECT_EQ(staleness_weight(*p.trigger, 4), kStalenessOne);
  EXPECT_EQ(staleness_weight(*p.trigger, 5), kStalenessOne / 2);
  EXPECT_EQ(staleness_weight(*p.trigger, 7), kStalenessOne / 4);
}

TEST(Weights, WeightsAreCappedAndNeverZero) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(fold_weight(p, 0, 0), 1U);
  EXPECT_EQ(fold_weight(p, 200, 0), 200U);
  EXPECT_EQ(fold_weight(p, 200, 3), 100U);
  EXPECT_EQ(fold_weight(p, 1, 60), 1U);
  p.fold->fold_weight_max = 150;
  EXPECT_EQ(fold_weight(p, 200, 0), 150U);
  p.fold->fold_weight_max = 65535;
  EXPECT_EQ(fold_weight(p, 65535, 0), 65535U);
  p.fold->fold_weight = FoldWeight::kUniform;
  EXPECT_EQ(fold_weight(p, 200, 0), 32768U);
  EXPECT_EQ(fold_weight(p, 5, 1), 23170U);
  EXPECT_EQ(memory_weight(p, 5), 1U);
  p.local->correction_form = CorrectionForm::kMemory;
  EXPECT_EQ(memory_weight(p, 5), 1U);
  p.fold->fold_weight = FoldWeight::kSampleCount;
  p.fold->fold_weight_max = 150;
  EXPECT_EQ(fold_weight(p, 200, 1), 23170U);
  EXPECT_EQ(memory_weight(p, 200), 150U);
  EXPECT_EQ(memory_weight(p, 0), 1U);
}

// Whatever the weights, nobody has more than the share where that can be, and the small ones keep their ratios.
TEST(Weights, CappedWeightsKeepToTheirShare) {
  RunParameters p = scalar_parameters();
  p.fold->weight_share_max = 0.3F;
  const auto capped = [&p](std::vector<uint16_t> weights) {
    cap_weights(*p.fold, weights);
    return weights;
  };
  EXPECT_EQ(capped({10, 10, 10, 10}), (std::vector<uint16_t>{10, 10, 10, 10}));  // nothing to cap
  EXPECT_EQ(capped({5, 90}), (std::vector<uint16_t>{1, 1}));                     // two cannot be below 0.3 each
  RandomKey key;
  RandomStream stream(key);
  for (uint32_t trial = 0; trial < 2000; ++trial) {
    p.fold->weight_share_max = 0.05F + 0.9F * static_cast<float>(stream.next_uniform());
    std::vector<uint16_t> before(1 + trial % 40);
    for (uint16_t& weight : before) {
      weight = static_cast<uint16_t>(1 + (stream.next() >> (16 + stream.next() % 16)) % 65535);
    }
    const std::vector<uint16_t> after = capped(before);
    const double total = std::accumulate(after.begin(), after.end(), 0.0);
    const double equal = 1.0 / static_cast<double>(after.size());
    const double most = *std::max_element(after.begin(), after.end());
    EXPECT_GE(*std::min_element(after.begin(), after.end()), 1U);
    EXPECT_LE(most / total, std::max(equal, static_cast<double>(p.fold->weight_share_max)) + 1e-12) << trial;
    for (size_t i = 0; i < after.size(); ++i) {  // the largest, or in its old ratio to the smallest
      const size_t least = static_cast<size_t>(std::min_element(before.begin(), before.end()) - before.begin());
      const double old_ratio = static_cast<double>(before[i]) / before[least];
      const double ratio = static_cast<double>(after[i]) / after[least] / old_ratio;
      EXPECT_TRUE(after[i] == most || std::abs(ratio - 1) < 1e-12) << trial;
    }
  }
}

}  // namespace
}  // namespace gradstream
