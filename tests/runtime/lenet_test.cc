// The figures are NumPy's, in double: the loss, and central differences of it.
#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/problem/perceptron.h"
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
