#include "server/run/settle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"

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
