#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/estimator.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {6, 2};

struct GradientTest : testing::Test {
  GradientTest() : samples(50, 6, random_values(300, 1)), z(random_point(kStiefelOps, kShape, 2)), g(kShape.size()) {
    parameters.id = EstimatorId::kAnalyticGradient;
    parameters.batch_mode = BatchMode::kCommon;
    parameters.batch_size = 8;
    input.manifold = &kStiefelOps;
    input.shape = kShape;
    input.problem = {&kKpcaOps, &samples.source};
    input.parameters = &parameters;
    input.z = z.data();
  }
  Status estimate(Real* loss) { return kAnalyticGradientOps.estimate(input, nullptr, g.data(), loss, memory.arena); }
  TestSamples samples;
  std::vector<Real> z;
  std::vector<Real> g;
  EstimatorParameters parameters;
  EstimateInput input;
  TestArena memory;
};

TEST_F(GradientTest, IsTheRiemannianGradientOverTheBatch) {
  Real loss = 0;
  ASSERT_EQ(estimate(&loss), Status::kOk);
  EXPECT_LE(memory.arena.high_water_size(), kAnalyticGradientOps.scratch_size(input));
  std::vector<uint16_t> work(50);
  choose({0, RandomDomain::kMinibatch, 0, 0, 0}, 50, 8, work.data());
  const Batch batch = {work.data(), 8};
  std::vector<Real> expected(kShape.size());
  ASSERT_EQ(kKpcaOps.gradient(&samples.source, kShape, z.data(), batch, expected.data(), memory.arena), Status::kOk);
  ASSERT_EQ(kStiefelOps.riemannian_gradient(kShape, z.data(), expected.data(), expected.data(), memory.arena),
            Status::kOk);
  EXPECT_EQ(g, expected);
  EXPECT_EQ(loss, kKpcaOps.loss(&samples.source, kShape, z.data(), batch, memory.arena).value());
}

TEST_F(GradientTest, WithoutLossReadsEachSampleOnce) {
  ASSERT_EQ(estimate(nullptr), Status::kOk);
  EXPECT_EQ(samples.read_count, 8u);
}

TEST_F(GradientTest, ChecksWhatItNeeds) {
  EXPECT_EQ(kAnalyticGradientOps.check(input), Status::kOk);
  parameters.batch_mode = BatchMode::kPerDirection;
  EXPECT_EQ(kAnalyticGradientOps.check(input), Status::kInvalidArgument);
  parameters.batch_mode = BatchMode::kNone;
  EXPECT_EQ(kAnalyticGradientOps.check(input), Status::kInvalidArgument);
  ProblemOps without = kKpcaOps;
  without.gradient = nullptr;
  input.problem.ops = &without;
  EXPECT_EQ(kAnalyticGradientOps.check(input), Status::kUnimplemented);
}

TEST_F(GradientTest, RefusesWhatIsNotFinite) {
  for (Real& value : samples.values) {
    value = std::numeric_limits<Real>::quiet_NaN();
  }
  Real loss = 0;
  EXPECT_EQ(estimate(&loss), Status::kNotFinite);
  EXPECT_EQ(estimate(nullptr), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
