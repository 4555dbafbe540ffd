// What a device does: every bad choice is refused with a sentence that begins with its keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(CheckWork, EveryBadChoiceOfLocalWorkIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"solver:", [](RunParameters* p) { p->solver = SolverId::kNone; }},
      {"estimator: name one", [](RunParameters* p) { p->estimator = EstimatorId::kNone; }},
      {"upload_stream: scalars cannot carry what solver projection makes of projection_tangent",
       [](RunParameters* p) {
         p->estimator = EstimatorId::kProjectionTangent;
         p->upload_stream = StreamKind::kScalarStream;
       }},
      {"upload_stream: scalars cannot carry what solver projection makes of tangent_retraction",
       [](RunParameters* p) {
         p->estimator = EstimatorId::kTangentRetraction;
         p->upload_stream = StreamKind::kScalarStream;
       }},
      {"correction_form, record_encoding:",
       [](RunParameters* p) {
         p->correction_form = CorrectionForm::kUnbiased;
         p->fold_weight = FoldWeight::kUniform;
         p->record_encoding = Encoding::kInt8;
       }},
      {"memory_age_max:", [](RunParameters* p) { p->memory_age_max = 5; }},
      {"estimator: solver gradient_stream", [](RunParameters* p) { p->solver = SolverId::kGradientStream; }},
      {"directions: sphere is not reproducible", [](RunParameters* p) { p->directions = DirectionKind::kSphere; }},
      {"direction_count:", [](RunParameters* p) { p->direction_count = 0; }},
      {"local_retraction, solver:", [](RunParameters* p) { p->local_retraction = RetractionKind::kQr; }},
      {"local_retraction: manifold stiefel has no retraction second_order; it has polar with projection, ",
       [](RunParameters* p) {
         p->solver = SolverId::kGradientStream;
         p->estimator = EstimatorId::kAnalyticGradient;
         p->local_retraction = RetractionKind::kSecondOrder;
       }},
      {"local_step_count:", [](RunParameters* p) { p->local_step_count = 257; }},
      {"local_step_count, direction_count:",
       [](RunParameters* p) {
         p->local_step_count = 64;
         p->direction_count = 65;
       }},
      {"smoothing:", [](RunParameters* p) { p->smoothing = 0; }},
      {"batch_mode:", [](RunParameters* p) { p->batch_mode = BatchMode::kNone; }},
      {"batch_size:", [](RunParameters* p) { p->batch_size = 0; }},
      {"step_size", [](RunParameters* p) { p->step_size = -1; }},
      {"upload_encoding:", [](RunParameters* p) { p->upload_encoding = Encoding::kF64; }},
      {"record_encoding:", [](RunParameters* p) { p->record_encoding = Encoding::kNone; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(CheckWork, EveryBadStepAndBatchIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"step_decay, step_rule:", [](RunParameters* p) { p->step_rule = StepRule::kFixed; }},
      {"step_offset, step_period:", [](RunParameters* p) { p->step_offset = -1; }},
      {"step_offset, step_period:", [](RunParameters* p) { p->step_period = 0; }},
      {"step_offset, step_rule:",
       [](RunParameters* p) {
         p->step_rule = StepRule::kPrinted;
         p->step_decay = 0;
       }},
      {"batch_sizes: at most", [](RunParameters* p) { p->batch_sizes = "32 many"; }},
      {"batch_sizes: at most", [](RunParameters* p) { p->batch_sizes = "1 2 3 4 5 6 7 8 9"; }},
      {"batch_sizes: at most", [](RunParameters* p) { p->batch_sizes = "2.5"; }},
      {"batch_sizes, batch_mode:",
       [](RunParameters* p) {
         p->batch_sizes = "8";
         p->batch_mode = BatchMode::kAll;
       }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(CheckWork, EveryBadProximalTermIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"proximal_form, proximal: a chordal term needs",
       [](RunParameters* p) { p->proximal_form = ProximalForm::kChordal; }},
      {"proximal_sigma, proximal_form:", [](RunParameters* p) { p->proximal_sigma = 2; }},
      {"proximal_sigma, proximal_form:",
       [](RunParameters* p) {
         p->proximal_form = ProximalForm::kLorentz;
         p->proximal_sigma = 0;
       }},
      {"proximal_form, solver: the mean gradient of svrg",
       [](RunParameters* p) {
         p->proximal_form = ProximalForm::kLorentz;
         p->proximal = 1;
         p->solver = SolverId::kSvrg;
         p->batch_mode = BatchMode::kAll;
       }},
      {"proximal_form, manifold: differences of entries are no distance on grassmann",
       [](RunParameters* p) {
         p->proximal_form = ProximalForm::kChordal;
         p->proximal = 1;
         p->manifold = ManifoldId::kGrassmann;
       }},
      {"proximal_form, manifold: the distance on stiefel is the norm of an inverse retraction",
       [](RunParameters* p) {
         p->proximal_form = ProximalForm::kDistance;
         p->proximal = 1;
       }},
  };
  expect_refused(tangent_parameters(), cases);
  RunParameters p = tangent_parameters();
  p.proximal_form = ProximalForm::kDistance;
  p.proximal = 1;
  p.manifold = ManifoldId::kGrassmann;
  EXPECT_EQ(check_parameters(p), "");
  p = scalar_parameters();
  p.correction_form = CorrectionForm::kNone;
  p.proximal_form = ProximalForm::kDistance;
  p.proximal = 1;
  EXPECT_EQ(check_parameters(p), "") << "forward passes need no gradient of the distance";
  p = scalar_parameters();
  p.proximal_form = ProximalForm::kChordal;
  p.proximal = 1;
  EXPECT_THAT(check_parameters(p), testing::StartsWith("proximal_form, correction_form: a path that is corrected"));
  p.correction_form = CorrectionForm::kNone;
  EXPECT_EQ(check_parameters(p), "");
  p.proximal_form = ProximalForm::kGeodesic;
  EXPECT_THAT(check_parameters(p), testing::StartsWith("proximal, solver: only solvers gradient_stream"));
}

TEST(CheckWork, ErrorFeedbackAndCorrectionGoWithWhatTravels) {
  RunParameters tangent = tangent_parameters();
  tangent.error_feedback = true;
  EXPECT_THAT(check_parameters(tangent), testing::StartsWith("error_feedback, upload_encoding:"));
  tangent.upload_encoding = Encoding::kInt8;
  EXPECT_EQ(check_parameters(tangent), "");
  tangent.solver = SolverId::kSvrg;
  tangent.batch_mode = BatchMode::kAll;
  EXPECT_THAT(check_parameters(tangent), testing::StartsWith("error_feedback, solver:"));
  tangent.solver = SolverId::kProjection;
  tangent.correction_form = CorrectionForm::kMemory;
  tangent.fold_weight = FoldWeight::kUniform;
  EXPECT_THAT(check_parameters(tangent), testing::StartsWith("error_feedback, correction_form:"));
  tangent = scalar_parameters();
  tangent.upload_encoding = Encoding::kInt8;
  tangent.error_feedback = true;
  EXPECT_THAT(check_parameters(tangent), testing::StartsWith("error_feedback, upload_encoding:"));
  tangent = tangent_parameters();
  tangent.correction_form = CorrectionForm::kLocal;
  EXPECT_THAT(check_parameters(tangent), testing::StartsWith("correction_form:"));
  tangent = tangent_parameters();
  tangent.batch_mode = BatchMode::kPerDirection;
  EXPECT_THAT(check_parameters(tangent), testing::StartsWith("batch_mode: per_direction"));
}

}  // namespace
}  // namespace gradstream
