#include "server/run/run_parameters.h"

#include <set>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(RunParameters, GoodOnesPass) {
  EXPECT_EQ(check_parameters(scalar_parameters()), "");
  EXPECT_EQ(check_parameters(tangent_parameters()), "");
}

struct Case {
  const char* sentence;  // its begin
  void (*spoil)(RunParameters*);
};

void expect_refused(const RunParameters& good, std::span<const Case> cases) {
  GS_ASSERT(check_parameters(good).empty());
  for (const Case& spoilt : cases) {
    RunParameters p = good;
    spoilt.spoil(&p);
    EXPECT_THAT(check_parameters(p), testing::StartsWith(spoilt.sentence));
  }
}

TEST(RunParameters, EveryBadCombinationIsRefusedByItsKey) {
  const Case cases[] = {
      {"name:", [](RunParameters* p) { p->name = ""; }},
      {"name:", [](RunParameters* p) { p->name = "a\nb"; }},
      {"manifold:", [](RunParameters* p) { p->manifold = ManifoldId::kNone; }},
      {"rows, cols: both", [](RunParameters* p) { p->shape.rows = 0; }},
      {"rows, cols: manifold stiefel",
       [](RunParameters* p) {
         p->shape = {2, 3};
       }},
      {"retraction, transport: manifold stiefel has no retraction projection with transport default; it has polar with "
       "projection, polar with smooth, ",
       [](RunParameters* p) { p->retraction = RetractionKind::kProjection; }},
      {"retraction, transport: manifold stiefel has no retraction qr with transport householder",
       [](RunParameters* p) {
         p->retraction = RetractionKind::kQr;
         p->transport = TransportKind::kHouseholder;
       }},
      {"manifold: stiefel with retraction exponential is not reproducible",
       [](RunParameters* p) { p->retraction = RetractionKind::kExponential; }},
      {"problem:", [](RunParameters* p) { p->problem = "a name that is too long"; }},
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
      {"group_count, device_count:", [](RunParameters* p) { p->group_count = p->device_count + 1; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(RunParameters, EveryBadStepAndBatchIsRefusedByItsKey) {
  const Case cases[] = {
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

TEST(RunParameters, APartOfAProductIsAManifoldItsShapeAndItsVariant) {
  RunParameters p = scalar_parameters();
  p.manifold = ManifoldId::kProduct;
  p.parts = "stiefel 16x2,oblique 8x4  projection projection , euclidean 10x1";
  p.shape = {};
  set_parts(&p);
  EXPECT_EQ(check_parameters(p), "");
  EXPECT_EQ(p.shape.rows, 74U);
  EXPECT_EQ(p.shape.cols, 1U);
  ASSERT_EQ(p.shape.parts->count, 3U);
  EXPECT_EQ(p.shape.parts->part[0].ops, &kStiefelOps);
  EXPECT_EQ(p.shape.parts->part[1].ops, &kObliqueProjectionOps);
  EXPECT_EQ(p.shape.parts->part[2].ops, &kEuclideanOps);
  p.parts = "sphere 5x1";  // the shape follows
  set_parts(&p);
  EXPECT_EQ(check_parameters(p), "");
  EXPECT_EQ(p.shape.rows, 5U);
  p.parts = "spd 4x4";
  set_parts(&p);
  EXPECT_THAT(check_parameters(p), testing::HasSubstr("is not reproducible"));
}

TEST(RunParameters, EveryBadProductIsRefusedWithItsRemedy) {
  struct BadProduct {
    const char* parts;
    const char* sentence;
  };
  const BadProduct cases[] = {
      {"", "parts, manifold: manifold product needs"},
      {"stiefel", "parts: \"stiefel\" should be"},
      {"stiefel 16x2,", "parts: \"\" should be"},
      {"stiefel 16x2 qr projection more", "parts: \"stiefel 16x2 qr"},
      {"stiefl 16x2", "parts: \"stiefl\" is no manifold"},
      {"product 16x1", "parts: \"product\" is no manifold"},
      {"stiefel 2x16", "parts: manifold stiefel has no points of shape \"2x16\""},
      {"stiefel 16", "parts: manifold stiefel has no points"},
      {"stiefel 16x2x", "parts: manifold stiefel has no points"},
      {"stiefel 16x2 exact", "parts: \"stiefel 16x2 exact\": manifold stiefel has polar with projection"},
      {"euclidean 20000x1, euclidean 20000x1", "parts: together they have 40000 numbers"},
      {"sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1",
       "parts: at most 8"},
  };
  for (const BadProduct& one : cases) {
    RunParameters p = scalar_parameters();
    p.manifold = ManifoldId::kProduct;
    p.parts = one.parts;
    p.shape = {};
    set_parts(&p);
    EXPECT_THAT(check_parameters(p), testing::StartsWith(one.sentence)) << one.parts;
  }
  RunParameters p = scalar_parameters();
  p.parts = "stiefel 16x2";
  set_parts(&p);
  EXPECT_THAT(check_parameters(p), testing::StartsWith("parts, manifold: only manifold product"));
  p.manifold = ManifoldId::kProduct;
  p.shape = {32, 2};
  set_parts(&p);
  EXPECT_THAT(check_parameters(p), testing::StartsWith("rows, cols, parts:"));
}

TEST(RunParameters, EveryBadProximalTermIsRefusedByItsKey) {
  const Case cases[] = {
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

TEST(RunParameters, AMatrixOfFixedRankIsItsShapeAndItsRank) {
  RunParameters p = scalar_parameters();
  p.manifold = ManifoldId::kFixedRank;
  p.matrix = "20x14";
  p.rank = 3;
  p.shape = {};
  set_parts(&p);
  EXPECT_EQ(check_parameters(p), "");
  EXPECT_EQ(p.shape.rows, 37U);
  EXPECT_EQ(p.shape.cols, 3U);
  ASSERT_EQ(p.shape.parts->count, 3U);
  p.rank = 4;  // the shape follows
  set_parts(&p);
  EXPECT_EQ(check_parameters(p), "");
  EXPECT_EQ(p.shape.rows, 38U);
  p.estimator = EstimatorId::kProjectionTangent;
  EXPECT_THAT(check_parameters(p), testing::StartsWith("estimator, manifold: projection_tangent"));
  p.estimator = EstimatorId::kProjectionOneSided;
  p.retraction = RetractionKind::kPolar;
  EXPECT_THAT(check_parameters(p), testing::HasSubstr("manifold fixed_rank has no retraction polar"));
  p.retraction = RetractionKind::kDefault;
  p.rank = 15;
  EXPECT_THAT(check_parameters(p),
              testing::StartsWith("rank, matrix: matrices of shape 20x14 have ranks from 1 to 14"));
  p.matrix = "20";
  EXPECT_THAT(check_parameters(p), testing::StartsWith("matrix, manifold: manifold fixed_rank needs"));
  p.matrix = "20x14";
  p.rank = 3;
  p.shape = {20, 14};
  set_parts(&p);
  EXPECT_THAT(check_parameters(p), testing::StartsWith("rows, cols, matrix:"));
  RunParameters other = scalar_parameters();
  other.rank = 3;
  EXPECT_THAT(check_parameters(other), testing::StartsWith("matrix, rank, manifold: only manifold fixed_rank"));
}

TEST(RunParameters, EveryBadShareOfTheWorkIsRefusedByItsKey) {
  const Case cases[] = {
      {"work, steps_min, local_step_count: timed work", [](RunParameters* p) { p->work = Work::kTimed; }},
      {"step_time_min_us, step_time_max_us:",
       [](RunParameters* p) {
         p->step_time_min_us = 2000;
         p->step_time_max_us = 1000;
       }},
      {"task_deadline_ms, steps_min, step_time_max_us: the slowest device (step_time_max_us) takes 401 ms for 2 steps",
       [](RunParameters* p) {
         p->steps_min = 2;
         p->task_deadline_ms = 400;
         p->step_time_max_us = 200'001;
       }},
      {"report_deadline_ms, steps_min, step_time_max_us: the slowest device (step_time_max_us) takes 1200 ms for 3",
       [](RunParameters* p) {
         p->update_goal = 3;
         p->step_time_max_us = 400'000;
       }},
      {"arrival_rate, device_count: so few arrivals a second make devices wait above 6 h; use at least 5",
       [](RunParameters* p) {
         p->device_count = 30'000;
         p->arrival_rate = 4;
       }},
      {"weight_share_max: above 0", [](RunParameters* p) { p->weight_share_max = 0; }},
      {"weight_share_max, update_goal, buffer_size: 4 updates", [](RunParameters* p) { p->weight_share_max = 0.2F; }},
      {"weight_share_max, fold_weight, solver",
       [](RunParameters* p) {
         p->weight_share_max = 0.5F;
         p->fold_weight = FoldWeight::kUniform;
       }},
      {"over_selection: from 1", [](RunParameters* p) { p->over_selection = 0; }},
      {"over_selection, participation:", [](RunParameters* p) { p->over_selection = 2; }},
      {"over_selection, cohort_size, device_count: 6 devices would be drawn",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 3;
         p->over_selection = 2;
       }},
  };
  expect_refused(tangent_parameters(), cases);
}

TEST(RunParameters, EveryBadParticipationIsRefusedByItsKey) {
  const Case cases[] = {
      {"cohort_size, participation:", [](RunParameters* p) { p->cohort_size = 2; }},
      {"cohort_size, device_count:", [](RunParameters* p) { p->participation = Participation::kSchemeOne; }},
      {"cohort_size, device_count:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 5;
       }},
      {"update_goal, device_count:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 2;
         p->update_goal = 3;
       }},
      {"participation_probability, participation:", [](RunParameters* p) { p->participation_probability = "0.5"; }},
      {"participation_probability:", [](RunParameters* p) { p->participation = Participation::kSchemeTwo; }},
      {"participation_probability:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeTwo;
         p->participation_probability = "0.5 1.5";
       }},
      {"participation_weights, update_goal, update_min:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeTwo;
         p->participation_probability = "0.5";
         p->participation_weights = ParticipationWeights::kTrue;
         p->update_goal = 2;
       }},
      {"participation_weights, fold_weight:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeTwo;
         p->participation_probability = "0.5";
       }},
  };
  expect_refused(tangent_parameters(), cases);
  RunParameters scalar = scalar_parameters();
  scalar.participation = Participation::kSchemeTwo;
  scalar.participation_probability = "0.5";
  EXPECT_THAT(check_parameters(scalar), testing::StartsWith("participation_weights, solver, correction_form:"));
  RunParameters unbiased = scalar;
  unbiased.correction_form = CorrectionForm::kMemory;
  EXPECT_THAT(check_parameters(unbiased), testing::StartsWith("participation_weights, solver, correction_form:"));
  unbiased.correction_form = CorrectionForm::kUnbiased;
  EXPECT_EQ(check_parameters(unbiased), "");
  scalar.participation_weights = ParticipationWeights::kBiased;
  EXPECT_EQ(check_parameters(scalar), "");
}

TEST(RunParameters, EveryBadFoldAndPolicyIsRefusedByItsKey) {
  const Case cases[] = {
      {"upload_encoding:", [](RunParameters* p) { p->upload_encoding = Encoding::kF64; }},
      {"record_encoding:", [](RunParameters* p) { p->record_encoding = Encoding::kNone; }},
      {"fold_scale_log2:", [](RunParameters* p) { p->fold_scale_log2 = 49; }},
      {"fold_weight_max:", [](RunParameters* p) { p->fold_weight_max = 0; }},
      {"round_count:", [](RunParameters* p) { p->round_count = 0; }},
      {"device_count:", [](RunParameters* p) { p->device_count = 0; }},
      {"update_goal, device_count:", [](RunParameters* p) { p->update_goal = 5; }},
      {"update_min, update_goal:",
       [](RunParameters* p) {
         p->update_goal = 2;
         p->update_min = 3;
       }},
      {"report_deadline_ms:", [](RunParameters* p) { p->report_deadline_ms = 0; }},
      {"steps_min, local_step_count:", [](RunParameters* p) { p->steps_min = 4; }},
      {"task_deadline_ms, steps_min:", [](RunParameters* p) { p->task_deadline_ms = 10; }},
      {"task_deadline_ms, report_deadline_ms:",
       [](RunParameters* p) {
         p->steps_min = 1;
         p->task_deadline_ms = 5000;
       }},
      {"late, update_goal", [](RunParameters* p) { p->late = LatePolicy::kWeight; }},
      {"staleness_max:",
       [](RunParameters* p) {
         p->late = LatePolicy::kWeight;
         p->update_goal = 2;
         p->staleness_max = 1025;
       }},
      {"staleness_exponent:",
       [](RunParameters* p) {
         p->late = LatePolicy::kWeight;
         p->update_goal = 2;
         p->staleness_exponent = 0;
       }},
      {"retry_min_ms", [](RunParameters* p) { p->retry_min_ms = p->retry_max_ms + 1; }},
      {"retry_max_ms:", [](RunParameters* p) { p->retry_max_ms = 21600001; }},
      {"log_size_max:", [](RunParameters* p) { p->log_size_max = (1U << 28) + 1; }},
  };
  expect_refused(scalar_parameters(), cases);
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

RunParameters asynchronous_run() {
  RunParameters p = tangent_parameters();
  p.buffer_size = 1;
  p.late = LatePolicy::kWeight;
  p.fold_weight = FoldWeight::kUniform;
  p.delay_rule = DelayRule::kOrthoPos;
  return p;
}

TEST(RunParameters, EveryBadAsynchronousRunIsRefusedByItsKey) {
  const Case cases[] = {
      {"delay_rule, buffer_size, solver:",
       [](RunParameters* p) {
         p->buffer_size = 0;
         p->late = LatePolicy::kDrop;
       }},
      {"delay_rule, dominance_penalty, buffer_size:", [](RunParameters* p) { p->buffer_size = 2; }},
      {"delay_rule, fold_weight:", [](RunParameters* p) { p->fold_weight = FoldWeight::kSampleCount; }},
      {"delay_rule, manifold:",
       [](RunParameters* p) {
         p->manifold = ManifoldId::kSpd;
         p->shape = {4, 4};
         p->delay_rule = DelayRule::kDcAsgd;
       }},
      {"server_step, delay_rule:", [](RunParameters* p) { p->server_step = 2; }},
      {"delay_lambda, server_momentum:", [](RunParameters* p) { p->server_momentum = 1; }},
      {"delay_lambda, server_momentum:", [](RunParameters* p) { p->delay_lambda = 0; }},
      {"average_period:", [](RunParameters* p) { p->average_restart = 2; }},
      {"curve_orthogonality:", [](RunParameters* p) { p->curve_orthogonality = 0; }},
      {"solver, manifold, estimator, batch_mode:",
       [](RunParameters* p) {
         p->solver = SolverId::kCurve;
         p->manifold = ManifoldId::kSphere;
       }},
      {"solver, delay_rule, buffer_size, server_momentum, server_step:",
       [](RunParameters* p) {
         p->solver = SolverId::kCurve;
         p->manifold = ManifoldId::kEuclidean;
         p->batch_mode = BatchMode::kCommon;
         p->server_momentum = 0.5F;
       }},
      {"average_from, average_period:", [](RunParameters* p) { p->average_period = 2000; }},
      {"average_from, average_period:",
       [](RunParameters* p) {
         p->average_period = 2;
         p->average_from = 2000;
       }},
      {"average_restart, solver, correction_form:",
       [](RunParameters* p) {
         *p = scalar_parameters();
         p->average_period = p->average_restart = 2;
       }},
      {"delay_rule:",
       [](RunParameters* p) {
         p->delay_rule = DelayRule::kNone;
         p->dominance_penalty = true;
       }},
      {"buffer_size, device_count:", [](RunParameters* p) { p->buffer_size = 5; }},
      {"buffer_size, update_goal, update_min:", [](RunParameters* p) { p->update_min = 1; }},
      {"buffer_size, participation, solver:",
       [](RunParameters* p) {
         p->participation = Participation::kSchemeOne;
         p->cohort_size = 2;
       }},
      {"buffer_size, late:", [](RunParameters* p) { p->late = LatePolicy::kDrop; }},
      {"staleness_max, shape:",
       [](RunParameters* p) {
         p->shape = {4000, 6};
         p->staleness_max = 1024;
       }},
  };
  expect_refused(asynchronous_run(), cases);
}

// Stored by a release that did not know better it goes on.
TEST(RunParameters, AFleetOfOneSpeedBeyondTheStalenessBeginsNoRun) {
  RunParameters p = asynchronous_run();
  EXPECT_EQ(check_new_run(p), "");
  p.device_count = p.staleness_max + 2;
  EXPECT_EQ(check_parameters(p), "");
  EXPECT_THAT(check_new_run(p),
              testing::StartsWith("staleness_max, device_count, buffer_size: with a version for every "
                                  "update each of 10 devices of one speed is 9"));
  p.device_count -= 1;
  EXPECT_EQ(check_new_run(p), "");
  p.step_size = -1;
  EXPECT_EQ(check_new_run(p), check_parameters(p));
}

TEST(RunParameters, EveryBadSwitchOfTheDelayRuleIsRefusedByItsKey) {
  const Case cases[] = {
      {"delay_switch_at, delay_switch_by: a version", [](RunParameters* p) { p->delay_switch_at = 0.5F; }},
      {"delay_switch_by, late_delay_rule:", [](RunParameters* p) { p->delay_switch_by = DelaySwitchBy::kCosine; }},
      {"delay_switch_at, delay_switch_by: a cosine",
       [](RunParameters* p) {
         p->late_delay_rule = DelayRule::kOrthoPos;
         p->delay_switch_by = DelaySwitchBy::kCosine;
         p->delay_switch_at = 1;
       }},
      {"delay_switch_at, delay_switch_by: a cosine",
       [](RunParameters* p) {
         p->late_delay_rule = DelayRule::kOrthoPos;
         p->delay_switch_by = DelaySwitchBy::kDriftRatio;
       }},
      {"delay_switch, round_count:",
       [](RunParameters* p) {
         p->late_delay_rule = DelayRule::kOrthoPos;
         p->delay_switch_by = DelaySwitchBy::kCosine;
         p->delay_switch = p->round_count;
       }},
      {"delay_rule:",
       [](RunParameters* p) {
         p->delay_rule = DelayRule::kNone;
         p->delay_switch_by = DelaySwitchBy::kCosine;
       }},
  };
  expect_refused(asynchronous_run(), cases);
}

// The same slow device is no reason to refuse where it is waited for, or where its late updates count.
TEST(RunParameters, ADeadlineMayBeShortWhereNobodyIsDropped) {
  RunParameters p = scalar_parameters();
  p.step_time_max_us = 400'000;
  EXPECT_EQ(check_parameters(p), "");
  p.update_goal = 4;  // of four
  EXPECT_EQ(check_parameters(p), "");
  p.update_min = 2;
  EXPECT_NE(check_parameters(p), "");
  p.late = LatePolicy::kWeight;
  EXPECT_EQ(check_parameters(p), "");
  p.late = LatePolicy::kDrop;
  p.steps_min = 2;
  p.work = Work::kTimed;
  EXPECT_EQ(check_parameters(p), "");
}

TEST(RunParameters, WhatTravelsFollowsFromEstimatorSolverAndWish) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(p.stream(), StreamKind::kScalarStream);
  p.upload_stream = StreamKind::kTangentBlock;
  p.correction_form = CorrectionForm::kNone;
  EXPECT_EQ(p.stream(), StreamKind::kTangentBlock);
  EXPECT_EQ(p.value_count(), p.shape.size());
  p.upload_stream = StreamKind::kNone;
  for (const EstimatorId id :
       {EstimatorId::kAnalyticGradient, EstimatorId::kTangentRetraction, EstimatorId::kProjectionTangent}) {
    p.estimator = id;
    for (const SolverId solver : {SolverId::kProjection, SolverId::kGradientStream}) {
      p.solver = solver;
      EXPECT_EQ(p.stream(), StreamKind::kTangentBlock);
      EXPECT_EQ(check_parameters(p), "");
    }
  }
}

TEST(RunParameters, CanonicalTextNamesEveryFieldOnce) {
  const std::string text = canonical_text(scalar_parameters());
  EXPECT_THAT(text, testing::HasSubstr("manifold = stiefel\n"));
  EXPECT_THAT(text, testing::HasSubstr("estimator = projection_one_sided\n"));
  EXPECT_THAT(text, testing::HasSubstr("step_size = 0.05\n"));
  EXPECT_THAT(text, testing::HasSubstr("correction_form = local\n"));
  std::set<std::string> keys;
  size_t fields = 0;
  RunParameters p;
  visit_fields(p, [&](const char* key, const auto&) {
    keys.insert(key);
    ++fields;
  });
  EXPECT_EQ(keys.size(), fields);
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), fields);
}

