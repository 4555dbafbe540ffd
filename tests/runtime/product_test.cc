#include "runtime/manifold/fixed_rank.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::check_manifold;
using testing::kEpsilon;
using Vector = std::vector<Real>;

// A network: a Stiefel layer, a free layer, normalised columns and a vector on a sphere.
Parts network() {
  Parts parts;
  parts.count = 4;
  parts.part[0] = {&kStiefelOps, {8, 3}};
  parts.part[1] = {&kEuclideanOps, {3, 4}};
  parts.part[2] = {&kObliqueOps, {4, 2}};
  parts.part[3] = {&kSphereOps, {5, 1}};
  return parts;
}

// All parts with exponential and parallel transport, one of them not embedded.
Parts geodesic_parts() {
  Parts parts;
  parts.count = 3;
  parts.part[0] = {&kSphereExponentialOps, {4, 1}};
  parts.part[1] = {&kSpdOps, {3, 3}};
  parts.part[2] = {&kGrassmannExponentialOps, {6, 2}};
  return parts;
}

Shape shape_of(const Parts& parts) {
  uint32_t rows = 0;
  for (const Part& part : parts.list()) {
    rows += static_cast<uint32_t>(part.shape.size());
  }
  return {rows, 1, &parts};
}

TEST(Product, PassesTheChecker) {
  const Parts layers = network(), geodesic = geodesic_parts();
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    check_manifold({.ops = kProductOps, .shape = shape_of(layers), .seed = seed, .has_exponential = false});
    check_manifold({.ops = kProductOps,
                    .shape = shape_of(geodesic),
                    .seed = seed,
                    .tolerance = 128 * kEpsilon,
                    .is_embedded = false});
  }
}

TEST(Product, HasThePropertiesThatAllPartsHave) {
  const Parts layers = network(), geodesic = geodesic_parts();
  EXPECT_TRUE(is_reproducible(kProductOps, shape_of(layers)));
  EXPECT_FALSE(is_reproducible(kProductOps, shape_of(geodesic)));
  EXPECT_FALSE(has_isometric_transport(kProductOps, shape_of(layers))) << "the Stiefel part projects";
  EXPECT_TRUE(has_isometric_transport(kProductOps, shape_of(geodesic)));
  EXPECT_EQ(kProductOps.dimension(shape_of(layers)), 18u + 12u + 6u + 4u);
  EXPECT_EQ(kProductOps.scratch_size(shape_of(layers)), kStiefelOps.scratch_size({8, 3}));
}

TEST(Product, OperationsAreThePartsOwn) {
  const Parts parts = network();
  const Shape shape = shape_of(parts);
  std::vector<uint64_t> memory(256);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  Vector x(shape.size()), v(shape.size()), y(shape.size());
  ASSERT_EQ(kProductOps.random_point(shape, {.seed = 1}, x.data(), arena), Status::kOk);
  ASSERT_EQ(random_tangent(kProductOps, shape, x.data(), {.seed = 2}, v.data(), arena), Status::kOk);
  ASSERT_EQ(kProductOps.retract(shape, x.data(), v.data(), y.data(), arena), Status::kOk);
  size_t at = 0;
  Real squared = 0;
  for (const Part& part : parts.list()) {
    Vector alone(part.shape.size());
    ASSERT_EQ(part.ops->retract(part.shape, &x[at], &v[at], alone.data(), arena), Status::kOk);
    EXPECT_EQ(std::memcmp(alone.data(), &y[at], alone.size() * sizeof(Real)), 0) << part.ops->name;
    const Real distance = part.ops->distance(part.shape, &x[at], &y[at], arena).value();
    squared += distance * distance;
    at += part.shape.size();
  }
  EXPECT_EQ(kProductOps.distance(shape, x.data(), y.data(), arena).value(), std::sqrt(squared));
}

