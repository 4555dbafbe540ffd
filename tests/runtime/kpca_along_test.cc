// k-PCA's losses along directions, from bytes, against the same losses at points that are formed, in double.
#include "runtime/problem/kpca_along.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// Samples as a shard has them.
struct ByteSamples {
  ByteSamples(uint32_t count, uint32_t rows, float scale_of_byte, float mean_of_all, uint32_t seed)
      : values(size_t{count} * rows), mean(rows, mean_of_all), dimension(rows) {
    RandomStream stream({.seed = seed});
    for (uint8_t& value : values) {
      value = static_cast<uint8_t>(stream.next() >> 24);
    }
    for (float& value : mean) {
      value += scale_of_byte * static_cast<float>(stream.next() >> 26);
    }
    bytes = {values.data(), mean.data(), scale_of_byte};
    source = {this, count, rows, read, &bytes};
  }
  ByteSamples(const ByteSamples&) = delete;
  ByteSamples& operator=(const ByteSamples&) = delete;
  static Status read(const void* context, uint32_t index, Real* out) {
    const ByteSamples& self = *static_cast<const ByteSamples*>(context);
    for (uint32_t r = 0; r < self.dimension; ++r) {
      out[r] = static_cast<Real>(self.values[size_t{index} * self.dimension + r]) * self.bytes.scale - self.mean[r];
    }
    return Status::kOk;
  }
  double value(uint32_t index, uint32_t row) const {
    return double{bytes.scale} * values[size_t{index} * dimension + row] - double{mean[row]};
  }
  std::vector<uint8_t> values;
  std::vector<float> mean;
  uint32_t dimension;
  SampleBytes bytes;
  SampleSource source;
};

std::vector<uint32_t> random_signs(Shape shape, uint32_t seed) {
  RandomStream stream({.seed = seed});
  std::vector<uint32_t> words((shape.size() + 31) / 32);
  for (uint32_t& word : words) {
    word = stream.next();
  }
  return words;
}

double sign_of(const std::vector<uint32_t>& words, size_t e) { return (words[e / 32] >> (e % 32) & 1) != 0 ? 1 : -1; }

// The loss at the polar factor of z + distance s: Gram-Schmidt spans the same columns.
double reference_loss(const ByteSamples& samples, Shape shape, const std::vector<Real>& z,
                      const std::vector<uint32_t>& signs, double distance, Batch batch) {
  std::vector<std::vector<double>> columns(shape.cols, std::vector<double>(shape.rows));
  double total = 0;
  for (uint32_t c = 0; c < shape.cols; ++c) {
    std::vector<double>& y = columns[c];
    for (uint32_t r = 0; r < shape.rows; ++r) {
      const size_t e = size_t{r} * shape.cols + c;
      y[r] = static_cast<double>(z[e]) + (distance == 0 ? 0 : distance * sign_of(signs, e));
    }
    for (uint32_t i = 0; i < 2 * c; ++i) {
      const std::vector<double>& other = columns[i % c];
      double product = 0;
      for (uint32_t r = 0; r < shape.rows; ++r) product += y[r] * other[r];
      for (uint32_t r = 0; r < shape.rows; ++r) y[r] -= product * other[r];
    }
    double square = 0;
    for (const double value : y) square += value * value;
    for (double& value : y) value /= std::sqrt(square);
    for (uint32_t b = 0; b < batch.count; ++b) {
      double product = 0;
      for (uint32_t r = 0; r < shape.rows; ++r) product += samples.value(batch.at(b), r) * y[r];
      total += product * product;
    }
  }
  return -0.5 * total / batch.count;
}

// The hook with its memory.
struct Along {
  Along(const ByteSamples& data, Shape shape_of_z, const std::vector<Real>& point, Batch samples_of_batch)
      : samples(data), shape(shape_of_z), z(point), batch(samples_of_batch) {
    const size_t size = kpca_along_size(&samples.source, shape, batch.count);
    EXPECT_GT(size, 0U);
    memory.resize(size / sizeof(uint64_t) + 1);
    memory.back() = kGuard;
  }
  ~Along() { EXPECT_EQ(memory.back(), kGuard); }
  Result<Real> loss(const uint32_t* signs, uint32_t number, Real distance) {
    return kpca_loss_along(&samples.source, shape, {z.data(), signs, number, distance}, batch, memory.data(),
                           arena.arena);
  }
  static constexpr uint64_t kGuard = 0x0123456789ABCDEF;
  const ByteSamples& samples;
  Shape shape;
  const std::vector<Real>& z;
  Batch batch;
  std::vector<uint64_t> memory;
  TestArena arena;
};

