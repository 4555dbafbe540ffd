#include "server/rules/delay_correction.h"

#include <array>
#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/manifold/fixed_rank.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "tests/golden/delay_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using gradstream::testing::expect_golden;
using gradstream::testing::kIsDouble;
using gradstream::testing::to_reals;

constexpr Real kRounding = kIsDouble ? static_cast<Real>(1e-13) : static_cast<Real>(2e-6);

const DelayRule kAllRules[] = {DelayRule::kAsgd,       DelayRule::kFedAsync,   DelayRule::kDcAsgd,
                               DelayRule::kDcAdaptive, DelayRule::kDcRank1,    DelayRule::kOrthoGrad,
                               DelayRule::kOrthoPos,   DelayRule::kOrthoStrict};

class Workbench {
 public:
  Workbench(const ManifoldOps& manifold, Shape shape_of_points)
      : table(manifold), shape(shape_of_points), memory_(1 << 14), arena(memory_.data(), memory_.size() * 8) {}

  std::vector<Real> point(uint32_t number) {
    std::vector<Real> x(shape.size());
    EXPECT_EQ(table.random_point(shape, key_of(number), x.data(), arena), Status::kOk);
    return x;
  }
  std::vector<Real> tangent(const std::vector<Real>& x, uint32_t number, Real length) {
    std::vector<Real> v(shape.size());
    EXPECT_EQ(random_tangent(table, shape, x.data(), key_of(number), v.data(), arena), Status::kOk);
    const Real norm = std::sqrt(table.inner(shape, x.data(), v.data(), v.data(), arena).value());
    scale(v.size(), length / norm, v.data());
    return v;
  }
  std::vector<Real> moved(const std::vector<Real>& x, const std::vector<Real>& v) {
    std::vector<Real> y(shape.size());
    EXPECT_EQ(table.retract(shape, x.data(), v.data(), y.data(), arena), Status::kOk);
    return y;
  }
  DelayDirection direct(DelayRule rule, const std::vector<Real>& base, const std::vector<Real>& current,
                        const std::vector<Real>& zeta, Real lambda = static_cast<Real>(0.2)) {
    DelayDirection out;
    EXPECT_EQ(
        DelayCorrection(rule, lambda, table, shape).direct(base.data(), current.data(), zeta.data(), {}, &out, arena),
        Status::kOk);
    return out;
  }
  std::vector<Real> step(DelayRule rule, const std::vector<Real>& current, Real alpha, DelayDirection* direction) {
    std::vector<Real> next(shape.size());
    EXPECT_EQ(DelayCorrection(rule, 1, table, shape).step(current.data(), alpha, direction, next.data(), arena),
              Status::kOk);
    return next;
  }
  Real inner(const std::vector<Real>& x, const std::vector<Real>& v, const std::vector<Real>& w) {
    return table.inner(shape, x.data(), v.data(), w.data(), arena).value();
  }

  const ManifoldOps& table;
  Shape shape;

 private:
  static RandomKey key_of(uint32_t number) {
    RandomKey key;
    key.seed = 5;
    key.owner = number;
    return key;
  }
  std::vector<uint64_t> memory_;

 public:
  Arena arena;
};

// The upload zeta = Y - Q of Euclidean space, turned round with sign -1.
std::vector<Real> euclidean_upload(Real sign = 1) {
  std::vector<Real> zeta;
  for (size_t e = 0; e < std::size(golden::kBase); ++e) {
    zeta.push_back(sign * static_cast<Real>(golden::kEnd[e] - golden::kBase[e]));
  }
  return zeta;
}

TEST(DelayCorrection, IsTheReportsFormulasInEuclideanSpace) {
  Workbench bench(kEuclideanOps, {5, 1});
  const std::vector<Real> base = to_reals(golden::kBase);
  const std::vector<Real> current = to_reals(golden::kCurrent);
  const auto next = [&](DelayRule rule) {
    DelayDirection d = bench.direct(rule, base, current, euclidean_upload());
    return bench.step(rule, current, static_cast<Real>(0.6), &d);
  };
  expect_golden(golden::kFedAsync, next(DelayRule::kFedAsync));
  expect_golden(golden::kAsgd, next(DelayRule::kAsgd));
  expect_golden(golden::kDcAsgd, next(DelayRule::kDcAsgd));
  const auto direction = [&](DelayRule rule, Real sign) {
    return bench.direct(rule, base, current, euclidean_upload(sign)).direction;
  };
  expect_golden(golden::kOrthoGrad, direction(DelayRule::kOrthoGrad, 1));
  expect_golden(golden::kOrthoPos, direction(DelayRule::kOrthoPos, 1));
  expect_golden(golden::kOrthoStrict, direction(DelayRule::kOrthoStrict, 1));
  expect_golden(golden::kTurnedOrthoGrad, direction(DelayRule::kOrthoGrad, -1));
  expect_golden(golden::kTurnedOrthoPos, direction(DelayRule::kOrthoPos, -1));
  expect_golden(golden::kTurnedOrthoStrict, direction(DelayRule::kOrthoStrict, -1));
}