// A layer of fixed rank and its biases: every operation is the parts' own, bit for bit.
TEST(Product, HasPartsOfFixedRank) {
  const Parts left = fixed_rank_parts(9, 6, 3), right = fixed_rank_parts(4, 7, 2);
  Parts parts;
  parts.count = 4;
  parts.part[0] = {&kFixedRankOps, fixed_rank_shape(left)};
  parts.part[1] = {&kEuclideanOps, {6, 1}};
  parts.part[2] = {&kFixedRankOps, fixed_rank_shape(right)};
  parts.part[3] = {&kStiefelOps, {5, 2}};
  const Shape shape = shape_of(parts);
  ASSERT_EQ(shape.rows, 18u * 3 + 6 + 13 * 2 + 10);
  ASSERT_EQ(kProductOps.check_shape(shape), Status::kOk);
  EXPECT_TRUE(is_reproducible(kProductOps, shape));
  EXPECT_FALSE(has_isometric_transport(kProductOps, shape));
  EXPECT_EQ(kProductOps.dimension(shape), (9u + 6 - 3) * 3 + 6 + (4 + 7 - 2) * 2 + 7);
  std::vector<uint64_t> memory(kProductOps.scratch_size(shape) / sizeof(uint64_t) + 1);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  const size_t n = shape.size();
  Vector x(n), y(n), g(n), v(n), w(n), whole(n), again(n);
  ASSERT_EQ(kProductOps.random_point(shape, {.seed = 1}, x.data(), arena), Status::kOk);
  fill_normal({.seed = 2}, 0, n, g.data());
  ASSERT_EQ(kProductOps.project_tangent(shape, x.data(), g.data(), v.data(), arena), Status::kOk);
  for (Real& entry : v) {
    entry /= 8;
  }
  ASSERT_EQ(kProductOps.retract(shape, x.data(), v.data(), y.data(), arena), Status::kOk);
  const auto expect_parts_own = [&](const char* name, auto operation) {
    ASSERT_EQ(operation(kProductOps, shape, size_t{0}, whole.data()), Status::kOk) << name;
    size_t at = 0;
    for (const Part& part : parts.list()) {
      Vector alone(part.shape.size());
      ASSERT_EQ(operation(*part.ops, part.shape, at, alone.data()), Status::kOk) << name << " " << part.ops->name;
      EXPECT_EQ(std::memcmp(alone.data(), &whole[at], alone.size() * sizeof(Real)), 0) << name << " " << part.ops->name;
      at += alone.size();
    }
  };
  using Ops = const ManifoldOps&;
  expect_parts_own("project_point",
                   [&](Ops ops, Shape s, size_t at, Real* out) { return ops.project_point(s, &g[at], out, arena); });
  again = whole;
  ASSERT_EQ(kProductOps.project_point(shape, again.data(), again.data(), arena), Status::kOk);
  for (size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(again[i], whole[i], 64 * kEpsilon * std::fmax(Real{1}, std::fabs(whole[i]))) << "idempotent, " << i;
  }
  expect_parts_own("project_tangent", [&](Ops ops, Shape s, size_t at, Real* out) {
    return ops.project_tangent(s, &x[at], &g[at], out, arena);
  });
  expect_parts_own("riemannian_gradient", [&](Ops ops, Shape s, size_t at, Real* out) {
    return ops.riemannian_gradient(s, &x[at], &g[at], out, arena);
  });
  expect_parts_own("retract",
                   [&](Ops ops, Shape s, size_t at, Real* out) { return ops.retract(s, &x[at], &v[at], out, arena); });
  expect_parts_own("inverse_retract", [&](Ops ops, Shape s, size_t at, Real* out) {
    return ops.inverse_retract(s, &x[at], &y[at], out, arena);
  });
  expect_parts_own("transport", [&](Ops ops, Shape s, size_t at, Real* out) {
    return ops.transport(s, &x[at], &y[at], &v[at], out, arena);
  });
  Real sum = 0;
  size_t at = 0;
  for (const Part& part : parts.list()) {
    sum += part.ops->inner(part.shape, &x[at], &v[at], &v[at], arena).value();
    at += part.shape.size();
  }
  EXPECT_EQ(kProductOps.inner(shape, x.data(), v.data(), v.data(), arena).value(), sum);
  // The rank of one part is lost: S of the first matrix is 0.
  std::fill(x.begin() + 15 * 3, x.begin() + 18 * 3, Real{0});
  EXPECT_EQ(kProductOps.project_point(shape, x.data(), y.data(), arena), Status::kSingular);
}

// One column of up to 2^24 numbers, of parts that each keep their own limits.
TEST(Product, MayBeLargerThanAnyOfItsParts) {
  Parts parts;
  parts.count = 2;
  parts.part[0] = {&kEuclideanOps, {784, 48}};
  parts.part[1] = {&kEuclideanOps, {48, 10}};
  Shape shape = shape_of(parts);
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kOk);
  EXPECT_EQ(shape.rows, 38112u);
  parts.part[0].shape = {kDimensionMax, kProductSizeMax / kDimensionMax};
  parts.count = 1;
  shape = shape_of(parts);
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kOk);
  parts.count = 2;
  shape = shape_of(parts);
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kInvalidArgument) << "480 numbers too many";
  parts.part[1].shape = {kDimensionMax + 1, 1};
  parts.part[0].shape = {1, 1};
  EXPECT_EQ(kProductOps.check_shape(shape_of(parts)), Status::kInvalidArgument) << "a part beyond its own limit";
}

TEST(Product, RefusesBadListsAndPassesRefusalsOn) {
  Parts parts = network();
  const Shape shape = shape_of(parts);
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kOk);
  EXPECT_EQ(kProductOps.check_shape({shape.rows, 1}), Status::kInvalidArgument) << "no list";
  EXPECT_EQ(kProductOps.check_shape({shape.rows + 1, 1, &parts}), Status::kInvalidArgument) << "a number too many";
  EXPECT_EQ(kProductOps.check_shape({shape.rows / 3, 3, &parts}), Status::kInvalidArgument);
  std::vector<uint64_t> memory(256);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  Vector z(shape.size()), out(shape.size());
  ASSERT_EQ(kProductOps.random_point(shape, {.seed = 1}, z.data(), arena), Status::kOk);
  std::fill(z.end() - 5, z.end(), Real{0});
  EXPECT_EQ(kProductOps.project_point(shape, z.data(), out.data(), arena), Status::kSingular) << "the sphere's zero";
  EXPECT_EQ(kProductOps.exp_map(shape, z.data(), z.data(), out.data(), arena), Status::kUnimplemented);
  parts.part[1].ops = &kProductOps;
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kInvalidArgument) << "a product inside a product";
  parts.part[1].ops = nullptr;
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kInvalidArgument);
  parts.count = 0;
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kInvalidArgument);
  parts.count = kPartCountMax + 1;
  EXPECT_EQ(kProductOps.check_shape(shape), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
