#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/training/solver.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {16, 2};
constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-13 : 2e-6;

// ---- b_i as 002 defines it, in double and in long hand: nothing of the runtime but the samples and the two models
// ----

using Dense = std::vector<double>;  // 16 x 2, by rows

struct DenseSecant {
  double ss = 0, sy = 0, yy = 0;
};

double dense_dot(const Dense& a, const Dense& b) {
  double sum = 0;
  for (size_t e = 0; e < a.size(); ++e) {
    sum += a[e] * b[e];
  }
  return sum;
}

// A' B, 2 x 2.
std::array<double, 4> dense_products(const Dense& a, const Dense& b) {
  std::array<double, 4> m = {};
  for (size_t e = 0; e < a.size(); ++e) {
    for (size_t j = 0; j < 2; ++j) {
      m[e % 2 * 2 + j] += a[e] * b[e / 2 * 2 + j];
    }
  }
  return m;
}

// A + B S.
Dense dense_sum(const Dense& a, const Dense& b, const std::array<double, 4>& s) {
  Dense sum = a;
  for (size_t e = 0; e < a.size(); ++e) {
    sum[e] += b[e / 2 * 2] * s[e % 2] + b[e / 2 * 2 + 1] * s[2 + e % 2];
  }
  return sum;
}

// V - X sym(X'V).
Dense dense_tangent(const Dense& x, const Dense& v) {
  const std::array<double, 4> m = dense_products(x, v);
  const double cross = (m[1] + m[2]) / 2;
  return dense_sum(v, x, {-m[0], -cross, -cross, -m[3]});
}

// Of -|Z X|^2 / (2 n), z the rows of Z, n of them.
Dense dense_gradient(const std::vector<Real>& z, const Dense& x) {
  Dense g(x.size());
  const size_t rows = x.size() / 2, count = z.size() / rows;
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 2; ++c) {
      double product = 0;
      for (size_t r = 0; r < rows; ++r) {
        product += z[i * rows + r] * x[2 * r + c];
      }
      for (size_t r = 0; r < rows; ++r) {
        g[2 * r + c] -= z[i * rows + r] * product / static_cast<double>(count);
      }
    }
  }
  return dense_tangent(x, g);
}

// The inverse polar retraction Y S - X: S symmetric with M S + S M' = 2 I, M = X'Y, solved for its three entries.
Dense dense_lift(const Dense& x, const Dense& y) {
  const std::array<double, 4> m = dense_products(x, y);
  const double cross = -(m[1] / m[3] + m[2] / m[0]) / (m[0] + m[3] - m[1] * m[2] * (1 / m[3] + 1 / m[0]));
  const Dense minus = dense_sum(Dense(x.size()), x, {-1, 0, 0, -1});
  return dense_sum(minus, y, {(1 - m[1] * cross) / m[0], cross, cross, (1 - m[2] * cross) / m[3]});
}

DenseSecant dense_secant(const std::vector<Real>& z, const std::vector<Real>& previous,
                         const std::vector<Real>& model) {
  const Dense before(previous.begin(), previous.end()), x(model.begin(), model.end());
  const Dense s = dense_tangent(x, dense_lift(before, x));
  const Dense carried = dense_tangent(x, dense_gradient(z, before));
  const Dense y = dense_sum(dense_gradient(z, x), carried, {-1, 0, 0, -1});
  return {dense_dot(s, s), dense_dot(s, y), dense_dot(y, y)};
}