// Losses and their differences at distances mu / sqrt(pr), on both sides, of two directions.
void expect_losses(const ByteSamples& samples, Shape shape, Batch batch) {
  SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.cols << ", " << batch.count << " samples");
  const std::vector<Real> z = random_point(kStiefelOps, shape, 2);
  Along along(samples, shape, z, batch);
  const double at_z = reference_loss(samples, shape, z, {}, 0, batch);
  const Real found_at_z = along.loss(nullptr, 0, 0).value();
  EXPECT_NEAR(found_at_z, at_z, 2e-4 * std::fabs(at_z));
  for (uint32_t number = 0; number < 2; ++number) {
    const std::vector<uint32_t> signs = random_signs(shape, 7 + number);
    for (const double mu : {1e-4, 1e-2, 0.25, 0.5}) {
      for (const double side : {1, -1}) {
        const double distance = side * mu / std::sqrt(static_cast<double>(shape.size()));
        const double expected = reference_loss(samples, shape, z, signs, distance, batch);
        const Result<Real> loss = along.loss(signs.data(), number, static_cast<Real>(distance));
        ASSERT_TRUE(loss.ok()) << mu;
        EXPECT_NEAR(loss.value(), expected, 2e-4 * std::fabs(expected)) << mu;
        // The point's rounding is the same in both losses: their difference hardly knows it.
        EXPECT_NEAR(loss.value() - found_at_z, expected - at_z, (4e-6 + 2e-4 * mu) * std::fabs(at_z)) << mu;
      }
    }
  }
}

TEST(KpcaAlong, LossesAreThoseAtFormedPointsForEveryShape) {
  const uint16_t indices[] = {3, 19, 0, 7, 7};
  for (uint32_t cols = 1; cols <= kAlongColsMax; ++cols) {
    for (const uint32_t rows : {cols + 1, 13U, 64U, 200U}) {
      const ByteSamples samples(20, rows, 0.01F, 0.9F, rows + cols);
      expect_losses(samples, {rows, cols}, {indices, 5});
      expect_losses(samples, {rows, cols}, {nullptr, 16});
    }
  }
  const ByteSamples images(9, 784, 1.0F / 255, 0, 5);
  expect_losses(images, {784, 3}, {nullptr, 9});
}

TEST(KpcaAlong, ExtremeBytesMeansAndScalesAreAsGood) {
  const Shape shape = {130, 4};
  for (const float scale : {1e-3F, -0.5F, 1e12F}) {
    for (const float mean : {0.0F, -300.0F, 5000.0F}) {
      ByteSamples samples(6, 130, scale, mean * scale, 4);
      expect_losses(samples, shape, {nullptr, 6});
    }
  }
  ByteSamples samples(4, 130, 1, 0, 4);
  std::fill(samples.mean.begin(), samples.mean.end(), 0.0F);
  std::fill(samples.values.begin(), samples.values.end(), uint8_t{255});
  expect_losses(samples, shape, {nullptr, 4});
  std::fill(samples.values.begin(), samples.values.end(), uint8_t{0});
  const std::vector<Real> z = random_point(kStiefelOps, shape, 2);
  Along along(samples, shape, z, {nullptr, 4});
  EXPECT_EQ(along.loss(random_signs(shape, 1).data(), 0, 0.01F).value(), 0);
}

// 2^16 / scale is no float there. The loss is below all floats, as the square of the scale is.
TEST(KpcaAlong, AScaleNearTheLeastFloatGivesNoLoss) {
  const Shape shape = {16, 2};
  const std::vector<Real> z = random_point(kStiefelOps, shape, 2);
  for (const float scale : {1e-33F, 1e-35F, -2e-38F}) {
    const ByteSamples samples(4, 16, scale, 0, 3);
    Along along(samples, shape, z, {nullptr, 4});
    EXPECT_EQ(along.loss(random_signs(shape, 1).data(), 0, 0.01F).value(), 0) << scale;
  }
}

