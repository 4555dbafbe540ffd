// The figures are NumPy's, in double.
#include "runtime/training/curve.h"

#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

constexpr Real kRounding = sizeof(Real) == sizeof(double) ? static_cast<Real>(1e-14) : static_cast<Real>(3e-7);
using Values = std::vector<Real>;

Values reals(std::initializer_list<double> values) {
  Values out;
  for (const double value : values) out.push_back(static_cast<Real>(value));
  return out;
}

void expect_near(const Values& found, const Values& expected, Real tolerance = kRounding) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t e = 0; e < found.size(); ++e) EXPECT_NEAR(found[e], expected[e], tolerance) << e;
}

const Values kFrom =
    reals({0.04792801410346556, -0.54895344041187899, 0.34169452846337972, 0.33242159167483065, 0.64156281971602114});
const Values kControl =
    reals({0.53823092704686015, -0.47889845657746266, 0.69697030895970635, -0.91633722799954964, 1.4910843014145643});
const Values kTo =
    reals({0.098509798016290132, 0.93754856152512889, 1.4242188169520835, 0.062213198605652116, -0.7986189300530997});

TEST(Curve, PointHasTheWeightsThatAddUpToOne) {
  Values out(5);
  curve_point(5, static_cast<Real>(0.3), kFrom.data(), kControl.data(), kTo.data(), out.data());
  expect_near(out, reals({0.25840759809184549, -0.38574516702709344, 0.58833754223582013, -0.21637586796463518,
                          0.8687454845501883}));
  Values ends = kFrom;
  curve_point(5, 0, ends.data(), kControl.data(), kTo.data(), ends.data());
  EXPECT_EQ(ends, kFrom);
  curve_point(5, 1, kFrom.data(), kControl.data(), kTo.data(), ends.data());
  EXPECT_EQ(ends, kTo);
}

TEST(Curve, WithItsControlPointInTheMiddleItIsTheLine) {
  Values middle(5);
  for (size_t e = 0; e < 5; ++e) middle[e] = (kFrom[e] + kTo[e]) / 2;
  for (const double l : {0.1, 0.5, 0.9}) {
    Values out(5);
    Values line(5);
    curve_point(5, static_cast<Real>(l), kFrom.data(), middle.data(), kTo.data(), out.data());
    for (size_t e = 0; e < 5; ++e) line[e] = static_cast<Real>((1 - l) * kFrom[e] + l * kTo[e]);
    expect_near(out, line);
  }
}

TEST(Curve, TakeOutLeavesTheMiddlePlusWhatIsOrthogonal) {
  Values along(5);
  for (size_t e = 0; e < 5; ++e) along[e] = kFrom[e] - kTo[e];
  Values v =
      reals({-0.91782056052582017, 1.0356002095330024, 0.93058930597690248, 1.7690606588061049, -0.57770458442370631});
  Values phi = v;
  take_out(5, static_cast<Real>(0.9), along.data(), phi.data());
  for (size_t e = 0; e < 5; ++e) phi[e] += (kFrom[e] + kTo[e]) / 2;
  expect_near(
      phi,
      reals({-0.86809386124490928, 0.53950669042668531, 1.3107783326826716, 2.0918736563619049, 0.012645459353027633}),
      5 * kRounding);
  Values whole = v;
  take_out(5, 1, along.data(), whole.data());
  EXPECT_NEAR(dot(5, whole.data(), along.data()), 0, 20 * kRounding);
  const Values zero(5);
  Values kept = v;
  take_out(5, 1, zero.data(), kept.data());
  EXPECT_EQ(kept, v);
}

TEST(Curve, AdamStepsAsNumPysFourStepsDo) {
  Values first(3);
  Values second(3);
  Adam adam;
  adam.first = first.data();
  adam.second = second.data();
  Values x = reals({1, -2, 0.5});
  const Values gradients[] = {reals({0.3, -1, 0}), reals({0.1, 2, 1e-3}), reals({-0.5, 0.2, 1e-3}),
                              reals({0.2, 0.1, 5})};
  for (int run = 0; run < 2; ++run) {
    adam.restart(3);
    x = reals({1, -2, 0.5});
    for (const Values& gradient : gradients) {
      adam.step(3, static_cast<Real>(0.01), gradient.data(), x.data());
    }
    expect_near(x, reals({0.9826302995887926, -2.0000807040706543, 0.4781609457024042}), 4 * kRounding);
  }
}

}  // namespace
}  // namespace gradstream
