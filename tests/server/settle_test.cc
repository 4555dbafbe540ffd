#include "server/run/settle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/fold_keys.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger_keys.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

RunParameters least_run(const char* problem, uint32_t rows, uint32_t cols) {
  RunParameters run;
  run.name = "test";
  run.model->problem = problem;
  run.model->shape = {rows, cols};
  run.trigger->device_count = 2;
  return run;
}

// "key: reason" of each key, with "; " between them.
std::string text_of(const std::vector<SettledKey>& keys) {
  std::string text;
  for (const SettledKey& key : keys) {
    text += (text.empty() ? "" : "; ") + key.name + ": " + key.reason;
  }
  return text;
}

TEST(Settle, ASolverWithoutACorrectionGetsNone) {
  RunParameters run = least_run("kpca", 64, 4);
  run.local->solver = SolverId::kGradientStream;
  run.local->estimator = EstimatorId::kAnalyticGradient;
  EXPECT_THAT(check_parameters(run).sentence, HasSubstr("correction_form"));
  EXPECT_THAT(text_of(settle_defaults(&run, {})), HasSubstr("correction_form: solver gradient_stream"));
  EXPECT_EQ(run.local->correction_form, CorrectionForm::kNone);
  EXPECT_EQ(check_parameters(run).sentence, "");
}

TEST(Settle, APathWithATermOfItsOwnGetsNoCorrection) {
  RunParameters run = least_run("kpca", 64, 4);
  run.local->proximal = 1;
  run.local->proximal_form = ProximalForm::kChordal;
  EXPECT_THAT(text_of(settle_defaults(&run, {})), HasSubstr("correction_form: proximal_form chordal"));
  EXPECT_EQ(check_parameters(run).sentence, "");
}

TEST(Settle, AKeyThatIsGivenStaysAndItsFaultIsTold) {
  RunParameters run = least_run("kpca", 64, 4);
  run.local->solver = SolverId::kGradientStream;
  run.local->estimator = EstimatorId::kAnalyticGradient;
  EXPECT_THAT(text_of(settle_defaults(&run, {"correction_form"})), testing::Not(HasSubstr("correction_form")));
  EXPECT_EQ(run.local->correction_form, CorrectionForm::kLocal);
  EXPECT_THAT(check_parameters(run).sentence, HasSubstr("correction_form: only solver projection"));
}

TEST(Settle, SettlesNothingTwice) {
  for (const char* const problem : {"kpca", "least_squares", "logistic", "brockett", "an_own_loss"}) {
    RunParameters run = least_run(problem, 6, 2);
    settle_defaults(&run, {});
    EXPECT_THAT(text_of(settle_defaults(&run, {})), IsEmpty()) << problem;
    EXPECT_EQ(check_parameters(run).sentence, "") << problem;
  }
}

TEST(Settle, UnitsFollowTheProblem) {
  const std::pair<const char*, UnitScale> problems[] = {{"kpca", UnitScale::kCommon},
                                                        {"least_squares", UnitScale::kDeviation},
                                                        {"logistic", UnitScale::kDeviation},
                                                        {"perceptron", UnitScale::kDeviation}};
  for (const auto& [problem, scale] : problems) {
    RunParameters run = least_run(problem, 64, 4);
    run.model->manifold = ManifoldId::kEuclidean;
    EXPECT_THAT(text_of(settle_defaults(&run, {})),
                HasSubstr(std::string("centre: problem ") + problem + "; scale: problem " + problem));
    EXPECT_EQ(run.units.keys().centre, Centre::kFederated);
    EXPECT_EQ(run.units.keys().scale, scale);
  }
  for (const char* const problem : {"brockett", "spd_mean", "hyperbolic", "completion", "an_own_loss"}) {
    RunParameters run = least_run(problem, 6, 2);
    settle_defaults(&run, {});
    EXPECT_EQ(run.units.keys().centre, Centre::kNone) << problem;
    EXPECT_EQ(run.units.keys().scale, UnitScale::kNone) << problem;
  }
  RunParameters run = least_run("kpca", 64, 4);
  settle_defaults(&run, {"centre"});
  EXPECT_EQ(run.units.keys().centre, Centre::kNone) << "each key by itself";
  EXPECT_EQ(run.units.keys().scale, UnitScale::kCommon);
}

TEST(Settle, AnUploadThatIsLongerThanTheModelIsATangent) {
  RunParameters run = least_run("kpca", 24, 3);  // 5 steps of 16 directions, 72 values
  EXPECT_THAT(text_of(settle_defaults(&run, {})), HasSubstr("upload_stream: local_step_count x direction_count >= "));
  EXPECT_EQ(run.wire->upload_stream, StreamKind::kTangentBlock);
  EXPECT_EQ(find_long_upload(run), "");
  run = least_run("kpca", 24, 3);
  settle_defaults(&run, {"upload_stream"});
  EXPECT_EQ(run.wire->upload_stream, StreamKind::kNone);
  run = least_run("kpca", 64, 4);
  EXPECT_THAT(text_of(settle_defaults(&run, {})), testing::Not(HasSubstr("upload_stream")));
  run = least_run("kpca", 24, 3);
  settle_defaults(&run, {"scale"});
  EXPECT_EQ(run.wire->upload_stream, StreamKind::kNone) << "samples with units are too large for a tangent";
}

