#include "server/run/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/constant_keys.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Advice, NamesTheNearestProblemForOneThatTheLibraryLacks) {
  RunParameters p = tangent_parameters();
  p.model->problem = "pca";
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("problem = pca: no built-in problem"), HasSubstr("kpca"))));
}

TEST(Advice, SaysNothingWithoutConstants) {
  RunParameters p = tangent_parameters();
  EXPECT_THAT(advice(p), IsEmpty());
  p.constants->pl_constant = 1;
  EXPECT_THAT(advice(p), IsEmpty());
}

// 16 devices of speeds 1 to 8 are at most 120 versions behind; of one speed, with five updates a version, 3.
TEST(Advice, OfTheStalenessThatDropsADevice) {
  RunParameters p = tangent_parameters();
  p.trigger->device_count = 16;
  p.trigger->buffer_size = 1;
  p.trigger->staleness_max = 64;
  EXPECT_THAT(advice(p), IsEmpty());
  p.trigger->step_time_min_us = 100;
  p.trigger->step_time_max_us = 800;
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("staleness_max = 64, NOT within >= 120 (what the slowest device"),
                                           HasSubstr("refused"))));
  p.trigger->staleness_max = 120;
  EXPECT_THAT(advice(p), IsEmpty());
  p.trigger->step_time_min_us = p.trigger->step_time_max_us = 0;
  p.trigger->buffer_size = 5;
  p.trigger->staleness_max = 2;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("staleness_max = 2, NOT within >= 3 (what every device")));
}

// L = 2, alpha = 0.1: L alpha = 0.2, delta = 1 - 2 (0.2)^2 = 0.92.
TEST(Advice, OfRFedAGS) {
  RunParameters p = tangent_parameters();
  p.constants->smoothness = 2;
  p.steps->step_size = 0.1F;
  p.local->local_step_count = 1;
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("L alpha = 0.2, within <= 2"), HasSubstr("(4.7)"))));
  p.local->local_step_count = 5;  // 0.04 * 6 * 3 + 0.2 * 5
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("= 1.72, NOT within <= 1"), HasSubstr("2 L^2 alpha^2 = 0.08, within")));
  p.constants->pl_constant = 0.5F;
  p.steps->step_decay = 0;
  p.constants->gradient_noise = 1;
  p.constants->initial_excess = 4;
  p.trigger->device_count = 4;
  p.local->batch_size = 32;
  p.trigger->round_count = 100;
  const std::vector<std::string> lines = advice(p);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_THAT(lines[2], HasSubstr("alpha = 0.1, within <= 0.4065"));  // 1 / (0.5 * 4.92)
  // H = 0.1 * 9 * 4 * 2 / 3 + 5 / 4 = 3.65; floor 5 * 0.1 * 2 * 3.65 / (2 * 0.5 * 32 * 4.92)
  EXPECT_THAT(lines[3], HasSubstr("about 0.02318"));
  // sqrt(4 * 4 * 32 / (100 * 25 * 2)); 4 * 32 * 2 * 64 * 36^2 / (9 * 625)
  EXPECT_THAT(lines[4], AllOf(HasSubstr("is 0.32 "), HasSubstr("from 3775 rounds on")));
  // sigma^2 L / B = 1/16; (3 * 0.92 - 1) * 100 * 0.01 / 8 + 0.92 * 2 * 100 * 0.001
  EXPECT_THAT(lines[5], AllOf(HasSubstr("initial_excess = 4, within >= 0.02525"), HasSubstr("(4.29)")));
  // (4.8) allows K = 1, 2, 3. Of K = 3: 8 + 3/16 (10 * 2/3 * 0.1 + 3/4) over 2.92 * 10.
  EXPECT_THAT(lines[6], AllOf(HasSubstr("local_step_count = 5: the bound is least at K* = 3, where it is 0.2831"),
                              HasSubstr("argmin of Q_1")));
  p.constants->initial_excess = 0.02F;
  EXPECT_THAT(advice(p)[6], HasSubstr("at K* = 1, where it is 0.006046"));  // 0.04 + 1/16 * 1/4, over 0.92 * 10
  EXPECT_THAT(advice(p)[5], HasSubstr("initial_excess = 0.02, NOT within >= 0.02525"));
  p.steps->step_rule = StepRule::kHarmonic;
  p.steps->step_offset = 1;
  EXPECT_THAT(advice(p)[2], HasSubstr("kappa = step_size = 0.1, NOT within >= 0.4065"));
  // Steps 0.1 / (1 + t): sums of squares 0.016349 and of cubes 0.001202 over 100 rounds; 0.92 / 16 of 2 c + 2/4 s.
  EXPECT_THAT(advice(p)[4], AllOf(HasSubstr("within >= 0.0006083"), HasSubstr("(4.30)")));
  // The steps add up to 0.518738: 0.04 + 3/16 (20/3 c + 3/4 s), over 2.92 times that.
  EXPECT_THAT(advice(p)[5], AllOf(HasSubstr("at K* = 3, where it is 0.02892"), HasSubstr("argmin of Q_2")));
  EXPECT_THAT(advice(p), testing::Not(testing::Contains(HasSubstr("with this fixed step"))));
  p.local->local_step_count = 1;
  for (const std::string& line : advice(p)) {
    EXPECT_EQ(line.find("(4.30)"), std::string::npos) << line;
  }
}

