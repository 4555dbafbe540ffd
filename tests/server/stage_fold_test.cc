#include "server/rules/stage_fold.h"

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(StageFold, EveryStageHasOneAndTrainingHasNone) {
  RunParameters p = scalar_parameters();
  p.units.keys().scale = UnitScale::kDeviation;
  p.steps->step_size = 0;
  const TestReplica server(p);
  for (StageStep step = first_stage(p); step.stage != TaskStage::kTrain; step = stage_after(p, step)) {
    const auto fold = make_stage_fold({.parameters = &p, .replica = &server.replica, .step = step});
    ASSERT_NE(fold, nullptr) << stage_name(step.stage);
    EXPECT_EQ(fold->step_size() == 0, !is_of_units(step.stage)) << "nobody moves before trials have a length";
  }
  EXPECT_EQ(make_stage_fold({.parameters = &p, .replica = &server.replica}), nullptr);
}

}  // namespace
}  // namespace gradstream