struct Change {
  size_t index;
  size_t seen = 0;
  void operator()(const char*, std::string& field) {
    bump([&] { field += "x"; });
  }
  void operator()(const char*, bool& field) {
    bump([&] { field = !field; });
  }
  void operator()(const char*, uint32_t& field) {
    bump([&] { ++field; });
  }
  void operator()(const char*, float& field) {
    bump([&] { field += 0.25F; });
  }
  template <typename Enum>
  void operator()(const char*, Enum& field) {
    bump([&] {
      field =
          names_of<Enum>().front().second == field ? names_of<Enum>().back().second : names_of<Enum>().front().second;
    });
  }
  template <typename Do>
  void bump(Do change) {
    if (seen++ == index) {
      change();
    }
  }
};

TEST(RunParameters, EveryFieldCountsForTheDigestAndIsNamed) {
  const RunParameters p = scalar_parameters();
  size_t fields = 0;
  visit_fields(p, [&](const char*, const auto&) { ++fields; });
  for (size_t index = 0; index < fields; ++index) {
    RunParameters changed = p;
    Change change{index};
    visit_fields(changed, change);
    EXPECT_NE(parameters_digest(changed), parameters_digest(p)) << index;
    EXPECT_EQ(differing_keys(canonical_text(p), canonical_text(changed)).size(), 1U) << index;
  }
  EXPECT_THAT(differing_keys("a = 1\nb = 2\n", "b = 2\nc = 3\n"), testing::ElementsAre("a", "c"));
}

// A run that was stored before a field came to be goes on under a release that has it, as long as it is at its default.
TEST(RunParameters, AStoredTextWithoutANewKeyMeansItsDefault) {
  RunParameters p = scalar_parameters();
  std::string stored = canonical_text(p);
  const std::string line = "error_feedback = false\n";
  stored.erase(stored.find(line), line.size());
  EXPECT_THAT(differing_keys(stored, canonical_text(p)), testing::IsEmpty());
  p.error_feedback = true;
  EXPECT_THAT(differing_keys(stored, canonical_text(p)), testing::ElementsAre("error_feedback"));
}

// 000 equations (5.2), as printed and as its authors run it, and (4.24).
TEST(RunParameters, StepRules) {
  RunParameters p = tangent_parameters();
  p.step_size = 0.5F;
  p.step_offset = 0.25F;
  p.step_period = 50;
  const auto steps = [&p](StepRule rule) {
    p.step_rule = rule;
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
  p.group_count = 2;
  EXPECT_EQ(p.owner_of(3), 1U);
  p.group_count = 0;
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
