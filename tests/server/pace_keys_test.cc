// Pace: every bad window is refused with a sentence that begins with its keys.
#include "server/run/pace_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(PaceKeys, EveryBadWindowIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"retry_min_ms", [](RunParameters* p) { p->pace->retry_min_ms = p->pace->retry_max_ms + 1; }},
      {"retry_max_ms:", [](RunParameters* p) { p->pace->retry_max_ms = 21600001; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(PaceKeys, TooFewArrivalsAreRefused) {
  const RefusedCase cases[] = {
      {"arrival_rate, device_count: so few arrivals a second make devices wait above 6 h; use at least 5",
       [](RunParameters* p) {
         p->trigger->device_count = 30'000;
         p->pace->arrival_rate = 4;
       }},
  };
  expect_refused(tangent_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
