#include "server/run/run_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(RunParameters, WhatTravelsFollowsFromEstimatorSolverAndWish) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(p.stream(), StreamKind::kScalarStream);
  p.wire->upload_stream = StreamKind::kTangentBlock;
  p.local->correction_form = CorrectionForm::kNone;
  EXPECT_EQ(p.stream(), StreamKind::kTangentBlock);
  EXPECT_EQ(p.value_count(), p.model->shape.size());
  p.wire->upload_stream = StreamKind::kNone;
  for (const EstimatorId id :
       {EstimatorId::kAnalyticGradient, EstimatorId::kTangentRetraction, EstimatorId::kProjectionTangent}) {
    p.local->estimator = id;
    for (const SolverId solver : {SolverId::kProjection, SolverId::kGradientStream}) {
      p.local->solver = solver;
      EXPECT_EQ(p.stream(), StreamKind::kTangentBlock);
      EXPECT_EQ(check_parameters(p).sentence, "");
    }
  }
}

// 000 equations (5.2), as printed and as its authors run it, and (4.24).
TEST(RunParameters, StepRules) {
  RunParameters p = tangent_parameters();
  p.steps->step_size = 0.5F;
  p.steps->step_offset = 0.25F;
  p.steps->step_period = 50;
  const auto steps = [&p](StepRule rule) {
    p.steps->step_rule = rule;
    return std::vector<Real>{p.step_size_at(0), p.step_size_at(1), p.step_size_at(49), p.step_size_at(50),
                             p.step_size_at(150)};
  };
  EXPECT_THAT(steps(StepRule::kFixed), testing::Each(0.5F));
  EXPECT_THAT(steps(StepRule::kPrinted), testing::ElementsAre(0.5F, 2.0F, 2.0F, 0.4F, 0.5F / 3.25F));
  EXPECT_THAT(steps(StepRule::kCode), testing::ElementsAre(0.5F, 0.5F, 0.5F, 0.4F, 0.5F / 3.25F));
  EXPECT_THAT(steps(StepRule::kHarmonic),
              testing::ElementsAre(2.0F, 0.4F, 0.5F / 49.25F, 0.5F / 50.25F, 0.5F / 150.25F));
}

TEST(RunParameters, NumbersInText) {
  EXPECT_THAT(parse_numbers("0.5 1e-3  7 "), testing::ElementsAre(Real{0.5}, Real{1e-3F}, Real{7}));
  EXPECT_THAT(parse_numbers(""), testing::IsEmpty());
  EXPECT_THAT(parse_numbers("1,2"), testing::IsEmpty());
  EXPECT_THAT(parse_numbers("1 nan"), testing::IsEmpty());
  EXPECT_THAT(parse_numbers("1 x"), testing::IsEmpty());
}

TEST(RunParameters, OwnersAndSteps) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(p.owner_of(3), 0U);
  p.local->group_count = 2;
  EXPECT_EQ(p.owner_of(3), 1U);
  p.local->group_count = 0;
  EXPECT_FALSE(p.shared_directions());
  EXPECT_EQ(p.owner_of(3), 3U);
  EXPECT_EQ(p.step_size_at(0), 0.05F);
  EXPECT_FLOAT_EQ(p.step_size_at(10), 0.025F);
  EXPECT_EQ(p.value_count(), 12U);
  EXPECT_EQ(tangent_parameters().value_count(), 32U);
  EXPECT_EQ(p.least_steps(), 3U);
}

}  // namespace
}  // namespace gradstream
