// Quality: every bad share is refused with a sentence that begins with its keys.
#include "server/run/quality_keys.h"

#include <cmath>

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(QualityKeys, EveryBadShareIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"holdout_share: needs", [](RunParameters* p) { p->quality->holdout_share = -0.1F; }},
      {"holdout_share: needs", [](RunParameters* p) { p->quality->holdout_share = 1; }},
      {"holdout_share: needs", [](RunParameters* p) { p->quality->holdout_share = NAN; }},
      {"holdout_share: less than one of 65,536", [](RunParameters* p) { p->quality->holdout_share = 1e-6F; }},
      {"holdout_share: no sample would be left to train on",
       [](RunParameters* p) { p->quality->holdout_share = std::nextafter(Real{1}, Real{0}); }},
      {"evaluation_period, holdout_share:", [](RunParameters* p) { p->quality->evaluation_period = 5; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(QualityKeys, TheShareIsRoundedToTheWire) {
  QualityKeys keys;
  EXPECT_EQ(keys.holdout(), 0U);
  keys.holdout_share = 0.2F;
  EXPECT_EQ(keys.holdout(), 13107U);
  keys.holdout_share = 0.5F;
  EXPECT_EQ(keys.holdout(), 32768U);
}

// Held-out samples without evaluations are a choice: somebody may look at them in another way.
TEST(QualityKeys, GoodRunsAreTaken) {
  RunParameters p = scalar_parameters();
  p.quality->holdout_share = 0.2F;
  EXPECT_FALSE(check_parameters(p));
  p.quality->evaluation_period = 10;
  EXPECT_FALSE(check_parameters(p));
}

}  // namespace
}  // namespace gradstream