TEST(KpcaAlong, APointWithoutFullRankIsSingular) {
  const Shape shape = {16, 2};
  const ByteSamples samples(4, 16, 0.01F, 0.9F, 3);
  const std::vector<uint32_t> signs = random_signs(shape, 1);
  std::vector<Real> z(shape.size());
  const Real entry = static_cast<Real>(0.25);
  TestArena memory;
  std::vector<Real> y(z.size());
  for (const bool is_zero : {true, false}) {
    for (size_t e = 0; e < z.size(); ++e) {  // z + 0.25 s is zero, or has two times the same column
      const Real wanted = is_zero || e % 2 == 0 ? 0 : entry * static_cast<Real>(sign_of(signs, e - 1));
      z[e] = -entry * static_cast<Real>(sign_of(signs, e)) + wanted;
      if (!is_zero && e % 2 == 0) z[e] = 0;
      y[e] = z[e] + entry * static_cast<Real>(sign_of(signs, e));
    }
    Along along(samples, shape, z, {nullptr, 4});
    EXPECT_EQ(along.loss(signs.data(), 0, entry).status(), Status::kSingular);
    EXPECT_EQ(kStiefelOps.project_point(shape, y.data(), y.data(), memory.arena), Status::kSingular);
  }
  std::fill(z.begin(), z.end(), Real{0});
  Along along(samples, shape, z, {nullptr, 4});
  EXPECT_EQ(along.loss(nullptr, 0, 0).status(), Status::kSingular);
}

TEST(KpcaAlong, SlicesOfAnySizeGiveTheSameBits) {
  const Shape shape = {20, 3};
  const ByteSamples samples(11, 20, 0.01F, 0.9F, 3);
  const std::vector<Real> z = random_point(kStiefelOps, shape, 2);
  const std::vector<uint32_t> signs = random_signs(shape, 1);
  Along whole(samples, shape, z, {nullptr, 11});
  const Real expected[] = {whole.loss(nullptr, 0, 0).value(), whole.loss(signs.data(), 4, 0.01F).value(),
                           whole.loss(signs.data(), 4, -0.01F).value()};
  for (uint32_t units = 1; units <= 12; ++units) {
    EvaluationProgress progress = kWholeEvaluation;
    Along sliced(samples, shape, z, {nullptr, 11, &progress});
    for (uint32_t i = 0; i < 3; ++i) {
      Result<Real> loss = Status::kUnfinished;
      for (int calls = 0; loss.status() == Status::kUnfinished && calls < 12; ++calls) {
        progress.units_left = units;
        loss = sliced.loss(i == 0 ? nullptr : signs.data(), 4, i == 2 ? -0.01F : 0.01F);
      }
      EXPECT_EQ(loss.value(), expected[i]) << units;
      progress.restart();
    }
  }
}

TEST(KpcaAlong, ServesWhatItsLimitsSay) {
  const ByteSamples samples(20, 64, 0.01F, 0.9F, 3);
  EXPECT_GT(kpca_along_size(&samples.source, {64, 8}, 16), 0U);
  EXPECT_EQ(kpca_along_size(&samples.source, {64, 9}, 1), 0U);
  EXPECT_EQ(kpca_along_size(&samples.source, {64, 8}, 17), 0U);
  const ByteSamples far(20, 64, 0.01F, 1e7F, 3);
  EXPECT_EQ(kpca_along_size(&far.source, {64, 4}, 1), 0U);
  SampleSource floats = samples.source;
  floats.bytes = nullptr;
  EXPECT_EQ(kpca_along_size(&floats, {64, 4}, 1), 0U);
}

