// The figures are NumPy's, in double: the loss, and central differences of it.
#include <cstring>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

constexpr uint32_t kPixelCount = 28 * 28;

std::vector<Real> rows() {
  const std::vector<Real> pixels = numbers(2 * kPixelCount, 1, 1);
  std::vector<Real> out(pixels.begin(), pixels.begin() + kPixelCount);
  out.push_back(0);
  out.insert(out.end(), pixels.begin() + kPixelCount, pixels.end());
  out.push_back(1);
  return out;
}

class Lenet : public ::testing::Test {
 protected:
  uint16_t classes_ = 10;
  TestSamples samples_{2, kPixelCount + 1, rows()};
  NetworkData data_{samples_.source, &classes_, 1};
  ProblemCase case_{{&kLenetOps, &data_}, {61706, 1}, numbers(61706, 3, 0.5)};
};

TEST_F(Lenet, HasTheReferencesFigures) {
  EXPECT_NEAR(loss_at(case_, case_.x, case_.all()), 2.4246784539077133, 1e-5);
  const std::vector<Real> gradient = gradient_at(case_, case_.all());
  const std::vector<Real> direction = numbers(gradient.size(), 11, 1);
  EXPECT_NEAR(dot(gradient.size(), gradient.data(), direction.data()), -4.430497014129564, 2e-4);
  const std::pair<size_t, double> entries[] = {{0, -0.02088737147687425},
                                               {77, 0.04340285553183775},
                                               {150, -0.28634045143860476},
                                               {156, -0.00656376455410168},
                                               {1000, -0.09827427089881267},
                                               {2560, -0.012507361013547323},
                                               {50000, 0.0},
                                               {61705, 0.07909830874730517}};
  for (const auto& [at, expected] : entries) {
    EXPECT_NEAR(gradient[at], expected, 1e-5) << at;
  }
}

// Along directions that move one layer each; in float the step of a difference crosses corners of max(0, .).
#if defined(GS_REAL_DOUBLE)
TEST_F(Lenet, GradientIsTheDerivative) {
  const std::vector<Real> gradient = gradient_at(case_, case_.all());
  const size_t ends[] = {0, 150, 156, 2556, 2572, 50572, 50692, 60772, 60856, 61696, 61706};
  for (size_t layer = 0; layer + 1 < std::size(ends); ++layer) {
    const size_t count = ends[layer + 1] - ends[layer];
    const std::vector<Real> direction = numbers(count, 20 + static_cast<uint32_t>(layer), 1);
    double losses[2];
    for (const int side : {0, 1}) {
      std::vector<Real> x = case_.x;
      add_scaled(count, static_cast<Real>(side == 0 ? -1e-7 : 1e-7), direction.data(), x.data() + ends[layer]);
      losses[side] = loss_at(case_, x, case_.all());
    }
    const double expected = static_cast<double>(dot(count, gradient.data() + ends[layer], direction.data()));
    EXPECT_NEAR((losses[1] - losses[0]) / 2e-7, expected, 1e-6 * (1 + std::fabs(expected))) << layer;
  }
}
#endif

// Plain loops over one sample, whose sums are those of a published run: a convolution adds whole rows of its input.
struct Plain {
  using Reals = std::vector<Real>;
  struct Convolution {
    uint32_t inputs, outputs, side_in;  // with its border
    uint32_t side() const { return side_in - 4; }
    uint32_t area() const { return side() * side(); }
    size_t size() const { return size_t{outputs} * (inputs * 25 + 1); }
    template <typename Visit>
    void for_each_row(Visit visit) const {
      for (uint32_t o = 0; o < outputs; ++o)
        for (uint32_t i = 0; i < inputs; ++i)
          for (uint32_t k = 0; k < 25; ++k)
            for (uint32_t r = 0; r < side(); ++r)
              visit((o * inputs + i) * 25 + k, (i * side_in + r + k / 5) * side_in + k % 5, (o * side() + r) * side());
    }
    uint32_t pooled(uint32_t e) const {
      return (e / area() * (side() / 2) + e / side() % side() / 2) * (side() / 2) + e % side() / 2;
    }
  };
  static constexpr Convolution kConvolutions[] = {{1, 6, 32}, {6, 16, 14}};

