#include "runtime/problem/proximal_loss.h"

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/manifold/fixed_rank.h"
#include "tests/support/problem_checker.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// A problem that is 0, so that the term stands alone.
struct Nothing {
  static constexpr const char* kName = "nothing";
  uint32_t sample_count() const { return 1; }
  Status check_shape(Shape) const { return Status::kOk; }
  Result<Real> loss(Shape, const Real*, Batch) const { return Real{0}; }
  Status gradient(Shape shape, const Real*, Batch, Real* out) const {
    fill_zero(shape.size(), out);
    return Status::kOk;
  }
};
const Nothing kNothing;
constexpr ProblemOps kNothingOps = make_problem_ops<Nothing>();

constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-13 : 2e-6;
const Batch kOne = {nullptr, 1};

// Figures of an independent implementation (docs/algorithms.md).
TEST(ProximalLoss, LorentzHasTheReferencesFigures) {
  const std::vector<Real> x = {Real(-2.358589946291955), Real(-0.6436365579683972), Real(-0.21417930630989845),
                               Real(0.022564785890706637)};
  const std::vector<Real> centre = {Real(0.8741712685605704), Real(-0.6106289880511533), Real(-0.0047315465343917736),
                                    Real(0.11440844382148524)};
  const double wanted[] = {-10.324376253147369, 1.205808003137207, -0.5390275190720274, -0.48289043713965796};
  const ProximalLoss term = {{&kNothingOps, &kNothing}, centre.data(), ProximalForm::kLorentz, Real(0.1), 2};
  TestArena memory;
  const Result<Real> value = kProximalLossOps.loss(&term, {4, 1}, x.data(), kOne, memory.arena);
  ASSERT_EQ(value.status(), Status::kOk);
  EXPECT_NEAR(static_cast<double>(value.value()), 4.73777292305838, 10 * kTolerance);
  std::vector<Real> g(4);
  ASSERT_EQ(kProximalLossOps.gradient(&term, {4, 1}, x.data(), kOne, g.data(), memory.arena), Status::kOk);
  for (size_t e = 0; e < g.size(); ++e) {
    EXPECT_NEAR(static_cast<double>(g[e]), wanted[e], 20 * kTolerance);
  }
}

// Far out, two points that are near each other: the form that cancels gives 0.0156.
TEST(ProximalLoss, LorentzDoesNotCancelFarOut) {
  const std::vector<Real> x = {Real(262.22779466870816), Real(-183.19513278092566), Real(-1.421605753380631),
                               Real(34.32275879430448)};
  const std::vector<Real> centre = {Real(262.2513805681711), Real(-183.188696415346), Real(-1.419463960317532),
                                    Real(34.32253314644557)};
  const ProximalLoss term = {{&kNothingOps, &kNothing}, centre.data(), ProximalForm::kLorentz, 2, Real(1e-3)};
  TestArena memory;
  const Result<Real> value = kProximalLossOps.loss(&term, {4, 1}, x.data(), kOne, memory.arena);
  ASSERT_EQ(value.status(), Status::kOk);
  EXPECT_NEAR(1e-3 * std::log(static_cast<double>(value.value())), 3.612928210514685e-4, 2e-6);
}

TEST(ProximalLoss, TheExponentIsBounded) {
  const Real x[] = {100};
  const Real centre[] = {-100};
  const ProximalLoss term = {{&kNothingOps, &kNothing}, centre, ProximalForm::kLorentz, 2, Real(1e-3)};
  TestArena memory;
  const Result<Real> value = kProximalLossOps.loss(&term, {1, 1}, x, kOne, memory.arena);
  ASSERT_EQ(value.status(), Status::kOk);
  EXPECT_EQ(value.value(), std::exp(kProximalExponentMax));
}

class ProximalLossOfKpca : public ::testing::TestWithParam<ProximalForm> {
 protected:
  TestSamples samples_{5, 4, random_values(20, 1)};
  std::vector<Real> centre_ = random_values(8, 3);
  ProximalLoss term_{{&kKpcaOps, &samples_.source}, centre_.data(), GetParam(), Real(0.5), 2};
  ProblemCase case_{{&kProximalLossOps, &term_}, {4, 2}, random_values(8, 1, 9)};
};

