// Losses over samples that are bytes: the parts against long hand, and kpca against its loss at the rounded point.
#include "runtime/problem/byte_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"
#include "runtime/problem/problem.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// Samples of bytes, as a source that has them in both forms.
struct ByteSamples {
  ByteSamples(uint32_t count, uint32_t dimension, float scale, uint32_t seed)
      : values(size_t{count} * dimension), mean(dimension) {
    RandomStream stream({.seed = seed});
    for (uint8_t& value : values) {
      value = static_cast<uint8_t>(stream.next());
    }
    for (float& value : mean) {
      value = scale * static_cast<float>(64 + stream.next() % 128);
    }
    view = {values.data(), mean.data(), scale};
    source = {this, count, dimension, read, &view};
    floats = source;
    floats.bytes = nullptr;
  }
  ByteSamples(const ByteSamples&) = delete;
  ByteSamples& operator=(const ByteSamples&) = delete;

  static Status read(const void* context, uint32_t index, Real* out) {
    const ByteSamples& samples = *static_cast<const ByteSamples*>(context);
    ++samples.read_count;
    const auto dimension = static_cast<uint32_t>(samples.mean.size());
    for (uint32_t r = 0; r < dimension; ++r) {
      out[r] = static_cast<float>(samples.values[size_t{index} * dimension + r]) * samples.view.scale - samples.mean[r];
    }
    return Status::kOk;
  }

  std::vector<uint8_t> values;
  std::vector<float> mean;
  SampleBytes view;
  SampleSource source;
  SampleSource floats;
  mutable uint32_t read_count = 0;
};

struct Words {
  Words(Shape shape, bool has_shifts)
      : words(whole_count(shape) / 4 + 1), shifts(has_shifts ? shape.rows : 0), point{shape, nullptr} {
    point.words = words.front().data();
    point.shifts = has_shifts ? shifts.data() : nullptr;
  }
  int64_t value(uint32_t r, uint32_t c) const {
    const int64_t word = point.words[whole_place(point.shape, r, c)];
    return point.shifts == nullptr ? word : word * (1 << point.shifts[r]);
  }
  struct alignas(8) Four : std::array<int16_t, 4> {};
  std::vector<Four> words;
  std::vector<uint8_t> shifts;
  WholePoint point;
};

// -1/(2 B) sum_b |z_b' y 2^exponent|^2 in double, in long hand, over the point as round_point() leaves it.
double loss_at_words(const ByteSamples& samples, const Units* units, const Words& words, Batch batch) {
  const Shape shape = words.point.shape;
  const double unit = std::ldexp(1.0, words.point.exponent);
  double total = 0;
  for (uint32_t b = 0; b < batch.count; ++b) {
    for (uint32_t c = 0; c < shape.cols; ++c) {
      double product = 0;
      for (uint32_t r = 0; r < shape.rows; ++r) {
        const double byte = samples.values[size_t{batch.at(b)} * shape.rows + r];
        const double offset = units == nullptr ? 0 : static_cast<double>(units->columns[r].mean);
        const double value = byte * static_cast<double>(samples.view.scale) - static_cast<double>(samples.mean[r]);
        product += (value - offset) * static_cast<double>(words.value(r, c)) * unit;  // the factor is in the words
      }
      total += product * product;
    }
  }
  return -0.5 * total / batch.count;
}

Result<Real> loss_of(const SampleSource& source, Shape shape, const std::vector<Real>& x, Batch batch) {
  TestArena memory(size_t{1} << 20);
  const Result<Real> loss = kKpcaOps.loss(&source, shape, x.data(), batch, memory.arena);
  EXPECT_LE(memory.arena.high_water_size(), kKpcaOps.scratch_size(&source, shape));
  return loss;
}

constexpr uint16_t kIndices[] = {3, 6, 0, 5, 5};