// (4.7): delta = 2 - L alpha, so that one step may be twice as long as several.
TEST(Advice, OfRFedAGSWithOneStep) {
  RunParameters p = tangent_parameters();
  p.constants->smoothness = 2;
  p.steps->step_size = 0.5F;
  p.constants->pl_constant = 0.5F;
  p.local->local_step_count = 1;
  const std::vector<std::string> lines = advice(p);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[1], HasSubstr("alpha = 0.5, within <= 2 "));  // 1 / (0.5 * 1)
}

TEST(Advice, OfTheVarianceReducedAlgorithms) {
  RunParameters p = tangent_parameters();
  p.local->solver = SolverId::kSvrg;
  p.constants->smoothness = 2;
  p.constants->pl_constant = 1;
  p.steps->step_size = 0.1F;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("eta = 0.1, NOT within <= 0.02778")));  // 1 / 36
  p.local->local_step_count = 1;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("eta = 0.1, within <= 0.5")));
  p.steps->step_rule = StepRule::kBarzilaiBorwein;
  p.steps->step_max = 0.25F;
  p.steps->step_min = 0.01F;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("step_max = 0.25, NOT within >= 0.5"), HasSubstr("within <= 1")));
  p.local->local_step_count = 5;  // 9 * 0.0625 * 4 / 0.01
  EXPECT_THAT(advice(p)[1], HasSubstr("tau = local_step_count = 5, NOT within >= 225"));
}

// zeta = c / tanh c, c = sqrt(-curvature) diameter: 2 / tanh 2 = 2.0746 and 1.4142 / tanh 1.4142 = 1.5919.
TEST(Advice, ZetaOfNegativeCurvature) {
  RunParameters p = tangent_parameters();
  p.local->solver = SolverId::kSvrg;
  p.constants->smoothness = 2;
  p.constants->pl_constant = 1;
  p.steps->step_size = 0.1F;
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("<= 0.02778"), HasSubstr("zeta = 1, its least"))));  // Stiefel
  for (const ManifoldId id : {ManifoldId::kSphere, ManifoldId::kGrassmann, ManifoldId::kOblique}) {
    p.model->manifold = id;
    EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("<= 0.02778"), testing::Not(HasSubstr("zeta")))));
  }
  p.model->manifold = ManifoldId::kHyperbolic;
  p.model->shape = {3, 1};
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("curvature comes down to -1 "), HasSubstr("set diameter"),
                                           testing::Not(HasSubstr("within")))));
  p.constants->diameter = 2;
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("<= 0.01339"), HasSubstr("zeta = 2.075 by diameter"))));
  p.model->shape = {2, 1};  // a line
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("<= 0.02778")));
  p.model->manifold = ManifoldId::kSpd;
  p.model->shape = {2, 2};
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("<= 0.01745")));
  p.model->manifold = ManifoldId::kStiefel;
  p.model->shape = {16, 2};
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("<= 0.01745")));
  p.model->manifold = ManifoldId::kFixedRank;
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("no lower bound"), testing::Not(HasSubstr("within")))));
  p.model->manifold = ManifoldId::kHyperbolic;
  p.model->shape = {3, 1};
  p.steps->step_rule = StepRule::kBarzilaiBorwein;
  p.steps->step_max = 0.25F;
  p.steps->step_min = 0.01F;
  p.local->local_step_count = 5;
  EXPECT_THAT(advice(p)[1], HasSubstr("set local_step_count = 467 at least"));  // 225 * 2.0746
}

