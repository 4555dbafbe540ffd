#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/training/estimator.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {6, 2};
constexpr uint32_t kDirections = 10;
const EstimatorOps* const kBoth[] = {&kProjectionOneSidedOps, &kProjectionTwoSidedOps};

struct ProjectionTest : testing::Test {
  ProjectionTest()
      : samples(50, 6, random_values(300, 1)),
        z(random_point(kStiefelOps, kShape, 2)),
        g(kShape.size()),
        scalars(kDirections) {
    parameters.batch_mode = BatchMode::kCommon;
    parameters.batch_size = 8;
    parameters.smoothing = static_cast<Real>(0.01);
    parameters.directions.direction_count = kDirections;
    parameters.directions.seed = 3;
    input.manifold = &kStiefelOps;
    input.shape = kShape;
    input.problem = {&kKpcaOps, &samples.source};
    input.parameters = &parameters;
    input.seed = 3;
    input.step = 2;
    input.z = z.data();
  }
  Status estimate(const EstimatorOps& ops, Real* loss) {
    return ops.estimate(input, scalars.data(), g.data(), loss, memory.arena);
  }
  Real loss_at(uint32_t j, Real distance, Batch batch) {
    std::vector<Real> y(kShape.size());
    fill_direction(parameters.directions, kShape, input.step, j, y.data());
    for (size_t e = 0; e < y.size(); ++e) {
      y[e] = z[e] + distance * y[e];
    }
    EXPECT_EQ(kStiefelOps.project_point(kShape, y.data(), y.data(), memory.arena), Status::kOk);
    return kKpcaOps.loss(&samples.source, kShape, y.data(), batch, memory.arena).value();
  }
  Real formula(bool two_sided, uint32_t j, Batch batch) {
    const Real mu = parameters.smoothing;
    return two_sided ? (loss_at(j, mu, batch) - loss_at(j, -mu, batch)) / (2 * mu)
                     : (loss_at(j, mu, batch) - loss_at(j, 0, batch)) / mu;
  }
  TestSamples samples;
  std::vector<Real> z;
  std::vector<Real> g;
  std::vector<Real> scalars;
  EstimatorParameters parameters;
  EstimateInput input;
  TestArena memory;
};

TEST_F(ProjectionTest, ScalarsAreTheFormulaOverTheCommonBatch) {
  std::vector<uint16_t> work(50);
  choose({3, RandomDomain::kMinibatch, 0, 0, 2}, 50, 8, work.data());
  const Batch drawn = {work.data(), 8};
  for (const BatchMode mode : {BatchMode::kCommon, BatchMode::kAll}) {
    parameters.batch_mode = mode;
    const Batch batch = mode == BatchMode::kAll ? Batch{nullptr, 50} : drawn;
    for (const EstimatorOps* ops : kBoth) {
      Real loss = 0;
      ASSERT_EQ(estimate(*ops, &loss), Status::kOk);
      for (uint32_t j = 0; j < kDirections; ++j) {
        // P_M(z) differs from z by rounding, which mu magnifies.
        EXPECT_NEAR(scalars[j], formula(ops == kBoth[1], j, batch), 2e-4);
      }
      EXPECT_EQ(loss, kKpcaOps.loss(&samples.source, kShape, z.data(), batch, memory.arena).value());
    }
  }
}

TEST_F(ProjectionTest, PerDirectionDrawsOneSampleForEach) {
  parameters.batch_mode = BatchMode::kPerDirection;
  for (const EstimatorOps* ops : kBoth) {
    Real loss = 0;
    ASSERT_EQ(estimate(*ops, &loss), Status::kOk);
    RandomStream stream({3, RandomDomain::kMinibatch, 0, 0, 2});
    double mean = 0;
    for (uint32_t j = 0; j < kDirections; ++j) {
      const uint16_t index = static_cast<uint16_t>((static_cast<uint64_t>(stream.next()) * 50) >> 32);
      const Batch batch = {&index, 1};
      EXPECT_NEAR(scalars[j], formula(ops == kBoth[1], j, batch), 5e-4);
      mean += static_cast<double>(kKpcaOps.loss(&samples.source, kShape, z.data(), batch, memory.arena).value());
    }
    EXPECT_NEAR(loss, mean / kDirections, 1e-5);
  }
}

