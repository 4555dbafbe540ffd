#include "runtime/manifold/fixed_rank.h"

#include "runtime/base/products.h"
#include "tests/golden/fixed_rank_vectors.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::expect_golden;
using testing::kEpsilon;
using testing::kIsDouble;
using testing::to_reals;
using Vector = std::vector<Real>;

// The blocks of x, as Vectors of m x r, n x r, r x r.
struct Factors {
  Factors(const Parts& parts, const Vector& x)
      : m(parts.part[0].shape.rows),
        n(parts.part[1].shape.rows),
        r(parts.part[2].shape.rows),
        u(x.begin(), x.begin() + m * r),
        v(x.begin() + m * r, x.begin() + (m + n) * r),
        s(x.begin() + (m + n) * r, x.end()) {}
  long m, n, r;
  Vector u, v, s;
};

// A B, p x q times q x k, either of them transposed as stored.
Vector product(long p, long q, long k, const Vector& a, bool transpose_a, const Vector& b, bool transpose_b) {
  Vector out(static_cast<size_t>(p * k));
  for (long i = 0; i < p; ++i) {
    for (long j = 0; j < k; ++j) {
      for (long l = 0; l < q; ++l) {
        out[i * k + j] += a[transpose_a ? l * p + i : i * q + l] * b[transpose_b ? j * q + l : l * k + j];
      }
    }
  }
  return out;
}

Vector dense_of(const Parts& parts, const Vector& x) {
  const Factors f(parts, x);
  return product(f.m, f.r, f.n, product(f.m, f.r, f.r, f.u, false, f.s, false), false, f.v, true);
}

// Up V' + U Vp' + U M V'.
Vector dense_tangent_of(const Parts& parts, const Vector& x, const Vector& v) {
  const Factors f(parts, x), t(parts, v);
  const Vector left = product(f.m, f.r, f.n, t.u, false, f.v, true);
  const Vector right = product(f.m, f.r, f.n, f.u, false, t.v, true);
  const Vector middle = product(f.m, f.r, f.n, product(f.m, f.r, f.r, f.u, false, t.s, false), false, f.v, true);
  Vector out(left.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = left[i] + right[i] + middle[i];
  }
  return out;
}

// (G V S', G'U S, U'G V).
Vector pulled_gradient(const Parts& parts, const Vector& x, const Vector& g) {
  const Factors f(parts, x);
  const Vector g_v = product(f.m, f.n, f.r, g, false, f.v, false);
  Vector out = product(f.m, f.r, f.r, g_v, false, f.s, true);
  const Vector right = product(f.n, f.r, f.r, product(f.n, f.m, f.r, g, true, f.u, false), false, f.s, false);
  const Vector core = product(f.r, f.m, f.r, f.u, true, g_v, false);
  out.insert(out.end(), right.begin(), right.end());
  out.insert(out.end(), core.begin(), core.end());
  return out;
}

TEST(FixedRank, PassesTheChecker) {
  const uint32_t cases[][3] = {{6, 5, 2}, {5, 7, 3}, {4, 4, 1}, {3, 3, 3}, {40, 30, 4}};
  for (const auto& [m, n, r] : cases) {
    const Parts parts = fixed_rank_parts(m, n, r);
    for (uint32_t seed = 1; seed <= 8; ++seed) {
      check_manifold({.ops = seed % 2 == 0 ? kFixedRankSmoothOps : kFixedRankOps,
                      .shape = fixed_rank_shape(parts),
                      .seed = seed,
                      .tolerance = 256 * kEpsilon,
                      .is_embedded = false,
                      .dense = [&](const Vector& x) { return dense_of(parts, x); },
                      .dense_tangent = [&](const Vector& x, const Vector& v) { return dense_tangent_of(parts, x, v); },
                      .pull_gradient = [&](const Vector& x, const Vector& g) { return pulled_gradient(parts, x, g); }});
    }
  }
}

class FixedRankGolden : public ::testing::Test {
 protected:
  FixedRankGolden() {
    GS_ASSERT(fixed_rank_from_dense(shape_, to_reals(golden::fixed_rank::kX).data(), x_.data(), arena_) == Status::kOk);
  }
  // P_X of a dense z: the ambient blocks (Z V, Z'U, -U'Z V), projected.
  Vector project(const Vector& z) {
    const Factors f(parts_, x_);
    const Vector z_v = product(6, 5, 2, z, false, f.v, false);
    Vector g = z_v;
    const Vector right = product(5, 6, 2, z, true, f.u, false), core = product(2, 6, 2, f.u, true, z_v, false);
    g.insert(g.end(), right.begin(), right.end());
    for (const Real entry : core) {
      g.push_back(-entry);
    }
    EXPECT_EQ(kFixedRankOps.project_tangent(shape_, x_.data(), g.data(), g.data(), arena_), Status::kOk);
    return g;
  }
  const Parts parts_ = fixed_rank_parts(6, 5, 2);
  const Shape shape_ = fixed_rank_shape(parts_);
  uint64_t memory_[256] = {};
  Arena arena_{memory_, sizeof(memory_)};
  Vector x_ = Vector(26);
  Vector out_ = Vector(26);
};