// Two updates in turn, the second with the moments of the first.
TEST(DelayCorrection, MomentsFollowTheirFormulasFromUpdateToUpdate) {
  Workbench bench(kEuclideanOps, {5, 1});
  const std::vector<Real> base = to_reals(golden::kBase);
  const std::vector<Real> current = to_reals(golden::kCurrent);
  const std::vector<Real> second = to_reals(golden::kSecondCurrent);
  std::vector<Real> upload = to_reals(golden::kSecondEnd);
  add_scaled(5, -1, current.data(), upload.data());
  const auto both = [&](DelayRule rule) {
    const DelayCorrection correction(rule, static_cast<Real>(0.2), kEuclideanOps, bench.shape);
    std::array<DelayDirection, 2> out;
    EXPECT_EQ(correction.direct(base.data(), current.data(), euclidean_upload().data(), {}, &out[0], bench.arena),
              Status::kOk);
    EXPECT_EQ(correction.direct(current.data(), second.data(), upload.data(), out[0].moments, &out[1], bench.arena),
              Status::kOk);
    return out;
  };
  const auto adaptive = both(DelayRule::kDcAdaptive);
  expect_golden(golden::kDcAdaptiveFirst, adaptive[0].direction);
  expect_golden(golden::kDcAdaptiveSecond, adaptive[1].direction);
  expect_golden(golden::kDcAdaptiveMoments, adaptive[1].moments);
  const auto rank1 = both(DelayRule::kDcRank1);
  expect_golden(golden::kDcRank1First, rank1[0].direction);
  expect_golden(golden::kDcRank1Second, rank1[1].direction);
  expect_golden(golden::kDcRank1Moments, rank1[1].moments);
}

// A parallel drift in float has a cosine above 1 in a third of draws: nothing of the displacement may be left.
TEST(DelayCorrection, OrthoStrictLeavesNothingOfAParallelDisplacement) {
  Workbench bench(kEuclideanOps, {12, 1});
  for (uint32_t draw = 0; draw < 50; ++draw) {
    const std::vector<Real> base = bench.tangent(bench.point(0), draw, 1);
    std::vector<Real> zeta = bench.tangent(base, 100 + draw, static_cast<Real>(0.3));
    std::vector<Real> current = base;
    add_scaled(12, -2, zeta.data(), current.data());  // b = Q - C = 2 zeta
    for (const Real v : bench.direct(DelayRule::kOrthoStrict, base, current, zeta).direction) {
      EXPECT_NEAR(v, 0, kRounding);
    }
  }
}

const ManifoldOps* const kCurved[] = {&kSphereOps,     &kStiefelOps, &kObliqueOps, &kGrassmannOps,
                                      &kHyperbolicOps, &kSpdOps,     &kProductOps, &kFixedRankOps};

const Parts kFixedRankParts = fixed_rank_parts(6, 5, 2);
const Parts kLayers = {4,
                       {{&kStiefelOps, {6, 2}}, {&kEuclideanOps, {4, 1}}, {&kSphereOps, {5, 1}}, {&kSpdOps, {3, 3}}}};

Shape shape_on(const ManifoldOps& table) {
  if (table.id == ManifoldId::kProduct) {
    return {12 + 4 + 5 + 9, 1, &kLayers};
  }
  return table.id == ManifoldId::kFixedRank                                       ? fixed_rank_shape(kFixedRankParts)
         : table.id == ManifoldId::kSpd                                           ? Shape{4, 4}
         : table.id == ManifoldId::kSphere || table.id == ManifoldId::kHyperbolic ? Shape{12, 1}
                                                                                  : Shape{12, 3};
}

