#include "server/run/run_stages.h"

#include <string>

#include <gtest/gtest.h>

#include "runtime/training/stream.h"
#include "runtime/training/task_stages.h"
#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

static_assert(kTrialCount == kRungCount);

// "exponents sums start0 trials0 start1 trials1".
std::string stages_of(const RunParameters& p) {
  std::string text;
  for (StageStep step = first_stage(p); step.stage != TaskStage::kTrain; step = stage_after(p, step)) {
    EXPECT_TRUE(is_stage_of(p, step));
    text += (text.empty() ? "" : " ") + std::string(stage_name(step.stage));
    text += is_of_units(step.stage) ? "" : std::to_string(step.draw);
  }
  return text;
}

TEST(RunStages, ARunHasThoseThatItsKeysWant) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(stages_of(p), "");
  EXPECT_FALSE(has_stages(p));
  p.units.keys().centre = Centre::kFederated;
  EXPECT_TRUE(has_stages(p));
  EXPECT_EQ(stages_of(p), "exponents sums");
  p.model->problem = "least_squares";
  EXPECT_EQ(stages_of(p), "exponents sums squares") << "an intercept shows in squares alone";
  p.units.keys().scale = UnitScale::kRange;
  EXPECT_EQ(stages_of(p), "exponents sums");
  p.units.keys().scale = UnitScale::kDeviation;
  EXPECT_EQ(stages_of(p), "exponents sums squares");
  p.units.keys().centre = Centre::kNone;
  EXPECT_EQ(stages_of(p), "exponents sums squares");
  p.steps->step_size = 0;
  EXPECT_EQ(stages_of(p), "exponents sums squares start0 trials0 start1 trials1");
  p.units.keys().scale = UnitScale::kNone;
  EXPECT_EQ(stages_of(p), "start0 trials0 start1 trials1");
  EXPECT_EQ(p.version_count(), p.trigger->round_count + 4);
  EXPECT_FALSE(is_stage_of(p, {TaskStage::kSums, 0}));
  EXPECT_FALSE(is_stage_of(p, {TaskStage::kStart, 2}));
  EXPECT_TRUE(is_stage_of(p, {}));
}

TEST(RunStages, AnswersHaveTheValuesOfTheirColumns) {
  RunParameters p = scalar_parameters();
  p.units.keys().scale = UnitScale::kRange;
  const uint32_t d = units_column_count(p);
  EXPECT_EQ(d, p.model->shape.rows);
  EXPECT_EQ(answer_value_count(p, TaskStage::kExponents, d), 1 + d);
  EXPECT_EQ(answer_value_count(p, TaskStage::kSums, d), 1 + 3 * d);
  EXPECT_EQ(answer_value_count(p, TaskStage::kTrials, d), 32U);
  EXPECT_EQ(answer_value_count(p, TaskStage::kSums, 0), 0U);
  EXPECT_EQ(value_count_max(p), 1 + 3 * d);
  EXPECT_EQ(value_count_max(scalar_parameters()), scalar_parameters().value_count());
  EXPECT_EQ(answer_encoding(TaskStage::kSums), Encoding::kWords);
  EXPECT_EQ(answer_encoding(TaskStage::kTrials), Encoding::kF32);
  EXPECT_EQ(version_parts(p), part_bit(ModelPart::kUnits));
  p.steps->step_size = 0;
  EXPECT_EQ(version_parts(p), part_bit(ModelPart::kUnits) | part_bit(ModelPart::kDirection));
}

}  // namespace
}  // namespace gradstream