TEST_F(FixedRankGolden, ToDenseUndoesFromDense) {
  Vector dense(30);
  fixed_rank_to_dense(shape_, x_.data(), dense.data());
  expect_golden(golden::fixed_rank::kX, dense);
  expect_golden(golden::fixed_rank::kX, dense_of(parts_, x_));
}

TEST_F(FixedRankGolden, ProjectTangent) {
  expect_golden(golden::fixed_rank::kProjected,
                dense_tangent_of(parts_, x_, project(to_reals(golden::fixed_rank::kAmbient))));
}

TEST_F(FixedRankGolden, Retract) {
  Vector v = project(to_reals(golden::fixed_rank::kAmbient));
  scale(v.size(), static_cast<Real>(0.2), v.data());
  ASSERT_EQ(kFixedRankOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::fixed_rank::kRetracted, dense_of(parts_, out_));
}

TEST_F(FixedRankGolden, NearestPoint) {
  Vector z = to_reals(golden::fixed_rank::kX);
  add_scaled(z.size(), static_cast<Real>(0.3), to_reals(golden::fixed_rank::kAmbient).data(), z.data());
  ASSERT_EQ(fixed_rank_from_dense(shape_, z.data(), out_.data(), arena_), Status::kOk);
  expect_golden(golden::fixed_rank::kNearest, dense_of(parts_, out_));
}

TEST_F(FixedRankGolden, RetractionIsOfSecondOrder) {
  // |R(tV) - X - tV| in the tangent space falls by 8 when t is halved.
  const Vector v = project(to_reals(golden::fixed_rank::kAmbient));
  const Vector start = dense_of(parts_, x_), velocity = dense_tangent_of(parts_, x_, v);
  const auto tangent_error = [&](Real t) {
    Vector step = v;
    scale(step.size(), t, step.data());
    EXPECT_EQ(kFixedRankOps.retract(shape_, x_.data(), step.data(), out_.data(), arena_), Status::kOk);
    Vector gap = dense_of(parts_, out_);
    for (size_t i = 0; i < gap.size(); ++i) {
      gap[i] -= start[i] + t * velocity[i];
    }
    const Vector tangent = project(gap);
    return norm2(tangent.size(), tangent.data());
  };
  EXPECT_GE(std::log2(tangent_error(static_cast<Real>(0.2)) / tangent_error(static_cast<Real>(0.1))), 2.7);
}

