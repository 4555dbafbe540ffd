// Constants for advice: a number that no theorem can take is refused.
#include "server/run/constant_keys.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(ConstantKeys, NoConstantIsBelowZeroOrEndless) {
  const RefusedCase cases[] = {
      {"smoothness: needs a number from 0; it is -1", [](RunParameters* p) { p->constants->smoothness = -1; }},
      {"initial_excess: needs a number from 0; it is inf",
       [](RunParameters* p) { p->constants->initial_excess = std::numeric_limits<Real>::infinity(); }},
      {"gradient_bound: needs a number from 0; it is -1", [](RunParameters* p) { p->constants->gradient_bound = -1; }},
      {"diameter: needs a number from 0; it is -2", [](RunParameters* p) { p->constants->diameter = -2; }},
      {"loss_noise: needs a number from 0; it is nan",
       [](RunParameters* p) { p->constants->loss_noise = std::numeric_limits<Real>::quiet_NaN(); }},
  };
  expect_refused(scalar_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
