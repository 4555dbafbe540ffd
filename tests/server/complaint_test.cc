// A stall's cause in words, and what it proposes.
#include "server/coordinator/complaint.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(Complaint, EachReasonHasItsWordsAndOneLine) {
  for (int reason = 1; reason < _gs_Reason_ARRAYSIZE; ++reason) {
    BlockedGroup group;
    group.reason = static_cast<gs_Reason>(reason);
    group.device_count = 1;
    group.asked_count = 2;
    group.names = "a";
    group.first_name = "a";
    const StallCause cause = stall_cause(scalar_parameters(), group);
    EXPECT_EQ(cause.cause, reason_name(group.reason));
    EXPECT_THAT(cause.text, HasSubstr("1 of 2 devices (a)"));
    EXPECT_FALSE(cause.remedy.empty());
    EXPECT_EQ(decode_stall(encode_stall(cause)), cause);
  }
}

TEST(Complaint, AProblemThatNobodyHasComesWithTheNearestName) {
  RunParameters p = scalar_parameters();
  p.model->problem = "pca";
  BlockedGroup group;
  group.lacks_something = true;
  group.lacks = "problem:pca";
  EXPECT_THAT(stall_cause(p, group).text, HasSubstr("no built-in problem has the name pca, the nearest one is kpca"));
  for (const char* const end : {"--problem", "run.problem"}) {
    EXPECT_THAT(stall_cause(p, group).remedy, HasSubstr(end));
  }
  group.lacks = "manifold:spd";
  EXPECT_THAT(stall_cause(p, group).remedy, testing::Not(HasSubstr("--problem")));
}

TEST(Complaint, AFeatureThatDefaultsAskForComesWithTheKeysToSet) {
  const RunParameters p = scalar_parameters();
  BlockedGroup group;
  group.lacks_something = true;
  group.lacks = "feature:units";
  EXPECT_THAT(stall_cause(p, group).remedy, HasSubstr("begin one with centre = \"none\" and scale = \"none\""));
  group.lacks = "feature:units,feature:lines";
  EXPECT_THAT(stall_cause(p, group).remedy, HasSubstr("scale = \"none\", a number as step_size, such as 0.1"));
  group.lacks = "problem:pca,feature:units";
  EXPECT_THAT(stall_cause(p, group).remedy, HasSubstr("run.problem"));
  group.lacks = "feature:clip_scale";
  EXPECT_THAT(stall_cause(p, group).remedy, HasSubstr("begin one with clip_norm = \"none\""));
  group.lacks = "feature:memory";
  EXPECT_THAT(stall_cause(p, group).remedy, HasSubstr("one that they can do"));
}

TEST(Complaint, ADeviceWithoutSamplesToTrainOnIsToldHowManyItNeeds) {
  RunParameters p = scalar_parameters();
  p.quality->holdout_share = 0.5F;
  BlockedGroup group;
  group.reason = gs_Reason_REASON_OUT_OF_RANGE;
  group.device_count = 1;
  group.asked_count = 2;
  group.names = group.first_name = "pump";
  group.complaint.value = 1;
  group.complaint.least = 2;
  group.complaint.most = 65535;
  const StallCause cause = stall_cause(p, group);
  EXPECT_EQ(cause.cause, "all_held_out");
  EXPECT_THAT(cause.text, HasSubstr("pump holds 1, and holdout_share = 0.5 leaves one of 2 or more"));
  EXPECT_THAT(cause.remedy, HasSubstr("give these devices 2 samples or more, or stop"));
  p.quality->holdout_share = 0;  // a ring that is still empty
  group.complaint.value = 0;
  group.complaint.least = 1;
  EXPECT_EQ(stall_cause(p, group).cause, "no_samples");
  EXPECT_EQ(stall_cause(p, group).remedy, "give these devices 1 samples or more");
  EXPECT_EQ(decode_stall(encode_stall(cause)), cause);
}

TEST(Complaint, AStallTellsAllCausesUpToItsBound) {
  const RunParameters p = scalar_parameters();
  std::vector<BlockedGroup> groups(kStallCausesMax + 2);
  const gs_Reason reasons[] = {gs_Reason_REASON_WRONG_SHAPE, gs_Reason_REASON_OUT_OF_MEMORY,
                               gs_Reason_REASON_SINGULAR,    gs_Reason_REASON_NOT_FINITE,
                               gs_Reason_REASON_NO_TIME,     gs_Reason_REASON_OUT_OF_RANGE};
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].reason = reasons[i];
    groups[i].device_count = 1;
    groups[i].names = "d" + std::to_string(i);
  }
  const StallCause one = stall_causes(p, std::span(groups).first(1));
  EXPECT_EQ(one, stall_cause(p, groups[0]));
  const StallCause all = stall_causes(p, groups);
  EXPECT_EQ(all.cause, "wrong_shape");
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool is_told = i < kStallCausesMax;
    const StallCause each = stall_cause(p, groups[i]);
    EXPECT_EQ(all.text.find(each.text) != std::string::npos, is_told) << each.cause;
    EXPECT_EQ(all.remedy.find(each.remedy) != std::string::npos, is_told) << each.cause;
  }
  EXPECT_THAT(all.text, HasSubstr("; also 2 more causes"));
  EXPECT_EQ(decode_stall(encode_stall(all)), all);
}