TEST_P(ProximalLossOfKpca, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {4, 0, 2};
  for (const Batch batch : {case_.all(), Batch{indices, 3}, Batch{indices, 1}}) {
    expect_gradient_is_derivative(case_, batch);
  }
}

TEST_P(ProximalLossOfKpca, KeepsToItsMemoryAndItsStatuses) {
  expect_declared_memory(case_);
  expect_refuses_bad_samples(case_, samples_);
}

TEST_P(ProximalLossOfKpca, RefusesBadTerms) {
  EXPECT_EQ(kProximalLossOps.check_shape(&term_, {4, 2}), Status::kOk);
  EXPECT_EQ(kProximalLossOps.check_shape(&term_, {5, 2}), Status::kInvalidArgument);
  term_.mu = -1;
  EXPECT_EQ(kProximalLossOps.check_shape(&term_, {4, 2}), Status::kInvalidArgument);
  term_.mu = 1;
  term_.sigma = 0;
  EXPECT_EQ(kProximalLossOps.check_shape(&term_, {4, 2}), Status::kInvalidArgument);
  ProblemOps without = kKpcaOps;
  without.gradient = nullptr;
  term_.inner.ops = &without;
  std::vector<Real> g(8);
  TestArena memory;
  EXPECT_EQ(kProximalLossOps.gradient(&term_, {4, 2}, centre_.data(), kOne, g.data(), memory.arena),
            Status::kUnimplemented);
}

// At the centre the term is its least, whichever it is.
TEST_P(ProximalLossOfKpca, AtTheCentreItPullsNowhere) {
  TestArena memory;
  std::vector<Real> g(8), inner(8);
  ASSERT_EQ(kProximalLossOps.gradient(&term_, {4, 2}, centre_.data(), case_.all(), g.data(), memory.arena),
            Status::kOk);
  ASSERT_EQ(kKpcaOps.gradient(&samples_.source, {4, 2}, centre_.data(), case_.all(), inner.data(), memory.arena),
            Status::kOk);
  EXPECT_EQ(g, inner);
}

// mu/2 d(x, c)^2 on every manifold that has the gradient of its distance.
struct DistanceCase {
  const char* name;
  const ManifoldOps* manifold;
  Shape shape;
  bool has_gradient = true;
};
const Parts kFixedRankParts = fixed_rank_parts(5, 4, 2);
const Parts kProductParts = {3, {{&kGrassmannOps, {5, 2}}, {&kSpdOps, {3, 3}}, {&kHyperbolicOps, {4, 1}}}};
const Parts kStiefelParts = {2, {{&kSphereOps, {4, 1}}, {&kStiefelOps, {5, 2}}}};

class ProximalDistance : public ::testing::TestWithParam<DistanceCase> {
 protected:
  std::vector<Real> point(uint32_t seed) const {
    TestArena memory;
    std::vector<Real> out(shape_.size());
    EXPECT_EQ(manifold_.random_point(shape_, {.seed = seed}, out.data(), memory.arena), Status::kOk);
    return out;
  }
  std::vector<Real> step_from(const std::vector<Real>& x, Real length, const std::vector<Real>& v) const {
    TestArena memory;
    std::vector<Real> out(v);
    scale(out.size(), length, out.data());
    EXPECT_EQ(manifold_.retract(shape_, x.data(), out.data(), out.data(), memory.arena), Status::kOk);
    return out;
  }
  std::vector<Real> tangent(const std::vector<Real>& x, uint32_t seed) const {
    TestArena memory;
    std::vector<Real> v(shape_.size());
    EXPECT_EQ(random_tangent(manifold_, shape_, x.data(), {.seed = seed}, v.data(), memory.arena), Status::kOk);
    scale(v.size(), 1 / std::sqrt(manifold_.inner(shape_, x.data(), v.data(), v.data(), memory.arena).value()),
          v.data());
    return v;
  }

  const ManifoldOps& manifold_ = *GetParam().manifold;
  const Shape shape_ = GetParam().shape;
  const std::vector<Real> centre_ = point(1);
  ProximalLoss term_{
      {&kNothingOps, &kNothing}, centre_.data(), ProximalForm::kDistance, Real(0.75), 1, &manifold_, true};
};