TEST(Advice, ZetaOfAProductIsThatOfItsWorstPart) {
  RunParameters p = tangent_parameters();
  p.local->solver = SolverId::kSvrg;
  p.constants->smoothness = 2;
  p.constants->pl_constant = 1;
  p.model->manifold = ManifoldId::kProduct;
  const auto advised = [&](const char* parts) {
    p.model->parts = parts;
    p.model->shape = {};
    set_parts(&p);
    return advice(p).front();
  };
  EXPECT_THAT(advised("sphere 4x1, euclidean 3x1"), AllOf(HasSubstr("<= 0.02778"), testing::Not(HasSubstr("zeta"))));
  EXPECT_THAT(advised("stiefel 4x2, euclidean 3x1"), HasSubstr("zeta = 1, its least"));
  EXPECT_THAT(advised("stiefel 4x2, spd 2x2"), HasSubstr("set diameter"));
  EXPECT_THAT(advised("hyperbolic 4x1, fixed_rank 6x5 2"), HasSubstr("no lower bound"));
  p.constants->diameter = 2;
  EXPECT_THAT(advised("hyperbolic 4x1, spd 2x2"), HasSubstr("<= 0.01339"));
}

// Option 2 of 002: 24 zeta^2, and 3 / (2 L) with L = 2.
TEST(Advice, OfADrawnIterate) {
  RunParameters p = tangent_parameters();
  p.local->solver = SolverId::kSvrg;
  p.local->iterate = Iterate::kUniform;
  p.local->local_step_count = 5;
  p.constants->smoothness = 2;
  p.steps->step_size = 0.1F;
  p.model->manifold = ManifoldId::kSphere;
  p.model->shape = {4, 1};
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("eta tau = 0.5, within <= 0.75"), HasSubstr("Theorems 5 and 6")),
                                     AllOf(HasSubstr("tau = local_step_count = 5, NOT within >= 24 "),
                                           HasSubstr("set local_step_count = 24 at least"))));
  p.steps->step_rule = StepRule::kBarzilaiBorwein;
  p.steps->step_max = 1;
  p.steps->step_min = 0.01F;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("step_max = 1, within >= 0.5"),
                                     HasSubstr("eta_max = step_max = 1, NOT within <= 0.75"), HasSubstr(">= 24 ")));
  p.model->manifold = ManifoldId::kHyperbolic;
  EXPECT_THAT(advice(p)[1], AllOf(HasSubstr("set diameter"), testing::Not(HasSubstr("within"))));
  p.constants->diameter = 2;
  EXPECT_THAT(advice(p)[2], HasSubstr(">= 103.3 "));  // 24 * 2.0746^2
}

// L = 2, tau = 5, n = 4, 100 rounds: eta_g eta tau = 0.5 against 1/(48 * 1.04); 1/(p r n tau K) = 1/(p r 2000).
TEST(Advice, OfTheProjectionAlgorithm) {
  RunParameters p = scalar_parameters();
  p.constants->smoothness = 2;
  p.steps->step_size = 0.1F;
  p.local->local_step_count = 5;
  p.trigger->device_count = 4;
  p.trigger->round_count = 100;
  p.model->shape = {10, 2};
  p.local->direction_count = 3;
  p.local->smoothing = 0.01F;
  EXPECT_THAT(
      advice(p),
      ElementsAre(AllOf(HasSubstr("eta_g eta tau = 0.5, NOT within <= 0.02003"), HasSubstr("Theorem 4.1"),
                        HasSubstr("first of three conditions"), HasSubstr("M = 1.04, inside gamma = 0.5"),
                        HasSubstr("gradient_bound"), HasSubstr(": set step_size = 0.004006 at most")),
                  HasSubstr("eta_g = server_step = 1, within <= 2"), HasSubstr("mu = smoothing = 0.01, within <= 0.5"),
                  HasSubstr("mu = smoothing = 0.01, NOT within <= 2.5e-05")));
  p.steps->server_step = 2;
  p.steps->step_size = 0.002F;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("eta_g eta tau = 0.02, within <="),
                                     HasSubstr("eta_g = server_step = 2, within <= 2")));
}

