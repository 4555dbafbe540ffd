// The fold: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/fold_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(FoldKeys, EveryBadFoldIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"fold_scale_log2:", [](RunParameters* p) { p->fold->fold_scale_log2 = 49; }},
      {"fold_weight_max:", [](RunParameters* p) { p->fold->fold_weight_max = 0; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(FoldKeys, EveryBadShareIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"weight_share_max: needs a number above 0 to 1; it is 0",
       [](RunParameters* p) { p->fold->weight_share_max = 0; }},
      {"weight_share_max, update_goal, buffer_size: 4 updates",
       [](RunParameters* p) { p->fold->weight_share_max = 0.2F; }},
      {"weight_share_max, fold_weight, solver",
       [](RunParameters* p) {
         p->fold->weight_share_max = 0.5F;
         p->fold->fold_weight = FoldWeight::kUniform;
       }},
  };
  expect_refused(tangent_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