struct SvrgTest : testing::Test {
  SvrgTest()
      : samples(40, 16, random_values(40 * 16, 1)),
        problems{{&kKpcaOps, &samples.source}},
        registry(registry_of(problems)),
        task(stiefel_task(kShape)),
        model(random_point(kStiefelOps, kShape, 2)),
        mean_gradient(random_values(kShape.size(), 3)),
        previous_model(kShape.size()) {
    task.solver = SolverId::kSvrg;
    task.estimator.id = EstimatorId::kAnalyticGradient;
    task.estimator.batch_mode = BatchMode::kAll;
    task.steps_min = 5;
    task.curvature_form = BarzilaiBorwein::kFirst;
    std::vector<Real> v = random_values(kShape.size(), 4);
    scale(v.size(), static_cast<Real>(0.02), v.data());
    tangent(mean_gradient);
    tangent(v);
    EXPECT_EQ(kStiefelOps.retract(kShape, model.data(), v.data(), previous_model.data(), memory.arena), Status::kOk);
  }
  void tangent(std::vector<Real>& v) {
    EXPECT_EQ(kStiefelOps.project_tangent(kShape, model.data(), v.data(), v.data(), memory.arena), Status::kOk);
  }
  Status begin() {
    return begin_solver(registry, task, model.data(), nullptr, &run, memory.arena,
                        {mean_gradient.data(), previous_model.data()});
  }
  std::vector<Real> zeta_after(uint32_t steps) {
    EXPECT_EQ(begin(), Status::kOk);
    for (uint32_t k = 0; k < steps; ++k) {
      EXPECT_EQ(run.ops->step(run, memory.arena), Status::kOk);
    }
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    EXPECT_EQ(stream.steps_done, steps);
    return {stream.values, stream.values + stream.value_count};
  }
  std::vector<Real> gradient(const std::vector<Real>& x) {
    TestArena scratch;
    std::vector<Real> g(x.size());
    EXPECT_EQ(run.estimator->estimate(estimate_input(run, x.data()), nullptr, g.data(), nullptr, scratch.arena),
              Status::kOk);
    return g;
  }
  // A4 to A6 as printed, with the coefficient b - b_i given, lifted after each of the steps.
  std::vector<std::vector<Real>> reference(Real coefficient) {
    TestArena scratch;
    const std::vector<Real> own = gradient(model);
    std::vector<Real> x = model;
    std::vector<std::vector<Real>> lifts;
    for (uint32_t k = 0; k < task.local_step_count; ++k) {
      std::vector<Real> c(x.size());
      EXPECT_EQ(kStiefelOps.inverse_retract(kShape, model.data(), x.data(), c.data(), scratch.arena), Status::kOk);
      scale(c.size(), coefficient, c.data());
      add_scaled(c.size(), 1, mean_gradient.data(), c.data());
      add_scaled(c.size(), -1, own.data(), c.data());
      EXPECT_EQ(kStiefelOps.transport(kShape, model.data(), x.data(), c.data(), c.data(), scratch.arena), Status::kOk);
      std::vector<Real> v = gradient(x);
      add_scaled(v.size(), 1, c.data(), v.data());
      scale(v.size(), -task.step_size, v.data());
      EXPECT_EQ(kStiefelOps.retract(kShape, x.data(), v.data(), x.data(), scratch.arena), Status::kOk);
      EXPECT_EQ(kStiefelOps.inverse_retract(kShape, model.data(), x.data(), lifts.emplace_back(x.size()).data(),
                                            scratch.arena),
                Status::kOk);
    }
    return lifts;
  }
  void expect_near(const std::vector<Real>& a, const std::vector<Real>& b) {
    for (size_t e = 0; e < a.size(); ++e) {
      EXPECT_NEAR(a[e], b[e], kTolerance);
    }
  }
  TestSamples samples;
  Problem problems[1];
  Registry registry;
  Task task;
  std::vector<Real> model;
  std::vector<Real> mean_gradient;
  std::vector<Real> previous_model;
  SolverRun run;
  TestArena memory;
};

TEST_F(SvrgTest, WithoutCurvatureIsRFedSVRG) {
  const std::vector<Real> zeta = zeta_after(5);
  expect_near(zeta, reference(0)[4]);
  task.steps_min = 2;
  expect_near(zeta_after(2), reference(0)[1]);
}

TEST_F(SvrgTest, WithCurvatureIsTheBarzilaiBorweinCorrection) {
  ASSERT_EQ(begin(), Status::kOk);
  // The loss curves up along some directions and down along others; a coefficient b_i needs one of the first. Models
  // far enough apart for a float's difference of gradients to have its digits.
  DenseSecant own;
  for (uint32_t seed = 4; seed < 40 && own.sy <= 0; ++seed) {
    std::vector<Real> v = random_values(kShape.size(), seed);
    scale(v.size(), static_cast<Real>(0.1), v.data());
    tangent(v);
    ASSERT_EQ(kStiefelOps.retract(kShape, model.data(), v.data(), previous_model.data(), memory.arena), Status::kOk);
    own = dense_secant(samples.values, previous_model, model);
  }
  ASSERT_GT(own.sy, 0) << "nothing would be left of the correction";
  const double first = own.sy / own.ss, second = own.yy / own.sy;
  ASSERT_GT(second, 1.1 * first) << "the forms could not be told apart";
  for (const auto& [form, b_i] : {std::pair{BarzilaiBorwein::kFirst, first}, {BarzilaiBorwein::kSecond, second}}) {
    task.curvature_form = form;
    task.curvature = 2;
    task.local_step_count = 5;
    task.steps_min = 5;
    expect_near(zeta_after(5), reference(static_cast<Real>(2 - b_i))[4]);
    task.local_step_count = 1;  // L_X(X) = 0: one step is RFedSVRG's
    task.steps_min = 1;
    const std::vector<Real> one = zeta_after(1);
    task.curvature = 0;
    EXPECT_EQ(one, zeta_after(1));
  }
}

