#include "server/rules/curve_step.h"

#include <cmath>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/training/curve.h"
#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using Values = std::vector<Real>;

void expect_near(const Values& found, const Values& expected, double tolerance = 1e-6) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t e = 0; e < found.size(); ++e) EXPECT_NEAR(found[e], expected[e], tolerance) << e;
}

Values minus(const Values& a, const Values& b) {
  Values out = a;
  for (size_t e = 0; e < out.size(); ++e) out[e] -= b[e];
  return out;
}

// Equation (17) in double, by NumPy.
TEST(CurveStep, PlacesTheControlPointAsTheReferenceDoes) {
  const Values base = {0.04792801410346556F, -0.54895344041187899F, 0.34169452846337972F, 0.33242159167483065F,
                       0.64156281971602114F};
  const Values result = {0.098509798016290132F, 0.93754856152512889F, 1.4242188169520835F, 0.062213198605652116F,
                         -0.7986189300530997F};
  const Values current = {-0.66246125409675749F, -1.1848580865491065F, -0.55905628489388159F, 0.47249651285094862F,
                          0.028559209892319751F};
  const Values that = {-0.98500921658905705F, -0.03236301570237532F, 0.050351449605052112F, 0.27586203503611972F,
                       -1.7336007731043841F};
  const Values phi = {0.53823092704686015F, -0.47889845657746266F, 0.69697030895970635F, -0.91633722799954964F,
                      1.4910843014145643F};
  const Values expected = {-0.15876922100294888F, -0.92274128452908666F, -0.059558998783762251F, -0.8114179140086899F,
                           0.70423432701557365F};
  Values placed;
  const Values displacement = minus(result, base);
  const Values control = minus(phi, base);
  const auto place = [&](CurveControl how) {
    EXPECT_TRUE(place_control(how, {base, displacement, control, current, that}, &placed));
    return placed;
  };
  expect_near(place(CurveControl::kRotate), expected);
  expect_near(place(CurveControl::kNone), phi);
  expect_near(place(CurveControl::kTranslate), minus(phi, minus(base, current)));
}

// A curve without a delay, whose end is not corrected, is as the device had it.
TEST(CurveStep, WithoutADelayEveryCorrectionLeavesTheControlPoint) {
  const Values base = draw_values(6, 1, 1);
  const Values displacement = draw_values(6, 2, 1);
  const Values control = draw_values(6, 3, 1);
  Values end = base;
  Values phi = base;
  add_scaled(6, 1, displacement.data(), end.data());
  add_scaled(6, 1, control.data(), phi.data());
  for (const auto& [name, how] : names_of<CurveControl>()) {
    Values placed;
    EXPECT_TRUE(place_control(how, {base, displacement, control, base, end}, &placed)) << name;
    expect_near(placed, phi);
  }
}

TEST(CurveStep, RotationKeepsLengthsTakesAToBAndLeavesTheRest) {
  const Values a = {3, 0, 0, 0};
  const Values b = {0.5F, 0.5F, 0, 0};
  Values v = a;
  EXPECT_TRUE(rotate(a, b, &v));
  expect_near(v, {3 / std::sqrt(2.0F), 3 / std::sqrt(2.0F), 0, 0});
  v = {0, 0, 2, -1};
  EXPECT_TRUE(rotate(a, b, &v));
  expect_near(v, {0, 0, 2, -1});
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Values from = draw_values(6, 3 * seed, 1);
    const Values to = draw_values(6, 3 * seed + 1, 1);
    const Values start = draw_values(6, 3 * seed + 2, 1);
    v = start;
    EXPECT_TRUE(rotate(from, to, &v));
    EXPECT_NEAR(norm2(6, v.data()), norm2(6, start.data()), 1e-5);
    EXPECT_TRUE(rotate(to, from, &v));
    expect_near(v, start, 2e-5);  // and back
  }
}