// k-PCA of one long axis: the slopes of its first step, and the loss, as devices send them.
RangeFault long_axis(const RunParameters& p, double curvature, std::vector<Real>* values) {
  // g = -C x with C = L e1 e1', x's first row of norm sqrt(r / p); slopes have variance |g|^2 / (p r).
  const double share = static_cast<double>(p.model->shape.cols) / p.model->shape.rows;
  const double gradient = curvature * std::sqrt(share);
  const double slope = gradient / std::sqrt(static_cast<double>(p.model->shape.size()));
  *values = std::vector<Real>(p.value_count(), static_cast<Real>(slope));
  const double limit = std::ldexp(1.0, 31 - static_cast<int>(p.fold->fold_scale_log2));
  RangeFault fault;
  fault.values = *values;
  fault.factor = limit / (slope / 3);
  fault.steps_done = 3;
  fault.loss_before = fault.loss_after = -0.5 * curvature * share;
  fault.model_norm = std::sqrt(static_cast<double>(p.model->shape.cols));
  return fault;
}

TEST(Complaint, TheProposedStepIsAFifthOfTheInverseCurvature) {
  const RunParameters p = scalar_parameters();
  for (const double curvature : {1e4, 1e5, 1e6, 3e7}) {
    std::vector<Real> values;
    const Complaint complaint = range_complaint(p, long_axis(p, curvature, &values));
    EXPECT_NEAR(complaint.step_size * curvature, 0.2, 0.02) << curvature;
    ASSERT_GT(complaint.fold_scale_log2, 0U) << curvature;
    const double limit = std::ldexp(1.0, 31 - static_cast<int>(complaint.fold_scale_log2 - 1));
    EXPECT_GE(limit, 8 * static_cast<double>(complaint.value)) << "room for steeper places";
    EXPECT_LE(limit, 40 * static_cast<double>(complaint.value)) << "and no more digits given away";
  }
}

TEST(Complaint, WhereNoScaleHoldsTheValuesNoKeyIsNamed) {
  const RunParameters p = scalar_parameters();
  std::vector<Real> values;
  const Complaint complaint = range_complaint(p, long_axis(p, 1e15, &values));
  EXPECT_TRUE(complaint.has_value());
  EXPECT_EQ(complaint.fold_scale_log2, 0U);
  EXPECT_EQ(complaint.step_size, 0);
  BlockedGroup group;
  group.reason = gs_Reason_REASON_OUT_OF_RANGE;
  group.complaint = complaint;
  EXPECT_THAT(stall_cause(p, group).remedy, HasSubstr("divide the data by their largest value"));
}

// Three steps of gradients: a sum of them, and the loss tells whether they grew.
TEST(Complaint, OfGradientsTheLossTellsWhetherTheStepIsTooLong) {
  const RunParameters p = tangent_parameters();
  const std::vector<Real> values(p.value_count(), 3e4F);
  RangeFault fault;
  fault.values = values;
  fault.factor = 128.0 / 1e4;
  fault.steps_done = 3;
  fault.is_gradient = true;
  fault.loss_before = -1e4;
  fault.loss_after = -2e4;
  const Complaint complaint = range_complaint(p, fault);
  EXPECT_NEAR(complaint.step_size, 0.2 * 2 * 1e4 / (32 * 1e8), 1e-8) << "|g|^2 = 32 entries of 1e4 squared";
  EXPECT_EQ(complaint.fold_scale_log2, 13U + 1);
  fault.loss_after = 1e9;
  const Complaint grown = range_complaint(p, fault);
  EXPECT_EQ(grown.fold_scale_log2, 0U);
  EXPECT_FLOAT_EQ(grown.step_size, p.steps->step_size / 10);
}

TEST(Complaint, NothingIsKnownOfAnUpdateThatNoFactorHelps) {
  EXPECT_FALSE(range_complaint(scalar_parameters(), {}).has_value());
}

}  // namespace
}  // namespace gradstream