// chi = 3: chi_G = 1.04 * 20 * 3 of (7), and 3 of gradients; 1/(3 L_P) with L_P = 1/2.
TEST(Advice, NamesTheConditionsOfTheProjectionAlgorithmThatItLookedAt) {
  RunParameters p = scalar_parameters();
  p.constants->smoothness = 2;
  p.constants->gradient_bound = 3;
  p.steps->step_size = 0.01F;
  p.local->local_step_count = 1;
  p.model->shape = {10, 2};
  EXPECT_THAT(advice(p).front(), AllOf(HasSubstr("eta_g eta tau = 0.01, NOT within <= 0.001335"),
                                       HasSubstr("the least of three"), HasSubstr("M = 1.04 is 0.02003"),
                                       HasSubstr("chi_G = 62.4 is 0.001335"), HasSubstr("L_P = 0.5 is 0.6667")));
  p.local->estimator = EstimatorId::kAnalyticGradient;
  EXPECT_THAT(advice(p).front(), AllOf(HasSubstr("within <= 0.02003"), HasSubstr("chi_G = 3 is 0.02778")));
  p.constants->gradient_bound = 300;  // 1/2 over 1800
  EXPECT_THAT(advice(p).front(), HasSubstr("NOT within <= 0.0002778"));
  p.model->manifold = ManifoldId::kEuclidean;
  EXPECT_THAT(advice(p).front(), AllOf(HasSubstr("within <= 0.02083"), HasSubstr("other two conditions hold")));
  p.model->manifold = ManifoldId::kFixedRank;  // 1/96
  EXPECT_THAT(advice(p).front(),
              AllOf(HasSubstr("within <= 0.01042"), HasSubstr("first of three"), HasSubstr("M = 2")));
}

// L = 2 and noise 1e-4: sqrt(2 sqrt(2) 5e-5), (3 * 5e-5)^(1/3), and for (6) with 20 entries the first over sqrt 20.
TEST(Advice, OfTheSmoothingThatSuitsTheNoiseOfALoss) {
  RunParameters p = scalar_parameters();
  p.constants->loss_noise = 1e-4F;
  p.model->shape = {10, 2};
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("loss_noise = 0.0001"), HasSubstr("set smoothness = L"))));
  p.constants->smoothness = 2;
  const std::vector<std::string> lines = advice(p);
  EXPECT_THAT(lines[0], HasSubstr("mu = smoothing = 0.01: an estimate errs least at smoothing = 0.01189 "));
  for (const std::string& line : lines) {
    EXPECT_EQ(line.find("1/(p r n tau K)"), std::string::npos) << line;
  }
  p.local->estimator = EstimatorId::kProjectionTwoSided;
  EXPECT_THAT(advice(p)[0], HasSubstr("least at smoothing = 0.05313 "));
  p.local->estimator = EstimatorId::kTangentRetraction;
  EXPECT_THAT(advice(p)[0], HasSubstr("least at smoothing = 0.002659 "));
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.constants->loss_noise = 1;
  EXPECT_THAT(advice(p)[0], AllOf(HasSubstr("least at smoothing = 0.5 "), HasSubstr("by the noise alone 1.189")));
  p.steps->step_size = 0;
  p.steps->step_decay = 0;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("an estimate errs least")));
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.steps->step_size = 0.1F;
  EXPECT_THAT(advice(p), testing::Not(testing::Contains(HasSubstr("noise"))));
}

// 1 / (mu L K sqrt T) = 1 / (0.5 * 2 * 3 * sqrt 1000).
TEST(Advice, OfTheStepOfADelayedRun) {
  RunParameters p = asynchronous_parameters();
  p.constants->smoothness = 2;
  EXPECT_THAT(advice(p), testing::Not(testing::Contains(HasSubstr("004"))));
  p.constants->pl_constant = 0.5F;
  EXPECT_THAT(advice(p).back(), AllOf(HasSubstr("step_size = 0.05: 004 takes 0.01054 "), HasSubstr("Theorem 1")));
  p.trigger->buffer_size = 0;
  EXPECT_THAT(advice(p), testing::Not(testing::Contains(HasSubstr("004"))));
}

TEST(Advice, ARunThatChoosesItsStepNeedsNone) {
  RunParameters p = scalar_parameters();
  p.steps->step_size = 0;
  p.steps->step_decay = 0;
  EXPECT_THAT(advice(p), testing::IsEmpty());
  p.constants->smoothness = 2;
  EXPECT_THAT(advice(p), ElementsAre(HasSubstr("the server finds the step by itself")));
}

TEST(Advice, OfAnUploadThatIsLongerThanTheModel) {
  RunParameters p = scalar_parameters();
  p.model->shape = {10, 2};
  p.local->local_step_count = 5;
  p.local->direction_count = 4;
  EXPECT_THAT(advice(p), ElementsAre(AllOf(HasSubstr("= 20 numbers"), HasSubstr("direction_count = 3 at most"))));
  p.local->direction_count = 3;
  EXPECT_THAT(advice(p), IsEmpty());
}

}  // namespace
}  // namespace gradstream