TEST(CurveStep, WithoutTwoDirectionsNothingTurns) {
  const Values start = {1, 2, 3};
  for (const auto& [a, b] : {std::pair(Values{0, 0, 0}, Values{1, 0, 0}), std::pair(Values{1, 0, 0}, Values{0, 0, 0}),
                             std::pair(Values{1, 0, 0}, Values{2, 0, 0})}) {
    Values v = start;
    EXPECT_TRUE(rotate(a, b, &v));
    EXPECT_EQ(v, start);
  }
  Values v = start;
  EXPECT_FALSE(rotate({2, 0, 0}, {-1, 0, 0}, &v));
  EXPECT_EQ(v, (Values{-1, 2, 3}));
}

constexpr size_t kSize = 4;

RunParameters curve_parameters() {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {kSize, 1};
  p.model->problem = "kpca";
  p.fold->fold_weight = FoldWeight::kUniform;
  p.local->solver = SolverId::kCurve;
  p.local->batch_mode = BatchMode::kCommon;
  p.trigger->buffer_size = 1;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_table = StalenessTable::kConstant;
  p.trigger->staleness_max = 8;
  p.delay->delay_rule = DelayRule::kOrthoGrad;
  p.delay->late_delay_rule = DelayRule::kOrthoPos;
  p.delay->delay_switch = 2;
  p.steps->server_step = 0.4F;
  return p;
}

// What a server makes of an update, in double, by (A13) as it stands in the books.
std::vector<double> stepped(const std::vector<double>& base, const std::vector<double>& current, const Values& values,
                            bool is_late_phase, double alpha, CurveControl how) {
  std::vector<double> that(kSize);
  double along = 0;
  double square = 0;
  for (size_t e = 0; e < kSize; ++e) {
    const double b = base[e] - current[e];
    along += -static_cast<double>(values[e]) * b;
    square += b * b;
  }
  for (size_t e = 0; e < kSize; ++e) {
    const double b = base[e] - current[e];
    double d = -static_cast<double>(values[e]);
    if (square > 0 && along <= 0) {
      d -= along / square * b;
    } else if (is_late_phase) {
      d -= b;
    }
    that[e] = current[e] - d;
  }
  // R by a basis of the plane: u = a / |a|, w what is left of b.
  std::vector<double> u(kSize), w(kSize), bend(kSize);
  double a_square = 0, b_square = 0, ab = 0;
  for (size_t e = 0; e < kSize; ++e) {
    const double a = values[e];
    const double b = that[e] - current[e];
    a_square += a * a;
    b_square += b * b;
    ab += a * b;
  }
  const double cosine = ab / std::sqrt(a_square * b_square);
  const double sine = std::sqrt(std::max(0.0, 1 - cosine * cosine));
  double bend_u = 0, bend_w = 0;
  for (size_t e = 0; e < kSize; ++e) {
    u[e] = values[e] / std::sqrt(a_square);
    w[e] = sine < 1e-9 ? 0 : ((that[e] - current[e]) / std::sqrt(b_square) - cosine * u[e]) / sine;
    bend[e] = static_cast<double>(values[kSize + e]) - static_cast<double>(values[e]) / 2;
    bend_u += bend[e] * u[e];
    bend_w += bend[e] * w[e];
  }
  std::vector<double> next(kSize);
  for (size_t e = 0; e < kSize; ++e) {
    bend[e] += (bend_u * (cosine - 1) - bend_w * sine) * u[e] + (bend_u * sine + bend_w * (cosine - 1)) * w[e];
    const double from = how == CurveControl::kNone ? base[e] : current[e];
    const double phi = how == CurveControl::kRotate ? (current[e] + that[e]) / 2 + bend[e]
                                                    : from + static_cast<double>(values[kSize + e]);
    next[e] = (1 - alpha) * (1 - alpha) * current[e] + 2 * alpha * (1 - alpha) * phi + alpha * alpha * that[e];
  }
  return next;
}

// Through the coordinator, late updates and the switch of rules included; and a server that comes back after each
// record is the one that went on.
class CurveServer : public testing::TestWithParam<CurveControl> {};

