// Step sizes: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/step_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(StepKeys, EveryBadStepIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"step_size", [](RunParameters* p) { p->steps->step_size = -1; }},
      {"step_decay, step_rule:", [](RunParameters* p) { p->steps->step_rule = StepRule::kFixed; }},
      {"step_offset:", [](RunParameters* p) { p->steps->step_offset = -1; }},
      {"step_period: needs at least 1 rounds; it is 0", [](RunParameters* p) { p->steps->step_period = 0; }},
      {"step_offset, step_rule:",
       [](RunParameters* p) {
         p->steps->step_rule = StepRule::kPrinted;
         p->steps->step_decay = 0;
       }},
  };
  expect_refused(scalar_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
