// What a device does: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/local_keys.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/average_keys.h"
#include "server/run/check_parameters.h"
#include "server/run/delay_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// From batch_size, which stays as it is.
void let_batches_grow(RunParameters* p) {
  p->local.keys().batch_growth = static_cast<Real>(2.5);
  p->local.keys().batch_size_max = 40;
}

TEST(LocalKeys, MinibatchesGrowByTheRoundUpToTheirBound) {
  RunParameters p = scalar_parameters();
  p.local->batch_size = 32;
  EXPECT_EQ(batch_size_at(p, 0), 32U);
  EXPECT_EQ(batch_size_at(p, 1000), 32U) << "without batch_growth";
  let_batches_grow(&p);
  EXPECT_EQ(check_parameters(p).sentence, "");
  const uint32_t wanted[] = {32, 34, 37, 39, 40, 40};
  for (uint32_t round = 0; round < 6; ++round) {
    EXPECT_EQ(batch_size_at(p, round), wanted[round]) << round;
  }
  EXPECT_EQ(batch_size_at(p, kRoundCountMax), 40U);
  p.local.keys().batch_growth = std::numeric_limits<Real>::max();
  EXPECT_EQ(batch_size_at(p, kRoundCountMax), 40U);
  EXPECT_EQ(batch_size_at(p, 0), 32U);
}

TEST(LocalKeys, EveryBadChoiceOfLocalWorkIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"solver:", [](RunParameters* p) { p->local->solver = SolverId::kNone; }},
      {"estimator: name one", [](RunParameters* p) { p->local->estimator = EstimatorId::kNone; }},
      {"correction_form, record_encoding:",
       [](RunParameters* p) {
         p->local->correction_form = CorrectionForm::kUnbiased;
         p->fold->fold_weight = FoldWeight::kUniform;
         p->wire->record_encoding = Encoding::kInt8;
       }},
      {"memory_age_max:", [](RunParameters* p) { p->local->memory_age_max = 5; }},
      {"estimator: solver gradient_stream", [](RunParameters* p) { p->local->solver = SolverId::kGradientStream; }},
      {"directions: sphere is not reproducible",
       [](RunParameters* p) { p->local->directions = DirectionKind::kSphere; }},
      {"direction_count:", [](RunParameters* p) { p->local->direction_count = 0; }},
      {"local_retraction, solver:", [](RunParameters* p) { p->local->local_retraction = RetractionKind::kQr; }},
      {"local_retraction: manifold stiefel has no retraction second_order; it has polar with projection, ",
       [](RunParameters* p) {
         p->local->solver = SolverId::kGradientStream;
         p->local->estimator = EstimatorId::kAnalyticGradient;
         p->local->local_retraction = RetractionKind::kSecondOrder;
       }},
      {"local_step_count:", [](RunParameters* p) { p->local->local_step_count = 257; }},
      {"local_step_count, direction_count:",
       [](RunParameters* p) {
         p->local->local_step_count = 64;
         p->local->direction_count = 65;
       }},
      {"smoothing:", [](RunParameters* p) { p->local->smoothing = 0; }},
      {"batch_mode:", [](RunParameters* p) { p->local->batch_mode = BatchMode::kNone; }},
      {"batch_size:", [](RunParameters* p) { p->local->batch_size = 0; }},
      {"batch_sizes: at most", [](RunParameters* p) { p->local->batch_sizes = "32 many"; }},
      {"batch_sizes: at most", [](RunParameters* p) { p->local->batch_sizes = "1 2 3 4 5 6 7 8 9"; }},
      {"batch_sizes: at most", [](RunParameters* p) { p->local->batch_sizes = "2.5"; }},
      {"batch_sizes, batch_mode:",
       [](RunParameters* p) {
         p->local->batch_sizes = "8";
         p->local->batch_mode = BatchMode::kAll;
       }},
      {"batch_growth:", [](RunParameters* p) { p->local.keys().batch_growth = -1; }},
      {"batch_growth:",
       [](RunParameters* p) { p->local.keys().batch_growth = std::numeric_limits<Real>::quiet_NaN(); }},
      {"batch_size_max, batch_growth: only minibatches that grow",
       [](RunParameters* p) { p->local.keys().batch_size_max = 64; }},
      {"batch_growth, batch_mode:",
       [](RunParameters* p) {
         let_batches_grow(p);
         p->local->batch_mode = BatchMode::kAll;
       }},
      {"batch_growth, batch_sizes: two schedules",
       [](RunParameters* p) {
         let_batches_grow(p);
         p->local->batch_sizes = "8";
       }},
      {"batch_size_max: needs 1 to 4096 samples",
       [](RunParameters* p) {
         let_batches_grow(p);
         p->local.keys().batch_size_max = 4097;
       }},
      {"batch_size_max, batch_size: minibatches begin with 32 samples and cannot grow to 31",
       [](RunParameters* p) {
         let_batches_grow(p);
         p->local.keys().batch_size_max = 31;
       }},
      {"group_count, device_count:", [](RunParameters* p) { p->local->group_count = p->trigger->device_count + 1; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(LocalKeys, EveryBadProximalTermIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"proximal_form, proximal: a chordal term needs",
       [](RunParameters* p) { p->local->proximal_form = ProximalForm::kChordal; }},
      {"proximal_sigma, proximal_form:", [](RunParameters* p) { p->local->proximal_sigma = 2; }},
      {"proximal_sigma:",
       [](RunParameters* p) {
         p->local->proximal_form = ProximalForm::kLorentz;
         p->local->proximal_sigma = 0;
       }},
      {"proximal_form, solver: the mean gradient of svrg",
       [](RunParameters* p) {
         p->local->proximal_form = ProximalForm::kLorentz;
         p->local->proximal = 1;
         p->local->solver = SolverId::kSvrg;
         p->local->batch_mode = BatchMode::kAll;
       }},
      {"proximal_form, manifold: differences of entries are no distance on grassmann",
       [](RunParameters* p) {
         p->local->proximal_form = ProximalForm::kChordal;
         p->local->proximal = 1;
         p->model->manifold = ManifoldId::kGrassmann;
       }},
      {"proximal_form, manifold: the distance on stiefel is the norm of an inverse retraction",
       [](RunParameters* p) {
         p->local->proximal_form = ProximalForm::kDistance;
         p->local->proximal = 1;
       }},
  };
  expect_refused(tangent_parameters(), cases);
  RunParameters p = tangent_parameters();
  p.local->proximal_form = ProximalForm::kDistance;
  p.local->proximal = 1;
  p.model->manifold = ManifoldId::kGrassmann;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p = scalar_parameters();
  p.local->correction_form = CorrectionForm::kNone;
  p.local->proximal_form = ProximalForm::kDistance;
  p.local->proximal = 1;
  EXPECT_EQ(check_parameters(p).sentence, "") << "forward passes need no gradient of the distance";
  p = scalar_parameters();
  p.local->proximal_form = ProximalForm::kChordal;
  p.local->proximal = 1;
  EXPECT_THAT(check_parameters(p).sentence,
              testing::StartsWith("proximal_form, correction_form: a path that is corrected"));
  p.local->correction_form = CorrectionForm::kNone;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.local->proximal_form = ProximalForm::kGeodesic;
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("proximal, solver: only solvers gradient_stream"));
}