TEST_P(CurveServer, GoesAlongTheCurvesThatItGets) {
  RunParameters p = curve_parameters();
  p.delay.keys().curve_control = GetParam();
  ASSERT_EQ(check_parameters(p).sentence, "");
  ASSERT_EQ(p.value_count(), 2 * kSize);
  TestServer server(p);
  TestServer stormy(p);
  for (TestServer* one : {&server, &stormy}) {
    one->start();
    one->join(p.trigger->device_count);
  }
  const auto model = [&] {
    const Real* x = server.coordinator->model().model();
    return std::vector<double>(x, x + kSize);
  };
  std::vector<std::vector<double>> models = {model()};
  for (const uint32_t device : {0U, 1U, 2U, 0U, 3U, 1U, 2U}) {
    const TestUpload upload = server.good_upload(device);
    const bool is_late_phase = models.size() - 1 >= p.delay->delay_switch;
    const std::vector<double> expected =
        stepped(models[upload.base_version], models.back(), upload.values, is_late_phase, 0.4, GetParam());
    server.upload(device, upload);
    server.pull(device);
    models.push_back(model());
    for (size_t e = 0; e < kSize; ++e) {
      EXPECT_NEAR(models.back()[e], expected[e], 3e-6) << models.size() << ' ' << e;
    }
    stormy.hello(device);
    stormy.upload(device, upload);
    stormy.pull(device);
    const std::string state = stormy.coordinator->state_text();
    stormy.restart();
    EXPECT_EQ(stormy.coordinator->state_text(), state);
    EXPECT_EQ(stormy.coordinator->model().digest(), server.coordinator->model().digest());
  }
  EXPECT_EQ(server.coordinator->durable_version(), 7U);
}

INSTANTIATE_TEST_SUITE_P(Controls, CurveServer,
                         testing::Values(CurveControl::kNone, CurveControl::kTranslate, CurveControl::kRotate));

// 1 / (N p_i) may exceed 1: then the step ends at the corrected end point.
TEST(CurveStep, AStepNeverGoesBeyondTheCurvesEnd) {
  RunParameters p = curve_parameters();
  p.steps->server_step = 1;
  p.delay->dominance_penalty = true;
  p.trigger->device_count = 1;
  TestServer server(p);
  server.start();
  server.join(1);
  const Real* x = server.coordinator->model().model();
  const Values before(x, x + kSize);
  const TestUpload upload = server.good_upload(0);
  server.upload(0, upload);
  x = server.coordinator->model().model();
  for (size_t e = 0; e < kSize; ++e) {
    EXPECT_NEAR(x[e], before[e] + upload.values[e], 1e-6);
  }
}

// A device that went back along the way that the server has gone: OrthoDyn's late rule takes it to its own end point.
TEST(CurveStep, DisplacementsAgainstEachOtherAreCounted) {
  RunParameters p = curve_parameters();
  p.delay->delay_rule = DelayRule::kFedAsync;
  p.delay->late_delay_rule = DelayRule::kNone;
  p.delay->delay_switch = 0;
  p.steps->server_step = 1;
  TestServer server(p);
  server.start();
  server.join(2);
  TestUpload first = server.good_upload(0);
  first.values = {0.5F, 0, 0, 0, 0.25F, 0, 0, 0};
  server.upload(0, first);
  EXPECT_EQ(server.coordinator->counters().curves_antiparallel, 0U);
  TestUpload second = server.good_upload(1);  // of version 0, a quarter of the way to where the model is now
  second.values = {0.125F, 0, 0, 0, 0.0625F, 0, 0, 0};
  server.upload(1, second);
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_LATE);
  EXPECT_EQ(server.coordinator->counters().curves_antiparallel, 1U);
  EXPECT_TRUE(server.has_log("step_adjusted version=2 still=0 clamped=0 antiparallel=1"));
  EXPECT_TRUE(all_finite(kSize, server.coordinator->model().model()));
}

TEST(CurveStep, AnUploadWithoutItsControlPointIsRefused) {
  TestServer server(curve_parameters());
  server.start();
  server.join(4);
  TestUpload upload = server.good_upload(0);
  upload.values.resize(kSize);
  server.upload(0, upload);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
}

}  // namespace
}  // namespace gradstream
