#include "server/rules/smoothing_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

// The two ratios of scalars s = slope + curvature mu + rounding / mu, as a device makes them.
SmoothingRatios ratios_of(double mu, double curvature, double rounding, uint32_t seed) {
  RandomKey key;
  key.seed = seed;
  RandomStream stream(key);
  double norm2[3] = {};
  double difference2[3] = {};
  for (int j = 0; j < 16; ++j) {
    const double slope = static_cast<double>(stream.next_uniform()) - 0.5;
    const double bend = static_cast<double>(stream.next_uniform()) + 0.5;
    double s[3];
    for (int i = 0; i < 3; ++i) {
      const double at = mu * (i == 0 ? 1 : i == 1 ? 0.25 : 4);
      s[i] = slope + curvature * bend * at + rounding * (static_cast<double>(stream.next_uniform()) - 0.5) / at;
    }
    for (int i = 0; i < 3; ++i) {
      norm2[i] += s[i] * s[i];
      difference2[i] += (s[i] - s[0]) * (s[i] - s[0]);
    }
  }
  const auto ratio = [&](int i) { return std::sqrt(difference2[i] / std::max(norm2[0], norm2[i])); };
  return {ratio(1), ratio(2), 1};
}

SmoothingVerdict verdict_of(double mu) {
  std::vector<SmoothingRatios> devices;
  for (uint32_t device = 0; device < 9; ++device) {
    devices.push_back(ratios_of(mu, 1, 1e-7, device + 1));
  }
  return check_smoothing(devices);
}

TEST(SmoothingCheck, SaysWhichSideIsWrong) {
  for (const double mu : {0.3, 1.0, 5.0, 100.0}) {
    EXPECT_EQ(verdict_of(mu).fit, SmoothingFit::kTooLarge) << mu;
  }
  for (const double mu : {1e-4, 1e-3, 1e-2}) {
    EXPECT_EQ(verdict_of(mu).fit, SmoothingFit::kGood) << mu;
  }
  for (const double mu : {1e-7, 1e-8, 1e-10}) {
    EXPECT_EQ(verdict_of(mu).fit, SmoothingFit::kTooSmall) << mu;
  }
}

TEST(SmoothingCheck, TakesTheWeightedMedianOfTheDevices) {
  EXPECT_EQ(check_smoothing({{0.01, 0.02, 10}, {0.9, 3, 9}}).fit, SmoothingFit::kGood) << "one device does not decide";
  EXPECT_EQ(check_smoothing({{0.01, 0.02, 9}, {0.1, 0.7, 10}}).fit, SmoothingFit::kTooLarge);
  EXPECT_EQ(check_smoothing({{0.1, 0.7, 10}, {0.01, 0.02, 9}}).ratio, 0.7) << "in any order";
}

TEST(SmoothingCheck, SmallRatiosAreEnoughForCurvature) {
  EXPECT_EQ(check_smoothing({{0.05, 0.2, 1}}).fit, SmoothingFit::kTooLarge);
  EXPECT_EQ(check_smoothing({{0.04, 0.14, 1}}).fit, SmoothingFit::kGood);
  EXPECT_EQ(check_smoothing({{0.2, 0.05, 1}}).fit, SmoothingFit::kGood) << "rounding";
  EXPECT_EQ(check_smoothing({{0.2, 0.2, 1}}).fit, SmoothingFit::kGood) << "neither";
}

TEST(SmoothingCheck, NothingIsKnownWithoutAnAnswer) {
  EXPECT_EQ(check_smoothing({}).fit, SmoothingFit::kUnknown);
  EXPECT_EQ(check_smoothing({{1, 1, 0}}).fit, SmoothingFit::kUnknown);
  EXPECT_EQ(check_smoothing({{std::numeric_limits<double>::quiet_NaN(), 1, 5}}).fit, SmoothingFit::kUnknown);
}

}  // namespace
}  // namespace gradstream