// b means nothing without a b_i of the device's own: <s, y> <= 0, or both models the same.
TEST_F(SvrgTest, WithoutCurvatureOfItsOwnIsRFedSVRG) {
  DenseSecant own;
  for (uint32_t seed = 4; seed < 40 && own.sy >= 0; ++seed) {
    std::vector<Real> v = random_values(kShape.size(), seed);
    scale(v.size(), static_cast<Real>(0.1), v.data());
    tangent(v);
    ASSERT_EQ(kStiefelOps.retract(kShape, model.data(), v.data(), previous_model.data(), memory.arena), Status::kOk);
    own = dense_secant(samples.values, previous_model, model);
  }
  ASSERT_LT(own.sy, 0) << "no direction of negative curvature was found";
  for (const BarzilaiBorwein form : {BarzilaiBorwein::kFirst, BarzilaiBorwein::kSecond}) {
    task.curvature_form = form;
    task.curvature = 2;
    const std::vector<Real> downwards = zeta_after(5);
    const std::vector<Real> other_model = std::exchange(previous_model, model);
    const std::vector<Real> same = zeta_after(5);
    previous_model = other_model;
    task.curvature = 0;
    EXPECT_EQ(downwards, zeta_after(5));
    EXPECT_EQ(same, zeta_after(5));
  }
}

// Option 2: x_l with l from 0 .. K - 1, the start included and the end never.
TEST_F(SvrgTest, DrawsItsIterateFromAllButTheLast) {
  ASSERT_EQ(begin(), Status::kOk);
  const std::vector<std::vector<Real>> lifts = reference(0);
  task.draws_iterate = true;
  std::set<size_t> drawn;
  for (task.client_index = 0; task.client_index < 30; ++task.client_index) {
    const std::vector<Real> zeta = zeta_after(5);
    size_t l = 0;
    if (norm2(zeta.size(), zeta.data()) > 0) {
      const auto is_it = [&](const std::vector<Real>& lift) {
        std::vector<Real> difference = lift;
        add_scaled(zeta.size(), -1, zeta.data(), difference.data());
        return norm2(zeta.size(), difference.data()) < 10 * kTolerance;
      };
      l = 1 + static_cast<size_t>(std::find_if(lifts.begin(), lifts.end(), is_it) - lifts.begin());
    }
    drawn.insert(l);
  }
  EXPECT_EQ(drawn, (std::set<size_t>{0, 1, 2, 3, 4}));
}

TEST_F(SvrgTest, RefusesWhatThePublishedWorkDoesNotHave) {
  ASSERT_EQ(begin(), Status::kOk);
  task.estimator.batch_mode = BatchMode::kCommon;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.estimator.batch_mode = BatchMode::kAll;
  task.proximal = 1;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.proximal = 0;
  task.draws_iterate = true;
  task.steps_min = 1;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
  task.draws_iterate = false;
  EXPECT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, memory.arena), Status::kInvalidArgument);
  task.curvature = 1;
  EXPECT_EQ(begin_solver(registry, task, model.data(), nullptr, &run, memory.arena, {mean_gradient.data(), nullptr}),
            Status::kInvalidArgument);
  task.estimator.id = EstimatorId::kProjectionOneSided;
  EXPECT_EQ(begin(), Status::kInvalidArgument);
}

TEST_F(SvrgTest, AFailedStepIsAsIfItHadNotBegun) {
  task.steps_min = 2;
  const std::vector<Real> before = zeta_after(2);
  samples.read_status = Status::kClosed;
  EXPECT_EQ(run.ops->step(run, memory.arena), Status::kClosed);
  samples.read_status = Status::kOk;
  ASSERT_EQ(run.ops->step(run, memory.arena), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  expect_near({stream.values, stream.values + stream.value_count}, reference(0)[2]);
}

#if !defined(GS_REAL_DOUBLE)
// RAM of Stiefel 64 x 4, K = 5, 200 samples: numbers that may fall, and grow only on purpose. The mean gradient, and
// with a curvature the model before, are the replica's: two tensors more.
TEST_F(SvrgTest, MemoryIsPinned) {
  const TestSamples many(200, 64, random_values(200 * 64, 1));
  const Problem own[] = {{&kKpcaOps, &many.source}};
  task.shape = {64, 4};
  task.curvature = 1;
  model = random_point(kStiefelOps, task.shape, 2);
  TestArena fresh;
  const ModelParts parts{model.data(), model.data()};
  ASSERT_EQ(begin_solver(registry_of(own), task, model.data(), nullptr, &run, fresh.arena, parts), Status::kOk);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(run.ops->step(run, fresh.arena), Status::kOk);
  }
  const size_t persistent = run.ops->persistent_size(run);
  const size_t scratch = run.ops->scratch_size(run);
  const size_t state_size = sizeof(void*) == 8 ? 48 : 32;
  std::printf("svrg, St(64,4): %zu bytes persistent, %zu scratch, %zu replica\n", persistent, scratch,
              Replica::persistent_size(task.shape, false, kExtraPartBits));
  EXPECT_EQ(persistent, state_size + 3 * 1024) << "three tensors";
  EXPECT_EQ(scratch, 2 * 1024 + 2 * 1024 + kStiefelOps.scratch_size(task.shape)) << "two tensors, and the secant's two";
  EXPECT_EQ(fresh.arena.mark(), persistent);
  EXPECT_LE(fresh.arena.high_water_size(), persistent + scratch);
  EXPECT_EQ(Replica::persistent_size(task.shape, false, kExtraPartBits), 4 * 1024U);
}
#endif

}  // namespace
}  // namespace gradstream