TEST(ByteProducts, AreSumsOfWholeNumbers) {
  RandomStream stream({.seed = 1});
  for (const uint32_t rows : {1U, 2U, 3U, 4U, 5U, 63U, 64U, 255U, 256U, 257U, 300U, 784U}) {
    for (uint32_t cols = 1; cols <= 9; ++cols) {
      const Shape shape = {rows, cols};
      for (const bool is_extreme : {false, true}) {
        Words words(shape, cols % 2 == 0);
        std::vector<uint8_t> sample(rows);
        for (uint32_t r = 0; r < rows; ++r) {
          sample[r] = is_extreme ? 255 : static_cast<uint8_t>(stream.next());
          for (uint32_t c = 0; c < cols; ++c) {
            const size_t place = whole_place(shape, r, c);
            words.point.words[place] = static_cast<int16_t>(is_extreme ? (c % 3 == 0 ? 32767 : -32768) : stream.next());
          }
          if (words.point.shifts != nullptr) {
            words.point.shifts[r] = static_cast<uint8_t>(is_extreme ? kRowShiftMax : stream.next() % 15);
          }
        }
        std::vector<int64_t> products(cols);
        multiply_bytes(words.point, sample.data(), products.data());
        for (uint32_t c = 0; c < cols; ++c) {
          int64_t expected = 0;
          for (uint32_t r = 0; r < rows; ++r) {
            expected += int64_t{sample[r]} * words.value(r, c);
          }
          ASSERT_EQ(products[c], expected) << rows << " x " << cols << ", column " << c;
        }
      }
    }
  }
}

TEST(ByteProducts, RoundAPointHalvesToEven) {
  for (const bool has_shifts : {false, true}) {
    const Shape shape = {37, 3};
    std::vector<Real> x = random_values(shape.size(), 4);
    for (Real& value : x) {
      value = std::clamp(value, Real{-6}, Real{6});
    }
    x[0] = 7;  // the largest: the exponent is 2^3
    x[1] = 0;
    x[2] = -0x1.6p-10F;  // in 15 bits 5 and a half
    x[3] = 0x1p-140F;
    x[4] = 0x1p-31F;
    x[5] = 0x1.8p-12F;  // the largest of its row, which is beyond the shifts
    std::fill_n(x.begin() + 6, 3, 0x1p-6F);
    Words words(shape, has_shifts);
    ASSERT_TRUE(round_point(x.data(), nullptr, &words.point));
    EXPECT_EQ(words.point.exponent, 3 - words.point.bits());
    for (uint32_t r = 0; r < shape.rows; ++r) {
      const int shift = has_shifts ? words.point.shifts[r] : 0;
      EXPECT_LE(shift, kRowShiftMax);
      int64_t most = 0;
      for (uint32_t c = 0; c < shape.cols; ++c) {
        const auto value = static_cast<double>(x[r * shape.cols + c]);
        const long expected = std::lrint(std::ldexp(value, -words.point.exponent - shift));
        EXPECT_EQ(words.value(r, c), expected * (1 << shift)) << r << ", " << c;
        most = std::max<int64_t>(most, std::abs(expected));
      }
      EXPECT_TRUE(!has_shifts || shift == 0 || most >= 1 << 14) << "row " << r << " wastes bits";
    }
    // What rounds up to the next power of two takes the next exponent, for which the word has no bit.
    const std::vector<Real> ones = {std::nextafter(Real{1}, Real{0}), -std::nextafter(Real{1}, Real{0})};
    Words most({2, 1}, has_shifts);
    ASSERT_TRUE(round_point(ones.data(), nullptr, &most.point));
    EXPECT_EQ(most.value(0, 0), int64_t{1} << (most.point.bits() - 1));
    EXPECT_EQ(most.value(1, 0), -most.value(0, 0));
    for (const Real bad : {Real{0}, std::numeric_limits<Real>::infinity(), std::numeric_limits<Real>::quiet_NaN()}) {
      const std::vector<Real> point = {bad, 0};
      EXPECT_FALSE(round_point(point.data(), nullptr, &most.point)) << bad;
    }
  }
}