TEST(DelayCorrection, DirectionsAreTangentAndStrictOnesCrossTheDrift) {
  for (const ManifoldOps* table : kCurved) {
    Workbench bench(*table, shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, static_cast<Real>(0.3)));
    const std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    for (const DelayRule rule : kAllRules) {
      if (!is_delay_rule_defined(rule, table->id)) {
        continue;
      }
      const std::vector<Real> d = bench.direct(rule, base, current, zeta).direction;
      std::vector<Real> projected(d.size());
      ASSERT_EQ(table->project_tangent(bench.shape, current.data(), d.data(), projected.data(), bench.arena),
                Status::kOk);
      EXPECT_LT(distance2(d.size(), d.data(), projected.data()), 10 * kRounding) << table->name << " " << name_of(rule);
    }
    const std::vector<Real> strict = bench.direct(DelayRule::kOrthoStrict, base, current, zeta).direction;
    // strict = delta - l b, so that b is what it differs from delta by.
    const std::vector<Real> delta = bench.direct(DelayRule::kAsgd, base, current, zeta).direction;
    std::vector<Real> drift = delta;
    add_scaled(drift.size(), -1, strict.data(), drift.data());
    EXPECT_NEAR(bench.inner(current, strict, drift), 0, 10 * kRounding) << table->name;
    EXPECT_GT(bench.inner(current, drift, drift), 0) << table->name;
  }
}

TEST(DelayCorrection, FedAsyncGoesFromTheModelToTheEndPoint) {
  for (const ManifoldOps* table : kCurved) {
    Workbench bench(*table, shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, static_cast<Real>(0.3)));
    const std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    const std::vector<Real> end = bench.moved(base, zeta);
    DelayDirection d = bench.direct(DelayRule::kFedAsync, base, current, zeta);
    const std::vector<Real> there = bench.step(DelayRule::kFedAsync, current, 1, &d);
    const std::vector<Real> here = bench.step(DelayRule::kFedAsync, current, 0, &d);
    const auto distance = [&](const std::vector<Real>& x, const std::vector<Real>& y) {
      return table->distance(bench.shape, x.data(), y.data(), bench.arena).value();
    };
    EXPECT_LT(distance(there, end), kIsDouble ? 1e-7 : 2e-3) << table->name;
    EXPECT_LT(distance(here, current), kIsDouble ? 1e-7 : 2e-3) << table->name;
  }
}

// |(delta - b) - p|: what composing in one tangent space misses the device's point by. It is of third order in the way
// that server and device have gone, and nothing in flat space.
TEST(DelayCorrection, TheDefectOfPositionsIsOfThirdOrder) {
  if (!kIsDouble) {
    return;  // its differences are below the rounding of floats
  }
  for (const ManifoldOps* table : {&kEuclideanOps, &kSphereOps, &kHyperbolicOps, &kSpdOps, &kStiefelOps}) {
    Workbench bench(*table, table->id == ManifoldId::kEuclidean ? Shape{12, 1} : shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const auto defect = [&](Real length) {
      const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, length));
      const std::vector<Real> zeta = bench.tangent(base, 3, length);
      std::vector<Real> d = bench.direct(DelayRule::kAsgd, base, current, zeta).direction;
      // A device that did not move stands at Q: its p is -b.
      const std::vector<Real> still(zeta.size());
      add_scaled(d.size(), 1, bench.direct(DelayRule::kFedAsync, base, current, still).direction.data(), d.data());
      add_scaled(d.size(), -1, bench.direct(DelayRule::kFedAsync, base, current, zeta).direction.data(), d.data());
      return std::sqrt(bench.inner(current, d, d));
    };
    if (table->id == ManifoldId::kEuclidean) {
      EXPECT_LT(defect(static_cast<Real>(0.1)), kRounding);
      continue;
    }
    const double slope =
        std::log2(static_cast<double>(defect(static_cast<Real>(0.02)) / defect(static_cast<Real>(0.01))));
    EXPECT_NEAR(slope, 3, 0.1) << table->name;
  }
}