TEST_F(ProjectionTest, EstimateIsTheScaledSumOfItsScalars) {
  for (const EstimatorOps* ops : kBoth) {
    for (const DirectionKind kind : {DirectionKind::kSign, DirectionKind::kSphere}) {
      parameters.directions.kind = kind;
      ASSERT_EQ(estimate(*ops, nullptr), Status::kOk);
      std::vector<Real> sum(kShape.size());
      ASSERT_EQ(accumulate_directions(parameters.directions, kShape, 2 * kDirections, kDirections, scalars.data(),
                                      sum.data(), memory.arena),
                Status::kOk);
      scale(sum.size(), Real{12} / Real{10}, sum.data());
      EXPECT_EQ(g, sum);
    }
  }
}

// Many directions: G comes near the gradient of the loss after projection, which is the Riemannian one.
TEST_F(ProjectionTest, ManyDirectionsComeNearTheGradient) {
  parameters.batch_mode = BatchMode::kAll;
  parameters.directions.direction_count = kDirectionCountMax;
  scalars.resize(kDirectionCountMax);
  std::vector<Real> gradient(kShape.size());
  ASSERT_EQ(kAnalyticGradientOps.estimate(input, nullptr, gradient.data(), nullptr, memory.arena), Status::kOk);
  const Real norm = norm2(gradient.size(), gradient.data());
  for (const EstimatorOps* ops : kBoth) {
    ASSERT_EQ(estimate(*ops, nullptr), Status::kOk);
    add_scaled(g.size(), -1, gradient.data(), g.data());
    // Relative error sqrt((pr - 1) / m) = 0.10 (E19), with room for one draw.
    EXPECT_LT(norm2(g.size(), g.data()), static_cast<Real>(0.2) * norm);
  }
}

TEST_F(ProjectionTest, TwoSidedSpareTheLossUnlessAsked) {
  ASSERT_EQ(estimate(kProjectionTwoSidedOps, nullptr), Status::kOk);
  EXPECT_EQ(samples.read_count, 2 * kDirections * 8u);
  samples.read_count = 0;
  Real loss = 0;
  ASSERT_EQ(estimate(kProjectionTwoSidedOps, &loss), Status::kOk);
  EXPECT_EQ(samples.read_count, (2 * kDirections + 1) * 8u);
  samples.read_count = 0;
  ASSERT_EQ(estimate(kProjectionOneSidedOps, &loss), Status::kOk);
  EXPECT_EQ(samples.read_count, (kDirections + 1) * 8u);
}

TEST_F(ProjectionTest, ScratchIsWhatItSays) {
  for (const EstimatorOps* ops : kBoth) {
    for (const DirectionKind kind : {DirectionKind::kSign, DirectionKind::kSphere}) {
      for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
        parameters.directions.kind = kind;
        parameters.batch_mode = mode;
        TestArena fresh;
        Real loss = 0;
        ASSERT_EQ(ops->estimate(input, scalars.data(), g.data(), &loss, fresh.arena), Status::kOk);
        EXPECT_EQ(fresh.arena.high_water_size(), ops->scratch_size(input));
        TestArena small(ops->scratch_size(input) - 8);
        EXPECT_EQ(ops->estimate(input, scalars.data(), g.data(), &loss, small.arena), Status::kOutOfMemory);
      }
    }
  }
}

TEST_F(ProjectionTest, ChecksParameters) {
  for (const EstimatorOps* ops : kBoth) {
    EXPECT_EQ(ops->check(input), Status::kOk);
    const EstimatorParameters good = parameters;
    for (const Real bad :
         {Real{0}, Real{-1}, std::numeric_limits<Real>::infinity(), std::numeric_limits<Real>::quiet_NaN()}) {
      parameters.smoothing = bad;
      EXPECT_EQ(ops->check(input), Status::kInvalidArgument);
    }
    parameters = good;
    for (const uint32_t bad : {0u, kDirectionCountMax + 1}) {
      parameters.directions.direction_count = bad;
      EXPECT_EQ(ops->check(input), Status::kInvalidArgument);
    }
    parameters = good;
    parameters.directions.kind = DirectionKind::kNone;
    EXPECT_EQ(ops->check(input), Status::kInvalidArgument);
    parameters = good;
    parameters.batch_mode = BatchMode::kNone;
    EXPECT_EQ(ops->check(input), Status::kInvalidArgument);
    parameters = good;
  }
}

TEST_F(ProjectionTest, RefusesWhatIsNotFinite) {
  samples.values.assign(samples.values.size(), std::numeric_limits<Real>::quiet_NaN());
  for (const EstimatorOps* ops : kBoth) {
    for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
      parameters.batch_mode = mode;
      EXPECT_EQ(estimate(*ops, nullptr), Status::kNotFinite);
    }
  }
}

}  // namespace
}  // namespace gradstream