// Against differences of the loss along tangents; nothing at the centre; in the memory that it declares.
TEST_P(ProximalDistance, PullsAlongTheManifoldToItsCentre) {
  ASSERT_EQ(kProximalLossOps.check_shape(&term_, shape_),
            GetParam().has_gradient ? Status::kOk : Status::kUnimplemented)
      << "refused before a step is made";
  TestArena memory(kProximalLossOps.scratch_size(&term_, shape_));
  const auto loss_at = [&](const std::vector<Real>& x) {
    const Result<Real> value = kProximalLossOps.loss(&term_, shape_, x.data(), kOne, memory.arena);
    EXPECT_EQ(value.status(), Status::kOk);
    return value.ok() ? value.value() : std::numeric_limits<Real>::quiet_NaN();
  };
  const auto gradient = [&](const std::vector<Real>& x, std::vector<Real>* g) {
    return kProximalLossOps.gradient(&term_, shape_, x.data(), kOne, g->data(), memory.arena);
  };
  const std::vector<Real> x = step_from(centre_, Real(0.6), tangent(centre_, 2));
  std::vector<Real> g(shape_.size());
  EXPECT_NEAR(loss_at(x), Real(0.75) / 2 * Real(0.36), Real(0.75) / 2 * Real(0.2)) << "for lack of gradients too";
  if (!GetParam().has_gradient) {
    term_.needs_gradient = false;
    EXPECT_EQ(kProximalLossOps.check_shape(&term_, shape_), Status::kOk) << "forward passes alone";
    EXPECT_EQ(gradient(x, &g), Status::kUnimplemented);
    return;
  }
  ASSERT_EQ(gradient(x, &g), Status::kOk);
  TestArena others;
  ASSERT_EQ(manifold_.riemannian_gradient(shape_, x.data(), g.data(), g.data(), others.arena), Status::kOk);
  const Real t = std::cbrt(std::numeric_limits<Real>::epsilon());
  for (uint32_t seed = 3; seed < 8; ++seed) {
    const std::vector<Real> v = tangent(x, seed);
    const Real difference = (loss_at(step_from(x, t, v)) - loss_at(step_from(x, -t, v))) / (2 * t);
    const Real slope = manifold_.inner(shape_, x.data(), g.data(), v.data(), others.arena).value();
    EXPECT_NEAR(slope, difference, 16 * t * t);
  }
  ASSERT_EQ(gradient(centre_, &g), Status::kOk);
  EXPECT_EQ(g, std::vector<Real>(shape_.size(), 0));
}

// The table of a board has no distance: its image is not given such a task, and would refuse it.
TEST_P(ProximalDistance, IsRefusedWithoutTheManifoldsDistance) {
  ManifoldOps without = manifold_;
  without.distance = nullptr;
  term_.manifold = &without;
  EXPECT_EQ(kProximalLossOps.check_shape(&term_, shape_), Status::kUnimplemented);
  term_.manifold = nullptr;
  EXPECT_EQ(kProximalLossOps.check_shape(&term_, shape_), Status::kUnimplemented);
}

INSTANTIATE_TEST_SUITE_P(
    Manifolds, ProximalDistance,
    ::testing::Values(DistanceCase{"euclidean", &kEuclideanOps, {4, 2}}, DistanceCase{"sphere", &kSphereOps, {6, 1}},
                      DistanceCase{"oblique", &kObliqueOps, {5, 3}}, DistanceCase{"grassmann", &kGrassmannOps, {6, 2}},
                      DistanceCase{"grassmann_qr", &kGrassmannQrOps, {6, 2}}, DistanceCase{"spd", &kSpdOps, {3, 3}},
                      DistanceCase{"spd_second_order", &kSpdSecondOrderOps, {3, 3}},
                      DistanceCase{"hyperbolic", &kHyperbolicOps, {4, 1}},
                      DistanceCase{"fixed_rank", &kFixedRankOps, fixed_rank_shape(kFixedRankParts)},
                      DistanceCase{"product", &kProductOps, {23, 1, &kProductParts}},
                      DistanceCase{"stiefel", &kStiefelOps, {5, 2}, false},
                      DistanceCase{"product_stiefel", &kProductOps, {14, 1, &kStiefelParts}, false}),
    [](const auto& one) { return std::string(one.param.name); });

INSTANTIATE_TEST_SUITE_P(Forms, ProximalLossOfKpca, ::testing::Values(ProximalForm::kChordal, ProximalForm::kLorentz));

}  // namespace
}  // namespace gradstream