// L_C(Z) = P_C(Z - C) is linear in Z: there delta := P_C(Q - Y) would have no defect at all.
TEST(DelayCorrection, TheOrthographicLiftHasNoDefect) {
  for (const ManifoldOps* table : {&kStiefelOps, &kObliqueOps}) {
    Workbench bench(*table, shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, static_cast<Real>(0.3)));
    const std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    const std::vector<Real> end = bench.moved(base, zeta);
    std::vector<Real> delta = base;
    add_scaled(delta.size(), -1, end.data(), delta.data());
    ASSERT_EQ(table->project_tangent(bench.shape, current.data(), delta.data(), delta.data(), bench.arena),
              Status::kOk);
    const std::vector<Real> p = bench.direct(DelayRule::kFedAsync, base, current, zeta).direction;
    const std::vector<Real> still(zeta.size());
    const std::vector<Real> b = bench.direct(DelayRule::kFedAsync, base, current, still).direction;  // -b
    for (size_t e = 0; e < p.size(); ++e) {
      EXPECT_NEAR(delta[e] + b[e], p[e], kRounding) << table->name;
    }
  }
}

// Entry by entry, also in float; on Grassmann the columns' plane alone is told, by its projection, and at fixed rank
// the matrix.
TEST(DelayCorrection, FedAsyncWithAWholeStepIsTheUpdate) {
  for (const ManifoldOps* table : kCurved) {
    Workbench bench(*table, shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, static_cast<Real>(0.3)));
    const std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    std::vector<Real> end = bench.moved(base, zeta);
    DelayDirection d = bench.direct(DelayRule::kFedAsync, base, current, zeta);
    std::vector<Real> there = bench.step(DelayRule::kFedAsync, current, 1, &d);
    if (table->id == ManifoldId::kGrassmann) {
      for (std::vector<Real>* u : {&end, &there}) {
        std::vector<Real> plane(bench.shape.rows * bench.shape.rows);
        for (size_t i = 0; i < plane.size(); ++i) {
          const size_t row = i / bench.shape.rows * bench.shape.cols;
          const size_t col = i % bench.shape.rows * bench.shape.cols;
          plane[i] = dot(bench.shape.cols, u->data() + row, u->data() + col);
        }
        *u = plane;
      }
    }
    if (table->id == ManifoldId::kFixedRank) {
      for (std::vector<Real>* x : {&end, &there}) {
        std::vector<Real> dense(kFixedRankParts.part[0].shape.rows * kFixedRankParts.part[1].shape.rows);
        fixed_rank_to_dense(bench.shape, x->data(), dense.data());
        *x = dense;
      }
    }
    for (size_t e = 0; e < end.size(); ++e) {
      EXPECT_NEAR(there[e], end[e], kIsDouble ? 1e-12 : 1e-5) << table->name << " entry " << e;
    }
  }
}

// OrthoCorrect(alpha, theta): the named rules are points of it, bit for bit.
TEST(DelayCorrection, TheNamedOrthoRulesArePointsOfOneFamily) {
  const std::pair<DelayRule, OrthoCorrect> points[] = {{DelayRule::kOrthoPos, {1, 0}},
                                                       {DelayRule::kOrthoStrict, {static_cast<Real>(0.7), 1}},
                                                       {DelayRule::kOrthoGrad, {0, 0}}};
  for (const ManifoldOps* table : kCurved) {
    Workbench bench(*table, shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, static_cast<Real>(0.3)));
    std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    for (int turn = 0; turn < 2; ++turn) {  // in a conflict and without one
      for (const auto& [rule, point] : points) {
        const DelayDirection named = bench.direct(rule, base, current, zeta);
        DelayDirection member;
        const DelayCorrection correction(DelayRule::kOrthoGrad, 1, *table, bench.shape, DelaySwitchBy::kVersion, point);
        ASSERT_EQ(correction.direct(base.data(), current.data(), zeta.data(), {}, &member, bench.arena), Status::kOk);
        EXPECT_EQ(member.direction, named.direction) << table->name << " " << name_of(rule);
        EXPECT_EQ(member.target, named.target) << table->name << " " << name_of(rule);
      }
      scale(zeta.size(), -1, zeta.data());
    }
  }
}