// A new run trusts no device to say what it weighs, nor how long its updates may be.
TEST(Settle, DevicesWeighAlikeAndUpdatesAreClipped) {
  RunParameters run = least_run("kpca", 64, 4);
  EXPECT_THAT(text_of(settle_defaults(&run, {})), HasSubstr("fold_weight: new runs; clip_norm: new runs"));
  EXPECT_EQ(run.fold->fold_weight, FoldWeight::kUniform);
  EXPECT_EQ(run.fold.keys().clip_norm, ClipNorm::kMedian);
  run = least_run("kpca", 64, 4);
  settle_defaults(&run, {"fold_weight", "clip_norm"});
  EXPECT_EQ(run.fold->fold_weight, FoldWeight::kSampleCount);
  EXPECT_EQ(run.fold.keys().clip_norm, ClipNorm::kNone);
  run = least_run("kpca", 64, 4);
  run.trigger->device_count = 5000;
  EXPECT_THAT(text_of(settle_defaults(&run, {})),
              HasSubstr("clip_norm: versions of 5000 updates, of which 2048 could be kept"));
  EXPECT_EQ(run.fold.keys().clip_norm, ClipNorm::kTrailing);
  EXPECT_EQ(check_parameters(run).sentence, "");
  run = least_run("kpca", 64, 4);
  run.local->correction_form = CorrectionForm::kMemory;
  EXPECT_THAT(text_of(settle_defaults(&run, {})), HasSubstr("clip_norm: correction_form memory"));
  EXPECT_EQ(run.fold.keys().clip_norm, ClipNorm::kTrailing);
  EXPECT_EQ(check_parameters(run).sentence, "");
  run = least_run("kpca", 64, 4);
  run.fold->weight_share_max = 0.9F;  // a share is of samples
  settle_defaults(&run, {"weight_share_max"});
  EXPECT_EQ(run.fold->fold_weight, FoldWeight::kSampleCount);
  EXPECT_EQ(check_parameters(run).sentence, "");
}

TEST(Settle, NobodyWaitsForWhoNeverComesAndNobodyMakesMostVersions) {
  RunParameters run = least_run("kpca", 64, 4);
  EXPECT_THAT(text_of(settle_defaults(&run, {})), HasSubstr("seen_versions: new runs"));
  EXPECT_EQ(run.trigger.keys().seen_versions, kSeenVersionsOfNewRuns);
  EXPECT_EQ(run.trigger.keys().device_share_max, 1);
  run = least_run("kpca", 64, 4);
  settle_defaults(&run, {"seen_versions"});
  EXPECT_EQ(run.trigger.keys().seen_versions, 0U);
  run = least_run("kpca", 64, 4);
  run.trigger->update_goal = 1;
  settle_defaults(&run, {"update_goal"});
  EXPECT_EQ(run.trigger.keys().seen_versions, 0U) << "one answer is what somebody wants";
  run = least_run("kpca", 64, 4);
  run.trigger->update_goal = 1;
  run.trigger->round_count = 0;
  settle_defaults(&run, {"update_goal", "round_count"});
  EXPECT_EQ(run.trigger.keys().seen_versions, 0U) << "another fault hides nothing";
  run = least_run("kpca", 64, 4);
  run.trigger->buffer_size = 1;
  run.trigger->late = LatePolicy::kWeight;
  EXPECT_THAT(text_of(settle_defaults(&run, {"buffer_size", "late"})), HasSubstr("device_share_max: new runs"));
  EXPECT_EQ(run.trigger.keys().device_share_max, kDeviceShareOfNewRuns);
  EXPECT_EQ(run.trigger.keys().seen_versions, 0U);
  EXPECT_EQ(check_parameters(run).sentence, "");
}

TEST(Settle, TheStepIsFoundWhereNoKeySaysOne) {
  RunParameters run = least_run("kpca", 64, 4);
  EXPECT_THAT(text_of(settle_defaults(&run, {})), HasSubstr("step_size: solver projection"));
  EXPECT_TRUE(chooses_step(run));
  for (const char* const key : {"step_size", "step_decay", "step_rule", "step_offset", "barzilai_borwein"}) {
    run = least_run("kpca", 64, 4);
    settle_defaults(&run, {key});
    EXPECT_FALSE(chooses_step(run)) << key;
  }
  run = least_run("kpca", 64, 4);
  run.local->correction_form = CorrectionForm::kMemory;
  settle_defaults(&run, {"correction_form"});
  EXPECT_FALSE(chooses_step(run)) << "the memory has no lines";
  run = least_run("kpca", 64, 4);
  run.local->solver = SolverId::kSvrg;
  settle_defaults(&run, {});
  EXPECT_FALSE(chooses_step(run)) << "svrg has phases of its own";
}

TEST(Settle, ALongUploadIsSaidWithTheNumbersToSet) {
  RunParameters run = least_run("kpca", 24, 3);  // 5 steps of 16 directions
  EXPECT_THAT(find_long_upload(run),
              AllOf(HasSubstr("= 80 numbers"), HasSubstr("the model has 72"), HasSubstr("upload_stream = \"tangent\""),
                    HasSubstr("direction_count = 14 ")));
  run.local->direction_count = 14;
  EXPECT_EQ(find_long_upload(run), "");
  run.local->direction_count = 15;
  EXPECT_NE(find_long_upload(run), "");
  run.wire->upload_stream = StreamKind::kTangentBlock;
  EXPECT_EQ(find_long_upload(run), "");
  run = least_run("kpca", 2, 1);
  EXPECT_THAT(find_long_upload(run), testing::Not(HasSubstr("or direction_count")));
}

}  // namespace
}  // namespace gradstream
