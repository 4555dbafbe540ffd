#include "server/run/units_keys.h"

#include <gtest/gtest.h>

#include "server/run/canonical_text.h"
#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(UnitsKeys, ARunAsBeforeHasTheDigestAsBefore) {
  RunParameters p = scalar_parameters();
  const uint64_t digest = parameters_digest(p, 0);
  p.units.keys().centre = Centre::kFederated;
  EXPECT_NE(parameters_digest(p, 0), digest);
  EXPECT_NE(canonical_text(p).find("centre = federated\nscale = none\nsamples_min = 0\n"), std::string::npos);
  p.units.keys() = UnitsKeys();
  EXPECT_EQ(parameters_digest(p, 0), digest);
}

TEST(UnitsKeys, AProblemWithoutColumnsIsRefusedByName) {
  for (const char* problem : {"kpca", "least_squares", "logistic", "perceptron", "lenet", "brockett", "own"}) {
    RunParameters p = scalar_parameters();
    p.model->problem = problem;
    EXPECT_FALSE(check_units(p)) << problem;
    p.units.keys().scale = UnitScale::kCommon;
    const bool has_columns = problem != std::string("brockett") && problem != std::string("own");
    EXPECT_EQ(!check_units(p), has_columns) << problem;
    if (!has_columns) {
      const std::string sentence = check_units(p).sentence;
      EXPECT_NE(sentence.find("centre, scale, problem:"), std::string::npos);
      EXPECT_NE(sentence.find(problem), std::string::npos);
    }
  }
}

TEST(UnitsKeys, MoreSamplesThanADeviceHoldsAreRefused) {
  RunParameters p = scalar_parameters();
  p.units.keys().samples_min = 65535;
  EXPECT_FALSE(check_parameters(p));
  p.units.keys().samples_min = 65536;
  EXPECT_TRUE(check_parameters(p));
}

TEST(UnitsKeys, TheWelcomeSaysWhatIsTakenOut) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(units_bits(p), 0U);
  p.units.keys().centre = Centre::kFederated;
  EXPECT_EQ(units_bits(p), 1U);
  p.units.keys().scale = UnitScale::kDeviation;
  EXPECT_EQ(units_bits(p), 3U);
  p.units.keys() = {Centre::kNone, UnitScale::kRange, 0};
  EXPECT_EQ(units_bits(p), 6U);
  p.model->problem = "least_squares";
  EXPECT_EQ(units_column_count(p), 18U);
  EXPECT_TRUE(has_labels(p));
  p.model->problem = "lenet";
  EXPECT_EQ(units_column_count(p), 0U);
}

}  // namespace
}  // namespace gradstream