// Delta - lambda b, lambda = <Delta, b> / <b, b> where the cosine is at most theta, else alpha.
TEST(DelayCorrection, OrthoCorrectIsTheReportsFormulaInEuclideanSpace) {
  Workbench bench(kEuclideanOps, {5, 1});
  const std::vector<Real> base = to_reals(golden::kBase);
  const std::vector<Real> current = to_reals(golden::kCurrent);
  for (const Real sign : {Real{1}, Real{-1}}) {
    const std::vector<Real> zeta = euclidean_upload(sign);
    double along = 0;
    double squares[2] = {};
    for (size_t e = 0; e < 5; ++e) {
      const double b = static_cast<double>(base[e]) - static_cast<double>(current[e]);
      const double delta = -static_cast<double>(zeta[e]);
      along += delta * b;
      squares[0] += delta * delta;
      squares[1] += b * b;
    }
    const double cosine = along / std::sqrt(squares[0] * squares[1]);
    for (const double alpha : {-0.5, 0.0, 0.25, 1.0, 2.0}) {
      for (const double theta : {-1.0, cosine - 0.01, 0.0, cosine + 0.01, 1.0}) {
        DelayDirection d;
        const OrthoCorrect point = {static_cast<Real>(alpha), static_cast<Real>(theta)};
        const DelayCorrection correction(DelayRule::kOrthoGrad, 1, kEuclideanOps, bench.shape, DelaySwitchBy::kVersion,
                                         point);
        ASSERT_EQ(correction.direct(base.data(), current.data(), zeta.data(), {}, &d, bench.arena), Status::kOk);
        const double lambda = cosine <= theta ? along / squares[1] : alpha;
        for (size_t e = 0; e < 5; ++e) {
          const double b = static_cast<double>(base[e]) - static_cast<double>(current[e]);
          EXPECT_NEAR(d.direction[e], -static_cast<double>(zeta[e]) - lambda * b, 4 * kRounding)
              << alpha << " " << theta << " " << cosine;
        }
      }
    }
  }
}

// Where the update goes the server's way it is FedAsync, bit for bit; in a conflict it is not.
TEST(DelayCorrection, OrthoPosWithoutAConflictIsFedAsync) {
  for (const ManifoldOps* table : kCurved) {
    Workbench bench(*table, shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, static_cast<Real>(0.3)));
    std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    const std::vector<Real> still(zeta.size());
    std::vector<Real> b = bench.direct(DelayRule::kFedAsync, base, current, still).direction;
    scale(b.size(), -1, b.data());
    const auto is_conflict = [&] {
      return bench.inner(current, bench.direct(DelayRule::kAsgd, base, current, zeta).direction, b) <= 0;
    };
    if (is_conflict()) {
      scale(zeta.size(), -1, zeta.data());
    }
    for (const bool in_conflict : {false, true}) {
      ASSERT_EQ(is_conflict(), in_conflict) << table->name;
      DelayDirection pos = bench.direct(DelayRule::kOrthoPos, base, current, zeta);
      DelayDirection fed = bench.direct(DelayRule::kFedAsync, base, current, zeta);
      const Real alpha = static_cast<Real>(0.6);
      const std::vector<Real> next = bench.step(DelayRule::kFedAsync, current, alpha, &fed);
      EXPECT_EQ(bench.step(DelayRule::kOrthoPos, current, alpha, &pos) == next, !in_conflict) << table->name;
      EXPECT_EQ(pos.direction == fed.direction, !in_conflict) << table->name;
      scale(zeta.size(), -1, zeta.data());
    }
  }
}