  Reals convolve(const Convolution& c, const Real* x, const Reals& in, Reals& maps) const {
    maps.resize(c.outputs * c.area());
    for (uint32_t e = 0; e < maps.size(); ++e) maps[e] = x[c.outputs * c.inputs * 25 + e / c.area()];
    c.for_each_row([&](uint32_t w, uint32_t from, uint32_t to) { add_scaled(c.side(), x[w], &in[from], &maps[to]); });
    for (Real& value : maps) value = value <= 0 ? 0 : value;
    Reals out(maps.size() / 4);
    for (uint32_t e = 0; e < maps.size(); ++e) {
      if (e % 2 == 0 && e / c.side() % 2 == 0) {
        const Real* const at = &maps[e];
        out[c.pooled(e)] = Real(0.25) * ((at[0] + at[1]) + (at[c.side()] + at[c.side() + 1]));
      }
    }
    return out;
  }
  // error: of the means; then of the input.
  void go_back(const Convolution& c, const Real* x, const Reals& in, Reals maps, Reals& error, Real* g) const {
    for (uint32_t e = 0; e < maps.size(); ++e) {
      maps[e] = maps[e] > 0 ? Real(0.25) * error[c.pooled(e)] : 0;
      g[c.outputs * c.inputs * 25 + e / c.area()] += maps[e];
    }
    c.for_each_row([&](uint32_t w, uint32_t from, uint32_t to) { g[w] += dot(c.side(), &in[from], &maps[to]); });
    error.assign(in.size(), 0);
    c.for_each_row(
        [&](uint32_t w, uint32_t from, uint32_t to) { add_scaled(c.side(), x[w], &maps[to], &error[from]); });
  }
  // Of a sample of 10 classes; its gradient is added.
  Real evaluate(const Real* x, const Real* sample, Real* g) const {
    Reals values[6], maps[2];  // what the layers see, then the scores
    values[0].resize(32 * 32);
    for (uint32_t r = 0; r < 28; ++r) copy(28, sample + r * 28, &values[0][(r + 2) * 32 + 2]);
    size_t at[6] = {0, 156, 2572, 50692, 60856, 61706};
    for (int k = 0; k < 2; ++k) values[k + 1] = convolve(kConvolutions[k], x + at[k], values[k], maps[k]);
    const size_t widths[] = {400, 120, 84, 10};
    for (int k = 0; k < 3; ++k) {
      Reals& out = values[k + 3];
      const size_t bias = at[k + 2] + widths[k] * widths[k + 1];
      out.assign(x + bias, x + bias + widths[k + 1]);
      for (size_t r = 0; r < widths[k]; ++r) {
        if (values[k + 2][r] != 0) add_scaled(out.size(), values[k + 2][r], x + at[k + 2] + r * out.size(), out.data());
      }
      for (Real& value : out) value = k < 2 && value <= 0 ? 0 : value;
    }
    Reals error = values[5];
    const Real loss = softmax_loss(10, sample[kPixelCount], error.data()).value();
    error[static_cast<size_t>(sample[kPixelCount])] -= 1;
    for (int k = 2; k >= 0; --k) {
      const size_t outputs = widths[k + 1];
      Reals back(widths[k]);
      for (size_t r = 0; r < widths[k]; ++r) {
        const Real value = values[k + 2][r];
        const size_t row = at[k + 2] + r * outputs;
        if (value != 0) add_scaled(outputs, value, error.data(), g + row);
        back[r] = k == 0 || value > 0 ? dot(outputs, x + row, error.data()) : 0;
      }
      add_scaled(outputs, 1, error.data(), g + at[k + 2] + widths[k] * outputs);
      error = back;
    }
    for (int k = 1; k >= 0; --k) go_back(kConvolutions[k], x + at[k], values[k], maps[k], error, g + at[k]);
    return loss;
  }
};

TEST_F(Lenet, HasTheBitsOfPlainLoops) {
  const Plain plain;
  std::vector<Real> expected(61706);
  LossSum losses;
  for (uint32_t b = 0; b < 2; ++b) {
    losses.add(plain.evaluate(case_.x.data(), samples_.values.data() + b * (kPixelCount + 1), expected.data()));
  }
  scale(expected.size(), Real(0.5), expected.data());
  EXPECT_EQ(loss_at(case_, case_.x, case_.all()), static_cast<double>(losses.mean().value()));
  const std::vector<Real> found = gradient_at(case_, case_.all());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(Real)), 0);
}

TEST_F(Lenet, NoLayerHidesANumberThatIsNone) {
  TestArena memory;
  for (const size_t at : {0, 150, 156, 2556, 50572, 61705}) {  // of each convolution and of the rest
    std::vector<Real> x = case_.x;
    x[at] = std::numeric_limits<Real>::quiet_NaN();
    EXPECT_EQ(kLenetOps.loss(&data_, case_.shape, x.data(), case_.all(), memory.arena).status(), Status::kNotFinite);
  }
}

TEST_F(Lenet, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
  expect_names_bad_value(case_, samples_, 1, kPixelCount, -1, 9, "label");
  EXPECT_EQ(kLenetOps.check_shape(&data_, {61706, 1}), Status::kOk);
  EXPECT_EQ(kLenetOps.check_shape(&data_, {30853, 2}), Status::kOk) << "a shape that the wire can name";
  EXPECT_EQ(kLenetOps.check_shape(&data_, {61705, 1}), Status::kInvalidArgument);
  classes_ = 62;
  EXPECT_EQ(lenet_size(62), 61706U + 52 * 85);
  EXPECT_EQ(kLenetOps.check_shape(&data_, {lenet_size(62), 1}), Status::kOk);
  classes_ = 1;
  EXPECT_EQ(kLenetOps.check_shape(&data_, {61706, 1}), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
