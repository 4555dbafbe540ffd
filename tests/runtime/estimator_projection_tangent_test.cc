#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/training/estimator.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {6, 2};

struct TangentTest : testing::Test {
  TangentTest() : samples(50, 6, random_values(300, 1)), z(random_point(kStiefelOps, kShape, 2)), g(kShape.size()) {
    parameters.batch_mode = BatchMode::kAll;
    parameters.smoothing = static_cast<Real>(0.01);
    parameters.directions.direction_count = 10;
    parameters.directions.seed = 3;
    input.manifold = &kStiefelOps;
    input.shape = kShape;
    input.problem = {&kKpcaOps, &samples.source};
    input.parameters = &parameters;
    input.z = z.data();
  }
  TestSamples samples;
  std::vector<Real> z;
  std::vector<Real> g;
  EstimatorParameters parameters;
  EstimateInput input;
  TestArena memory;
};

TEST_F(TangentTest, IsTheTangentPartOfTheProjectionEstimate) {
  std::vector<Real> scalars(10);
  std::vector<Real> expected(kShape.size());
  Real loss = 0;
  Real expected_loss = 0;
  ASSERT_EQ(kProjectionOneSidedOps.estimate(input, scalars.data(), expected.data(), &expected_loss, memory.arena),
            Status::kOk);
  ASSERT_EQ(kProjectionTangentOps.estimate(input, nullptr, g.data(), &loss, memory.arena), Status::kOk);
  EXPECT_NE(g, expected);
  ASSERT_EQ(kStiefelOps.project_tangent(kShape, z.data(), expected.data(), expected.data(), memory.arena), Status::kOk);
  EXPECT_EQ(g, expected);
  EXPECT_EQ(loss, expected_loss);
  EXPECT_FALSE(kProjectionTangentOps.uses_scalars);
}

// E|G - grad|^2 falls from (pr - 1) |grad|^2 / m = 11/m to about (dimension (pr / (pr + 2)) - 1) / m: less by the share
// of the normal space.
TEST_F(TangentTest, HasLessVarianceThanTheWholeEstimate) {
  std::vector<Real> gradient(kShape.size());
  ASSERT_EQ(kAnalyticGradientOps.estimate(input, nullptr, gradient.data(), nullptr, memory.arena), Status::kOk);
  std::vector<Real> scalars(10);
  double whole = 0;
  double tangent = 0;
  for (uint32_t version = 0; version < 200; ++version) {
    parameters.directions.base_version = version;
    ASSERT_EQ(kProjectionOneSidedOps.estimate(input, scalars.data(), g.data(), nullptr, memory.arena), Status::kOk);
    whole += std::pow(static_cast<double>(distance2(g.size(), g.data(), gradient.data())), 2);
    ASSERT_EQ(kProjectionTangentOps.estimate(input, nullptr, g.data(), nullptr, memory.arena), Status::kOk);
    tangent += std::pow(static_cast<double>(distance2(g.size(), g.data(), gradient.data())), 2);
  }
  EXPECT_LT(tangent, 0.85 * whole);
  EXPECT_GT(tangent, 0.5 * whole);
}

TEST_F(TangentTest, ScratchIsWhatItSays) {
  TestArena fresh;
  ASSERT_EQ(kProjectionTangentOps.estimate(input, nullptr, g.data(), nullptr, fresh.arena), Status::kOk);
  EXPECT_EQ(fresh.arena.high_water_size(), kProjectionTangentOps.scratch_size(input));
  TestArena small(kProjectionTangentOps.scratch_size(input) - 8);
  EXPECT_EQ(kProjectionTangentOps.estimate(input, nullptr, g.data(), nullptr, small.arena), Status::kOutOfMemory);
}

TEST_F(TangentTest, ChecksParameters) {
  EXPECT_EQ(kProjectionTangentOps.check(input), Status::kOk);
  parameters.smoothing = 0;
  EXPECT_EQ(kProjectionTangentOps.check(input), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
