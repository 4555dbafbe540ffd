// The average of versions: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/average_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(AverageKeys, EveryBadAverageIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"average_period:", [](RunParameters* p) { p->average->average_restart = 2; }},
      {"average_from, average_period:", [](RunParameters* p) { p->average->average_period = 2000; }},
      {"average_from, average_period:",
       [](RunParameters* p) {
         p->average->average_period = 2;
         p->average->average_from = 2000;
       }},
      {"average_restart, solver, correction_form:",
       [](RunParameters* p) {
         *p = scalar_parameters();
         p->average->average_period = p->average->average_restart = 2;
       }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