struct EstimateTest : testing::Test {
  EstimateTest() : samples(20, 24, 0.01F, 0.9F, 3), z(random_point(kStiefelOps, {24, 2}, 2)) {
    parameters.batch_mode = BatchMode::kAll;
    parameters.smoothing = static_cast<Real>(0.01);
    parameters.directions.direction_count = 6;
    parameters.directions.seed = 3;
    input.manifold = &kStiefelOps;
    input.shape = {24, 2};
    input.problem = {&kKpcaOps, &samples.source};
    input.parameters = &parameters;
    input.step = 2;
    input.z = z.data();
  }
  // The scalars of an estimate; empty: it failed.
  std::vector<Real> estimate(const EstimatorOps& ops, Real* loss) {
    std::vector<Real> scalars(6);
    TestArena memory;
    status = ops.estimate(input, scalars.data(), g.data(), loss, memory.arena);
    EXPECT_LE(memory.arena.high_water_size(), ops.scratch_size(input));
    return status == Status::kOk ? scalars : std::vector<Real>();
  }
  ByteSamples samples;
  std::vector<Real> z;
  std::vector<Real> g = std::vector<Real>(48);
  EstimatorParameters parameters;
  EstimateInput input;
  Status status = Status::kOk;
};

TEST_F(EstimateTest, ScalarsAreThoseOfFormedPoints) {
  const Batch batch = {nullptr, 20};
  for (const ManifoldOps* manifold : {&kStiefelOps, &kGrassmannOps}) {
    input.manifold = manifold;
    for (const EstimatorOps* ops : {&kProjectionOneSidedOps, &kProjectionTwoSidedOps}) {
      const bool is_two_sided = ops == &kProjectionTwoSidedOps;
      Real loss = 0;
      const std::vector<Real> scalars = estimate(*ops, &loss);
      ASSERT_EQ(scalars.size(), 6U);
      EXPECT_EQ(scalars, estimate(*ops, is_two_sided ? nullptr : &loss));
      EXPECT_NEAR(loss, reference_loss(samples, input.shape, z, {}, 0, batch), 1e-4 * std::fabs(loss));
      const double mu = static_cast<double>(parameters.smoothing);
      for (uint32_t j = 0; j < 6; ++j) {
        std::vector<uint32_t> signs(sign_word_count(input.shape));
        fill_sign_words(parameters.directions, input.shape, input.step, j, signs.data());
        const double distance = mu / std::sqrt(48.0);
        const double plus = reference_loss(samples, input.shape, z, signs, distance, batch);
        const double minus = reference_loss(samples, input.shape, z, signs, is_two_sided ? -distance : 0, batch);
        EXPECT_NEAR(scalars[j], (plus - minus) / (is_two_sided ? 2 * mu : mu), 2e-4 * std::fabs(plus));
      }
    }
  }
}

// What the hook does not serve has the path of displaced points, with its scratch and its codes.
TEST_F(EstimateTest, OtherTasksDisplaceTheirPoints) {
  const size_t along = kProjectionOneSidedOps.scratch_size(input);
  const std::vector<Real> scalars = estimate(kProjectionOneSidedOps, nullptr);
  SampleSource floats = samples.source;
  floats.bytes = nullptr;
  input.problem.context = &floats;
  EXPECT_NE(kProjectionOneSidedOps.scratch_size(input), along);
  const std::vector<Real> displaced = estimate(kProjectionOneSidedOps, nullptr);
  for (uint32_t j = 0; j < 6; ++j) {
    EXPECT_NEAR(displaced[j], scalars[j], 5e-4 * std::fabs(scalars[j]) + 1e-3);
  }
  input.problem.context = &samples.source;
  parameters.directions.kind = DirectionKind::kSphere;
  EXPECT_EQ(estimate(kProjectionOneSidedOps, nullptr).size(), 6U);
  parameters.directions.kind = DirectionKind::kSign;
  parameters.batch_mode = BatchMode::kPerDirection;
  EXPECT_EQ(estimate(kProjectionOneSidedOps, nullptr).size(), 6U);
  parameters.batch_mode = BatchMode::kAll;
  parameters.smoothing = 1;  // z + u may have no full rank: here it is -u + u
  std::vector<Real> u(48);
  fill_direction(parameters.directions, input.shape, input.step, 0, u.data());
  for (size_t e = 0; e < u.size(); ++e) {
    z[e] = -u[e];
  }
  estimate(kProjectionOneSidedOps, nullptr);
  EXPECT_EQ(status, Status::kSingular);
}

}  // namespace
}  // namespace gradstream