TEST(ByteProducts, MakeTheLossAtTheRoundedPoint) {
  uint32_t seed = 0;
  for (const uint32_t rows : {1U, 2U, 7U, 8U, 30U, 64U, 257U, 784U}) {
    for (uint32_t cols = 1; cols <= 8 && cols <= rows; ++cols) {
      const Shape shape = {rows, cols};
      const float scales[] = {1, 0x1p-8F, -0.37F, 1e15F, 3e-12F};
      ++seed;
      ByteSamples samples(7, rows, scales[seed % 5], seed);
      std::fill_n(samples.values.begin(), rows, uint8_t{255});  // a sample of the largest bytes, and one of zeros
      std::fill_n(samples.values.begin() + rows, rows, uint8_t{0});
      if (seed % 3 == 0) {
        std::fill(samples.mean.begin(), samples.mean.end(), 0.0F);
      } else if (seed % 3 == 1) {
        std::fill(samples.mean.begin(), samples.mean.end(), 255 * samples.view.scale);  // where the largest byte is 0
      }
      const std::vector<Real> x = random_point(kStiefelOps, shape, seed);
      Words words(shape, false);
      ASSERT_TRUE(round_point(x.data(), nullptr, &words.point));
      for (const Batch batch : {Batch{nullptr, 7}, Batch{kIndices, 5}}) {
        const Result<Real> loss = loss_of(samples.source, shape, x, batch);
        ASSERT_TRUE(loss.ok()) << rows << " x " << cols;
        const double expected = loss_at_words(samples, nullptr, words, batch);
        EXPECT_NEAR(loss.value(), expected, 1e-6 * std::fabs(expected)) << rows << " x " << cols << ", seed " << seed;
        const Result<Real> by_floats = loss_of(samples.floats, shape, x, batch);
        ASSERT_TRUE(by_floats.ok());
        EXPECT_NEAR(loss.value(), by_floats.value(), 2e-4 * std::fabs(expected)) << rows << " x " << cols;
      }
    }
  }
}

// Factors of 1 to 2^-12: each row keeps the bits of its words.
TEST(ByteProducts, FoldUnitsIntoThePoint) {
  for (const Shape shape : {Shape{5, 2}, Shape{64, 4}, Shape{300, 3}}) {
    ByteSamples samples(7, shape.rows, 0.25F, shape.rows);
    std::vector<UnitsColumn> columns(shape.rows);
    for (uint32_t r = 0; r < shape.rows; ++r) {
      columns[r] = {8, static_cast<float>(r % 11) - 5, std::ldexp(1.3F, -static_cast<int>(r % 13))};
    }
    const Units units = {columns.data(), shape.rows};
    Batch batch = {kIndices, 5};
    batch.units = &units;
    const std::vector<Real> x = random_point(kStiefelOps, shape, 2);
    Words words(shape, true);
    ASSERT_TRUE(round_point(x.data(), &units, &words.point));
    const Result<Real> loss = loss_of(samples.source, shape, x, batch);
    const Result<Real> by_floats = loss_of(samples.floats, shape, x, batch);
    ASSERT_TRUE(loss.ok() && by_floats.ok());
    const double expected = loss_at_words(samples, &units, words, batch);
    EXPECT_NEAR(loss.value(), expected, 1e-6 * std::fabs(expected));
    EXPECT_NEAR(loss.value(), by_floats.value(), 2e-4 * std::fabs(expected));
  }
}

// The most rows, the largest words and factors, means as far from the bytes as they may be; and many columns.
TEST(ByteProducts, KeepWithinTheirBitsAtTheLimits) {
  for (const Shape shape : {Shape{kDimensionMax, 1}, Shape{300, 130}}) {
    std::vector<UnitsColumn> columns(shape.rows, UnitsColumn{8, 100, 3});
    columns[1].factor = 0x1p-40F;
    const Units units = {columns.data(), shape.rows};
    for (const float mean : {0.0F, 250.0F, 32500.0F, -32500.0F}) {
      ByteSamples samples(2, shape.rows, 1, 3);
      std::fill_n(samples.values.begin(), shape.rows, uint8_t{255});
      std::fill_n(samples.values.begin() + shape.rows, shape.rows, uint8_t{0});
      std::fill(samples.mean.begin(), samples.mean.end(), mean);
      std::vector<Real> x(shape.size(), Real{0x1.fffcp0F});  // 32,767 words of one sign: sums are the largest
      x[shape.size() - 1] = -1;
      for (const Units* const taken : {static_cast<const Units*>(nullptr), &units}) {
        Batch batch = {nullptr, 2};
        batch.units = taken;
        Words words(shape, taken != nullptr);
        ASSERT_TRUE(round_point(x.data(), taken, &words.point));
        const Result<Real> loss = loss_of(samples.source, shape, x, batch);
        ASSERT_TRUE(loss.ok());
        const double expected = loss_at_words(samples, taken, words, batch);
        EXPECT_NEAR(loss.value(), expected, 1e-6 * std::fabs(expected)) << shape.rows << ", mean " << mean;
        EXPECT_EQ(samples.read_count, 0U);
      }
    }
  }
}

