// What travels: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/wire_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(WireKeys, EveryBadEncodingIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"upload_stream: scalars cannot carry what solver projection makes of projection_tangent",
       [](RunParameters* p) {
         p->local->estimator = EstimatorId::kProjectionTangent;
         p->wire->upload_stream = StreamKind::kScalarStream;
       }},
      {"upload_stream: scalars cannot carry what solver projection makes of tangent_retraction",
       [](RunParameters* p) {
         p->local->estimator = EstimatorId::kTangentRetraction;
         p->wire->upload_stream = StreamKind::kScalarStream;
       }},
      {"upload_encoding:", [](RunParameters* p) { p->wire->upload_encoding = Encoding::kF64; }},
      {"record_encoding:", [](RunParameters* p) { p->wire->record_encoding = Encoding::kNone; }},
      {"log_size_max:", [](RunParameters* p) { p->wire->log_size_max = (1U << 28) + 1; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(WireKeys, ErrorFeedbackAndCorrectionGoWithWhatTravels) {
  RunParameters tangent = tangent_parameters();
  tangent.wire->error_feedback = true;
  EXPECT_THAT(check_parameters(tangent).sentence, testing::StartsWith("error_feedback, upload_encoding:"));
  tangent.wire->upload_encoding = Encoding::kInt8;
  EXPECT_EQ(check_parameters(tangent).sentence, "");
  tangent.local->solver = SolverId::kSvrg;
  tangent.local->batch_mode = BatchMode::kAll;
  EXPECT_THAT(check_parameters(tangent).sentence, testing::StartsWith("error_feedback, solver:"));
  tangent.local->solver = SolverId::kProjection;
  tangent.local->correction_form = CorrectionForm::kMemory;
  tangent.fold->fold_weight = FoldWeight::kUniform;
  EXPECT_THAT(check_parameters(tangent).sentence, testing::StartsWith("error_feedback, correction_form:"));
  tangent = scalar_parameters();
  tangent.wire->upload_encoding = Encoding::kInt8;
  tangent.wire->error_feedback = true;
  EXPECT_THAT(check_parameters(tangent).sentence, testing::StartsWith("error_feedback, upload_encoding:"));
  tangent = tangent_parameters();
  tangent.local->correction_form = CorrectionForm::kLocal;
  EXPECT_THAT(check_parameters(tangent).sentence, testing::StartsWith("correction_form:"));
  tangent = tangent_parameters();
  tangent.local->batch_mode = BatchMode::kPerDirection;
  EXPECT_THAT(check_parameters(tangent).sentence, testing::StartsWith("batch_mode: per_direction"));
}

}  // namespace
}  // namespace gradstream