TEST(DelayCorrection, WithoutADelayTheGradientRulesAreOne) {
  for (const ManifoldOps* table : kCurved) {
    Workbench bench(*table, shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    for (const DelayRule rule : kAllRules) {
      if (rule == DelayRule::kFedAsync || !is_delay_rule_defined(rule, table->id)) {
        continue;
      }
      const std::vector<Real> d = bench.direct(rule, base, base, zeta).direction;
      for (size_t e = 0; e < d.size(); ++e) {
        EXPECT_NEAR(d[e], -zeta[e], kRounding) << table->name << " " << name_of(rule);
      }
    }
  }
}

TEST(DelayCorrection, StepsAreTangentOnesWhereTheyMatter) {
  Workbench bench(kSphereOps, {12, 1});
  const std::vector<Real> base = bench.point(1);
  const std::vector<Real> still(12);
  EXPECT_TRUE(bench.direct(DelayRule::kOrthoGrad, base, bench.point(2), still).is_still);
  DelayDirection far = bench.direct(DelayRule::kAsgd, base, base, bench.tangent(base, 3, 5));
  bench.step(DelayRule::kAsgd, base, 1, &far);
  EXPECT_TRUE(far.is_clamped) << "beyond half the circle";
  std::vector<Real> antipode = base;
  scale(12, -1, antipode.data());
  DelayDirection none;
  EXPECT_EQ(DelayCorrection(DelayRule::kAsgd, 1, kSphereOps, bench.shape)
                .direct(base.data(), antipode.data(), still.data(), {}, &none, bench.arena),
            Status::kSingular);
}

// Each part has its own radius: the sphere's is shortened, the others go as far as they would alone.
TEST(DelayCorrection, AProductsStepIsShortenedPartByPart) {
  Workbench bench(kProductOps, shape_on(kProductOps));
  const std::vector<Real> base = bench.point(1);
  DelayDirection d = bench.direct(DelayRule::kAsgd, base, base, bench.tangent(base, 3, static_cast<Real>(0.3)));
  const std::vector<Real> near = bench.step(DelayRule::kAsgd, base, 1, &d);
  EXPECT_FALSE(d.is_clamped);
  constexpr size_t kSphereAt = 12 + 4;
  const Real length = norm2(5, &d.direction[kSphereAt]);
  scale(5, 5 / length, &d.direction[kSphereAt]);
  const std::vector<Real> far = bench.step(DelayRule::kAsgd, base, 1, &d);
  EXPECT_TRUE(d.is_clamped) << "beyond half the circle";
  std::vector<Real> sphere(5);
  std::vector<Real> v(&d.direction[kSphereAt], &d.direction[kSphereAt + 5]);
  scale(5, -std::numbers::pi_v<Real> / 5, v.data());
  ASSERT_EQ(kSphereOps.retract({5, 1}, &base[kSphereAt], v.data(), sphere.data(), bench.arena), Status::kOk);
  for (size_t e = 0; e < far.size(); ++e) {
    if (e >= kSphereAt && e < kSphereAt + 5) {
      EXPECT_NEAR(far[e], sphere[e - kSphereAt], kRounding) << e;
    } else {
      EXPECT_EQ(far[e], near[e]) << e;
    }
  }
}

// Parts that are flat give the report's formulas, and a product of one part what the part gives, by every rule.
TEST(DelayCorrection, AProductOfOneGeometryIsThatGeometry) {
  const Parts flat = {2, {{&kEuclideanOps, {3, 1}}, {&kEuclideanOps, {2, 1}}}};
  const std::vector<Real> base = to_reals(golden::kBase);
  const std::vector<Real> current = to_reals(golden::kCurrent);
  Workbench bench(kProductOps, {5, 1, &flat});
  for (const Real sign : {Real{1}, Real{-1}}) {
    const auto direction = [&](DelayRule rule) {
      return bench.direct(rule, base, current, euclidean_upload(sign)).direction;
    };
    expect_golden(sign > 0 ? golden::kOrthoGrad : golden::kTurnedOrthoGrad, direction(DelayRule::kOrthoGrad));
    expect_golden(sign > 0 ? golden::kOrthoPos : golden::kTurnedOrthoPos, direction(DelayRule::kOrthoPos));
    expect_golden(sign > 0 ? golden::kOrthoStrict : golden::kTurnedOrthoStrict, direction(DelayRule::kOrthoStrict));
  }
  const Parts single = {1, {{&kSphereExponentialOps, {12, 1}}}};
  Workbench alone(kSphereExponentialOps, {12, 1});
  Workbench wrapped(kProductOps, {12, 1, &single});
  const std::vector<Real> from = alone.point(1);
  const std::vector<Real> to = alone.moved(from, alone.tangent(from, 2, static_cast<Real>(0.3)));
  const std::vector<Real> zeta = alone.tangent(from, 3, static_cast<Real>(0.4));
  for (const DelayRule rule : kAllRules) {
    if (is_delay_rule_defined(rule, ManifoldId::kProduct)) {
      EXPECT_EQ(wrapped.direct(rule, from, to, zeta).direction, alone.direct(rule, from, to, zeta).direction)
          << name_of(rule);
    }
  }
}

// The angle and the lengths of delta and b, on curved manifolds as in Euclidean space.
TEST(DelayCorrection, MeasuresWhatARunSwitchesBy) {
  for (const ManifoldOps* table : {&kEuclideanOps, &kSphereOps, &kHyperbolicOps, &kSpdOps, &kStiefelOps}) {
    Workbench bench(*table, table->id == ManifoldId::kEuclidean ? Shape{12, 1} : shape_on(*table));
    const std::vector<Real> base = bench.point(1);
    const std::vector<Real> current = bench.moved(base, bench.tangent(base, 2, static_cast<Real>(0.3)));
    const std::vector<Real> zeta = bench.tangent(base, 3, static_cast<Real>(0.4));
    const auto measured = [&](DelaySwitchBy by, const std::vector<Real>& from, const std::vector<Real>& upload) {
      DelayDirection out;
      EXPECT_EQ(DelayCorrection(DelayRule::kOrthoPos, 1, *table, bench.shape, by)
                    .direct(from.data(), current.data(), upload.data(), {}, &out, bench.arena),
                Status::kOk);
      return out.statistic;
    };
    const std::vector<Real> delta = bench.direct(DelayRule::kAsgd, base, current, zeta).direction;
    // b is what ortho_strict takes out, times <b, b> / <delta, b>; its length is the way that the model has gone.
    std::vector<Real> along = delta;
    const std::vector<Real> strict = bench.direct(DelayRule::kOrthoStrict, base, current, zeta).direction;
    add_scaled(along.size(), -1, strict.data(), along.data());
    const Real delta_length = std::sqrt(bench.inner(current, delta, delta));
    const Real share = std::sqrt(bench.inner(current, along, along)) / delta_length;  // |cos|
    const std::optional<Real> cosine = measured(DelaySwitchBy::kCosine, base, zeta);
    ASSERT_TRUE(cosine.has_value()) << table->name;
    EXPECT_NEAR(std::abs(*cosine), share, 20 * kRounding) << table->name;
    const std::optional<Real> ratio = measured(DelaySwitchBy::kDriftRatio, base, zeta);
    ASSERT_TRUE(ratio.has_value()) << table->name;
    // To the curvature's share of a way of 0.3.
    EXPECT_NEAR(*ratio * delta_length, 0.3, 0.03) << table->name;
    EXPECT_FALSE(measured(DelaySwitchBy::kVersion, base, zeta).has_value());
    EXPECT_FALSE(measured(DelaySwitchBy::kCosine, current, std::vector<Real>(zeta.size())).has_value()) << "no drift";
    EXPECT_FALSE(measured(DelaySwitchBy::kDriftRatio, base, std::vector<Real>(zeta.size())).has_value()) << "no delta";
  }
}

TEST(DelayCorrection, SwitchesWhenTheMovingMeanIsDownAndStaysSwitched) {
  RunParameters p;
  p.delay->delay_switch_by = DelaySwitchBy::kCosine;
  p.delay->delay_switch_at = static_cast<Real>(0.25);
  p.delay->delay_switch = 30;
  DelaySwitch state;
  for (uint32_t version = 1; version <= 29; ++version) {
    state = state.after(*p.delay, version, 0);
    EXPECT_FALSE(state.is_switched) << version;
  }
  EXPECT_EQ(state.sample_count, 29U);
  EXPECT_TRUE(state.after(*p.delay, 30, {}).is_switched) << "the mean is down, and this version may";
  p.delay->delay_switch = 0;
  state = {};
  for (uint32_t sample = 1; sample < kDelayWindow; ++sample) {
    state = state.after(*p.delay, sample, -1).after(*p.delay, sample, {});
    EXPECT_FALSE(state.is_switched) << "too few";
  }
  EXPECT_EQ(state.mean, -1);
  state = state.after(*p.delay, 50, 1);
  EXPECT_TRUE(state.is_switched);
  EXPECT_NEAR(state.mean, -0.9, 1e-6);
  for (uint32_t sample = 0; sample < 200; ++sample) {
    state = state.after(*p.delay, 51 + sample, 1);
  }
  EXPECT_GT(state.mean, 0.99);
  EXPECT_TRUE(state.is_switched);
}

TEST(DelayCorrection, EntriesAreMultipliedOnlyInAnEmbedding) {
  EXPECT_TRUE(is_delay_rule_defined(DelayRule::kDcAsgd, ManifoldId::kStiefel));
  EXPECT_FALSE(is_delay_rule_defined(DelayRule::kDcAsgd, ManifoldId::kSpd));
  EXPECT_FALSE(is_delay_rule_defined(DelayRule::kDcAdaptive, ManifoldId::kHyperbolic));
  EXPECT_TRUE(is_delay_rule_defined(DelayRule::kDcRank1, ManifoldId::kSpd));
}

}  // namespace
}  // namespace gradstream