// Where the bytes are lost behind the mean, and where a point is no number.
TEST(ByteProducts, LeaveToFloatsWhatIsNotTheirs) {
  const Shape shape = {9, 2};
  const std::vector<Real> x = random_point(kStiefelOps, shape, 2);
  for (const float mean : {-1e9F, 70000.0F, -70000.0F, 1e15F}) {
    ByteSamples samples(7, 9, 1, 3);
    samples.mean[4] = mean;
    EXPECT_EQ(loss_of(samples.source, shape, x, {nullptr, 7}).value(),
              loss_of(samples.floats, shape, x, {nullptr, 7}).value());
    EXPECT_EQ(samples.read_count, 14U);
  }
  ByteSamples small(7, 9, 1e-39F, 3);
  EXPECT_EQ(loss_of(small.source, shape, x, {nullptr, 7}).value(),
            loss_of(small.floats, shape, x, {nullptr, 7}).value());
  ByteSamples large(7, 9, 1e30F, 3);
  EXPECT_EQ(loss_of(large.source, shape, x, {nullptr, 7}).status(), Status::kNotFinite);
  const ByteSamples samples(7, 9, 1, 3);
  for (const Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
    std::vector<Real> point = x;
    point[3] = bad;
    EXPECT_EQ(loss_of(samples.source, shape, point, {nullptr, 7}).status(), Status::kNotFinite);
  }
  const std::vector<Real> zero(shape.size());
  EXPECT_EQ(loss_of(samples.source, shape, zero, {nullptr, 7}).value(), 0);
  TestArena none(8);
  EXPECT_EQ(kKpcaOps.loss(&samples.source, shape, x.data(), {nullptr, 7}, none.arena).status(), Status::kOutOfMemory);
}

TEST(ByteProducts, ReadNoSampleAndTakeABatchInAnyCuts) {
  const Shape shape = {64, 4};
  ByteSamples samples(40, 64, 0.5F, 8);
  const std::vector<Real> x = random_point(kStiefelOps, shape, 2);
  const Result<Real> whole = loss_of(samples.source, shape, x, {nullptr, 40});
  EXPECT_EQ(samples.read_count, 0U);
  for (const uint32_t units : {1U, 2U, 7U}) {
    EvaluationProgress progress = {};
    Batch batch = {nullptr, 40, &progress};
    Result<Real> loss = Status::kUnfinished;
    while (loss.status() == Status::kUnfinished) {
      progress.units_left = units;
      loss = loss_of(samples.source, shape, x, batch);
    }
    ASSERT_TRUE(loss.ok());
    EXPECT_EQ(loss.value(), whole.value()) << units;
  }
  // A mean of no alignment, and none.
  std::vector<uint8_t> bytes(64 * sizeof(float) + 1);
  std::memcpy(&bytes[1], samples.mean.data(), 64 * sizeof(float));
  samples.view.mean = &bytes[1];
  EXPECT_EQ(loss_of(samples.source, shape, x, {nullptr, 40}).value(), whole.value());
  samples.view.mean = nullptr;
  std::fill(samples.mean.begin(), samples.mean.end(), 0.0F);
  const Result<Real> centred = loss_of(samples.source, shape, x, {nullptr, 40});
  samples.view.mean = samples.mean.data();
  EXPECT_EQ(loss_of(samples.source, shape, x, {nullptr, 40}).value(), centred.value());
}

TEST(ByteProducts, AddUpTheMetricOfFloats) {
  const Shape shape = {63, 3};
  const ByteSamples samples(9, 63, 0.5F, 8);
  const std::vector<Real> x = random_point(kStiefelOps, shape, 2);
  std::vector<UnitsColumn> columns(63, UnitsColumn{8, 3, 0.125F});
  const Units units = {columns.data(), 63};
  for (const Units* const taken : {static_cast<const Units*>(nullptr), &units}) {
    QualitySum sums[2];
    for (uint32_t i = 0; i < 2; ++i) {
      EvaluationProgress progress = kWholeEvaluation;
      progress.quality = &sums[i];
      Batch batch = {nullptr, 9, &progress, nullptr, taken};
      ASSERT_TRUE(loss_of(i == 0 ? samples.floats : samples.source, shape, x, batch).ok());
    }
    EXPECT_EQ(sums[1].whole, sums[0].whole);
    EXPECT_NEAR(sums[1].part, sums[0].part, 2e-4F * sums[0].part);
  }
}

}  // namespace
}  // namespace gradstream