// Of 004: the Lorentzian term, the dominance penalty and the average of versions, all with curves.
TEST(LocalKeys, ACurveTakesWhatItsWorkGivesIt) {
  RunParameters p = asynchronous_parameters();
  p.local->solver = SolverId::kCurve;
  p.model->manifold = ManifoldId::kEuclidean;
  p.local->batch_mode = BatchMode::kCommon;
  p.local->proximal = 0.1F;
  p.delay->dominance_penalty = true;
  p.average.keys().average_period = 2;
  for (const auto& [name, form] : names_of<ProximalForm>()) {
    p.local->proximal_form = form;
    EXPECT_EQ(check_parameters(p).sentence, "") << name;
  }
  for (const auto& [name, control] : names_of<CurveControl>()) {
    p.delay.keys().curve_control = control;
    EXPECT_EQ(check_parameters(p).sentence, "") << name;
  }
}

TEST(LocalKeys, EveryBadCurveIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"curve_control, solver:", [](RunParameters* p) { p->delay.keys().curve_control = CurveControl::kNone; }},
      {"curve_orthogonality:", [](RunParameters* p) { p->local->curve_orthogonality = 0; }},
      {"solver, manifold, estimator, batch_mode:",
       [](RunParameters* p) {
         p->local->solver = SolverId::kCurve;
         p->model->manifold = ManifoldId::kSphere;
       }},
      {"batch_growth, solver: solver curve trains by epochs",
       [](RunParameters* p) {
         p->local->solver = SolverId::kCurve;
         p->model->manifold = ManifoldId::kEuclidean;
         p->local->batch_mode = BatchMode::kCommon;
         let_batches_grow(p);
       }},
      {"solver, delay_rule, buffer_size, server_momentum, server_step:",
       [](RunParameters* p) {
         p->local->solver = SolverId::kCurve;
         p->model->manifold = ManifoldId::kEuclidean;
         p->local->batch_mode = BatchMode::kCommon;
         p->delay->server_momentum = 0.5F;
       }},
  };
  expect_refused(asynchronous_parameters(), cases);
}

}  // namespace
}  // namespace gradstream