// The isometric transport is a map of matrices: with U A, V B and A'S B for U, V and S on either side it is the same.
TEST(FixedRank, SmoothTransportKnowsNoRepresentative) {
  const Parts parts = fixed_rank_parts(7, 6, 3), square = {1, {{&kStiefelOps, {3, 3}}}};
  const Shape shape = fixed_rank_shape(parts);
  uint64_t memory[512] = {};
  Arena arena(memory, sizeof(memory));
  Vector x(shape.size()), v(shape.size()), y(shape.size()), moved(shape.size());
  ASSERT_EQ(kFixedRankOps.random_point(shape, {5, RandomDomain::kData, 0, 0, 0}, x.data(), arena), Status::kOk);
  ASSERT_EQ(random_tangent(kFixedRankOps, shape, x.data(), {5, RandomDomain::kData, 1, 0, 0}, v.data(), arena),
            Status::kOk);
  scale(v.size(), static_cast<Real>(0.4), v.data());
  ASSERT_EQ(kFixedRankOps.retract(shape, x.data(), v.data(), y.data(), arena), Status::kOk);
  ASSERT_EQ(kFixedRankSmoothOps.transport(shape, x.data(), y.data(), v.data(), moved.data(), arena), Status::kOk);
  const Vector wanted = dense_tangent_of(parts, y, moved);
  Vector turn_u(9), turn_v(9);
  ASSERT_EQ(kStiefelOps.random_point(square.part[0].shape, {5, RandomDomain::kData, 2, 0, 0}, turn_u.data(), arena),
            Status::kOk);
  ASSERT_EQ(kStiefelOps.random_point(square.part[0].shape, {5, RandomDomain::kData, 3, 0, 0}, turn_v.data(), arena),
            Status::kOk);
  // Of a point its factors turn by their own columns; of a tangent vector Up turns with V, and Vp with U.
  const auto turned = [&](const Vector& point, bool is_tangent) {
    const Factors f(parts, point);
    Vector out = product(f.m, f.r, f.r, f.u, false, is_tangent ? turn_v : turn_u, false);
    const Vector right = product(f.n, f.r, f.r, f.v, false, is_tangent ? turn_u : turn_v, false);
    const Vector core = product(f.r, f.r, f.r, product(f.r, f.r, f.r, turn_u, true, f.s, false), false, turn_v, false);
    out.insert(out.end(), right.begin(), right.end());
    out.insert(out.end(), core.begin(), core.end());
    return out;
  };
  const auto expect_same = [&](const Vector& from, const Vector& to, const Vector& tangent) {
    ASSERT_EQ(kFixedRankSmoothOps.transport(shape, from.data(), to.data(), tangent.data(), moved.data(), arena),
              Status::kOk);
    const Vector got = dense_tangent_of(parts, to, moved);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 64 * kEpsilon) << i;
    }
  };
  expect_same(turned(x, false), y, turned(v, true));
  expect_same(x, turned(y, false), v);
  EXPECT_TRUE(has_isometric_transport(kFixedRankSmoothOps, shape));
  EXPECT_TRUE(is_reproducible(kFixedRankSmoothOps, shape));
  EXPECT_EQ(find_manifold(all_manifolds(), ManifoldId::kFixedRank, RetractionKind::kDefault, TransportKind::kSmooth),
            &kFixedRankSmoothOps);
}

TEST_F(FixedRankGolden, ShortStepsBarelyTurnTheFactors) {
  // The representative follows the point: signs and order of singular vectors never jump.
  Vector v = project(to_reals(golden::fixed_rank::kAmbient));
  scale(v.size(), static_cast<Real>(1e-3), v.data());
  ASSERT_EQ(kFixedRankOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kOk);
  EXPECT_LE(distance2(26, x_.data(), out_.data()), static_cast<Real>(0.02));
}

TEST_F(FixedRankGolden, LostRankAndBadInputAreRefused) {
  const Parts wide = fixed_rank_parts(2, 5, 3), large = fixed_rank_parts(64, 64, kFixedRankMax + 1);
  EXPECT_EQ(kFixedRankOps.check_shape(fixed_rank_shape(wide)), Status::kInvalidArgument);
  EXPECT_EQ(kFixedRankOps.check_shape(fixed_rank_shape(large)), Status::kInvalidArgument);
  EXPECT_EQ(kFixedRankOps.check_shape({13, 2}), Status::kInvalidArgument) << "without its parts";
  EXPECT_EQ(kFixedRankOps.check_shape({12, 2, &parts_}), Status::kInvalidArgument);
  EXPECT_EQ(kFixedRankOps.check_shape(shape_), Status::kOk);
  EXPECT_EQ(kFixedRankOps.dimension(shape_), 18u);
  // A step that takes S to rank 1, and one that makes two singular values meet the rank's edge.
  Vector v(26), flat = x_;
  for (size_t i = 0; i < 4; ++i) {
    v[22 + i] = i == 3 ? -x_[25] : 0;
    flat[22 + i] = 0;
  }
  EXPECT_EQ(kFixedRankOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kFixedRankOps.project_point(shape_, flat.data(), out_.data(), arena_), Status::kSingular);
  EXPECT_EQ(kFixedRankOps.riemannian_gradient(shape_, flat.data(), x_.data(), out_.data(), arena_), Status::kSingular);
  v[3] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(kFixedRankOps.retract(shape_, x_.data(), v.data(), out_.data(), arena_), Status::kNotFinite);
  Vector zero(30);
  EXPECT_EQ(fixed_rank_from_dense(shape_, zero.data(), out_.data(), arena_), Status::kSingular);
  for (size_t i = 0; i < 5; ++i) {
    zero[6 * i] = 1;  // five equal singular values: which two are the nearest is not determined
  }
  EXPECT_EQ(fixed_rank_from_dense(shape_, zero.data(), out_.data(), arena_), Status::kSingular);
  Arena small(memory_, 64);
  EXPECT_EQ(kFixedRankOps.retract(shape_, x_.data(), x_.data(), out_.data(), small), Status::kOutOfMemory);
}

}  // namespace
}  // namespace gradstream
