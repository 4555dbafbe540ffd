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

struct RetractionTest : testing::Test {
  RetractionTest() : samples(50, 6, random_values(300, 1)), z(random_point(kStiefelOps, kShape, 2)), g(kShape.size()) {
    parameters.batch_mode = BatchMode::kCommon;
    parameters.batch_size = 8;
    parameters.smoothing = static_cast<Real>(0.01);
    parameters.directions.direction_count = 10;
    parameters.directions.shared = false;
    parameters.directions.seed = 3;
    input.manifold = &kStiefelOps;
    input.shape = kShape;
    input.problem = {&kKpcaOps, &samples.source};
    input.parameters = &parameters;
    input.seed = 3;
    input.step = 2;
    input.z = z.data();
  }
  Status estimate(Real* loss, Arena& arena) {
    return kTangentRetractionOps.estimate(input, nullptr, g.data(), loss, arena);
  }
  Real loss_at(const std::vector<Real>& x, Batch batch) {
    return kKpcaOps.loss(&samples.source, kShape, x.data(), batch, memory.arena).value();
  }
  // Direction j: normals j pr ... of the step's stream, projected.
  std::vector<Real> direction(uint32_t j) {
    std::vector<Real> u(kShape.size());
    fill_normal({3, RandomDomain::kOwnDirections, 0, 0, 2}, j * kShape.size(), kShape.size(), u.data());
    EXPECT_EQ(kStiefelOps.project_tangent(kShape, z.data(), u.data(), u.data(), memory.arena), Status::kOk);
    return u;
  }
  std::vector<Real> formula(const std::vector<Batch>& batches) {
    std::vector<Real> sum(kShape.size());
    for (uint32_t j = 0; j < 10; ++j) {
      const std::vector<Real> u = direction(j);
      std::vector<Real> y = u;
      scale(y.size(), parameters.smoothing, y.data());
      EXPECT_EQ(kStiefelOps.retract(kShape, z.data(), y.data(), y.data(), memory.arena), Status::kOk);
      const Real slope = (loss_at(y, batches[j]) - loss_at(z, batches[j])) / parameters.smoothing;
      add_scaled(u.size(), slope / 10, u.data(), sum.data());
    }
    return sum;
  }
  TestSamples samples;
  std::vector<Real> z;
  std::vector<Real> g;
  EstimatorParameters parameters;
  EstimateInput input;
  TestArena memory;
};

TEST_F(RetractionTest, IsTheFormulaOverTheCommonBatch) {
  std::vector<uint16_t> work(50);
  choose({3, RandomDomain::kMinibatch, 0, 0, 2}, 50, 8, work.data());
  Real loss = 0;
  ASSERT_EQ(estimate(&loss, memory.arena), Status::kOk);
  const std::vector<Real> expected = formula(std::vector<Batch>(10, Batch{work.data(), 8}));
  for (size_t e = 0; e < g.size(); ++e) {
    EXPECT_NEAR(g[e], expected[e], 1e-6);
  }
  EXPECT_EQ(loss, loss_at(z, {work.data(), 8}));
}

TEST_F(RetractionTest, PerDirectionDrawsOneSampleForEach) {
  parameters.batch_mode = BatchMode::kPerDirection;
  RandomStream stream({3, RandomDomain::kMinibatch, 0, 0, 2});
  std::vector<uint16_t> indices;
  std::vector<Batch> batches;
  for (uint32_t j = 0; j < 10; ++j) {
    indices.push_back(static_cast<uint16_t>((static_cast<uint64_t>(stream.next()) * 50) >> 32));
  }
  for (const uint16_t& index : indices) {
    batches.push_back({&index, 1});
  }
  ASSERT_EQ(estimate(nullptr, memory.arena), Status::kOk);
  const std::vector<Real> expected = formula(batches);
  for (size_t e = 0; e < g.size(); ++e) {
    EXPECT_NEAR(g[e], expected[e], 1e-6);
  }
}

TEST_F(RetractionTest, IsTangentAndNearTheGradient) {
  parameters.batch_mode = BatchMode::kAll;
  parameters.directions.direction_count = kDirectionCountMax;
  std::vector<Real> gradient(kShape.size());
  ASSERT_EQ(kAnalyticGradientOps.estimate(input, nullptr, gradient.data(), nullptr, memory.arena), Status::kOk);
  ASSERT_EQ(estimate(nullptr, memory.arena), Status::kOk);
  std::vector<Real> tangent(kShape.size());
  ASSERT_EQ(kStiefelOps.project_tangent(kShape, z.data(), g.data(), tangent.data(), memory.arena), Status::kOk);
  EXPECT_LT(distance2(g.size(), g.data(), tangent.data()), 1e-5 * norm2(g.size(), g.data()));
  add_scaled(g.size(), -1, gradient.data(), g.data());
  // Relative error sqrt((dimension + 1) / m) = 0.10 with dimension 9, with room for one draw.
  EXPECT_LT(norm2(g.size(), g.data()), static_cast<Real>(0.2) * norm2(g.size(), gradient.data()));
}

TEST_F(RetractionTest, ScratchIsWhatItSays) {
  for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
    parameters.batch_mode = mode;
    TestArena fresh;
    ASSERT_EQ(estimate(nullptr, fresh.arena), Status::kOk);
    EXPECT_EQ(fresh.arena.high_water_size(), kTangentRetractionOps.scratch_size(input));
    TestArena small(kTangentRetractionOps.scratch_size(input) - 8);
    EXPECT_EQ(estimate(nullptr, small.arena), Status::kOutOfMemory);
  }
}

TEST_F(RetractionTest, ChecksParametersAndValues) {
  EXPECT_EQ(kTangentRetractionOps.check(input), Status::kOk);
  EXPECT_FALSE(kTangentRetractionOps.uses_scalars);
  const EstimatorParameters good = parameters;
  for (const Real bad : {Real{0}, Real{-1}, std::numeric_limits<Real>::quiet_NaN()}) {
    parameters.smoothing = bad;
    EXPECT_EQ(kTangentRetractionOps.check(input), Status::kInvalidArgument);
  }
  for (const uint32_t bad : {0u, kDirectionCountMax + 1}) {
    parameters = good;
    parameters.directions.direction_count = bad;
    EXPECT_EQ(kTangentRetractionOps.check(input), Status::kInvalidArgument);
  }
  parameters = good;
  samples.values.assign(samples.values.size(), std::numeric_limits<Real>::quiet_NaN());
  EXPECT_EQ(estimate(nullptr, memory.arena), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
