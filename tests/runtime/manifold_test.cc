#include "runtime/manifold/manifold.h"

#include <cstring>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "tests/digest/kernel_hash.h"

namespace gradstream {
namespace {

TEST(Manifold, FindManifoldLooksOnlyAtWhatIsLinked) {
  const ManifoldOps* const linked[] = {&kSphereOps, &kStiefelOps};
  EXPECT_EQ(find_manifold(linked, ManifoldId::kSphere), &kSphereOps);
  EXPECT_EQ(find_manifold(linked, ManifoldId::kStiefel), &kStiefelOps);
  EXPECT_EQ(find_manifold(linked, ManifoldId::kEuclidean), nullptr);
  EXPECT_EQ(find_manifold(linked, ManifoldId::kNone), nullptr);
  EXPECT_EQ(find_manifold({}, ManifoldId::kSphere), nullptr);
}

TEST(Manifold, FindManifoldTakesTheVariantAskedFor) {
  const ManifoldOps* const linked[] = {&kStiefelQrSmoothOps, &kStiefelOps, &kStiefelSmoothOps, &kSphereExponentialOps};
  const auto find = [&](ManifoldId id, RetractionKind retraction, TransportKind transport) {
    return find_manifold(linked, id, retraction, transport);
  };
  using R = RetractionKind;
  using T = TransportKind;
  EXPECT_EQ(find(ManifoldId::kStiefel, R::kDefault, T::kDefault), &kStiefelOps);
  EXPECT_EQ(find(ManifoldId::kStiefel, R::kPolar, T::kProjection), &kStiefelOps);
  EXPECT_EQ(find(ManifoldId::kStiefel, R::kDefault, T::kSmooth), &kStiefelSmoothOps);
  EXPECT_EQ(find(ManifoldId::kStiefel, R::kQr, T::kSmooth), &kStiefelQrSmoothOps);
  EXPECT_EQ(find(ManifoldId::kStiefel, R::kQr, T::kDefault), nullptr) << "qr with projection is not linked";
  EXPECT_EQ(find(ManifoldId::kSphere, R::kDefault, T::kDefault), nullptr) << "only its other variant is linked";
  EXPECT_EQ(find(ManifoldId::kSphere, R::kExponential, T::kDefault), &kSphereExponentialOps);
}

TEST(Manifold, RandomTangentIsTangentAndRepeatable) {
  const Shape shape{5, 1};
  Arena arena(nullptr, 0);
  Real x[5], v[5], again[5];
  ASSERT_EQ(kSphereOps.random_point(shape, {.seed = 3}, x, arena), Status::kOk);
  ASSERT_EQ(random_tangent(kSphereOps, shape, x, {.seed = 4}, v, arena), Status::kOk);
  ASSERT_EQ(random_tangent(kSphereOps, shape, x, {.seed = 4}, again, arena), Status::kOk);
  EXPECT_NEAR(dot(5, x, v), 0, 1e-6);
  EXPECT_GT(norm2(5, v), static_cast<Real>(0.1));
  EXPECT_EQ(std::memcmp(v, again, sizeof(v)), 0);
}

TEST(Manifold, IdsAreTheWiresValues) {
  EXPECT_EQ(static_cast<int>(kEuclideanOps.id), 1);
  EXPECT_EQ(static_cast<int>(kSphereOps.id), 2);
  EXPECT_EQ(static_cast<int>(kStiefelOps.id), 3);
}

TEST(Manifold, KernelsComputeTheSameBitsEverywhere) {
  EXPECT_EQ(testing::kernel_hash(), testing::kKernelHash)
      << std::hex << "the arithmetic of the replicas changed: 0x" << testing::kernel_hash();
}

}  // namespace
}  // namespace gradstream
