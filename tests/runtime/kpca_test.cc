#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/problem.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// -1/(2 B) sum_b |z_b' x|^2 in double, in long hand.
double reference_loss(const TestSamples& samples, Shape shape, const std::vector<Real>& x, Batch batch) {
  double total = 0;
  for (uint32_t b = 0; b < batch.count; ++b) {
    const Real* z = &samples.values[static_cast<size_t>(batch.at(b)) * shape.rows];
    for (uint32_t c = 0; c < shape.cols; ++c) {
      double product = 0;
      for (uint32_t r = 0; r < shape.rows; ++r) {
        product += static_cast<double>(z[r]) * static_cast<double>(x[r * shape.cols + c]);
      }
      total += product * product;
    }
  }
  return -0.5 * total / batch.count;
}

TEST(Kpca, LossIsTheFormulaForEveryWidth) {
  for (uint32_t cols = 1; cols <= 9; ++cols) {
    const Shape shape = {13, cols};
    const TestSamples samples(20, 13, random_values(20 * 13, 1));
    const std::vector<Real> x = random_point(kStiefelOps, shape, 2);
    const uint16_t indices[] = {3, 19, 0, 7, 7};
    TestArena memory;
    for (const Batch batch : {Batch{nullptr, 20}, Batch{indices, 5}, Batch{indices + 1, 1}}) {
      const Result<Real> loss = kKpcaOps.loss(&samples.source, shape, x.data(), batch, memory.arena);
      ASSERT_TRUE(loss.ok());
      const double expected = reference_loss(samples, shape, x, batch);
      EXPECT_NEAR(loss.value(), expected, 2e-6 * std::fabs(expected));
    }
    EXPECT_EQ(memory.arena.high_water_size(), kKpcaOps.scratch_size(&samples.source, shape));
  }
}

TEST(Kpca, GradientIsTheDerivative) {
  const Shape shape = {8, 3};
  const TestSamples samples(15, 8, random_values(15 * 8, 1));
  const std::vector<Real> x = random_point(kStiefelOps, shape, 2);
  const uint16_t indices[] = {3, 14, 0, 7};
  const Batch batch = {indices, 4};
  TestArena memory;
  std::vector<Real> gradient(shape.size());
  ASSERT_EQ(kKpcaOps.gradient(&samples.source, shape, x.data(), batch, gradient.data(), memory.arena), Status::kOk);
  EXPECT_EQ(memory.arena.high_water_size(), kKpcaOps.scratch_size(&samples.source, shape));
  for (size_t e = 0; e < shape.size(); ++e) {
    // The loss is quadratic: a central difference is exact but for rounding, which a wide step keeps small.
    std::vector<Real> plus = x;
    std::vector<Real> minus = x;
    plus[e] += static_cast<Real>(0.5);
    minus[e] -= static_cast<Real>(0.5);
    const double difference =
        reference_loss(samples, shape, plus, batch) - reference_loss(samples, shape, minus, batch);
    EXPECT_NEAR(gradient[e], difference, 1e-5);
  }
}

TEST(Kpca, ReadsEachSampleOnceForEachEvaluation) {
  const Shape shape = {64, 4};
  const TestSamples samples(40, 64, random_values(40 * 64, 1));
  const std::vector<Real> x = random_point(kStiefelOps, shape, 2);
  TestArena memory;
  ASSERT_TRUE(kKpcaOps.loss(&samples.source, shape, x.data(), {nullptr, 40}, memory.arena).ok());
  EXPECT_EQ(samples.read_count, 40u);
  EXPECT_EQ(kKpcaOps.scratch_size(&samples.source, shape), (64 + 4) * sizeof(Real));
}

TEST(Kpca, TakesShapesOfItsSamplesOnly) {
  const TestSamples samples(4, 13, random_values(4 * 13, 1));
  EXPECT_EQ(kKpcaOps.sample_count(&samples.source), 4u);
  EXPECT_EQ(kKpcaOps.check_shape(&samples.source, {13, 1}), Status::kOk);
  EXPECT_EQ(kKpcaOps.check_shape(&samples.source, {13, 13}), Status::kOk);
  EXPECT_EQ(kKpcaOps.check_shape(&samples.source, {12, 1}), Status::kInvalidArgument);
  EXPECT_EQ(kKpcaOps.check_shape(&samples.source, {13, 14}), Status::kInvalidArgument);
  EXPECT_EQ(kKpcaOps.check_shape(&samples.source, {13, 0}), Status::kInvalidArgument);
}

TEST(Kpca, RefusesSamplesThatAreNotFinite) {
  const Shape shape = {3, 1};
  for (const Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity(),
                         std::numeric_limits<Real>::max()}) {
    const TestSamples samples(2, 3, {1, 2, 3, bad, bad, bad});
    const std::vector<Real> x = {1, 1, 1};
    TestArena memory;
    EXPECT_EQ(kKpcaOps.loss(&samples.source, shape, x.data(), {nullptr, 2}, memory.arena).status(), Status::kNotFinite);
    std::vector<Real> gradient(3);
    EXPECT_EQ(kKpcaOps.gradient(&samples.source, shape, x.data(), {nullptr, 2}, gradient.data(), memory.arena),
              Status::kNotFinite);
  }
}

TEST(Kpca, PassesOnASourcesStatusAndTheArenas) {
  const Shape shape = {3, 1};
  TestSamples samples(2, 3, random_values(6, 1));
  const std::vector<Real> x = {1, 0, 0};
  std::vector<Real> gradient(3);
  TestArena memory;
  samples.read_status = Status::kClosed;
  EXPECT_EQ(kKpcaOps.loss(&samples.source, shape, x.data(), {nullptr, 2}, memory.arena).status(), Status::kClosed);
  EXPECT_EQ(kKpcaOps.gradient(&samples.source, shape, x.data(), {nullptr, 2}, gradient.data(), memory.arena),
            Status::kClosed);
  samples.read_status = Status::kOk;
  TestArena small(8);
  EXPECT_EQ(kKpcaOps.loss(&samples.source, shape, x.data(), {nullptr, 2}, small.arena).status(), Status::kOutOfMemory);
  EXPECT_EQ(kKpcaOps.gradient(&samples.source, shape, x.data(), {nullptr, 2}, gradient.data(), small.arena),
            Status::kOutOfMemory);
}

}  // namespace
}  // namespace gradstream
